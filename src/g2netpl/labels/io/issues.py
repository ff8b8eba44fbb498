"""What is wrong in a label file, and where.

A reader goes on after an issue, so that all of them are reported at once: `Issues` keeps them, and
`LabelFileError` carries them to `g2netpl check`. Its own text is the first one, in one line.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NoReturn

from g2netpl.labels.names import name_problem, odd_names
from g2netpl.utils.errors import InputError, counted
from g2netpl.utils.image_refs import is_address

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
        tail = self.where[len(self.where.rstrip("0123456789")) :]
        return tail if tail and self.where.removesuffix(tail).endswith((":", " ")) else ""


class LabelFileError(InputError):
    """A label file with issues: all of them in `issues`, the first one in the message.

    `hint` says what to do if that is not clear from the issues.
    """

    def __init__(self, issues: Sequence[Issue], hint: str = "") -> None:
        first, more = issues[0], len(issues) - 1
        rest = f" (and {counted(more, 'more problem')}: g2netpl check lists them)" if more else ""
        super().__init__(f"{first.where}: {first.message}{rest}{'; ' if hint else ''}{hint}")
        self.issues, self.hint = tuple(issues), hint


@contextmanager
def naming_source(path: Path, name: str) -> Iterator[None]:
    """Issues in the local copy of a remote file name its address."""
    if not is_address(name):
        yield
        return
    try:
        yield
    except LabelFileError as error:
        issues = [replace(each, where=each.where.replace(str(path), name)) for each in error.issues]
        raise LabelFileError(issues, error.hint) from None
    except InputError as problem:
        raise InputError(str(problem).replace(str(path), name)) from None


class Issues:
    """The issues found so far."""

    def __init__(self) -> None:
        self.found: list[Issue] = []

    def add(self, where: str, kind: str, message: str, column: str = "") -> None:
        """Keep one more; the reading ends at a hundred thousand."""
        self.found.append(Issue(where, kind, message, column))
        if len(self.found) >= MOST_ISSUES:
            self.raise_any()

    def add_name(self, where: str, name: str) -> bool:
        """Keep what is wrong with an image name; whether anything is."""
        problem = name_problem(name)
        if problem is not None:
            self.add(where, "image name", f"image {name!r}: {problem}")
        return problem is not None

    def add_names(self, names: Sequence[str], where: Callable[[int], str]) -> None:
        """The same for many names."""
        for place, problem in odd_names(names).items():
            self.add(where(place), "image name", f"image {names[place]!r}: {problem}")

    @contextmanager
    def kept(self) -> Iterator[None]:
        """Inside, one entry is read: an issue ends it, and the next one is read."""
        try:
            yield
        except LabelFileError as error:
            if len(error.issues) > 1:  # all that were found so far: too many
                raise
            self.extend(error.issues)

    def extend(self, issues: Iterable[Issue]) -> None:
        """Keep issues that were found elsewhere."""
        for each in issues:
            self.add(each.where, each.kind, each.message, each.column)

    def raise_any(self) -> None:
        """Stop here if there was an issue."""
        if self.found:
            raise LabelFileError(self.found)

    def stop(self, where: str, kind: str, message: str) -> NoReturn:
        """An issue after which nothing can be read."""
        self.found.append(Issue(where, kind, message))
        raise LabelFileError(self.found)
