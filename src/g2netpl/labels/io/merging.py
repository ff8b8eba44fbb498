"""Several label files as one table: all their images, all their classes, all that is known.

A class that a file does not have is unobserved for its images, whatever the file says about labels
that it does not name. What two files say about an image is joined: unobserved gives way to
observed. If one says 1 and another 0 they contradict each other, and the user says what counts.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from g2netpl.labels.io.columns import image_place
from g2netpl.labels.io.frames import BOOK_ENDINGS, open_sheet
from g2netpl.labels.io.groups import Groups
from g2netpl.labels.io.issues import MOST_ISSUES, Issue, Issues, LabelFileError
from g2netpl.labels.io.options import Contradictions
from g2netpl.labels.io.text import TEXT_ENDINGS
from g2netpl.labels.names import plain_names
from g2netpl.labels.table import (
    NEGATIVE,
    POSITIVE,
    UNOBSERVED,
    LabelTable,
    check_size,
)
from g2netpl.utils.errors import InputError, counted

_HINT = "correct one of the files, or say what counts with --contradictions unknown or last"


def merge(tables: Mapping[str, LabelTable], rule: Contradictions = "refuse") -> LabelTable:
    """One table of those of all files."""
    if len(tables) == 1:
        return next(iter(tables.values()))
    parts = list(tables.values())
    images = list(dict.fromkeys(name for table in parts for name in table.images))
    classes = list(dict.fromkeys(name for table in parts for name in table.classes))
    check_size(len(images), len(classes))
    rows = [pd.Index(images).get_indexer(list(table.images)) for table in parts]
    columns = [pd.Index(classes).get_indexer(list(table.classes)) for table in parts]
    labels = np.full((len(images), len(classes)), UNOBSERVED, dtype=np.int8)
    clashing: set[tuple[int, int]] = set()
    for table, row, column in zip(parts, rows, columns, strict=True):
        cells, own = np.ix_(row, column), table.values
        before, known = labels[cells], own != UNOBSERVED
        at, which = np.nonzero(known & (before != UNOBSERVED) & (before != own))
        clashing.update(zip(row[at].tolist(), column[which].tolist(), strict=True))
        labels[cells] = np.where(known, own, before)
    notes = [f"{file}: {note}" for file, table in tables.items() for note in table.notes]
    shared = " and ".join(
        f"{(np.bincount(np.concatenate(places)) > 1).sum():,} of {len(names):,} {what}"
        for what, names, places in (("images", images, rows), ("classes", classes, columns))
    )
    notes.append(f"{len(parts)} label files joined: {shared} are in more than one")
    if clashing:
        issues = _issues(tables, images, classes, sorted(clashing))
        if rule == "refuse":
            raise LabelFileError(issues, _HINT)
        if rule == "unknown":
            labels[tuple(np.array(sorted(clashing)).T)] = UNOBSERVED
        taken = "taken as unknown" if rule == "unknown" else "the file named last counts"
        first = f"{issues[0].where}: {issues[0].message}"
        notes.append(f"{counted(len(clashing), 'contradiction')}, {taken}; the first: {first}")
    groups = Groups(Issues())
    for file, table in tables.items():
        for image, group in zip(table.images, table.groups or (), strict=False):
            groups.add(file, image, group)
    return groups.on(LabelTable(images, classes, labels, notes))


def below(table: LabelTable, way: str) -> LabelTable:
    """The table with image names relative to a folder above: `photos/1.jpg` for `1.jpg`."""
    return table.with_images([f"{way}{name}" for name in table.images]) if way else table


def _issues(
    tables: Mapping[str, LabelTable],
    images: Sequence[str],
    classes: Sequence[str],
    clashes: Sequence[tuple[int, int]],
) -> list[Issue]:
    """Each contradiction, at the later of the first files that say 1 and 0."""
    some = clashes[:MOST_ISSUES]
    lines = {file: lines_of(Path(file), {images[row] for row, _ in some}) for file in tables}
    row_of = {file: {name: at for at, name in enumerate(t.images)} for file, t in tables.items()}
    order = {file: number for number, file in enumerate(tables)}

    def place(file: str, image: str) -> str:
        line = lines[file].get(image)
        return file if line is None else f"{file}:{line}"

    def says(file: str, image: str, name: str) -> int:
        table, row = tables[file], row_of[file].get(image)
        if row is None or name not in table.classes:
            return UNOBSERVED
        return int(table.values[row, table.classes.index(name)])

    issues = []
    for row, column in some:
        image, name = images[row], classes[column]
        said = {file: says(file, image, name) for file in tables}
        yes, no = (next(f for f, s in said.items() if s == sign) for sign in (POSITIVE, NEGATIVE))
        there, here = sorted((yes, no), key=order.__getitem__)
        words = ("positive", "negative") if here == yes else ("negative", "positive")
        message = f"image {image!r}, class {name!r}: {words[0]} here, {words[1]} in "
        issues.append(Issue(place(here, image), "contradiction", message + place(there, image)))
    return issues


def lines_of(path: Path, names: set[str]) -> dict[str, int]:
    """The first line of each of these images in a table; nothing in other files."""
    if not path.is_file() or path.suffix.lower() not in (*TEXT_ENDINGS, *BOOK_ENDINGS):
        return {}
    try:
        sheet = open_sheet(path, Issues())
        place = image_place(sheet, range(sheet.width)) or 0
        cells = plain_names(sheet.load([place])[place].to_pylist())
    except InputError:  # something else under this name
        return {}
    found: dict[str, int] = {}
    for row, name in enumerate(cells):
        if name in names:
            found.setdefault(name, int(sheet.places[row]))
    return found
