"""Label tables from what files say: row by row, or several tables as one.

Rows of one image are united. What any row knows about an image counts. A label that one row has
as positive and another as negative is an issue.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from g2netpl.labels.io.issues import MOST_ISSUES, Issue, Issues, LabelFileError
from g2netpl.labels.io.options import (
    Contradictions,
    class_places,
    class_problem,
    unknown_class,
)
from g2netpl.labels.names import normalize_name, plain_name
from g2netpl.labels.table import (
    NEGATIVE,
    POSITIVE,
    UNOBSERVED,
    IndexArray,
    LabelMatrix,
    LabelTable,
    check_size,
    per_image,
)
from g2netpl.utils.errors import InputError, counted, listed

Where = Callable[[int], str]  # the place of a row, in words


def long_table(
    images: Sequence[str],
    labels: pd.DataFrame | Iterable[tuple[int, str, int]],
    where: Where,
    issues: Issues,
    classes: Sequence[str] | None,
    absent: int,
    notes: Sequence[str] = (),
) -> LabelTable:
    """The table of a file that names labels; raises its issues.

    `images` are plain names, one per row of the file; a label has a row, the name of a class and a
    sign. The table has the given classes in their order, or else those that it names, sorted.
    """
    issues.add_names(images, where)
    labels = pd.DataFrame(labels, columns=["row", "name", "sign"])
    row = labels["row"].to_numpy(np.int64)
    codes, unique = pd.factorize(labels["name"])
    names = [normalize_name(str(name)) for name in unique]
    problems = [class_problem(name) for name in names]
    valid = [name for name, problem in zip(names, problems, strict=True) if problem is None]
    known = sorted({*valid}) if classes is None else classes
    places = class_places(names, known)
    wrong = [code for code, place in enumerate(places) if place < 0]
    for count, code in enumerate(wrong):
        rows = row[codes == code]
        message = problems[code] or unknown_class(names[code], known, count)
        message += f", {len(rows):,} times" if len(rows) > 1 else ""
        kind = "class name" if problems[code] else "unknown class"
        issues.add(where(int(rows.min())), kind, message)
    if not known:
        issues.raise_any()
        raise InputError("no label at all; expected at least one image with a class")
    column = np.array([*places, -1])[codes]
    is_known = column >= 0
    names = pd.factorize(np.asarray(images, dtype=object))
    cells = row[is_known], column[is_known], labels["sign"].to_numpy()[is_known]
    values = _united(names, known, cells, where, issues)
    issues.raise_any()
    values[values == UNOBSERVED] = absent
    return LabelTable(names[1].tolist(), known, values, notes)


def wide_table(
    images: Sequence[str],
    classes: Sequence[str],
    values: LabelMatrix,
    where: Where,
    issues: Issues,
    notes: Sequence[str] = (),
) -> LabelTable:
    """The table of a file with a column per class; raises its issues."""
    issues.add_names(images, where)
    names = pd.factorize(np.asarray(images, dtype=object))
    if len(names[1]) < len(images):
        rows, columns = np.nonzero(values != UNOBSERVED)
        values = _united(names, classes, (rows, columns, values[rows, columns]), where, issues)
        notes = [*notes, *united_note(len(images) - len(names[1]))]
    issues.sort(key=lambda issue: int(issue.row or 0))
    issues.raise_any()
    return LabelTable(names[1].tolist(), classes, values, notes)


def _united(
    names: tuple[IndexArray, npt.NDArray[np.object_]],
    classes: Sequence[str],
    cells: tuple[IndexArray, IndexArray, npt.NDArray[Any]],
    where: Where,
    issues: Issues,
) -> LabelMatrix:
    """What all rows say about each image; a label with both signs is positive, and an issue.

    `names` are the number of each row's image and the images, `cells` rows, columns and labels.
    """
    (numbers, images), (rows, columns, signs) = names, cells
    check_size(len(images), len(classes))
    values = np.full((len(images), len(classes)), UNOBSERVED, dtype=np.int8)
    for sign in (NEGATIVE, POSITIVE):
        values[numbers[rows[signs == sign]], columns[signs == sign]] = sign
    clash = (signs == NEGATIVE) & (values[numbers[rows], columns] == POSITIVE)
    for row, column in dict.fromkeys(map(tuple, np.column_stack([rows, columns])[clash].tolist())):
        image, name = images[numbers[row]], classes[column]
        message = f"image {image!r}, class {name!r}: negative here, positive elsewhere in the file"
        issues.add(where(row), "contradiction", message, name)
    return values


def united_note(rows: int) -> list[str]:
    """A note on rows of images that were listed before."""
    return [f"merged {counted(rows, 'row')} with an earlier row of the same image"] if rows else []


def group_of(
    images: Iterable[str], groups: Iterable[str], where: Where, issues: Issues
) -> dict[str, str]:
    """The group of each image, by its name in NFC; an empty name is none."""
    found: dict[str, str] = {}
    for row, (image, group) in enumerate(zip(images, groups, strict=True)):
        if group.strip():
            before = found.setdefault(normalize_name(plain_name(image)), group.strip())
            if before != group.strip():
                message = f"image {image!r} is in group {before!r} already; put it into one only"
                issues.add(where(row), "group", f"{message}, got {group.strip()!r}")
    return found


def with_groups_of(table: LabelTable, groups: Mapping[str, str]) -> LabelTable:
    """The table with the groups of its images, by their names in NFC, if there are any."""
    if not groups:
        return table
    return table.with_groups([groups.get(normalize_name(name), "") for name in table.images])


def by_folder(images: Iterable[str]) -> dict[str, str]:
    """The images of a folder as a group; those in no folder have none."""
    return {normalize_name(name): folder for name in images if (folder := name.rpartition("/")[0])}


# several files

_CLASH_HINT = "correct one of the files, or use --set contradictions=unknown or last"


def merge(tables: Mapping[str, LabelTable], rule: Contradictions = "reject") -> LabelTable:
    """One table of those of all files: all their images, all their classes, all that is known.

    A class that a file does not have is unobserved for its images. What two files say about an
    image is joined: unobserved gives way to observed. Where one says 1 and another 0, the `rule`
    of the user counts.
    """
    if len(tables) == 1:
        return next(iter(tables.values()))
    images = pd.Index([name for table in tables.values() for name in table.images])
    classes = pd.Index([name for table in tables.values() for name in table.classes])
    shared = " and ".join(
        f"{names[names.duplicated()].nunique():,} of {names.nunique():,} {what}"
        for what, names in (("images", images), ("classes", classes))
    )
    images, classes = images.unique(), classes.unique()
    check_size(len(images), len(classes))
    labels = np.full((len(images), len(classes)), UNOBSERVED, dtype=np.int8)
    disputed, said_by = np.zeros(labels.shape, dtype=bool), np.zeros(labels.shape, dtype=np.int16)
    issues, words, files = list[Issue](), ("negative", "positive"), list(tables)
    for number, (file, table) in enumerate(tables.items()):
        rows, columns = images.get_indexer(table.images), classes.get_indexer(table.classes)
        cells, known = np.ix_(rows, columns), table.values != UNOBSERVED
        clash = known & (labels[cells] != UNOBSERVED) & (labels[cells] != table.values)
        for row, column in np.argwhere(clash & ~disputed[cells])[:MOST_ISSUES].tolist():
            label = table.values[row, column]
            message = f"image {table.images[row]!r}, class {table.classes[column]!r}: "
            other = files[said_by[rows[row], columns[column]]]
            message += f"{words[label]} here, {words[1 - label]} in {other}"
            issues.append(Issue(file, "contradiction", message))
        disputed[cells] |= clash
        labels[cells] = np.where(known, table.values, labels[cells])
        said_by[cells] = np.where(known, number, said_by[cells])
    notes = [f"{file}: {note}" for file, table in tables.items() for note in table.notes]
    notes.append(f"{len(tables)} label files joined: {shared} are in more than one")
    if issues:
        if rule == "reject":
            raise LabelFileError(issues, _CLASH_HINT)
        if rule == "unknown":
            labels[disputed] = UNOBSERVED
        taken = "taken as unknown" if rule == "unknown" else "the file named last counts"
        count = counted(int(disputed.sum()), "contradiction")
        notes.append(f"{count}, {taken}; the first: {issues[0].where}: {issues[0].message}")
    grouped = [(file, table) for file, table in tables.items() if table.groups]
    at_file, found = [file for file, table in grouped for _ in table.images], Issues()
    named = [name for _, table in grouped for name in table.images]
    groups = [group for _, table in grouped for group in table.groups or ()]
    together = group_of(named, groups, at_file.__getitem__, found)
    found.raise_any()
    return with_groups_of(LabelTable(images.tolist(), classes.tolist(), labels, notes), together)


# one class per image


def complete_single_labels(table: LabelTable, where: str | Path = "labels") -> LabelTable:
    """The table with all that one class per image implies; contradictions are issues.

    A photo with the name of its species says that all others are absent. If all classes but one
    are known to be absent, that one is positive.
    """
    values, issues, names = table.values.copy(), Issues(), np.array(table.classes, dtype=object)
    positives, negatives = (per_image(values, sign) for sign in (POSITIVE, NEGATIVE))
    for row in np.flatnonzero((positives > 1) | (negatives == values.shape[1])).tolist():
        found = list(map(repr, names[values[row] == POSITIVE]))
        has = f"has {len(found)} positives, {listed(found, 3)}" if found else "lacks all classes"
        message = f"image {table.images[row]!r} {has}; expected one class with --single-label: "
        message += "correct it or leave out --single-label"
        issues.add(str(where), "one class per image", message)
    issues.raise_any()
    lasts = np.flatnonzero((positives == 0) & (negatives == values.shape[1] - 1))
    values[lasts, (values[lasts] == UNOBSERVED).argmax(axis=1)] = POSITIVE
    values[(values == UNOBSERVED) & (positives == 1)[:, None]] = NEGATIVE
    return table.with_values(values)


def apply_answers(values: LabelMatrix, answers: Mapping[int, Mapping[int, int]]) -> LabelMatrix:
    """Labels (N, L) after people answered about some classes of some images.

    The class that somebody confirmed is the one; if the one was denied, the others are open.
    """
    values = values.copy()
    for row, given in answers.items():
        yes = [column for column, answer in given.items() if answer == POSITIVE]
        if yes:
            values[row] = NEGATIVE
            values[row, yes[-1]] = POSITIVE
        elif (values[row] == NEGATIVE).all():
            values[row] = UNOBSERVED
            values[row, list(given)] = NEGATIVE
    return values
