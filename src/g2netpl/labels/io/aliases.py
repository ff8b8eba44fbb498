"""Other names of classes: a text with lines such as `automobile = car`, and tables read by it."""

from collections.abc import Iterable, Mapping
from pathlib import Path

from g2netpl.labels.io.issues import Issues
from g2netpl.labels.io.options import class_problem
from g2netpl.labels.io.text import numbered_lines
from g2netpl.labels.names import normalize_name
from g2netpl.labels.table import LabelTable
from g2netpl.utils.errors import InputError, closest

_FORM = "'other name = class'"


def read_aliases(path: str | Path) -> dict[str, str]:
    """The class of every other name. Lines that begin with # are comments."""
    issues = Issues()
    classes: dict[str, str] = {}
    lines: dict[str, int] = {}
    for line, text in numbered_lines(Path(path), issues):
        if text.startswith("#"):
            continue
        name, _, name_of = (normalize_name(part.strip()) for part in text.partition("="))
        problem = class_problem(name) or class_problem(name_of)
        if text.count("=") != 1 or not name or not name_of:
            problem = f"expected {_FORM}, got {text!r:.80}"
        elif name == name_of:
            problem = f"{name!r} is named as another name of itself"
        elif name in lines:
            problem = f"{name!r} is another name already in line {lines[name]}; keep one of the two"
        if problem is None:
            classes[name], lines[name] = name_of, line
        else:
            issues.add(f"{path}:{line}", "alias", problem)
    for name, name_of in classes.items():
        if name_of in classes:
            message = f"{name_of!r} is itself another name of {classes[name_of]!r}"
            message += f" (line {lines[name_of]}); name that class here"
            issues.add(f"{path}:{lines[name]}", "alias", message)
    issues.raise_any()
    if not classes:
        raise InputError(f"{path}: expected {_FORM}, one per line; the file is empty")
    return classes


def renamed(table: LabelTable, aliases: Mapping[str, str]) -> LabelTable:
    """The table with one class for all its names, at the place of the first.

    If the file knows an image under two names, it is positive if one of them is.
    """
    if not aliases:
        return table
    names = [aliases.get(name, name) for name in table.classes]
    place = {name: number for number, name in enumerate(dict.fromkeys(names))}
    return table.with_classes(list(place), [place[name] for name in names])


def with_aliases(
    classes: tuple[str, ...] | None, aliases: Mapping[str, str]
) -> tuple[str, ...] | None:
    """The classes that there may be, and their other names."""
    if classes is None:
        return None
    others = [name for name, name_of in aliases.items() if name_of in classes]
    return (*classes, *(name for name in others if name not in classes))


def unused_note(aliases: Mapping[str, str], classes: Iterable[str]) -> list[str]:
    """A note on other names that none of the classes has, which may be misspelt."""
    there = set(classes)
    unused = [name for name in aliases if name not in there]
    if not unused:
        return []
    near = closest(unused[0], there)
    hint = "" if near is None else f"; did you mean {near!r}?"
    count = f"{len(unused):,} of the {len(aliases):,} names in --aliases"
    return [f"no class here is called {unused[0]!r} ({count}){hint}"]
