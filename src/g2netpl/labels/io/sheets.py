"""The user's own sheet, completed: the same columns, ids, order and kind of file.

Tags are added to the cells of tags, unknown cells of class columns get a label, and a column
`added` lists what is new. All other cells stay as they are. Workbooks are edited with openpyxl, so
that other sheets and formats stay; .xls and .ods come back as .xlsx.
"""

import csv
import io
import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from g2netpl.labels.io.cells import cell_tags, label_of
from g2netpl.labels.io.columns import ADDED, Columns, find_columns
from g2netpl.labels.io.frames import PARQUET_ENDINGS, Sheet, read_parquet
from g2netpl.labels.io.issues import Issues
from g2netpl.labels.io.options import ReadOptions
from g2netpl.labels.io.tables import can_read, is_book, is_parquet, open_table
from g2netpl.labels.io.text import encoding_of, read_bytes
from g2netpl.labels.io.writing import book_cell, load_openpyxl, save_book
from g2netpl.labels.names import match_known, normalize_name
from g2netpl.labels.table import NEGATIVE, POSITIVE, UNOBSERVED, LabelTable
from g2netpl.utils.errors import InputError
from g2netpl.utils.files import atomic_write, write_bytes, writing

Edits = Mapping[int, Mapping[int, str]]  # new texts by line (or row of Parquet) and column
_WORDS = {POSITIVE: "1", NEGATIVE: "0"}


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
    if not is_sheet(source):
        raise InputError(f"{source}: not a CSV file, workbook or Parquet file")
    sheet = open_table(source, Issues(), options)
    columns, aliases = find_columns(sheet, options), options.aliases or {}
    places = {columns.image, *columns.tags, *columns.classes}
    cells = sheet.load(sorted(places, key=lambda place: place != columns.image))
    if sheet.broken is not None:
        sheet.issues.stop(*sheet.broken)
    texts = {place: cells[place].to_pylist() for place in places}
    row_of = {normalize_name(name): row for row, name in enumerate(table.images)}
    names = [normalize_name(name) for name in columns.names(texts[columns.image])]
    row_of |= {
        name: row_of[known] for name, known in match_known(names, row_of, str(source)).items()
    }
    rows = [row_of.get(name, -1) for name in names]
    words, edits = _style(columns, texts), dict[int, dict[int, str]]()
    seen: set[int] = set()
    for at, row in enumerate(rows):
        if row < 0:
            continue
        new = [] if row in seen else np.flatnonzero(added[row]).tolist()
        seen.add(row)
        here = {place: texts[place][at] for place in places}
        if columns.tags:
            edit = _tags_edit(sheet, columns, here, new, table, options)
        else:
            labels = dict(zip(table.classes, table.values[row].tolist(), strict=True))
            named = {at: aliases.get(sheet.header[at], sheet.header[at]) for at in columns.classes}
            unknown = [at for at in columns.classes if label_of(here[at]) == UNOBSERVED]
            told = {at: words.get(labels.get(named[at], UNOBSERVED), "") for at in unknown}
            edit = {at: word for at, word in told.items() if word}
        if new:
            edit[_added_place(sheet)] = "; ".join(_with_chance(table, row, new, probabilities))
        if edit:
            edits[int(sheet.places[at])] = edit
    notes = []
    missing = rows.count(-1)
    if missing:
        notes.append(f"{missing:,} rows of {source} have no image of the run: unchanged")
    if target.suffix.lower() != source.suffix.lower():
        notes.append(f"{source} comes back as {target.suffix}: {target}")
    with writing(target):
        _write(source, target, sheet, edits, options)
    return notes


def _style(columns: Columns, texts: Mapping[int, Sequence[str]]) -> dict[int, str]:
    """How the sheet writes positives and negatives, as `x` or `TRUE`."""
    cells = Counter(cell.strip() for place in columns.classes for cell in texts[place])
    words = dict(_WORDS)
    for sign in words:
        written = [cell for cell, _ in cells.most_common() if cell and label_of(cell) == sign]
        words[sign] = written[0] if written else ("" if sign == NEGATIVE and cells else words[sign])
    return words


def _added_place(sheet: Sheet) -> int:
    """The column of what was added, behind the others if there is none yet."""
    return sheet.header.index(ADDED) if ADDED in sheet.header else sheet.width


