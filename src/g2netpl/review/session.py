"""A review of one run: the next questions, what people answer, and what they take back.

Everything a page needs, and nothing about pages. Safe to use from several threads.

One file holds the answers of both kinds, about labels and about photos. An answer is what somebody
says at one time: one line, or the lines of a photo, which have one id. A page knows what answers of
the other kind say of its labels; it counts none of them, and takes none back.
"""

import hashlib
import math
import os
from collections import Counter, OrderedDict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from threading import RLock
from typing import Any

import numpy as np

from g2netpl.base.errors import InputError, Refused, did_you_mean
from g2netpl.labels.table import POSITIVE, UNOBSERVED, LabelMatrix
from g2netpl.review.answers_writer import DecisionLog
from g2netpl.review.questions import ORDERS, Chances, Floats, Index, Opinions, Scope, build_queue
from g2netpl.runs.answers import ANSWERS, Decision, find, in_force, now
from g2netpl.runs.completion import thresholds_of_unknown
from g2netpl.runs.run import Run

_QUEUE = 20_000  # questions that are put in order at a time
_QUEUES = 16  # orders and filters that are kept ready
_GUESSES = 5
_KINDS = {"yes": "yes", "no": "no", "skipped": "skip"}  # answers as the page names them

Said = tuple[int, str, int, str]  # number of a label, action, new value, order
Line = tuple[int, Decision]  # with the number of its label


@dataclass
class Queue:
    """Questions in their order, each by the number of its label."""

    entries: Index
    is_whole: bool  # else there are more of them
    position: int = 0  # everything before is answered


