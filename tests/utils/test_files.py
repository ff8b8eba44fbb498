"""Files are written whole, under random names, and never through a link."""

import os
import stat

import pytest

from g2netpl.utils.errors import InputError
from g2netpl.utils.files import (
    appending,
    atomic_write,
    check_no_links,
    is_temporary,
    open_in_place,
    remove_temporary,
    write_bytes,
)


def test_a_link_is_replaced_and_its_target_untouched(tmp_path):
    outside, path = tmp_path / "outside", tmp_path / "result.json"
    outside.write_bytes(b"theirs")
    path.symlink_to(outside)
    write_bytes(path, b"ours")
    assert (outside.read_bytes(), path.read_bytes()) == (b"theirs", b"ours")
    assert not path.is_symlink()


def test_names_of_temporary_files_are_random_and_never_those_of_users(tmp_path):
    path = tmp_path / "labels.csv"
    for name in ("labels.csv.new", "labels.csv.tmp", f"labels.csv.{os.getpid()}.new"):
        (tmp_path / name).write_text("of the user")
    before = {each.name for each in tmp_path.iterdir()}
    seen = set()
    for _ in range(20):
        with atomic_write(path) as file:
            file.write(b"x")
            (temporary,) = {each.name for each in tmp_path.iterdir()} - before - {path.name}
        assert is_temporary(temporary)
        seen.add(temporary)
    assert len(seen) == 20
    assert {each.name for each in tmp_path.iterdir()} == before | {path.name}


def test_a_new_file_has_usual_permissions_and_a_replaced_one_keeps_its_own(tmp_path):
    before = os.umask(0o027)
    try:
        write_bytes(tmp_path / "new", b"")
        (tmp_path / "old").write_bytes(b"")
        (tmp_path / "old").chmod(0o600)
        write_bytes(tmp_path / "old", b"")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "new").stat().st_mode) == 0o640
    assert stat.S_IMODE((tmp_path / "old").stat().st_mode) == 0o600


def test_what_is_appended_never_reaches_another_file(tmp_path):
    outside = tmp_path / "profile"
    outside.write_bytes(b"theirs")
    (tmp_path / "link").symlink_to(outside)
    os.link(outside, tmp_path / "hard link")
    os.mkfifo(tmp_path / "pipe")
    for name, words in (
        ("link", "is a link; expected a regular file"),
        ("hard link", "is a link; expected a regular file"),
        ("pipe", "is not a regular file"),
    ):
        for flags in (os.O_WRONLY | os.O_APPEND | os.O_CREAT, os.O_RDWR):
            with pytest.raises(InputError, match=f"{name}: {words}"):
                open_in_place(tmp_path / name, flags)
    with appending(tmp_path / "log") as file:
        file.write(b"1\n")
    with appending(tmp_path / "log") as file:
        file.write(b"2\n")
    assert ((tmp_path / "log").read_bytes(), outside.read_bytes()) == (b"1\n2\n", b"theirs")


@pytest.mark.parametrize("place", ["", "runs/a cell"])
@pytest.mark.parametrize("kind", ["file", "folder", "nowhere", "pipe"])
def test_a_folder_with_anything_but_files_and_folders_is_rejected(tmp_path, place, kind):
    folder, outside = tmp_path / "run", tmp_path / "outside"
    (folder / place).mkdir(parents=True)
    (folder / place / "run.json").write_text("{}")
    check_no_links(folder)
    path = folder / place / "odd"
    if kind == "pipe":
        os.mkfifo(path)
    else:
        path.symlink_to(outside)
    if kind == "folder":
        outside.mkdir()
    elif kind == "file":
        outside.write_bytes(b"")
    words = "is not a regular file" if kind == "pipe" else "is a link; expected a regular file"
    with pytest.raises(InputError, match=f"odd: {words}"):
        check_no_links(folder)
    (tmp_path / "by link").symlink_to(folder)
    path.unlink()
    check_no_links(tmp_path / "by link")  # which its owner named
    check_no_links(tmp_path / "not there")


def test_only_our_own_leftovers_are_removed(tmp_path):
    ours = ".run.json.g2netpl-0123456789abcdef.tmp"
    kept = [".run.json.g2netpl-xyz.tmp", "run.json.new", "a.tmp", f"my{ours}x", ".lock"]
    for name in (ours, *kept):
        (tmp_path / name).write_text("")
    linked = ".a.g2netpl-0123456789abcdef.tmp"
    (tmp_path / linked).symlink_to(tmp_path / ".lock")
    remove_temporary(tmp_path)
    assert sorted(os.listdir(tmp_path)) == sorted([*kept, linked])
