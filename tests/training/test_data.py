"""The split that all runs have: who is held out, and who is not."""

import numpy as np
import pytest

from g2netpl.labels.settings import SPML_SEED, Setting, observe
from g2netpl.labels.splits import split_indices
from g2netpl.labels.table import LabelTable
from g2netpl.training.splits import check_learnable, split_and_observe
from g2netpl.utils.errors import InputError


def table_of(values):
    values = np.asarray(values, dtype=np.int8)
    names = tuple(f"{row}.png" for row in range(len(values)))
    return LabelTable(names, tuple(f"c{column}" for column in range(values.shape[1])), values)


def random_table(count=50, unlabelled=10):
    values = (np.random.default_rng(0).random((count, 4)) < 0.4).astype(np.int8)
    values[:unlabelled] = -1
    return table_of(values)


def test_unlabelled_images_are_trained_on_and_never_held_out():
    table = random_table()
    data = split_and_observe(table, Setting.parse("own"), 0.2, 3)
    assert len(data.held_out) == 8
    assert min(data.held_out) >= 10
    assert sorted([*data.training, *data.held_out]) == list(range(50))
    assert (data.visible.values == table.values[data.training]).all()
    assert data.validation is not None
    assert (data.validation.values == table.values[data.held_out]).all()
    assert data.note == "chosen by mAP on 8 held-out images"


@pytest.mark.parametrize(
    ("values", "share", "why"),
    [
        (random_table().values, 0.0, "no validation images"),
        (np.where(random_table().values == 1, 1, -1), 0.2, "no class has both"),
    ],
)
def test_what_cannot_choose_is_not_held_out(values, share, why):
    data = split_and_observe(table_of(values), Setting.parse("own"), share, 0)
    assert len(data.training) == len(values)
    assert len(data.held_out) == 0
    assert data.validation is None
    assert why in data.note


def test_the_only_positive_is_not_held_out():
    for row in range(20):
        values = np.zeros((20, 2))
        values[row, 0] = 1
        data = split_and_observe(table_of(values), Setting.parse("own"), 0.5, 0)
        assert row in data.training
        check_learnable(data.visible, "labels.csv")
    with pytest.raises(InputError, match=r"labels\.csv: no positive label is observed"):
        check_learnable(table_of(np.zeros((20, 2))), "labels.csv")


def test_masks_of_spml_are_drawn_before_the_split():
    table, setting = random_table(unlabelled=0), Setting.parse("fspl@spml")
    data = split_and_observe(table, setting, 0.2, 7)
    training, held_out = split_indices(50, 0.2, SPML_SEED, True)
    assert (data.training == training).all()
    assert (data.held_out == held_out).all()
    assert (data.visible.values == observe(table, setting, SPML_SEED).values[training]).all()


def test_whole_groups_are_held_out_with_their_unlabelled_images():
    table = random_table(60, 20).with_groups([f"g{row % 12}" for row in range(60)])
    data = split_and_observe(table, Setting.parse("own"), 0.25, 1)
    held = {table.groups[row] for row in data.held_out}
    assert held
    assert not held & {table.groups[row] for row in data.training}
    assert any(row < 20 for row in data.held_out)  # nothing is known about it, yet it is close
    assert len(data.training) + len(data.held_out) == 60


def test_where_every_group_has_all_of_a_class_all_images_are_trained_on():
    """As with a folder per class and --groups folder."""
    values = np.eye(4, dtype=np.int8)[np.arange(40) % 4]
    table = table_of(values).with_groups([f"g{row % 4}" for row in range(40)])
    data = split_and_observe(table, Setting.parse("own"), 0.2, 0)
    assert len(data.training) == 40
    assert "every group has all images of a class" in data.note


def test_the_split_of_the_benchmark_knows_no_groups():
    table = random_table(50, 0).with_groups(["a", "b"] * 25)
    with pytest.raises(InputError, match="setting fspl@spml: the benchmark's split has no groups"):
        split_and_observe(table, Setting.parse("fspl@spml"), 0.2, 0)
