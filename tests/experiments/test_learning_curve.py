"""The curve a − b·n^−c: known parameters come back, and the band holds as often as it says."""

import numpy as np
import pytest

from g2netpl.base.errors import InputError
from g2netpl.experiments.learning_curve import LEVEL, LearningCurve, fit_curve

SIZES = np.array([120.0, 182, 276, 418, 633, 960])


def curve(a, b, c, size):
    return a - b * (np.asarray(size) / SIZES[-1]) ** -c


def noisy(a, b, c, random, own, shared, repeats=5):
    """Repeats that each lie too high or too low as a whole, and trainings with noise ~ 1/√n."""
    wobble = random.standard_normal((repeats, len(SIZES))) * own * np.sqrt(SIZES[-1] / SIZES)
    return curve(a, b, c, SIZES) + wobble + random.standard_normal((repeats, 1)) * shared


@pytest.mark.parametrize(("a", "b", "c"), [(0.65, 0.15, 0.5), (0.8, 0.35, 0.25), (0.6, 0.05, 1.0)])
def test_known_parameters_come_back_from_points_without_noise(a, b, c):
    found = fit_curve(SIZES, np.tile(curve(a, b, c, SIZES), (3, 1)))
    assert found.exponent == pytest.approx(c, rel=0.05)  # the step of the grid
    assert found.ceiling == pytest.approx(a, abs=0.02)
    for size in (1200, 4800):
        assert found.at(size).value == pytest.approx(curve(a, b, c, size), abs=2e-3)
        assert found.at(size).high - found.at(size).low < 5e-3


@pytest.mark.parametrize(
    ("a", "b", "c", "own", "shared"),
    [(0.65, 0.15, 0.5, 0.005, 0.005), (0.8, 0.35, 0.25, 0.01, 0.0), (0.6, 0.05, 1.0, 0.01, 0.01)],
)
def test_the_band_holds_the_truth_as_often_as_it_says(a, b, c, own, shared):
    random = np.random.default_rng(3)
    sizes, trials = (1200, 2400, 4800), 120
    inside, errors, widths = [], [], []
    for trial in range(trials):
        found = fit_curve(SIZES, noisy(a, b, c, random, own, shared), seed=trial)
        said = [found.at(size) for size in sizes] + [found.gain(1200, 100)]
        truth = [*curve(a, b, c, sizes), curve(a, b, c, 1300) - curve(a, b, c, 1200)]
        pairs = list(zip(said, truth, strict=True))
        inside.append([each.low <= value <= each.high for each, value in pairs])
        errors.append([each.value - value for each, value in pairs])
        widths.append([each.high - each.low for each, _ in pairs])
    shares = np.mean(inside, axis=0)
    # three standard deviations of a share of 120 around 0.9 are 0.08
    assert (shares > LEVEL - 0.08).all(), shares
    # and not by being too wide: a 90 % band of a normal error is 3.29 deviations wide
    assert (np.median(widths, axis=0) < 1.7 * 3.29 * np.std(errors, axis=0)).all()


def test_the_next_hundred_by_hand():
    # 0.6 − 0.1 · 1000/n: 0.5 at 1,000 and 0.6 − 0.1/1.1 = 0.50909 at 1,100
    exact = LearningCurve(0.6, 0.1, 1.0, 1000.0, np.tile([0.6, 0.1, 1.0], (10, 1)))
    assert exact.at(1000).value == pytest.approx(0.5)
    gain = exact.gain(1000, 100)
    assert (gain.value, gain.low, gain.high) == pytest.approx((0.1 / 11,) * 3)
    # two curves that are equally likely: the band spans both
    others = np.repeat([[0.6, 0.1, 1.0], [0.6, 0.0, 1.0]], 50, axis=0)
    wide = LearningCurve(0.6, 0.1, 1.0, 1000.0, others).gain(1000, 100)
    assert (wide.low, wide.high) == pytest.approx((0.0, 0.1 / 11))


def test_the_far_end_counts_more():
    values = curve(0.65, 0.15, 0.5, SIZES)
    near, far = values.copy(), values.copy()
    near[0] += 0.02
    far[-1] += 0.02
    moved = [fit_curve(SIZES, np.tile(each, (3, 1))).at(1200).value for each in (near, far)]
    plain = curve(0.65, 0.15, 0.5, 1200)
    assert abs(moved[1] - plain) > 3 * abs(moved[0] - plain)


def test_a_curve_never_falls_nor_leaves_the_range():
    random = np.random.default_rng(0)
    for values in (random.uniform(0.3, 0.5, (3, 6)), np.linspace(0.9, 0.2, 18).reshape(3, 6)):
        found = fit_curve(SIZES, values)
        assert found.at(1e9).high <= 1.0
        assert found.at(4800).value >= found.at(1200).value
        assert found.gain(1200, 100).low >= 0.0


def test_what_the_points_do_not_tell_is_not_told():
    random = np.random.default_rng(1)
    vague = fit_curve(SIZES, noisy(0.65, 0.15, 0.5, random, 0.08, 0.05))
    assert not vague.at(4800).is_narrow
    assert not vague.tells(4800)
    clear = fit_curve(SIZES, noisy(0.65, 0.15, 0.5, random, 0.003, 0.003))
    assert clear.shows_ceiling
    assert clear.tells(4800)
    rising = 0.1 + 0.1 * np.log(SIZES / SIZES[0])  # as fast at the end as at the beginning
    straight = fit_curve(SIZES, rising + random.standard_normal((5, 6)) * 0.005)
    assert not straight.shows_ceiling
    assert straight.at(2400).is_narrow
    assert not straight.tells(
        2400
    )  # a straight line cannot go on for ever; where it bends, who knows
    assert straight.tells(1200)


def test_too_little_is_refused():
    with pytest.raises(InputError, match="expected 4 or more sizes and 3 or more repeats"):
        fit_curve(SIZES[:3], np.zeros((5, 3)))
    with pytest.raises(InputError, match="expected 4 or more sizes and 3 or more repeats"):
        fit_curve(SIZES, np.zeros((2, 6)))


def test_no_band_leaves_the_range_of_what_is_measured():
    random = np.random.default_rng(0)
    for level, sign in ((0.99, 1), (0.01, -1)):
        values = level + 0.01 * random.standard_normal((3, len(SIZES)))
        found = fit_curve(SIZES, np.clip(values, 0, 1))
        assert (found.others[:, 0] <= 1).all()
        assert (found.others[:, 1] >= 0).all()  # none falls
        for size in (60, 960, 4 * 960):
            said = found.at(size)
            assert 0 <= said.low <= said.value <= said.high <= 1, (level, sign)
