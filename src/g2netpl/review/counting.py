"""How many of the classes are in a picture: a number, and no names.

The pictures are a random sample of the run's images, labelled or not, in an order that the seed
decides. So the mean of the answers is an honest estimate of k, the positives per image; nobody may
search or filter here.
"""

from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from g2netpl.labels.table import UNOBSERVED
from g2netpl.review.asking import Asking
from g2netpl.runs.answers import COUNT, COUNTS, Decision

_SAMPLE = 0x636E74  # beside the seed, so that no other order is the same


class CountReview(Asking):
    """Questions for counts; `can_show` tells whether there is a picture of a name."""

    asks = COUNTS

    def __init__(
        self,
        folder: str | Path,
        limit: int | None = None,
        seed: int = 0,
        can_show: Callable[[str], bool] = lambda name: True,
    ) -> None:
        super().__init__(folder, limit, seed)
        self._can_show = can_show
        self._order = np.random.default_rng([seed, _SAMPLE]).permutation(len(self.saved.images))
        self.counts: dict[int, int] = {}  # by row
        self._open_log()

    def state(self) -> dict[str, Any]:
        """What the page shows around the questions: all classes, above all."""
        names = [{"column": column, "name": name} for column, name in enumerate(self.saved.classes)]
        return {**super().state(), "classes": names, "orders": []}

    def questions(self, count: int) -> list[dict[str, Any]]:
        """The next open questions of the sample."""
        with self._lock:
            rows = islice(self._open_rows(), max(self._left(count), 0))
            return [self._question(row, COUNTS) for row in rows]

    def decide(self, id: str, row: int, count: int | None) -> None:
        """Save a count, None: skipped; OSError if the disk does not take it."""
        with self._lock:
            action, new = ("skip", self._get(row)) if count is None else (COUNT, count)
            self._save(id, [(row, action, new, COUNTS)])

    def _open_rows(self) -> Iterator[int]:
        for row in map(int, self._order):
            if self._answered[row] or np.isnan(self.saved.completed[row]).any():
                continue  # NaN: the training could not read it
            if self._can_show(self.saved.images[row]):
                yield row

    def _kinds(self) -> dict[str, str]:
        return {"counted": COUNT, "skipped": "skip"}

    def _place(self, decision: Decision, row: int) -> int | None:
        return row if decision.is_of_count else None

    def _names(self, entry: int) -> tuple[str, str]:
        return self.saved.images[entry], ""

    def _get(self, entry: int) -> int:
        return self.counts.get(entry, UNOBSERVED)

    def _set(self, entry: int, value: int) -> None:
        self.counts[entry] = value

    def _question(self, entry: int, order: str) -> dict[str, Any]:
        observed = self.saved.observed[entry]
        return {
            "row": entry,
            "image": self.saved.images[entry],
            "order": order,
            "known": self._known(entry, observed, np.flatnonzero(observed != UNOBSERVED)),
        }
