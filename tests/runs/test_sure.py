from types import SimpleNamespace

import numpy as np
import pytest
from scipy.special import expit

from g2netpl.labels.table import LabelTable
from g2netpl.runs.chances import thresholds_of_presence
from g2netpl.runs.completion import complete, fill_in
from g2netpl.runs.sure import _observed_shares, sure_by_validation
from g2netpl.runs.tables import HeldOut
from g2netpl.runs.thresholds import choose


def drawn(random, images, apart, share=0.1):
    """Scores whose level is off, and their labels: classes are ranked better and better."""
    labels = (random.random((images, len(apart))) < share).astype(np.int8)
    seen = random.normal(size=labels.shape) + labels * apart
    logits = apart * seen - apart**2 / 2 + np.log(share / (1 - share))
    return expit(2 * logits + 3).astype(np.float32), labels


def named(count):
    return tuple(map(str, range(count)))


def trained(seed, observed_share, validation=1500, images=4000):
    """A validation with all labels, and images of which a share of the positives is known."""
    random, apart = np.random.default_rng(seed), np.linspace(1.5, 5, 12)
    scores, labels = drawn(random, validation, apart)
    held_out = HeldOut(LabelTable(named(validation), tuple("abcdefghijkl"), labels), scores)
    raw, truth = drawn(random, images, apart)
    known = (truth == 1) & (random.random(truth.shape) < observed_share)
    observed = LabelTable(named(images), tuple("abcdefghijkl"), np.where(known, 1, -1))
    return held_out, raw, truth, observed


def right(filled, truth, observed, sign):
    new = (filled == sign) & (observed.values == -1)
    return (truth[new] == sign).mean(), int(new.sum())


@pytest.mark.parametrize("sure", [0.8, 0.9])
@pytest.mark.parametrize("observed_share", [0.0, 0.6])
def test_what_is_filled_in_is_as_right_as_was_promised(sure, observed_share):
    found = {1: [], 0: []}
    for seed in range(5):
        held_out, raw, truth, observed = trained(seed, observed_share)
        thresholds = choose("f1", (held_out.scores, held_out.truth), raw, 1.2)
        by = sure_by_validation(sure, thresholds, held_out, observed.values, 1.2)
        none = np.zeros(len(raw), dtype=bool)
        filled = fill_in(observed, none, raw, thresholds, 1.2, by, raw)
        for sign, each in found.items():
            each.append(right(filled.values, truth, observed, sign))
        nothing = np.full_like(observed.values, -1)
        hasty = sure_by_validation(sure, thresholds, held_out, nothing, 1.2)
        if observed_share:  # as if nothing had been taken from what is to be found
            assert right(hasty.decide(filled.scores), truth, observed, 1)[0] < sure
    for shares in found.values():
        assert np.mean([share for share, _ in shares]) >= sure
    assert np.mean([count for _, count in found[1]]) > 500
    assert "positives" in str(filled)
    assert "sure by 1,500 validation images, of 12 classes" in str(filled)


def test_a_negative_has_to_be_likely_by_itself():
    held_out, raw, *_, observed = trained(0, 0.0)
    thresholds = choose("f1", (held_out.scores, held_out.truth), raw, 1.2)
    by = sure_by_validation(0.8, thresholds, held_out, observed.values, 1.2)
    chances = thresholds.calibrate(raw)
    assert chances[by.decide(chances) == 0].max() <= 0.2
    nan = np.full((1, 12), np.nan, dtype=np.float32)
    assert (by.decide(nan) == -1).all()


def test_observed_shares_by_hand():
    truth = np.array([[1, 0], [0, 0], [1, 1], [0, -1]], dtype=np.int8)  # 1/2 and 1/3 positive
    observed = np.array([[1, -1], [-1, 0], [-1, -1], [1, 1]], dtype=np.int8)
    # three images have unknown labels: 3 × 5/6 positives, 3 × 7/6 negatives, one of each known
    assert _observed_shares(observed, truth) == pytest.approx((1 / 2.5, 1 / 3.5))
    assert _observed_shares(np.array([[1, -1]] * 9, dtype=np.int8), truth)[0] == 0.95


def test_without_negatives_nothing_can_be_held_against():
    held_out, raw, *_, observed = trained(0, 0.0)
    thresholds = choose("f1", (held_out.scores, held_out.truth), raw, 1.2)
    tags = LabelTable(
        held_out.table.images, held_out.table.classes, np.where(held_out.truth == 1, 1, -1)
    )
    assert sure_by_validation(0.9, thresholds, None, observed.values, 1.2) is None
    without = HeldOut(tags, raw[:1500])
    assert sure_by_validation(0.9, thresholds, without, observed.values, 1.2) is None
    chances = thresholds_of_presence("f1", 12, 1.2)
    assert sure_by_validation(0.9, chances, held_out, observed.values, 1.2) is None


