"""Labels of a run to check by eye, with small photos that contain pixels only."""

import base64
from collections import Counter
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from g2netpl.images.thumbnails import Roots, small_jpeg
from g2netpl.labels.table import NEGATIVE, POSITIVE, UNOBSERVED
from g2netpl.runs.completion import Completed
from g2netpl.runs.config import RunConfig
from g2netpl.utils.arrays import Scores
from g2netpl.utils.errors import InputError, counted

_SIZE = 256  # pixels of the longer side of a photo
_CARDS = 8  # per section
_PER_CLASS = 2  # cards per class, as long as there are other classes
_CANDIDATES = 5000
_SIGNS = {POSITIVE: "positive", NEGATIVE: "negative", UNOBSERVED: "not observed"}

Mask = npt.NDArray[np.bool_]
FindPhoto = Callable[[str], str | None]


class Card(NamedTuple):
    """One label of one image."""

    image: str
    label: str
    observed: str
    others: str  # what else is known of the image
    pseudo: float | None
    predicted: float
    photo: str | None  # JPEG in base64


class GallerySection(NamedTuple):
    """Labels of one kind, the clearest case first, and how many there are in all."""

    id: str
    title: str
    about: str
    total: int
    cards: list[Card]


def make_gallery(
    completed: Completed,
    by_pseudo: Completed,
    has_pseudo: Mask,
    predicted: Scores,
    decided: Mask,
    photo_of: FindPhoto,
) -> list[GallerySection]:
    """New labels, disagreements, and observed labels that look wrong.

    `by_pseudo` is completed by pseudo-labels only, for images that have them (N,); `predicted` and
    `decided` (N, L) are calibrated predictions, and which of them pass the thresholds.
    """
    table, values = completed.observed, completed.observed.values
    names = np.array(table.classes, dtype=object)

    def card(row: int, column: int) -> Card:
        others = np.arange(len(names)) != column
        known = list(names[(values[row] == POSITIVE) & others])
        absent = int(((values[row] == NEGATIVE) & others).sum())
        known += [counted(absent, "negative")] if absent else []
        has_own = has_pseudo[row] and values[row, column] == UNOBSERVED
        return Card(
            table.images[row],
            table.classes[column],
            _SIGNS[int(values[row, column])],
            ", ".join(known) or "none",
            float(by_pseudo.scores[row, column]) if has_own else None,
            float(predicted[row, column]),
            photo_of(table.images[row]),
        )

    def section(id: str, title: str, about: str, mask: Mask, scores: Scores) -> GallerySection:
        cards = [card(*entry) for entry in top_k_diverse(scores, mask, _CARDS)]
        return GallerySection(id, title, about, int(mask.sum()), cards)

    disagree = (by_pseudo.values == POSITIVE) != decided
    disagree &= (values == UNOBSERVED) & has_pseudo[:, None] & ~np.isnan(predicted)
    return [
        section(
            *("new", "Labels that were added, most confident first"),
            "Nobody observed these labels. If the first ones are wrong, so are many others.",
            *(completed.added(), np.minimum(by_pseudo.scores, predicted)),
        ),
        section(
            *("disagree", "Pseudo-label and prediction disagree"),
            "Nobody observed these labels. The largest differences come first."
            if has_pseudo.any()
            else "This method keeps no pseudo-labels, so there is nothing to compare.",
            *(disagree, np.abs(by_pseudo.scores - predicted)),
        ),
        section(
            "positives",
            "Observed positives with a low prediction",
            "Some may be wrong in the label file; others are hard to recognise or rare.",
            (values == POSITIVE) & (predicted < 0.5),
            1 - predicted,
        ),
        section(
            "negatives",
            "Observed negatives with a high prediction",
            "The class may have been overlooked.",
            (values == NEGATIVE) & (predicted > 0.5),
            predicted,
        ),
    ]


def top_k_diverse(scores: Scores, eligible: Mask, most: int) -> list[tuple[int, int]]:
    """Rows and columns of the highest scores: one per image, few per class if possible."""
    flat = np.flatnonzero(eligible & ~np.isnan(scores))
    best = flat[np.argsort(-scores.ravel()[flat], kind="stable")[:_CANDIDATES]]
    ranked = [divmod(int(at), scores.shape[1]) for at in best]
    chosen: list[tuple[int, int]] = []
    for allowed in (_PER_CLASS, most):
        images, classes = {row for row, _ in chosen}, Counter(column for _, column in chosen)
        for row, column in ranked:
            if len(chosen) < most and row not in images and classes[column] < allowed:
                chosen.append((row, column))
                images.add(row)
                classes[column] += 1
    return sorted(chosen, key=ranked.index)


def read_photo(name: str, config: RunConfig, images: str | None) -> str | None:
    """A photo, in `images` or where the run had it, as small JPEG in base64; None if unreadable."""
    try:
        path = Roots(config.model_dump(), images).path(name)
        return base64.b64encode(small_jpeg(path, _SIZE, quality=78)).decode()
    except InputError:
        return None
