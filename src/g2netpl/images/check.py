"""Everything about a data set in one pass: what is labelled, what is wrong, what looks odd.

Errors are what a training rejects: mistakes in the label file, missing images, too many unreadable
ones. Warnings are what a training accepts, but a person may not want.
"""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from math import prod
from multiprocessing import get_context
from typing import NamedTuple

import numpy as np

from g2netpl.images.duplicates import phash
from g2netpl.images.pixels import open_image, unreadable_hint
from g2netpl.images.sources import LEAVE_OUT_HINT, find, images_around, others_left_out
from g2netpl.labels.class_warnings import class_notes, similar_class_names
from g2netpl.labels.files import Files, as_files, named
from g2netpl.labels.io import (
    USUAL,
    Issue,
    LabelFileError,
    Paths,
    ReadOptions,
    image_folder,
    read_labels,
)
from g2netpl.labels.io.cells import MARKS
from g2netpl.labels.io.writing import write_rows
from g2netpl.labels.names import normalize_name
from g2netpl.labels.table import NEGATIVE, POSITIVE, LabelTable, per_class
from g2netpl.utils.errors import InputError, counted
from g2netpl.utils.image_refs import file_digest

_FEW = 200  # images, for which starting processes takes longer


class ClassCount(NamedTuple):
    """How many labels of a class are known."""

    name: str
    positive: int
    negative: int
    unknown: int


def class_counts(table: LabelTable) -> list[ClassCount]:
    """How many labels of every class are known."""
    positive, negative = (per_class(table.values, value).tolist() for value in (POSITIVE, NEGATIVE))
    known = zip(table.classes, positive, negative, strict=True)
    return [ClassCount(name, yes, no, len(table) - yes - no) for name, yes, no in known]


@dataclass
class Inspection:
    """What the check found."""

    files: Files
    table: LabelTable | None = None
    classes: list[ClassCount] = field(default_factory=list)
    errors: list[Issue] = field(default_factory=list)
    warnings: list[Issue] = field(default_factory=list)
    facts: list[str] = field(default_factory=list)
    remedy: str = ""  # of the errors, if they do not name it themselves
    hashes: dict[str, int] = field(default_factory=dict)  # of every readable image, by path
    images: str | None = None  # the folder

    @property
    def labels(self) -> str:
        """The label files, for people."""
        return named(self.files)

    def reject(self, *issue: str) -> None:
        """Add an error: where, its kind, what is wrong."""
        self.errors.append(Issue(*issue))

    def warn(self, *issue: str) -> None:
        """Add a warning: where, its kind, what is odd."""
        self.warnings.append(Issue(*issue))


class FileFacts(NamedTuple):
    """What was found out about one image file."""

    path: str
    digest: bytes | None = None
    size: tuple[int, int] = (0, 0)
    phash: int = 0
    problem: str | None = None


def inspect_labels(
    files: Paths, format: str | None = None, reading: ReadOptions = USUAL
) -> Inspection:
    """Read one or several label files and check the labels; all mistakes become errors."""
    try:
        table = read_labels(files, format, reading)
    except LabelFileError as problem:
        return Inspection(as_files(files), errors=[*problem.issues], remedy=problem.hint)
    result = Inspection(as_files(files), table, class_counts(table), facts=[*table.notes])
    path = result.labels
    result.facts += class_notes(table, reading.single_label)
    if len(table) < 2:
        result.reject(path, "images", f"expected at least 2 images, got {len(table)}")
    if not any(count.positive for count in result.classes):
        result.reject(path, "labels", "no positive label; nothing to learn from")
    for count in result.classes:
        if count.positive == 0:
            what = "nobody observed it" if count.negative == 0 else "it has no positive"
            result.warn(path, "class without positives", f"class {count.name!r}: {what}")
    for similar in similar_class_names(table):
        result.warn(path, "classes that look alike", str(similar))
    for name in several_tags(table.classes):
        result.warn(
            path,
            "several tags in one",
            f"class {name!r}: is --set separator=MARKS needed?",
        )
    return result


