"""Images that are listed twice, and tables with a column per class, whose rows may be repeated.

Rows of an image with the same labels are one; others are an issue. `--duplicates unite` joins them:
known is what any of them knows, and a contradiction is an issue.
"""

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt
import pandas as pd

from g2netpl.labels.io.groups import Groups
from g2netpl.labels.io.issues import Issues
from g2netpl.labels.io.options import ReadOptions, in_class_order
from g2netpl.labels.table import NEGATIVE, UNOBSERVED, LabelMatrix, LabelTable, check_size
from g2netpl.utils.errors import counted

MINUS_ONE = -2  # a cell of -1, until it is known whether that means negative or unobserved
Where = Callable[[int], str]  # the place of a row, in words


def wide_table(
    images: Sequence[str],
    classes: Sequence[str],
    values: LabelMatrix,
    where: Where,
    groups: Groups,
    options: ReadOptions,
    header: str,
    notes: Sequence[str] = (),
) -> LabelTable:
    """The table of a file with a column per class; raises its issues."""
    issues, unite = groups.issues, options.duplicates == "unite"
    check_size(len(images), len(classes))
    is_minus_one = values == MINUS_ONE
    if options.minus_one is None and is_minus_one.any() and not (values == NEGATIVE).any():
        row, column = divmod(int(is_minus_one.argmax()), len(classes))
        message = f"class {classes[column]!r} is -1, and no cell is 0; give --minus-one negative "
        message += "if -1 means negative, or --minus-one unobserved if it means unknown"
        issues.add(where(row), "meaning of -1", message, classes[column])
    values[is_minus_one] = NEGATIVE if options.minus_one == "negative" else UNOBSERVED
    if unite:
        values, dropped = _united(images, classes, values, where, issues)
    else:
        dropped = dropped_duplicates(images, values, where, issues)
    issues.raise_any()
    if len(dropped):
        kept = np.setdiff1d(np.arange(len(images)), dropped)
        images, values = [images[row] for row in kept.tolist()], values[kept]
    more = (united_note if unite else duplicates_note)(len(dropped))
    table = groups.on(LabelTable(images, classes, values, notes=(*notes, *more)))
    table = in_class_order(table, options, header)
    if options.absent != "negative" or table.is_complete:
        return table
    note = "--absent negative has no effect on a wide table: an empty cell means unknown"
    return table.with_notes((*table.notes, note))


def repeated_rows(images: Sequence[str]) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """The rows of images that were listed before, and the first row of each of these."""
    if len(set(images)) == len(images):
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    names = pd.Series(images, dtype=object)
    again = np.flatnonzero(names.duplicated().to_numpy())
    first: dict[str, int] = {}
    for row in np.flatnonzero(names.duplicated(keep=False).to_numpy()).tolist():
        first.setdefault(images[row], row)
    return again, np.array([first[images[row]] for row in again.tolist()], dtype=np.int64)


def dropped_duplicates(
    images: Sequence[str], labels: LabelMatrix, where: Where, issues: Issues
) -> npt.NDArray[np.int64]:
    """The rows of images that were listed before; those with other labels are issues."""
    rows, first = repeated_rows(images)
    for at in np.flatnonzero((labels[rows] != labels[first]).any(axis=1)).tolist():
        row = int(rows[at])
        message = f"image {images[row]!r} is listed already ({where(int(first[at]))}) with other "
        message += "labels; put them all in one place, or --duplicates unite puts its rows together"
        issues.add(where(row), "image listed twice", message)
    return rows


def _united(
    images: Sequence[str], classes: Sequence[str], values: LabelMatrix, where: Where, issues: Issues
) -> tuple[LabelMatrix, npt.NDArray[np.int64]]:
    """The labels with all that is known of an image in its first row, and the other rows."""
    rows, first = repeated_rows(images)
    united = values.copy()
    for row, to in zip(rows.tolist(), first.tolist(), strict=True):
        known = values[row] != UNOBSERVED
        for column in np.flatnonzero(known & (united[to] == 1 - values[row])).tolist():
            which = f"image {images[row]!r}, class {classes[column]!r}"
            message = f"{which}: another row says the opposite"
            issues.add(where(row), "contradiction", message, classes[column])
        united[to, known] = values[row, known]
    return united, rows


def duplicates_note(dropped: int) -> list[str]:
    """A note on rows that repeat an earlier one."""
    return [f"dropped {counted(dropped, 'row')} listed twice"] if dropped else []


def united_note(rows: int) -> list[str]:
    """A note on rows of images that were listed before."""
    return [f"united {counted(rows, 'row')} with an earlier row of the same image"] if rows else []
