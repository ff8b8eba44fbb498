"""Thresholds with a guaranteed precision, against scipy and classes whose precision is known."""

import numpy as np
import pytest
from scipy.stats import binom, norm

from g2netpl.runs.precision_bounds import (
    fewest_labels,
    guaranteed_threshold,
    guaranteed_thresholds,
    lower_bound,
    missing_labels,
)


@pytest.mark.parametrize(("hits", "chosen"), [(3, 3), (7, 10), (1, 40), (59, 60)])
def test_the_bound_is_the_precision_at_which_so_many_hits_are_a_surprise(hits, chosen):
    bound = float(lower_bound(hits, chosen))
    assert binom.sf(hits - 1, chosen, bound) == pytest.approx(0.05)
    assert lower_bound([0, 0], [0, 9]).tolist() == [0, 0]


@pytest.mark.parametrize("target", [0.5, 0.8, 0.9, 0.95])
@pytest.mark.parametrize("errors", [0, 1, 4, 20])
def test_so_many_labels_are_enough_and_one_less_is_not(target, errors):
    fewest = int(fewest_labels(target, errors))
    assert lower_bound(fewest - errors, fewest) >= target
    assert lower_bound(fewest - 1 - errors, fewest - 1) < target


def test_the_first_failed_test_ends_the_search():
    """29 labels without an error, 46 with one and 61 with two are tested, and 89 with four."""
    scores = np.linspace(1, 0, 200)
    for right, chosen in (([0] * 1, 0), ([1] * 29 + [0] * 171, 29), ([1] * 50 + [0] * 150, 46)):
        labels = np.resize(right, 200) if chosen else np.zeros(200)
        limit, bound = guaranteed_threshold(scores, labels, 0.9)
        assert (0 if limit is None else (scores >= limit).sum()) == chosen
        assert chosen == 0 or bound >= 0.9
    first_wrong = np.array([0, *[1] * 120, *[0] * 79])  # the search that begins at 89 finds it
    limit, _ = guaranteed_threshold(scores, first_wrong, 0.9)
    assert 103 <= (scores >= limit).sum() <= 130


def test_equal_scores_are_taken_together():
    limit, _ = guaranteed_threshold([0.9] * 20 + [0.8] * 20 + [0.1] * 60, [1] * 40 + [0] * 60, 0.9)
    assert limit == pytest.approx(0.45)
    assert guaranteed_threshold([0.9] * 40, [1] * 35 + [0] * 5, 0.9)[0] is None
    assert guaranteed_threshold([], [], 0.9) == (None, 0.0)


@pytest.mark.parametrize("positives", [100, 1000])
def test_a_class_just_below_the_target_everywhere_is_seldom_granted(positives):
    """The worst case: with the lowest threshold whose bound holds, up to 24 % would be granted."""
    random, granted, repeats = np.random.default_rng(positives), 0, 400
    scores = np.linspace(1, 0, positives)
    for _ in range(repeats):
        labels = random.random(positives) < 0.899
        granted += guaranteed_threshold(scores, labels, 0.9)[0] is not None
    assert granted <= binom.isf(1e-4, repeats, 0.1)


def column(positives, negatives, high=0.9, low=0.1):
    """A class that is ranked perfectly."""
    labels = [1.0] * positives + [0.0] * negatives
    return np.where(labels, high, low), np.array(labels)


def test_the_reason_for_each_threshold():
    wrong = (np.array([0.95] * 9 + [0.1] * 50), np.array([1.0, *[0.0] * 8, *[0.0] * 50]))
    columns = [column(40, 60), *[column(5, 95)] * 60, wrong]
    limits, reasons = guaranteed_thresholds(columns, 0.9)
    assert limits == [pytest.approx(0.5), *[pytest.approx(0.5)] * 60, None]
    assert reasons[0] == "own bound: 0.93, 40 of its 40 positives found"
    assert reasons[1] == "pooled: 61 classes, 5 of its 5 positives found"
    assert reasons[-1] == "never: 1 of 9 correct at the pooled threshold"
    limits, reasons = guaranteed_thresholds([column(3, 20), column(2, 20)], 0.9)
    assert limits == [None, None]
    # 0.05 ** (1 / 3) and 0.05 ** (1 / 5)
    assert reasons[0] == "never: best bound 0.37 at 3 positives, 0.55 pooled with 2 classes"


def simulated(positives, seed, classes=40, images=1000):
    """Scores that are probabilities but for the level of each class, labels, and the truth."""
    random = np.random.default_rng([seed, positives])
    apart, level = random.uniform(2, 7, classes), random.normal(0, 0.7, classes)
    share = positives / images
    labels = (random.random((images, classes)) < share).astype(float)
    seen = random.normal(size=labels.shape) + labels * apart
    scores = apart * seen - apart**2 / 2 + np.log(share / (1 - share)) + level

    def precision(limit, number):
        logit = limit - level[number] - np.log(share / (1 - share))
        place = logit / apart[number] + apart[number] / 2
        right = share * norm.sf(place - apart[number])
        return right / (right + (1 - share) * norm.sf(place))

    return scores, labels, precision


@pytest.mark.parametrize("positives", [5, 30, 100])
def test_on_fresh_data_the_guarantee_holds(positives):
    own, pooled = [], []
    for seed in range(5):
        scores, labels, precision = simulated(positives, seed)
        limits, reasons = guaranteed_thresholds(list(zip(scores.T, labels.T, strict=True)), 0.9)
        for number, (limit, reason) in enumerate(zip(limits, reasons, strict=True)):
            if limit is not None:
                kept = own if reason.startswith("own") else pooled
                kept.append(precision(limit, number))
    assert len(own) + len(pooled) > 150  # of 200 classes
    assert np.mean([*pooled, 1.0]) >= 0.895
    assert len(own) >= (0 if positives < 50 else 140)
    assert np.mean(np.array([*own, 1.0]) < 0.9) <= 0.1


def test_what_to_do_about_too_few_positives():
    assert missing_labels([0.5, 0.5, 0.5], 0.9) == ""
    text = missing_labels([0.5, None, None], 0.9)
    assert text.startswith(
        "2 of 3 classes get no positives: precision 0.9 needs at least 29 validation"
    )
