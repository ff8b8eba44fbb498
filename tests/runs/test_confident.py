"""Confident labels, and a guaranteed precision among what is added, against a known truth."""

from types import SimpleNamespace

import numpy as np
import pytest
from scipy.special import expit

from g2netpl.labels.table import LabelTable
from g2netpl.runs.completion import complete_run, fill_in
from g2netpl.runs.tables import HeldOut
from g2netpl.runs.thresholds import (
    choose,
    choose_sampled,
    confident_thresholds,
    observed_fractions,
)

CLASSES = tuple("abcdefghijkl")


def simulated(random, images):
    """Scores whose level is off, and their labels: classes are ranked better and better."""
    apart = np.linspace(1.5, 5, len(CLASSES))
    labels = (random.random((images, len(CLASSES))) < 0.1).astype(np.int8)
    seen = random.normal(size=labels.shape) + labels * apart
    logits = apart * seen - apart**2 / 2 + np.log(0.1 / 0.9)
    return expit(2 * logits + 3).astype(np.float32), labels


def table(values):
    return LabelTable(tuple(map(str, range(len(values)))), CLASSES, values)


def trained(seed, observed_share, validation=1500, images=4000):
    """A validation with all labels, and images of which a share of the positives is known."""
    random = np.random.default_rng(seed)
    held_out = simulated(random, validation)
    raw, truth = simulated(random, images)
    known = (truth == 1) & (random.random(truth.shape) < observed_share)
    return held_out, raw, truth, table(np.where(known, 1, -1))


def right(filled, truth, observed, sign=1):
    """The fraction of the added labels of a sign that is right, and how many there are."""
    new = (filled == sign) & (observed.values == -1)
    return (truth[new] == sign).mean(), int(new.sum())


@pytest.mark.parametrize(("confidence", "observed_share"), [(0.9, 0.0), (0.8, 0.6)])
def test_added_labels_are_as_right_as_was_guaranteed(confidence, observed_share):
    results = {1: [], 0: []}
    for seed in range(3):
        held_out, raw, truth, observed = trained(seed, observed_share)
        thresholds = choose("f1", held_out, raw, 1.2)
        by = confident_thresholds(confidence, thresholds, held_out, observed.values, 1.2)
        no_pseudo_labels = np.zeros(len(raw), dtype=bool)
        filled = fill_in(observed, no_pseudo_labels, raw, thresholds, 1.2, by, raw)
        for sign, found in results.items():
            found.append(right(filled.values, truth, observed, sign))
        assert filled.scores[by.decide(filled.scores) == 0].max() <= 1 - confidence
        nothing = np.full_like(observed.values, -1)
        hasty = confident_thresholds(confidence, thresholds, held_out, nothing, 1.2)
        if observed_share:  # as if no positive had been observed yet
            fraction, _ = right(hasty.decide(filled.scores), truth, observed)
            assert fraction < min(results[1][-1][0], confidence + 0.03)
    for found in results.values():
        assert np.mean([fraction for fraction, _ in found]) >= confidence
    assert np.mean([count for _, count in results[1]]) > 500
    assert "confident by 1,500 validation images, of 12 classes" in str(filled)


def test_observed_fractions_by_hand():
    truth = np.array([[1, 0], [0, 0], [1, 1], [0, -1]], dtype=np.int8)  # 1/2 and 1/3 positive
    observed = np.array([[1, -1], [-1, 0], [-1, -1], [1, 1]], dtype=np.int8)
    # three images have unknown labels: 3 × 5/6 positives, 3 × 7/6 negatives, one of each known
    assert observed_fractions(observed, truth) == pytest.approx((1 / 2.5, 1 / 3.5))
    assert observed_fractions(np.array([[1, -1]] * 9, dtype=np.int8), truth)[0] == 0.95


def test_without_negatives_nothing_is_guaranteed():
    (scores, truth), raw, *_, observed = trained(0, 0.0)
    thresholds, values = choose("f1", (scores, truth), raw, 1.2), observed.values
    tags = scores, np.where(truth == 1, 1, -1).astype(np.int8)
    for validation in (None, tags):
        assert confident_thresholds(0.9, thresholds, validation, values, 1.2) is None
    sampled = choose_sampled("f1", 12, 1.2)
    assert confident_thresholds(0.9, sampled, (scores, truth), values, 1.2) is None


