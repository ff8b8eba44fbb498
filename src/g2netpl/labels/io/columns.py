"""What the columns of a table are: the image, its tags or a class each, `absent`, `group`.

A column is found by its name, in several languages, or by a flag. A column with another name than
`image` is looked at before it is taken: a class may be called `path`, and its cells are labels.
"""

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass

from g2netpl.labels.io.frames import Sheet, label_of
from g2netpl.labels.io.options import ReadOptions, set_key
from g2netpl.labels.names import FileIndex, normalize_name, plain_names
from g2netpl.labels.paths import SUFFIXES, list_images
from g2netpl.utils.errors import did_you_mean, listed

ABSENT, GROUP = "absent", "group"
ADDED = "added"  # what `complete` added to the tags of an image; they are among its tags, too
IMAGE_HEADERS = ("image", "file_name")
TAG_HEADERS = ("labels", "label", "tags")

_IMAGE_WORDS = (  # the surest first, without spaces, - and _
    *("image", "imagename", "imagefile", "imagefilename", "imagepath", "imageid", "img"),
    *("filename", "file", "sourcefile", "filepath", "fullpath", "path"),
    *("photo", "photoname", "picture", "name", "dateiname", "datei", "fichier", "archivo"),
)
_TAG_WORDS = (
    *(*TAG_HEADERS, "tag", "keywords", "keyword", "subject"),
    *("schlagwörter", "schlagworte", "schlagwort", "stichwörter", "stichworte", "stichwort"),
    *("motsclés", "motclé", "etiquetas", "etiqueta", "palabrasclave", "parolechiave"),
)
_CLASS_WORDS = ("species", "categories", "category", "classes", "class", "genre", "genres")
_SAME_TAGS = ("keywords", "keyword", "subject")  # exiftool writes those of IPTC and of XMP
_VALUE_WORDS = ("value", "confidence", "conf", "score", "probability", "prob")
_ROOT = re.compile(r"((?:[A-Za-z]:)?[\\/]+)[^\\/]+[\\/]")
_NAMED = 8  # columns in a note


@dataclass(frozen=True)
class Columns:
    """Places of the columns of a table."""

    image: int
    classes: tuple[int, ...]  # none if there are columns of tags
    tags: tuple[int, ...] = ()
    absent: int | None = None
    value: int | None = None  # next to the tags: 1 if the tag of the row is there, 0 if it is not
    group: int | None = None
    notes: tuple[str, ...] = ()  # what was taken as what, unless the header says so


def is_image_header(header: list[str]) -> bool:
    """Whether one of several columns has a name that the image column may have."""
    return len(header) > 1 and any(_key(name.strip('"')) in _IMAGE_WORDS for name in header)


def is_tag_header(header: list[str]) -> bool:
    """`image,labels` or `image,tags`, perhaps with other known columns, in any case."""
    names = [name.lower() for name in header]
    others = names[2:]
    if len(names) < 2 or len({*others}) < len(others) or {*others} - {ABSENT, GROUP, ADDED}:
        return False
    return names[0] in IMAGE_HEADERS and names[1] in TAG_HEADERS


def image_names(sheet: Sheet, place: int) -> tuple[list[str], list[str]]:
    """The images that a column names, without a drive or `/` that all begin with; a note on it."""
    cells = sheet.texts(place)
    root = _ROOT.match(cells[0]) if cells else None
    if root is None or len(set(cells)) < 2:
        return plain_names(cells), []
    if not all(cell.lower().startswith(root[0].lower()) for cell in cells):
        return plain_names(cells), []
    note = f"names begin with {root[1]!r}; they are looked for below the image folder"
    return plain_names([cell[root.end(1) :] for cell in cells]), [note]


def find_columns(sheet: Sheet, options: ReadOptions) -> Columns:
    """What the columns are: as the options say, or by their names and what they hold."""
    header, lower = sheet.header, [name.lower() for name in sheet.header]
    ignored = {name: _place(header, name) for name in _names(header, options.ignore_columns)}
    notes = [f"no column {name!r} to leave out" for name, place in ignored.items() if place is None]
    index = [0] if header and _is_row_number(sheet) else []
    places = [place for place in range(len(header)) if place not in {*ignored.values(), *index}]
    image = image_place(sheet, places, options)
    group = next((place for place in places if lower[place] == GROUP and place != image), None)
    others = [place for place in places if place not in (image, group)]
    if image is None or not others:
        got = (sheet.delimiter or ",").join(header)[:80]
        message = (
            f"expected a header 'image,<class>,…', 'image,labels' or 'image,tags', got {got!r}"
        )
        message += "; this row is taken as the header: delete those above the real one, or name "
        message += "the columns: --set image_column=NAME, --set tags_column=NAME"
        message += "".join(f" ({note})" for note in sheet.notes)
        sheet.issues.stop(sheet.header_place, "header", message)
    tags = _tags_places(sheet, options, image, places, others)
    absent, value, left_out = None, None, index
    if tags:
        absent = next((at for at in others if lower[at] == ABSENT and at not in tags), None)
        rest = [at for at in others if at not in (*tags, absent)]
        numbers = (at for at in rest if _key(header[at]) in _VALUE_WORDS and sheet.head(at))
        value = next(numbers, None)
        left_out = [*index, *(at for at in rest if at != value)]
    taken = []
    if options.image_column is None and lower[image] not in IMAGE_HEADERS:
        taken.append(f"column {header[image]!r} names the images")
    if not options.tags_column and tags and (lower[tags[0]] not in TAG_HEADERS or tags[1:]):
        words = listed((repr(header[place]) for place in tags), _NAMED)
        taken.append(f"column {words} has their tags")
    if value is not None:
        taken.append(f"column {header[value]!r} decides whether a tag applies")
    if left_out:
        names = (repr(header[place] or "row numbers") for place in left_out)
        taken.append(f"left out: {listed(names, _NAMED)}")
    notes = [*sheet.notes, *notes, *(["; ".join(taken)] if taken else [])]
    if not tags and len(others) == 1 and _key(header[others[0]]) in _TAG_WORDS:
        note = f"column {header[others[0]]!r} is read as one class, 1 or 0; as two classes: "
        notes.append(note + set_key("tags_column", header[others[0]]))
    return Columns(image, () if tags else tuple(others), tags, absent, value, group, tuple(notes))


