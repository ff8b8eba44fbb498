"""What every kind of question about a run shares: the log of answers, undo, and what stands.

One file holds the answers of all kinds. An answer is what somebody says at one time: one line, or
the lines of a photo, which have one id. A page knows what answers of the other kinds say of its
labels; it counts none of them, and takes none back.
"""

import hashlib
import os
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from threading import RLock
from typing import Any

from g2netpl.base.errors import Refused
from g2netpl.labels.table import LabelMatrix
from g2netpl.review.answers_writer import DecisionLog
from g2netpl.runs.answers import Decision, find, in_force, now
from g2netpl.runs.run import Run

Said = tuple[int, str, int, str]  # number of a label, action, new value, order
Line = tuple[int | None, Decision]  # with the number of its label, None: not one of ours


class Asking:
    """Questions and answers of one run; only one may be open for a run at a time."""

    asks = ""  # the kind of its questions

    def __init__(self, folder: str | Path, limit: int | None, seed: int) -> None:
        self.folder, self.limit, self.seed = Path(folder), limit, seed
        self.run = Run.open(folder)
        self.saved = self.run.labels
        self._lock = RLock()
        self._standing: list[list[Line]] = []  # the answers in force
        self._answered: Counter[int] = Counter()  # how often, by label
        self._counts: Counter[str] = Counter()
        self._total = 0  # answers of our kind
        self._asked: dict[str, list[tuple[int, Decision]]] = {}  # what was saved, by its id
        self._cut = ""  # the id of the last line of the file: a crash may have cut lines after it

    def close(self) -> None:
        """Let another review of the run begin."""
        self.log.close()

    def state(self) -> dict[str, Any]:
        """What the page shows around the questions."""
        folder = self.folder.resolve()
        return {
            "asks": self.asks,
            "run": folder.name,
            "key": hashlib.sha256(os.fsencode(folder) + self.asks.encode()).hexdigest()[:16],
            "images": len(self.saved.images),
            "progress": self.progress(),
        }

    def progress(self) -> dict[str, int | None]:
        """How many answers are in force, and what they say."""
        with self._lock:
            said = {name: self._counts[action] for name, action in self._kinds().items()}
            return {"answered": self._total, **said, "limit": self.limit}

    def told(self) -> str:
        """What the answers in force say: `3 yes, 2 no, 1 skipped`."""
        with self._lock:
            kinds = self._kinds().items()
            return ", ".join(f"{self._counts[action]:,} {name}" for name, action in kinds)

    @property
    def added(self) -> list[str]:
        """Classes that people have added to those of the run."""
        return []

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

    def _left(self, count: int) -> int:
        """How many of so many questions may still be asked."""
        return count if self.limit is None else min(count, self.limit - self._total)

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
            entry = self._place(decision, find("image", decision.image, rows))
            if entry is not None:
                self._asked.setdefault(decision.id, []).append((entry, decision))
        for decision in in_force(self.log.decisions):
            self._take_up(self._place(decision, rows[decision.image]), decision)

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

    def _take_up(self, entry: int | None, decision: Decision) -> None:
        """Let a line count."""
        if not self._standing or self._standing[-1][0][1].id != decision.id:
            self._standing.append([])
            self._total += decision.asks == self.asks
        self._standing[-1].append((entry, decision))
        if entry is not None:
            self._count(entry, decision, 1)
            self._set(entry, decision.new)

    def _take_back(self) -> None:
        """Let the last line count no longer."""
        entry, undone = self._standing[-1].pop()
        if not self._standing[-1]:
            self._standing.pop()
            self._total -= 1
        assert entry is not None
        self._count(entry, undone, -1)
        self._set(entry, undone.old)
        self._open_again(entry)

    def _count(self, entry: int, decision: Decision, change: int) -> None:
        self._answered[entry] += change
        if decision.asks == self.asks:
            self._counts[decision.action] += change

    def _once_more(self, undone: list[tuple[int, Decision]]) -> dict[str, Any]:
        """The question whose answer was taken back."""
        entry, decision = undone[0]
        return self._question(entry, decision.order)

    def _kinds(self) -> dict[str, str]:
        """Which answers there are, as the page names them, and their actions."""
        raise NotImplementedError

    def _place(self, decision: Decision, row: int) -> int | None:
        """The number of the label that it decides; None for one that we do not know."""
        raise NotImplementedError

    def _names(self, entry: int) -> tuple[str, str]:
        """Image and class of a label."""
        raise NotImplementedError

    def _get(self, entry: int) -> int:
        """What is known of a label."""
        raise NotImplementedError

    def _set(self, entry: int, value: int) -> None:
        """Know from now on what was answered."""
        raise NotImplementedError

    def _open_again(self, entry: int) -> None:
        """Ask again what was taken back."""

    def _question(self, entry: int, order: str) -> dict[str, Any]:
        """One question, with everything that helps to answer it."""
        raise NotImplementedError


def _is_same(saved: tuple[int, Decision], said: Said) -> bool:
    """Whether a saved line says the same about the same label."""
    (entry, decision), (other, action, new, _) = saved, said
    return (entry, decision.action) == (other, action) and (action == "skip" or decision.new == new)
