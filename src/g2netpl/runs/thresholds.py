"""From scores to labels: calibration and one threshold per class, stored with the model.

Scores of networks trained on partial labels rank well but their level means little: G²NetPL with
one positive per image predicts 33 positives per image where 3 are right. So a calibrated score is
sigmoid(logit / temperature + shift), and decisions compare it with a threshold per class.

With clean validation labels of both signs, temperature and shift minimise the log loss there, and
thresholds maximise F1, or hold a precision (`bounds`). For F1 a class with few positives leans on
the threshold of all classes together: its own counts n / (n + 10). Without negatives (tags), shift
and threshold are set so that the expected number of positives per image, k, comes out; the figures
are in dev/log/scores-and-thresholds.md.
"""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from typing import Annotated, Any, NotRequired, cast

import numpy as np
import numpy.typing as npt
from pydantic import Field, FiniteFloat
from typing_extensions import TypedDict

from g2netpl.labels.missingness import informative_rows
from g2netpl.labels.table import NEGATIVE, POSITIVE
from g2netpl.runs.bounds import (
    bounded_thresholds,
    halfway_down,
    joined,
    known_columns,
    ranked_scores,
)
from g2netpl.runs.single_label import chances_of_one, likeliest, temperature_of_one
from g2netpl.utils.errors import InputError
from g2netpl.utils.options import check_record

_FEW = 10  # positives of a class that weigh as much as all classes together
_LARGEST_LOGIT = 30.0

Floats = npt.NDArray[np.float64]
Scores = npt.NDArray[np.float32]
Truth = npt.NDArray[np.int8]


@dataclass(frozen=True)
class Thresholds:
    """How the scores of a network become probabilities, and probabilities labels."""

    temperature: float
    shift: float
    per_class: tuple[float | None, ...]  # on calibrated scores; None: the class is never proposed
    rule: str
    basis: str  # what they were chosen on, for people
    by_draw: bool = False  # scores are chances by themselves, of a network of shares
    grounds: tuple[str, ...] = ()  # what each threshold rests on, as "kind: more"; () of an old run
    single_label: bool = False  # an image has one class, the likeliest; chances add up to 1

    def __str__(self) -> str:
        return f"thresholds: {self.rule}, by {self.basis}{self._told_of_kinds()}"

    @property
    def kinds(self) -> str:
        """How many classes are decided in which way."""
        ways = Counter(ground.partition(":")[0] for ground in self.grounds)
        return ", ".join(f"{count} {kind}" for kind, count in ways.most_common())

    def _told_of_kinds(self) -> str:
        if "," in self.kinds:
            return f"; of {len(self.per_class)} classes {self.kinds}"
        never = sum(each is None for each in self.per_class)
        return f"; {never} of {len(self.per_class)} classes are never proposed" if never else ""

    def calibrate(self, scores: npt.ArrayLike) -> Scores:
        """Scores that can be read as probabilities; NaN stays NaN."""
        if self.single_label:
            return chances_of_one(logits_of(scores) / self.temperature)
        moved: Scores = sigmoid(logits_of(scores) / self.temperature + self.shift).astype(
            np.float32
        )
        return moved

    @property
    def is_bounded(self) -> bool:
        """Whether they hold a precision, by validation labels."""
        return self.rule.startswith("precision:") and not self.by_draw

    @property
    def by_network(self) -> bool:
        """Whether the network alone decides, also of images that have soft labels."""
        return self.by_draw or self.single_label or self.is_bounded

    @property
    def limits(self) -> Floats:
        """The thresholds as numbers; a class that is never proposed has an infinite one."""
        return np.array([np.inf if each is None else each for each in self.per_class])

    def decide(self, calibrated: npt.ArrayLike) -> npt.NDArray[np.bool_]:
        """Which labels are proposed."""
        decided: npt.NDArray[np.bool_] = np.asarray(calibrated) >= self.limits
        return decided & likeliest(calibrated) if self.single_label else decided

    def to_json(self) -> "Written":
        """Plain values for decisions.json."""
        content = {**asdict(self), "thresholds": self.per_class}
        del content["per_class"]
        return cast(Written, content)

    @classmethod
    def from_json(cls, content: object, where: str = "decisions") -> "Thresholds":
        """The way back; what is no such content is one line that starts with `where`."""
        found: dict[str, Any] = {**check_record(Written, content, where)}
        found["per_class"] = tuple(found["thresholds"])
        found["grounds"] = tuple(found.get("grounds", ()))
        return cls(**{each.name: found[each.name] for each in fields(cls) if each.name in found})


