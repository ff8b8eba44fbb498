"""What is wrong in a label file, and where.

A reader continues after an issue, so that all of them are reported at once: `Issues` collects them,
`LabelFileError` carries them to `g2netpl check`. Its own text is the first one, in one line.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import NoReturn

from g2netpl.labels.names import odd_names
from g2netpl.utils.errors import InputError, counted

MOST_ISSUES = 100_000


@dataclass(frozen=True)
class Issue:
    """One issue: the file and its row, the column if there is one, and what is wrong."""

    where: str
    kind: str
    message: str
    column: str = ""

    @property
    def row(self) -> str:
        """The row (or other place) in the file; empty if the issue is about the whole file."""
        number = re.search(r"[: ](\d+)$", self.where)
        return number[1] if number else ""


class LabelFileError(InputError):
    """A label file with issues: all of them in `issues`, the first one in the message.

    `hint` says what to do if that is not clear from the issues.
    """

    def __init__(self, issues: Sequence[Issue], hint: str = "") -> None:
        first, more = issues[0], len(issues) - 1
        rest = f" (and {counted(more, 'more problem')}: g2netpl check lists them)" if more else ""
        super().__init__(f"{first.where}: {first.message}{rest}{'; ' if hint else ''}{hint}")
        self.issues, self.hint = tuple(issues), hint


class Issues:
    """The issues so far."""

    def __init__(self) -> None:
        self.found: list[Issue] = []

    def add(self, where: str, kind: str, message: str, column: str = "") -> None:
        """Add one; the reading ends at a hundred thousand."""
        self.found.append(Issue(where, kind, message, column))
        if len(self.found) >= MOST_ISSUES:
            self.raise_any()

    def add_names(self, names: Sequence[str], where: Callable[[int], str]) -> bool:
        """Add what is wrong with image names; whether anything is."""
        problems = odd_names(names)
        for place, problem in problems.items():
            self.add(where(place), "image name", f"image {names[place]!r}: {problem}")
        return bool(problems)

    @contextmanager
    def kept(self) -> Iterator[None]:
        """Inside, one entry is read: an issue ends it, and the next one is read."""
        try:
            yield
        except LabelFileError as error:
            if len(error.issues) > 1:  # all so far: too many
                raise
            self.found += error.issues

    def raise_any(self) -> None:
        """Stop here if there was an issue."""
        if self.found:
            raise LabelFileError(self.found)

    def stop(self, where: str, kind: str, message: str) -> NoReturn:
        """Add an issue after which nothing can be read."""
        self.found.append(Issue(where, kind, message))
        raise LabelFileError(self.found)