def seen_by_people(held_out, complete, negatives):
    """Validation images with one tag and a fraction of the negatives; the first are complete."""
    random, (scores, truth) = np.random.default_rng(9), held_out
    named = np.argmax(random.random(truth.shape) * (truth == 1), axis=1)
    seen = np.full_like(truth, -1)
    seen[np.arange(len(truth)), named] = np.where((truth == 1).any(axis=1), 1, -1)
    seen[(truth == 0) & (random.random(truth.shape) < negatives)] = 0
    seen[:complete] = truth[:complete]
    return scores, seen


@pytest.mark.parametrize("negatives", [0.0, 0.05])
def test_tags_next_to_complete_images_do_not_count(negatives):
    results = []
    for seed in range(3):
        held_out, raw, truth, observed = trained(seed, 0.0)
        k = truth.sum(axis=1).mean()
        validation = seen_by_people(held_out, 400, negatives)
        thresholds = choose("precision:0.9", validation, raw, k)
        assert thresholds.basis == "400 validation images"
        by = confident_thresholds(0.9, thresholds, validation, observed.values, k)
        probabilities = thresholds.calibrate(raw)
        decided = thresholds.decide(probabilities)
        added, _ = right(by.decide(probabilities), truth, observed)
        results.append((truth[decided].mean(), added))
        assert decided.sum() > 300
    assert (np.mean(results, axis=0) >= 0.9).all()


def test_tags_and_a_few_negatives_are_no_sample():
    held_out, raw, truth, observed = trained(0, 0.0)
    k = truth.sum(axis=1).mean()
    validation = seen_by_people(held_out, 0, 0.05)
    thresholds = choose("precision:0.9", validation, raw, k)
    assert thresholds.rule == "expected"
    assert thresholds.decide(thresholds.calibrate(raw)).sum(axis=1).mean() == pytest.approx(k, 0.01)
    assert confident_thresholds(0.9, thresholds, validation, observed.values, k) is None
    some = np.random.default_rng(9).random(held_out[1].shape) < 0.3  # both signs alike
    thresholds = choose("precision:0.9", (held_out[0], np.where(some, held_out[1], -1)), raw, k)
    assert thresholds.basis == "1,500 validation images"


@pytest.mark.parametrize(("complete", "judged"), [(0, None), (5, None), (400, 400), (1500, 1500)])
def test_decisions_are_measured_on_informative_images(complete, judged):
    (scores, truth), *_ = trained(0, 0.0)
    k = truth.sum(axis=1).mean()
    _, seen = seen_by_people((scores, truth), complete, 0.05)
    part = HeldOut(table(seen), scores).judged(k)
    assert (None if part is None else len(part.table)) == judged
    if part is not None:
        assert (part.truth == truth[: len(part.truth)]).all()
        assert (part.scores == scores[: len(part.truth)]).all()
    truth[:700, 6:] = -1  # of two files one has half of the classes
    assert len(HeldOut(table(truth), scores).judged(k).table) == 1500


def finished(rule, seed, soft_share=1.0):
    """A run whose pseudo-labels know nothing, and its truth."""
    held_out, raw, truth, observed = trained(seed, 0.6)
    has_soft = np.arange(len(raw)) < soft_share * len(raw)
    noise = np.random.default_rng(seed).random(raw.shape).astype(np.float32)
    run = SimpleNamespace(
        thresholds=choose(rule, held_out, raw, 1.2),
        held_out={"validation": HeldOut(table(held_out[1]), held_out[0])},
        expected_positives=1.2,
        observed=lambda: observed,
        predictions=lambda: raw,
        soft_labels=lambda: np.where(has_soft[:, None], noise, raw),
        labels=SimpleNamespace(has_soft=has_soft),
    )
    return run, truth, observed


def test_a_guaranteed_precision_holds_among_what_is_added():
    fractions = []
    for seed in range(3):
        run, truth, observed = finished("precision:0.8", seed)
        completed = complete_run(run)
        assert (completed.values >= 0).all()
        fraction, count = right(completed.values, truth, observed)
        fractions.append(fraction)
        assert count > 500
        assert (complete_run(run, 0.8).added() == completed.added()).all()
    assert np.mean(fractions) >= 0.8
    assert "thresholds: precision:0.8 of what is added, by 1,500 validation" in completed.how


@pytest.mark.parametrize(
    ("rule", "soft_share", "text"),
    [
        ("f1", 0.75, "3,000 training images: pseudo-labels decide, so that k = 1.20 positives"),
        ("f1", 0.0, "every label is decided by thresholds: f1, by 1,500 validation images"),
    ],
)
def test_how_labels_were_decided(rule, soft_share, text):
    run, *_ = finished(rule, 0, soft_share)
    assert complete_run(run).how.startswith(text)
