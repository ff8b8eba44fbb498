import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import average_precision_score, precision_recall_fscore_support

from g2netpl.runs.metrics import average_precision, can_rank, evaluate, mean_average_precision
from g2netpl.utils.errors import InputError


def by_scikit_learn(scores, truth):
    """Per class, on known entries only; nan for a class without a positive."""
    values = []
    for column in range(scores.shape[1]):
        known = truth[:, column] != -1
        labels = truth[known, column]
        both = labels.any() and not labels.all()
        values.append(average_precision_score(labels, scores[known, column]) if both else np.nan)
    return np.array(values)


@given(
    seed=st.integers(0, 100_000),
    images=st.integers(1, 40),
    classes=st.integers(1, 5),
    levels=st.sampled_from([2, 5, 1000]),
    unknown=st.sampled_from([0.0, 0.3]),
)
def test_average_precision_equals_scikit_learn(seed, images, classes, levels, unknown):
    random = np.random.default_rng(seed)
    scores = random.integers(0, levels, (images, classes)) / levels  # few levels: many ties
    truth = (random.random((images, classes)) < 0.4).astype(np.int8)
    truth[random.random(truth.shape) < unknown] = -1
    truth[:, 0] = np.minimum(truth[:, 0], 0)  # a class without a positive
    ours, theirs = average_precision(scores, truth), by_scikit_learn(scores, truth)
    np.testing.assert_allclose(ours, theirs, atol=1e-9)
    ranked = np.nan_to_num(theirs)[(truth == 0).any(axis=0)]  # nothing else has a rank
    expected = ranked.mean() if len(ranked) else 0.0
    assert mean_average_precision(scores, truth) == pytest.approx(expected, abs=1e-9)


def test_metrics_at_a_threshold_equal_scikit_learn_and_skip_unknown_entries():
    random = np.random.default_rng(0)
    scores = random.random((50, 6)).astype(np.float32)
    truth = random.integers(-1, 2, (50, 6)).astype(np.int8)
    limits = np.array([0.6, 0.3, 0.5, 0.9, 0.1, np.inf])
    known = truth != -1
    for threshold in (0.6, limits):
        found = evaluate(scores, truth, threshold)
        precision, recall, f1, _ = precision_recall_fscore_support(
            truth[known], (scores >= threshold)[known], average="binary"
        )
        assert (found.precision, found.recall, found.f1) == pytest.approx((precision, recall, f1))


def test_a_class_without_positives_counts_zero_in_one_mean_and_not_in_the_other():
    scores = np.array([[0.9, 0.1], [0.2, 0.8]])
    found = evaluate(scores, np.array([[1, 0], [0, 0]]))
    assert found.mean_average_precision == 0.5
    assert found.mean_over_present == 1.0
    assert np.isnan(found.average_precision[1])


def test_a_class_without_a_known_negative_is_not_perfect():
    scores = np.array([[0.9, 0.1, 0.5], [0.2, 0.8, 0.4], [0.3, 0.2, 0.6]])
    truth = np.array([[1, 1, 0], [-1, 1, 1], [1, -1, 0]])
    found = evaluate(scores, truth)
    # only the third class can be ranked: its positive is the last of three
    assert found.mean_average_precision == found.mean_over_present == pytest.approx(1 / 3)
    assert np.isnan(found.average_precision[:2]).all()


@pytest.mark.parametrize(
    ("truth", "expected"),
    [([[1, -1], [0, -1]], True), ([[1, -1], [-1, 0]], False), ([[1, -1], [1, 1]], False)],
)
def test_can_rank_needs_positives_and_negatives_in_one_class(truth, expected):
    assert can_rank(np.array(truth, dtype=np.int8)) is expected


def test_mistakes_are_named():
    with pytest.raises(InputError, match="one shape"):
        mean_average_precision(np.zeros((2, 3)), np.zeros((3, 2)))
    with pytest.raises(InputError, match="NaN"):
        mean_average_precision(np.array([[np.nan, 0.5]]), np.zeros((1, 2)))


def test_images_that_could_not_be_read_do_not_count():
    scores = np.array([[0.9, 0.1], [np.nan, np.nan], [0.2, 0.8], [0.6, 0.7]])
    truth = np.array([[1, 0], [0, 1], [0, 1], [1, 0]])
    rest = [0, 2, 3]
    assert evaluate(scores, truth) == evaluate(scores[rest], truth[rest])
