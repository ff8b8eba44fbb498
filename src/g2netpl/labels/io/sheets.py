"""The user's own sheet, completed: the same columns, ids, order and kind of file.

Tags are added to the cells of tags, unknown cells of class columns get a label, and a column
`added` lists what is new. All other cells stay as they are. Workbooks are edited with openpyxl, so
that other sheets and formats stay; .xls and .ods come back as .xlsx.
"""

import csv
import io
import json
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from contextlib import suppress
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import openpyxl
import pandas as pd
from openpyxl.cell.cell import MergedCell

from g2netpl.labels.io.cells import NO_TAG, cell_tags, each_mark
from g2netpl.labels.io.columns import ADDED, find_columns, image_names
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
from g2netpl.labels.io.writing import book_cell, save_book
from g2netpl.labels.names import match_known, normalize_name
from g2netpl.labels.table import NEGATIVE, POSITIVE, UNOBSERVED, LabelTable
from g2netpl.utils.errors import InputError
from g2netpl.utils.files import atomic_write, write_bytes, writing

Edits = dict[tuple[int, int], str]  # new texts by line (or row of Parquet) and column


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
    if columns.value is not None:
        message = f"the tags depend on the column {sheet.header[columns.value]!r}; use g2netpl "
        raise InputError(f"{source}: {message}convert, and complete its table")
    texts = {place: sheet.texts(place) for place in (*columns.tags, *columns.classes)}
    row_of = {normalize_name(name): row for row, name in enumerate(table.images)}
    names = [normalize_name(name) for name in image_names(sheet, columns.image)[0]]
    meant = match_known(names, row_of, str(source))
    rows = [row_of.get(meant.get(name, name), -1) for name in names]
    counts = Counter(cell.strip() for place in columns.classes for cell in texts[place])
    usual = {label_of(cell): cell for cell, _ in reversed(counts.most_common()) if cell}
    words = {POSITIVE: usual.get(POSITIVE, "1"), NEGATIVE: usual.get(NEGATIVE, "")}
    aliases, separator = options.aliases, options.separator or sheet.separators
    column_of = {name: column for column, name in enumerate(table.classes)}
    tag_cells = chain.from_iterable(texts[place] for place in columns.tags)
    style = _usual_style(tag_cells, separator, {*column_of, *aliases})
    added_place = [*sheet.header, ADDED].index(ADDED)
    edits, seen = Edits(), set[int]()
    for line, row, *here in zip(sheet.cells.index.tolist(), rows, *texts.values(), strict=True):
        if row < 0:
            continue
        cells = dict(zip(texts, here, strict=True))
        for place in columns.classes:
            column = column_of.get(aliases.get(sheet.header[place], sheet.header[place]))
            label = UNOBSERVED if column is None else int(table.values[row, column])
            if label_of(cells[place]) == UNOBSERVED and words.get(label):
                edits[line, place] = words[label]
        new = [] if row in seen else np.flatnonzero(added[row]).tolist()
        seen.add(row)
        if new:
            edits[line, added_place] = "; ".join(
                table.classes[column]
                + ("" if probabilities is None else f" {probabilities[row, column]:.2f}")
                for column in new
            )
        if new and columns.tags:
            tags = {tag for place in columns.tags for tag in cell_tags(cells[place], separator)}
            tags |= {aliases.get(tag, tag) for tag in tags}
            more = [name for name in (table.classes[column] for column in new) if name not in tags]
            filled = [place for place in columns.tags if cells[place].strip()]
            place = [*columns.tags[:1], *filled][-1]
            if more:
                edits[line, place] = _with_tags(cells[place].strip(), more, separator, style)
    notes = []
    if -1 in rows:
        notes.append(f"{rows.count(-1):,} rows of {source} have no image of the run: unchanged")
    if target.suffix.lower() != source.suffix.lower():
        notes.append(f"{source} is completed as {target.suffix}: {target}")
    write = _write_text if sheet.delimiter is not None else _write_book
    write = _write_parquet if source.suffix.lower() in PARQUET_ENDINGS else write
    with writing(target):
        write(target, sheet, edits, added_place, options.encoding)
    return notes


