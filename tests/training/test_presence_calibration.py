"""Probabilities from tags only, against simulated tags and hand-worked values."""

import numpy as np
import pytest

from g2netpl.labels.table import LabelTable
from g2netpl.runs.completion import fill_in
from g2netpl.runs.thresholds import Thresholds, choose_sampled
from g2netpl.training.calibration import (
    best_sharpness,
    learn_shown,
    log_softmax_of,
    matching_count,
    ridge,
)

RANDOM = np.random.default_rng(3)
SHARES = RANDOM.dirichlet(np.full(6, 0.4), size=4000)
PRESENCE = -np.expm1(-2.0 * SHARES)


@pytest.mark.parametrize("sharpness", [0.6, 1.0, 1.7])
def test_the_sharpness_behind_simulated_names_is_found(sharpness):
    sharp = np.exp(log_softmax_of(PRESENCE, sharpness))
    names = (sharp.cumsum(axis=1) > RANDOM.random((len(sharp), 1))).argmax(axis=1)
    known = np.full(SHARES.shape, -1, dtype=np.int8)
    known[np.arange(len(names)), names] = 1
    assert best_sharpness(PRESENCE.astype(np.float32), known) == pytest.approx(sharpness, rel=0.08)


def test_few_names_leave_the_shares_as_they_are():
    known = np.full(SHARES.shape, -1, dtype=np.int8)
    known[:19, 0] = 1
    assert best_sharpness(PRESENCE, known) == 1.0


@pytest.mark.parametrize("k", [0.7, 1.0, 2.2])
def test_k_positives_are_expected_at_the_count(k):
    count = matching_count(PRESENCE, 1.3, k)
    shares = np.exp(log_softmax_of(PRESENCE, 1.3))
    assert -np.expm1(-count * shares).sum(axis=1).mean() == pytest.approx(k, rel=1e-6)


def test_unreadable_images_and_an_impossible_k_do_no_harm():
    scores = PRESENCE.copy()
    scores[::2] = np.nan
    assert matching_count(scores, 1.0, 1.5) == pytest.approx(
        matching_count(PRESENCE[1::2], 1.0, 1.5)
    )
    assert matching_count(scores[:0], 1.0, 1.5) == 1.5
    assert matching_count(PRESENCE, 1.0, 6.0) == 6.0


@pytest.mark.parametrize(("rule", "limit"), [("f1", 0.5), ("precision:0.9", 0.9)])
def test_chances_are_decided_as_they_stand(rule, limit):
    thresholds = choose_sampled(rule, 3, 2.0)
    assert thresholds.per_class == (limit,) * 3
    assert np.allclose(thresholds.calibrate([[0.2, 0.7, 0.95]]), [[0.2, 0.7, 0.95]])
    assert Thresholds(**thresholds.to_json()) == thresholds
    assert choose_sampled(rule, 3, 2.0, 2.001).basis.endswith("2.00 expected positives per image")
    assert "(1.50 after images that show no class)" in choose_sampled(rule, 3, 2.0, 1.5).basis


def left_out_error(vectors, values, strength):
    """Fit on all images but one, for each of them; the mean is not shrunk."""
    missed = []
    for row in range(len(values)):
        others = np.arange(len(values)) != row
        inside, told = vectors[others], values[others]
        centred = inside - inside.mean(axis=0)
        matrix = centred.T @ centred + strength * np.eye(vectors.shape[1])
        weights = np.linalg.solve(matrix, centred.T @ (told - told.mean()))
        missed.append(values[row] - told.mean() - (vectors[row] - inside.mean(axis=0)) @ weights)
    return float(np.square(missed).sum())


@pytest.mark.parametrize(("images", "width"), [(30, 4), (12, 40)])
def test_the_errors_of_the_ridge_are_those_of_leaving_one_out(images, width):
    random = np.random.default_rng(images)
    vectors = random.normal(size=(images, width)) + 2.0
    values = vectors[:, 0] - 0.5 * vectors[:, 1] + random.normal(0, 0.5, images)
    squares = np.linalg.svd(vectors - vectors.mean(axis=0), compute_uv=False) ** 2
    least = min(
        left_out_error(vectors, values, squares.mean() * strength)
        for strength in np.logspace(-3, 3, 25)
    )
    _, errors = ridge(vectors, values)
    assert np.square(errors).sum() == pytest.approx(least)


