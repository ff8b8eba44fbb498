"""What the columns of a table are: the image, its tags or a class each, `absent`, `group`.

People call them as their programs do. A column that is named by none of these words but `image` is
looked at before it is taken: a class may be called `path`, and its cells are labels then.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NoReturn

from g2netpl.base.errors import closest, listed
from g2netpl.labels.formats.reading import Reading
from g2netpl.labels.formats.sheet import Sheet
from g2netpl.labels.formats.text import IMAGE_HEADERS
from g2netpl.labels.paths import SUFFIXES
from g2netpl.labels.spelling import composed
from g2netpl.labels.table import NEGATIVE, POSITIVE, UNOBSERVED, plain_name

GROUP = "group"
ABSENT = "absent"
ADDED = "added"  # what `complete` put to the tags of an image; they are among its tags, too
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
_CLASS_WORDS = ("species", "categories", "category", "classes", "class")
_ROOT = re.compile(r"((?:[A-Za-z]:)?[\\/]+)([^\\/]+)[\\/]")
_NAMED = 8  # columns, in a note
_INDEX = ("", "unnamed:0")  # how pandas calls the column of its row numbers

MINUS_ONE = -2  # a cell of -1, until it is known whether that means negative or unobserved

_WORDS = {  # of cells, without capitals
    POSITIVE: ("1", "1.0", "1,0", "true", "yes", "x", "✓", "✔", "wahr", "ja", "vrai", "oui"),
    NEGATIVE: ("0", "0.0", "0,0", "false", "no", "falsch", "nein", "faux", "non"),
    UNOBSERVED: ("", "?", "na", "n/a", "nan", "null"),
    MINUS_ONE: ("-1", "-1.0", "-1,0"),
}
CELLS = {word: value for value, words in _WORDS.items() for word in words}


@dataclass(frozen=True)
class Columns:
    """Places of the columns of a table."""

    image: int
    classes: tuple[int, ...]  # none where columns have tags
    tags: tuple[int, ...] = ()
    absent: int | None = None
    group: int | None = None
    notes: tuple[str, ...] = ()  # what was taken as what, where the header does not say so
    root: re.Pattern[str] | None = None  # with what every name begins that leads out, as `C:\\`

    def name(self, cell: str) -> str:
        """The image that a cell names."""
        return plain_name(cell if self.root is None else self.root.sub("", cell))


def label_of(cell: str) -> int | None:
    """The label that a cell of a class's column says; None where it is none."""
    return CELLS.get(cell.strip().lower())


def is_image_header(header: list[str]) -> bool:
    """Whether one of several columns is called as that of the images may be."""
    return len(header) > 1 and any(_key(name.strip('"')) in _IMAGE_WORDS for name in header)


def is_tag_header(header: list[str]) -> bool:
    """`image,labels`, `image,tags`, perhaps with other known ones; capitals make no difference."""
    names = [name.lower() for name in header]
    others = names[2:]
    if len(names) < 2 or len({*others}) < len(others) or {*others} - {ABSENT, GROUP, ADDED}:
        return False
    return names[0] in IMAGE_HEADERS and names[1] in TAG_HEADERS


def find_columns(sheet: Sheet, reading: Reading) -> Columns:
    """What the columns are: as the reader was told, or by their names and what they hold."""
    ignored, notes = _ignored(sheet, reading)
    index = [0] if sheet.header and _is_index(sheet) else []
    places = [place for place in range(sheet.width) if place not in {*ignored, *index}]
    image = image_place(sheet, places, reading.image_column)
    lower = [name.lower() for name in sheet.header]
    group = next((each for each in places if lower[each] == GROUP and each != image), None)
    others = [each for each in places if each not in (image, group)]
    if image is None or not others:
        _stop(sheet)
    tags, absent, left = _tags_places(sheet, reading, image, places, others), None, index
    if tags:
        absent = next((each for each in others if lower[each] == ABSENT and each not in tags), None)
        left = [*index, *(each for each in others if each not in (*tags, absent))]
    root, shown = _root(sheet.column(image))
    told = (*sheet.notes, *notes, *_told(sheet, reading, image, tags, left), *shown)
    classes = () if tags else tuple(others)
    return Columns(image, classes, tags, absent, group, told, root)


def image_place(sheet: Sheet, places: Sequence[int], told: str | None = None) -> int | None:
    """The column of the images' names; None where no column looks like it."""
    if told is not None:
        return _named(sheet, told, "--image-column")
    if places and sheet.header[places[0]].lower() in IMAGE_HEADERS:
        return places[0]
    for word in _IMAGE_WORDS:
        for place in places:
            if _key(sheet.header[place]) == word and not _holds_labels(sheet, place):
                return place
    return next((place for place in places if _names_files(sheet, place)), None)


def _names_files(sheet: Sheet, place: int) -> bool:
    """Whether every cell is a file's name and the header none: `Bild`, whatever the language."""
    cells, header = sheet.column(place), sheet.header[place].lower()
    named = all(cell.lower().endswith(SUFFIXES) for cell in cells)
    return bool(cells) and named and not header.endswith(SUFFIXES)


