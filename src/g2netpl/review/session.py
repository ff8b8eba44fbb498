"""One review of a run: the next questions, the answers of people, and undo.

A question is a photo with tags: its likely classes if `ask` is "photos", a single one if it is
"labels". An answer is a line of the log per tag, with one id. Safe to use from several threads.

Strategies say which labels to ask about, the most useful first:

useful        uncertain pseudo-label, u = 4p(1 − p), of a class with few positives: question number
              i about a class with n known positives scores u / (1 + n + i), so classes take turns
disagreement  |pseudo-label − prediction|
doubtful      observed labels that the network contradicts: |observed − prediction|
random        any unobserved label, as a control
"""

import hashlib
import os
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from threading import RLock
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from g2netpl.labels.table import POSITIVE, UNOBSERVED
from g2netpl.review.log import AnswerLog
from g2netpl.runs.answers import ANSWERS, PHOTOS, Decision, find, in_force, now
from g2netpl.runs.completion import complete_run, completed_by_pseudo_labels
from g2netpl.runs.run import Run
from g2netpl.utils.arrays import Scores
from g2netpl.utils.errors import InputError, did_you_mean

_RANKED, _QUEUE = 10_000_000, 20_000  # labels that are scored, and questions kept, at a time
_TAGS, _FEWEST_TAGS = 9, 6  # tags of a photo, one per number key; of them not known yet
_QUERIED = 3  # tags that the strategy chooses

Order = Literal["useful", "disagreement", "doubtful", "random"]
STRATEGIES: dict[Order, str] = {
    "useful": "uncertain, rare classes first",
    "disagreement": "pseudo-label and prediction differ",
    "doubtful": "observed labels that look wrong",
    "random": "any unobserved label, as a control",
}

