"""Images that are listed twice, and wide tables, whose rows may be so.

Rows of an image that say the same are one; others are a mistake. With `--duplicates unite` they are
put together: known is what any of them knows, and where two contradict, it is a mistake.
"""

from collections.abc import Callable, Sequence

import numpy as np

from g2netpl.labels.formats.columns import MINUS_ONE
from g2netpl.labels.formats.groups import Groups
from g2netpl.labels.formats.problems import Problems
from g2netpl.labels.formats.reading import Reading, in_class_order
from g2netpl.labels.table import (
    NEGATIVE,
    UNOBSERVED,
    LabelMatrix,
    LabelTable,
    repeated,
)

At = Callable[[int], str]  # where a row stands, in words


def wide_table(
    images: Sequence[str],
    classes: Sequence[str],
    values: LabelMatrix,
    at: At,
    groups: Groups,
    reading: Reading,
    where: str,
    notes: Sequence[str] = (),
) -> LabelTable:
    """A table of a column per class as the reader was told to read it; mistakes end it here.

    Those who said what is absent are told that an empty cell is unknown all the same.
    """
    problems, unite = groups.problems, reading.duplicates == "unite"
    if reading.minus_one is None:
        _ask_about_minus_one(classes, values, at, problems)
    values = with_minus_one(values, reading)
    if unite:
        values, dropped = _united(images, classes, values, at, problems)
    else:
        dropped = dropped_twins(images, values, at, problems)
    problems.raise_any()
    if dropped:
        kept = np.delete(np.arange(len(images)), dropped)
        images, values = [images[row] for row in kept.tolist()], values[kept]
    told = (*notes, *(united_note if unite else twins_note)(len(dropped)))
    table = groups.on(LabelTable(images, classes, values, notes=told))
    table = in_class_order(table, reading, where)
    if reading.absent != "negative" or table.is_complete:
        return table
    note = "--absent negative has no effect on a wide table: an empty cell means unknown"
    return table.with_notes((*table.notes, note))


def _ask_about_minus_one(
    classes: Sequence[str], values: LabelMatrix, at: At, problems: Problems
) -> None:
    """Ask what -1 means where no 0 shows how negatives are written, as in a table of 1 and -1."""
    if values.min(initial=0) != MINUS_ONE or (values == NEGATIVE).any():
        return
    row, column = divmod(int(values.argmin()), len(classes))
    what = f"class {classes[column]!r} is -1, and no cell is 0; give --minus-one negative if -1 "
    what += "means negative, or --minus-one unobserved if it means unknown"
    problems.add(at(row), "meaning of -1", what)


def with_minus_one(values: LabelMatrix, reading: Reading) -> LabelMatrix:
    """The labels, with -1 as the reader was told to take it, or else unobserved."""
    values[values == MINUS_ONE] = NEGATIVE if reading.minus_one == "negative" else UNOBSERVED
    return values


def dropped_twins(
    images: Sequence[str], labels: LabelMatrix, at: At, problems: Problems
) -> list[int]:
    """The rows of images that were listed before; those that say something else are mistakes."""
    twins = repeated(images)
    pairs = np.array(twins, dtype=np.int64).reshape(-1, 2)
    for row, first in pairs[(labels[pairs[:, 0]] != labels[pairs[:, 1]]).any(axis=1)].tolist():
        what = f"image {images[row]!r} is listed already ({at(first)}) with other labels; put them "
        what += "all in one place, or --duplicates unite puts its rows together"
        problems.add(at(row), "image listed twice", what)
    return [row for row, _ in twins]


def _united(
    images: Sequence[str],
    classes: Sequence[str],
    values: LabelMatrix,
    at: At,
    problems: Problems,
) -> tuple[LabelMatrix, list[int]]:
    """The labels with all that is known of an image in its first row, and the other rows."""
    twins, united = repeated(images), values.copy()
    for row, first in twins:
        known = values[row] != UNOBSERVED
        clash = known & (united[first] == 1 - values[row])
        for column in np.flatnonzero(clash).tolist():
            which = f"image {images[row]!r}, class {classes[column]!r}"
            problems.add(at(row), "contradiction", f"{which}: another row says the opposite")
        united[first, known] = values[row, known]
    return united, [row for row, _ in twins]


def twins_note(dropped: int) -> list[str]:
    """A note on rows that say the same as an earlier one."""
    rows = "row was" if dropped == 1 else "rows were"
    return [f"{dropped:,} {rows} listed twice, and dropped"] if dropped else []


def united_note(rows: int) -> list[str]:
    """A note on rows of images that were listed before."""
    more = "row of an image" if rows == 1 else "rows of images"
    return [f"{rows:,} {more} listed before, and united with it"] if rows else []
