"""From scores to labels: calibration and one threshold per class, stored with the model.

Scores of networks trained on partial labels rank well, but their level means little: G²NetPL with
one positive per image predicts 33 positives per image instead of 3. So a calibrated score is
sigmoid(logit / temperature + shift), and labels are decided by a threshold per class.

If validation labels have positives and negatives missing at random, temperature and shift minimise
the log loss there, and thresholds maximise F1 or guarantee a precision (`precision_bounds`). For
F1, the threshold of a class with n positives is its own by n / (n + 10), else that of all classes
together. Without negatives (tags), shift and threshold are set so that k positives per image are
expected.
"""

import math
import re
from collections import Counter
from typing import Annotated, Any, NamedTuple, Self, cast

import numpy as np
import numpy.typing as npt
from pydantic import Field, model_validator
from scipy.optimize import brentq, minimize, minimize_scalar
from scipy.special import expit, log_softmax, logit, softmax

from g2netpl.labels.missingness import informative_rows
from g2netpl.labels.table import NEGATIVE, POSITIVE, UNOBSERVED, LabelMatrix, per_image
from g2netpl.runs.precision_bounds import (
    guaranteed_thresholds,
    halfway_down,
    known_columns,
    missing_labels,
    pool,
    ranked_scores,
)
from g2netpl.utils.arrays import Scores
from g2netpl.utils.errors import InputError
from g2netpl.utils.options import Options

_FEW = 10  # positives of a class that weigh as much as all classes together
_LARGEST_LOGIT = 30.0
_MOST_OBSERVED = 0.95  # fraction of the positives or negatives taken to be observed, at most

Floats = npt.NDArray[np.float64]
Validation = tuple[Scores, LabelMatrix]  # scores before calibration, and what is known


Number = Annotated[float, Field(strict=True)]
Text = Annotated[str, Field(max_length=500, pattern=r"^[^\p{C}\p{Zl}\p{Zp}]*$")]  # a plain line


class Thresholds(Options):
    """How scores become probabilities, and probabilities labels; the content of decisions.json."""

    temperature: Number = Field(default=1.0, ge=1e-3, le=1e3)
    shift: Number = Field(default=0.0, ge=-1e3, le=1e3)
    per_class: tuple[Number | None, ...] = Field(alias="thresholds")
    """On calibrated scores; None: the class is never proposed."""
    rule: Text
    basis: Text
    """What they were chosen on."""
    is_sampled: bool = False
    """Calibrated by tags only, with the sampled-positive head."""
    reasons: tuple[Text, ...] = ()
    """Of each threshold, as "kind: more"."""
    single_label: bool = False
    """An image has one class, the most probable."""

    @model_validator(mode="after")
    def _one_reason_per_class(self) -> Self:
        if self.reasons and len(self.reasons) != len(self.per_class):
            raise ValueError(f"expected {len(self.per_class)} reasons, got {len(self.reasons)}")
        return self

    def __str__(self) -> str:
        text = f"thresholds: {self.rule}, by {self.basis}"
        never = self.per_class.count(None)
        if "," in self.kinds:
            return f"{text}; of {len(self.per_class)} classes {self.kinds}"
        return f"{text}; {never} of {len(self.per_class)} classes never proposed" if never else text

    @property
    def kinds(self) -> str:
        """How many classes are decided in which way."""
        ways = Counter(reason.partition(":")[0] for reason in self.reasons)
        return ", ".join(f"{count} {kind}" for kind, count in ways.most_common())

    def replace(self, **changes: Any) -> "Thresholds":
        """The same with other values."""
        return self.model_copy(update=changes)

    def calibrate(self, scores: npt.ArrayLike) -> Scores:
        """Scores as probabilities; NaN stays NaN."""
        logits = logits_of(scores) / self.temperature
        calibrated = softmax(logits, axis=1) if self.single_label else expit(logits + self.shift)
        return cast(Scores, calibrated.astype(np.float32))

    @property
    def is_guaranteed(self) -> bool:
        """Whether they guarantee a precision, by validation labels."""
        return self.rule.startswith("precision:") and not self.is_sampled

    @property
    def overrides_pseudo_labels(self) -> bool:
        """Whether the network decides, also about images that have pseudo-labels."""
        return self.is_sampled or self.single_label or self.is_guaranteed

    @property
    def limits(self) -> Floats:
        """The thresholds as numbers; infinite for a class that is never proposed."""
        return np.array([np.inf if limit is None else limit for limit in self.per_class])

    def decide(self, calibrated: npt.ArrayLike) -> npt.NDArray[np.bool_]:
        """Which labels are positive."""
        decided: npt.NDArray[np.bool_] = np.asarray(calibrated) >= self.limits
        return decided & argmax_mask(calibrated) if self.single_label else decided

    def to_json(self) -> dict[str, Any]:
        """Plain values for decisions.json."""
        return self.model_dump(mode="json", by_alias=True)


