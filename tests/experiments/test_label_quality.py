"""Pseudo-labels by the hidden truth, against plain loops and scikit-learn."""

import math

import numpy as np
import pytest
import torch
from sklearn.metrics import average_precision_score

from g2netpl.experiments.cells import train_cell, trainer_of
from g2netpl.experiments.data import ArrayData
from g2netpl.experiments.statistics import watch_labels
from g2netpl.experiments.sweep import Cell, Sweep
from g2netpl.labels.table import LabelTable

RANDOM = np.random.default_rng(0)
INPUTS = torch.from_numpy(RANDOM.normal(size=(80, 6)).astype(np.float32))
TRUTH = (INPUTS.numpy()[:, :4] > 0.4).astype(np.int8)
KNOWN = RANDOM.integers(-1, 2, (50, 4)).astype(np.int8)  # some truth is not known either
KNOWN[:, 3] = np.minimum(KNOWN[:, 3], 0)  # a class without a positive
VISIBLE = np.where(RANDOM.random((50, 4)) < 0.4, KNOWN, -1).astype(np.int8)
SOFT = (RANDOM.integers(0, 20, (50, 4)) / 20).astype(np.float32)  # with ties
PREDICTED = RANDOM.random((50, 4)).astype(np.float32)


def hidden_values(scores, value):
    """Scores of the entries with that truth which were not shown."""
    found = []
    for row in range(50):
        for column in range(4):
            if VISIBLE[row, column] == -1 and KNOWN[row, column] == value:
                found.append(float(scores[row, column]))
    return sorted(found)


def quantile(ordered, share):
    """Between two neighbours in proportion."""
    place = share * (len(ordered) - 1)
    low, part = math.floor(place), place % 1
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] * (1 - part) + ordered[high] * part


def mean_precision(scores, counts):
    """Over the classes, on the entries that count; a class without a positive is 0."""
    total = 0.0
    for column in range(scores.shape[1]):
        rows = [row for row in range(len(scores)) if counts[row, column]]
        truth = KNOWN[rows, column]
        if (truth == 1).any():
            total += average_precision_score(truth, scores[rows, column])
    return total / scores.shape[1]


def test_one_epoch_equals_plain_loops():
    record = watch_labels(SOFT, PREDICTED, KNOWN, VISIBLE)
    for name, value in (("positive", 1), ("negative", 0)):
        for prefix, scores in (("", SOFT), ("predicted_", PREDICTED)):
            ordered = hidden_values(scores, value)
            expected = [quantile(ordered, share) for share in (0.25, 0.5, 0.75)]
            assert record[prefix + name] == pytest.approx(expected, abs=1e-6)
    hidden = (VISIBLE == -1) & (KNOWN != -1)
    assert record["pseudo_label_map"] == pytest.approx(mean_precision(SOFT, hidden), abs=1e-9)
    assert record["predicted_map"] == pytest.approx(mean_precision(PREDICTED, hidden), abs=1e-9)
    assert len(record) == 6


def test_watching_changes_nothing():
    names = tuple(map(str, range(len(TRUTH))))
    table = LabelTable(names, tuple("abcd"), TRUTH)
    arrays = ArrayData(INPUTS, table, INPUTS, table)
    cell = Cell("g2netpl", "sspl:0.5", 0, 0.03, 16)
    sweeps = [
        Sweep(("g2netpl",), ("sspl:0.5",), (0,), epochs=3, watch_labels=watched)
        for watched in (True, False)
    ]
    watched, alone = (train_cell(sweep, cell, arrays) for sweep in sweeps)
    timeless = {"seconds": 0, "history": 0, "movement": 0}
    assert watched | timeless == alone | timeless
    assert alone["movement"] == []
    assert len(watched["movement"]) == 3
    # the last record is that of the end of the run
    trainer = trainer_of(sweeps[1], cell, arrays)
    trainer.fit()
    rows = trainer.data.training
    expected = watch_labels(
        trainer.pseudo_labels(),
        trainer.predict(trainer.last_model, trainer.source),
        TRUTH[rows],
        trainer.data.visible.values,
    )
    for name, values in expected.items():
        assert watched["movement"][-1][name] == pytest.approx(values)
