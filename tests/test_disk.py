"""Files whole or not at all, a full disk in one line, one run per folder."""

import errno
import os
import signal
import stat
import time

import numpy as np
import pytest

from g2netpl import disk
from g2netpl.disk import (
    DiskTrouble,
    check_ours,
    locked,
    told_plainly,
    write_json,
    written_whole,
)
from g2netpl.errors import InputError, Refused
from g2netpl.formats import write_labels
from g2netpl.labels import LabelTable
from g2netpl.review_log import write_provenance


def test_a_file_is_the_old_one_or_the_complete_new_one(tmp_path, monkeypatch):
    path = tmp_path / "a.json"
    write_json(path, {"a": 1})
    old = path.read_bytes()

    def break_off():
        with written_whole(path) as file:
            file.write(b"half")
            assert path.read_bytes() == old
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        break_off()
    assert path.read_bytes() == old

    def full(descriptor):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(disk.os, "fsync", full)
        words = r"a\.json\.new: No space left.*bytes free"
        with pytest.raises(DiskTrouble, match=words), told_plainly(tmp_path):
            write_json(path, {"a": 2})
    assert [each.name for each in tmp_path.iterdir()] == ["a.json"]
    assert path.read_bytes() == old


def test_what_is_no_trouble_of_the_disk_is_not_told_as_one(tmp_path):
    with pytest.raises(OSError, match="odd"), told_plainly(tmp_path):
        raise OSError("odd")
    with pytest.raises(DiskTrouble, match=r"x: Permission denied$"), told_plainly(tmp_path):
        raise OSError(errno.EACCES, "", "x")


def test_one_run_per_folder(tmp_path):
    words = "another process is training there"
    with locked(tmp_path), pytest.raises(Refused, match=words), locked(tmp_path):
        pytest.fail("both")
    with locked(tmp_path):
        pass
    assert not list(tmp_path.iterdir())


def test_folders_are_made_and_those_left_empty_removed(tmp_path):
    with locked(tmp_path / "a" / "b"):
        assert (tmp_path / "a" / "b").is_dir()
    assert not list(tmp_path.iterdir())
    with locked(tmp_path / "a" / "b"):
        (tmp_path / "a" / "b" / "run.json").touch()
    assert [path.name for path in (tmp_path / "a" / "b").iterdir()] == ["run.json"]
    with pytest.raises(InputError, match="cannot be made"), locked(tmp_path / "a/b/run.json/c"):
        pytest.fail("made")


def test_what_a_crash_left_locks_nobody_out(tmp_path):
    (tmp_path / disk.LOCK).touch()
    with locked(tmp_path):
        pass


def test_a_child_does_not_keep_the_folder(tmp_path):
    """A loader process may outlive the one that trains, which did not let go itself."""
    ready, tell = os.pipe()
    with locked(tmp_path):
        child = os.fork()
        if child == 0:
            os.write(tell, b"!")
            time.sleep(30)
            os._exit(0)
        os.read(ready, 1)  # the child runs, and has let go of what it was born with
        (hold,) = disk._held.values()
        hold.close()  # all that a kill -9 does
        with locked(tmp_path):
            pass
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


def test_a_lock_that_its_owner_removes_at_this_moment_is_not_taken(tmp_path, monkeypatch):
    path, flock, first = tmp_path / disk.LOCK, disk.fcntl.flock, [True]

    def removed(descriptor, how):
        if path.exists():  # the first one locks the folder itself
            if first.pop():
                path.unlink()
            first.append(False)
        flock(descriptor, how)

    monkeypatch.setattr(disk.fcntl, "flock", removed)
    with locked(tmp_path):
        assert path.exists()
        with pytest.raises(Refused), locked(tmp_path):
            pytest.fail("both")


def test_a_file_system_without_locks_will_do(tmp_path, monkeypatch):
    def cannot(descriptor, how):
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(disk.fcntl, "flock", cannot)
    with locked(tmp_path):
        pass


def test_a_lock_that_was_removed_lets_nobody_in(tmp_path):
    with locked(tmp_path):
        (tmp_path / disk.LOCK).unlink()
        with pytest.raises(Refused), locked(tmp_path):
            pytest.fail("both")
        check_ours(tmp_path)  # nothing happened to us
    assert not list(tmp_path.iterdir())


def test_where_folders_have_no_locks_the_first_one_stops(tmp_path, monkeypatch):
    flock = disk.fcntl.flock

    def of_files(descriptor, how):
        if stat.S_ISDIR(os.fstat(descriptor).st_mode):
            raise OSError(errno.EBADF, os.strerror(errno.EBADF))
        flock(descriptor, how)

    monkeypatch.setattr(disk.fcntl, "flock", of_files)
    with locked(tmp_path):
        check_ours(tmp_path)
        (tmp_path / disk.LOCK).unlink()
        with pytest.raises(Refused, match="was removed"):
            check_ours(tmp_path)
        (tmp_path / disk.LOCK).write_text("of another")
    assert (tmp_path / disk.LOCK).read_text() == "of another"


def test_a_folder_that_was_replaced_is_not_ours(tmp_path):
    run = tmp_path / "run"
    with locked(run):
        run.rename(tmp_path / "moved")
        run.mkdir()
        (run / disk.LOCK).write_text("of another")
        with pytest.raises(Refused, match="the folder replaced"):
            check_ours(run)
    assert (run / disk.LOCK).read_text() == "of another"


@pytest.mark.parametrize("ending", ["csv", "json", "tags.csv"])
def test_a_label_file_that_cannot_be_written_leaves_the_one_before(tmp_path, monkeypatch, ending):
    path = tmp_path / f"labels.{ending}"
    format = {"json": "coco", "tags.csv": "tags"}.get(ending)
    table = LabelTable(("a.png", "b.png"), ("x", "y"), np.array([[1, 0], [0, 1]], np.int8))
    write_labels(table, path, format)
    before = path.read_bytes()

    def full(descriptor):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(disk.os, "fsync", full)
    with pytest.raises(InputError, match="No space left"):
        write_labels(table.take(np.array([0])), path, format)
    assert path.read_bytes() == before
    assert [each.name for each in tmp_path.iterdir()] == [path.name]


def test_files_that_stand_beside_others_are_whole_too(tmp_path, monkeypatch):
    """The three arrays of the benchmark, and where reviewed labels come from."""
    path, beside = tmp_path / "formatted_train_labels.npy", tmp_path / "labels.provenance.csv"
    table = LabelTable(("a.png", "b.png"), ("x", "y"), np.array([[1, 0], [0, 1]], np.int8))
    write_labels(table, path)
    assert np.load(path).tolist() == [[1, 0], [0, 1]]
    write_provenance(table, [], beside)
    before = {each: each.read_bytes() for each in tmp_path.iterdir()}
    assert len(before) == 4

    def full(descriptor):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(disk.os, "fsync", full)
    with pytest.raises(InputError, match="No space left"):
        write_labels(table.take(np.array([0])), path)
    with pytest.raises(InputError, match="No space left"):
        write_provenance(table.take(np.array([0])), [], beside)
    assert {each: each.read_bytes() for each in tmp_path.iterdir()} == before