class Written(TypedDict):
    """decisions.json."""

    temperature: Annotated[FiniteFloat, Field(gt=0)]
    shift: FiniteFloat
    thresholds: Sequence[float | None]
    rule: str
    basis: str
    by_draw: NotRequired[bool]
    grounds: NotRequired[Sequence[str]]
    single_label: NotRequired[bool]


def parse_rule(text: str) -> tuple[str, float]:
    """Read `f1`, `expected` or `precision:0.9`."""
    name, colon, value = text.partition(":")
    if name in ("f1", "expected") and not colon:
        return name, 0.0
    try:
        target = float(value)
    except ValueError:
        target = math.nan
    if name != "precision" or not 0 < target < 1:
        raise InputError(
            f"thresholds: expected f1, expected, or precision:P with 0 < P < 1, got {text!r}"
        )
    return name, target


def choose(
    rule: str,
    validation: tuple[Scores, Truth] | None,
    scores: Scores,
    k: float,
) -> Thresholds:
    """Calibrate and choose thresholds; `scores` are those of the images that k speaks of."""
    name, target = parse_rule(rule)
    if name != "expected" and validation is not None:
        rows = informative_rows(validation[1], k, validation[0])
        if len(rows):
            return _by_validation(name, target, validation[0][rows], validation[1][rows])
    known = scores[~np.isnan(scores).any(axis=1)]
    shift = _matching_shift(known, k)
    threshold = matching_threshold(sigmoid(logits_of(known) + shift), k)
    basis = f"k = {k:.2f} expected positives per image"
    if name != "expected":
        why = "no validation images" if validation is None else "no negatives missing at random"
        basis += f" (not {rule}: {why} to choose by)"
    classes = scores.shape[1]
    grounds = ("k: one threshold for all classes",) * classes
    return Thresholds(1.0, shift, (threshold,) * classes, "expected", basis, grounds=grounds)


def choose_one(validation: tuple[Scores, Truth] | None, classes: int) -> Thresholds:
    """Every image gets its likeliest class; how sharp the chances are, validation tells."""
    temperature, basis = 1.0, "its scores alone, uncalibrated: no validation images"
    if validation is not None:
        temperature = temperature_of_one(logits_of(validation[0]), validation[1])
        basis = f"its scores, calibrated on {len(validation[1]):,} validation images"
    grounds = ("one of: the likeliest class of the image",) * classes
    told = ("one class per image", basis)
    limits: tuple[float | None, ...] = (0.0,) * classes
    return Thresholds(temperature, 0.0, limits, *told, grounds=grounds, single_label=True)


def matching_threshold(scores: npt.ArrayLike, k: float) -> float:
    """The threshold that proposes k labels per image on average, as nearly as ties let it."""
    values = np.asarray(scores, dtype=np.float64)
    if not values.size:
        return 0.5
    distinct, counts = np.unique(values, return_counts=True)
    proposed = np.append(counts[::-1].cumsum()[::-1], 0)  # at or above each value, and above all
    nearest = int(np.argmin(np.abs(proposed - k * len(values))))
    if nearest == len(distinct):
        return float(np.nextafter(distinct[-1], 2.0))
    below = distinct[nearest - 1] if nearest else distinct[0]
    return float((distinct[nearest] + below) / 2)