def collection(empty, tagged, images=2000, width=6, seed=0):
    """Vectors of photos, a share of which shows nothing; of the others a share has a name."""
    random = np.random.default_rng(seed)
    shows = random.random(images) >= empty
    vectors = random.normal(size=(images, width)) + 3.0
    vectors[:, 0] += 3.0 * shows
    return vectors, shows, shows & (random.random(images) < tagged)


@pytest.mark.parametrize("tagged", [0.3, 0.8])
def test_photos_of_a_kind_without_names_show_nothing(tagged):
    vectors, shows, named = collection(0.4, tagged)
    weights, alike = learn_shown(vectors, named)
    shown = np.clip(vectors @ weights + alike, 0, 1)
    assert shown[named].mean() > 0.85
    assert shown[shows & ~named].mean() > 0.8
    assert shown[~shows].mean() < 0.3
    assert shown.mean() == pytest.approx(shows.mean(), abs=0.05)


def test_photos_with_a_name_by_chance_all_show_something():
    for seed in range(5):
        vectors, _, named = collection(0.0, 0.3, images=300, width=100, seed=seed)
        assert learn_shown(vectors, named) is None
    vectors, _, named = collection(0.4, 0.8)
    assert learn_shown(vectors[:30], named[:30]) is None  # too few to tell
    assert learn_shown(vectors, np.ones(2000, dtype=bool)) is None


def test_k_of_all_images_counts_those_that_show_nothing():
    presence = -np.expm1(-2.0 * SHARES)
    shown = np.random.default_rng(4).uniform(0.1, 1.0, len(SHARES))
    count = matching_count(presence, 1.0, 1.1, shown=shown)
    found = shown[:, None] * -np.expm1(-count * np.exp(log_softmax_of(presence)))
    assert found.sum(axis=1).mean() == pytest.approx(1.1, rel=1e-6)


def filled_in(chances, sure=None):
    count, classes = np.shape(chances)
    unknown = np.full((count, classes), -1, dtype=np.int8)
    table = LabelTable(tuple(map(str, range(count))), tuple("abcd")[:classes], unknown)
    raw = np.array(chances, dtype=np.float32)
    plain = choose_sampled("f1", classes, 1.0)
    return fill_in(table, np.zeros(count, dtype=bool), raw, plain, 1.0, sure)


def test_a_negative_is_sure_only_if_it_is_with_twice_as_much_to_see():
    # with twice the draws 0.05 becomes 1 − 0.95² = 0.0975, and 0.06 becomes 0.1164
    sure = filled_in([[0.95, 0.89, 0.06, 0.05]], 0.9).values.tolist()
    assert sure == [[1, -1, -1, 0]]
    assert filled_in([[0.95, 0.51, 0.49, 0.05]]).values.tolist() == [[1, 1, 0, 0]]


def test_a_class_on_nearly_every_image_is_told():
    chances = np.tile([0.9, 0.1], (20, 1))
    chances[0, 0] = 0.1  # 19 of 20
    *_, line = filled_in(chances).notes()
    assert "'a' is on 95%" in line
    chances[:2, 0] = 0.1  # 18 of 20 are not more than nine in ten
    assert not any("is on" in line for line in filled_in(chances).notes())


def test_of_two_experts_the_pool_expects_k():
    random = np.random.default_rng(4)
    first = -np.expm1(-2.0 * SHARES)
    second = random.uniform(0.01, 0.6, SHARES.shape)
    count = matching_count(first, 1.0, 2.2, second)
    drawn = -np.expm1(-count * SHARES)
    odds = (drawn / (1 - drawn)) ** (2 / 3) * (second / (1 - second)) ** (1 / 3)
    assert (odds / (1 + odds)).sum(axis=1).mean() == pytest.approx(2.2, rel=1e-6)
