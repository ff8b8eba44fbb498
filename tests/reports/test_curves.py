"""Curves of scores against known labels, compared with scikit-learn and scipy."""

import numpy as np
import pytest
from scipy.stats import binomtest
from sklearn.calibration import calibration_curve
from sklearn.metrics import precision_recall_curve

from g2netpl.labels.table import LabelTable
from g2netpl.reports.curves import Bin, calibration_error, precision_recall, reliability
from g2netpl.runs.tables import HeldOut, read_held_out, write_held_out


def test_precision_recall_with_ties():
    random = np.random.default_rng(1)
    scores = random.integers(0, 8, size=200) / 8
    positive = random.random(200) < scores
    recall, precision, thresholds = precision_recall(scores, positive)
    theirs = precision_recall_curve(positive, scores)
    np.testing.assert_allclose(precision, theirs[0][:-1][::-1])
    np.testing.assert_allclose(recall, theirs[1][:-1][::-1])
    np.testing.assert_allclose(thresholds, theirs[2][::-1])


def test_reliability_with_scores_on_the_edges():
    random = np.random.default_rng(2)
    scores = random.integers(0, 21, size=400) / 20
    positive = random.random(400) < scores
    found = reliability(scores, positive)
    share, mean = calibration_curve(positive, scores, n_bins=10)
    np.testing.assert_allclose([each.positive for each in found], share)
    np.testing.assert_allclose([each.score for each in found], mean)
    for each in found:
        hits = round(each.positive * each.count)
        ours, theirs = each.interval(), binomtest(hits, each.count).proportion_ci(method="wilson")
        np.testing.assert_allclose(ours, (theirs.low, theirs.high), atol=1e-4)
    # 3 entries of 0.2, none positive; 1 entry of 0.9, positive: (3 · 0.2 + 1 · 0.1) / 4
    bins = [Bin(0.1, 0.2, 0.2, 0.0, 3), Bin(0.8, 0.9, 0.9, 1.0, 1)]
    assert calibration_error(bins) == pytest.approx(0.175)


def test_scores_survive_the_file(tmp_path):
    scores = np.array([[0.0, 1.0], [1e-6, 1 - 1e-6], [0.3, 0.999], [np.nan, np.nan]], np.float32)
    table = LabelTable(("a", "b", "c", "d"), ("x", "y"), np.zeros((4, 2), np.int8))
    with np.errstate(divide="raise", invalid="raise"):
        write_held_out(tmp_path, {"test": HeldOut(table, scores)})
        kept = read_held_out(tmp_path, ("x", "y"))
    read = kept["test"].scores
    logits = np.log(read[1:3] / (1 - read[1:3]).astype(np.float64))
    exact = np.log(scores[1:3] / (1 - scores[1:3]).astype(np.float64))
    np.testing.assert_allclose(logits, exact, rtol=5e-3)  # in float16 they would be 1
    assert np.isnan(read[3]).all()
    assert list(kept) == ["test"]
    assert kept["test"].table.images == ("a", "b", "c", "d")
    assert (kept["test"].truth[3] == -1).all()
