import hashlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from g2netpl.labels.settings import Setting, observe
from g2netpl.labels.splits import split_table
from g2netpl.labels.table import LabelTable
from g2netpl.utils.errors import InputError


def table_of(values):
    values = np.asarray(values, dtype=np.int8)
    return LabelTable(
        tuple(f"{row}.jpg" for row in range(len(values))),
        tuple(f"c{column}" for column in range(values.shape[1])),
        values,
    )


def random_table(images=200, classes=12, share=0.2, seed=0):
    random = np.random.default_rng(seed)
    return table_of(random.random((images, classes)) < share)


NAMES = [
    "full",
    "own",
    "fspl",
    "sspl:0.2",
    "positives:1+1",
    "positives:2+0",
    "known:0.1",
    "biased:frequency",
    "fspl@spml",
    "positives:1+1@spml",
]


@pytest.mark.parametrize("name", NAMES)
def test_a_setting_is_written_as_it_is_read(name):
    assert str(Setting.parse(name)) == name


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("fsp", "did you mean 'fspl'"),
        ("sspl", "sspl:0.2"),
        ("sspl:0", "sspl:0.2"),
        ("sspl:1.5", "sspl:0.2"),
        ("sspl:x", "sspl:0.2"),
        ("full:1", "a form like full"),
        ("positives:0+0", "1+1"),
        ("positives:a", "positives:1+1"),
        ("known:", "known:0.2"),
        ("biased:size", "biased:frequency"),
        ("fspl@other", "spml"),
        ("known:0.5@spml", "fspl and positives"),
    ],
)
def test_a_bad_setting_is_named_with_a_hint(name, hint):
    with pytest.raises(InputError, match=hint.replace("+", r"\+")):
        Setting.parse(name)


@pytest.mark.parametrize("name", ["fspl", "sspl:0.3", "positives:1+1", "known:0.1", "fspl@spml"])
def test_observing_is_pure_and_never_invents_labels(name):
    table = random_table()
    before = table.values.copy()
    first = observe(table, Setting.parse(name), 3)
    again = observe(table, name, 3)
    other = observe(table, Setting.parse(name), 4)
    assert (table.values == before).all()
    assert (first.values == again.values).all()
    assert (first.values != other.values).any()
    seen = first.values != -1
    assert (first.values[seen] == table.values[seen]).all()


def test_fspl_draws_the_positives_of_an_image_with_equal_chance():
    table = table_of(np.ones((6000, 3)))
    share = (observe(table, Setting.parse("fspl"), 1).values == 1).mean(axis=0)
    # standard error √(⅓·⅔/6000) = 0.006
    assert np.abs(share - 1 / 3).max() < 0.03


def test_biased_by_frequency_prefers_frequent_classes():
    values = np.zeros((4000, 2), dtype=np.int8)
    values[:, 0] = 1  # in all images
    values[:1000, 1] = 1  # in a quarter
    visible = observe(table_of(values), Setting.parse("biased:frequency"), 0).values
    # chances 4000 : 1000 on the first thousand images; standard error 0.013
    assert (visible[:1000, 1] == 1).mean() == pytest.approx(0.2, abs=0.05)


@given(seed=st.integers(0, 10_000), images=st.integers(4, 60), classes=st.integers(1, 8))
def test_every_class_keeps_a_label_whenever_that_is_possible(seed, images, classes):
    random = np.random.default_rng(seed)
    values = (random.random((images, classes)) < 0.08).astype(np.int8)
    # a hidden assignment proves that covering all classes is possible
    values[random.permutation(images)[:classes], np.arange(min(classes, images))] = 1
    if images < classes:
        return
    visible = observe(table_of(values), Setting.parse("fspl"), seed).values
    assert ((visible == 1).any(axis=0) == (values == 1).any(axis=0)).all()
    assert ((visible == 1).sum(axis=1) <= 1).all()
    subset = observe(table_of(values), Setting.parse("sspl:0.5"), seed).values
    labelled = int((visible == 1).sum())
    assert (subset == 1).sum() == max(1, round(0.5 * labelled))
    present = int((values == 1).any(axis=0).sum())
    assert (subset == 1).any(axis=0).sum() >= min(present, (subset == 1).sum())


