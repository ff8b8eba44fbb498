"""One process per folder of results."""

import errno
import os
import signal
import stat
import tempfile
import time

import pytest

from g2netpl.base import locks, system
from g2netpl.base.errors import InputError, Refused
from g2netpl.base.locks import check_ours, locked, locked_without_file


def test_one_run_per_folder(tmp_path):
    words = "another process is training there"
    with locked(tmp_path), pytest.raises(Refused, match=words), locked(tmp_path):
        pytest.fail("both")
    with locked(tmp_path):
        pass
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("system", ["POSIX", "Windows"])
def test_a_folder_of_others_is_locked_without_a_file_in_it(tmp_path, monkeypatch, system):
    folder = tmp_path / "photos"
    folder.mkdir()
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    if system == "Windows":
        monkeypatch.setattr(locks, "open_folder", lambda folder: None)
    for _ in range(2):
        with locked_without_file(folder) as is_locked:
            assert is_locked
            assert not list(folder.iterdir())
            with (
                pytest.raises(Refused, match="photos: another g2netpl process writes there"),
                locked_without_file(tmp_path / "temporary/../photos"),
            ):
                pytest.fail("both")
            with locked_without_file(tmp_path):  # another folder
                pass
    assert not list(folder.iterdir())
    secret = tmp_path / "secret"
    secret.write_text("kept")
    for path in list((tmp_path / "temporary").iterdir()):
        path.unlink()
        path.symlink_to(secret)
    if system == "Windows":
        with pytest.raises(InputError, match="is a link"), locked_without_file(folder):
            pytest.fail("through a link")
    assert secret.read_text() == "kept"


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
    (tmp_path / locks.LOCK).touch()
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
        (hold,) = locks._held.values()
        hold.close()  # all that a kill -9 does
        with locked(tmp_path):
            pass
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


def test_a_lock_that_its_owner_removes_at_this_moment_is_not_taken(tmp_path, monkeypatch):
    path, flock, first = tmp_path / locks.LOCK, system.fcntl.flock, [True]

    def removed(descriptor, how):
        if path.exists():  # the first one locks the folder itself
            if first.pop():
                path.unlink()
            first.append(False)
        flock(descriptor, how)

    monkeypatch.setattr(system.fcntl, "flock", removed)
    with locked(tmp_path):
        assert path.exists()
        with pytest.raises(Refused), locked(tmp_path):
            pytest.fail("both")


def test_a_file_system_without_locks_will_do(tmp_path, monkeypatch):
    def cannot(descriptor, how):
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(system.fcntl, "flock", cannot)
    with locked(tmp_path):
        pass


def test_a_lock_that_was_removed_lets_nobody_in(tmp_path):
    with locked(tmp_path):
        (tmp_path / locks.LOCK).unlink()
        with pytest.raises(Refused), locked(tmp_path):
            pytest.fail("both")
        check_ours(tmp_path)  # nothing happened to us
    assert not list(tmp_path.iterdir())


def test_where_folders_have_no_locks_the_first_one_stops(tmp_path, monkeypatch):
    flock = system.fcntl.flock

    def of_files(descriptor, how):
        if stat.S_ISDIR(os.fstat(descriptor).st_mode):
            raise OSError(errno.EBADF, os.strerror(errno.EBADF))
        flock(descriptor, how)

    monkeypatch.setattr(system.fcntl, "flock", of_files)
    with locked(tmp_path):
        check_ours(tmp_path)
        (tmp_path / locks.LOCK).unlink()
        with pytest.raises(Refused, match="was removed"):
            check_ours(tmp_path)
        (tmp_path / locks.LOCK).write_text("of another")
    assert (tmp_path / locks.LOCK).read_text() == "of another"


def test_a_folder_that_was_replaced_is_not_ours(tmp_path):
    run = tmp_path / "run"
    with locked(run):
        run.rename(tmp_path / "moved")
        run.mkdir()
        (run / locks.LOCK).write_text("of another")
        with pytest.raises(Refused, match="the folder replaced"):
            check_ours(run)
    assert (run / locks.LOCK).read_text() == "of another"
