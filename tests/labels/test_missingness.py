"""How labels came to be known, inferred from the labels."""

import numpy as np
import pytest

from g2netpl.labels.missingness import (
    can_choose_by,
    infer_mechanism,
    informative_rows,
)
from g2netpl.labels.settings import Setting, observe
from g2netpl.labels.table import LabelTable

RANDOM = np.random.default_rng(0)
TRUTH = (RANDOM.random((400, 10)) < 0.25).astype(np.int8)
TRUTH[TRUTH.sum(axis=1) == 0, 0] = 1
K = TRUTH.sum(axis=1).mean()
SCORES = TRUTH + RANDOM.normal(scale=0.6, size=TRUTH.shape)  # by somebody who sees well


def seen(setting):
    names = tuple(map(str, range(len(TRUTH))))
    table = LabelTable(names, tuple("abcdefghij"), TRUTH)
    return observe(table, Setting.parse(setting), 0).values


@pytest.mark.parametrize(
    ("setting", "wanted"),
    [
        ("fspl", "sampled"),
        ("sspl:0.2", "sampled"),
        ("positives:2+0", "sampled"),
        ("positives:1+1", "sampled"),
        ("known:0.3", "random"),
        ("full", "complete"),
    ],
)
def test_every_setting_is_told_by_its_labels(setting, wanted):
    assert infer_mechanism(seen(setting), K)[0] == wanted


def beside_tags(count, sign=0, labels=None):
    """Tags, and some of the labels of a sign that people were asked about."""
    labels = seen("fspl").copy() if labels is None else labels
    asked = np.random.default_rng(1).permutation(np.flatnonzero(TRUTH.ravel() == sign))[:count]
    labels.ravel()[asked] = sign
    return labels


def with_complete(count):
    labels = seen("fspl").copy()
    labels[:count] = TRUTH[:count]
    return labels


def test_images_tell_how_often_labels_are_positive():
    def told(labels, scores=None):
        return informative_rows(labels, K, scores).tolist()

    everything = list(range(400))
    assert told(TRUTH) == everything
    assert told(seen("known:0.3")) == told(seen("known:0.3"), SCORES) == everything
    assert told(seen("fspl")) == []
    for answers in (20, 200, 400):
        assert told(beside_tags(answers)) == []
    assert told(with_complete(30)) == []  # too few to decide by
    assert told(with_complete(60)) == list(range(60))
    nothing_else = np.where(np.arange(400)[:, None] < 30, TRUTH, -1).astype(np.int8)
    assert told(nothing_else) == list(range(30))


@pytest.mark.parametrize("share", [0.3, 0.5])
def test_what_is_there_is_known_more_often(share):
    """All positives and a share of the negatives: k, if guessed too large, does not show it."""
    labels = np.where((TRUTH == 1) | (RANDOM.random(TRUTH.shape) < share), TRUTH, -1)
    labels = labels.astype(np.int8)
    assert len(informative_rows(labels, 2.2 * K)) == 400
    assert not len(informative_rows(labels, 2.2 * K, SCORES))
    assert infer_mechanism(labels, 2.2 * K)[0] == "random"
    assert infer_mechanism(labels, 2.2 * K, alike=False)[0] == "sampled"


def test_an_epoch_is_not_chosen_by_a_few_negatives():
    assert can_choose_by(TRUTH)
    assert can_choose_by(seen("known:0.3"))
    assert can_choose_by(seen("positives:1+1"))
    assert can_choose_by(with_complete(10))
    for labels in (seen("fspl"), beside_tags(1), beside_tags(150)):
        assert not can_choose_by(labels)
    one_class = seen("fspl").copy()
    one_class[:, 0] = TRUTH[:, 0]  # many negatives, of one class in ten
    assert not can_choose_by(one_class)