def _tags_edit(
    sheet: Sheet,
    columns: Columns,
    here: Mapping[int, str],
    new: Sequence[int],
    table: LabelTable,
    options: ReadOptions,
) -> dict[int, str]:
    """The last cell of tags that is not empty, with the new tags in its own style."""
    filled = [place for place in columns.tags if here[place].strip()]
    place = filled[-1] if filled else columns.tags[0]
    cell, separator = here[place], options.separator or sheet.separators
    there = {tag for each in columns.tags for tag in cell_tags(here[each], separator)}
    there |= {(options.aliases or {}).get(tag, tag) for tag in there}
    more = [table.classes[column] for column in new if table.classes[column] not in there]
    if not more:
        return {}
    text = cell.strip()
    if text[:1] == "[" and text[-1:] == "]":
        tags = [*cell_tags(text, separator), *more]
        return {place: str(tags) if "'" in text else json.dumps(tags, ensure_ascii=False)}
    used = [mark for mark in f"{separator}," if mark in text]
    mark = used[0] if used else separator[0] if options.separator is None else separator
    space = " " if f"{mark} " in text else ""
    return {place: f"{mark}{space}".join([*([cell.rstrip()] if text else []), *more])}


def _with_chance(
    table: LabelTable,
    row: int,
    new: Sequence[int],
    probabilities: npt.NDArray[np.floating] | None,
) -> Iterator[str]:
    for column in new:
        chance = "" if probabilities is None else f" {probabilities[row, column]:.2f}"
        yield f"{table.classes[column]}{chance}"


def _write(source: Path, target: Path, sheet: Sheet, edits: Edits, options: ReadOptions) -> None:
    if source.suffix.lower() in PARQUET_ENDINGS:
        _write_parquet(source, target, sheet, edits)
    elif sheet.delimiter is None:
        _write_book(source, target, sheet, edits)
    else:
        _write_text(source, target, sheet, edits, options)


def _write_text(
    source: Path, target: Path, sheet: Sheet, edits: Edits, options: ReadOptions
) -> None:
    """CSV with the delimiter, encoding, byte order mark and line ends of the source."""
    content = read_bytes(source)
    encoding = encoding_of(content, options.encoding)
    text = content.decode(encoding)
    end = "\r\n" if "\r\n" in text else "\n"
    out = io.StringIO(newline="")
    mark = sheet.delimiter or ","
    first = text.partition("\n")[0]
    quotes = first.count('"') >= 2 * sheet.width
    writer = csv.writer(out, delimiter=mark, lineterminator=end, quoting=1 if quotes else 0)
    added = _added_place(sheet)
    reader, began = csv.reader(io.StringIO(text, newline=""), delimiter=mark), 0
    for row in reader:
        line, began = began + 1, reader.line_num
        if row and line >= (sheet.line or 0):
            row = [*row, *[""] * (added + 1 - len(row))]
            row = [*row[: sheet.width], *row[sheet.width : added + 1]]
            for place, cell in (
                {added: ADDED} if line == sheet.line else edits.get(line, {})
            ).items():
                row[place] = cell
        writer.writerow(row)
    with writing(target):
        write_bytes(target, out.getvalue().encode(encoding))


def _write_book(source: Path, target: Path, sheet: Sheet, edits: Edits) -> None:
    """A workbook with its other sheets; old formats are copied cell by cell."""
    openpyxl = load_openpyxl()
    if source.suffix.lower() in (".xlsx", ".xlsm", ".xltx"):
        keep = source.suffix.lower() == ".xlsm"
        book = openpyxl.load_workbook(io.BytesIO(read_bytes(source)), keep_vba=keep)
        page = next(each for each in book.worksheets if each.sheet_state == "visible")
    else:
        book = openpyxl.Workbook()
        book.remove(book.active)
        for name, frame in pd.read_excel(source, None, header=None, engine="calamine").items():
            added = book.create_sheet(str(name)[:31])
            for cells in frame.itertuples(index=False):
                added.append([None if pd.isna(cell) else cell for cell in cells])
        page = book.worksheets[0]
    page.cell(sheet.line, _added_place(sheet) + 1, ADDED)
    for line, cells in edits.items():
        for place, text in cells.items():
            cell = page.cell(line, place + 1)
            if type(cell).__name__ != "MergedCell":  # which shows the text of the first
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
            before: Any = column.iloc[row]
            is_list = isinstance(before, np.ndarray | list)
            column.iloc[row] = json.loads(text) if is_list else int(text) if text in "01" else text
        numbers = all(cell is None or cell in (0, 1) for cell in column if not _is_list(cell))
        is_number = frame[name].dtype.kind in "iufb" and numbers
        frame[name] = column.astype(frame[name].dtype) if is_number else column
    frame[ADDED] = [edits.get(row, {}).get(_added_place(sheet), "") for row in range(len(frame))]
    with atomic_write(target) as file:
        frame.to_parquet(file, index=False)


def _is_list(cell: object) -> bool:
    return isinstance(cell, np.ndarray | list)
