"""The user's own sheet, completed: the same columns, ids, order and kind of file.

Tags are added to the cells of tags, unknown cells of class columns get a label, and a column
`added` lists what is new. All other cells stay as they are. Workbooks are edited with openpyxl, so
that other sheets and formats stay; .xls and .ods come back as .xlsx.
"""

import csv
import io
import json
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import openpyxl
import pandas as pd
from openpyxl.cell.cell import MergedCell

from g2netpl.labels.io.cells import cell_tags
from g2netpl.labels.io.columns import ADDED, Columns, find_columns, image_names
from g2netpl.labels.io.frames import (
    PARQUET_ENDINGS,
    Sheet,
    label_of,
    open_sheet,
    read_parquet,
    read_rows,
)
from g2netpl.labels.io.issues import Issues, encoding_of, read_bytes
from g2netpl.labels.io.options import ReadOptions
from g2netpl.labels.io.tables import can_read, is_book, is_parquet
from g2netpl.labels.io.writing import book_cell, save_book
from g2netpl.labels.names import match_known, normalize_name
from g2netpl.labels.table import NEGATIVE, POSITIVE, UNOBSERVED, LabelTable
from g2netpl.utils.files import atomic_write, write_bytes, writing

Edits = Mapping[int, Mapping[int, str]]  # new texts by line (or row of Parquet) and column


def is_sheet(path: Path) -> bool:
    """Whether a label file is a sheet that can come back completed."""
    return path.is_file() and (can_read(path) or is_book(path) or is_parquet(path))


def completed_name(path: Path, folder: Path) -> Path:
    """The name of the completed sheet in a folder: `x-completed.csv` for `x.csv`."""
    ending = ".xlsx" if path.suffix.lower() in (".xls", ".ods", ".xlsb") else path.suffix
    return folder / f"{path.stem}-completed{ending}"


def complete_sheet(
    source: Path,
    table: LabelTable,
    added: npt.NDArray[np.bool_],
    target: Path,
    probabilities: npt.NDArray[np.floating] | None = None,
    options: ReadOptions = ReadOptions(),  # noqa: B008
) -> list[str]:
    """Write the sheet `source` with the labels of `table` to `target`; gives notes.

    `added`, (N, L), are the new positives, listed in the column `added` with their `probabilities`.
    Cells of people are only changed where they are empty (class columns) or get more tags.
    """
    sheet = open_sheet(source, Issues(), options.encoding)
    columns = find_columns(sheet, options)
    texts = {place: sheet.texts(place) for place in (*columns.tags, *columns.classes)}
    row_of = {normalize_name(name): row for row, name in enumerate(table.images)}
    names = [normalize_name(name) for name in image_names(sheet, columns.image)[0]]
    meant = match_known(names, row_of, str(source))
    rows = [row_of.get(meant.get(name, name), -1) for name in names]
    cells = Counter(cell.strip() for place in columns.classes for cell in texts[place])
    usual = {label_of(cell): cell for cell, _ in reversed(cells.most_common()) if cell}
    words = {POSITIVE: usual.get(POSITIVE, "1"), NEGATIVE: usual.get(NEGATIVE, "")}
    aliases = options.aliases or {}
    column_of = {name: column for column, name in enumerate(table.classes)}
    known = {*table.classes, *aliases}
    tag_cells = (cell for place in columns.tags for cell in texts[place])
    style = _usual_style(tag_cells, options.separator or f"{sheet.separators},", known)
    edits, seen = dict[int, dict[int, str]](), {-1}
    for at, row in enumerate(rows):
        here = {place: cells[at] for place, cells in texts.items()}
        new = [] if row in seen else np.flatnonzero(added[row]).tolist()
        edit = edits.setdefault(sheet.places[at], {})
        if columns.tags and new:
            edit |= _tags_edit(
                sheet, columns, here, [table.classes[at] for at in new], style, options
            )
        for place in columns.classes if row >= 0 else ():
            column = column_of.get(aliases.get(sheet.header[place], sheet.header[place]))
            label = UNOBSERVED if column is None else int(table.values[row, column])
            if label_of(here[place]) == UNOBSERVED and words.get(label):
                edit[place] = words[label]
        if new:
            edit[_added_place(sheet)] = "; ".join(
                table.classes[column]
                + ("" if probabilities is None else f" {probabilities[row, column]:.2f}")
                for column in new
            )
        seen.add(row)
    notes = []
    if -1 in rows:
        notes.append(f"{rows.count(-1):,} rows of {source} have no image of the run: unchanged")
    if target.suffix.lower() != source.suffix.lower():
        notes.append(f"{source} comes back as {target.suffix}: {target}")
    with writing(target):
        if source.suffix.lower() in PARQUET_ENDINGS:
            _write_parquet(source, target, sheet, edits)
        elif sheet.delimiter is None:
            _write_book(source, target, sheet, edits)
        else:
            _write_text(source, target, sheet, edits, options)
    return notes


def _added_place(sheet: Sheet) -> int:
    """The column of what was added, behind the others if there is none yet."""
    return [*sheet.header, ADDED].index(ADDED)


