"""Other names of classes: a text with lines such as `automobile = car`, and tables read by it."""

from collections.abc import Iterable, Mapping
from pathlib import Path

from g2netpl.base.errors import InputError, closest
from g2netpl.labels.formats.problems import Problems
from g2netpl.labels.formats.reading import class_problem
from g2netpl.labels.formats.text import numbered_lines
from g2netpl.labels.spelling import composed
from g2netpl.labels.table import LabelTable

_FORM = "'other name = class'"


def read_aliases(path: str | Path) -> dict[str, str]:
    """The class of every other name. Lines that begin with # are comments."""
    problems = Problems()
    classes: dict[str, str] = {}
    lines: dict[str, int] = {}
    for line, text in numbered_lines(Path(path), problems):
        if text.startswith("#"):
            continue
        name, _, name_of = (part.strip() for part in text.partition("="))
        before = lines.get(composed(name))
        problem = _problem(text, name, name_of)
        if problem is None and before is not None:
            problem = f"{name!r} is another name already in line {before}; keep one of the two"
        if problem is not None:
            problems.add(f"{path}:{line}", "alias", problem)
            continue
        classes[composed(name)], lines[composed(name)] = name_of, line
    for name, name_of in classes.items():
        if composed(name_of) in classes:
            what = f"{name_of!r} is itself another name of {classes[composed(name_of)]!r}"
            what += f" (line {lines[composed(name_of)]}); name that class here"
            problems.add(f"{path}:{lines[name]}", "alias", what)
    problems.raise_any()
    if not classes:
        raise InputError(f"{path}: expected {_FORM}, one per line; the file is empty")
    return classes


def _problem(text: str, name: str, name_of: str) -> str | None:
    if text.count("=") != 1 or not name or not name_of:
        return f"expected {_FORM}, got {text!r:.80}"
    if composed(name) == composed(name_of):
        return f"{name!r} is named as another name of itself"
    return class_problem(name) or class_problem(name_of)


def renamed(table: LabelTable, aliases: Mapping[str, str]) -> LabelTable:
    """The table with one class for all its names, where the first of them stood.

    Where the file knows an image under two names, it is positive if one of them is.
    """
    if not aliases:
        return table
    names = [aliases.get(composed(name), name) for name in table.classes]
    first: dict[str, str] = {}
    for name in names:
        first.setdefault(composed(name), name)
    place = {look: number for number, look in enumerate(first)}
    return table.with_classes(list(first.values()), [place[composed(name)] for name in names])


def with_aliases(
    classes: tuple[str, ...] | None, aliases: Mapping[str, str]
) -> tuple[str, ...] | None:
    """The classes that there may be, and their other names."""
    if classes is None:
        return None
    looks = {composed(name) for name in classes}
    others = [name for name, name_of in aliases.items() if composed(name_of) in looks]
    return (*classes, *(name for name in others if name not in looks))


def unused_note(aliases: Mapping[str, str], classes: Iterable[str]) -> list[str]:
    """A note on other names that none of the classes has, which may be misspelt."""
    there = {composed(name): name for name in classes}
    unused = [name for name in aliases if name not in there]
    if not unused:
        return []
    near = closest(unused[0], there.values())
    hint = "" if near is None else f"; did you mean {near!r}?"
    count = f"{len(unused):,} of the {len(aliases):,} names in --aliases"
    return [f"no class here is called {unused[0]!r} ({count}){hint}"]
