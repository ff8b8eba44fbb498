"""A cache of images changes not one bit of a batch, a faster decoder hardly any."""

import os
import pickle
import subprocess
import sys

import numpy as np
import pytest
import torch
from odd_images import READABLE, UNREADABLE
from PIL import Image

from g2netpl.base import memory
from g2netpl.base.disk import DiskTrouble
from g2netpl.base.errors import InputError
from g2netpl.images import cache as image_cache
from g2netpl.images import jpeg
from g2netpl.images.cache import CacheBudget, ImageCache, image_bytes
from g2netpl.images.loader import ImageSource, epoch_groups, plain_groups
from g2netpl.images.pixels import open_image, squash, squashed
from g2netpl.images.views import PAIR

SIZE = 24
LEVELS = 4  # grey levels by which two versions of libjpeg may differ
MEAN, STD = (0.5,) * 3, (0.25,) * 3


def batches(source, epochs=2):
    """Plain views before, between and after random ones: what a training asks for."""
    count = len(source)
    seen = []
    for epoch in range(epochs):
        seen += source.load(plain_groups(count, 5), None)
        seen += source.load(epoch_groups(count, 4, 7, epoch), epoch)
    return seen


def paths_of(photos):
    return sorted(str(path) for path in photos.glob("train-*.png"))[:11]


def filled(cache):
    return sum(cache.get(row) is not None for row in range(cache.count))


@pytest.mark.parametrize("view", ["paper", "strong", PAIR])
@pytest.mark.parametrize(("workers", "kept"), [(0, 11), (2, 11), (2, 4)])
def test_batches_are_the_same_bit_for_bit_with_and_without_a_cache(photos, view, workers, kept):
    paths = paths_of(photos)
    plain = batches(ImageSource(paths, SIZE, MEAN, STD, seed=7, view=view))
    cache = ImageCache(kept, SIZE)
    source = ImageSource(paths, SIZE, MEAN, STD, seed=7, view=view, workers=workers, cache=cache)
    for ours, theirs in zip(batches(source), plain, strict=True):
        assert torch.equal(ours, theirs)
    assert filled(cache) == kept


def test_what_is_kept_is_not_decoded_again(tmp_path):
    path = tmp_path / "a.png"
    Image.new("RGB", (40, 30), "red").save(path)
    source = ImageSource([str(path)], SIZE, MEAN, STD, cache=ImageCache(1, SIZE))
    (first,) = source.load([np.arange(1)], None)
    path.unlink()
    (again,) = source.load([np.arange(1)], None)
    assert torch.equal(first, again)


def test_an_unreadable_image_stays_unreadable(photos, tmp_path):
    (tmp_path / "a.png").write_text("no image")
    paths = [str(tmp_path / "a.png"), *paths_of(photos)[:1]]
    cache = ImageCache(2, SIZE)
    source = ImageSource(paths, SIZE, MEAN, STD, max_bad=1, cache=cache)
    for _ in range(2):
        (inputs,) = source.load([np.arange(2)], None)
        assert inputs.flatten(1).isnan().all(dim=1).tolist() == [True, False]
    assert filled(cache) == 1


def test_what_a_cache_gives_cannot_be_written_to():
    cache = ImageCache(1, SIZE)
    cache.put(0, np.full((SIZE, SIZE, 3), 7, dtype=np.uint8))
    with pytest.raises(ValueError, match="read-only"):
        cache.get(0)[0, 0, 0] = 1


FILL = """
import pickle, sys
cache = pickle.loads(bytes.fromhex(sys.argv[1]))
cache.put(1, 9)
assert cache.get(0) is None
"""


@pytest.mark.parametrize("in_memory", [True, False])
def test_a_process_that_was_not_forked_shares_it(in_memory, monkeypatch):
    if not in_memory:
        monkeypatch.setattr(image_cache, "_memory_file", None)
    cache = ImageCache(3, SIZE)
    subprocess.run([sys.executable, "-c", FILL, pickle.dumps(cache).hex()], check=True)
    assert cache.get(0) is None
    assert np.unique(cache.get(1)).tolist() == [9]
    assert filled(cache) == 1


