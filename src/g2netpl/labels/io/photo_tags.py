"""Keywords of photos: a folder of photos with XMP or IPTC keywords in the files or in sidecars.

A label that a photo has no keyword for is unobserved; a photo without keywords is unlabelled. A
sidecar is `IMG.JPG.xmp` (darktable, digiKam) or `IMG.xmp` (Lightroom); its keywords and those in
the file count together. A keyword may have levels, `animal|bird|kestrel`: `--tag-level` says which
of them are classes. Keywords that g2netpl predicted are not known labels.

Only sidecars are written, never a photo.
"""

from pathlib import Path

import pandas as pd

from g2netpl.labels.io.build import LABELS, long_table
from g2netpl.labels.io.issues import Issues
from g2netpl.labels.io.options import ReadOptions
from g2netpl.labels.io.photos import Library, at_level, places_of_words
from g2netpl.labels.io.sidecars import write as write
from g2netpl.labels.names import normalize_name, plain_names
from g2netpl.labels.paths import list_images, unread_note
from g2netpl.labels.table import POSITIVE, LabelTable
from g2netpl.utils.errors import InputError, counted

_SAMPLE = 50  # photos of a folder that are read to see whether they have keywords
_LIGHTROOM = "in Lightroom Classic select all photos and press Ctrl/Cmd+S, which saves the keywords"


def carry_tags(folder: Path) -> bool:
    """Whether some of the photos below a folder have keywords, by a sample."""
    names, library = list_images(folder), Library(folder)
    return any(library.photo(name).tags().known for name in names[:: len(names) // _SAMPLE + 1])


def read(path: Path, options: ReadOptions) -> LabelTable:
    """The keywords of all photos below a folder."""
    if not path.is_dir():
        raise InputError(f"{path}: expected a folder of photos with keywords")
    names, library = list_images(path), Library(path)
    photos = [library.photo(name) for name in names]
    tags = [photo.tags() for photo in photos]
    found = [at_level(some.known, options.level) for some in tags]
    words = {word for some in found for word in some}
    wanted = {*map(normalize_name, words if options.classes is None else options.classes)}
    others = {word for word in words if normalize_name(word) not in wanted}
    in_file = [bool(photo.embedded.known) for photo in photos]
    in_sidecar = [any(some.known for some in photo.sidecars.values()) for photo in photos]
    both = sum(a and b for a, b in zip(in_file, in_sidecar, strict=True))
    notes = [
        f"keywords: {sum(in_file):,} of {counted(len(names), 'photo')} in the file, "
        f"{sum(in_sidecar):,} in sidecars, {both:,} in both"
    ]
    without = sum(bool(some.known) and not at for some, at in zip(tags, found, strict=True))
    if without:
        what = counted(without, "photo")
        notes.append(f"{what} with keywords, but none of level {options.level}")
    if others:
        what = f"{counted(len(others), 'keyword')} not among the classes"
        notes.append(f"{what} (such as {min(others)!r}): left out")
    predicted = sum(len({path[-1] for path in some.paths - some.known}) for some in tags)
    if predicted:
        what = counted(predicted, "keyword")
        notes.append(f"{what} predicted by g2netpl: not taken as known labels")
    for word, places in sorted(places_of_words(some.known for some in tags).items()):
        if len(places) > 1 and word in words - others:
            shown = " and ".join("|".join(place) for place in places)
            notes.append(f"keyword {word!r} is one class for {shown}")
    if library.issues:
        count = counted(len(library.issues), "file")
        notes.append(f"keywords of {count} cannot be read, the first: {library.issues[0]}")
    if words <= others:
        has_any = any(in_file) or any(in_sidecar)
        why = [*notes[1:], *([] if has_any else [_LIGHTROOM]), *unread_note(path)]
        photos_here = counted(len(names), "photo")
        problem = f"no keywords found in {photos_here}" if names else "no photos found"
        raise InputError("; ".join([f"{path}: {problem}", *why]))
    labels = [(row, word, POSITIVE) for row, some in enumerate(found) for word in some - others]
    frame, absent = pd.DataFrame(labels, columns=LABELS), options.absent_value("unobserved")
    places_in_file = [f"{path}/{name}" for name in names].__getitem__
    issues = Issues()
    return long_table(
        plain_names(names), frame, places_in_file, issues, options.classes, absent, notes
    )
