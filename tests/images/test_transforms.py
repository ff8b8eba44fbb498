import random

import numpy as np
import pytest
import torch
from PIL import Image

from g2netpl.images.pixels import resize
from g2netpl.images.transforms import apply

SIZE, REACH = 32, 4  # a shift goes up to an eighth
NAMES = ["plain", "paper", "weak", "strong"]
RANDOM = ["paper", "weak", "strong"]


def augmented(name, image, size, key):
    return apply(name, resize(image, size), key)


@pytest.fixture(scope="module")
def pattern():
    """Each pixel tells its own row and column, so a shift can be read off."""
    down, across = np.mgrid[0:SIZE, 0:SIZE]
    return np.stack([down * 7, across * 7, (down * 5 + across * 3) % 256], -1).astype(np.uint8)


@pytest.fixture(scope="module")
def image(pattern):
    return Image.fromarray(pattern)


def keys(count):
    return [(7, epoch, row) for epoch in range(2) for row in range(count // 2)]


@pytest.mark.parametrize("name", NAMES)
def test_an_augmentation_is_square_bytes_and_leaves_the_image(name, image, pattern):
    wide = Image.fromarray(np.random.default_rng(0).integers(0, 256, (30, 80, 3), dtype=np.uint8))
    for size in (1, 7, 24):
        pixels = augmented(name, wide, size, (0, 0, 0))
        assert pixels.shape == (size, size, 3)
        assert pixels.dtype == np.uint8
        if name == "plain":
            np.testing.assert_array_equal(pixels, resize(wide, size))
    augmented(name, image, SIZE, (0, 0, 0))[...] = 0
    np.testing.assert_array_equal(np.asarray(image), pattern)


@pytest.mark.parametrize("name", NAMES)
def test_the_same_key_gives_the_same_and_no_global_random_state_is_touched(
    name, image, monkeypatch
):
    monkeypatch.setattr(torch.cuda, "manual_seed_all", lambda _: pytest.fail("CUDA is seeded"))
    monkeypatch.setattr(torch.cuda, "manual_seed", lambda _: pytest.fail("CUDA is seeded"))
    first = [augmented(name, image, SIZE, key) for key in keys(20)]
    torch.default_generator.manual_seed(2)
    np.random.seed(2)
    before = torch.get_rng_state(), str(np.random.get_state()), random.getstate()
    again = [augmented(name, image, SIZE, key) for key in reversed(keys(20))]
    np.testing.assert_array_equal(first, again[::-1])
    assert torch.equal(torch.get_rng_state(), before[0])
    assert (str(np.random.get_state()), random.getstate()) == before[1:]


def test_paper_mirrors_about_half_of_the_images(image, pattern):
    mirrored = 0
    for key in keys(400):
        pixels = augmented("paper", image, SIZE, key)
        turned = np.array_equal(pixels, np.fliplr(pattern))
        assert turned or np.array_equal(pixels, pattern)
        mirrored += turned
    assert 160 < mirrored < 240  # four standard deviations of 10


def shift_of(pixels, pattern):
    """Where the middle of the view comes from; (mirrored, rows down, columns right)."""
    middle = SIZE // 2
    for mirrored in (False, True):
        source = np.fliplr(pattern) if mirrored else pattern
        found = np.argwhere((source == pixels[middle, middle]).all(-1))
        right = pixels[middle, middle + 1]
        for row, column in found:
            if column + 1 < SIZE and (source[row, column + 1] == right).all():
                return mirrored, middle - row, middle - column
    return None


def test_weak_shows_the_shifted_image_and_nothing_else(image, pattern):
    shifts = []
    for key in keys(300):
        pixels = augmented("weak", image, SIZE, key)
        mirrored, down, across = shift_of(pixels, pattern)
        source = np.fliplr(pattern) if mirrored else pattern
        moved = np.roll(source, (down, across), axis=(0, 1))
        top, bottom = max(down, 0), SIZE + min(down, 0)
        left, right = max(across, 0), SIZE + min(across, 0)
        np.testing.assert_array_equal(pixels[top:bottom, left:right], moved[top:bottom, left:right])
        shifts.append((down, across))
    for along in zip(*shifts, strict=True):
        assert set(along) == set(range(-REACH, REACH + 1))
        assert abs(np.mean(along)) < 0.6  # four standard errors of 2.58 / √300
    assert abs(np.corrcoef(np.transpose(shifts))[0, 1]) < 0.25


def test_strong_differs_from_weak_and_erases_a_rectangle(image):
    grey = 0
    for key in keys(60):
        strong = augmented("strong", image, SIZE, key)
        assert (strong != augmented("weak", image, SIZE, key)).any()
        erased = (strong == 127).all(-1)
        rows, columns = np.flatnonzero(erased.any(1)), np.flatnonzero(erased.any(0))
        grey += erased[rows[0] : rows[-1] + 1, columns[0] : columns[-1] + 1].all()
        assert 0.01 <= erased.mean() <= 0.45
    assert grey >= 50  # a stray grey pixel elsewhere hides some
