"""Keywords of photos: a folder of photos with XMP or IPTC keywords in the files or in sidecars.

A label that a photo has no keyword for is unobserved; a photo without keywords is unlabelled. A
sidecar is `IMG.JPG.xmp` (darktable, digiKam) or `IMG.xmp` (Lightroom); its keywords and those in
the file count together. A keyword may have levels, `animal|bird|kestrel`: `--tag-level` says which
of them are classes. Keywords that g2netpl predicted are not known labels.

Only sidecars are written, never a photo.
"""

from pathlib import Path

from g2netpl.labels.io.build import long_table
from g2netpl.labels.io.issues import Issues
from g2netpl.labels.io.options import ReadOptions
from g2netpl.labels.io.photos import Library, at_level, union
from g2netpl.labels.io.sidecars import write as write
from g2netpl.labels.names import normalize_name, plain_names
from g2netpl.labels.paths import list_images, unread_note
from g2netpl.labels.table import POSITIVE, LabelTable
from g2netpl.utils.errors import InputError, counted

_LIGHTROOM = "in Lightroom Classic select all photos and press Ctrl/Cmd+S, which saves the keywords"


def read(path: Path, options: ReadOptions) -> LabelTable:
    """The keywords of all photos below a folder."""
    if not path.is_dir():
        raise InputError(f"{path}: expected a folder of photos with keywords")
    names, library = list_images(path), Library(path)
    places = [library.tags(name) for name in names]
    tags = [union(place.values()) for place in places]
    found = [at_level(some.known, options.tag_level) for some in tags]
    words = {word for some in found for word in some}
    wanted = {*map(normalize_name, words if options.classes is None else options.classes)}
    others = {word for word in words if normalize_name(word) not in wanted}
    in_file, in_sidecar = set[str](), set[str]()
    for name, place in zip(names, places, strict=True):
        for file, some in place.items():
            if some.known:
                (in_file if file == name else in_sidecar).add(name)
    photos, both = counted(len(names), "photo"), len(in_file & in_sidecar)
    notes = [
        f"keywords: {len(in_file):,} of {photos} in the file, {len(in_sidecar):,} in sidecars, "
        f"{both:,} in both"
    ]
    without = sum(bool(some.known) and not at for some, at in zip(tags, found, strict=True))
    if without:
        what = counted(without, "photo")
        notes.append(f"{what} with keywords, but none of level {options.tag_level}")
    if others:
        what = f"{counted(len(others), 'keyword')} not among the classes"
        notes.append(f"{what} (such as {min(others)!r}): left out")
    predicted = sum(len({path[-1] for path in some.paths - some.known}) for some in tags)
    if predicted:
        what = counted(predicted, "keyword")
        notes.append(f"{what} predicted by g2netpl: not taken as known labels")
    if library.issues:
        count = counted(len(library.issues), "file")
        notes.append(f"keywords of {count} cannot be read, the first: {library.issues[0]}")
    if words <= others:
        why = [*notes[1:], *([] if in_file | in_sidecar else [_LIGHTROOM]), *unread_note(path)]
        problem = f"no keywords found in {photos}" if names else "no photos found"
        raise InputError("; ".join([f"{path}: {problem}", *why]))
    labels = [(row, word, POSITIVE) for row, some in enumerate(found) for word in some - others]
    absent = options.absent_value("unobserved")
    where = [f"{path}/{name}" for name in names].__getitem__
    return long_table(plain_names(names), labels, where, Issues(), options.classes, absent, notes)
