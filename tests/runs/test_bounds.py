import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom, norm
from sklearn.metrics import precision_score

from g2netpl.labels.table import LabelTable
from g2netpl.runs.bounds import (
    bounded_threshold,
    bounded_thresholds,
    fewest_positives,
    lower_bound,
    too_few,
)
from g2netpl.training.configuration import precision_support_note

numbers = st.lists(st.sampled_from([0.1, 0.2, 0.3, 0.5, 0.7, 0.9]), min_size=1, max_size=40)


@pytest.mark.parametrize(("hits", "chosen"), [(3, 3), (7, 10), (1, 40), (59, 60)])
def test_the_bound_is_the_precision_at_which_so_many_hits_are_a_surprise(hits, chosen):
    bound = float(lower_bound(hits, chosen))
    assert binom.sf(hits - 1, chosen, bound) == pytest.approx(0.1)


def test_no_hit_bounds_nothing():
    assert lower_bound([0, 0], [0, 9]).tolist() == [0, 0]


@pytest.mark.parametrize(("target", "needed"), [(0.5, 4), (0.8, 11), (0.9, 22), (0.95, 45)])
def test_so_many_right_labels_are_enough_and_one_less_is_not(target, needed):
    assert fewest_positives(target) == needed
    assert lower_bound(needed, needed) >= target > lower_bound(needed - 1, needed - 1)


@given(numbers, st.randoms(use_true_random=False), st.sampled_from([0.2, 0.5, 0.7]))
def test_no_lower_threshold_holds(scores, random, target):
    labels, values = np.array([random.randint(0, 3) > 0 for _ in scores]), np.array(scores)
    found, bound = bounded_threshold(scores, labels, target)
    bounds = {
        each: lower_bound(labels[values >= each].sum(), (values >= each).sum()) for each in values
    }
    holding = [each for each in values if bounds[each] >= target]
    assert (found is None) == (not holding)
    if not holding:
        assert bound == pytest.approx(max(bounds.values()))
        return
    assert (values >= found).sum() == (values >= min(holding)).sum()
    assert bound == pytest.approx(bounds[min(holding)])
    assert precision_score(labels, values >= found) >= target


def column(positives, negatives, high=0.9, low=0.1):
    """A class that is ranked perfectly."""
    return np.array([high] * positives + [low] * negatives), np.array(
        [1.0] * positives + [0.0] * negatives
    )


def test_what_each_class_rests_on():
    wrong = (np.array([0.95] * 9 + [0.1] * 50), np.array([1.0, *[0.0] * 8, *[0.0] * 50]))
    columns = [column(40, 60), *[column(5, 95)] * 30, wrong]
    limits, grounds = bounded_thresholds(columns, 0.9)
    assert limits == [pytest.approx(0.5), *[pytest.approx(0.5)] * 30, None]
    assert grounds[0] == "own bound: 0.94, 40 of its 40 positives found"
    assert grounds[1] == "pooled: 31 classes, 5 of its 5 positives found"
    assert grounds[-1] == "never: 1 of 9 right where it was pooled"


def test_too_few_together_are_never_proposed_and_say_why():
    limits, grounds = bounded_thresholds([column(3, 20), column(2, 20)], 0.9)
    assert limits == [None, None]
    # 0.1 ** (1 / 3) and 0.1 ** (1 / 5)
    assert grounds[0] == "never: best bound 0.46 at 3 positives, 0.63 pooled with 2 classes"


def drawn(positives, seed, classes=40, images=1000):
    """Scores that are chances but for the level of each class, their labels, and the truth."""
    random = np.random.default_rng([seed, positives])
    apart, level = random.uniform(2, 7, classes), random.normal(0, 0.7, classes)
    share = positives / images
    labels = (random.random((images, classes)) < share).astype(float)
    seen = random.normal(size=labels.shape) + labels * apart
    scores = apart * seen - apart**2 / 2 + np.log(share / (1 - share)) + level

    def precision(limit, each):
        logit = limit - level[each] - np.log(share / (1 - share))
        place = logit / apart[each] + apart[each] / 2
        right, wrong = share * norm.sf(place - apart[each]), (1 - share) * norm.sf(place)
        return right / (right + wrong)

    return scores, labels, precision


@pytest.mark.parametrize("positives", [5, 30])
def test_on_fresh_data_the_promise_is_kept(positives):
    own, pooled = [], []
    for seed in range(5):
        scores, labels, precision = drawn(positives, seed)
        columns = list(zip(scores.T, labels.T, strict=True))
        limits, grounds = bounded_thresholds(columns, 0.9)
        for each, (limit, ground) in enumerate(zip(limits, grounds, strict=True)):
            if limit is not None:
                (own if ground.startswith("own") else pooled).append(precision(limit, each))
    assert len(own) + len(pooled) > 180  # of 200 classes
    assert np.mean(pooled) >= 0.895
    if positives >= 30:
        assert len(own) > 100
        assert np.mean(np.array(own) >= 0.9) >= 0.9


def test_where_positives_are_too_few_the_next_step_is_said():
    columns = [column(50, 50), column(10, 90), column(2, 98)]
    assert too_few(columns, 0.9, [0.5, 0.5, 0.5]) == ""
    told = too_few(columns, 0.9, [0.5, None, None])
    assert told.startswith("2 of 3 classes get no positives: a bound of 0.9 takes 22 validation")
    # 12 right of 12 are 0.1 ** (1 / 12); 12 more positives, of one in ten photos
    assert "has 10, and the best bound so far is 0.83. Label at least 120 photos more" in told
    assert "--validation-labels" in told
    assert "Label more photos" in too_few(columns[:1], 0.9, [None])


def held_out(*positives):
    values = np.zeros((100, len(positives)), dtype=np.int8)
    for each, count in enumerate(positives):
        values[:count, each] = 1
    names = tuple(f"{row}.jpg" for row in range(100))
    return LabelTable(names, tuple("abcdefghij"[: len(positives)]), values)


def test_before_a_run_it_is_known_which_classes_have_enough_validation_labels():
    note = precision_support_note("precision:0.9", held_out(22, 40, 21, 3, 0, 5, 6, 7), 1.0)
    assert "2 of 8 classes have the 22 validation positives" in note
    assert "the others are pooled" in note
    assert precision_support_note("precision:0.9", held_out(30, 50), 1.0).endswith("of their own")
    tags = held_out(22, 40)
    tags = tags.with_values(np.where(tags.values == 1, 1, -1))
    for validation in (tags, None):
        note = precision_support_note("precision:0.8", validation, 1.0)
        assert "not guaranteed" in note
        assert "with 11 positives of a class" in note


@pytest.mark.parametrize("rule", ["f1", "expected"])
def test_of_other_rules_there_is_nothing_to_tell(rule):
    assert precision_support_note(rule, None, 1.0) == ""
