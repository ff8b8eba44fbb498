"""Chances from names alone, against simulated draws and hand-worked values."""

import numpy as np
import pytest

from g2netpl.runs.chances import (
    count_to_expect,
    log_shares,
    sharpness_by_names,
    thresholds_of_presence,
)
from g2netpl.runs.thresholds import Thresholds

RANDOM = np.random.default_rng(3)
SHARES = RANDOM.dirichlet(np.full(6, 0.4), size=4000)
PRESENCE = -np.expm1(-2.0 * SHARES)


@pytest.mark.parametrize("sharpness", [0.6, 1.0, 1.7])
def test_the_sharpness_behind_simulated_names_is_found(sharpness):
    sharp = np.exp(log_shares(PRESENCE, sharpness))
    names = (sharp.cumsum(axis=1) > RANDOM.random((len(sharp), 1))).argmax(axis=1)
    known = np.full(SHARES.shape, -1, dtype=np.int8)
    known[np.arange(len(names)), names] = 1
    assert sharpness_by_names(PRESENCE.astype(np.float32), known) == pytest.approx(
        sharpness, rel=0.08
    )


def test_few_names_leave_the_shares_as_they_are():
    known = np.full(SHARES.shape, -1, dtype=np.int8)
    known[:19, 0] = 1
    assert sharpness_by_names(PRESENCE, known) == 1.0


@pytest.mark.parametrize("k", [0.7, 1.0, 2.2])
def test_k_positives_are_expected_at_the_count(k):
    count = count_to_expect(PRESENCE, 1.3, k)
    shares = np.exp(log_shares(PRESENCE, 1.3))
    assert -np.expm1(-count * shares).sum(axis=1).mean() == pytest.approx(k, rel=1e-6)


def test_unreadable_images_and_an_impossible_k_do_no_harm():
    scores = PRESENCE.copy()
    scores[::2] = np.nan
    assert count_to_expect(scores, 1.0, 1.5) == pytest.approx(
        count_to_expect(PRESENCE[1::2], 1.0, 1.5)
    )
    assert count_to_expect(scores[:0], 1.0, 1.5) == 1.5
    assert count_to_expect(PRESENCE, 1.0, 6.0) == 6.0


def test_shares_behind_presences():
    assert np.allclose(np.exp(log_shares(PRESENCE)), SHARES, atol=1e-6)


@pytest.mark.parametrize(("rule", "limit"), [("f1", 0.5), ("precision:0.9", 0.9)])
def test_chances_are_decided_as_they_stand(rule, limit):
    thresholds = thresholds_of_presence(rule, 3, 2.0)
    assert thresholds.per_class == (limit,) * 3
    assert np.allclose(thresholds.calibrate([[0.2, 0.7, 0.95]]), [[0.2, 0.7, 0.95]])
    assert Thresholds.from_json(thresholds.to_json()) == thresholds
