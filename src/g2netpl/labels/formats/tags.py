"""Labels by name: CSV `image,labels` or `image,tags`, tags separated by `;` or `|`.

What is not named is unobserved. Where semicolons or tabs separate the columns, a comma separates
tags too.

A column `absent` may name what is known not to be there, a column `group` what images must stay
together in a split. With `absent = negative` every
class that a listed image is not tagged with is negative: for tags known to be complete.
"""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from g2netpl.base.disk import text_written_whole
from g2netpl.base.errors import InputError
from g2netpl.labels.entries import per_class
from g2netpl.labels.formats.collector import Collector
from g2netpl.labels.formats.groups import GROUP, Groups, group_cells, group_header
from g2netpl.labels.formats.problems import LabelFileError, Problems
from g2netpl.labels.formats.reading import Reading, silent_classes
from g2netpl.labels.formats.table import is_tag_header
from g2netpl.labels.formats.text import CsvWriter, beginning, csv_table, delimiter, unguarded
from g2netpl.labels.table import NEGATIVE, POSITIVE, LabelTable

Tags = tuple[int, str, Iterable[str], Iterable[str], Any]  # place, image, present, absent, group


def recognises(path: Path) -> bool:
    """A CSV file whose header is `image,labels` or `image,tags`."""
    if path.suffix.lower() != ".csv" or not path.is_file():
        return False
    header = beginning(path).split(delimiter(path))
    return is_tag_header([name.strip().strip('"') for name in header])


def read(path: Path, reading: Reading) -> LabelTable:
    """Read tags; every mistake is named by file and line."""
    problems = Problems()
    mark = delimiter(path)
    between = ";|" if mark == "," else ",|;"
    hint = f"; separate tags by {between[0]!r} or '|'"
    line, header, rows = csv_table(path, problems, mark, hint)
    if not is_tag_header(header):
        problems.stop(
            f"{path}:{line}",
            "header",
            f"expected a header 'image,labels' or 'image,tags', got {','.join(header)[:80]!r}",
        )

    names = [name.lower() for name in header[2:]]

    def tags() -> Iterable[Tags]:
        for line, row in rows:
            image, present, *more = map(unguarded, row)
            others = dict(zip(names, more, strict=True))
            named, absent = (
                split(cell, reading, between) for cell in (present, others.get("absent", ""))
            )
            yield line, image, named, absent, others.get(GROUP)

    return collect(path, tags(), reading, problems)


def collect(
    path: Path, tags: Iterable[Tags], reading: Reading, problems: Problems, unit: str = ":"
) -> LabelTable:
    """A table from the tags of each image."""
    collector = Collector(lambda place: f"{path}{unit}{place}", reading.classes, problems)
    groups = Groups(problems)
    try:
        for place, image, present, absent, group in tags:
            row = collector.next_image(place, image)
            groups.add(f"{path}{unit}{place}", image, group)
            for value, names in ((POSITIVE, present), (NEGATIVE, absent)):
                for name in sorted(set(names)):  # in the order that the table will have
                    collector.label(place, row, name, value)
        if not problems.found and not collector.classes:
            problems.stop(str(path), "no tag", "no image has a tag; expected tags in 'labels'")
        return groups.on(collector.table(reading.absent_value("unobserved")))
    except LabelFileError as mistake:
        mistake.readable = collector.readable
        raise


def write(table: LabelTable, path: Path) -> list[str]:
    """Write `image,labels`, and `absent` and `group` where there is any."""
    odd = [name for name in table.classes if ";" in name or "|" in name or name != name.strip()]
    if odd:
        raise InputError(f"{path}: class {odd[0]!r} cannot be a tag: it holds ';', '|' or spaces")
    names = np.array(table.classes, dtype=object)
    negative = bool(per_class(table.held, NEGATIVE).any())
    with text_written_whole(path) as file:
        writer = CsvWriter(file)
        signs = {"labels": POSITIVE, **({"absent": NEGATIVE} if negative else {})}
        writer.write(["image", *signs, *group_header(table)])
        for image, values, group in zip(
            table.images, table.rows(), group_cells(table), strict=True
        ):
            tags = (";".join(names[values == sign]) for sign in signs.values())
            writer.write([image, *tags, *group])
    return silent_classes(table)


def split(text: str, reading: Reading, between: str = ";|") -> list[str]:
    """The tags in a cell, parted at any mark of `between` unless the reader was told another."""
    if reading.separator is None:
        for mark in between[1:]:
            text = text.replace(mark, between[0])
    parts = text.split(reading.separator or between[0])
    return [tag for part in parts if (tag := part.strip())]
