"""Features and activations in the cache: of these images, resumable, safe for two processes."""

import errno
import os
import threading
import time
from pathlib import Path

import numpy as np
import pytest
import torch

from g2netpl.core.models import build_backbone
from g2netpl.images import feature_cache
from g2netpl.images.feature_cache import (
    ActivationSource,
    cache_key,
    file_bytes,
    get_or_compute,
)
from g2netpl.images.loader import ImageSource, MirroredSubset
from g2netpl.utils import distributed
from g2netpl.utils.errors import InputError

KEY = "0123456789abcdef" * 2
SHAPE = (2, 3)
ALL = list(range(7))


class Photos:
    """Files whose features follow from their two bytes; an empty one cannot be read."""

    def __init__(self, folder):
        self.folder, self.computed, self.said = folder / "photos", [], []
        self.folder.mkdir()
        for number in range(7):
            self.write(number, bytes([number, 10 * number]))

    def write(self, number, content):
        (self.folder / str(number)).write_bytes(content)

    @property
    def paths(self):
        return [str(self.folder / str(number)) for number in range(7)]

    def expected(self):
        contents = [list((self.folder / str(number)).read_bytes()) for number in range(7)]
        return np.array([each * 3 or [np.nan] * 6 for each in contents], "f4").reshape(-1, *SHAPE)

    def compute(self, rows):
        self.computed += rows.tolist()
        return self.expected()[rows]

    def get(self, cache, kind=np.float16):
        """Check the features, and return the rows that had to be computed."""
        self.computed = []
        how = {"compute": self.compute, "kind": kind, "say": self.said.append}
        values = get_or_compute(cache, KEY, self.paths, SHAPE, **how)
        assert isinstance(values, np.memmap)
        assert values.dtype == kind
        assert not values.flags.writeable
        np.testing.assert_array_equal(values, self.expected())
        return self.computed


@pytest.fixture
def photos_of(tmp_path):
    return Photos(tmp_path)


@pytest.mark.parametrize(("kind", "name"), [(np.float16, "f16"), (np.float32, "f32")])
def test_features_are_computed_once_and_are_a_npy_file(photos_of, tmp_path, kind, name):
    assert photos_of.get(tmp_path, kind) == ALL
    assert photos_of.get(tmp_path, kind) == []
    path = tmp_path / f"{KEY}.{name}.npy"
    np.testing.assert_array_equal(np.load(path), photos_of.expected())
    assert path.stat().st_size == file_bytes(7, SHAPE, kind)


def test_only_changed_and_unreadable_images_are_computed_again(photos_of, tmp_path):
    photos_of.write(2, b"")
    assert photos_of.get(tmp_path) == ALL
    assert photos_of.get(tmp_path) == [2]  # tried again
    photos_of.write(2, b"xy")
    assert photos_of.get(tmp_path) == [2]
    photos_of.write(5, b"zz")
    os.utime(photos_of.folder / "5", ns=(1, 1))
    assert photos_of.get(tmp_path) == [5]
    assert photos_of.get(tmp_path) == []


@pytest.mark.parametrize("part", ["", ".done"])
@pytest.mark.parametrize("damage", [lambda data: data[:-1], lambda data: b"x" * len(data)])
def test_a_damaged_file_is_computed_again(photos_of, tmp_path, part, damage):
    photos_of.get(tmp_path)
    path = tmp_path / f"{KEY}.f16{part}.npy"
    path.write_bytes(damage(path.read_bytes()))
    assert photos_of.get(tmp_path) == ALL
    assert photos_of.get(tmp_path) == []


def test_a_killed_process_loses_one_block(photos_of, tmp_path, monkeypatch):
    monkeypatch.setattr(feature_cache, "_BLOCK", 13)  # two images, so there are four blocks
    child = os.fork()
    if not child:
        compute = lambda rows: photos_of.expected()[rows] if rows[0] < 4 else os._exit(9)  # noqa: E731
        get_or_compute(tmp_path, KEY, photos_of.paths, SHAPE, compute)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 9
    assert photos_of.get(tmp_path) == [4, 5, 6]
    assert "4 of 7 images are in the cache" in photos_of.said[0]


def test_a_second_process_waits_for_the_first(photos_of, tmp_path):
    started, go_on = os.pipe(), os.pipe()
    child = os.fork()
    if not child:

        def compute(rows):
            os.write(started[1], b".")
            os.read(go_on[0], 1)
            return photos_of.expected()[rows]

        get_or_compute(tmp_path, KEY, photos_of.paths, SHAPE, compute)
        os._exit(0)
    os.read(started[0], 1)
    threading.Timer(0.3, lambda: os.write(go_on[1], b".")).start()
    assert photos_of.get(tmp_path) == []
    assert "waiting for another process" in photos_of.said[0]
    assert os.waitpid(child, 0)[1] == 0