class Review:
    """Whether a class is in a picture; only one review may be open for a run at a time."""

    asks = "labels"  # the kind of its questions

    def __init__(
        self,
        folder: str | Path,
        classes: Sequence[str] | None = None,
        limit: int | None = None,
        seed: int = 0,
    ) -> None:
        self.folder, self.limit, self.seed = Path(folder), limit, seed
        run = Run.open(folder)
        self.saved = run.labels
        self.columns = _columns(self.saved.classes, classes)
        thresholds = thresholds_of_unknown(run, self.saved.observed)
        self.opinions = Opinions(self.saved, thresholds, run.expected_positives)
        self.values = self.saved.observed.copy()  # with what people have decided since
        self._positives = (self.values == POSITIVE).sum(axis=0)
        self._queues: OrderedDict[tuple[str, int | None, str], Queue] = OrderedDict()
        self._places = {name: column for column, name in enumerate(self.saved.classes)}
        self._said = lru_cache(maxsize=256)(self._look_up)
        self._lock = RLock()
        self._standing: list[list[Line]] = []  # the answers in force
        self._answered: Counter[int] = Counter()  # how often, by label
        self._counts: Counter[str] = Counter()
        self._total = 0  # answers of our kind
        self._asked: dict[str, list[Line]] = {}  # what was saved, by its id
        self._cut = ""  # the id of the last line of the file: a crash may have cut lines after it
        self._open_log()

    def close(self) -> None:
        """Let another review of the run begin."""
        self.log.close()

    def state(self) -> dict[str, Any]:
        """What the page shows around the questions."""
        folder = self.folder.resolve()
        with self._lock:
            positives = self._positives.tolist()
        return {
            "asks": self.asks,
            "run": folder.name,
            "key": hashlib.sha256(os.fsencode(folder) + self.asks.encode()).hexdigest()[:16],
            "progress": self.progress(),
            "classes": [
                {"column": column, "name": self.saved.classes[column], "known": positives[column]}
                for column in self.columns.tolist()
            ],
            "orders": [{"name": name, "summary": order.summary} for name, order in ORDERS.items()],
        }

    def progress(self) -> dict[str, int | None]:
        """How many answers are in force, and what they say."""
        with self._lock:
            said = {name: self._counts[action] for name, action in _KINDS.items()}
            return {"answered": self._total, **said, "limit": self.limit}

    def told(self) -> str:
        """What the answers in force say: `3 yes, 2 no, 1 skipped`."""
        with self._lock:
            kinds = _KINDS.items()
            return ", ".join(f"{self._counts[action]:,} {name}" for name, action in kinds)

    def questions(
        self, order: str, count: int, column: int | None = None, text: str = ""
    ) -> list[dict[str, Any]]:
        """The next open questions, best first; of one class, or about what a search hits."""
        with self._lock:
            if self.limit is not None:
                count = min(count, self.limit - self._total)
            found = self._next(order, column, text, count)
            return [self._question(entry, order) for entry in found]

    def decide(self, id: str, row: int, column: int, answer: str, order: str) -> None:
        """Save an answer; OSError if the disk does not take it. The same id is saved once."""
        with self._lock:
            self._save(id, [self._say(self._entry(row, column), answer, order)])

    def undo(self, id: str, answer: str) -> dict[str, Any]:
        """Take back the answer with the id `answer`; returns its question.

        Raises `Refused` if it is not the last answer in force: another tab may have given that.
        """
        with self._lock:
            lines = [
                (entry, "undo", decision.old, decision.order)
                for entry, decision in reversed(self._asked.get(answer, []))
                if decision.asks == self.asks
            ]
            left = len(lines) - len(self._asked.get(id, []))
            last = self._standing[-1] if self._standing else []
            is_last = len(last) == left and all(decision.id == answer for _, decision in last)
            if not lines or (left and not is_last):
                raise Refused(
                    "not taken back: another tab has saved an answer since, or has taken it back"
                )
            self._save(id, lines)
            return self._once_more(self._asked[id])

    def _known(self, row: int, values: LabelMatrix, columns: Iterable[int]) -> list[dict[str, Any]]:
        """Some labels of an image, positives first, and whether people have decided them."""
        observed = self.saved.observed[row]
        return [
            {
                "name": self.saved.classes[each],
                "value": int(values[each]),
                "decided": bool(values[each] != observed[each]),
            }
            for each in sorted(columns, key=lambda each: -values[each])
        ]

    def _open_log(self) -> None:
        """Take the file, and take up what was decided at earlier times."""
        self.log = DecisionLog(self.folder)
        try:
            self._replay()
        except BaseException:
            self.log.close()
            raise

    def _replay(self) -> None:
        if not self.log.decisions:
            return
        self._cut = self.log.decisions[-1].id
        rows = {name: row for row, name in enumerate(self.saved.images)}
        for decision in self.log.decisions:
            row = find("image", decision.image, rows)
            entry = self._entry(row, find("class", decision.label, self._places))
            self._asked.setdefault(decision.id, []).append((entry, decision))
        for decision in in_force(self.log.decisions):
            entry = self._entry(rows[decision.image], self._places[decision.label])
            self._take_up(entry, decision)

    def _save(self, id: str, said: Iterable[Said]) -> None:
        """Save what somebody says, once: a page repeats an answer until it is confirmed.

        Raises `Refused` if the id belongs to another answer.
        """
        said, saved, time = list(said), self._asked.get(id, []), now()
        is_whole = not saved or len(saved) == len(said)
        is_cut = id == self._cut and len(saved) < len(said)
        if not (is_whole or is_cut) or not all(map(_is_same, saved, said)):
            raise Refused("not saved: the id belongs to another answer")
        lines = [
            (entry, Decision(id, time, action, *self._names(entry), self._get(entry), new, order))
            for entry, action, new, order in said[len(saved) :]
        ]
        if not lines:
            return
        self.log.append(*(decision for _, decision in lines))
        self._asked.setdefault(id, []).extend(lines)
        for entry, decision in lines:
            if decision.action == "undo":
                self._take_back()
            else:
                self._take_up(entry, decision)

    def _take_up(self, entry: int, decision: Decision) -> None:
        """Let a line count."""
        if not self._standing or self._standing[-1][0][1].id != decision.id:
            self._standing.append([])
            self._total += decision.asks == self.asks
        self._standing[-1].append((entry, decision))
        self._count(entry, decision, 1)
        self._set(entry, decision.new)

    def _take_back(self) -> None:
        """Let the last line count no longer."""
        entry, undone = self._standing[-1].pop()
        if not self._standing[-1]:
            self._standing.pop()
            self._total -= 1
        self._count(entry, undone, -1)
        self._set(entry, undone.old)
        self._open_again(entry)

    def _count(self, entry: int, decision: Decision, change: int) -> None:
        self._answered[entry] += change
        if decision.asks == self.asks:
            self._counts[decision.action] += change

    def _once_more(self, undone: list[Line]) -> dict[str, Any]:
        """The question whose answer was taken back."""
        entry, decision = undone[0]
        return self._question(entry, decision.order)

    def _say(self, entry: int, answer: str, order: str) -> Said:
        return entry, answer, ANSWERS.get(answer, self._get(entry)), order

    def _entry(self, row: int, column: int) -> int:
        return row * len(self.saved.classes) + column

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


def _is_same(saved: Line, said: Said) -> bool:
    """Whether a saved line says the same about the same label."""
    (entry, decision), (other, action, new, _) = saved, said
    return (entry, decision.action) == (other, action) and (action == "skip" or decision.new == new)