def inspect_images(
    result: Inspection,
    folder: str | None,
    format: str | None,
    workers: int,
    most_unreadable: Callable[[int], int],
    advance: Callable[[int], None],
    *,
    decode: bool,
    elsewhere: Collection[str],
    may_miss: bool,
) -> None:
    """Check every image that a training would use: those listed, and others in the folder.

    The images at the paths `elsewhere` are of other splits. If `may_miss`, listed images may be
    missing. `most_unreadable` says how many of so many images may be unreadable.
    """
    table, is_whole = result.table, not result.errors
    assert table is not None
    root = result.images = folder or str(image_folder(result.files, format))
    try:
        located = find(table.images, root)
    except InputError as problem:
        result.reject(root, "image names", str(problem).removeprefix(f"{root}: "))
        return
    if located.notes:
        table = result.table = table.with_images(located.names)
        result.facts += located.notes
    used = dict(zip(table.images, located.paths, strict=True))
    missing = [table.images[row] for row in located.missing]
    for name in missing:
        del used[name]
    if missing and is_whole and not may_miss:
        result.remedy = f"is --images the right folder?{LEAVE_OUT_HINT}"
    report = result.warn if may_miss else result.reject
    for name in missing:
        report(result.labels, "images not there", f"image {name!r} is not in {root}")
    around, notes = images_around(result.files, format, folder)
    result.facts += notes
    listed = {normalize_name(path) for path in (*located.paths, *elsewhere)}
    paths = find(around, root, exactly=True).paths if around else []
    there = zip(around, paths, strict=True)
    unlisted = {name: path for name, path in there if normalize_name(path) not in listed}
    if unlisted:
        left_out = others_left_out(result.files, format)
        use = "left out" if left_out else "unlabelled training images"
        if is_whole:
            result.facts.append(f"{counted(len(unlisted), 'image')} in {root} not listed: {use}")
        if not left_out:
            table = table.with_unlabelled([*unlisted])
            used |= unlisted
    if decode:
        files = {}
        for name, facts in zip(used, inspect_files([*used.values()], workers), strict=True):
            files[name] = facts
            advance(1)
        _report_files(result, table, files, most_unreadable(len(table)))


def inspect_files(paths: Sequence[str], workers: int) -> Iterator[FileFacts]:
    """Decode and hash every file, in order."""
    if workers == 0 or len(paths) < _FEW:
        yield from map(_inspect_file, paths)
        return
    with ProcessPoolExecutor(min(workers, 61), get_context("spawn")) as pool:
        yield from pool.map(_inspect_file, paths, chunksize=32)


def _inspect_file(path: str) -> FileFacts:
    try:
        image = open_image(path)
    except InputError as problem:
        return FileFacts(path, problem=str(problem).removeprefix(f"{path}: "))
    return FileFacts(path, file_digest(path), image.size, phash(image))


def _report_files(
    result: Inspection, table: LabelTable, files: Mapping[str, FileFacts], allowed: int
) -> None:
    """Add what was found out about the images, by their names in the table."""
    readable = {name: facts for name, facts in files.items() if facts.problem is None}
    bad = [facts for facts in files.values() if facts.problem is not None]
    for facts in bad:
        report = result.reject if len(bad) > allowed else result.warn
        report(facts.path, "unreadable images", facts.problem or "")
    if len(bad) > allowed:
        hint = f"unreadable images: {unreadable_hint(len(bad))}"
        result.remedy += f"; {hint}" if result.remedy else hint
    result.hashes |= {facts.path: facts.phash for facts in readable.values()}
    if readable:
        sizes = sorted((facts.size for facts in readable.values()), key=lambda size: prod(size))
        (width, height), (widest, highest) = sizes[0], sizes[-1]
        range_of_sizes = f"from {width}×{height} to {widest}×{highest} pixels"
        result.facts.append(f"{counted(len(readable), 'readable image')}, {range_of_sizes}")
    row_of = {name: row for row, name in enumerate(table.images)}
    equal = defaultdict(list)
    for name, facts in readable.items():
        equal[facts.digest].append(row_of[name])
    for rows in equal.values():
        if len(rows) > 1:
            names, values = " = ".join(table.images[row] for row in rows[:5]), table.values[rows]
            clash = (values == POSITIVE).any(axis=0) & (values == NEGATIVE).any(axis=0)
            classes = [table.classes[column] for column in np.flatnonzero(clash)[:5]]
            kind = "equal images, contradicting labels" if classes else "equal images"
            result.warn(
                result.labels, kind, f"{names}{': ' if classes else ''}{', '.join(classes)}"
            )


def write_issues(result: Inspection, path: str) -> None:
    """All errors and warnings as CSV."""
    parts = (("error", result.errors), ("warning", result.warnings))
    rows = (
        (severity, issue.where, issue.row, issue.column, issue.kind, issue.message)
        for severity, issues in parts
        for issue in issues
    )
    write_rows(path, ["severity", "where", "row", "column", "kind", "message"], rows)


def by_kind(issues: Iterable[Issue]) -> dict[str, list[Issue]]:
    """Issues of one kind together, in the order of their first."""
    groups = defaultdict(list)
    for issue in issues:
        groups[issue.kind].append(issue)
    return groups


def several_tags(classes: Sequence[str]) -> list[str]:
    """Names that look like several tags: a part of them is a class itself."""
    known = set(classes)

    def is_several(name: str) -> bool:
        words = name.split(" ")  # "dining table" is one class, even if "table" is one too
        parts = [part.strip() for mark in MARKS if mark in name for part in name.split(mark)]
        return not known.isdisjoint(parts) or (len(words) > 1 and known.issuperset(words))

    return [name for name in classes if is_several(name)]
