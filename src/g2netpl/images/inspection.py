"""Everything about a data set in one pass: what is labelled, what is wrong, what looks odd.

Errors are what a training would refuse: mistakes in the label file, images that are not there, too
many that cannot be read. Warnings are what it would put up with, but a person may not want.
"""

import hashlib
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from multiprocessing import get_context

import numpy as np

from g2netpl.base.errors import InputError, counted
from g2netpl.base.inside import open_file
from g2netpl.base.system import MOST_PROCESSES
from g2netpl.images.near_duplicates import look_of
from g2netpl.images.pixels import open_image, way_out
from g2netpl.images.sources import GO_ON_WITHOUT, find
from g2netpl.images.unlisted import images_around, others_left_out, unread_around
from g2netpl.labels.doubts import called_nothing, on_one_image, without_opposite
from g2netpl.labels.fetching import at_hand
from g2netpl.labels.files import Files, as_files, each_file, named
from g2netpl.labels.formats import (
    USUAL,
    LabelFileError,
    Paths,
    Problem,
    Reading,
    image_folder,
    one_of,
    read_labels,
)
from g2netpl.labels.formats.sheet import write_rows
from g2netpl.labels.formats.tags import MARKS
from g2netpl.labels.formats.text import TEXT_ENDINGS, lines_of
from g2netpl.labels.look_alikes import look_alikes
from g2netpl.labels.spelling import composed
from g2netpl.labels.table import NEGATIVE, POSITIVE, LabelTable, per_class


@dataclass(frozen=True)
class ClassCount:
    """What is known about one class."""

    name: str
    positive: int
    negative: int
    unknown: int


def class_counts(table: LabelTable) -> list[ClassCount]:
    """What is known about every class."""
    positive, negative = (per_class(table.values, value).tolist() for value in (POSITIVE, NEGATIVE))
    return [
        ClassCount(name, yes, no, len(table) - yes - no)
        for name, yes, no in zip(table.classes, positive, negative, strict=True)
    ]


@dataclass
class Inspection:
    """What was found."""

    files: Files
    images: str | None
    table: LabelTable | None = None
    classes: list[ClassCount] = field(default_factory=list)
    errors: list[Problem] = field(default_factory=list)
    warnings: list[Problem] = field(default_factory=list)
    facts: list[str] = field(default_factory=list)
    remedy: str = ""  # of the errors, where they do not tell it themselves
    looks: dict[str, int] = field(default_factory=dict)  # of every image that was read, by path

    @property
    def labels(self) -> str:
        """The label files, for people."""
        return named(self.files)

    def refuse(self, where: str, kind: str, what: str) -> None:
        """Note what a training would refuse."""
        self.errors.append(Problem(where, kind, what))

    def warn(self, where: str, kind: str, what: str) -> None:
        """Note what a person may not want."""
        self.warnings.append(Problem(where, kind, what))


@dataclass(frozen=True)
class FileFacts:
    """What one image file told."""

    path: str
    digest: str = ""
    size: tuple[int, int] = (0, 0)
    look: int = 0
    problem: str | None = None


def inspect_labels(files: Paths, format: str | None = None, reading: Reading = USUAL) -> Inspection:
    """Read the label file and look at its labels; all mistakes in it become errors.

    Several files are looked at as one.
    """
    found = Inspection(as_files(files), None)
    path = found.labels
    try:
        table = read_labels(files, format, reading)
    except LabelFileError as problem:
        found.errors = list(problem.problems)
        found.remedy = problem.hint
        return found
    found.table = table
    found.facts = list(table.notes)
    if not reading.one_of and one_of.looks_so(table.values):
        found.facts.append(one_of.HINT)
    named = [] if reading.one_of else called_nothing(table)
    found.facts += [*named, *without_opposite(table), *on_one_image(table)]
    found.classes = class_counts(table)
    if len(table) < 2:
        found.refuse(path, "images", f"expected at least 2 images, got {len(table)}")
    if not any(each.positive for each in found.classes):
        found.refuse(path, "labels", "no positive label; nothing to learn from")
    for each in found.classes:
        if each.positive == 0:
            what = "nobody observed it" if each.negative == 0 else "it has no positive"
            found.warn(path, "class without positives", f"class {each.name!r}: {what}")
    for alike in look_alikes(table):
        found.warn(path, "classes that look alike", str(alike))
    for name in several_tags(table.classes):
        found.warn(path, "several tags in one", f"class {name!r}: is --separator right?")
    return found