def test_full_needs_every_label():
    table = random_table()
    assert observe(table, Setting.parse("full"), 0) is table
    with pytest.raises(InputError, match="setting full"):
        observe(observe(table, Setting.parse("fspl"), 0), Setting.parse("full"), 0)


def test_spml_masks_bit_for_bit():
    # written down from the benchmark's rule: legacy generator 1200, image after image, shuffle the
    # positive indices and keep the first, then shuffle the negative ones
    table = random_table(images=50, classes=9, share=0.3)
    generator = np.random.RandomState(1200)
    expected = np.full((50, 9), -1)
    for row in range(50):
        for value, keep in ((1, 1), (0, 0)):
            indices = np.nonzero(table.values[row] == value)[0]
            generator.shuffle(indices)
            expected[row, indices[:keep]] = value
    assert (observe(table, Setting.parse("fspl@spml"), 1200).values == expected).all()
    # and a row pinned as a number, so that a change of the rule above cannot hide
    small = table_of([[1, 1, 1, 1, 0], [0, 1, 1, 0, 1], [1, 1, 0, 0, 0]])
    visible = observe(small, Setting.parse("fspl@spml"), 1200).values
    assert visible.argmax(axis=1).tolist() == PINNED_SPML


PINNED_SPML = [0, 2, 0]


def random_groups(seed, count=200, groups=40):
    random = np.random.default_rng(seed)
    values = (random.random((count, 3)) < 0.5).astype(np.int8)
    names = [f"g{number}" for number in (groups * random.random(count) ** 2).astype(int)]
    return table_of(values).with_groups(names)


@pytest.mark.parametrize("seed", range(10))
def test_no_group_is_parted_and_the_share_is_about_right(seed):
    table = random_groups(seed)
    groups = np.array(table.groups)
    train, held = split_table(table, 0.2, seed)
    assert sorted([*train, *held]) == list(range(200))
    assert not set(groups[train]) & set(groups[held])
    largest = max(np.unique(groups, return_counts=True)[1])
    assert abs(len(held) - 40) <= largest / 2
    again = split_table(table, 0.2, seed)[1]
    assert held.tolist() == again.tolist()
    assert held.tolist() != split_table(table, 0.2, seed + 1)[1].tolist()


def test_the_only_photo_of_a_class_is_never_held_out():
    values = (np.random.default_rng(0).random((60, 5)) < 0.5).astype(np.int8)
    values[:, 3] = -1
    values[17, 3], values[40, 3] = 1, 0
    for seed in range(30):
        train, held = split_table(table_of(values), 0.2, seed)
        assert 17 in train
        assert len(held) == 12
        order = np.random.default_rng([seed, 0x7370]).permutation(60)
        free = [row for row in order if row != 17]
        assert held.tolist() == sorted(free[-12:])  # the others as if it had not been drawn


MASKS = {  # SHA-256 of the masks of version 0.2
    "fspl": "ef85047721c068bd",
    "sspl:0.2": "e44124a1f8280fe5",
    "positives:2+1": "d293ace76c34206f",
    "known:0.3": "e419d795ab9b50b2",
    "biased:frequency": "afb138517ed88a18",
    "fspl@spml": "8543f053f6cfb598",
    "positives:1+1@spml": "c40d1fbef0813d9e",
}


@pytest.mark.parametrize("name", MASKS)
def test_masks_are_bitwise_those_of_version_0_2(name):
    random = np.random.default_rng(11)
    values = (random.random((300, 17)) < 0.2).astype(np.int8)
    values[random.random((300, 17)) < 0.1] = -1
    names = [f"{number}.jpg" for number in range(300)], [f"c{number}" for number in range(17)]
    found = observe(LabelTable(*names, values), Setting.parse(name), 5).values
    assert hashlib.sha256(np.ascontiguousarray(found).tobytes()).hexdigest()[:16] == MASKS[name]
