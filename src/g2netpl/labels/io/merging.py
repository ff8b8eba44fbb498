"""Several label files as one table: all their images, all their classes, all that is known.

A class that a file does not have is unobserved for its images, whatever the file says about labels
that it does not name. What two files say about an image is joined: unobserved gives way to
observed. If one says 1 and another 0 they contradict each other, and the user says what counts.
"""

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd

from g2netpl.labels.io.groups import Groups
from g2netpl.labels.io.issues import MOST_ISSUES, Issue, Issues, LabelFileError
from g2netpl.labels.io.options import Contradictions
from g2netpl.labels.table import POSITIVE, UNOBSERVED, LabelTable, check_size
from g2netpl.utils.errors import counted

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
        cells, known = np.ix_(row, column), table.values != UNOBSERVED
        before = labels[cells]
        at, which = np.nonzero(known & (before != UNOBSERVED) & (before != table.values))
        clashing.update(zip(row[at].tolist(), column[which].tolist(), strict=True))
        labels[cells] = np.where(known, table.values, before)
    notes = [f"{file}: {note}" for file, table in tables.items() for note in table.notes]
    shared = " and ".join(
        f"{(np.bincount(np.concatenate(places)) > 1).sum():,} of {len(names):,} {what}"
        for what, names, places in (("images", images, rows), ("classes", classes, columns))
    )
    notes.append(f"{len(parts)} label files joined: {shared} are in more than one")
    if clashing:
        some = [(images[row], classes[column]) for row, column in sorted(clashing)[:MOST_ISSUES]]
        issues = _contradictions(tables, some)
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


def _contradictions(
    tables: Mapping[str, LabelTable], clashes: Sequence[tuple[str, str]]
) -> list[Issue]:
    """Each contradiction, at the later of the first files that say 1 and 0."""
    row_of = {file: {name: at for at, name in enumerate(t.images)} for file, t in tables.items()}
    issues = []
    for image, name in clashes:
        files = {0: "", 1: ""}  # the first that says so
        for file, table in tables.items():
            if image in row_of[file] and name in table.classes:
                label = int(table.values[row_of[file][image], table.classes.index(name)])
                files[label] = files.get(label) or file
        here = max(files[0], files[1], key=list(tables).index)
        is_positive = here == files[POSITIVE]
        words = ("positive", "negative") if is_positive else ("negative", "positive")
        message = f"image {image!r}, class {name!r}: {words[0]} here, {words[1]} in "
        issues.append(Issue(here, "contradiction", f"{message}{files[0 if is_positive else 1]}"))
    return issues