def image_place(sheet: Sheet, places: Sequence[int], options: ReadOptions) -> int | None:
    """The column of the images' names; None if no column looks like it."""
    if options.image_column is not None:
        return _named(sheet, options.image_column, "image_column")
    header = [name.lower() for name in sheet.header]
    if places and header[places[0]] in IMAGE_HEADERS:
        return places[0]
    by_word = {_key(header[at]): at for at in reversed(places) if not _holds_labels(sheet, at)}
    for word in _IMAGE_WORDS:
        if word in by_word:
            return by_word[word]
    free = [place for place in places if sheet.head(place) and not header[place].endswith(SUFFIXES)]
    for place in free:  # `Bild`, whatever the language
        if all(cell.lower().endswith(SUFFIXES) for cell in sheet.head(place)):
            return place
    folder = options.images or (os.path.dirname(os.path.abspath(sheet.path)) if sheet.line else "")
    if not free or not os.path.isdir(folder):
        return None
    index = FileIndex(list_images(folder))
    for place in free:  # `Id`, as on Kaggle, whose every cell names a file
        if all(index.files(cell.replace("\\", "/").split("/")) for cell in sheet.head(place)):
            return place
    return None


def _tags_places(
    sheet: Sheet, options: ReadOptions, image: int, places: Sequence[int], others: Sequence[int]
) -> tuple[int, ...]:
    """The columns of tags; none if every class has a column."""
    if options.tags_column:
        names = _names(sheet.header, options.tags_column)
        return tuple(dict.fromkeys(_named(sheet, name, "tags_column") for name in names))
    if places[0] == image and is_tag_header([sheet.header[place] for place in places]):
        return () if is_one_class(sheet, others, options) else (others[0],)
    wide = any(_holds_labels(sheet, place) for place in others)
    words = [_key(sheet.header[place]) for place in others]
    for word in (*_TAG_WORDS, *(() if wide else _CLASS_WORDS)):
        for place in (at for at, name in zip(others, words, strict=True) if name == word):
            may_be_empty = len(sheet.cells) and word in _TAG_WORDS and not wide
            if (sheet.head(place) or may_be_empty) and not _holds_labels(sheet, place):
                same = _SAME_TAGS if word in _SAME_TAGS else (word,)
                found = (at for at, name in zip(others, words, strict=True) if name in same)
                return tuple(at for at in found if not _holds_labels(sheet, at))
    lists = [place for place in others if not wide and _holds_lists(sheet, place)]
    return tuple(lists) if len(lists) == 1 else ()


def is_one_class(sheet: Sheet, others: Sequence[int], options: ReadOptions) -> bool:
    """Whether `image,label` holds nothing but both 0 and 1, which are no names of classes."""
    if len(others) > 1 or options.single_label or {"0", "1"} & {*(options.classes or ())}:
        return False
    if {*map(str.strip, sheet.head(others[0]))} - {"", "0", "1"}:
        return False
    return {*map(str.strip, sheet.texts(others[0]))} - {""} == {"0", "1"}


def _holds_labels(sheet: Sheet, place: int) -> bool:
    cells = sheet.head(place)
    return bool(cells) and all(label_of(cell) is not None for cell in cells)


def _holds_lists(sheet: Sheet, place: int) -> bool:
    """Whether every cell is a list written as text, or some have tags that come again."""
    cells = sheet.head(place)
    tags = [tag.strip() for cell in cells for tag in re.split("[;|]", cell)]
    is_list = all(cell[0] + cell[-1] == "[]" for cell in cells)
    return bool(cells) and (is_list or len(tags) > max(len(cells), len(set(tags))))


def _is_row_number(sheet: Sheet) -> bool:
    """Whether the first column counts the rows, as pandas saves its index."""
    cells = sheet.head(0)
    if _key(sheet.header[0]) not in ("", "unnamed:0") or not all(map(str.isdecimal, cells)):
        return False
    numbers = [int(cell) for cell in cells]
    return bool(numbers) and numbers == list(range(numbers[0], numbers[0] + len(numbers)))


def _names(header: Sequence[str], given: Sequence[str]) -> list[str]:
    """Names of columns, some of which may be given together: `Date,Camera`."""
    texts = ([text] if text in header else text.split(",") for text in given)
    return [name.strip() for names in texts for name in names if name.strip()]


def _place(header: Sequence[str], name: str) -> int | None:
    lower = [word.lower() for word in header]
    if name in header:
        return header.index(name)
    return lower.index(name.lower()) if name.lower() in lower else None


def _named(sheet: Sheet, name: str, key: str) -> int:
    place = _place(sheet.header, normalize_name(name))
    if place is None:
        message = f"{set_key(key, name)}: no column {name!r} ({did_you_mean(name, sheet.header)})"
        sheet.issues.stop(sheet.header_place, "header", message)
    return place


def _key(name: str) -> str:
    return re.sub(r"[\s_-]", "", normalize_name(name)).lower()
