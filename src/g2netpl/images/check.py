"""Everything about a data set in one pass: what is labelled, what is wrong, what looks odd.

Errors are what a training rejects: mistakes in the label file, missing images, too many unreadable
ones. Warnings are what a training accepts, but a person may not want.
"""

import hashlib
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from multiprocessing import get_context

import numpy as np

from g2netpl.images.duplicates import phash
from g2netpl.images.pixels import open_image, way_out
from g2netpl.images.sources import GO_ON_WITHOUT, find
from g2netpl.images.unlisted import find_unlisted_images, others_left_out, unread_around
from g2netpl.labels.class_warnings import (
    named_nothing,
    no_opposite,
    on_one_image,
    similar_class_names,
)
from g2netpl.labels.files import Files, as_files, each_file, ensure_local, named
from g2netpl.labels.io import (
    USUAL,
    Issue,
    LabelFileError,
    Paths,
    ReadOptions,
    image_folder,
    read_labels,
    single_label,
)
from g2netpl.labels.io.cells import MARKS
from g2netpl.labels.io.merging import lines_of
from g2netpl.labels.io.writing import write_rows
from g2netpl.labels.names import normalize_name
from g2netpl.labels.table import NEGATIVE, POSITIVE, LabelTable, per_class
from g2netpl.utils.errors import InputError, counted
from g2netpl.utils.image_refs import open_file

_FEW = 200  # images, for which starting processes takes longer


@dataclass(frozen=True)
class ClassCount:
    """How many labels of a class are known."""

    name: str
    positive: int
    negative: int
    unknown: int


def class_counts(table: LabelTable) -> list[ClassCount]:
    """How many labels of every class are known."""
    positive, negative = (per_class(table.values, value).tolist() for value in (POSITIVE, NEGATIVE))
    return [
        ClassCount(name, yes, no, len(table) - yes - no)
        for name, yes, no in zip(table.classes, positive, negative, strict=True)
    ]


@dataclass
class Inspection:
    """What the check found."""

    files: Files
    images: str | None
    table: LabelTable | None = None
    classes: list[ClassCount] = field(default_factory=list)
    errors: list[Issue] = field(default_factory=list)
    warnings: list[Issue] = field(default_factory=list)
    facts: list[str] = field(default_factory=list)
    remedy: str = ""  # of the errors, if they do not name it themselves
    hashes: dict[str, int] = field(default_factory=dict)  # of every readable image, by path

    @property
    def labels(self) -> str:
        """The label files, for people."""
        return named(self.files)

    def refuse(self, where: str, kind: str, what: str) -> None:
        """Add an error."""
        self.errors.append(Issue(where, kind, what))

    def warn(self, where: str, kind: str, what: str) -> None:
        """Add a warning."""
        self.warnings.append(Issue(where, kind, what))


@dataclass(frozen=True)
class FileFacts:
    """What was found out about one image file."""

    path: str
    digest: str = ""
    size: tuple[int, int] = (0, 0)
    phash: int = 0
    problem: str | None = None


def inspect_labels(
    files: Paths, format: str | None = None, reading: ReadOptions = USUAL
) -> Inspection:
    """Read one or several label files and check the labels; all mistakes become errors."""
    found = Inspection(as_files(files), None)
    path = found.labels
    try:
        table = read_labels(files, format, reading)
    except LabelFileError as problem:
        found.errors, found.remedy = list(problem.issues), problem.hint
        return found
    found.table, found.facts, found.classes = table, list(table.notes), class_counts(table)
    if not reading.single_label and single_label.looks_single_label(table.values):
        found.facts.append(single_label.HINT)
    no_names = [] if reading.single_label else named_nothing(table)
    found.facts += [*no_names, *no_opposite(table), *on_one_image(table)]
    if len(table) < 2:
        found.refuse(path, "images", f"expected at least 2 images, got {len(table)}")
    if not any(count.positive for count in found.classes):
        found.refuse(path, "labels", "no positive label; nothing to learn from")
    for count in found.classes:
        if count.positive == 0:
            what = "nobody observed it" if count.negative == 0 else "it has no positive"
            found.warn(path, "class without positives", f"class {count.name!r}: {what}")
    for similar in similar_class_names(table):
        found.warn(path, "classes that look alike", str(similar))
    for name in several_tags(table.classes):
        found.warn(path, "several tags in one", f"class {name!r}: is --separator right?")
    return found


