"""What every kind of question about a run shares: the log of answers, undo, and what stands.

One file holds the answers of all kinds. A page takes up those to its own kind of question, and
takes back none of another.
"""

import hashlib
import os
from collections import Counter
from pathlib import Path
from threading import RLock
from typing import Any

from g2netpl.review.answers_writer import DecisionLog
from g2netpl.runs.answers import Decision, find, in_force, now
from g2netpl.runs.run import Run


class Asking:
    """Questions and answers of one run; only one may be open for a run at a time."""

    asks = ""  # the kind of its questions

    def __init__(self, folder: str | Path, limit: int | None, seed: int) -> None:
        self.folder, self.limit, self.seed = Path(folder), limit, seed
        self.run = Run.open(folder)
        self.saved = self.run.labels
        self._lock = RLock()
        self._standing: list[tuple[int | None, Decision]] = []  # None: of another kind
        self._answered: Counter[int] = Counter()
        self._counts: Counter[str] = Counter()
        self._asked: dict[str, tuple[int, str]] = {}  # what was saved, by its id

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
        """How many answers are in force, and of which kind."""
        with self._lock:
            said = {name: self._counts[action] for name, action in self._kinds().items()}
            return {"answered": self._total, **said, "limit": self.limit}

    def told(self) -> str:
        """The answers in force, by kind: `3 yes, 2 no, 1 skipped`."""
        with self._lock:
            kinds = self._kinds().items()
            return ", ".join(f"{self._counts[action]:,} {name}" for name, action in kinds)

    def undo(self, id: str) -> dict[str, Any] | None:
        """Take back the last answer in force; returns its question, None if there is none.

        What was answered to questions of another kind since then stands in the way.
        """
        with self._lock:
            if id not in self._asked:
                entry, last = self._standing[-1] if self._standing else (None, None)
                if entry is None or last is None:
                    return None
                self._save(id, entry, "undo", last.new, last.old, last.order)
            return self._question(*self._asked[id])

    @property
    def _total(self) -> int:
        return self._counts.total()

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
        rows = {name: row for row, name in enumerate(self.saved.images)}
        for decision in self.log.decisions:
            entry = self._place(decision, find("image", decision.image, rows))
            if entry is not None:
                self._asked[decision.id] = (entry, decision.order)
        for decision in in_force(self.log.decisions):
            self._take_up(self._place(decision, rows[decision.image]), decision)

    def _save(self, id: str, entry: int, action: str, old: int, new: int, order: str) -> None:
        decision = Decision(id, now(), action, *self._names(entry), old, new, order)
        self.log.append(decision)
        self._asked[id] = (entry, order)
        if action != "undo":
            self._take_up(entry, decision)
            return
        _, undone = self._standing.pop()
        self._set(entry, new)
        self._counts[undone.action] -= 1
        self._answered[entry] -= 1
        self._open_again(entry)

    def _take_up(self, entry: int | None, decision: Decision) -> None:
        """Let an answer count."""
        self._standing.append((entry, decision))
        if entry is not None:
            self._answered[entry] += 1
            self._counts[decision.action] += 1
            self._set(entry, decision.new)

    def _kinds(self) -> dict[str, str]:
        """Which answers there are, as the page names them, and their actions."""
        raise NotImplementedError

    def _place(self, decision: Decision, row: int) -> int | None:
        """The number of the question that it answers; None for one of another kind."""
        raise NotImplementedError

    def _names(self, entry: int) -> tuple[str, str]:
        """Image and class of a question."""
        raise NotImplementedError

    def _set(self, entry: int, value: int) -> None:
        """Know from now on what was answered."""
        raise NotImplementedError

    def _open_again(self, entry: int) -> None:
        """Ask again what was taken back."""

    def _question(self, entry: int, order: str) -> dict[str, Any]:
        """One question, with everything that helps to answer it."""
        raise NotImplementedError
