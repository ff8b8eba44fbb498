"""Near-duplicates: the same picture in another size or quality is found, another picture is not."""

import io
from itertools import combinations

import numpy as np
import pytest
from PIL import Image, ImageEnhance

from g2netpl.images.duplicates import MAX_BITS, named_groups, near_duplicates, phash, same_files


def picture(seed, size=(320, 240)):
    """Spots of all sizes, the large ones with more contrast, as in photos."""
    random, pixels = np.random.default_rng(seed), np.zeros((size[1], size[0], 3))
    for side in (2, 4, 8, 16, 32):
        spots = Image.fromarray(random.integers(0, 256, (side, side, 3), dtype=np.uint8))
        pixels += np.asarray(spots.resize(size, Image.Resampling.BILINEAR)) / side
    return Image.fromarray(pixels.clip(0, 255).astype(np.uint8))


def as_jpeg(image):
    file = io.BytesIO()
    image.save(file, "JPEG", quality=30)
    return Image.open(file)


def bits(one, other):
    return (one ^ other).bit_count()


@pytest.mark.parametrize(
    "change",
    [
        lambda image: image.resize((100, 130)),
        as_jpeg,
        lambda image: ImageEnhance.Brightness(image).enhance(0.8),
        lambda image: image.convert("L").convert("RGB"),
        lambda image: image.crop((2, 2, 318, 238)),
    ],
)
def test_a_changed_picture_looks_the_same(change):
    for seed in range(20):
        assert bits(phash(picture(seed)), phash(change(picture(seed)))) <= MAX_BITS


def test_other_pictures_look_different():
    looks = [phash(picture(seed)) for seed in range(100)]
    distances = [bits(one, other) for one, other in combinations(looks, 2)]
    assert min(distances) > MAX_BITS
    assert 28 < np.mean(distances) < 34  # half of 63 bits


def test_pictures_without_contrast_look_the_same():
    assert {phash(Image.new("RGB", (50, 40), grey)) for grey in ("black", "gray", "white")} == {0}


def by_hand(looks, parts):
    """All pairs, one after the other, and the groups that they make."""
    near = [(i, j) for i, j in combinations(range(len(looks)), 2) if bits(looks[i], looks[j]) <= 8]
    groups = list(range(len(looks)))
    for i, j in near:
        old, new = groups[j], groups[i]
        groups = [new if group == old else group for group in groups]
    return near, sum(parts[i] != parts[j] for i, j in near), groups


def same_partition(one, other):
    pairs = set(zip(one, other, strict=True))
    return len(pairs) == len(set(one)) == len(set(other))


@pytest.mark.parametrize("seed", range(5))
def test_all_pairs_are_found_in_blocks(seed, monkeypatch):
    monkeypatch.setattr("g2netpl.images.duplicates._CELLS", 500)  # many blocks
    random = np.random.default_rng(seed)
    looks = []
    for start in random.integers(0, 2**63, 12).tolist():
        for _ in range(random.integers(1, 9)):
            looks.append(start)
            for bit in random.choice(63, random.integers(0, 6), replace=False).tolist():
                start ^= 1 << bit
    random.shuffle(looks)
    parts = random.integers(0, 3, len(looks)).tolist()
    near, apart, groups = by_hand(looks, parts)
    found = near_duplicates(looks, parts)
    assert len(near) > 10
    assert (found.pairs, found.apart) == (len(near), apart)
    assert same_partition(found.groups.tolist(), groups)


def test_groups_that_are_there_are_joined():
    looks, names = [0, 1, 2**62 - 1, 2**50 - 1 << 13], ["", "zoo", "zoo", ""]
    found = near_duplicates(looks, [0, 0, 1, 1], np.array([0, 1, 1, 2]))
    assert (found.pairs, found.apart) == (1, 0)
    assert same_partition(found.groups.tolist(), [0, 0, 0, 1])
    assert named_groups(list("abcd"), names, found.groups) == dict.fromkeys("abc", "zoo")
    assert named_groups(list("abcd"), [""] * 4, found.groups) == dict.fromkeys("abc", "a")


def test_the_same_file_is_known_by_place_and_by_content(tmp_path):
    content = {"a": b"one", "b": b"two", "c": b"three", "e": b"", "copy": b"two", "new": b"six"}
    for name, text in content.items():
        (tmp_path / name).write_bytes(text)
    (tmp_path / "link").symlink_to("c")
    (tmp_path / "empty").write_bytes(b"")
    mine = [str(tmp_path / name) for name in ("a", "b", "c", "e", "gone")]
    names = ("new", "copy", "link", "empty", "also-gone", "a")
    others = [str(tmp_path / name) for name in names]
    assert same_files(mine, others) == [(1, 1), (2, 2), (0, 5)]
    (tmp_path / "copy").write_bytes(b"2wo")
    assert same_files(mine, others) == [(2, 2), (0, 5)]
