"""Labels by name: a table `image,labels` or `image,tags`, tags separated by `;` or `|`.

What is not named is unobserved. Where semicolons or tabs separate the columns, a comma separates
tags too. Where commas separate the columns, or in a workbook, a comma may be a part of a name, and
so may `/` and a space anywhere; if it looks otherwise, the reader has to be told. A line break in a
cell always separates.

A column `absent` may name what is known not to be there, a column `group` what images must stay
together in a split. With `absent = negative` every
class that a listed image is not tagged with is negative: for tags known to be complete.
"""

import re
from collections import Counter
from collections.abc import Collection, Iterable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from g2netpl.base.errors import InputError
from g2netpl.labels.formats.collector import Collector
from g2netpl.labels.formats.columns import Columns, find_columns, is_tag_header
from g2netpl.labels.formats.groups import Groups, group_cells, group_header
from g2netpl.labels.formats.problems import Problems
from g2netpl.labels.formats.reading import Reading, silent_classes
from g2netpl.labels.formats.sheet import Sheet, open_sheet, sheet_written
from g2netpl.labels.formats.text import beginning, delimiter
from g2netpl.labels.formats.twins import united_note
from g2netpl.labels.table import NEGATIVE, POSITIVE, LabelTable, per_class

MARKS = ";|,\t/"  # that may stand between tags
_ASKED = {",": "comma", "/": "slash", " ": "space"}  # that may also be parts of them
Tags = tuple[int, str, Iterable[str], Iterable[str], Any]  # place, image, present, absent, group


def recognises(path: Path) -> bool:
    """A CSV file whose header is `image,labels` or `image,tags`."""
    if path.suffix.lower() != ".csv" or not path.is_file():
        return False
    header = beginning(path).split(delimiter(path))
    return is_tag_header([name.strip().strip('"') for name in header])


def read(path: Path, reading: Reading) -> LabelTable:
    """Read tags; every mistake is named by file and line."""
    sheet = open_sheet(path, Problems(), reading.encoding)
    columns = find_columns(sheet, reading)
    if not columns.tags:
        came = ",".join(sheet.header)[:80]
        what = f"expected a header 'image,labels' or 'image,tags', got {came!r}"
        sheet.problems.stop(
            sheet.where(sheet.line), "header", f"{what}; --tags-column NAME names the tags"
        )
    return read_tags(sheet, columns, reading)


def read_tags(sheet: Sheet, columns: Columns, reading: Reading) -> LabelTable:
    """The table of a sheet with a column of tags."""
    between = sheet.between

    def tags() -> Iterable[Tags]:
        for line, row in sheet.whole_rows(f"; separate tags by {between[0]!r} or '|'"):
            absent, group = (
                None if place is None else row[place] for place in (columns.absent, columns.group)
            )
            present = (split(row[place], reading, between) for place in columns.tags)
            named = [tag for some in present for tag in some]
            gone = split(absent or "", reading, between)
            image = columns.name(row[columns.image])
            yield line, image, named, gone, group

    named = ",".join(sheet.header[place] for place in columns.tags)
    table = collect(sheet.path, tags(), reading, sheet.problems, column=named)
    if reading.separator is None and reading.classes is None:
        for mark in (each for each in _ASKED if each not in between):
            odd = looks_separated(table.classes, mark)
            if odd:
                what = _asked(odd, mark, between[0])
                sheet.problems.stop(str(sheet.path), "several tags in one", what)
    return table.with_notes((*columns.notes, *table.notes))


def looks_separated(classes: Collection[str], mark: str = ",") -> str | None:
    """A name of which a mark looks to be between tags; None where it belongs to names.

    It does where each part of it is found elsewhere, alone or in another name, and where half of
    the names with a comma are such ones: `cat, dog` beside `cat` and `dog, bird`, but not
    `salt, table` beside `salt, sea` and `table`. Of names with a space, of which many are one
    (`house boat`), there must be two whose parts are found alone.
    """
    listed = [name for name in classes if mark in name]
    found = Counter(part for name in classes for part in {*_parts(name, mark)})
    if mark == " ":
        found = Counter({name: 2 for name in classes if mark not in name})
    made = [name for name in listed if all(found[part] > 1 for part in _parts(name, mark))]
    enough = len(made) > (mark == " ") and 2 * len(made) >= len(listed)
    return made[0] if enough else None


