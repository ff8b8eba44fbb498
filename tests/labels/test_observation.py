"""How labels came to be known, told from the labels."""

import numpy as np
import pytest

from g2netpl.labels.entries import Entries
from g2netpl.labels.observation import look
from g2netpl.labels.settings import Setting, observe
from g2netpl.labels.table import LabelTable

RANDOM = np.random.default_rng(0)
TRUTH = (RANDOM.random((400, 10)) < 0.25).astype(np.int8)
TRUTH[TRUTH.sum(axis=1) == 0, 0] = 1


def seen(setting):
    names = tuple(map(str, range(len(TRUTH))))
    table = LabelTable(names, tuple("abcdefghij"), TRUTH)
    return observe(table, Setting.parse(setting), 0).values


@pytest.mark.parametrize(
    ("setting", "wanted"),
    [
        ("fspl", "draw"),
        ("sspl:0.2", "draw"),
        ("positives:2+0", "draw"),
        ("positives:1+1", "draw"),
        ("known:0.3", "random"),
        ("full", "complete"),
    ],
)
@pytest.mark.parametrize("form", [np.asarray, Entries.of_matrix])
def test_every_setting_is_told_by_its_labels(setting, wanted, form):
    assert look(form(seen(setting)))[0] == wanted


def test_tags_beside_some_answers_of_people_are_still_draws():
    labels = seen("fspl").copy()
    asked = RANDOM.permutation(np.flatnonzero(TRUTH.ravel() == 0))[:100]
    labels.ravel()[asked] = 0
    assert look(labels)[0] == "draw"


def test_one_class_cannot_be_a_draw():
    assert look(seen("fspl")[:, :1])[0] == "random"
