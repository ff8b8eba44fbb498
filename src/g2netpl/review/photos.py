"""What is in a photo: its likely classes at a glance, to be set right and saved together.

A photo is worth what the questions about its labels are worth together (`questions`), so the one
that teaches most comes first. Shown are the classes that are known to be there, those that
`g2netpl complete` would call positive, those that the order asks about, and the next likely ones.
What is shown and off when a photo is saved is a no; of what is not shown nothing is said, unless
nothing else is there.

Somebody may add a class that the run does not know. Its labels are numbered after those of the run.
"""

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

from g2netpl.labels.formats.reading import class_problem
from g2netpl.labels.spelling import composed
from g2netpl.labels.table import NEGATIVE, POSITIVE, UNOBSERVED
from g2netpl.review.questions import ORDERS, Floats, Index
from g2netpl.review.session import Review, short
from g2netpl.runs.answers import ADDED, PHOTOS, Decision

MOST_AT_ONCE = 1000  # classes of which somebody can say that none of the others is there
_SHOWN, _FEWEST = 9, 6  # tags of a photo, as many as there are keys; that are not known yet
_ASKED = 3  # of them, at least, by their worth
_LONGEST = 100  # characters of a class that is added

Tag = int | str  # a column of the run, or the name of a class that was added


class PhotoReview(Review):
    """Which classes are in a photo; labels of a photo are decided together."""

    asks = PHOTOS

    def __init__(self, *given: Any, **more: Any) -> None:
        self._looked_at: Counter[int] = Counter()  # by row
        self._names_added: list[str] = []  # once and for all, also where it was taken back
        self._values_added: dict[int, int] = {}  # by label
        super().__init__(*given, **more)

    @property
    def added(self) -> list[str]:
        """Classes that people have added to those of the run, in this order."""
        with self._lock:
            values = self._values_added.items()
            known = {self._split(entry)[1] for entry, value in values if value != UNOBSERVED}
            return [self._class(column) for column in sorted(known)]

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
        more = {"added": self.added, "can_say_rest": self.can_say_rest, "one_of": self.one_of}
        return {**super().state(), **more}

    def save(self, id: str, row: int, on: Sequence[Tag], off: Sequence[Tag], rest: bool) -> None:
        """Save what was shown of a photo; with `rest`, every other unknown class is not there."""
        with self._lock:
            yes = [self._number(row, tag) for tag in on]
            no = [self._number(row, tag) for tag in off]
            if rest:
                shown = {*yes, *no}
                no += [entry for entry in self._unknown(row, id) if entry not in shown]
            said = [(entry, "yes") for entry in yes] + [(entry, "no") for entry in no]
            self._save(id, [self._say(entry, answer, self._order(entry)) for entry, answer in said])

    def skip(self, id: str, row: int, shown: Sequence[Tag]) -> None:
        """Say nothing of what was shown."""
        with self._lock:
            entries = [self._number(row, tag) for tag in shown]
            self._save(id, [self._say(entry, "skip", self._order(entry)) for entry in entries])

    def _number(self, row: int, tag: Tag) -> int:
        if isinstance(tag, int):
            return self._entry(row, tag)
        if tag not in self._names_added:
            self._names_added.append(tag)
        return self._entry(row, len(self.saved.classes) + self._names_added.index(tag))

    def _unknown(self, row: int, id: str) -> list[int]:
        """Labels of a photo that were unknown before this answer, those of added classes too."""
        labels = [self._number(row, tag) for tag in (*self.columns.tolist(), *self.added)]
        saved = {entry for entry, _ in self._asked.get(id, [])}
        return [entry for entry in labels if entry in saved or self._get(entry) == UNOBSERVED]

    def _order(self, entry: int) -> str:
        return ADDED if entry >= self.saved.observed.size else PHOTOS

    # Labels by number: those of the run row by row, then those of added classes one by one

    def _entry(self, row: int, column: int) -> int:
        images, classes = self.saved.observed.shape
        return super()._entry(row, column) if column < classes else column * images + row

    def _split(self, entry: int) -> tuple[int, int]:
        images, classes = self.saved.observed.shape
        if entry < images * classes:
            row, column = divmod(entry, classes)
        else:
            column, row = divmod(entry, images)
        return row, column

    def _class(self, column: int) -> str:
        return (*self.saved.classes, *self._names_added)[column]

    def _names(self, entry: int) -> tuple[str, str]:
        row, column = self._split(entry)
        return self.saved.images[row], self._class(column)

    def _place(self, decision: Decision, row: int) -> int | None:
        if decision.order == ADDED and decision.label not in self._places:
            return self._number(row, decision.label)
        return super()._place(decision, row)

    def _get(self, entry: int) -> int:
        if entry >= self.saved.observed.size:
            return self._values_added.get(entry, UNOBSERVED)
        return super()._get(entry)

    def _set(self, entry: int, value: int) -> None:
        if entry >= self.saved.observed.size:
            self._values_added[entry] = value
        else:
            super()._set(entry, value)

    # Questions: a photo has the number of its first label

    def _count(self, entry: int, decision: Decision, change: int) -> None:
        super()._count(entry, decision, change)
        if decision.asks == PHOTOS:
            self._looked_at[self._split(entry)[0]] += change

    def _is_open(self, entry: int) -> bool:
        return not self._looked_at[self._split(entry)[0]]

    def _open_again(self, entry: int) -> None:
        super()._open_again(self._entry(self._split(entry)[0], 0))

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
        row = self._split(entry)[0]
        return self._photo(row, self._worthy(row, order), {})

    def _once_more(self, undone: list[tuple[int, Decision]]) -> dict[str, Any]:
        """The photo as it was when it was saved; of a long rest that was not there, not all."""
        were = {self._split(entry)[1]: decision.old for entry, decision in reversed(undone)}
        on = [column for column, value in were.items() if value == POSITIVE]
        shown = len(were) if len(were) <= 2 * _SHOWN else max(len(on), _SHOWN)
        return self._photo(self._split(undone[0][0])[0], [*were][:shown], were)

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
        in_order += [column for column in shown if column >= len(values)]  # added ones last
        absent = [each for each in np.flatnonzero(values == NEGATIVE).tolist() if each not in shown]

        def tag(column: int) -> dict[str, Any]:
            is_new = column >= len(values)
            value = UNOBSERVED if is_new else int(values[column])
            is_open = value == UNOBSERVED and not is_new
            on = {POSITIVE: True, NEGATIVE: False}.get(were.get(column, value))
            return {
                "column": None if is_new else column,
                "name": self._class(column),
                "known": value != UNOBSERVED,
                "on": is_open and bool(present[column]) if on is None else on,
                "chance": short(chances[column]) if is_open else None,
            }

        return {
            "row": row,
            "image": self.saved.images[row],
            "tags": [tag(column) for column in (*in_order, *known)],
            "added": self.added,
            "known": self._known(row, values, absent),
        }


def new_class_problem(name: str, known: Sequence[str]) -> str | None:
    """Why a class cannot be added; None if it can."""
    if name != name.strip() or name != composed(name) or not name.isprintable():
        return "a class name: expected plain text on one line"
    if len(name) > _LONGEST:
        return f"a class name: at most {_LONGEST} characters"
    return f"class {name!r} is there already" if name in known else class_problem(name)
