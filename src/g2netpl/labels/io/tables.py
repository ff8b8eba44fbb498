"""Tables: a column per class (1, 0, empty is unknown), or a column of tags like `cat;dog`.

The same reader takes CSV, workbooks, Parquet and data frames. Tags that are not named are
unobserved; a column `absent` may name what is known to be absent. A column `group` names images
that must stay together in a split. `absent = negative` is for tags known to be complete.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from g2netpl.labels.io import build, columns, frames
from g2netpl.labels.io.cells import NO_TAG, commas_separate, is_broken, split_cells, tags_cell
from g2netpl.labels.io.columns import ABSENT, GROUP, Columns, is_tag_header
from g2netpl.labels.io.frames import LABEL_WORDS, MINUS_ONE, Sheet, label_of, open_sheet
from g2netpl.labels.io.issues import Issue, Issues, beginning
from g2netpl.labels.io.options import ReadOptions, check_classes, set_key, silent_classes
from g2netpl.labels.io.writing import write_columns, write_rows
from g2netpl.labels.table import NEGATIVE, POSITIVE, UNOBSERVED, LabelTable, check_size, per_class
from g2netpl.utils.errors import InputError, listed

_NO_LABEL = 9


def can_read(path: Path) -> bool:
    """By its ending; a .txt file, as Excel saves "Unicode text", by its header."""
    if path.suffix.lower() == ".txt":
        return columns.is_image_header(beginning(path).split("\t"))
    return path.is_file() and path.suffix.lower() in frames.ENDINGS


def read(path: Path, options: ReadOptions) -> LabelTable:
    """Read a table of any kind; issues name the line or row."""
    return read_sheet(open_sheet(path, Issues(), options.encoding), options)


def read_frame(frame: pd.DataFrame, options: ReadOptions) -> LabelTable:
    """Read a data frame of pandas as if it had been a file."""
    if str(frame.index.name).lower() in columns.IMAGE_HEADERS:
        frame = frame.reset_index()
    return read_sheet(frames.sheet_of_frame(frame, "data frame", Issues()), options)


def read_sheet(sheet: Sheet, options: ReadOptions) -> LabelTable:
    """The labels in a table."""
    layout = columns.find_columns(sheet, options)
    names, notes = columns.image_names(sheet, layout.image)
    groups: dict[str, str] = {}
    if layout.group is not None:
        groups = build.group_of(names, sheet.texts(layout.group), sheet.where, sheet.issues)
    read = _read_tags if layout.tags else _read_wide
    table = read(sheet, layout, names, options, [*layout.notes, *notes])
    return build.with_groups_of(table, groups)


def _read_wide(
    sheet: Sheet, layout: Columns, names: list[str], options: ReadOptions, notes: list[str]
) -> LabelTable:
    """Every class has a column."""
    issues, classes = sheet.issues, [sheet.header[place] for place in layout.classes]
    check_classes(classes, sheet.header_place, issues)
    check_size(len(names), len(classes))
    values = np.empty((len(names), len(classes)), dtype=np.int8)
    odd: dict[str, str] = {}  # a cell of each column that holds other things than labels
    for column, (place, name) in enumerate(zip(layout.classes, classes, strict=True)):
        codes, texts = pd.factorize(sheet.cells[place])
        known = [_NO_LABEL if (label := label_of(text)) is None else label for text in texts]
        labels = np.array(known, dtype=np.int8)[codes]
        rows = np.flatnonzero(labels == _NO_LABEL)
        if len(rows) > np.count_nonzero(labels != UNOBSERVED) - len(rows):
            odd[name] = texts[codes[rows[0]]]
        else:
            for row in rows.tolist():
                message = f"class {name!r}: expected 1, 0 or an empty cell (unobserved), got "
                message += repr(texts[codes[row]][:40])
                issues.add(sheet.where(row), "cell", message, name)
        values[:, column] = labels
    if odd:
        issues.insert(0, _other_columns(sheet, odd, len(classes)))
    is_minus_one = values == MINUS_ONE
    if options.minus_one is None and is_minus_one.any() and not (values == NEGATIVE).any():
        row, column = divmod(int(is_minus_one.argmax()), len(classes))
        message = f"class {classes[column]!r} is -1, and no cell is 0; give "
        message += "--set minus_one=negative if -1 means negative, or "
        message += "--set minus_one=unobserved if it means unknown"
        issues.add(sheet.where(row), "meaning of -1", message, classes[column])
    if (values == UNOBSERVED).all() and frames.holds_formulas(sheet.path):
        message = "no cell holds a label, and formulas have no saved values; open the workbook in "
        issues.stop(sheet.header_place, "no label", f"{message}Excel or LibreOffice, and save it")
    values[is_minus_one] = NEGATIVE if options.minus_one == "negative" else UNOBSERVED
    if options.absent == "negative" and (values == UNOBSERVED).any():
        note = "absent=negative has no effect on a wide table: an empty cell means unknown"
        notes = [*notes, note]
    return build.wide_table(names, classes, values, sheet.where, issues, notes)


def _other_columns(sheet: Sheet, odd: dict[str, str], classes: int) -> Issue:
    """The columns that hold no labels, and what to do."""
    shown = listed(f"{name!r} (as {cell[:20]!r})" for name, cell in odd.items())
    tags = f"name a column of tags: {set_key('tags_column', 'NAME')}"
    message = f"no column holds labels: {shown}; a label is {LABEL_WORDS}; else {tags}"
    if len(odd) < classes:
        names = list(odd) if any("," in name for name in odd) else [",".join(odd)]
        flag = " ".join(set_key("ignore_columns", name) for name in names)
        message = f"no labels (1, 0 or nothing) in the columns {shown}; leave them out: {flag}"
        message += f"; or {tags}"
    return Issue(sheet.header_place, "column", message)


def _read_tags(
    sheet: Sheet, layout: Columns, names: list[str], options: ReadOptions, notes: list[str]
) -> LabelTable:
    """One or several columns have tags."""
    marked = [(sheet.texts(place), POSITIVE) for place in layout.tags]
    if layout.absent is not None:
        marked.append((sheet.texts(layout.absent), NEGATIVE))
    if layout.value is not None:
        by_row = np.array([*map(label_of, sheet.texts(layout.value))])
        if not {*by_row.tolist()} <= {POSITIVE, NEGATIVE, UNOBSERVED}:
            header = sheet.header[layout.value]
            message = f"column {header!r} next to the tags has other cells than 1 and 0; keep only "
            message += f"rows that apply, and drop this column: {set_key('ignore_columns', header)}"
            sheet.issues.stop(sheet.header_place, "column", message)
    contents = {cell for cells, _ in marked for cell in {*cells}}
    broken = {cell for cell in contents if is_broken(cell)}
    for cells, _ in marked if broken else ():
        for row in (row for row, cell in enumerate(cells) if cell in broken):
            message = f"expected tags such as cat;dog or ['cat', 'dog'], got {cells[row]!r:.60}"
            sheet.issues.add(sheet.where(row), "tags", message)
    separator = options.separator or sheet.separators
    parsed = [split_cells(cells, separator) for cells, _ in marked]
    tags = {tag for *_, found in parsed for tag in found}
    may_be_commas = not (options.separator or options.classes or "," in separator)
    if may_be_commas and commas_separate(tags):
        parsed = [split_cells(cells, f"{separator},") for cells, _ in marked]
        notes.append("tags separated by commas; --set separator=';' keeps a comma as part of a tag")
    elif not (options.separator or options.classes) and len(tags) > 1:
        is_single = bool((np.diff(parsed[0][0]) > 0).all())  # tag in every cell
        marks = (mark for mark in ", " if sum(mark in tag for tag in tags) >= 0.9 * len(tags))
        for mark in [*marks][:is_single]:
            note = f"most tags contain {mark!r}, as {min(tags)!r}; if it separates tags: "
            notes.append(note + set_key("separator", mark))
    empty = sorted({cell.strip() for cell in contents} & {*NO_TAG})
    notes += [f"no tag is in cells that say {listed(map(repr, empty))}"] if empty else []
    labels = pd.concat(
        pd.DataFrame({"row": rows, "name": np.array(found, dtype=object)[ids], "sign": sign})
        for (_, sign), (rows, ids, found) in zip(marked, parsed, strict=True)
    )
    if layout.value is not None:
        labels = labels.assign(sign=by_row[labels["row"]].astype(int))
        labels = labels[labels["sign"] != UNOBSERVED]
    if not sheet.issues and options.classes is None and not len(labels):
        none = "no image has a tag" if names else "no rows, and so no images"
        header = ",".join(sheet.header[place] for place in layout.tags)
        sheet.issues.stop(str(sheet.path), "no tag", f"{none}; expected tags in {header!r}")
    notes = [*notes, *build.united_note(len(names) - len(set(names)))]
    absent = options.absent_value("unobserved")
    return build.long_table(
        names, labels, sheet.where, sheet.issues, options.classes, absent, notes
    )


# groups in a file of their own


def read_groups(path: str | Path) -> dict[str, str]:
    """The group of every image that a CSV file with `image` and `group` names."""
    path, issues = Path(path), Issues()
    if not path.is_file():
        raise InputError(f"{path}: no such file; --groups takes a CSV file image,group, or folder")
    sheet = open_sheet(path, issues)
    header = [name.lower() for name in sheet.header]
    places = [place for place, name in enumerate(header) if name != GROUP]
    image = columns.image_place(sheet, places, ReadOptions())
    if image is None or GROUP not in header:
        message = f"expected a header 'image,group', got {','.join(sheet.header)[:80]!r}"
        issues.stop(sheet.header_place, "header", message)
    names, _ = columns.image_names(sheet, image)
    issues.add_names(names, sheet.where)
    groups = build.group_of(names, sheet.texts(header.index(GROUP)), sheet.where, issues)
    issues.raise_any()
    if not groups:
        raise InputError(f"{path}: no image has a group; expected names in the column 'group'")
    return groups


# writing


def write(table: LabelTable, path: Path) -> list[str]:
    """Write a column per class as CSV, a workbook or Parquet; unobserved cells stay empty."""
    _check_header(table, path)
    names = {"image": table.images} | group_column(table)
    cells = np.ma.masked_equal(table.values.T, UNOBSERVED)
    kinds = dict.fromkeys(names, "text") | dict.fromkeys(table.classes, "int")
    write_columns(path, kinds, [names | dict(zip(table.classes, cells, strict=True))])
    return []


def write_tags(table: LabelTable, path: Path) -> list[str]:
    """Write `image,labels`, and `absent` and `group` if there is any."""
    cells = {"image": table.images, "labels": list(map(tags_cell, names_of(table, POSITIVE)))}
    if per_class(table.values, NEGATIVE).any() or {*table.classes} <= {"0", "1"}:
        cells[ABSENT] = list(map(tags_cell, names_of(table, NEGATIVE)))
    cells |= group_column(table)
    write_rows(path, list(cells), zip(*cells.values(), strict=True))
    return silent_classes(table)


def group_column(table: LabelTable) -> dict[str, Sequence[str]]:
    """The column of groups, if there are any."""
    return {} if table.groups is None else {GROUP: table.groups}


def _check_header(table: LabelTable, path: Path) -> None:
    """Reject classes whose columns would be read as something else."""
    for name in table.classes:
        if name == "image" or name.lower() == GROUP:
            raise InputError(f"{path}: class {name!r} would be read as another column")
    is_one = len(table.classes) == 1 and {POSITIVE, NEGATIVE} <= {*np.unique(table.values)}
    if is_tag_header(["image", *table.classes]) and not is_one:
        raise InputError(f"{path}: class {table.classes[0]!r} would be read as a column of tags")


def names_of(table: LabelTable, sign: int) -> Iterator[list[str]]:
    """The classes of each image that have this label."""
    names = np.array(table.classes, dtype=object)
    return (names[row == sign].tolist() for row in table.values)