def _usual_style(cells: Iterable[str], marks: str, known: Collection[str]) -> str:
    """What separates tags in most cells with several of them, as `, `; nothing if no cell has."""
    styles = Counter[str]()
    for cell in cells:
        for mark in dict.fromkeys(marks):
            tags = cell.split(mark)
            if len(tags) > 1 and all(tag.strip() in known for tag in tags):
                styles[f"{mark} " if f"{mark} " in cell else mark] += 1
    return max(styles, key=styles.__getitem__, default="")


def _tags_edit(
    sheet: Sheet,
    columns: Columns,
    here: Mapping[int, str],
    new: Sequence[str],
    style: str,
    options: ReadOptions,
) -> dict[int, str]:
    """The last cell of tags that is not empty, with the new tags in its own style, or the usual."""
    filled = [place for place in columns.tags if here[place].strip()]
    place = filled[-1] if filled else columns.tags[0]
    separator = options.separator or sheet.separators
    there = {tag for each in columns.tags for tag in cell_tags(here[each], separator)}
    there |= {(options.aliases or {}).get(tag, tag) for tag in there}
    more, text = [name for name in new if name not in there], here[place].strip()
    if not more:
        return {}
    if text[:1] == "[" and text[-1:] == "]":
        tags = [*cell_tags(text, separator), *more]
        return {place: str(tags) if "'" in text else json.dumps(tags, ensure_ascii=False)}
    used = [mark for mark in f"{separator}," if mark in text]
    if style and not used:
        return {place: style.join([*([here[place].rstrip()] if text else []), *more])}
    mark = used[0] if used else separator[0] if options.separator is None else separator
    space = " " if f"{mark} " in text else ""
    return {place: f"{mark}{space}".join([*([here[place].rstrip()] if text else []), *more])}


def _write_text(
    source: Path, target: Path, sheet: Sheet, edits: Edits, options: ReadOptions
) -> None:
    """CSV with the delimiter, encoding, byte order mark and line ends of the source."""
    content, mark = read_bytes(source), sheet.delimiter or ","
    encoding = encoding_of(content, options.encoding)
    text, out = content.decode(encoding), io.StringIO(newline="")
    has_quotes = text.partition("\n")[0].count('"') >= 2 * len(sheet.header)
    writer = csv.writer(
        out,
        delimiter=mark,
        lineterminator="\r\n" if "\r\n" in text else "\n",
        quoting=csv.QUOTE_ALL if has_quotes else csv.QUOTE_MINIMAL,
    )
    added, width = _added_place(sheet), len(sheet.header)
    for row, line in zip(*read_rows(source, text, mark, 0, Issues()), strict=True):
        if row and line >= (sheet.line or 0):
            row = [*row, *[""] * width][:width] + [""] * (added + 1 - width)
            changed = {added: ADDED} if line == sheet.line else edits.get(line, {})
            row = [changed.get(place, cell) for place, cell in enumerate(row)]
        writer.writerow(row)
    write_bytes(target, out.getvalue().encode(encoding))


def _write_book(source: Path, target: Path, sheet: Sheet, edits: Edits) -> None:
    """A workbook with its other sheets; old formats are copied cell by cell."""
    ending = source.suffix.lower()
    if ending in (".xlsx", ".xlsm", ".xltx"):
        book = openpyxl.load_workbook(io.BytesIO(read_bytes(source)), keep_vba=ending == ".xlsm")
        page: Any = next(each for each in book.worksheets if each.sheet_state == "visible")
    else:
        book = openpyxl.Workbook()
        book.remove(book.active)
        for name, frame in pd.read_excel(source, None, header=None, engine="calamine").items():
            copy = book.create_sheet(str(name)[:31])
            for cells in frame.itertuples(index=False):
                copy.append([None if pd.isna(cell) else cell for cell in cells])
        page = book.worksheets[0]
    page.cell(sheet.line, _added_place(sheet) + 1, ADDED)
    for line, changed in edits.items():
        for place, text in changed.items():
            cell = page.cell(line, place + 1)
            if not isinstance(cell, MergedCell):  # which shows the text of the first
                cell.value = int(text) if text in ("0", "1") else book_cell(text, target)
    save_book(book, target)


def _write_parquet(source: Path, target: Path, sheet: Sheet, edits: Edits) -> None:
    frame = read_parquet(source, Issues())
    for place, name in enumerate(sheet.header):
        changed = {row: cells[place] for row, cells in edits.items() if place in cells}
        if not changed:
            continue
        column = frame[name].astype(object)
        for row, text in changed.items():
            is_list = isinstance(column.iloc[row], np.ndarray | list)
            column.iloc[row] = json.loads(text) if is_list else int(text) if text in "01" else text
        is_number = frame[name].dtype.kind in "iufb" and set(changed.values()) <= {"0", "1"}
        frame[name] = column.astype(frame[name].dtype) if is_number else column
    frame[ADDED] = [edits.get(row, {}).get(_added_place(sheet), "") for row in range(len(frame))]
    with atomic_write(target) as file:
        frame.to_parquet(file, index=False)
