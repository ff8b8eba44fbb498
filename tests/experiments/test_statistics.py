"""F1 and bootstrap intervals against plain loops, scikit-learn, and truth known by construction."""

import numpy as np
import pytest
from sklearn.metrics import average_precision_score, f1_score

from g2netpl.experiments.statistics import SAMPLES, bootstrap_map, differences, f1_scores

RANDOM = np.random.default_rng(0)


def test_f1_over_all_labels_is_that_of_scikit_learn():
    truth = RANDOM.integers(0, 2, (50, 4)).astype(np.int8)
    decided = RANDOM.random((50, 4)) < 0.4
    by_class, overall = f1_scores(decided, truth)
    assert overall == pytest.approx(f1_score(truth, decided, average="micro"))
    precision = np.mean([truth[decided[:, j], j].mean() for j in range(4)])
    recall = np.mean([decided[truth[:, j] == 1, j].mean() for j in range(4)])
    assert by_class == pytest.approx(2 * precision * recall / (precision + recall))


def test_unknown_labels_do_not_count():
    truth = RANDOM.integers(0, 2, (50, 4)).astype(np.int8)
    decided = RANDOM.random((50, 4)) < 0.4
    more = np.concatenate([truth, np.full((9, 4), -1, dtype=np.int8)])
    guesses = np.concatenate([decided, np.ones((9, 4), dtype=bool)])
    assert f1_scores(guesses, more) == f1_scores(decided, truth)


def test_bootstrap_samples_are_map_of_resampled_images():
    """With ties, unknown labels, an unreadable image and a class without a positive."""
    truth = RANDOM.integers(-1, 2, (40, 3)).astype(np.int8)
    truth[:, 2] = np.minimum(truth[:, 2], 0)
    scores = RANDOM.integers(0, 8, (40, 3)) / 8
    scores[5], truth[5] = np.nan, -1
    samples = bootstrap_map(scores, truth)
    assert len(samples) == SAMPLES
    random = np.random.default_rng(0)
    for value in samples[:10]:
        rows = random.integers(0, 40, 40)
        known = [rows[truth[rows, j] >= 0] for j in range(3)]
        each = [average_precision_score(truth[r, j], scores[r, j]) for j, r in enumerate(known[:2])]
        assert value == pytest.approx(sum(each) / 3, abs=1e-6)
    assert bootstrap_map(scores, np.where(truth == 1, 1, -1)) is None


def rows_of(method, scores, seeds, noise=0.0):
    random = np.random.default_rng(1)
    return [
        {
            **{"method": method, "setting": "fspl", "seed": seed},
            "test_map": scores[seed],
            "test_samples": (scores[seed] + noise * random.normal(size=SAMPLES)).tolist(),
        }
        for seed in seeds
    ]


def test_differences_are_paired():
    """Seeds differ far more than methods; pairing removes that."""
    first = rows_of("a", (0.2, 0.5, 0.8), (0, 1, 2), noise=0.05)
    second = rows_of("b", (0.21, 0.51, 0.81), (0, 1, 2), noise=0.05)
    gaps = differences(first + second).set_index(["method", "minus"])
    gap = gaps.loc[("b", "a")]
    assert (gap["difference"], gap["low"], gap["high"], gap["seeds"]) == (1.0, 1.0, 1.0, 3)
    assert gaps.loc[("a", "b"), "difference"] == -1.0
    # one that is better on one seed only has an interval from there to the others
    third = rows_of("c", (0.2, 0.5, 0.95), (0, 1, 2))
    gap = differences(rows_of("a", (0.2, 0.5, 0.8), (0, 1, 2)) + third).iloc[1]
    assert (gap["method"], gap["difference"], gap["low"]) == ("c", 5.0, 0.0)
    assert gap["high"] > 9


def test_only_common_seeds_are_compared():
    rows = rows_of("a", (0.2, 0.5), (0, 1)) + rows_of("b", (0.3, 0.5), (0,))
    assert differences(rows)["seeds"].tolist() == [1, 1]
    lone = rows_of("a", (0.2, 0.5), (0,)) + rows_of("b", (0.2, 0.5), (1,))
    assert differences(lone).empty
    assert differences([{"method": "a", "test_samples": None}]).empty


def test_an_interval_covers_the_true_difference():
    """Two scorers of known quality: 95 % intervals of 60 test sets miss it rarely."""

    def scored(random, images, noise):
        truth = (random.random((images, 3)) < 0.4).astype(np.int8)
        signal = truth + random.normal(size=truth.shape)
        return truth, signal, signal + noise * random.normal(size=truth.shape)

    def mean_ap(scores, truth):
        return np.mean([average_precision_score(truth[:, j], scores[:, j]) for j in range(3)])

    truth, good, bad = scored(np.random.default_rng(99), 50_000, 1.0)
    real = 100 * (mean_ap(good, truth) - mean_ap(bad, truth))
    missed = 0
    for number in range(60):
        truth, good, bad = scored(np.random.default_rng(number), 200, 1.0)
        rows = [
            {"method": name, "setting": "x", "seed": 0, "test_map": mean_ap(scores, truth)}
            | {"test_samples": bootstrap_map(scores, truth)}
            for name, scores in (("good", good), ("bad", bad))
        ]
        gap = differences(rows).iloc[0]
        missed += not gap["low"] <= real <= gap["high"]
    assert missed <= 8  # 3 are expected; more than 8 of 60 have a probability below 1 %
