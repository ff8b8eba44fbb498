"""Tags in photos: a folder of them, with keywords in XMP or IPTC, in the files or in sidecars.

What a photo is not tagged with is unobserved; one without any tag is unlabelled. A sidecar is
`IMG.JPG.xmp` (darktable, digiKam) or `IMG.xmp` (Lightroom) beside it; its tags and those of the
photo itself count together. A tag may have levels, `animal|bird|kestrel`: the last one is the
class, or what `--tag-level` says. Tags that nobody gave, but g2netpl, are no known labels.

Only sidecars are written, never a photo.
"""

from collections import Counter
from pathlib import Path

import numpy as np
import numpy.typing as npt

from g2netpl.base.errors import InputError, counted
from g2netpl.labels.formats.collector import Collector
from g2netpl.labels.formats.photos.library import Library, Photo, Places, at_level
from g2netpl.labels.formats.photos.sidecars import write_sidecars
from g2netpl.labels.formats.problems import Problems
from g2netpl.labels.formats.reading import Reading
from g2netpl.labels.paths import list_images
from g2netpl.labels.spelling import composed
from g2netpl.labels.table import NEGATIVE, POSITIVE, LabelTable, per_class

_LOOKED_AT = 50  # photos of a folder, to see whether they carry tags


def recognises(path: Path) -> bool:
    """Nothing by its looks: any folder may hold photos, so this format is asked for by name."""
    return False


def carry_tags(folder: Path) -> bool:
    """Whether some of the photos below a folder have tags; a few of them are looked at."""
    names, library = list_images(folder), Library(folder)
    return any(library.photo(name).given for name in names[:: len(names) // _LOOKED_AT + 1])


def read(path: Path, reading: Reading) -> LabelTable:
    """The tags of all photos below a folder."""
    if not path.is_dir():
        raise InputError(f"{path}: expected a folder of photos with tags in them or beside them")
    names, library, tally = list_images(path), Library(path), _Tally(reading)
    collector = Collector(lambda place: f"{path}/{names[place]}", reading.classes, Problems())
    for place, name in enumerate(names):
        row = collector.next_image(place, name)
        for tag in tally.classes(library.photo(name)):
            collector.label(place, row, tag, POSITIVE)
    notes = tally.notes()
    if library.troubles:
        faults = counted(len(library.troubles), "fault")
        notes.append(f"{faults} in tags, which are not read; the first: {library.troubles[0]}")
    if not tally.labelled:
        raise InputError(f"{path}: no photo has a tag to learn from: {'; '.join(notes)}")
    return collector.table(reading.absent_value("unobserved"), notes)


def write(
    table: LabelTable,
    path: Path,
    guessed: npt.NDArray[np.bool_] | None = None,
    stem: bool = False,
    dry_run: bool = False,
) -> list[str]:
    """Bring labels into sidecars beside the photos; `guessed` are those that nobody gave.

    A new sidecar is called `IMG.JPG.xmp`, or `IMG.xmp` by the `stem`. A dry run writes nothing,
    and its notes tell the first changes.
    """
    notes = write_sidecars(table, path, guessed, stem, dry_run)
    negatives = int(per_class(table.values, NEGATIVE).sum())
    if negatives:
        notes.append(f"{counted(negatives, 'negative label')} not kept: a tag says what is there")
    return notes


class _Tally:
    """Which classes the tags of photos stand for, and what a person is to be told of them."""

    def __init__(self, reading: Reading) -> None:
        self._level = reading.level
        self._known = None if reading.classes is None else set(map(composed, reading.classes))
        self._counts: Counter[str] = Counter()
        self._others: set[str] = set()  # tags that are none of the classes
        self._places, self._used = Places(), set[str]()

    @property
    def labelled(self) -> int:
        """How many photos have a label."""
        return self._counts["labelled"]

    def classes(self, photo: Photo) -> list[str]:
        """The classes of a photo."""
        given, inside = photo.given, bool(photo.own.given)
        beside = any(each.given for each in photo.beside.values())
        found = at_level(given, self._level)
        mine = [tag for tag in found if self._known is None or composed(tag) in self._known]
        self._places.add(given)
        self._used.update(mine)
        self._others |= found.difference(mine)
        self._counts.update(
            photos=1,
            labelled=bool(mine),
            inside=inside,
            beside=beside,
            both=inside and beside,
            ours=len({path[-1] for path in photo.paths - given}),
            flat=0 if found or not given else 1,
        )
        return sorted(mine)

    def notes(self) -> list[str]:
        """Where tags come from, and what is not taken as a label."""
        counts = self._counts
        notes = [
            f"{counts['inside']:,} of {counts['photos']:,} photos have tags in themselves, "
            f"{counts['beside']:,} in sidecars, {counts['both']:,} in both"
        ]
        if counts["flat"]:
            what = f"without a tag of level {self._level}"
            notes.append(f"{counted(counts['flat'], 'tagged photo')} {what}")
        if self._others:
            what = f"{counted(len(self._others), 'tag')} not among the classes"
            notes.append(f"{what}, as {min(self._others)!r}: left out")
        if counts["ours"]:
            notes.append(f"{counted(counts['ours'], 'tag')} added by g2netpl: not taken as known")
        for name in sorted(self._used):
            places = ["|".join(path) for path in self._places.of(name)]
            if len(places) > 1:
                notes.append(f"tag {name!r} is one class for {' and '.join(places)}")
        return notes
