"""Label tables from what a file says, row by row; rows of one image are united.

What any row knows about an image counts. A label that one row has as positive and another as
negative is an issue.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np
import numpy.typing as npt
import pandas as pd

from g2netpl.labels.io.issues import Issues
from g2netpl.labels.io.options import (
    ReadOptions,
    class_places,
    class_problem,
    in_class_order,
    unknown_class,
)
from g2netpl.labels.names import normalize_name, plain_name
from g2netpl.labels.table import (
    NEGATIVE,
    POSITIVE,
    UNOBSERVED,
    LabelMatrix,
    LabelTable,
    check_size,
)
from g2netpl.utils.errors import InputError, counted

Where = Callable[[int], str]  # the place of a row, in words
LABELS = ["row", "name", "sign"]  # columns of a frame of labels


def long_table(
    images: Sequence[str],
    labels: pd.DataFrame,
    where: Where,
    issues: Issues,
    classes: Sequence[str] | None,
    absent: int,
    notes: Sequence[str] = (),
) -> LabelTable:
    """The table of a file that names labels; raises its issues.

    `images` are plain names, one per row of the file; `labels` has the columns `row`, `name` (of a
    class) and `sign`. The table has the given classes in their order, or else those that it names,
    sorted.
    """
    issues.add_names(images, where)
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
    number, unique = pd.factorize(np.asarray(images, dtype=object))
    check_size(len(unique), len(known))
    column = np.array([*places, -1])[codes]
    values = np.full((len(unique), len(known)), UNOBSERVED, dtype=np.int8)
    signs = labels["sign"].to_numpy()
    for sign in (NEGATIVE, POSITIVE):  # a label with both signs is positive, and an issue
        chosen = (signs == sign) & (column >= 0)
        values[number[row[chosen]], column[chosen]] = sign
    negative = np.flatnonzero((signs == NEGATIVE) & (column >= 0))
    clash = negative[values[number[row[negative]], column[negative]] == POSITIVE]
    add_contradictions(issues, where, images, known, row[clash], column[clash])
    issues.raise_any()
    values[values == UNOBSERVED] = absent
    return LabelTable(unique.tolist(), known, values, notes)


def wide_table(
    images: Sequence[str],
    classes: Sequence[str],
    values: LabelMatrix,
    where: Where,
    issues: Issues,
    options: ReadOptions,
    header: str,
    notes: Sequence[str] = (),
) -> LabelTable:
    """The table of a file with a column per class; raises its issues."""
    number, unique = pd.factorize(np.asarray(images, dtype=object))
    if len(unique) < len(images):
        united = np.full((len(unique), len(classes)), UNOBSERVED, dtype=np.int8)
        np.maximum.at(united, number, values)
        clash = np.nonzero((values == NEGATIVE) & (united[number] == POSITIVE))
        add_contradictions(issues, where, images, classes, *clash)
        notes = [*notes, *united_note(len(images) - len(unique))]
        images, values = unique.tolist(), united
    issues.raise_any()
    table = in_class_order(LabelTable(images, classes, values, notes), options, header)
    if options.absent != "negative" or table.is_complete:
        return table
    note = "--absent negative has no effect on a wide table: an empty cell means unknown"
    return table.with_notes((*table.notes, note))


def add_contradictions(
    issues: Issues,
    where: Where,
    images: Sequence[str],
    classes: Sequence[str],
    rows: npt.NDArray[np.integer],
    columns: npt.NDArray[np.integer],
) -> None:
    """Labels that are negative here and positive elsewhere."""
    for row, column in dict.fromkeys(zip(rows.tolist(), columns.tolist(), strict=True)):
        name = classes[column]
        message = f"image {images[row]!r}, class {name!r}: negative here, positive elsewhere in "
        issues.add(where(row), "contradiction", f"{message}the file", name)


def united_note(rows: int) -> list[str]:
    """A note on rows of images that were listed before."""
    return [f"united {counted(rows, 'row')} with an earlier row of the same image"] if rows else []


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