def _tags_places(
    sheet: Sheet, reading: Reading, image: int, places: Sequence[int], others: Sequence[int]
) -> tuple[int, ...]:
    """The columns of tags; none where every class has a column."""
    told = [reading.tags_column] if isinstance(reading.tags_column, str) else reading.tags_column
    if told:
        names = _each_name(sheet, told)
        return tuple(dict.fromkeys(_named(sheet, name, "--tags-column") for name in names))
    if places[0] == image and is_tag_header([sheet.header[place] for place in places]):
        return (others[0],)
    wide = any(_holds_labels(sheet, place) for place in others)
    for words, may_be_empty in ((_TAG_WORDS, not wide), (() if wide else _CLASS_WORDS, False)):
        for word in words:
            for place in others:
                cells = sheet.column(place) if _key(sheet.header[place]) == word else None
                if cells is not None and (any(label_of(cell) is None for cell in cells)):
                    return (place,)
                if cells == [] and may_be_empty and sheet.head:
                    return (place,)
    return ()


def _holds_labels(sheet: Sheet, place: int) -> bool:
    cells = sheet.column(place)
    return bool(cells) and all(label_of(cell) is not None for cell in cells)


def _root(names: Sequence[str]) -> tuple[re.Pattern[str] | None, list[str]]:
    """What to take off names that all begin with the same drive, or at the top, and folder.

    A name that leads there alone is none of a list of photos, and stays refused.
    """
    starts = [_ROOT.match(name) for name in names]
    first = starts[0] if starts else None
    if first is None or len(set(names)) < 2:
        return None, []
    root = re.compile(rf"^{re.escape(first[1])}(?={re.escape(first[2])}[\\/])", re.IGNORECASE)
    if not all(root.match(name) for name in names):
        return None, []
    return root, [f"names begin with {first[0]!r}; they are looked for below the image folder"]


def _is_index(sheet: Sheet) -> bool:
    """Whether the first column counts the rows, as tables of pandas do that were saved so."""
    cells = sheet.column(0)
    if _key(sheet.header[0]) not in _INDEX or not all(cell.isdecimal() for cell in cells):
        return False
    numbers = [int(cell) for cell in cells]
    return bool(numbers) and numbers == list(range(numbers[0], numbers[0] + len(numbers)))


def _ignored(sheet: Sheet, reading: Reading) -> tuple[list[int], list[str]]:
    """The columns to leave out, and a note on those that are not there."""
    asked = _each_name(sheet, reading.ignore_columns)
    found = {name: _place(sheet.header, name) for name in asked}
    notes = [
        f"no column {name!r} to leave out{_near(name, sheet.header)}"
        for name, place in found.items()
        if place is None
    ]
    return [place for place in found.values() if place is not None], notes


def _each_name(sheet: Sheet, told: Sequence[str]) -> list[str]:
    """Names of columns, some of which a person may have given together: `Date,Camera`."""
    texts = ([text] if text in sheet.header else text.split(",") for text in told)
    return [name.strip() for names in texts for name in names if name.strip()]


def _place(header: Sequence[str], name: str) -> int | None:
    if name in header:
        return header.index(name)
    lower = [each.lower() for each in header]
    return lower.index(name.lower()) if name.lower() in lower else None


def _named(sheet: Sheet, name: str, flag: str) -> int:
    place = _place(sheet.header, name)
    if place is None:
        there = listed(map(repr, sheet.header), _NAMED)
        what = f"{flag}: no column {name!r}{_near(name, sheet.header)}; the columns are {there}"
        sheet.problems.stop(sheet.where(sheet.line), "header", what)
    return place


def _near(name: str, header: Sequence[str]) -> str:
    near = closest(name, header)
    return "" if near is None else f" (did you mean {near!r}?)"


def _told(
    sheet: Sheet, reading: Reading, image: int, tags: Sequence[int], left: Sequence[int]
) -> list[str]:
    """A note on what was taken without having been named."""
    header, taken = sheet.header, []
    if reading.image_column is None and header[image].lower() not in IMAGE_HEADERS:
        taken.append(f"column {header[image]!r} names the images")
    if not reading.tags_column and tags and header[tags[0]].lower() not in TAG_HEADERS:
        taken.append(f"column {header[tags[0]]!r} has their tags")
    if left:
        names = (repr(header[place] or "row numbers") for place in left)
        taken.append(f"left out: {listed(names, _NAMED)}")
    return ["; ".join(taken)] if taken else []


def _stop(sheet: Sheet) -> NoReturn:
    came = (sheet.mark or ",").join(sheet.header)[:80]
    sheet.problems.stop(
        sheet.where(sheet.line),
        "header",
        f"expected a header 'image,<class>,…', 'image,labels' or 'image,tags', got {came!r}; "
        "--image-column NAME says which column names the images, --tags-column NAME which has tags",
    )


def _key(name: str) -> str:
    return re.sub(r"[\s_-]", "", composed(name)).lower()