def inspect_images(
    found: Inspection,
    folder: str | None,
    format: str | None,
    workers: int,
    most_bad: Callable[[int], int],
    advance: Callable[[int], None],
    *,
    decode: bool,
    elsewhere: Collection[str],
    may_miss: bool,
) -> None:
    """Look at every image that a training would use: those listed, and others in the folder.

    Those at the paths `elsewhere` are of another part of the data; listed ones `may_miss`, and of
    so many images `most_bad` says how many may be unreadable.
    """
    assert found.table is not None
    whole = not found.errors
    table = found.table
    root = found.images = folder or str(image_folder(found.files, format))
    try:
        located = find(table.images, root)
    except InputError as problem:
        found.refuse(root, "image names", str(problem).removeprefix(f"{root}: "))
        return
    if located.notes:
        table = found.table = table.with_images(located.names)
        found.facts += located.notes
    missing = set(located.missing)
    paths = [each for row, each in enumerate(located.paths) if row not in missing]
    names = [name for row, name in enumerate(table.images) if row not in missing]
    there = images_around(found.files, format, folder)
    found.facts += unread_around(found.files, format, folder)
    if there:
        listed = set(map(composed, (*located.paths, *elsewhere)))
        around = zip(there, find(there, root, exactly=True).paths, strict=True)
        unlisted = {name: path for name, path in around if composed(path) not in listed}
        for twins in _same_looks(there):
            found.warn(root, "file names that look the same", twins)
        left_out = others_left_out(found.files, format)
        use = "left out" if left_out else "unlabelled training images"
        if unlisted and whole:
            found.facts.append(f"{counted(len(unlisted), 'image')} in {root} not listed: {use}")
        if not left_out:
            table = table.with_unlabelled([*unlisted])
            names += unlisted
            paths += unlisted.values()
    if located.missing and whole and not may_miss:
        found.remedy = f"is --images the right folder?{GO_ON_WITHOUT}"
    lines = _lines_of(found.files, {table.images[row] for row in located.missing})
    for row in located.missing:
        name = table.images[row]
        where, what = lines.get(name, found.labels), f"image {name!r} is not in {root}"
        (found.warn if may_miss else found.refuse)(where, "images not there", what)
    if not decode:
        return
    facts = []
    for each in look_at_files(paths, workers):
        facts.append(each)
        advance(1)
    row_of = {name: row for row, name in enumerate(table.images)}
    _judge_files(found, table, [row_of[name] for name in names], facts, most_bad(len(table)))


def _lines_of(files: Files, names: set[str]) -> dict[str, str]:
    """Where each name stands in label files that are text; those of others are not known."""
    found: dict[str, str] = {}
    for file in each_file(files) if names else ():
        path = at_hand(file)
        if path.suffix.lower() in TEXT_ENDINGS and path.is_file():
            with suppress(InputError):  # another encoding
                lines = lines_of(path, names)
                found = {name: f"{file}:{line}" for name, line in lines.items()} | found
    return found


def look_at_files(paths: Sequence[str], workers: int) -> Iterator[FileFacts]:
    """Decode and hash every file, in order."""
    if workers == 0 or len(paths) < 200:  # starting processes takes longer
        yield from map(_look_at, paths)
        return
    with ProcessPoolExecutor(min(workers, MOST_PROCESSES), get_context("spawn")) as pool:
        yield from pool.map(_look_at, paths, chunksize=32)


def write_problems(found: Inspection, path: str) -> None:
    """All errors and warnings as CSV."""
    parts = (("error", found.errors), ("warning", found.warnings))
    rows = ((name, p.kind, p.where, p.what) for name, problems in parts for p in problems)
    write_rows(path, ["severity", "kind", "where", "what"], rows)


def by_kind(problems: Iterable[Problem]) -> dict[str, list[Problem]]:
    """Problems of one kind together, in the order of their first."""
    groups = defaultdict(list)
    for problem in problems:
        groups[problem.kind].append(problem)
    return groups


def _look_at(path: str) -> FileFacts:
    try:
        image = open_image(path)
        with open_file(path) as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
    except InputError as problem:
        return FileFacts(path, problem=str(problem))
    except OSError as problem:
        return FileFacts(path, problem=f"{path}: cannot be read ({problem.strerror})")
    return FileFacts(path, digest, image.size, look_of(image))


def _judge_files(
    found: Inspection,
    table: LabelTable,
    rows: list[int],
    facts: list[FileFacts],
    allowed: int,
) -> None:
    bad = [
        Problem(each.path, "unreadable images", each.problem.removeprefix(f"{each.path}: "))
        for each in facts
        if each.problem is not None
    ]
    (found.errors if len(bad) > allowed else found.warnings).extend(bad)
    if len(bad) > allowed:
        found.remedy += f"{'; ' if found.remedy else ''}unreadable images: {way_out(len(bad))}"
    readable = [each for each in facts if each.problem is None]
    found.looks |= {each.path: each.look for each in readable}
    if readable:
        areas = [each.size[0] * each.size[1] for each in readable]
        small, large = (readable[int(pick(areas))].size for pick in (np.argmin, np.argmax))
        found.facts.append(
            f"{counted(len(readable), 'readable image')}, from {small[0]}×{small[1]} "
            f"to {large[0]}×{large[1]} pixels"
        )
    twins = defaultdict(list)
    for row, each in zip(rows, facts, strict=True):
        if each.problem is None:
            twins[each.digest].append(row)
    for group in twins.values():
        if len(group) > 1:
            _judge_twins(found, table, group)


def _same_looks(names: Sequence[str]) -> list[str]:
    """Names of files that only differ in how their accents are written, in words."""
    looks = defaultdict(list)
    for name in names:
        looks[composed(name)].append(ascii(name))
    return [" and ".join(group) for group in looks.values() if len(group) > 1]


def _judge_twins(found: Inspection, table: LabelTable, rows: list[int]) -> None:
    names = " = ".join(table.images[row] for row in rows[:5])
    values = table.values[rows]
    clash = (values == POSITIVE).any(axis=0) & (values == NEGATIVE).any(axis=0)
    if clash.any():
        classes = ", ".join(np.array(table.classes, dtype=object)[clash][:5])
        found.warn(found.labels, "equal images, contradicting labels", f"{names}: {classes}")
    else:
        found.warn(found.labels, "equal images", names)


def several_tags(classes: Sequence[str]) -> list[str]:
    """Names that look like tags that were not separated: a part of them is a class itself."""
    known = set(classes)

    def parts_known(name: str, separator: str) -> int:
        parts = [part.strip() for part in name.split(separator)]
        return 0 if len(parts) == 1 else sum(part in known for part in parts)

    return [
        name
        for name in classes
        if any(parts_known(name, separator) for separator in MARKS)
        or parts_known(name, " ") > name.count(" ")  # "dining table" is one class, and "table" too
    ]
