import multiprocessing

import numpy as np
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
    first = epoch_groups(50, 8, 1, 2)
    assert [g.tolist() for g in first] == [g.tolist() for g in epoch_groups(50, 8, 1, 2)]
    assert np.concatenate(first).tolist() != np.concatenate(epoch_groups(50, 8, 1, 3)).tolist()
    assert np.concatenate(first).tolist() != np.concatenate(epoch_groups(50, 8, 2, 2)).tolist()


def test_a_part_loads_its_own_rows():
    part = Subset(ArraySource(torch.arange(20).float()[:, None]), np.arange(5, 15))
    groups = epoch_groups(len(part), 4, 0, 0)
    for rows, inputs in zip(groups, part.load(groups, 0), strict=True):
        assert inputs[:, 0].tolist() == (rows + 5).tolist()


def test_images_are_the_same_for_any_number_of_workers(photos):
    paths = sorted(str(path) for path in photos.glob("train-*.png"))[:12]
    groups = epoch_groups(12, 5, 0, 3)
    views = []
    for workers in (0, 1, 2):
        source = ImageSource(paths, 32, (0.5,) * 3, (0.25,) * 3, seed=4, workers=workers)
        views.append(torch.cat(list(source.load(groups, epoch=3))))
    assert torch.equal(views[0], views[1])
    assert torch.equal(views[0], views[2])


def test_workers_that_are_not_forked_load_the_same(photos):
    """As on Windows and macOS."""
    root, names = str(photos), sorted(path.name for path in photos.glob("train-*.png"))[:4]
    before = multiprocessing.get_start_method()
    multiprocessing.set_start_method("spawn", force=True)
    try:
        views = []
        for workers in (0, 1):
            sizes = (32, (0.5,) * 3, (0.25,) * 3)
            source = ImageSource(locate(names, root), *sizes, workers=workers)
            views.append(torch.cat(list(source.load([np.arange(2), np.arange(2, 4)], epoch=1))))
        assert torch.equal(*views)
    finally:
        multiprocessing.set_start_method(before, force=True)


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
