"""Keywords of photos: a folder of photos with XMP or IPTC keywords in the files or in sidecars.

A label that a photo has no keyword for is unobserved; a photo without keywords is unlabelled. A
sidecar is `IMG.JPG.xmp` (darktable, digiKam) or `IMG.xmp` (Lightroom); its keywords and those in
the file count together. A keyword may have levels, `animal|bird|kestrel`: `--tag-level` says which
of them are classes. Keywords that g2netpl predicted are not known labels.

Only sidecars are written, never a photo.
"""

from collections import Counter
from pathlib import Path

import numpy as np
import numpy.typing as npt

from g2netpl.labels.io.builder import TableBuilder
from g2netpl.labels.io.issues import Issues
from g2netpl.labels.io.options import ReadOptions
from g2netpl.labels.io.photos.library import Hierarchy, Library, Photo, at_level
from g2netpl.labels.io.photos.sidecars import write_sidecars
from g2netpl.labels.names import normalize_name
from g2netpl.labels.paths import list_images, unread_note
from g2netpl.labels.table import NEGATIVE, POSITIVE, LabelTable, per_class
from g2netpl.utils.errors import InputError, counted

_SAMPLE = 50  # photos of a folder that are read to see whether they have keywords
_LIGHTROOM = "in Lightroom Classic select all photos and press Ctrl/Cmd+S, which saves the keywords"


def carry_tags(folder: Path) -> bool:
    """Whether some of the photos below a folder have keywords, by a sample."""
    names, library = list_images(folder), Library(folder)
    return any(library.photo(name).known for name in names[:: len(names) // _SAMPLE + 1])


def read(path: Path, reading: ReadOptions) -> LabelTable:
    """The keywords of all photos below a folder."""
    if not path.is_dir():
        raise InputError(f"{path}: expected a folder of photos with keywords")
    names, library, counter = list_images(path), Library(path), _Counter(reading)
    collector = TableBuilder(lambda place: f"{path}/{names[place]}", reading.classes, Issues())
    for place, name in enumerate(names):
        row = collector.image(place, name)
        for tag in counter.classes(library.photo(name)):
            collector.label(place, row, tag, POSITIVE)
    notes = counter.notes()
    if library.issues:
        count = counted(len(library.issues), "file")
        notes.append(f"keywords of {count} cannot be read, the first: {library.issues[0]}")
    if not counter.labelled:
        photos = f"{path}: no keywords found in {counted(len(names), 'photo')}"
        why = [*(notes[1:] if counter.tagged else [*notes[1:], _LIGHTROOM]), *unread_note(path)]
        raise InputError(f"{photos if names else f'{path}: no photos found'}; {'; '.join(why)}")
    return collector.table(reading.absent_value("unobserved"), notes)


def write(
    table: LabelTable,
    path: Path,
    guessed: npt.NDArray[np.bool_] | None = None,
    stem: bool = False,
    dry_run: bool = False,
) -> list[str]:
    """Write labels into sidecars; `guessed` are predicted. Returns notes on what was changed.

    A new sidecar is called `IMG.JPG.xmp`, or `IMG.xmp` with `stem`. A dry run writes nothing, and
    its notes name the first changes.
    """
    notes = write_sidecars(table, path, guessed, stem, dry_run)
    negatives = int(per_class(table.values, NEGATIVE).sum())
    if negatives:
        notes.append(f"{counted(negatives, 'negative label')} not kept: a keyword is a positive")
    return notes


class _Counter:
    """The classes of photos by their keywords, and counts for the notes."""

    def __init__(self, reading: ReadOptions) -> None:
        self._level = reading.level
        self._known = None if reading.classes is None else set(map(normalize_name, reading.classes))
        self._counts: Counter[str] = Counter()
        self._others: set[str] = set()  # keywords that are not classes
        self._hierarchy, self._used = Hierarchy(), set[str]()

    @property
    def labelled(self) -> int:
        """How many photos have a label."""
        return self._counts["labelled"]

    @property
    def tagged(self) -> int:
        """How many photos have a keyword, whether it is a class or not."""
        return self._counts["embedded"] + self._counts["sidecar"]

    def classes(self, photo: Photo) -> list[str]:
        """The classes of a photo."""
        known, embedded = photo.known, bool(photo.embedded.known)
        sidecar = any(tags.known for tags in photo.sidecars.values())
        tags = at_level(known, self._level)
        classes = [tag for tag in tags if self._known is None or normalize_name(tag) in self._known]
        self._hierarchy.add(known)
        self._used.update(classes)
        self._others |= tags.difference(classes)
        self._counts.update(
            photos=1,
            labelled=bool(classes),
            embedded=embedded,
            sidecar=sidecar,
            both=embedded and sidecar,
            predicted=len({path[-1] for path in photo.paths - known}),
            without_level=bool(known and not tags),
        )
        return sorted(classes)

    def notes(self) -> list[str]:
        """Where the keywords are, and which of them are not labels."""
        counts = self._counts
        notes = [
            f"keywords: {counts['embedded']:,} of {counts['photos']:,} photos in the file, "
            f"{counts['sidecar']:,} in sidecars, {counts['both']:,} in both"
        ]
        if counts["without_level"]:
            photos = counted(counts["without_level"], "photo")
            notes.append(f"{photos} with keywords, but none of level {self._level}")
        if self._others:
            what = f"{counted(len(self._others), 'keyword')} not among the classes"
            notes.append(f"{what} (such as {min(self._others)!r}): left out")
        if counts["predicted"]:
            what = counted(counts["predicted"], "keyword")
            notes.append(f"{what} predicted by g2netpl: not taken as known labels")
        for name in sorted(self._used):
            places = ["|".join(path) for path in self._hierarchy.places(name)]
            if len(places) > 1:
                notes.append(f"keyword {name!r} is one class for {' and '.join(places)}")
        return notes