@pytest.mark.parametrize("in_memory", [True, False])
def test_nothing_is_left_of_a_cache(in_memory, monkeypatch, tmp_path):
    monkeypatch.setattr(image_cache.tempfile, "tempdir", str(tmp_path))
    if not in_memory:
        monkeypatch.setattr(image_cache, "_memory_file", None)
    before = set(os.listdir("/proc/self/fd"))
    cache = ImageCache(3, SIZE)
    pickle.loads(pickle.dumps(cache)).put(0, np.zeros((SIZE, SIZE, 3), dtype=np.uint8))
    assert filled(cache) == 1
    assert len(list(tmp_path.iterdir())) == (0 if in_memory else 1)
    del cache
    assert set(os.listdir("/proc/self/fd")) == before
    assert not list(tmp_path.iterdir())


def test_a_budget_is_kept(monkeypatch):
    each = image_bytes(SIZE)

    def kept(budget, count):
        cache, line = budget.make(count, SIZE)
        assert line.startswith("image cache: none" if cache is None else "image cache: ")
        return None if cache is None else cache.count

    monkeypatch.setattr(image_cache, "available_memory", lambda: 40 * each)
    auto = CacheBudget("auto")  # a quarter: 10 images
    assert [kept(auto, count) for count in (7, 4, 3)] == [7, None, 3]
    given = CacheBudget(str(10 * each))
    assert [kept(given, count) for count in (7, 4, 1)] == [7, 3, None]
    assert CacheBudget("off").make(1, SIZE) == (None, "")
    two = CacheBudget(str(10 * each), processes=2)  # 5 images each
    assert [kept(two, count) for count in (2, 7)] == [2, 3]
    with pytest.raises(InputError, match=r"image_cache: 1\.0 GB asked for, but only 0 MB of me"):
        CacheBudget("1GB")


def test_a_line_tells_what_is_kept_or_why_nothing_is(monkeypatch):
    monkeypatch.setattr(image_cache, "available_memory", lambda: 8_000_000)
    _, line = CacheBudget("auto", processes=2).make(5, 224)  # 1 MB each, an image takes 150,529
    assert line == "image cache: 5 images of 224 px, 1 MB of memory in each of 2 processes"
    _, line = CacheBudget("auto").make(1_000, 224)
    assert line == (
        "image cache: none, 1,000 images of 224 px take 151 MB, and there may be 2 MB "
        "(--image-cache SIZE)"
    )
    _, line = CacheBudget("1MB").make(1_000, 224)
    assert line == "image cache: 6 of 1,000 images of 224 px, 1 MB of memory"


def test_no_room_is_one_line(monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "posix_fallocate", full)
    with pytest.raises(DiskTrouble, match=r"no room for 0 MB \(No space left on .*; use --image"):
        ImageCache(1, SIZE)
    cache, line = CacheBudget("auto").make(1, SIZE)
    assert cache is None
    assert "none, image_cache: no room" in line


@pytest.mark.parametrize(
    ("text", "size"), [("500MB", 5 * 10**8), ("1.5 gb", 15 * 10**8), ("12", 12), ("3k", 3000)]
)
def test_sizes(text, size):
    assert memory.parse_size(text) == size


def test_the_limit_of_a_container_counts(monkeypatch, tmp_path):
    free = memory.available_memory()
    assert 0 < free < 10**15
    (tmp_path / "memory.max").write_text("3000000\n")
    (tmp_path / "memory.current").write_text("1000000\n")
    monkeypatch.setattr(memory, "_GROUPS", tmp_path)
    assert memory.available_memory() == 2_000_000
    # copies of files that were read do not count: they make room
    (tmp_path / "memory.stat").write_text("anon 300000\ninactive_file 600000\nactive_file 100000\n")
    assert memory.available_memory() == 2_600_000
    (tmp_path / "memory.max").write_text("max\n")
    assert memory.available_memory() > 2_000_000


