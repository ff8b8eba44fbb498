"""One review of a run: the next questions, the answers of people, and undo.

`ask` is "labels" (is this class in the photo?) or "photos" (which classes are?). A label question
is a photo with one tag: both are saved and undone in the same way. An answer is a line of the log
per label, with one id. Safe to use from several threads.
"""

import hashlib
import math
import os
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import islice
from pathlib import Path
from threading import RLock
from typing import Any, cast

import numpy as np

from g2netpl.labels.table import NEGATIVE, POSITIVE, UNOBSERVED
from g2netpl.review.log import AnswerLog
from g2netpl.review.queries import STRATEGIES, Index, Mask, Order, Probabilities, rank, rank_photos
from g2netpl.runs.answers import ANSWERS, PHOTOS, Decision, find, in_force, now
from g2netpl.runs.completion import thresholds_of_unknown
from g2netpl.runs.run import Run
from g2netpl.utils.errors import InputError, did_you_mean

MOST_AT_ONCE = 1000  # classes about which "nothing else" can be answered
_QUEUE, _QUEUES = 20_000, 16  # labels ranked at a time; queues kept, by strategy and filter
_LIKELY = 5  # other likely classes, shown with a label question
_TAGS, _FEWEST_TAGS = 9, 6  # tags of a photo, one per number key; of them not known yet
_QUERIED = 3  # tags that the strategy chooses

Line = tuple[int, Decision]  # with the entry of its label, row · L + column
Change = tuple[int, str, int, str]  # entry, action, new value, strategy


