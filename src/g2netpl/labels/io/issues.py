"""What is wrong in a label file, and where.

A reader continues after an issue, so that `g2netpl check` reports all of them at once. The text of
a `LabelFileError` is the first one, in one line.
"""

import re
from collections.abc import Callable, Sequence
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
    """A label file with issues; `hint` says what to do if that is not clear from the issues."""

    def __init__(self, issues: Sequence[Issue], hint: str = "") -> None:
        first, more = issues[0], len(issues) - 1
        rest = f" (and {counted(more, 'more problem')}: g2netpl check lists them)" if more else ""
        super().__init__(f"{first.where}: {first.message}{rest}{'; ' if hint else ''}{hint}")
        self.issues, self.hint = tuple(issues), hint


class Issues(list[Issue]):
    """The issues so far."""

    def add(self, where: str, kind: str, message: str, column: str = "") -> None:
        """Add one; the reading ends at a hundred thousand."""
        self.append(Issue(where, kind, message, column))
        if len(self) >= MOST_ISSUES:
            self.raise_any()

    def add_names(self, names: Sequence[str], where: Callable[[int], str]) -> None:
        """Add what is wrong with image names."""
        for row, problem in odd_names(names).items():
            self.add(where(row), "image name", f"image {names[row]!r}: {problem}")

    def raise_any(self) -> None:
        """Stop here if there was an issue."""
        if self:
            raise LabelFileError(self)

    def stop(self, where: str, kind: str, message: str) -> NoReturn:
        """Add an issue after which nothing can be read."""
        self.append(Issue(where, kind, message))
        raise LabelFileError(self)