class ConfidentThresholds(NamedTuple):
    """From which probabilities labels are filled in; `negative` compares 1 − probability."""

    positive: Thresholds
    negative: Thresholds
    least: float  # probability of a negative: most labels are negative anyway
    missing: str  # which validation labels are too few for positives

    def decide(self, probabilities: Scores) -> LabelMatrix:
        """1 or 0 if a label is confident, else −1."""
        absent = 1 - probabilities
        values = np.full(probabilities.shape, UNOBSERVED, dtype=np.int8)
        values[self.negative.decide(absent) & (absent >= self.least)] = NEGATIVE
        values[self.positive.decide(probabilities)] = POSITIVE
        return values

    def __str__(self) -> str:
        return (
            f"confident by {self.positive.basis}, of {len(self.positive.per_class)} classes: "
            f"positives {self.positive.kinds}; negatives {self.negative.kinds}"
        )


def confident_thresholds(
    confidence: float | None,
    thresholds: Thresholds,
    validation: Validation | None,
    observed: LabelMatrix,
    k: float,
) -> ConfidentThresholds | None:
    """Thresholds at which `confidence` holds among unobserved labels; None without negatives.

    Without a `confidence` it is the precision that the thresholds guarantee, if they do.
    If half of the positives are observed, half as many are left to find among as many mistakes.
    So the odds on validation must be higher, by (1 − observed fraction of the negatives) /
    (1 − observed fraction of the positives).
    """
    if confidence is None and thresholds.is_guaranteed:
        confidence = parse_rule(thresholds.rule)[1]
    if confidence is None or validation is None or thresholds.is_sampled:
        return None
    scores, truth = _informative(validation, k)
    if not len(truth):
        return None
    probabilities = thresholds.calibrate(scores)
    seen, seen_negative = observed_fractions(observed, truth)
    unseen, odds = (1 - seen_negative) / (1 - seen), confidence / (1 - confidence)
    basis = f"{len(truth):,} validation images"

    def bounded(values: Scores, labels: LabelMatrix, ratio: float) -> tuple[Thresholds, str]:
        target = odds * ratio / (1 + odds * ratio)
        limits, reasons = guaranteed_thresholds(known_columns(values, labels), target)
        chosen = {"per_class": tuple(limits), "reasons": tuple(reasons), "single_label": False}
        one = thresholds.replace(rule=f"precision:{target:.3g}", basis=basis, **chosen)
        return one, missing_labels(limits, target)

    positive, missing = bounded(probabilities, truth, unseen)
    flipped = np.where(truth == UNOBSERVED, truth, 1 - truth).astype(np.int8)
    negative, _ = bounded(1 - probabilities, flipped, max(1 / unseen, 1.0))
    return ConfidentThresholds(positive, negative, confidence, missing)


def observed_fractions(observed: LabelMatrix, truth: LabelMatrix) -> tuple[float, float]:
    """Which fractions of all positives and negatives are known on images with unknown labels."""
    rows = per_image(observed) < observed.shape[1]
    known = np.maximum((truth != UNOBSERVED).sum(axis=0), 1)
    fractions = []
    for sign in (POSITIVE, NEGATIVE):
        expected = rows.sum() * ((truth == sign).sum(axis=0) / known).sum()
        fraction = float(per_image(observed, sign)[rows].sum() / max(expected, 1e-9))
        fractions.append(min(fraction, _MOST_OBSERVED))
    return fractions[0], fractions[1]