def inspect_images(
    found: Inspection,
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
    assert found.table is not None
    is_whole, table = not found.errors, found.table
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
    used = {
        name: path
        for row, (name, path) in enumerate(zip(table.images, located.paths, strict=True))
        if row not in missing
    }
    around = find_unlisted_images(found.files, format, folder)
    found.facts += unread_around(found.files, format, folder)
    if around:
        listed = set(map(normalize_name, (*located.paths, *elsewhere)))
        paths = find(around, root, exactly=True).paths
        pairs = zip(around, paths, strict=True)
        unlisted = {name: path for name, path in pairs if normalize_name(path) not in listed}
        for names in _same_names(around):
            found.warn(root, "file names that look the same", names)
        left_out = others_left_out(found.files, format)
        use = "left out" if left_out else "unlabelled training images"
        if unlisted and is_whole:
            found.facts.append(f"{counted(len(unlisted), 'image')} in {root} not listed: {use}")
        if not left_out:
            table = table.with_unlabelled([*unlisted])
            used |= unlisted
    if located.missing and is_whole and not may_miss:
        found.remedy = f"is --images the right folder?{GO_ON_WITHOUT}"
    lines = _lines_of(found.files, {table.images[row] for row in located.missing})
    for row in located.missing:
        name = table.images[row]
        where, what = lines.get(name, found.labels), f"image {name!r} is not in {root}"
        (found.warn if may_miss else found.refuse)(where, "images not there", what)
    if decode:
        facts = []
        for fact in inspect_files([*used.values()], workers):
            facts.append(fact)
            advance(1)
        row_of = {name: row for row, name in enumerate(table.images)}
        _report_files(
            found, table, [row_of[name] for name in used], facts, most_unreadable(len(table))
        )


def _lines_of(files: Files, names: set[str]) -> dict[str, str]:
    """The line of each name in label files."""
    lines: dict[str, str] = {}
    for file in each_file(files) if names else ():
        path = ensure_local(file)
        numbers = lines_of(path, names)
        lines = {name: f"{file}:{line}" for name, line in numbers.items()} | lines
    return lines


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
        with open_file(path) as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
    except InputError as problem:
        return FileFacts(path, problem=str(problem))
    except OSError as problem:
        return FileFacts(path, problem=f"{path}: cannot be read ({problem.strerror})")
    return FileFacts(path, digest, image.size, phash(image))


def _report_files(
    found: Inspection, table: LabelTable, rows: list[int], facts: list[FileFacts], allowed: int
) -> None:
    """Add what was found out about the images; `rows` are theirs in the table."""
    bad = [
        Issue(fact.path, "unreadable images", fact.problem.removeprefix(f"{fact.path}: "))
        for fact in facts
        if fact.problem is not None
    ]
    (found.errors if len(bad) > allowed else found.warnings).extend(bad)
    if len(bad) > allowed:
        found.remedy += f"{'; ' if found.remedy else ''}unreadable images: {way_out(len(bad))}"
    readable = [fact for fact in facts if fact.problem is None]
    found.hashes |= {fact.path: fact.phash for fact in readable}
    if readable:
        areas = [fact.size[0] * fact.size[1] for fact in readable]
        small, large = (readable[int(pick(areas))].size for pick in (np.argmin, np.argmax))
        found.facts.append(
            f"{counted(len(readable), 'readable image')}, from {small[0]}×{small[1]} "
            f"to {large[0]}×{large[1]} pixels"
        )
    by_digest = defaultdict(list)
    for row, fact in zip(rows, facts, strict=True):
        if fact.problem is None:
            by_digest[fact.digest].append(row)
    for group in by_digest.values():
        if len(group) > 1:
            names, values = " = ".join(table.images[row] for row in group[:5]), table.values[group]
            clash = (values == POSITIVE).any(axis=0) & (values == NEGATIVE).any(axis=0)
            classes = [table.classes[column] for column in np.flatnonzero(clash)[:5]]
            kind = "equal images, contradicting labels" if classes else "equal images"
            found.warn(found.labels, kind, f"{names}{': ' if classes else ''}{', '.join(classes)}")


def _same_names(names: Sequence[str]) -> list[str]:
    """Names of files that differ only in how their accents are written."""
    spellings = defaultdict(list)
    for name in names:
        spellings[normalize_name(name)].append(ascii(name))
    return [" and ".join(group) for group in spellings.values() if len(group) > 1]


def write_issues(found: Inspection, path: str) -> None:
    """All errors and warnings as CSV."""
    parts = (("error", found.errors), ("warning", found.warnings))
    rows = (
        (name, each.where, each.row, each.column, each.kind, each.message)
        for name, issues in parts
        for each in issues
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

    def parts_known(name: str, separator: str) -> int:
        parts = [part.strip() for part in name.split(separator)]
        return 0 if len(parts) == 1 else sum(part in known for part in parts)

    return [
        name
        for name in classes
        if any(parts_known(name, separator) for separator in MARKS)
        or parts_known(name, " ") > name.count(" ")  # "dining table" is one class, and "table" too
    ]
