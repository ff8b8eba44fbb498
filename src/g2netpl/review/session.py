"""A review of one run: the next questions, what people answer, and what they take back.

Everything a page needs, and nothing about pages. Safe to use from several threads.
"""

import math
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from g2netpl.base.errors import InputError, did_you_mean
from g2netpl.labels.table import POSITIVE, UNOBSERVED
from g2netpl.review.asking import Asking, Said
from g2netpl.review.questions import ORDERS, Chances, Floats, Index, Opinions, Scope, build_queue
from g2netpl.runs.answers import ADDED, ANSWERS, COUNTS, Decision, find
from g2netpl.runs.completion import thresholds_of_unknown

_QUEUE = 20_000  # questions that are put in order at a time
_QUEUES = 16  # orders and filters that are kept ready
_GUESSES = 5


@dataclass
class Queue:
    """Questions in their order, each by the number of its label."""

    entries: Index
    is_whole: bool  # else there are more of them
    position: int = 0  # everything before is answered


class Review(Asking):
    """Whether a class is in a picture; only one review may be open for a run at a time."""

    asks = "labels"

    def __init__(
        self,
        folder: str | Path,
        classes: Sequence[str] | None = None,
        limit: int | None = None,
        seed: int = 0,
    ) -> None:
        super().__init__(folder, limit, seed)
        run = self.run
        self.columns = _columns(self.saved.classes, classes)
        thresholds = thresholds_of_unknown(run, self.saved.observed)
        self.opinions = Opinions(self.saved, thresholds, run.expected_positives)
        self.values = self.saved.observed.copy()  # with what people have decided since
        self._positives = (self.values == POSITIVE).sum(axis=0)
        self._queues: OrderedDict[tuple[str, int | None, str], Queue] = OrderedDict()
        self._places = {name: column for column, name in enumerate(self.saved.classes)}
        self._said = lru_cache(maxsize=256)(self._look_up)
        self._open_log()

    def state(self) -> dict[str, Any]:
        """What the page shows around the questions."""
        with self._lock:
            positives = self._positives.tolist()
        return {
            **super().state(),
            "classes": [
                {"column": column, "name": self.saved.classes[column], "known": positives[column]}
                for column in self.columns.tolist()
            ],
            "orders": [{"name": name, "summary": order.summary} for name, order in ORDERS.items()],
        }

    def questions(
        self, order: str, count: int, column: int | None = None, text: str = ""
    ) -> list[dict[str, Any]]:
        """The next open questions, best first; of one class, or about what a search hits."""
        with self._lock:
            found = self._next(order, column, text, self._left(count))
            return [self._question(entry, order) for entry in found]

    def decide(self, id: str, row: int, column: int, answer: str, order: str) -> None:
        """Save an answer; OSError if the disk does not take it. The same id is saved once."""
        with self._lock:
            self._save(id, [self._say(self._entry(row, column), answer, order)])

    def _say(self, entry: int, answer: str, order: str) -> Said:
        return entry, answer, ANSWERS.get(answer, self._get(entry)), order

    def _entry(self, row: int, column: int) -> int:
        return row * len(self.saved.classes) + column

    def _kinds(self) -> dict[str, str]:
        return {"yes": "yes", "no": "no", "skipped": "skip"}

    def _place(self, decision: Decision, row: int) -> int | None:
        if decision.order in (COUNTS, ADDED):
            return None
        return self._entry(row, find("class", decision.label, self._places))

    def _names(self, entry: int) -> tuple[str, str]:
        row, column = divmod(entry, len(self.saved.classes))
        return self.saved.images[row], self.saved.classes[column]

    def _open_again(self, entry: int) -> None:
        for key, queue in list(self._queues.items()):
            queue.position = 0
            if entry not in queue.entries:  # it was answered before the queue was made
                del self._queues[key]

    def _get(self, entry: int) -> int:
        return int(self.values[divmod(entry, len(self.saved.classes))])

    def _set(self, entry: int, value: int) -> None:
        row, column = divmod(entry, len(self.saved.classes))
        change = int(value == POSITIVE) - int(self.values[row, column] == POSITIVE)
        self._positives[column] += change
        self.values[row, column] = value

    def _next(self, order: str, column: int | None, text: str, count: int) -> list[int]:
        """Open questions of a queue, which is made anew when it has run out."""
        queue = self._queue(order, column, text)
        found = self._open(queue, count)
        if len(found) < count and not queue.is_whole and not found:
            del self._queues[order, column, text]
            found = self._open(self._queue(order, column, text), count)
        return found

    def _open(self, queue: Queue, count: int) -> list[int]:
        found: list[int] = []
        for position in range(queue.position, len(queue.entries)):
            if len(found) >= count:
                break
            entry = int(queue.entries[position])
            if self._is_open(entry):
                found.append(entry)
            elif not found:
                queue.position = position + 1
        return found

    def _is_open(self, entry: int) -> bool:
        return not self._answered[entry]

    def _queue(self, order: str, column: int | None, text: str) -> Queue:
        key = (order, column, text)
        if key not in self._queues:
            found, worth, total = build_queue(
                self.opinions,
                ORDERS[order],
                self._scope(column, text.casefold()),
                self._closed(),
                self._positives,
                _QUEUE,
                self.seed,
            )
            self._queues[key] = Queue(self._asked_about(found, worth), total <= len(found))
            if len(self._queues) > _QUEUES:
                self._queues.popitem(last=False)
        self._queues.move_to_end(key)
        return self._queues[key]

    def _closed(self) -> Index:
        """Labels that need not be asked about again, sorted."""
        return np.array(
            sorted(entry for entry, times in self._answered.items() if times), dtype=np.int64
        )

    def _asked_about(self, found: Index, worth: Floats) -> Index:
        """The questions to put, of labels in the order of their worth: here, about each label."""
        return found

    def _scope(self, column: int | None, text: str) -> Scope:
        columns = self.columns if column is None else np.array([column])
        if not text:
            return Scope(columns)
        names = (name.casefold() for name in self.saved.images)
        hit_rows = np.fromiter((text in name for name in names), bool, len(self.saved.images))
        hit_columns = np.array([text in name.casefold() for name in self.saved.classes])
        return Scope(columns, hit_rows, hit_columns)

    def _look_up(self, row: int) -> tuple[Chances, Chances]:
        rows, said = slice(row, row + 1), self.opinions
        return said.soft(rows)[0], said.predicted(rows)[0]

    def _question(self, entry: int, order: str) -> dict[str, Any]:
        """One question, with everything that helps to answer it."""
        row, column = divmod(entry, len(self.saved.classes))
        soft, predicted = self._said(row)
        observed, values = self.saved.observed[row], self.values[row]
        unknown = (values == UNOBSERVED) & (np.arange(len(values)) != column)
        likely = np.argsort(-np.where(unknown, soft, -1), kind="stable")[:_GUESSES].tolist()

        def chances(number: int) -> dict[str, float | None]:
            is_known = observed[number] != UNOBSERVED
            return {
                "soft": None if is_known else short(soft[number]),
                "predicted": short(predicted[number]),
            }

        return {
            "row": row,
            "column": column,
            "image": self.saved.images[row],
            "class": self.saved.classes[column],
            "order": order,
            "value": int(values[column]),
            **chances(column),
            "has_soft": bool(self.saved.has_soft[row]),
            "known": self._known(row, values, np.flatnonzero(values != UNOBSERVED)),
            "guesses": [
                {"name": self.saved.classes[number], **chances(number)}
                for number in likely
                if unknown[number]
            ],
        }


def short(chance: float | np.floating[Any]) -> float | None:
    """A chance for the page; None where there is none."""
    return None if math.isnan(chance) else round(float(chance), 4)


def _columns(known: Sequence[str], wanted: Sequence[str] | None) -> Index:
    """Positions of the wanted classes, or of all."""
    if wanted is None:
        return np.arange(len(known))
    for name in wanted:
        if name not in known:
            raise InputError(f"--classes: unknown class {name!r} ({did_you_mean(name, known)})")
    return np.array(sorted({known.index(name) for name in wanted}), dtype=np.int64)