def calibration(scores: npt.ArrayLike, truth: Truth) -> tuple[float, float]:
    """Temperature and shift that minimise the log loss over known labels."""
    from scipy.optimize import minimize

    logits, labels = _known(scores, truth)
    if not 0 < labels.sum() < len(labels):
        return 1.0, 0.0

    def loss(values: Floats) -> tuple[float, Floats]:
        moved = math.exp(-values[0]) * logits + values[1]
        wrong = sigmoid(moved) - labels
        cost = np.logaddexp(0.0, moved) - labels * moved
        slopes = [-(wrong * (moved - values[1])).mean(), wrong.mean()]
        return float(cost.mean()), np.array(slopes)

    found = minimize(loss, np.zeros(2), jac=True, bounds=[(-4, 4), (-20, 20)]).x
    return float(math.exp(found[0])), float(found[1])


def f1_threshold(scores: npt.ArrayLike, labels: npt.ArrayLike) -> float | None:
    """The threshold with the best F1 over (n,) scores and labels of 1 / 0; None if hopeless."""
    ranked, hits, chosen = ranked_scores(scores, labels)
    if not len(ranked) or hits[-1] == 0:
        return None
    return halfway_down(ranked, int(np.argmax(2 * hits / (chosen + hits[-1]))))


def _by_validation(name: str, target: float, scores: Scores, truth: Truth) -> Thresholds:
    readable = ~np.isnan(scores).any(axis=1)
    scores, truth = scores[readable], truth[readable]
    temperature, shift = calibration(scores, truth)
    plain = Thresholds(temperature, shift, (), name, "")
    calibrated = plain.calibrate(scores)
    columns = known_columns(calibrated, truth)
    if name == "f1":
        common = f1_threshold(*joined(columns))
        limits = [_leaning(f1_threshold(*column), common, column[1]) for column in columns]
        grounds = [
            _leaning_words(limit, column[1]) for limit, column in zip(limits, columns, strict=True)
        ]
    else:
        name = f"precision:{target:g}"
        limits, grounds = bounded_thresholds(columns, target)
    basis = f"{len(truth):,} validation images"
    return Thresholds(temperature, shift, tuple(limits), name, basis, grounds=tuple(grounds))


def _leaning(own: float | None, common: float | None, labels: Floats) -> float | None:
    """A class's own threshold, drawn to the common one where it rests on few positives."""
    if own is None or common is None:
        return common
    weight = float(labels.sum() / (labels.sum() + _FEW))
    return float(sigmoid(weight * logits_of(own) + (1 - weight) * logits_of(common)))


def _leaning_words(limit: float | None, labels: Floats) -> str:
    positives = int(labels.sum())
    if limit is None:
        return "never: no class has a positive"
    return f"F1: its own counts {positives / (positives + _FEW):.0%}, at {positives} positives"


def _matching_shift(scores: Scores, k: float) -> float:
    """The shift of all logits at which k positives per image are expected."""
    from scipy.optimize import brentq

    logits = logits_of(scores)
    if not logits.size or not 0 < k < logits.shape[1]:
        return 0.0
    reach = 2 * _LARGEST_LOGIT
    return float(brentq(lambda move: sigmoid(logits + move).sum(axis=1).mean() - k, -reach, reach))


def sigmoid(logits: npt.NDArray[np.floating]) -> Floats:
    """Scores of logits."""
    below = np.exp(-np.abs(logits))
    level: Floats = np.where(logits >= 0, 1.0, below) / (1.0 + below)
    return level


def logits_of(scores: npt.ArrayLike) -> Floats:
    """Logits of scores, no larger than 30; NaN stays NaN."""
    values = np.asarray(scores, dtype=np.float64)
    with np.errstate(divide="ignore"):
        clipped: Floats = np.clip(
            np.log(values) - np.log1p(-values), -_LARGEST_LOGIT, _LARGEST_LOGIT
        )
    return clipped


def _known(scores: npt.ArrayLike, truth: Truth) -> tuple[Floats, Floats]:
    known = (truth == POSITIVE) | (truth == NEGATIVE)
    return logits_of(np.asarray(scores)[known]), (truth[known] == POSITIVE).astype(np.float64)
