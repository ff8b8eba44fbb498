import multiprocessing

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from g2netpl.images.loader import ArraySource, ImageSource, Subset, epoch_groups, plain_groups
from g2netpl.images.sources import locate
from g2netpl.images.transforms import PAIR


@given(count=st.integers(1, 200), size=st.integers(1, 64), epoch=st.integers(0, 5))
def test_an_epoch_visits_every_image_once_in_even_batches(count, size, epoch):
    groups = epoch_groups(count, size, seed=3, epoch=epoch)
    assert sorted(np.concatenate(groups)) == list(range(count))
    sizes = [len(group) for group in groups]
    assert max(sizes) <= size
    assert max(sizes) - min(sizes) <= 1
    assert np.concatenate(plain_groups(count, size)).tolist() == list(range(count))


def test_the_order_depends_on_seed_and_epoch_alone():
    keys = ((1, 2), (1, 2), (1, 3), (2, 2))
    orders = [tuple(np.concatenate(epoch_groups(50, 8, *key))) for key in keys]
    assert orders[0] == orders[1]
    assert len(set(orders)) == 3


def test_a_part_loads_its_own_rows():
    part = Subset(ArraySource(torch.arange(20).float()[:, None]), np.arange(5, 15))
    groups = epoch_groups(len(part), 4, 0, 0)
    for rows, inputs in zip(groups, part.load(groups, 0), strict=True):
        assert inputs[:, 0].tolist() == (rows + 5).tolist()


@pytest.mark.parametrize("start", ["fork", "spawn"])  # as on Linux; as on Windows and macOS
def test_images_are_the_same_for_any_number_of_workers(photos, start):
    names = sorted(path.name for path in photos.glob("train-*.png"))[:12]
    before, made = multiprocessing.get_start_method(), []
    multiprocessing.set_start_method(start, force=True)
    try:
        for workers in (0, 1, 2) if start == "fork" else (0, 1):
            sizes = {"seed": 4, "workers": workers}
            source = ImageSource(locate(names, photos), 32, (0.5,) * 3, (0.25,) * 3, **sizes)
            made.append(torch.cat(list(source.load(epoch_groups(12, 5, 0, 3), epoch=3))))
    finally:
        multiprocessing.set_start_method(before, force=True)
    assert all(torch.equal(made[0], each) for each in made[1:])


def test_flips_depend_on_the_epoch_and_the_plain_view_has_none(photos):
    paths = sorted(str(path) for path in photos.glob("train-*.png"))[:16]
    source = ImageSource(paths, 64, (0.0,) * 3, (1.0,) * 3, seed=0)
    rows = [np.arange(16)]
    (plain,) = source.load(rows, None)
    pixels = torch.from_numpy(np.array(Image.open(paths[0]))).permute(2, 0, 1).float() / 255
    torch.testing.assert_close(plain[0], pixels)
    flipped = []
    for epoch in range(4):
        (view,) = source.load(rows, epoch)
        turned = (view == plain.flip(3)).flatten(1).all(1)
        straight = (view == plain).flatten(1).all(1)
        assert (turned | straight).all()
        flipped.append(turned.tolist())
    assert len({tuple(flags) for flags in flipped}) == 4
    assert 0.25 < np.mean(flipped) < 0.75


def test_two_augmentations_of_an_image_are_one_axis(photos):
    paths = sorted(str(path) for path in photos.glob("train-*.png"))[:5]
    groups = [np.array([3, 1]), np.array([0, 4, 2])]

    def source(augment, workers=0):
        keys = {"seed": 2, "augment": augment, "workers": workers}
        return ImageSource(paths, 32, (0.5,) * 3, (0.25,) * 3, **keys)

    both = list(source(PAIR, workers=1).load(groups, 7))
    assert [batch.shape for batch in both] == [(2, 2, 3, 32, 32), (3, 2, 3, 32, 32)]
    for place, name in enumerate(PAIR):
        for one, pair in zip(source(name).load(groups, 7), both, strict=True):
            assert torch.equal(one, pair[:, place])
    (plain,) = source(PAIR).load(groups[:1], None)
    assert plain.shape == (2, 3, 32, 32)