def _usual_style(cells: Iterable[str], separator: str, known: Collection[str]) -> str:
    """What separates tags in most cells with several of them, as `, `."""
    styles = Counter[str]()
    for cell in cells:
        for mark in (*each_mark(separator), ","):
            tags = cell.split(mark)
            if len(tags) > 1 and all(tag.strip() in known for tag in tags):
                styles[_spaced(mark, cell)] += 1
    return max(styles, key=styles.__getitem__, default=each_mark(separator)[0])


def _spaced(mark: str, cell: str) -> str:
    return f"{mark} " if f"{mark} " in cell else mark


def _with_tags(text: str, new: Sequence[str], separator: str, style: str) -> str:
    """A cell of tags with more of them, in its own style or else the usual one."""
    text = "" if text in NO_TAG else text
    if text[:1] in {*'[{"'}:
        tags = [*cell_tags(text, separator), *new]
        return str(tags) if "'" in text else json.dumps(tags, ensure_ascii=False)
    used = [mark for mark in (*each_mark(separator), ",") if mark in text]
    return (_spaced(used[0], text) if used else style).join([text, *new] if text else new)


def _write_text(target: Path, sheet: Sheet, edits: Edits, added: int, given: str | None) -> None:
    """CSV with the delimiter, encoding, byte order mark and line ends of the source."""
    source, mark, width = Path(sheet.path), sheet.delimiter or ",", len(sheet.header)
    content = read_bytes(source)
    encoding = encoding_of(content, given)
    text, out = content.decode(encoding), io.StringIO(newline="")
    has_quotes = text.partition("\n")[0].count('"') >= 2 * width
    writer = csv.writer(
        out,
        delimiter=mark,
        lineterminator="\r\n" if "\r\n" in text else "\n",
        quoting=csv.QUOTE_ALL if has_quotes else csv.QUOTE_MINIMAL,
    )
    edits = {**edits, (sheet.line or 1, added): ADDED}
    for line, row in read_rows(source, text, mark, 1, Issues()).items():
        if row and line >= (sheet.line or 1):
            row = [*row, *[""] * width][:width] + [""] * (added + 1 - width)
            row = [edits.get((line, place), cell) for place, cell in enumerate(row)]
        writer.writerow(row)
    write_bytes(target, out.getvalue().encode(encoding))


def _write_book(target: Path, sheet: Sheet, edits: Edits, added: int, *_: object) -> None:
    """A workbook with its other sheets; old formats are copied cell by cell."""
    source = Path(sheet.path)
    ending = source.suffix.lower()
    if ending in (".xlsx", ".xlsm", ".xltx"):
        book = openpyxl.load_workbook(source, keep_vba=ending == ".xlsm")
        page: Any = next(each for each in book.worksheets if each.sheet_state == "visible")
    else:
        book = openpyxl.Workbook()
        book.remove(book.active)
        for name, frame in pd.read_excel(source, None, header=None, engine="calamine").items():
            copy = book.create_sheet(str(name)[:31])
            for cells in frame.itertuples(index=False):
                copy.append([None if pd.isna(cell) else cell for cell in cells])
        page = book.worksheets[0]
    page.cell(sheet.line, added + 1, ADDED)
    for (line, place), text in edits.items():
        cell = page.cell(line, place + 1)
        if not isinstance(cell, MergedCell):  # which shows the text of the first
            cell.value = int(text) if text in ("0", "1") else book_cell(text, target)
    save_book(book, target)


def _write_parquet(target: Path, sheet: Sheet, edits: Edits, added: int, *_: object) -> None:
    frame = read_parquet(Path(sheet.path), Issues())
    kinds = frame.dtypes
    frame = frame.astype(object)
    frame[ADDED] = ""
    for (row, place), text in edits.items():
        is_list = isinstance(frame.iat[row, place], np.ndarray | list)
        value = json.loads(text) if is_list else int(text) if text in ("0", "1") else text
        frame.iat[row, place] = value
    for name, kind in kinds.items():
        with suppress(TypeError, ValueError):  # words in a column of numbers
            frame[name] = frame[name].astype(kind)
    with atomic_write(target) as file:
        frame.to_parquet(file, index=False)
