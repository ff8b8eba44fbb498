import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import expit, logit
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import f1_score, log_loss

from g2netpl.runs.thresholds import (
    Thresholds,
    calibration,
    choose,
    f1_threshold,
    matching_threshold,
    parse_rule,
)
from g2netpl.utils.errors import InputError

numbers = st.lists(st.sampled_from([0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 0.9]), min_size=1, max_size=25)


def made(count=4000, classes=6, seed=0):
    """Labels drawn from known probabilities: the truth a calibration has to find."""
    random = np.random.default_rng(seed)
    logits = random.normal(-1.5, 1.5, size=(count, classes))
    truth = (random.random(logits.shape) < expit(logits)).astype(np.int8)
    return logits, truth


@given(numbers, st.randoms(use_true_random=False))
def test_no_threshold_has_a_better_f1(scores, random):
    labels = [random.randint(0, 1) for _ in scores]
    found = f1_threshold(scores, labels)
    if not any(labels):
        assert found is None
        return
    reached = f1_score(labels, np.array(scores) >= found)
    others = [f1_score(labels, np.array(scores) >= each, zero_division=0) for each in scores]
    assert reached == pytest.approx(max(others))


def test_calibration_finds_the_distortion_and_agrees_with_scikit_learn():
    logits, truth = made(20000)
    bent = expit(3.0 * logits + 4.0)
    temperature, shift = calibration(bent, truth)
    # logits = (bent logits - 4) / 3
    assert temperature == pytest.approx(3.0, rel=0.1)
    assert shift == pytest.approx(-4 / 3, abs=0.1)
    other = LogisticRegression(C=np.inf).fit(logit(bent).reshape(-1, 1), truth.ravel())
    assert 1 / temperature == pytest.approx(other.coef_[0, 0], rel=1e-3)
    assert shift == pytest.approx(other.intercept_[0], rel=1e-3)


def test_unknown_labels_do_not_count():
    logits, truth = made()
    hidden = np.random.default_rng(1).random(truth.shape) < 0.5
    partly = np.where(hidden, -1, truth).astype(np.int8)
    scores = expit(2 * logits)
    found = calibration(scores, partly)
    assert found == pytest.approx(calibration(scores[~hidden][None], truth[~hidden][None]))
    assert found != pytest.approx(calibration(scores, truth), rel=1e-6)


@pytest.mark.parametrize("k", [0.5, 1.3, 3.0])
def test_without_negatives_k_labels_per_image_come_out(k):
    logits, truth = made()
    scores = expit(2 * logits + 3).astype(np.float32)
    tags = np.where(truth == 1, 1, -1).astype(np.int8)
    thresholds = choose("f1", (scores, tags), scores, k)
    calibrated = thresholds.calibrate(scores)
    assert calibrated.sum(axis=1).mean() == pytest.approx(k, abs=1e-3)
    assert thresholds.decide(calibrated).sum(axis=1).mean() == pytest.approx(k, abs=2 / 4000)
    assert (thresholds.rule, thresholds.temperature) == ("expected", 1.0)
    assert "no negatives" in thresholds.basis


def test_with_both_signs_the_log_loss_falls_and_the_basis_is_named():
    logits, truth = made()
    scores = expit(2 * logits + 3).astype(np.float32)
    thresholds = choose("f1", (scores[:2000], truth[:2000]), scores, 1.0)
    assert (thresholds.rule, thresholds.basis) == ("f1", "2,000 validation images")
    before = log_loss(truth[2000:].ravel(), scores[2000:].ravel())
    after = log_loss(truth[2000:].ravel(), thresholds.calibrate(scores[2000:]).ravel())
    assert after < 0.6 * before
    assert log_loss(truth[2000:].ravel(), expit(logits[2000:]).ravel()) == pytest.approx(
        after, rel=0.01
    )


def test_a_class_with_few_positives_leans_on_the_others():
    random = np.random.default_rng(0)
    truth = np.zeros((400, 2), dtype=np.int8)
    truth[:200, 0] = 1
    truth[0, 1] = 1  # one positive, whose score happens to be low
    scores = np.clip(
        np.where(truth == 1, 0.7, 0.3) + random.normal(0, 0.1, truth.shape), 0.01, 0.99
    )
    scores[0, 1] = 0.05
    thresholds = choose("f1", (scores.astype(np.float32), truth), scores.astype(np.float32), 1.0)
    _, rare = thresholds.per_class
    own = f1_threshold(thresholds.calibrate(scores)[:, 1], truth[:, 1])
    # weight 1 / (1 + 10) for itself
    everything = f1_threshold(thresholds.calibrate(scores).ravel(), truth.ravel())
    assert logit(rare) == pytest.approx(logit(own) / 11 + logit(everything) * 10 / 11, rel=1e-3)
    assert rare > own


def test_the_way_through_json_and_unreadable_images():
    logits, truth = made(200)
    scores = expit(logits).astype(np.float32)
    scores[3] = np.nan
    thresholds = choose("precision:0.6", (scores, truth), scores, 1.0)
    assert Thresholds(**thresholds.to_json()) == thresholds
    calibrated = thresholds.calibrate(scores)
    assert np.isnan(calibrated[3]).all()
    assert not thresholds.decide(calibrated)[3].any()
    assert np.isfinite(np.delete(calibrated, 3, axis=0)).all()
    assert np.isfinite(choose("expected", None, scores, 1.0).shift)


def test_extremes():
    assert matching_threshold(np.zeros((0, 3)), 1.0) == 0.5
    some = np.array([[0.1, 0.9], [0.4, 0.6]])
    assert (some >= matching_threshold(some, 0.0)).sum() == 0
    assert (some >= matching_threshold(some, 2.0)).sum() == 4
    assert (some >= matching_threshold(some, 1.0)).sum() == 2
    tied = np.array([[0.5, 0.5, 0.5], [0.5, 0.5, 1.0]])  # 1 or 6 labels, nothing in between
    assert (tied >= matching_threshold(tied, 1.0)).sum() == 1
    assert (tied >= matching_threshold(tied, 2.0)).sum() == 6
    thresholds = Thresholds(thresholds=(0.5, 0.5), rule="f1", basis="")
    assert thresholds.calibrate([[0.0, 1.0]]).tolist() == [[pytest.approx(0), pytest.approx(1)]]


@pytest.mark.parametrize("text", ["f2", "precision", "precision:1", "precision:x", "f1:3", ""])
def test_rules_are_checked(text):
    with pytest.raises(InputError, match=r"expected f1, expected, or precision:P"):
        parse_rule(text)
