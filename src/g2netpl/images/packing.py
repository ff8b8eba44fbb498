"""Images and their labels as tar shards in WebDataset's layout, the same bytes every time.

A shard takes its name once it is complete. Until the last one is there, `packing.json` says what is
being packed, so that the same command goes on after the last complete shard.
"""

import hashlib
import os
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from pathlib import Path

from g2netpl.base.disk import file_stamp, opening, write_json
from g2netpl.base.errors import InputError, Refused
from g2netpl.base.files import atomic_write, remove_temporary
from g2netpl.base.inside import open_file
from g2netpl.base.places import LARGEST
from g2netpl.base.tar import BLOCK, END, entry
from g2netpl.labels.formats.imagefolder import json_lines
from g2netpl.labels.formats.json_file import read_json
from g2netpl.labels.formats.problems import LabelFileError, Problems
from g2netpl.labels.formats.webdataset import CLASSES
from g2netpl.labels.paths import SUFFIXES, ending_of
from g2netpl.labels.table import LabelTable

_BEGUN = "packing.json"


def pack(
    table: LabelTable,
    paths: Sequence[str],
    folder: Path,
    most_bytes: int,
    most_images: int,
    overwrite: bool = False,
    on_image: Callable[[int], None] = lambda count: None,
) -> int:
    """Write the images at `paths`, and what is known about them; gives the number of shards."""
    stamps = [file_stamp(path) for path in paths]
    shards = list(_cut([size for size, _, _ in stamps], most_bytes, most_images))
    plan = repr((table.fingerprint(), table.groups, stamps, shards))
    _begin(folder, hashlib.sha256(plan.encode()).hexdigest(), overwrite)
    lines, row = json_lines(table), 0
    for number, count in enumerate(shards):
        target = folder / f"images-{number:06}.tar"
        about = list(islice(lines, count))
        if not target.exists():
            with atomic_write(target) as file:
                for place, line in enumerate(about, start=row):
                    content = _content(paths[place])
                    name = key_of(place) + _ending(table.images[place], content)
                    file.write(entry(name, content))
                    file.write(entry(f"{key_of(place)}.json", line.encode()))
                file.write(END)
        row += count
        on_image(count)
    write_json(folder / CLASSES, list(table.classes))
    (folder / _BEGUN).unlink()
    return len(shards)


def key_of(row: int) -> str:
    """What the files of an image are called."""
    return f"{row:09}"


def _cut(sizes: Sequence[int], most_bytes: int, most_images: int) -> Iterator[int]:
    """How many images each shard has; one that is larger than a shard has one of its own."""
    count = taken = 0
    for size in sizes:
        size += 4 * BLOCK
        if count and (count == most_images or taken + size > most_bytes):
            yield count
            count = taken = 0
        count, taken = count + 1, taken + size
    if count:
        yield count


def _begin(folder: Path, plan: str, overwrite: bool) -> None:
    """Take an empty folder, or go on in one where the same was begun."""
    folder.mkdir(parents=True, exist_ok=True)
    begun = folder / _BEGUN
    try:
        before = read_json(begun, Problems()) if begun.is_file() else None
    except LabelFileError:
        before = "damaged"
    ours = [*folder.glob("images-*.tar"), folder / CLASSES]
    if before != {"plan": plan}:
        if overwrite:
            for path in ours:
                path.unlink(missing_ok=True)
        elif before is not None:
            raise Refused(
                f"{folder}: begun with other images, labels or sizes; give --overwrite to begin "
                "anew, or choose another --output"
            )
        elif any(folder.iterdir()):
            raise Refused(f"{folder}: is not empty; choose another --output, or give --overwrite")
        write_json(begun, {"plan": plan})
    remove_temporary(folder)


def _content(path: str) -> bytes:
    with opening(path), open_file(path) as file:
        content = file.read(LARGEST + 1)
    if len(content) > LARGEST:
        raise InputError(f"{path}: larger than {LARGEST:,} bytes")
    return content


def _ending(name: str, content: bytes) -> str:
    ending = os.path.splitext(name)[1].lower()
    return ending if ending in SUFFIXES else ending_of(content) or ".jpg"
