"""WebDataset's tar shards: files of one key stand together, `1.jpg` and what is known in `1.json`.

The object in there has `labels` or `tags` (a list, or text with separators), `absent` and `group`
as in metadata.jsonl, and may call the image by another `file_name`. `classes.json` beside the
shards names all classes in their order.
"""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import count, groupby
from pathlib import Path
from typing import Any, BinaryIO

from g2netpl.base.errors import InputError
from g2netpl.base.files import atomic_write
from g2netpl.base.inside import PathBelow, open_file
from g2netpl.base.tar import END, Damaged, Member, entry, members
from g2netpl.labels.formats import tags
from g2netpl.labels.formats.imagefolder import json_lines, known_in
from g2netpl.labels.formats.json_file import parse_json, read_json
from g2netpl.labels.formats.problems import Problems
from g2netpl.labels.formats.reading import Reading, checked_names, in_class_order, silent_classes
from g2netpl.labels.paths import SUFFIXES, images_on_top, names_on_top
from g2netpl.labels.table import LabelTable, plain_name

CLASSES = "classes.json"
_KEY = re.compile(r"((?:.*/)?[^/.][^/.]*)\.[^/]*", re.DOTALL)  # up to the first dot of the name
_LONGEST = 1 << 22  # bytes of JSON about one image
_PACKED = (".tar.gz", ".tgz", ".tar.bz2", ".tar.xz", ".tar.zst")


def recognises(path: Path) -> bool:
    """A tar file, or a folder of them."""
    return path.suffix.lower() == ".tar" if path.is_file() else holds_shards(path)


def holds_shards(folder: Path) -> bool:
    """Whether tar files lie in a folder, and no images beside them."""
    return not images_on_top(folder) and any(
        name.lower().endswith((".tar", *_PACKED)) for name in names_on_top(folder)
    )


def shards_in(folder: Path) -> list[PathBelow]:
    """The tar files of a folder, by their names."""
    names = sorted(each.name for each in folder.iterdir() if each.name[0] != ".")
    check_plain(folder / name for name in names)
    return [PathBelow(str(folder), name) for name in names if name.lower().endswith(".tar")]


def check_plain(paths: Any) -> None:
    """Refuse archives that are compressed as a whole."""
    for path in paths:
        if str(path).lower().endswith(_PACKED):
            raise InputError(
                f"{path}: compressed, so that no image in it can be reached without reading all "
                "before it; decompress it (images hardly become smaller anyway)"
            )


def image_folder(path: Path) -> Path:
    """The shards themselves."""
    return path


def names_classes(path: Path, reading: Reading) -> bool:
    """With a list of them beside the shards."""
    return _classes_file(path).is_file()


def read(path: Path, reading: Reading) -> LabelTable:
    """Read what is known about the images of all shards, in their order."""
    problems, told = Problems(), reading
    if names_classes(path, reading):
        told = replace(reading, classes=_classes(_classes_file(path)))
    table = tags.collect(path, _rows(path, told, problems), told, problems, unit=": sample ")
    return in_class_order(table, reading, str(path))


def write(table: LabelTable, path: Path) -> list[str]:
    """Write what is known alone; the images stay where they are."""
    if path.suffix.lower() != ".tar":
        raise InputError(f"{path}: expected a name ending in .tar")
    with atomic_write(path) as file:
        for row, line in enumerate(json_lines(table)):
            file.write(entry(f"{key_of(row)}.json", line.encode()))
        file.write(END)
    return silent_classes(table)


def key_of(row: int) -> str:
    """What the files of an image are called."""
    return f"{row:09}"


def samples(
    file: BinaryIO, passed_over: Counter[str] | None = None
) -> Iterator[tuple[list[Member], str | None]]:
    """The images of each key, and the JSON about them; Damaged where the archive is."""

    def plain() -> Iterator[Member]:
        for each in members(file):
            if not each.kind:
                yield each
            elif passed_over is not None and each.kind != "folder":
                passed_over[each.kind] += 1

    for _, group in groupby(plain(), _key):
        files = list(group)
        about = [_text(file, each) for each in files if each.name.lower().endswith(".json")]
        yield [each for each in files if _is_image(each.name)], about[0] if about else None


def names_of(images: Sequence[Member], about: Any) -> list[str]:
    """What the images of a key are called."""
    name = about.get("file_name") if isinstance(about, dict) else None
    if len(images) <= 1 and isinstance(name, str):
        return [plain_name(name)]
    return [plain_name(each.name) for each in images]


def _rows(path: Path, reading: Reading, problems: Problems) -> Iterator[tags.Tags]:
    places = count()
    for shard in shards_in(path) if path.is_dir() else [path]:
        try:
            with open_file(shard) as file:
                for images, text in samples(file):
                    place = next(places)
                    where = f"{shard}: sample {place}"
                    with problems.kept():
                        about = {} if text is None else parse_json(text, where, Problems())
                        names = names_of(images, about)
                        if not isinstance(about, dict) or (about and not names):
                            problems.add(where, "sample", "expected an object and its image")
                        for name in names if about else ():
                            yield place, name, *known_in(about, where, reading, problems)
        except (Damaged, OSError) as problem:
            what = getattr(problem, "strerror", None) or problem
            problems.stop(str(shard), "tar", f"not a readable tar file ({what})")


def _key(member: Member) -> str:
    found = _KEY.fullmatch(member.name)
    return member.name if found is None else found[1]


def _is_image(name: str) -> bool:
    """By its ending; hidden files are none."""
    return name.lower().endswith(SUFFIXES) and not name.rpartition("/")[2].startswith(".")


def _text(file: BinaryIO, member: Member) -> str:
    """The beginning of a file that is too long is no JSON."""
    file.seek(member.data)
    return file.read(min(member.size, _LONGEST)).decode("utf-8", "replace")


def _classes(path: Path) -> tuple[str, ...]:
    problems = Problems()
    fail = partial(problems.stop, str(path), "class name")
    return checked_names(read_json(path, problems), fail)


def _classes_file(path: Path) -> Path:
    return (path if path.is_dir() else path.parent) / CLASSES