class TestFasterDecoder:
    @pytest.fixture(autouse=True)
    def _is_there(self):
        pytest.importorskip("simplejpeg")

    @pytest.mark.parametrize("name", READABLE)
    @pytest.mark.parametrize("size", [4, 32])
    def test_pixels_are_nearly_those_of_pillow(self, tmp_path, name, size):
        path = tmp_path / "image"
        path.write_bytes(READABLE[name]()[0])
        ours = squashed(path, size, "simplejpeg")
        np.testing.assert_allclose(
            ours, squash(open_image(path, size), size).astype(int), atol=LEVELS
        )

    @pytest.mark.parametrize("name", UNREADABLE)
    def test_what_pillow_refuses_is_refused(self, tmp_path, name):
        case = UNREADABLE[name]
        path = tmp_path / "image.jpg"
        case.put(path)
        with pytest.raises(InputError, match=case.says):
            squashed(path, 16, "simplejpeg")

    @pytest.mark.parametrize("mode", ["RGB", "L", "CMYK"])
    @pytest.mark.parametrize("options", [{}, {"progressive": True}, {"subsampling": 0}])
    @pytest.mark.parametrize("turn", [1, 3, 6, 7])
    def test_photos_at_every_scale(self, tmp_path, mode, options, turn, monkeypatch):
        random = np.random.default_rng(0)
        coarse = Image.fromarray(random.integers(0, 255, (6, 9, 3), dtype=np.uint8))
        photo = coarse.resize((333, 221)).convert(mode)
        exif = photo.getexif()
        exif[0x0112] = turn
        photo.save(tmp_path / "a.jpg", exif=exif, **options)
        used = []
        decode = jpeg.decode_jpeg

        def watched(file):
            used.append(decode(file))
            return used[-1]

        monkeypatch.setattr("g2netpl.images.pixels.decode_jpeg", watched)
        for size in (8, 20, 50, 100, 221):
            ours = squashed(tmp_path / "a.jpg", size, "simplejpeg")
            theirs = squash(open_image(tmp_path / "a.jpg", size), size)
            np.testing.assert_allclose(ours, theirs.astype(int), atol=LEVELS)
        assert [pixels is not None for pixels in used] == [mode != "CMYK"] * 5

    def test_damaged_photos_give_what_pillow_gives(self, tmp_path):
        path = tmp_path / "a.jpg"
        random = np.random.default_rng(1)
        noise = random.integers(0, 255, (40, 60, 3), dtype=np.uint8)
        Image.fromarray(noise).save(path)
        whole = path.read_bytes()
        outcomes = set()
        for _ in range(120):
            data = bytearray(whole[: random.integers(300, len(whole) + 1)])
            for place in random.integers(0, len(data), size=random.integers(0, 3)):
                data[place] = random.integers(256)
            path.write_bytes(data)
            results = []
            for decoder in ("pillow", "simplejpeg"):
                try:
                    results.append(squashed(path, 16, decoder).astype(int))
                except InputError as problem:
                    results.append(str(problem))
            if isinstance(results[0], str):
                assert results[0] == results[1]
            else:
                np.testing.assert_allclose(results[1], results[0], atol=LEVELS)
            outcomes.add(type(results[0]))
        assert outcomes == {str, np.ndarray}


def test_a_decoder_that_is_not_there_is_refused(monkeypatch):
    monkeypatch.setattr(jpeg, "find_spec", lambda name: None)
    jpeg.check_decoder("pillow")
    with pytest.raises(InputError, match=r"simplejpeg is not installed; pip install 'g2netpl\[f"):
        jpeg.check_decoder("simplejpeg")