def parse_rule(text: str) -> tuple[str, float]:
    """Read `f1`, `expected` or `precision:0.9`."""
    if text in ("f1", "expected"):
        return text, 0.0
    target = re.fullmatch(r"precision:(0?\.\d+)", text)
    if target is None or not float(target[1]):
        raise InputError(
            f"thresholds: expected f1, expected, or precision:P with 0 < P < 1, got {text!r}"
        )
    return "precision", float(target[1])


def choose(rule: str, validation: Validation | None, scores: Scores, k: float) -> Thresholds:
    """Calibrate and choose thresholds; `scores` are those of the images with k positives each."""
    name, target = parse_rule(rule)
    if name != "expected" and validation is not None:
        chosen = _informative(validation, k)
        if len(chosen[1]):
            return _by_validation(name, target, *chosen)
    known = scores[~np.isnan(scores).any(axis=1)]
    shift = _matching_shift(known, k)
    threshold = matching_threshold(expit(logits_of(known) + shift), k)
    basis = f"k = {k:.2f} expected positives per image"
    if name != "expected":
        why = (
            "no validation images"
            if validation is None
            else "no negatives that are missing at random"
        )
        basis += f" (not {rule}: {why} to choose by)"
    reason = "k: one threshold for all classes"
    return _same_for_all(scores.shape[1], threshold, "expected", basis, reason, shift=shift)


def choose_single_label(validation: Validation | None, classes: int) -> Thresholds:
    """Every image gets its most probable class; validation labels give the temperature."""
    temperature, basis = 1.0, "uncalibrated scores, as there are no validation images"
    if validation is not None:
        temperature = single_label_temperature(logits_of(validation[0]), validation[1])
        basis = f"scores calibrated on {len(validation[1]):,} validation images"
    how = ("one class per image", basis, "single label: the most probable class of the image")
    return _same_for_all(classes, 0.0, *how, temperature=temperature, single_label=True)


def choose_sampled(rule: str, classes: int, k: float, expected: float | None = None) -> Thresholds:
    """Thresholds on probabilities of the sampled-positive head; `expected` per image, if not k."""
    name, target = parse_rule(rule)
    limit, text = (target, rule) if name == "precision" else (0.5, "probability ≥ 0.5")
    basis = f"probabilities scaled to {k:.2f} expected positives per image"
    if expected is not None and abs(expected - k) > 0.01 * k:
        basis += f" ({expected:.2f} if images without any class are counted)"
    reason = f"sampled: a probability of {limit:g} or more, no validation labels"
    return _same_for_all(classes, limit, text, basis, reason, is_sampled=True)


def _same_for_all(
    classes: int, limit: float, rule: str, basis: str, reason: str, **more: Any
) -> Thresholds:
    limits, reasons = (limit,) * classes, (reason,) * classes
    return Thresholds(thresholds=limits, rule=rule, basis=basis, reasons=reasons, **more)


def matching_threshold(scores: npt.ArrayLike, k: float) -> float:
    """The threshold that proposes k labels per image on average, as nearly as ties allow."""
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


def calibration(scores: npt.ArrayLike, truth: LabelMatrix) -> tuple[float, float]:
    """Temperature and shift that minimise the log loss over known labels."""
    known = truth != UNOBSERVED
    logits, labels = logits_of(np.asarray(scores)[known]), (truth[known] == POSITIVE).astype(float)
    if not 0 < labels.sum() < len(labels):
        return 1.0, 0.0

    def loss(values: Floats) -> tuple[float, Floats]:
        moved = math.exp(-values[0]) * logits + values[1]
        wrong = expit(moved) - labels
        cost = np.logaddexp(0.0, moved) - labels * moved
        slopes = [-(wrong * (moved - values[1])).mean(), wrong.mean()]
        return float(cost.mean()), np.array(slopes)

    # bounds: a few labels that are ranked perfectly would be certain without them
    best = minimize(loss, np.zeros(2), jac=True, bounds=[(-4, 4), (-20, 20)]).x
    return float(math.exp(best[0])), float(best[1])