Index = npt.NDArray[np.int64]
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
        for name in classes or ():
            if name not in self.saved.classes:
                known = did_you_mean(name, self.saved.classes)
                raise InputError(f"--classes: unknown class {name!r} ({known})")
        wanted = [classes is None or name in classes for name in self.saved.classes]
        self.columns = np.flatnonzero(wanted)
        self.single_label = run.thresholds.single_label
        self._pseudo = completed_by_pseudo_labels(run).scores
        self._predicted = run.thresholds.calibrate(run.predictions())
        self._completed = complete_run(run)
        self.values = self.saved.observed.copy()  # observed, and answered since
        self._is_open = ~np.isnan(self._predicted)  # labels of readable images without an answer
        self._is_open_photo = np.ones(len(self.values), dtype=bool)
        self._queues: dict[tuple[str, int | None], Index] = {}
        self._lock = RLock()
        self._in_force: list[Line] = []  # the answers that no undo has taken back
        self._by_id: dict[str, list[Line]] = {}  # all lines, also those taken back
        self.log = AnswerLog(folder)
        try:
            self._replay()
        except BaseException:
            self.log.close()
            raise

    def close(self) -> None:
        """Release the run folder."""
        self.log.close()

    def state(self) -> dict[str, Any]:
        """What the page shows around the questions."""
        folder, names, known = self.folder.resolve(), self.saved.classes, self._positives().tolist()
        return {
            "asks": self.ask,
            "run": folder.name,
            "key": hashlib.sha256(os.fsencode(folder) + self.ask.encode()).hexdigest()[:16],
            "progress": self.progress(),
            "classes": [
                {"column": at, "name": names[at], "known": known[at]}
                for at in self.columns.tolist()
            ],
            "orders": [{"name": name, "summary": text} for name, text in STRATEGIES.items()],
            "single_label": self.single_label,
        }

    def progress(self) -> dict[str, int | None]:
        """The answers in force of this kind, and how many labels they confirm or reject."""
        with self._lock:
            lines = [line for _, line in self._in_force if line.asks == self.ask]
        actions = Counter(line.action for line in lines)
        labels = {"yes": actions["yes"], "no": actions["no"], "skipped": actions["skip"]}
        return {"answered": len({line.id for line in lines}), **labels, "limit": self.limit}

    def summary(self) -> str:
        """The answers in force: `3 yes, 2 no, 1 skipped`."""
        counts = self.progress()
        return ", ".join(f"{counts[kind]:,} {kind}" for kind in ("yes", "no", "skipped"))

    # Answers

    def decide(self, id: str, row: int, column: int, answer: str, order: str) -> None:
        """Save yes, no or skip about one label; see `save`."""
        self.save(id, row, {column: answer}, order=order)

    def save(
        self, id: str, row: int, answers: Mapping[int, str], rest: bool = False, order: str = PHOTOS
    ) -> None:
        """Save yes, no or skip for classes of a photo; `rest`: no other unobserved class is in it.

        It is on the disk when this returns; OSError if it cannot be. The same id is saved once.
        """
        for answer in answers.values():
            if answer not in (*ANSWERS, "skip"):
                raise InputError(f"answer: expected yes, no or skip, got {answer!r}")
        with self._lock:
            values, order = self.values[row].tolist(), PHOTOS if self.ask == PHOTOS else order
            if rest:
                repeated = {entry % self._width for entry, _ in self._by_id.get(id, ())}
                answers = dict(answers)
                for at in self.columns.tolist():
                    if values[at] == UNOBSERVED or at in repeated:
                        answers.setdefault(at, "no")
            changes: list[Change] = [
                (row * self._width + at, answer, ANSWERS.get(answer, values[at]), order)
                for at, answer in answers.items()
            ]
            self._append(id, changes)

    def undo(self, id: str, answer: str) -> None:
        """Take back the answer with the id `answer`.

        Raises `InputError` if it is not the last answer in force: another tab may have given that.
        """
        with self._lock:
            lines = self._by_id.get(answer, [])
            left = max(len(lines) - len(self._by_id.get(id, ())), 0)
            last = [was.id for _, was in self._in_force[len(self._in_force) - left :]]
            if not lines or last != [answer] * left:
                raise InputError(
                    "not taken back: another tab has saved an answer since, or has taken it back"
                )
            self._append(id, [(at, "undo", was.old, was.order) for at, was in reversed(lines)])

    def _append(self, id: str, changes: list[Change]) -> None:
        """Save changes once: a page repeats an answer until it is confirmed.

        The last answer of the log may lack lines after a crash; they are added.
        """
        saved, time, lines = self._by_id.get(id, []), now(), list[Line]()
        is_same = [(at, line.action) for at, line in saved] == [
            change[:2] for change in changes[: len(saved)]
        ]
        is_torn = 0 < len(saved) < len(changes)
        if not is_same or (is_torn and self.log.decisions[-1].id != id):
            raise InputError("not saved: the id belongs to another answer")
        for entry, action, new, order in changes[len(saved) :]:
            row, column = divmod(entry, self._width)
            names = {"image": self.saved.images[row], "class": self.saved.classes[column]}
            about: dict[str, Any] = {"id": id, "time": time, "action": action, **names}
            old = int(self.values[row, column])
            lines.append((entry, Decision(**about, old=old, new=new, order=order)))
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
        self.values[row, column] = decision.new
        is_undo = decision.action == "undo"
        self._is_open[row, column] = is_undo
        if decision.asks == PHOTOS:
            self._is_open_photo[row] = is_undo
        if is_undo:
            self._in_force.pop()
            self._queues.clear()
        else:
            self._in_force.append((entry, decision))

    # Questions

    def questions(self, order: str, count: int, column: int | None = None) -> list[dict[str, Any]]:
        """The next open questions of a query strategy, about all classes or one of them."""
        with self._lock:
            if self.limit is not None:
                count = min(count, self.limit - (self.progress()["answered"] or 0))
            is_open = self._is_open_photo if self.ask == PHOTOS else self._is_open.ravel()
            queue = self._queues.get((order, column), np.empty(0, dtype=np.int64))
            if not is_open[queue].any():
                queue = self._queues[order, column] = self._rank(order, column)
            places = queue[is_open[queue]][: max(count, 0)].tolist()
            return [self._question(at, order) for at in places]

    def _rank(self, order: str, column: int | None) -> Index:
        """The best questions: rows of photos, or entries (row · L + column) of labels."""
        columns = self.columns if column is None else np.array([column])
        can_ask = self._can_ask(order, (slice(None), columns)).any(axis=1)
        rows = np.flatnonzero(can_ask & (self._is_open_photo | (self.ask != PHOTOS)))
        most = max(_RANKED // len(columns), 1)
        if len(rows) > most:  # a part at random; the others come when these are answered
            rows = np.sort(np.random.default_rng(self.seed).choice(rows, most, replace=False))
        scores = self._score(order, rows, columns)
        if self.ask == PHOTOS:  # the labels of a photo count together
            together = np.maximum(scores, 0).sum(axis=1)
            return rows[np.argsort(-together, kind="stable")[:_QUEUE]]
        count = min(int((scores >= 0).sum()), _QUEUE)
        best = np.argsort(-scores, axis=None, kind="stable")[:count]
        return rows[best // len(columns)] * self._width + columns[best % len(columns)]

    def _can_ask(self, order: str, at: Any) -> npt.NDArray[np.bool_]:
        """Which labels have no answer and are of the kind that the strategy asks about."""
        is_observed = self.saved.observed[at] != UNOBSERVED
        return np.asarray(self._is_open[at] & (is_observed == (order == "doubtful")))

    def _score(self, order: str, rows: Index, columns: Index) -> Scores:
        """Scores of labels (rows × columns), the best highest; −1 for those not to ask about."""
        at = np.ix_(rows, columns)
        can_ask, pseudo, predicted = self._can_ask(order, at), self._pseudo[at], self._predicted[at]
        scores: npt.NDArray[Any]
        if order == "doubtful":
            scores = np.abs(self.saved.observed[at] - predicted)
        elif order == "disagreement":
            scores = np.abs(pseudo - predicted)
        elif order == "random":
            scores = np.random.default_rng([self.seed, *rows[:1].tolist()]).random(pseudo.shape)
        else:
            scores = np.where(can_ask, 4 * pseudo * (1 - pseudo), np.float32(-1))
            place = np.argsort(np.argsort(-scores, axis=0, kind="stable"), axis=0)
            scores = scores / (1 + self._positives()[columns] + place)
        return np.where(can_ask, scores, -1).astype(np.float32)

    def _positives(self) -> Index:
        """How many positives of every class are known."""
        counts: Index = (self.values == POSITIVE).sum(axis=0)
        return counts

    def _question(self, place: int, order: str) -> dict[str, Any]:
        """What the page shows: a photo, its tags, and what else is known about it."""
        row, column = (place, None) if self.ask == PHOTOS else divmod(place, self._width)
        shown = self._shown(row, order) if column is None else [column]
        names, values = self.saved.classes, self.values[row]
        changed = np.flatnonzero(values != self.saved.observed[row]).tolist()
        known = [at for at in np.flatnonzero(values != UNOBSERVED).tolist() if at not in shown]
        return {
            "row": row,
            "image": self.saved.images[row],
            "order": order,
            "tags": [self._tag(row, at) for at in shown],
            "known": [  # positives first
                {"name": names[at], "value": int(values[at]), "answered": at in changed}
                for at in sorted(known, key=lambda at: -values[at])
            ],
        }

    def _shown(self, row: int, order: str) -> list[int]:
        """The classes of a photo to show as tags: likely, queried and known ones."""
        values, columns = self.values[row], self.columns
        ranked = columns[np.argsort(-self._completed.scores[row, columns], kind="stable")]
        known = ranked[values[ranked] == POSITIVE].tolist()
        unknown = ranked[values[ranked] == UNOBSERVED].tolist()
        scores = self._score(order, np.array([row]), columns)[0]
        best = np.argsort(-scores, kind="stable")[:_QUERIED]
        needed = {*columns[best[scores[best] >= 0]].tolist()} - {*known}
        needed |= {at for at in unknown if self._is_likely(row, at)}
        count = max(_TAGS - len(known), _FEWEST_TAGS, len(needed))
        shown = {*list(dict.fromkeys((*needed, *unknown)))[:count]}
        return [*(at for at in ranked.tolist() if at in shown), *known]

    def _is_likely(self, row: int, column: int) -> bool:
        """Whether `g2netpl complete` would add a label, with the answers so far."""
        has_class = self.single_label and (self.values[row] == POSITIVE).any()
        return not has_class and self._completed.values[row, column] == POSITIVE

    def _tag(self, row: int, column: int) -> dict[str, Any]:
        """A class of a photo with its probabilities, which only unobserved labels have."""
        value = int(self.values[row, column])
        is_unobserved = self.saved.observed[row, column] == UNOBSERVED
        pseudo = self._pseudo[row, column] if self.saved.has_soft[row] and is_unobserved else None
        completed = self._completed.scores[row, column] if value == UNOBSERVED else None
        is_on = self._is_likely(row, column) if value == UNOBSERVED else value == POSITIVE
        return {
            "column": column,
            "name": self.saved.classes[column],
            "value": value,
            "on": bool(is_on),
            "probability": _round(completed),
            "pseudo": _round(pseudo),
            "predicted": _round(self._predicted[row, column]),
        }


def _round(probability: float | None) -> float | None:
    """A probability for the page; None for NaN."""
    return None if probability is None or np.isnan(probability) else round(float(probability), 4)