class ReviewSession:
    """Questions about a run and their answers; a run has one open session at a time."""

    def __init__(
        self,
        folder: str | Path,
        ask: str = "labels",
        classes: Sequence[str] | None = None,
        limit: int | None = None,
        seed: int = 0,
    ) -> None:
        if ask not in ("labels", PHOTOS):
            raise InputError(f"ask: expected labels or photos, got {ask!r}")
        self.folder, self.ask, self.limit, self.seed = Path(folder), ask, limit, seed
        run = Run.open(folder)
        self.saved = run.labels
        self._width = len(self.saved.classes)
        self.columns = _find_columns(self.saved.classes, classes)
        thresholds = thresholds_of_unknown(run, self.saved.observed)
        self.single_label = thresholds.single_label
        self.probabilities = Probabilities(self.saved, thresholds, run.expected_positives)
        self.values = self.saved.observed.copy()  # observed, and answered since
        self._positives = (self.values == POSITIVE).sum(axis=0)
        self._queues: dict[tuple[str, int | None, str], tuple[list[int], bool]] = {}
        self._lock = RLock()
        self._in_force: list[Line] = []  # the answers that no undo has taken back
        self._by_id: dict[str, list[Line]] = {}  # all lines, also those taken back
        self._answers: Counter[str] = Counter()  # lines in force by id, of this kind
        self._actions: Counter[str] = Counter()  # lines in force by action, of this kind
        self._labels: Counter[int] = Counter()  # answers in force by entry
        self._photos: Counter[int] = Counter()  # answers in force about whole photos, by row
        self.log = AnswerLog(folder)
        try:
            self._replay()
        except BaseException:
            self.log.close()
            raise

    def close(self) -> None:
        """Release the run folder."""
        self.log.close()

    @property
    def can_say_rest(self) -> bool:
        """Whether "nothing else" can be answered: not among more classes than people remember."""
        return len(self.columns) <= MOST_AT_ONCE

    def state(self) -> dict[str, Any]:
        """What the page shows around the questions."""
        folder, names = self.folder.resolve(), self.saved.classes
        known = self._positives.tolist()
        return {
            "asks": self.ask,
            "run": folder.name,
            "key": hashlib.sha256(os.fsencode(folder) + self.ask.encode()).hexdigest()[:16],
            "progress": self.progress(),
            "classes": [
                {"column": at, "name": names[at], "known": known[at]}
                for at in self.columns.tolist()
            ],
            "orders": [{"name": name, "summary": s.summary} for name, s in STRATEGIES.items()],
            "can_say_rest": self.can_say_rest,
            "single_label": self.single_label,
        }

    def progress(self) -> dict[str, int | None]:
        """The answers in force of this kind, and how many labels they confirm or reject."""
        with self._lock:
            counts = {"yes": "yes", "no": "no", "skipped": "skip"}
            labels = {name: self._actions[action] for name, action in counts.items()}
            return {"answered": len(+self._answers), **labels, "limit": self.limit}

    def summary(self) -> str:
        """The answers in force: `3 yes, 2 no, 1 skipped`."""
        progress = self.progress()
        return ", ".join(f"{progress[kind]:,} {kind}" for kind in ("yes", "no", "skipped"))

    # Answers

    def decide(self, id: str, row: int, column: int, answer: str, order: str) -> None:
        """Save yes, no or skip about one label; see `save`."""
        self._append(id, [self._change(row, column, answer, order)])

    def save(
        self,
        id: str,
        row: int,
        on: Sequence[int] = (),
        off: Sequence[int] = (),
        skipped: Sequence[int] = (),
        rest: bool = False,
    ) -> None:
        """Save which classes a photo shows; with `rest`, no other unobserved class is in it.

        It is on the disk when this returns; OSError if it cannot be. The same id is saved once.
        """
        with self._lock:
            if rest:
                repeated = {entry % self._width for entry, _ in self._by_id.get(id, ())}
                unknown = {*np.flatnonzero(self.values[row] == UNOBSERVED).tolist(), *repeated}
                unknown -= {*on, *off}
                off = [*off, *(at for at in self.columns.tolist() if at in unknown)]
            answers = [*((at, "yes") for at in on), *((at, "no") for at in off)]
            answers += [(at, "skip") for at in skipped]
            self._append(id, [self._change(row, *pair, PHOTOS) for pair in answers])

    def undo(self, id: str, answer: str) -> dict[str, Any]:
        """Take back the answer with the id `answer`; returns its question.

        Raises `InputError` if it is not the last answer in force: another tab may have given that.
        """
        with self._lock:
            lines = [line for line in self._by_id.get(answer, ()) if line[1].asks == self.ask]
            left = max(len(lines) - len(self._by_id.get(id, ())), 0)
            last = [was.id for _, was in self._in_force[len(self._in_force) - left :]]
            if not lines or last != [answer] * left:
                raise InputError(
                    "not taken back: another tab has saved an answer since, or has taken it back"
                )
            self._append(id, [(at, "undo", was.old, was.order) for at, was in reversed(lines)])
            return self._question(lines[0][0], lines[0][1].order, [*reversed(self._by_id[id])])

    def _change(self, row: int, column: int, answer: str, order: str) -> Change:
        value = ANSWERS.get(answer, int(self.values[row, column]))
        return row * self._width + column, answer, value, order

    def _append(self, id: str, changes: list[Change]) -> None:
        """Save changes once: a page repeats an answer until it is confirmed.

        The last answer of the log may lack lines after a crash; they are added.
        """
        with self._lock:
            saved, time, lines = self._by_id.get(id, []), now(), list[Line]()
            lacks = 0 < len(saved) < len(changes)
            is_same = all(map(_is_same, saved, changes)) and len(saved) <= len(changes)
            if not is_same or (lacks and self.log.decisions[-1].id != id):
                raise InputError("not saved: the id belongs to another answer")
            for entry, action, new, order in changes[len(saved) :]:
                row, column = divmod(entry, self._width)
                names = (self.saved.images[row], self.saved.classes[column])
                old = int(self.values[row, column])
                lines.append((entry, Decision(id, time, action, *names, old, new, order)))
            if lines:
                self.log.append(*(decision for _, decision in lines))
            for entry, decision in lines:
                self._apply(entry, decision)

    def _replay(self) -> None:
        """Apply the answers of earlier sessions."""
        rows = {name: row for row, name in enumerate(self.saved.images)}
        columns = {name: column for column, name in enumerate(self.saved.classes)}
        in_force(self.log.decisions)  # rejects an undo that does not match
        for line in self.log.decisions:
            row, column = find("image", line.image, rows), find("class", line.label, columns)
            self._apply(row * self._width + column, line)

    def _apply(self, entry: int, decision: Decision) -> None:
        """Let a saved line count."""
        self._by_id.setdefault(decision.id, []).append((entry, decision))
        row, column = divmod(entry, self._width)
        change = int(decision.new == POSITIVE) - int(self.values[row, column] == POSITIVE)
        self._positives[column] += change
        self.values[row, column] = decision.new
        if decision.action == "undo":
            sign, answer = -1, self._in_force.pop()[1]
            self._queues.clear()
        else:
            sign, answer = 1, decision
            self._in_force.append((entry, decision))
        self._labels[entry] += sign
        self._photos[row] += sign * (answer.asks == PHOTOS)
        if answer.asks == self.ask:
            self._answers[answer.id] += sign
            self._actions[answer.action] += sign

    # Questions

    def questions(
        self, order: str, count: int, column: int | None = None, text: str = ""
    ) -> list[dict[str, Any]]:
        """The next open questions of a query strategy; of one class, or matching a search."""
        with self._lock:
            if self.limit is not None:
                count = min(count, self.limit - (self.progress()["answered"] or 0))
            entries = self._next((order, column, text.casefold()), max(count, 0))
            return [self._question(entry, order) for entry in entries]

    def _next(self, key: tuple[str, int | None, str], count: int) -> list[int]:
        """Open entries of a queue; one that has run out is ranked again."""
        for _ in range(2):
            if key not in self._queues:
                if len(self._queues) >= _QUEUES:
                    del self._queues[next(iter(self._queues))]
                self._queues[key] = self._rank(*key)
            queue, is_complete = self._queues[key]
            entries = list(islice((entry for entry in queue if self._is_open(entry)), count))
            if entries or is_complete or not count:
                break
            del self._queues[key]
        return entries

    def _is_open(self, entry: int) -> bool:
        is_label = self.ask == "labels"
        return not (self._labels[entry] if is_label else self._photos[entry // self._width])

    def _rank(self, order: str, column: int | None, text: str) -> tuple[list[int], bool]:
        """The questions of a strategy, best first, by entry, and whether these are all."""
        columns, names = self.columns if column is None else np.array([column]), self.saved.images
        is_hit = np.fromiter((text in name.casefold() for name in names), bool, len(names))
        matches = np.array([text in self.saved.classes[at].casefold() for at in columns.tolist()])
        answered = np.array([at for at, times in self._labels.items() if times], dtype=np.int64)
        seen = [row for row, times in self._photos.items() if times and self.ask == PHOTOS]
        rows = np.arange(len(names)) if matches.any() else np.flatnonzero(is_hit)
        rows = np.setdiff1d(rows, np.array(seen, dtype=np.int64), assume_unique=True)

        def is_candidate(rows: Index, entries: Index) -> Mask:
            mask: Mask = (is_hit[rows][:, None] | matches) & ~np.isin(entries, answered)
            return mask

        entries, scores, is_complete = rank(
            *(STRATEGIES[cast(Order, order)], self.probabilities, columns, rows, is_candidate),
            *(self._positives, _QUEUE, self.seed),
        )
        if self.ask == PHOTOS:
            entries = rank_photos(entries, scores, self._width)
        return entries.tolist(), is_complete

    def _question(self, entry: int, order: str, undone: Sequence[Line] = ()) -> dict[str, Any]:
        """What the page asks; `undone` has the answer that was taken back."""
        row, column = divmod(entry, self._width)
        about = {"row": row, "image": self.saved.images[row]}
        if self.ask == "labels":
            return {**about, "order": order, **self._label(row, column)}
        if undone:  # as it was shown; of many classes that were "nothing else", only some
            were = {at % self._width: decision.old for at, decision in undone}
            on = sum(value == POSITIVE for value in were.values())
            return {**about, **self._tags(row, [*were][: max(on, 2 * _TAGS)], were)}
        strategy, rows = STRATEGIES[cast(Order, order)], np.array([row])
        scores = strategy.score(self.probabilities, rows, self.columns, self.seed)[0]
        if strategy.balances_classes:
            scores /= 1 + self._positives[self.columns]
        first = row * self._width
        scores[[self._labels[first + at] > 0 for at in self.columns.tolist()]] = -1
        best = np.argsort(-scores, kind="stable")[:_QUERIED]
        return {**about, **self._tags(row, self.columns[best[scores[best] >= 0]].tolist(), {})}

    def _label(self, row: int, column: int) -> dict[str, Any]:
        """A label with its probabilities, and those of other likely classes."""
        names, values, every = self.saved.classes, self.values[row], np.arange(self._width)
        (pseudo,) = self.probabilities.pseudo(np.array([row]), every)
        (predicted,) = self.probabilities.predicted(np.array([row]), every)
        pseudo[self.saved.observed[row] != UNOBSERVED] = np.nan  # observed: none
        others = np.flatnonzero((values == UNOBSERVED) & (every != column))
        likely = others[np.argsort(-pseudo[others], kind="stable")][:_LIKELY].tolist()
        shown = [
            {"class": names[at], "pseudo": _round(pseudo[at]), "predicted": _round(predicted[at])}
            for at in (column, *likely)
        ]
        return {
            **shown[0],
            "column": column,
            "value": int(values[column]),
            "has_pseudo": bool(self.saved.has_soft[row]),
            "known": self._known(row, np.flatnonzero(values != UNOBSERVED).tolist()),
            "likely": shown[1:],
        }

    def _tags(self, row: int, queried: Sequence[int], were: dict[int, int]) -> dict[str, Any]:
        """The tags of a photo: likely, queried and known ones; `were` has answers taken back."""
        (scores,), (present,) = self.probabilities.completed(np.array([row]))
        values = self.values[row]
        ranked = self.columns[np.argsort(-scores[self.columns], kind="stable")]
        known = ranked[values[ranked] == POSITIVE].tolist()
        present &= not (self.single_label and known)
        unknown = ranked[values[ranked] == UNOBSERVED]
        needed = {*unknown[present[unknown]].tolist(), *queried} - {*known}
        count = max(_TAGS - len(known), _FEWEST_TAGS, len(needed))
        shown = {*list(dict.fromkeys((*needed, *unknown.tolist())))[:count]}
        absent = [at for at in np.flatnonzero(values == NEGATIVE).tolist() if at not in shown]

        def tag(column: int) -> dict[str, Any]:
            value = int(values[column])
            is_open, was = value == UNOBSERVED, were.get(column, value)
            return {
                "column": column,
                "name": self.saved.classes[column],
                "known": not is_open,
                "on": is_open and bool(present[column]) if was == UNOBSERVED else was == POSITIVE,
                "probability": _round(scores[column]) if is_open else None,
            }

        tags = [tag(at) for at in (*(at for at in ranked.tolist() if at in shown), *known)]
        return {"tags": tags, "known": self._known(row, absent)}

    def _known(self, row: int, columns: Iterable[int]) -> list[dict[str, Any]]:
        """Known labels of an image, positives first, and which of them were answered here."""
        names, values = self.saved.classes, self.values[row].tolist()
        is_new = (self.values[row] != self.saved.observed[row]).tolist()
        return [
            {"name": names[at], "value": values[at], "answered": is_new[at]}
            for at in sorted(columns, key=lambda at: -values[at])
        ]


def _round(probability: float) -> float | None:
    """A probability for the page; None for NaN."""
    return None if math.isnan(probability) else round(float(probability), 4)


def _find_columns(known: Sequence[str], wanted: Sequence[str] | None) -> Index:
    """Positions of the wanted classes, or of all."""
    for name in wanted or ():
        if name not in known:
            raise InputError(f"--classes: unknown class {name!r} ({did_you_mean(name, known)})")
    return np.array([at for at, name in enumerate(known) if wanted is None or name in wanted])


def _is_same(saved: Line, change: Change) -> bool:
    """Whether a saved line gives the same answer about the same label."""
    (entry, decision), (other, action, new, _) = saved, change
    return (entry, decision.action) == (other, action) and (action == "skip" or decision.new == new)
