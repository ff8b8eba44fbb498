"""One class per image: its name says everything, and a second name contradicts the first.

Who names the species of a photo has said of all others that they are not there: the labels of a
named image are complete. Where all classes but one are known not to be there, that one is.
"""

import re
from collections.abc import Iterable, Mapping
from pathlib import Path, PurePosixPath

import numpy as np

from g2netpl.labels.formats.problems import Problems
from g2netpl.labels.formats.text import numbered_lines
from g2netpl.labels.table import (
    NEGATIVE,
    POSITIVE,
    UNOBSERVED,
    LabelMatrix,
    LabelTable,
    per_class,
    per_image,
)

HINT = (
    "every labelled image has exactly one positive; where each shows one class alone, as a photo "
    "of one species does, say --one-of: then all other classes are known not to be there"
)
_ENOUGH = 20  # labelled images from which on that is no chance
_TOLD = 20  # mistakes whose lines are looked for


def looks_so(labels: LabelMatrix) -> bool:
    """Whether every labelled image has one positive, and no other image is said to lack it."""
    positives = per_image(labels, POSITIVE)
    named = int((positives > 0).sum())
    return (
        named >= _ENOUGH
        and positives.max() == 1
        and (per_class(labels, POSITIVE) > 0).sum() >= 2
        and named == (per_image(labels) > 0).sum()
    )


def by_one(table: LabelTable, where: str | Path = "labels") -> LabelTable:
    """The table with all that one class per image tells; images that contradict it are mistakes."""
    values = table.values.copy()
    known = np.array([(values == sign).sum(axis=1) for sign in (POSITIVE, NEGATIVE)])
    wrong = np.flatnonzero((known[0] > 1) | (known[1] == values.shape[1]))
    if len(wrong):
        _refuse(table, wrong.tolist(), where)
    lasts = np.flatnonzero((known[0] == 0) & (known[1] == values.shape[1] - 1))
    values[lasts, (values[lasts] == UNOBSERVED).argmax(axis=1)] = POSITIVE
    values[(values == UNOBSERVED) & (known[0] == 1)[:, None]] = NEGATIVE
    return table.with_values(values)


def answered(values: LabelMatrix, answers: Mapping[int, Mapping[int, int]]) -> LabelMatrix:
    """Labels (N, L) after people answered about some classes of some images.

    The class that somebody confirmed is the one; where the one was denied, the others are open.
    """
    values = values.copy()
    for row, said in answers.items():
        yes = [column for column, answer in said.items() if answer == POSITIVE]
        if yes:
            values[row] = NEGATIVE
            values[row, yes[-1]] = POSITIVE
        elif (values[row] == NEGATIVE).all():
            values[row] = UNOBSERVED
            values[row, list(said)] = NEGATIVE
    return values


def _refuse(table: LabelTable, rows: list[int], where: str | Path) -> None:
    problems, names, lines = Problems(), np.array(table.classes, dtype=object), _lines(where)
    for place, row in enumerate(rows):
        image, named = table.images[row], names[table.values[row] == POSITIVE]
        first = ", ".join(repr(name) for name in named[:3]) + (", …" if len(named) > 3 else "")
        what = f"has {len(named)} positives, {first}" if len(named) else "lacks all classes"
        line = _place(lines, image, named[1:2]) if place < _TOLD else ""
        problems.add(
            f"{where}{line}",
            "one class per image",
            f"image {image!r} {what}; expected one class with --one-of: correct it, or leave out "
            "--one-of",
        )
    problems.raise_any()


def _lines(where: str | Path) -> list[tuple[int, str]]:
    """Those of a text file; of anything else none."""
    path = Path(where)
    if not path.is_file() or path.suffix.lower() not in (".csv", ".tsv", ".txt", ".jsonl"):
        return []
    return list(numbered_lines(path, Problems()))


def _place(lines: list[tuple[int, str]], image: str, labels: Iterable[str]) -> str:
    """`:12`, the first line with the image, and with these labels too if there is one."""
    stem = PurePosixPath(image).with_suffix("").as_posix()  # all that some formats name
    names = f"{re.escape(image)}|{re.escape(stem)}"
    named = re.compile(rf"(?<![\w/.-])(?:{names})(?![\w/.-])")
    found = [each for each in lines if stem in each[1] and named.search(each[1])]
    both = [each for each in found if all(label in each[1] for label in labels)]
    return f":{(both or found)[0][0]}" if found else ""
