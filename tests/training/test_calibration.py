"""Probabilities from tags only, against simulated tags and other computations of the same."""

import numpy as np
import pytest
from scipy.special import expit, logit
from sklearn.linear_model import Ridge
from sklearn.model_selection import LeaveOneOut, cross_val_predict

from g2netpl.labels.table import LabelTable
from g2netpl.runs.completion import fill_in
from g2netpl.runs.thresholds import choose_sampled
from g2netpl.training.calibration import (
    best_sharpness,
    learn_shown,
    log_softmax_of,
    matching_count,
    ridge,
)

RANDOM = np.random.default_rng(3)
SOFTMAX = RANDOM.dirichlet(np.full(6, 0.4), size=4000)
PRESENCE = -np.expm1(-2.0 * SOFTMAX)


@pytest.mark.parametrize("sharpness", [0.6, 1.0, 1.7])
def test_the_sharpness_behind_simulated_tags_is_found(sharpness):
    sharp = np.exp(log_softmax_of(PRESENCE, sharpness))
    tags = (sharp.cumsum(axis=1) > RANDOM.random((len(sharp), 1))).argmax(axis=1)
    known = np.full(SOFTMAX.shape, -1, dtype=np.int8)
    known[np.arange(len(tags)), tags] = 1
    assert best_sharpness(PRESENCE.astype(np.float32), known) == pytest.approx(sharpness, rel=0.08)
    known[19:] = -1  # too few tags to choose by
    assert best_sharpness(PRESENCE, known) == 1.0


def test_k_positives_are_expected_at_the_count():
    """By the softmax, pooled with sigmoids, and of all images, some of which show nothing."""
    sigmoids = RANDOM.uniform(0.01, 0.6, SOFTMAX.shape)
    shown = RANDOM.uniform(0.1, 1.0, len(SOFTMAX))
    for others, part in ((None, None), (sigmoids, None), (None, shown)):
        count = matching_count(PRESENCE, 1.0, 1.1, others, part)
        found = -np.expm1(-count * SOFTMAX)
        if others is not None:
            found = expit(1.1 * (2 * logit(found) + logit(others)) / 3)
        if part is not None:
            found = part[:, None] * found
        assert found.sum(axis=1).mean() == pytest.approx(1.1, rel=1e-6)


def test_unreadable_images_and_an_impossible_k_do_no_harm():
    scores = PRESENCE.copy()
    scores[::2] = np.nan
    assert matching_count(scores, 1.0, 1.5) == pytest.approx(
        matching_count(PRESENCE[1::2], 1.0, 1.5)
    )
    assert matching_count(scores[:0], 1.0, 1.5) == 1.5
    assert matching_count(PRESENCE, 1.0, 6.0) == 6.0


@pytest.mark.parametrize(("images", "width"), [(30, 4), (12, 40)])
def test_the_errors_of_the_ridge_are_those_of_leaving_one_out(images, width):
    random = np.random.default_rng(images)
    x = random.normal(size=(images, width)) + 2.0
    y = x[:, 0] - 0.5 * x[:, 1] + random.normal(0, 0.5, images)
    squares = np.linalg.svd(x - x.mean(axis=0), compute_uv=False) ** 2
    least = min(
        np.square(y - cross_val_predict(Ridge(squares.mean() * s), x, y, cv=LeaveOneOut())).sum()
        for s in np.logspace(-3, 3, 25)
    )
    assert np.square(ridge(x, y)[1]).sum() == pytest.approx(least)


def collection(empty, tagged, images=2000, width=6, seed=0):
    """Features of photos, a fraction of which shows nothing; of the others a fraction has a tag."""
    random = np.random.default_rng(seed)
    shows = random.random(images) >= empty
    features = random.normal(size=(images, width)) + 3.0
    features[:, 0] += 3.0 * shows
    return features, shows, shows & (random.random(images) < tagged)


@pytest.mark.parametrize("tagged", [0.3, 0.8])
def test_photos_of_a_kind_without_tags_show_nothing(tagged):
    features, shows, has_tag = collection(0.4, tagged)
    weights, constant = learn_shown(features, has_tag)
    shown = np.clip(features @ weights + constant, 0, 1)
    assert shown[has_tag].mean() > 0.85
    assert shown[shows & ~has_tag].mean() > 0.8
    assert shown[~shows].mean() < 0.3
    assert shown.mean() == pytest.approx(shows.mean(), abs=0.05)


def test_photos_with_a_tag_at_random_all_show_something():
    for seed in range(5):
        features, _, has_tag = collection(0.0, 0.3, images=300, width=100, seed=seed)
        assert learn_shown(features, has_tag) is None
    features, _, has_tag = collection(0.4, 0.8)
    assert learn_shown(features[:30], has_tag[:30]) is None  # too few
    assert learn_shown(features, np.ones(2000, dtype=bool)) is None


def filled_in(probabilities, confidence=None):
    count, classes = np.shape(probabilities)
    unknown = np.full((count, classes), -1, dtype=np.int8)
    table = LabelTable(tuple(map(str, range(count))), tuple("abcd")[:classes], unknown)
    raw = np.array(probabilities, dtype=np.float32)
    thresholds = choose_sampled("f1", classes, 1.0)
    return fill_in(table, np.zeros(count, dtype=bool), raw, thresholds, 1.0, confidence)


def test_a_negative_is_confident_only_if_it_is_with_twice_as_many_positives():
    # then 0.05 becomes 1 − 0.95² = 0.0975, and 0.06 becomes 0.1164
    assert filled_in([[0.95, 0.89, 0.06, 0.05]], 0.9).values.tolist() == [[1, -1, -1, 0]]
    assert filled_in([[0.95, 0.51, 0.49, 0.05]]).values.tolist() == [[1, 1, 0, 0]]


def test_a_class_on_nearly_every_image_is_reported():
    probabilities = np.tile([0.9, 0.1], (20, 1))
    probabilities[0, 0] = 0.1  # 19 of 20
    assert "'a' is on 95%" in [*filled_in(probabilities).notes()][-1]
    probabilities[:2, 0] = 0.1  # 18 of 20 are not more than nine in ten
    assert not any("is on" in line for line in filled_in(probabilities).notes())
