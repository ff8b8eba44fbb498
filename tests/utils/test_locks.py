"""One process per folder of results."""

import errno
import os
import signal
import subprocess
import sys
import tempfile

import filelock
import pytest

from g2netpl.utils.errors import InputError
from g2netpl.utils.locks import LOCK, locked, locked_without_file


def test_one_run_per_folder(tmp_path):
    words = "another g2netpl process uses it"
    with locked(tmp_path), pytest.raises(InputError, match=words), locked(tmp_path):
        pytest.fail("both")
    with locked(tmp_path):
        pass
    assert not list(tmp_path.iterdir())


def test_a_folder_of_others_is_locked_without_a_file_in_it(tmp_path, monkeypatch):
    folder, temporary = tmp_path / "photos", tmp_path / "temporary"
    folder.mkdir()
    temporary.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    for _ in range(2):
        with locked_without_file(folder):
            assert not list(folder.iterdir())
            (lock,) = temporary.iterdir()
            with (
                pytest.raises(InputError, match="photos: another g2netpl process writes there"),
                locked_without_file(temporary / "../photos"),
            ):
                pytest.fail("both")
            with locked_without_file(tmp_path):  # another folder
                pass
    assert not [*folder.iterdir(), *temporary.iterdir()]
    secret = tmp_path / "secret"
    secret.write_text("kept")
    lock.symlink_to(secret)
    with pytest.raises(InputError, match="is a link"), locked_without_file(folder):
        pytest.fail("through a link")
    assert secret.read_text() == "kept"


def test_what_a_crash_left_locks_nobody_out(tmp_path):
    script = (
        "import os, signal, sys, pathlib\n"
        "from g2netpl.utils.locks import locked\n"
        "with locked(pathlib.Path(sys.argv[1])):\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    ended = subprocess.run([sys.executable, "-c", script, str(tmp_path)], check=False)
    assert ended.returncode == -signal.SIGKILL
    assert (tmp_path / LOCK).exists()
    with locked(tmp_path):
        pass


def test_a_file_system_without_locks_will_do(tmp_path, monkeypatch):
    def cannot(*_, **__):
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(filelock.FileLock, "acquire", cannot)
    with locked(tmp_path):
        pass
    assert not list(tmp_path.iterdir())