def f1_threshold(scores: npt.ArrayLike, labels: npt.ArrayLike) -> float | None:
    """The threshold with the best F1 over (n,) scores and labels of 1 / 0; None if hopeless."""
    ranked, hits, chosen = ranked_scores(scores, labels)
    if not len(ranked) or hits[-1] == 0:
        return None
    return halfway_down(ranked, int(np.argmax(2.0 * hits / (chosen + hits[-1]))))


def _informative(validation: Validation, k: float) -> Validation:
    """The validation images by whose labels thresholds can be chosen."""
    scores, truth = validation
    rows = informative_rows(truth, k, scores)
    return scores[rows], truth[rows]


def _by_validation(name: str, target: float, scores: Scores, truth: LabelMatrix) -> Thresholds:
    readable = ~np.isnan(scores).any(axis=1)
    scores, truth = scores[readable], truth[readable]
    temperature, shift = calibration(scores, truth)
    probabilities = expit(logits_of(scores) / temperature + shift).astype(np.float32)
    columns = known_columns(probabilities, truth)
    if name == "precision":
        name = f"precision:{target:g}"
        limits, reasons = guaranteed_thresholds(columns, target)
    else:
        common = f1_threshold(*pool(columns))
        limits = [_shrunk(f1_threshold(*column), common, column[1]) for column in columns]
        reasons = ["never: no class has a positive"] * len(columns)
        if common is not None:
            positives = [int(labels.sum()) for _, labels in columns]
            reasons = [
                f"F1: weight {n / (n + _FEW):.0%} on its own threshold, from {n} positives"
                for n in positives
            ]
    return Thresholds(
        temperature=temperature,
        shift=shift,
        thresholds=tuple(limits),
        rule=name,
        basis=f"{len(truth):,} validation images",
        reasons=tuple(reasons),
    )


def _shrunk(own: float | None, common: float | None, labels: Floats) -> float | None:
    """A class's own threshold, moved towards the common one if it has few positives."""
    if own is None or common is None:
        return common
    weight = float(labels.sum() / (labels.sum() + _FEW))
    return float(expit(weight * logits_of(own) + (1 - weight) * logits_of(common)))


def _matching_shift(scores: Scores, k: float) -> float:
    """The shift of all logits at which k positives per image are expected."""
    logits = logits_of(scores)
    if not logits.size or not 0 < k < logits.shape[1]:
        return 0.0
    reach = 2 * _LARGEST_LOGIT
    return float(brentq(lambda move: expit(logits + move).sum(axis=1).mean() - k, -reach, reach))


def logits_of(scores: npt.ArrayLike) -> Floats:
    """Logits of scores, no larger than 30; NaN stays NaN."""
    values = np.asarray(scores, dtype=np.float64)
    clipped: Floats = np.clip(logit(values), -_LARGEST_LOGIT, _LARGEST_LOGIT)
    return clipped


def argmax_mask(scores: npt.ArrayLike) -> npt.NDArray[np.bool_]:
    """The highest score of each row, the first if several are equal; none in a row with NaN."""
    values = np.asarray(scores)
    chosen = np.zeros(values.shape, dtype=bool)
    rows = np.flatnonzero(~np.isnan(values).any(axis=1))
    chosen[rows, values[rows].argmax(axis=1)] = True
    return chosen


def single_label_temperature(logits: Floats, truth: LabelMatrix) -> float:
    """The temperature at which the classes of held-out images are most likely.

    One more image counts as any class: a few that are all right do not make it certain.
    """
    rows = (per_image(truth, POSITIVE) == 1) & ~np.isnan(logits).any(axis=1)
    if not rows.any():
        return 1.0
    known, right = logits[rows], (truth[rows] == POSITIVE).astype(np.float64)
    target = (len(right) * right + 1.0 / right.shape[1]) / (len(right) + 1)

    def loss(log_temperature: float) -> float:
        logs = log_softmax(known * np.exp(-log_temperature), axis=1)
        return -float((target * logs).sum(axis=1).mean())

    return float(np.exp(minimize_scalar(loss, bounds=(-4.0, 4.0), method="bounded").x))