def test_only_rank_0_writes_and_all_ranks_compute_the_same_rows(photos_of, tmp_path, monkeypatch):
    monkeypatch.setattr(distributed, "is_main", lambda: False)
    monkeypatch.setattr(distributed, "broadcast", lambda rows: np.array([1, 4]))
    with pytest.raises(InputError, match="all ranks must share one --cache folder"):
        get_or_compute(tmp_path / "mine", KEY, photos_of.paths, SHAPE, photos_of.compute)
    assert photos_of.computed == [1, 4]
    assert not (tmp_path / "mine").exists()


def full(*_):
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_a_folder_that_cannot_be_used_is_reported_before_the_work(photos_of, tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="name another with --set cache=FOLDER"):
        photos_of.get(tmp_path / "file")
    with monkeypatch.context() as patch:
        patch.setattr(os, "posix_fallocate", full)
        with pytest.raises(
            InputError, match=r"No space left .*; name another with --set cache=FOLDER"
        ):
            photos_of.get(tmp_path)
    assert not list(tmp_path.glob("*.npy"))
    monkeypatch.setattr("platformdirs.user_cache_path", lambda *_, **__: Path("~/.cache"))
    with pytest.raises(InputError, match=r"no home folder .*; set XDG_CACHE_HOME"):
        photos_of.get(None)
    assert photos_of.computed == []


def test_the_oldest_tables_are_removed_beyond_the_limit(photos_of, tmp_path, monkeypatch):
    a, b, c = (letter * 32 for letter in "abc")
    ages = {f"{a}.f16.npy": 10, f"{a}.f16.done.npy": 10, f"{b}.f32.npy": 7, f"{c}.f16.npy": 0.5}
    others = {"volume.npy": 30, f"{a}.f32.npy.bak": 30}
    for name, days in (ages | others).items():
        (tmp_path / name).write_bytes(bytes(1000))
        os.utime(tmp_path / name, (0, time.time() - days * 86400))
    (tmp_path / f"{'d' * 32}.f16.npy").symlink_to(tmp_path / "nowhere")
    monkeypatch.setenv("G2NETPL_FEATURE_CACHE", "3KB")
    photos_of.get(tmp_path)
    left = {path.name for path in tmp_path.glob("*.npy*") if not path.name.startswith(KEY)}
    assert left == {f"{b}.f32.npy", f"{c}.f16.npy", f"{'d' * 32}.f16.npy", *others}
    monkeypatch.setenv("G2NETPL_FEATURE_CACHE", "0")
    photos_of.get(tmp_path)
    assert not (tmp_path / f"{b}.f32.npy").exists()
    assert (tmp_path / f"{c}.f16.npy").exists()  # used within the last day
    assert photos_of.get(tmp_path) == []
    monkeypatch.setenv("G2NETPL_FEATURE_CACHE", "a lot")
    with pytest.raises(InputError, match="G2NETPL_FEATURE_CACHE=a lot: must be a size"):
        photos_of.get(tmp_path)


def test_the_key_depends_on_weights_paths_and_transform(photos):
    module, other = build_backbone("tiny").module, build_backbone("tiny", seed=1).module
    paths = sorted(str(path) for path in photos.glob("*.png"))
    keys = {
        cache_key(module, paths, "64"),
        cache_key(other, paths, "64"),
        cache_key(module, paths[1:], "64"),
        cache_key(module, paths, "32"),
    }
    assert len(keys) == 4
    assert cache_key(module, [os.path.relpath(path) for path in paths], "64") in keys


def test_cached_augmentations_are_those_of_the_images(photos):
    paths = sorted(str(path) for path in photos.glob("*.png"))[:30]
    pixels = ImageSource(paths, 16, (0.5,) * 3, (0.25,) * 3, seed=4)
    rows = np.random.default_rng(0).permutation(30)
    plain, mirrored = (
        next(iter(source.load([np.arange(30)], None))).numpy().astype(np.float16)
        for source in (pixels, MirroredSubset(pixels, np.arange(30)))
    )
    source = ActivationSource(plain, mirrored, seed=4)
    assert len(source) == 30
    for epoch in (0, 1, 5, None):
        groups = np.array_split(rows, 4)
        for one, two in zip(pixels.load(groups, epoch), source.load(groups, epoch), strict=True):
            assert two.dtype == torch.float32
            torch.testing.assert_close(two, one, atol=2e-3, rtol=0)
