"""Files whole or not at all, a full disk in one line."""

import errno
import os

import numpy as np
import pytest

from g2netpl.base import disk
from g2netpl.base.disk import DiskTrouble, told_plainly, write_json
from g2netpl.base.files import atomic_write
from g2netpl.labels.formats import write_labels
from g2netpl.labels.table import LabelTable
from g2netpl.runs.answers import write_provenance


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
    with pytest.raises(DiskTrouble, match="No space left"):
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
    with pytest.raises(DiskTrouble, match="No space left"):
        write_labels(table.take(np.array([0])), path)
    with pytest.raises(DiskTrouble, match="No space left"):
        write_provenance(table.take(np.array([0])), [], beside)
    assert {each: each.read_bytes() for each in tmp_path.iterdir()} == before


@pytest.mark.parametrize("ending", ["csv", "xlsx", "parquet"])
def test_files_of_the_user_with_similar_names_stay(tmp_path, ending):
    """`labels.xlsx.new` was once our own temporary file, and vanished."""
    table = LabelTable(("a.png", "b.png"), ("x", "y"), np.array([[1, 0], [0, 1]], np.int8))
    theirs = tmp_path / f"labels.{ending}.new"
    theirs.write_text("mine")
    write_labels(table, tmp_path / f"labels.{ending}")
    assert theirs.read_text() == "mine"
    assert len(list(tmp_path.iterdir())) == 2
