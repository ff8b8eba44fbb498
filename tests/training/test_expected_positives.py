import numpy as np
import pytest

from g2netpl.labels.missingness import from_both_signs, from_complete
from g2netpl.labels.settings import Setting, observe
from g2netpl.labels.table import LabelTable
from g2netpl.training.expected_positives import estimate, from_positives

RANDOM = np.random.default_rng(0)
COUNT, CLASSES = 1500, 12
TRUTH = (RANDOM.random((COUNT, CLASSES)) < 0.2).astype(np.int8)
# vectors from which every class can be read off, with some noise
FEATURES = (3 * TRUTH @ np.eye(CLASSES) + RANDOM.normal(0, 0.5, (COUNT, CLASSES))).astype(
    np.float32
)
K = float(TRUTH.sum(axis=1).mean())


def visible(setting):
    table = LabelTable(tuple(map(str, range(COUNT))), tuple("abcdefghijkl"), TRUTH)
    return observe(table, Setting.parse(setting), 0).values


def no_features(rows):
    raise AssertionError("not needed here")


def test_completely_labelled_images_tell_directly():
    labels = visible("fspl").copy()
    assert from_complete(labels) is None
    labels[:30] = TRUTH[:30]
    assert from_complete(labels) == pytest.approx(TRUTH[:30].sum(axis=1).mean())
    k, how, _ = estimate(visible("fspl"), TRUTH[:40], no_features, 0)
    assert k == pytest.approx(TRUTH[:40].sum(axis=1).mean())
    assert "validation" in how


def test_labels_missing_at_random_tell_by_their_shares():
    assert from_both_signs(visible("known:0.2")) == pytest.approx(K, rel=0.05)


@pytest.mark.parametrize("setting", ["fspl", "positives:1+1", "positives:1+3", "positives:2+8"])
def test_a_fixed_number_per_image_is_not_missing_at_random(setting):
    assert from_both_signs(visible(setting)) is None


def test_a_few_negatives_beside_tags_are_not_missing_at_random():
    labels = visible("fspl").copy()
    tags_only = estimate(labels, None, lambda rows: FEATURES[rows], 0)
    absent = np.random.default_rng(2).permutation(np.flatnonzero(TRUTH.ravel() == 0))[:1000]
    labels.ravel()[absent] = 0  # beside about 1,400 positives
    assert from_both_signs(labels) > 6  # of 12 classes, if that were believed
    found = estimate(labels, None, lambda rows: FEATURES[rows], 0)
    assert found[:2] == tags_only[:2]


def test_positives_that_are_known_more_often_are_not_missing_at_random():
    """All positives and a fifth of the negatives, in classes that are rare: negatives are many."""
    truth = (np.random.default_rng(3).random((COUNT, 30)) < 0.03).astype(np.int8)
    features = (truth @ np.random.default_rng(5).normal(size=(30, 40))).astype(np.float32)
    asked = (truth == 1) | (np.random.default_rng(4).random(truth.shape) < 0.2)
    labels = np.where(asked, truth, -1).astype(np.int8)
    assert (labels == 0).sum() > 5 * (labels == 1).sum()
    assert from_both_signs(labels) > 3  # of 0.9
    found = estimate(labels, None, lambda rows: features[rows], 0)
    assert not found.at_random
    assert found.origin.startswith("estimated from positives, probably")
    assert found.k < 2
    at_random = np.where(np.random.default_rng(6).random(truth.shape) < 0.2, truth, -1)
    found = estimate(at_random.astype(np.int8), None, lambda rows: features[rows], 0)
    assert found.at_random
    assert found.k == pytest.approx(0.9, rel=0.2)


def test_few_images_have_a_wide_interval_and_its_lower_end_is_used():
    few = visible("fspl")[:100]
    found, many = from_positives(FEATURES[:100], few), from_positives(FEATURES, visible("fspl"))
    assert found.low < found.k < found.high
    assert many.high - many.low < found.high - found.low
    k, how, _ = estimate(few, None, lambda rows: FEATURES[rows], 0)
    assert k == found.low
    assert f"only {(few == 1).any(axis=1).sum()} tagged images" in how


@pytest.mark.parametrize("setting", ["fspl", "sspl:0.5", "positives:1+1"])
def test_the_ranking_finds_k_where_classes_can_be_told_apart(setting):
    # a positive is seen more often in images with few, and those rank first: k comes out low
    k, how, _ = estimate(visible(setting), None, lambda rows: FEATURES[rows], 0)
    # labelled images have at least one positive: their own mean is what can be found
    target = float(TRUTH[TRUTH.any(axis=1)].sum(axis=1).mean())
    assert 0.55 * target < k < 1.1 * target
    assert how.startswith("estimated from positives, probably")


def test_a_ranking_that_knows_nothing_leaves_a_guess():
    noise = np.random.default_rng(1).normal(size=FEATURES.shape).astype(np.float32)
    assert from_positives(noise, visible("fspl")).k == pytest.approx(2.0, rel=0.15)
