"""A learning curve a − b·n^−c through measured points, and how far it can be trusted beyond them.

Points are weighted by n: the far end is the one to go on from, and the quieter one. For every c of
a grid, a and b have a closed form within 0 ≤ b and a ≤ 1; the best c is taken.

The band is a bootstrap. Points are drawn anew around those measured with two kinds of noise, one
that moves a whole repeat (its test images) and one of its own for each training, with variance in
proportion to 1/n. How large they are is itself only known from a few repeats, so each draw takes
other sizes of both (Student's t): resampling five repeats would give a 90 % band that holds in
80 % of the cases. What the measured means deviate from the curve beyond noise widens the band too.

The points may allow any ceiling up to 1. Then a and c are not told apart, and how the curve goes on
is the formula's word alone: beyond the measured range such a curve is not to be believed.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from g2netpl.base.errors import InputError

Floats = npt.NDArray[np.float64]

LEVEL = 0.9
WIDEST = 0.1  # a band wider than this says nothing
_NEAR = 1.6  # times the largest measured n
_EXPONENTS = np.geomspace(0.05, 2.0, 80)
_DRAWS = 1000


@dataclass(frozen=True)
class Estimate:
    """A value with its band."""

    value: float
    low: float
    high: float

    @property
    def is_narrow(self) -> bool:
        """Whether the band is narrow enough to plan by."""
        return self.high - self.low <= WIDEST


@dataclass(frozen=True)
class LearningCurve:
    """The curve, and others that the points would have allowed, for the band."""

    ceiling: float  # a
    drop: float  # b, in units of the largest measured n
    exponent: float  # c
    largest: float  # measured n
    others: Floats  # (draws, 3): a, b, c

    def at(self, size: float) -> Estimate:
        """The value at n, with its band."""
        return self._banded(self._values(size))

    def gain(self, size: float, more: float) -> Estimate:
        """What goes up between n and n + more, with its band."""
        return self._banded(self._values(size + more) - self._values(size))

    def tells(self, size: float) -> bool:
        """Whether the value at n can be believed: near the points, or on a curve that bends."""
        near = size <= _NEAR * self.largest
        return self.at(size).is_narrow and (near or self.shows_ceiling)

    @property
    def shows_ceiling(self) -> bool:
        """Whether the points tell that the curve bends towards a ceiling below 1."""
        return bool(np.quantile(self.others[:, 0], LEVEL) < 1.0)

    def _values(self, size: float) -> Floats:
        """Of the curve itself, then of all others."""
        everything = np.vstack([[self.ceiling, self.drop, self.exponent], self.others])
        a, b, c = everything.T
        values: Floats = np.clip(a - b * (size / self.largest) ** -c, 0.0, 1.0)
        return values

    @staticmethod
    def _banded(values: Floats) -> Estimate:
        low, high = np.quantile(values[1:], [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
        return Estimate(float(values[0]), float(low), float(high))


def fit_curve(
    sizes: Sequence[float] | Floats,
    repeats: npt.ArrayLike,
    means: npt.ArrayLike | None = None,
    seed: int = 0,
) -> LearningCurve:
    """The curve through values (repeats, sizes); `means` are theirs, if better known than that."""
    n, values = np.asarray(sizes, dtype=np.float64), np.asarray(repeats, dtype=np.float64)
    if values.ndim != 2 or values.shape[1] != len(n) or len(np.unique(n)) < 4 or len(values) < 3:
        raise InputError(
            f"learning curve: expected 4 or more sizes and 3 or more repeats, got {len(n)} sizes "
            f"and values of shape {values.shape}"
        )
    centre = values.mean(axis=0) if means is None else np.asarray(means, dtype=np.float64)
    found = _fit(n, centre[None])[0]
    others = _fit(n, _drawn_again(n, values, centre, found, np.random.default_rng(seed)))
    a, b, c = (float(value) for value in found)
    return LearningCurve(a, b, c, float(n.max()), others)


def _drawn_again(
    n: Floats, values: Floats, centre: Floats, found: Floats, random: np.random.Generator
) -> Floats:
    """(draws, sizes): means as they might have come out as well."""
    repeats, count = values.shape
    scale = n.max() / n
    shift = values.mean(axis=1) - values.mean()
    left = values - values.mean(axis=0) - shift[:, None]
    freedom = (repeats - 1) * (count - 1)
    own = float((left**2 / scale).sum()) / freedom / repeats  # variance of a mean, at the largest n
    misfit = centre - (found[0] - found[1] * scale ** found[2])
    own = max(own, float((misfit**2 / scale).sum()) / (count - 3))
    shared = max(float(shift.var(ddof=1)) / repeats - own * float(scale.mean()) / count, 0.0)
    own_size = own * freedom / random.chisquare(freedom, _DRAWS)
    shared_size = shared * (repeats - 1) / random.chisquare(repeats - 1, _DRAWS)
    drawn: Floats = (
        centre
        + random.standard_normal((_DRAWS, count)) * np.sqrt(own_size[:, None] * scale)
        + random.standard_normal((_DRAWS, 1)) * np.sqrt(shared_size[:, None])
    )
    return drawn


def _fit(n: Floats, values: Floats) -> Floats:
    """(rows, 3): a, b and c by weighted least squares for each row of values."""
    weight = n / n.sum()
    power = (n / n.max()) ** -_EXPONENTS[:, None]  # (exponents, sizes)
    mean_power, mean_square = power @ weight, power**2 @ weight
    mean, product = (values @ weight)[:, None], values * weight @ power.T
    b = np.maximum((mean_power * mean - product) / (mean_square - mean_power**2), 0.0)
    a = mean + b * mean_power
    beyond = a > 1.0
    b = np.where(beyond, np.maximum((mean_power - product) / mean_square, 0.0), b)
    a = np.where(beyond, 1.0, a)
    error = a * a + b * b * mean_square - 2 * (a * b * mean_power + a * mean - b * product)
    rows, best = np.arange(len(values)), error.argmin(axis=1)
    return np.column_stack([a[rows, best], b[rows, best], _EXPONENTS[best]])
