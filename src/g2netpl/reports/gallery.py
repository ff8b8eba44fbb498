"""Labels of a run that a person should look at, with the photos they are about.

Photos are made small and written anew as JPEG, so that nothing of the files but their pixels gets
onto a page.
"""

import base64
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from g2netpl.base.arrays import Scores
from g2netpl.base.errors import InputError, counted
from g2netpl.images.thumbnails import Roots, small_jpeg
from g2netpl.labels.table import NEGATIVE, POSITIVE, UNOBSERVED
from g2netpl.runs.completion import Completed
from g2netpl.runs.config import RunConfig

PHOTO = 256  # pixels of its longer side
_SHELF = 8  # cards of each kind
_PER_CLASS = 2  # before others have had their turn
_CANDIDATES = 5000

_SIGNS = {POSITIVE: "as positive", NEGATIVE: "as negative", UNOBSERVED: "by nobody"}

Mask = npt.NDArray[np.bool_]
FindPhoto = Callable[[str], str | None]


@dataclass(frozen=True)
class Card:
    """One label of one image."""

    image: str
    label: str
    observed: str  # positive, negative, or by nobody
    others: str  # what else is known of the image
    soft: float | None
    predicted: float
    photo: str | None  # JPEG in base64


@dataclass(frozen=True)
class Shelf:
    """Labels of one kind, the clearest case first."""

    title: str
    about: str
    cards: list[Card]


@dataclass(frozen=True)
class Opinions:
    """What was observed, what the soft labels say, and what the network says, of every image."""

    completed: Completed
    by_soft: Completed  # as the soft labels alone would have it
    soft: Mask  # (N,) images that have soft labels
    predicted: Scores  # (N, L) calibrated
    accepted: Mask  # (N, L) labels that the network's thresholds propose


def make_shelves(opinions: Opinions, photo_of: FindPhoto) -> list[Shelf]:
    """The three shelves."""

    def card(row: int, column: int) -> Card:
        table = opinions.completed.observed
        return Card(
            table.images[row],
            table.classes[column],
            _SIGNS[int(table.values[row, column])],
            _known_of(opinions, row, column),
            _soft_label(opinions, row, column),
            float(opinions.predicted[row, column]),
            photo_of(table.images[row]),
        )

    return [
        Shelf(title, about, [card(row, column) for row, column in entries])
        for title, about, entries in _entries(opinions)
    ]


def _entries(opinions: Opinions) -> Iterator[tuple[str, str, list[tuple[int, int]]]]:
    completed, by_soft, predicted = opinions.completed, opinions.by_soft, opinions.predicted
    values = completed.observed.values
    unknown = values == UNOBSERVED
    yield (
        "New positives, the surest first",
        "Labels that nobody observed and that would be filled in; first those that soft label and "
        "network are both surest of. A percentage is the chance that the class is there, by each.",
        clearest(np.minimum(by_soft.scores, predicted), completed.proposed(), _SHELF),
    )
    apart = (by_soft.values == POSITIVE) != opinions.accepted
    apart &= unknown & opinions.soft[:, None] & ~np.isnan(predicted)
    yield (
        "Most disputed",
        "Labels that nobody observed, and that soft label and network decide differently; first "
        "those where they are furthest apart."
        if opinions.soft.any()
        else "This method has no soft labels, so nothing can be disputed.",
        clearest(np.abs(by_soft.scores - predicted), apart, _SHELF),
    )
    half = _SHELF // 2
    against = clearest(1 - predicted, (values == POSITIVE) & (predicted < 0.5), _SHELF)
    denied = clearest(predicted, (values == NEGATIVE) & (predicted > 0.5), _SHELF)
    kept = max(half, _SHELF - len(denied))
    yield (
        "Observed labels that the network doubts most",
        "Observed as positive, and by the network less likely there than not; observed as "
        "negative, and more likely there than not. Near 50 % it does not know either way, and "
        "rare things that it has not learned come up here too.",
        [*against[:kept], *denied[: _SHELF - len(against[:kept])]],
    )


def clearest(strength: Scores, eligible: Mask, most: int) -> list[tuple[int, int]]:
    """Rows and columns of the strongest entries: one per image, and not one class alone."""
    flat = np.flatnonzero(eligible & ~np.isnan(strength))
    values = strength.ravel()[flat]
    if len(flat) > _CANDIDATES:
        best = np.argpartition(-values, _CANDIDATES)[:_CANDIDATES]
        flat, values = np.sort(flat[best]), strength.ravel()[np.sort(flat[best])]
    ranked = [divmod(int(at), strength.shape[1]) for at in flat[np.argsort(-values, kind="stable")]]
    chosen: list[tuple[int, int]] = []
    for allowed in (_PER_CLASS, most):
        images = {row for row, _ in chosen}
        classes = Counter(column for _, column in chosen)
        for row, column in ranked:
            if len(chosen) == most:
                break
            if row not in images and classes[column] < allowed:
                chosen.append((row, column))
                images.add(row)
                classes[column] += 1
    return sorted(chosen, key=ranked.index)


def _soft_label(opinions: Opinions, row: int, column: int) -> float | None:
    """None where the image has none, and where the label was observed."""
    observed = opinions.completed.observed.values[row, column] != UNOBSERVED
    if observed or not opinions.soft[row]:
        return None
    return float(opinions.by_soft.scores[row, column])


def _known_of(opinions: Opinions, row: int, column: int) -> str:
    """The labels of an image but the one in question."""
    table = opinions.completed.observed
    others = np.arange(len(table.classes)) != column
    yes = np.array(table.classes, dtype=object)[(table.values[row] == POSITIVE) & others]
    no = int(((table.values[row] == NEGATIVE) & others).sum())
    parts = [", ".join(yes)] if len(yes) else []
    if no:
        parts.append(counted(no, "negative"))
    return "; ".join(parts) or "nothing"


def small_photo(path: str) -> str:
    """A photo as a small JPEG in base64, its pixels alone."""
    return base64.b64encode(small_jpeg(path, PHOTO, quality=78)).decode("ascii")


def photo_finder(config: RunConfig, images: str | None) -> FindPhoto:
    """Gives the photo of a name, or None where it is not there or cannot be read.

    It is looked for in the folder `images`, or else where the configuration of the run has it.
    """

    def photo_of(name: str) -> str | None:
        try:
            return small_photo(Roots.of_run(config.model_dump(), images).path(name))
        except InputError:
            return None

    return photo_of
