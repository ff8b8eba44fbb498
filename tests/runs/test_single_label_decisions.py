"""Single-label tasks: probabilities, decisions, accuracy and completed labels."""

import numpy as np
import pytest
from scipy.special import expit, softmax
from sklearn.metrics import accuracy_score, log_loss

from g2netpl import LabelTable, evaluate
from g2netpl.runs.completion import fill_in
from g2netpl.runs.metrics import accuracy
from g2netpl.runs.thresholds import (
    Thresholds,
    argmax_mask,
    choose_single_label,
    logits_of,
    single_label_temperature,
)


@pytest.fixture
def case():
    """Scores of 400 images of 5 classes whose logits are twice too large."""
    random = np.random.default_rng(0)
    logits = random.normal(0, 1.5, (400, 5))
    of = np.array([random.choice(5, p=row) for row in softmax(logits, axis=1)])
    return expit(2 * logits).astype(np.float32), np.eye(5, dtype=np.int8)[of]


def test_the_temperature_is_that_of_a_grid(case):
    scores, truth = case
    logits, grid = logits_of(scores), np.linspace(1, 4, 301)
    best = single_label_temperature(logits, truth)
    losses = [log_loss(truth, softmax(logits / value, axis=1)) for value in grid]
    assert best == pytest.approx(grid[int(np.argmin(losses))], abs=0.03)  # one more image counts
    assert best == pytest.approx(2.0, abs=0.3)


def test_a_few_that_are_all_right_do_not_make_it_certain():
    truth = np.eye(3, dtype=np.int8)[[0, 1, 2] * 3]
    logits = np.where(truth == 1, 2.0, -2.0)
    sharp = softmax(logits / single_label_temperature(logits, truth), axis=1)
    assert sharp.max() == pytest.approx(1 - 2 / 3 / 10, abs=0.002)  # 9 right ones and a third


def test_accuracy_is_that_of_scikit_learn(case):
    scores, truth = case
    expected = accuracy_score(truth.argmax(axis=1), scores.argmax(axis=1))
    result = evaluate(scores, truth, 0.0, single_label=True)
    assert result.accuracy == pytest.approx(expected)
    assert (result.precision, result.recall) == (pytest.approx(expected), pytest.approx(expected))
    assert evaluate(scores, truth).accuracy is None


def test_images_that_cannot_be_read_or_are_not_known_do_not_count(case):
    scores, truth = (array.copy() for array in case)
    expected = accuracy(scores[:300], truth[:300])
    scores[300:350], truth[350:] = np.nan, -1
    assert accuracy(scores, truth) == expected
    assert accuracy(scores[350:], truth[350:]) is None
    assert not argmax_mask(scores)[300:350].any()


def test_exactly_one_class_is_decided_for_every_image(case):
    scores, truth = case
    thresholds = choose_single_label((scores, truth), 5)
    calibrated = thresholds.calibrate(scores)
    assert calibrated.sum(axis=1) == pytest.approx(np.ones(400), abs=1e-5)
    assert (thresholds.decide(calibrated) == argmax_mask(scores)).all()
    assert np.isnan(thresholds.calibrate(np.full((1, 5), np.nan))).all()
    assert Thresholds(**thresholds.to_json()) == thresholds
    assert choose_single_label(None, 5).temperature == 1.0


@pytest.mark.parametrize(
    ("confidence", "expected"),
    [
        (None, [[0, 1, 0], [1, 0, 0], [0, 0, 1], [0, 1, 0], [-1, -1, -1]]),
        (0.8, [[0, 1, 0], [1, 0, 0], [0, -1, -1], [0, 1, 0], [-1, -1, -1]]),
    ],
)
def test_completed_labels_have_one_each(confidence, expected):
    """What is known stays: the third lacks what the network believes in, the fourth is known."""
    names = tuple("abcde")
    known = [[-1, -1, -1], [-1, -1, -1], [0, -1, -1], [0, 1, 0], [-1, -1, -1]]
    odds = np.array([[1, 98, 1], [90, 5, 5], [50, 20, 30], [98, 1, 1], [np.nan] * 3], float)
    scores = (odds / (1 + odds)).astype(np.float32)
    rows = (LabelTable(names, ("x", "y", "z"), known), np.zeros(5, bool), scores)
    completed = fill_in(*rows, choose_single_label(None, 3), 1.0, confidence)
    assert completed.values.tolist() == expected
