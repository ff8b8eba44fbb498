"""What is in a photo: its likely classes at a glance, to be set right and saved together.

A photo is worth what the questions about its labels are worth together (`questions`), so the one
that teaches most comes first. Shown are the classes that are known to be there, those that
`g2netpl complete` would call positive, those that the order asks about, and the next likely ones.
What is shown and off when a photo is saved is a no; of what is not shown nothing is said, unless
nothing else is there.
"""

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

from g2netpl.labels.table import NEGATIVE, POSITIVE, UNOBSERVED
from g2netpl.review.questions import ORDERS, Floats, Index
from g2netpl.review.session import Line, Review, short
from g2netpl.runs.answers import PHOTOS, Decision

MOST_AT_ONCE = 1000  # classes of which somebody can say that none of the others is there
_SHOWN, _FEWEST = 9, 6  # tags of a photo, as many as there are keys; that are not known yet
_ASKED = 3  # of them, at least, by their worth


class PhotoReview(Review):
    """Which classes are in a photo; labels of a photo are decided together."""

    asks = PHOTOS

    def __init__(self, *given: Any, **more: Any) -> None:
        self._looked_at: Counter[int] = Counter()  # by row
        super().__init__(*given, **more)

    @property
    def can_say_rest(self) -> bool:
        """False where there are more classes than anybody has in mind."""
        return len(self.columns) <= MOST_AT_ONCE

    @property
    def one_of(self) -> bool:
        """Whether a photo has exactly one class."""
        return self.opinions.thresholds.one_of

    def state(self) -> dict[str, Any]:
        """What the page shows around the photos."""
        return {**super().state(), "can_say_rest": self.can_say_rest, "one_of": self.one_of}

    def save(self, id: str, row: int, on: Sequence[int], off: Sequence[int], rest: bool) -> None:
        """Save what was shown of a photo; with `rest`, every other unknown class is not there."""
        with self._lock:
            yes = [self._entry(row, column) for column in on]
            no = [self._entry(row, column) for column in off]
            if rest:
                shown = {*yes, *no}
                no += [entry for entry in self._unknown(row, id) if entry not in shown]
            said = [(entry, "yes") for entry in yes] + [(entry, "no") for entry in no]
            self._save(id, [self._say(entry, answer, PHOTOS) for entry, answer in said])

    def skip(self, id: str, row: int, shown: Sequence[int]) -> None:
        """Say nothing of what was shown."""
        with self._lock:
            entries = [self._entry(row, column) for column in shown]
            self._save(id, [self._say(entry, "skip", PHOTOS) for entry in entries])

    def _unknown(self, row: int, id: str) -> list[int]:
        """Labels of a photo that were unknown before this answer."""
        labels = [self._entry(row, column) for column in self.columns.tolist()]
        saved = {entry for entry, _ in self._asked.get(id, [])}
        return [entry for entry in labels if entry in saved or self._get(entry) == UNOBSERVED]

    # Questions: a photo has the number of its first label

    def _row(self, entry: int) -> int:
        return entry // len(self.saved.classes)

    def _count(self, entry: int, decision: Decision, change: int) -> None:
        super()._count(entry, decision, change)
        if decision.asks == PHOTOS:
            self._looked_at[self._row(entry)] += change

    def _is_open(self, entry: int) -> bool:
        return not self._looked_at[self._row(entry)]

    def _open_again(self, entry: int) -> None:
        super()._open_again(self._entry(self._row(entry), 0))

    def _closed(self) -> Index:
        rows = np.array([row for row, times in self._looked_at.items() if times], dtype=np.int64)
        classes = len(self.saved.classes)
        return np.union1d(super()._closed(), rows[:, None] * classes + np.arange(classes))

    def _asked_about(self, found: Index, worth: Floats) -> Index:
        rows, places = np.unique(found // len(self.saved.classes), return_inverse=True)
        together = np.bincount(places, worth, len(rows))
        ranked: Index = rows[np.lexsort((rows, -together))] * len(self.saved.classes)
        return ranked

    def _question(self, entry: int, order: str) -> dict[str, Any]:
        row = self._row(entry)
        return self._photo(row, self._worthy(row, order), {})

    def _once_more(self, undone: list[Line]) -> dict[str, Any]:
        """The photo as it was when it was saved; of a long rest that was not there, not all."""
        classes = len(self.saved.classes)
        were = {entry % classes: decision.old for entry, decision in reversed(undone)}
        on = [column for column, value in were.items() if value == POSITIVE]
        shown = len(were) if len(were) <= 2 * _SHOWN else max(len(on), _SHOWN)
        return self._photo(self._row(undone[0][0]), [*were][:shown], were)

    def _worthy(self, row: int, order: str) -> list[int]:
        """The classes that the order asks about, by their worth."""
        how, rows = ORDERS[order], slice(row, row + 1)
        worth = np.array(how.score(self.opinions, rows, self.columns, self.seed)[0], dtype=float)
        worth /= 1 + self._positives[self.columns] if how.levels_classes else 1
        known = self.saved.observed if how.of_observed else self.values
        is_known = known[row, self.columns] != UNOBSERVED
        worth[(is_known != how.of_observed) | np.isnan(worth)] = -1
        ranked = np.argsort(-worth, kind="stable")[:_ASKED]
        return [int(self.columns[each]) for each in ranked if worth[each] >= 0]

    def _photo(self, row: int, asked: Sequence[int], were: dict[int, int]) -> dict[str, Any]:
        """A photo with its tags; `were` is what was said of them before it was taken back."""
        (chances,), (present,) = self.opinions.completed(slice(row, row + 1))
        values = self.values[row]
        likely = self.columns[np.argsort(-chances[self.columns], kind="stable")]
        known = likely[values[likely] == POSITIVE].tolist()
        present &= not (self.one_of and known)
        unknown = likely[values[likely] == UNOBSERVED]
        needed = {*unknown[present[unknown]].tolist(), *asked} - {*known}  # on, or in doubt
        places = max(_SHOWN - len(known), _FEWEST, len(needed))
        shown = [*dict.fromkeys((*needed, *unknown.tolist()))][:places]
        in_order = [column for column in likely.tolist() if column in shown]
        absent = [each for each in np.flatnonzero(values == NEGATIVE).tolist() if each not in shown]

        def tag(column: int) -> dict[str, Any]:
            value = int(values[column])
            is_open = value == UNOBSERVED
            on = {POSITIVE: True, NEGATIVE: False}.get(were.get(column, value))
            return {
                "column": column,
                "name": self.saved.classes[column],
                "known": not is_open,
                "on": is_open and bool(present[column]) if on is None else on,
                "chance": short(chances[column]) if is_open else None,
            }

        return {
            "row": row,
            "image": self.saved.images[row],
            "tags": [tag(column) for column in (*in_order, *known)],
            "known": self._known(row, values, absent),
        }