def seen_by_people(held_out, complete, negatives):
    """Validation of which people named one thing in each image; in the first ones, everything.

    Of the others they also said of a share of what is not there that it is not.
    """
    random, truth = np.random.default_rng(9), held_out.truth
    named = np.argmax(random.random(truth.shape) * (truth == 1), axis=1)
    seen = np.full_like(truth, -1)
    seen[np.arange(len(truth)), named] = np.where((truth == 1).any(axis=1), 1, -1)
    seen[(truth == 0) & (random.random(truth.shape) < negatives)] = 0
    seen[:complete] = truth[:complete]
    return HeldOut(LabelTable(held_out.table.images, held_out.table.classes, seen), held_out.scores)


@pytest.mark.parametrize("negatives", [0.0, 0.05])
def test_names_beside_complete_images_promise_nothing(negatives):
    found = []
    for seed in range(5):
        held_out, raw, truth, observed = trained(seed, 0.0)
        k = truth.sum(axis=1).mean()
        validation = seen_by_people(held_out, 400, negatives)
        thresholds = choose("precision:0.9", (validation.scores, validation.truth), raw, k)
        assert thresholds.basis == "400 validation images"
        by = sure_by_validation(0.9, thresholds, validation, observed.values, k)
        chances = thresholds.calibrate(raw)
        decided = thresholds.decide(chances)
        found.append((truth[decided].mean(), right(by.decide(chances), truth, observed, 1)[0]))
        assert decided.sum() > 300
    assert np.mean(found, axis=0) == pytest.approx([0.93, 0.93], abs=0.03)


def test_names_and_a_few_negatives_are_no_sample_to_promise_by():
    held_out, raw, truth, observed = trained(0, 0.0)
    k = truth.sum(axis=1).mean()
    validation = seen_by_people(held_out, 0, 0.05)
    thresholds = choose("precision:0.9", (validation.scores, validation.truth), raw, k)
    assert thresholds.rule == "expected"
    assert thresholds.decide(thresholds.calibrate(raw)).sum(axis=1).mean() == pytest.approx(k, 0.01)
    assert sure_by_validation(0.9, thresholds, validation, observed.values, k) is None
    random = np.random.default_rng(9).random(held_out.truth.shape) < 0.3  # both signs alike
    some = np.where(random, held_out.truth, -1)
    thresholds = choose("precision:0.9", (held_out.scores, some), raw, k)
    assert thresholds.basis == "1,500 validation images"


@pytest.mark.parametrize(("complete", "judged"), [(0, None), (5, None), (400, 400), (1500, 1500)])
def test_decisions_are_judged_by_images_that_tell(complete, judged):
    held_out, *_ = trained(0, 0.0)
    k = held_out.truth.sum(axis=1).mean()
    found = seen_by_people(held_out, complete, 0.05).judged(k)
    assert (None if found is None else len(found.table)) == judged
    if found is not None:
        assert (found.truth == held_out.truth[: len(found.truth)]).all()
        assert (found.scores == held_out.scores[: len(found.truth)]).all()
    one_file_has_half_of_the_classes = held_out.truth.copy()
    one_file_has_half_of_the_classes[:700, 6:] = -1
    merged = held_out.table.with_values(one_file_has_half_of_the_classes)
    assert len(HeldOut(merged, held_out.scores).judged(k).table) == 1500


def finished(rule, seed, soft_share=1.0, observed_share=0.6):
    """A run of which the soft labels know nothing, and its truth."""
    held_out, raw, truth, observed = trained(seed, observed_share)
    has_soft = np.arange(len(raw)) < soft_share * len(raw)
    noise = np.random.default_rng(seed).random(raw.shape).astype(np.float32)
    run = SimpleNamespace(
        thresholds=choose(rule, (held_out.scores, held_out.truth), raw, 1.2),
        held_out={"validation": held_out},
        expected_positives=1.2,
        observed=lambda: observed,
        predictions=lambda: raw,
        soft_labels=lambda: np.where(has_soft[:, None], noise, raw),
        has_soft_labels=lambda: has_soft,
    )
    return run, truth, observed


def test_a_precision_that_was_promised_holds_among_what_is_added():
    shares = []
    for seed in range(5):
        run, truth, observed = finished("precision:0.8", seed)
        completed = complete(run)
        assert (completed.values >= 0).all()
        share, count = right(completed.values, truth, observed, 1)
        shares.append(share)
        assert count > 500
        sure = complete(run, 0.8)
        assert (sure.proposed() == completed.proposed()).all()
    assert np.mean(shares) >= 0.8
    assert "thresholds: precision:0.8 of what is added, by 1,500 validation" in completed.how


@pytest.mark.parametrize(
    ("rule", "soft_share", "told"),
    [
        ("f1", 1.0, "every label is decided, so that about k = 1.20 positives per image come out"),
        (
            "f1",
            0.75,
            "of 3,000 images trained on the soft labels decide, so that about k = 1.20 positives "
            "per image come out; of 1,000 held out the network, by thresholds: f1, by 1,500",
        ),
        ("f1", 0.0, "every label is decided by thresholds: f1, by 1,500 validation images"),
        ("expected", 0.75, "every label is decided, so that about k = 1.20"),
    ],
)
def test_it_is_said_by_what_labels_were_decided(rule, soft_share, told):
    run, *_ = finished(rule, 0, soft_share)
    assert complete(run).how.startswith(told)
