"""Several label files as one table: all their images, all their classes, all that is known.

A class that a file does not have is unobserved for its images. What two files say about an image is
joined: unobserved gives way to observed. If one says 1 and another 0 they contradict each other,
and the user says what counts.
"""

from collections.abc import Mapping

import numpy as np
import pandas as pd

from g2netpl.labels.io.build import group_of, with_groups_of
from g2netpl.labels.io.issues import MOST_ISSUES, Issue, Issues, LabelFileError
from g2netpl.labels.io.options import Contradictions
from g2netpl.labels.table import UNOBSERVED, LabelTable, check_size
from g2netpl.utils.errors import counted

_HINT = "correct one of the files, or say what counts with --contradictions unknown or last"


def merge(tables: Mapping[str, LabelTable], rule: Contradictions = "refuse") -> LabelTable:
    """One table of those of all files."""
    if len(tables) == 1:
        return next(iter(tables.values()))
    parts, files = list(tables.values()), list(tables)
    images = list(dict.fromkeys(name for table in parts for name in table.images))
    classes = list(dict.fromkeys(name for table in parts for name in table.classes))
    check_size(len(images), len(classes))
    rows = [pd.Index(images).get_indexer(list(table.images)) for table in parts]
    columns = [pd.Index(classes).get_indexer(list(table.classes)) for table in parts]
    labels = np.full((len(images), len(classes)), UNOBSERVED, dtype=np.int8)
    said_by = np.full(labels.shape, -1, dtype=np.int16)  # the first file that knows a label
    clashes = []
    for number, (table, row, column) in enumerate(zip(parts, rows, columns, strict=True)):
        cells, known = np.ix_(row, column), table.values != UNOBSERVED
        before, first = labels[cells], said_by[cells]
        at, which = np.nonzero(known & (before != UNOBSERVED) & (before != table.values))
        here = {"row": row[at], "column": column[which], "label": table.values[at, which]}
        clashes.append(pd.DataFrame({**here, "file": number, "first": first[at, which]}))
        said_by[cells] = np.where(known & (first < 0), number, first)
        labels[cells] = np.where(known, table.values, before)
    clash = pd.concat(clashes).drop_duplicates(["row", "column"]).sort_values(["row", "column"])
    notes = [f"{file}: {note}" for file, table in tables.items() for note in table.notes]
    shared = " and ".join(
        f"{(np.bincount(np.concatenate(places)) > 1).sum():,} of {len(names):,} {what}"
        for what, names, places in (("images", images, rows), ("classes", classes, columns))
    )
    notes.append(f"{len(parts)} label files joined: {shared} are in more than one")
    if len(clash):
        issues, words = [], ("negative", "positive")
        for row, column, label, file, first in clash.head(MOST_ISSUES).to_numpy().tolist():
            message = f"image {images[row]!r}, class {classes[column]!r}: {words[label]} here, "
            message += f"{words[1 - label]} in {files[first]}"
            issues.append(Issue(files[file], "contradiction", message))
        if rule == "refuse":
            raise LabelFileError(issues, _HINT)
        if rule == "unknown":
            labels[clash["row"], clash["column"]] = UNOBSERVED
        taken = "taken as unknown" if rule == "unknown" else "the file named last counts"
        example = f"{issues[0].where}: {issues[0].message}"
        notes.append(f"{counted(len(clash), 'contradiction')}, {taken}; the first: {example}")
    found, at_file = Issues(), [file for file, table in tables.items() for _ in table.groups or ()]
    named = [name for table in parts if table.groups for name in table.images]
    groups = [name for table in parts for name in table.groups or ()]
    together = group_of(named, groups, at_file.__getitem__, found)
    found.raise_any()
    return with_groups_of(LabelTable(images, classes, labels, notes), together)
