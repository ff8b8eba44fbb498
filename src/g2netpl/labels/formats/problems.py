"""What is wrong in a file, and where.

A reader goes on after a mistake, so that all of them are told at once: `Problems` keeps them, and
`LabelFileError` carries them to `g2netpl check`. Its own text is the first one, in one line.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NoReturn

from g2netpl.base.errors import InputError
from g2netpl.base.places import is_address
from g2netpl.labels.table import name_problem

MOST_PROBLEMS = 100_000


@dataclass(frozen=True)
class Problem:
    """One mistake in a label file."""

    where: str
    kind: str
    what: str
    column: str = ""  # of a table that has a column per class


class LabelFileError(InputError):
    """A label file with mistakes: all of them in `problems`, the first one in the message.

    `hint` says what to do, if that is not clear from the mistakes.
    """

    def __init__(self, problems: Sequence[Problem], hint: str = "") -> None:
        first, more = problems[0], len(problems) - 1
        noun = "problem" if more == 1 else "problems"
        rest = f" (and {more:,} more {noun}: g2netpl check lists them)" if more else ""
        super().__init__(f"{first.where}: {first.what}{rest}{'; ' if hint else ''}{hint}")
        self.problems, self.hint = tuple(problems), hint


@contextmanager
def called(path: Path, name: str) -> Iterator[None]:
    """Mistakes in the copy of a file from a store are told by its address."""
    if not is_address(name):
        yield
        return
    try:
        yield
    except LabelFileError as mistake:
        found = mistake.problems
        mine = [replace(each, where=each.where.replace(str(path), name)) for each in found]
        raise LabelFileError(mine, mistake.hint) from None
    except InputError as problem:
        raise InputError(str(problem).replace(str(path), name)) from None


class Problems:
    """The mistakes found so far."""

    def __init__(self) -> None:
        self.found: list[Problem] = []
        self._often: dict[tuple[str, str], tuple[int, int]] = {}  # its place in `found`, and times

    def add(self, where: str, kind: str, what: str, column: str = "") -> None:
        """Keep one more; beyond a hundred thousand there is no point in reading on."""
        self.found.append(Problem(where, kind, what, column))
        if len(self.found) >= MOST_PROBLEMS:
            self.raise_any()

    def add_often(self, where: str, kind: str, what: str) -> None:
        """Keep one that may come again: it is told once, at its first place, with the number."""
        place, times = self._often.get((kind, what), (len(self.found), 0))
        self._often[kind, what] = place, times + 1
        if times:
            told = f"{what}, {times + 1:,} times"
            self.found[place] = replace(self.found[place], what=told)
        else:
            self.add(where, kind, what)

    def add_name(self, where: str, name: str) -> bool:
        """Keep what stands against an image name; whether that is anything."""
        problem = name_problem(name)
        if problem is not None:
            self.add(where, "image name", f"image {name!r}: {problem}")
        return problem is not None

    @contextmanager
    def kept(self) -> Iterator[None]:
        """Inside, one entry is read: a mistake ends it, and the next one is read."""
        try:
            yield
        except LabelFileError as mistake:
            if len(mistake.problems) > 1:  # all that were found so far: too many
                raise
            for problem in mistake.problems:
                self.add(problem.where, problem.kind, problem.what)

    def raise_any(self) -> None:
        """Stop here if there was a mistake."""
        if self.found:
            raise LabelFileError(self.found)

    def stop(self, where: str, kind: str, what: str) -> NoReturn:
        """A mistake after which nothing can be read."""
        self.found.append(Problem(where, kind, what))
        raise LabelFileError(self.found)
