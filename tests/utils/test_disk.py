"""Files whole or not at all, a full disk in one line."""

import errno
import os

import pytest

from g2netpl.utils import disk
from g2netpl.utils.disk import DiskTrouble, told_plainly, write_json
from g2netpl.utils.files import atomic_write


def test_a_file_is_the_old_one_or_the_complete_new_one(tmp_path, monkeypatch):
    path = tmp_path / "a.json"
    write_json(path, {"a": 1})
    old = path.read_bytes()

    def break_off():
        with atomic_write(path) as file:
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
        words = r"a\.json: No space left.*bytes free"
        with pytest.raises(DiskTrouble, match=words), told_plainly(tmp_path):
            write_json(path, {"a": 2})
    assert [each.name for each in tmp_path.iterdir()] == ["a.json"]
    assert path.read_bytes() == old


def test_what_is_no_trouble_of_the_disk_is_not_told_as_one(tmp_path):
    with pytest.raises(OSError, match="odd"), told_plainly(tmp_path):
        raise OSError("odd")
    with pytest.raises(DiskTrouble, match=r"x: Permission denied$"), told_plainly(tmp_path):
        raise OSError(errno.EACCES, "", "x")
