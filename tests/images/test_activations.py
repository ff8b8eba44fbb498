"""Activations that are kept: of these very images, read from the file."""

import os
import time

import numpy as np
import pytest
import torch
from small_pictures import SmallPictures

from g2netpl.base import disk
from g2netpl.base.disk import DiskTrouble
from g2netpl.base.errors import InputError
from g2netpl.images import kept_tables
from g2netpl.images.activations import ActivationSource, Mirroring
from g2netpl.images.kept_tables import kept
from g2netpl.images.loader import ImageSource, MirroredPart
from g2netpl.images.table_in_making import file_bytes

SHAPE = (2, 3)


class Pictures(SmallPictures):
    """Their activations are their bytes as often as there is room; empty: unreadable."""

    def made(self):
        found = [each * 3 or [np.nan] * 6 for each in self.contents()]
        return np.array(found, np.float32).reshape(-1, *SHAPE)

    def get(self, cache, **named):
        """The rows that had to be computed."""
        before = len(self.asked)
        found = kept(cache, "key", self.paths, SHAPE, self.compute, **named)
        assert isinstance(found, np.memmap)
        assert found.dtype == np.float16
        np.testing.assert_array_equal(found, self.made())
        return self.asked_since(before)


@pytest.fixture
def pictures(tmp_path):
    return Pictures(tmp_path, "abcdefg")


EVERY = list(range(7))


def test_they_are_computed_once_a_block_at_a_time(pictures, tmp_path, monkeypatch):
    monkeypatch.setattr(kept_tables, "_BLOCK", 13)  # two images
    assert pictures.get(tmp_path) == EVERY
    assert max(map(len, pictures.asked)) == 2
    assert pictures.get(tmp_path) == []
    assert (tmp_path / "key.f16").stat().st_size == file_bytes(7, SHAPE)


def test_a_file_of_another_size_is_noticed_and_told(pictures, tmp_path):
    pictures.get(tmp_path)
    path, said = tmp_path / "key.f16", []
    content = path.read_bytes()
    for changed in (content[:-1], b"", content + b"!"):
        path.write_bytes(changed)
        assert pictures.get(tmp_path, say=said.append) == EVERY
        assert path.read_bytes() == content
    assert len(said) == 3
    assert all(line.startswith(f"{path}: ") and "computed anew" in line for line in said)


def test_a_picture_that_was_replaced_is_computed_again_alone(pictures, tmp_path):
    pictures.get(tmp_path)
    pictures.write("b", b"zz")
    os.utime(pictures.folder / "b", ns=(1, 1))
    assert pictures.get(tmp_path) == [1]
    assert pictures.get(tmp_path) == []


def test_large_numbers_are_the_largest_there_are(tmp_path):
    (tmp_path / "one").write_bytes(b"1")
    found = kept(
        tmp_path, "key", [str(tmp_path / "one")], (2,), lambda rows: np.float32([[1e9, -1e9]])
    )
    assert found.tolist() == [[65504, -65504]]


def test_too_little_room_is_told_before_the_work(pictures, tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="name another folder with --cache"):
        pictures.get(tmp_path / "file")
    monkeypatch.setattr(disk, "free_bytes", lambda folder: 100)
    with pytest.raises(DiskTrouble, match="bytes needed"):
        pictures.get(tmp_path)
    assert pictures.asked == []


def test_the_views_of_training_are_those_of_the_images(photos):
    paths = sorted(str(path) for path in photos.glob("*.png"))[:30]
    pixels = ImageSource(paths, 16, (0.5,) * 3, (0.25,) * 3, seed=4)
    rows = np.random.default_rng(0).permutation(30)
    plain, mirrored = (
        next(iter(source.load([np.arange(30)], None))).numpy().astype(np.float16)
        for source in (pixels, MirroredPart(pixels, np.arange(30)))
    )
    source = ActivationSource(plain, [Mirroring(plain, mirrored, seed=4)])
    assert len(source) == 30
    for epoch in (0, 1, 5, None):
        groups = np.array_split(rows, 4)
        for one, two in zip(pixels.load(groups, epoch), source.load(groups, epoch), strict=True):
            assert two.dtype == torch.float32
            torch.testing.assert_close(two, one, atol=2e-3, rtol=0)
    (found,) = ActivationSource(plain).load([rows], 1)
    np.testing.assert_array_equal(found, plain[rows].astype(np.float32))


@pytest.fixture
def small_blocks(monkeypatch):
    monkeypatch.setattr(kept_tables, "_BLOCK", 13)  # of two images; seven make four blocks


def test_who_was_killed_goes_on(pictures, tmp_path, small_blocks):
    child = os.fork()
    if not child:
        kept(
            tmp_path,
            "key",
            pictures.paths,
            SHAPE,
            lambda rows: pictures.made()[rows] if rows[0] < 4 else os._exit(9),
        )
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 9
    assert pictures.get(tmp_path) == [4, 5, 6]


def test_tables_that_were_not_used_for_longest_make_room(pictures, tmp_path, monkeypatch):
    monkeypatch.setattr(kept_tables, "MOST", 250)
    a, b, c, d = (f"{letter * 32}.f16" for letter in "abcd")
    ages = {a: 10, b: 7, f"{c}.part": 4, d: 0.5, "e.npy": 20, "volume.f16": 30}
    for name, days in ages.items():
        (tmp_path / name).write_bytes(bytes(100))
        os.utime(tmp_path / name, (0, time.time() - days * 86400))
    said = []
    pictures.get(tmp_path, say=said.append)
    assert {path.name for path in tmp_path.glob("*.*")} == {*ages, "key.f16"} - {a, b}
    told = "removed, 0 MB that were not used for"
    starts = [f"{tmp_path}/{a}: {told} 10 days; ", f"{tmp_path}/{b}: {told} 7 days; "]
    assert [line.startswith(start) for line, start in zip(said, starts, strict=True)] == [True] * 2
    monkeypatch.setattr(kept_tables, "MOST", 0)
    (tmp_path / "key.f16").unlink()
    pictures.get(tmp_path)
    assert (tmp_path / d).exists()  # of the last day
    assert not (tmp_path / f"{c}.part").exists()