def _parts(name: str, mark: str) -> list[str]:
    return [part for each in name.split(mark) if (part := each.strip())]


def _asked(odd: str, mark: str, usual: str) -> str:
    known = " and ".join(map(repr, _parts(odd, mark)[:2]))
    both = "" if mark == " " else f" ({usual + mark!r} where both are)"
    return (
        f"{odd!r} looks like several tags, since {known} are found elsewhere; give --separator "
        f"{mark!r} if so{both}, or {usual!r} if the {_ASKED[mark]} is a part of it"
    )


def collect(
    path: Path,
    tags: Iterable[Tags],
    reading: Reading,
    problems: Problems,
    unit: str = ":",
    column: str = "labels",
) -> LabelTable:
    """A table from the tags of each image, which the file has in this column."""
    collector = Collector(lambda place: f"{path}{unit}{place}", reading.classes, problems)
    groups, rows = Groups(problems), 0
    unite = reading.duplicates == "unite"
    for place, image, present, absent, group in tags:
        rows += 1
        row = (collector.image if unite else collector.next_image)(place, image)
        groups.add(f"{path}{unit}{place}", image, group)
        for value, names in ((POSITIVE, present), (NEGATIVE, absent)):
            for name in sorted(set(names)):  # in the order that the table will have
                collector.label(place, row, name, value)
    if not problems.found and not collector.classes:
        none = "no image has a tag" if rows else "no rows, and so no images"
        problems.stop(str(path), "no tag", f"{none}; expected tags in {column!r}")
    notes = united_note(rows - len(collector.images)) if unite else []
    return groups.on(collector.table(reading.absent_value("unobserved"), notes))


def write(table: LabelTable, path: Path) -> list[str]:
    """Write `image,labels`, and `absent` and `group` where there is any."""
    odd = [name for name in table.classes if set(";|\r\n") & {*name} or name != name.strip()]
    if odd:
        what = "it holds ';', '|', a line break, or spaces at an end"
        raise InputError(f"{path}: class {odd[0]!r} cannot be a tag: {what}")
    names = np.array(table.classes, dtype=object)
    negative = bool(per_class(table.values, NEGATIVE).any())
    with sheet_written(path) as writer:
        signs = {"labels": POSITIVE, **({"absent": NEGATIVE} if negative else {})}
        writer.write(["image", *signs, *group_header(table)])
        for image, values, group in zip(
            table.images, table.values, group_cells(table), strict=True
        ):
            tags = (";".join(names[values == sign]) for sign in signs.values())
            writer.write([image, *tags, *group])
    return silent_classes(table)


def in_cell(cell: Any, reading: Reading, where: str, what: str, problems: Problems) -> list[str]:
    """The tags in a cell that is a text, a list of texts, or nothing."""
    if cell is None or isinstance(cell, str):
        return split(cell or "", reading)
    if isinstance(cell, list) and all(isinstance(each, str) for each in cell):
        return cell
    problems.add(where, "cell", f"{what}: expected text or a list of it, got {cell!r:.60}")
    return []


def split(text: str, reading: Reading, between: str = ";|") -> list[str]:
    """The tags in a cell: parted at line breaks, and at any mark of `between` or as was told."""
    parts = re.split(_between(reading.separator or between), text)
    return [tag for part in parts if (tag := part.strip())]


@cache
def _between(separator: str) -> re.Pattern[str]:
    """Marks part tags each by itself (`;,`), anything else as a whole (`::`, ` and `)."""
    marks = set(separator.strip(" "))
    alone = len(marks) > 1 and marks <= set(MARKS)
    told = f"[{re.escape(''.join(sorted(marks)))}]" if alone else re.escape(separator)
    return re.compile(rf"{told}|[\r\n]")
