"""What a cell says: a label (1, 0, TRUE, x, ✓, …), or tags (`cat;dog`, `['cat', 'dog']`)."""

import contextlib
import json
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable
from functools import cache

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from g2netpl.labels.io.duplicates import MINUS_ONE
from g2netpl.labels.io.frames import Column
from g2netpl.labels.names import normalize_name
from g2netpl.labels.table import NEGATIVE, POSITIVE, UNOBSERVED, IndexArray, LabelMatrix

MARKS = ";|,\t/"  # that may separate tags
_SPLIT = "\x1f"
NO_LABEL = 9  # what `label_codes` has for other cells
_WORDS = {  # of cells, in lower case
    POSITIVE: ("1", "1.0", "1,0", "true", "yes", "x", "✓", "✔", "wahr", "ja", "vrai", "oui"),
    NEGATIVE: ("0", "0.0", "0,0", "false", "no", "falsch", "nein", "faux", "non"),
    UNOBSERVED: ("", "?", "na", "n/a", "nan", "null"),
    MINUS_ONE: ("-1", "-1.0", "-1,0"),
}
_LABELS = {word: value for value, words in _WORDS.items() for word in words}
_LISTS = {"[": "]", "(": ")", "{": "}"}
_ITEM = re.compile(r"""'((?:[^'\\]|\\.)*)'|"((?:[^"\\]|\\.)*)\"""")
_SPELT = {",": "comma", "/": "slash", " ": "space"}  # that may also be part of a tag


def label_of(cell: str) -> int | None:
    """The label in a cell of a class's column; None if it is none."""
    text = cell.strip().lower()
    label = _LABELS.get(text)
    if label is None and text[-1:].isdecimal():
        with contextlib.suppress(ValueError):  # 1.00, as pandas may have read it
            label = {1.0: POSITIVE, 0.0: NEGATIVE, -1.0: MINUS_ONE}.get(float(text))
    return label


def cell_tags(cell: str, separator: str) -> list[str]:
    """The tags in a cell: a list written as text, or parts between separators and line breaks."""
    text = cell.strip()
    if text and _LISTS.get(text[0]) == text[-1]:
        items = _list_items(text)
        if items is not None:
            return items
    if "\n" not in text and "\r" not in text and len(separator) == 1:
        parts = text.split(separator)
    else:
        parts = _pattern(separator).split(text)
    return [normalize_name(tag) for part in parts if (tag := part.strip())]


def split_cells(cells: pa.Array, separator: str) -> tuple[IndexArray, IndexArray, list[str]]:
    """The tags of a whole column: their rows, their numbers, and the different tags by number."""
    texts = pc.utf8_trim_whitespace(cells)
    is_list = pc.starts_with(texts, "[")
    for bracket in "({":
        is_list = pc.or_(is_list, pc.starts_with(texts, bracket))
    marks = set(separator.strip(" "))
    single = len(marks) > 1 and marks <= set(MARKS)
    parts = texts
    for mark in (*(sorted(marks) if single else [separator]), "\n", "\r"):
        parts = pc.replace_substring(parts, mark, _SPLIT)
    if pc.any(is_list).as_py():
        found = {
            text: cell_tags(text, separator) for text in set(texts.filter(is_list).to_pylist())
        }
        rows = texts.filter(is_list).to_pylist()
        joined = pa.array([_SPLIT.join(found[text]) for text in rows], cells.type)
        parts = pc.replace_with_mask(parts, is_list, joined)
    lists = pc.split_pattern(parts, _SPLIT)
    coded = pc.utf8_trim_whitespace(lists.flatten()).dictionary_encode()
    counts = np.asarray(pc.list_value_length(lists))
    tags = coded.dictionary.to_pylist()
    ids, rows = np.asarray(coded.indices), np.repeat(np.arange(len(counts)), counts)
    if "" in tags:
        kept = ids != tags.index("")
        ids, rows = ids[kept], rows[kept]
    return rows, ids, tags


def label_column(column: Column) -> tuple[LabelMatrix, Callable[[int], str]]:
    """The labels in a column, NO_LABEL for other cells, and the text of a cell."""
    if isinstance(column, pa.Array):
        coded = column.dictionary_encode()
        texts = coded.dictionary.to_pylist()
        known = [NO_LABEL if (label := label_of(text)) is None else label for text in texts]
        codes = np.asarray(coded.indices)
        return np.array(known, dtype=np.int8)[codes], lambda row: str(texts[codes[row]])
    labels = np.full(len(column), NO_LABEL, dtype=np.int8)
    for number, label in ((1, POSITIVE), (0, NEGATIVE), (-1, MINUS_ONE)):
        labels[column == number] = label
    labels[np.isnan(column)] = UNOBSERVED
    return labels, lambda row: f"{column[row]:g}"


def _list_items(text: str) -> list[str] | None:
    """The items of `['a', 'b']`, `["a","b"]`, `['a' 'b']` or `[a, b]`; None if it is no list."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        inner = text[1:-1]
        if not re.fullmatch(r"[\s,]*", _ITEM.sub("", inner)):
            if text[0] != "[" or re.search("[;|\"']", inner):
                return None
            found = inner.split(",")
        else:
            found = [re.sub(r"\\(.)", r"\1", one or other) for one, other in _ITEM.findall(inner)]
            if not found and text[0] != "[":
                return None
    if not isinstance(found, list):
        return None
    return [
        normalize_name(tag) for item in found if item is not None and (tag := str(item).strip())
    ]


@cache
def _pattern(separator: str) -> re.Pattern[str]:
    """Marks separate each by itself (`;,`), anything else as a whole (`::`, ` and `)."""
    marks = set(separator.strip(" "))
    single = len(marks) > 1 and marks <= set(MARKS)
    told = f"[{re.escape(''.join(sorted(marks)))}]" if single else re.escape(separator)
    return re.compile(rf"{told}|[\r\n]")


def looks_separated(tags: Collection[str], mark: str = ",") -> str | None:
    """A tag that a mark seems to separate into several; None if the mark belongs to names.

    It separates if each part is found elsewhere, by itself or in another tag, and this holds for
    half of the tags with the mark: `cat, dog` with `cat` and `dog, bird`, but not `salt, table`
    with `salt, sea` and `table`. A space must separate two tags whose parts are tags themselves.
    """
    with_mark = [tag for tag in tags if mark in tag]
    if not with_mark:
        return None
    found = Counter(part for tag in tags for part in {*_parts(tag, mark)})
    if mark == " ":
        found = Counter({tag: 2 for tag in tags if mark not in tag})
    separated = [tag for tag in with_mark if all(found[part] > 1 for part in _parts(tag, mark))]
    enough = len(separated) > (mark == " ") and 2 * len(separated) >= len(with_mark)
    return separated[0] if enough else None


def separated_issue(tags: Collection[str], separators: str) -> str | None:
    """What to ask if a slash or a space seems to separate tags."""
    for mark in (mark for mark in "/ " if mark not in separators):
        odd = looks_separated(tags, mark)
        if odd:
            known = " and ".join(map(repr, _parts(odd, mark)[:2]))
            first = separators[0]
            both = "" if mark == " " else f" ({first + mark!r} if both do)"
            return (
                f"{odd!r} looks like several tags, since {known} are found elsewhere; give "
                f"--separator {mark!r} if it separates{both}, or {first!r} if the "
                f"{_SPELT[mark]} is part of the tag"
            )
    return None


def tags_cell(tags: Iterable[str], separator: str = ";") -> str:
    """A cell that reads back as these tags."""
    names = list(tags)
    odd = [name for name in names if set(";|,\r\n") & {*name} or name != name.strip()]
    if odd or (names and _LISTS.get(names[0][0]) == names[-1][-1]):
        return json.dumps(names, ensure_ascii=False)
    return separator.join(names)


def _parts(tag: str, mark: str) -> list[str]:
    return [part for each in tag.split(mark) if (part := each.strip())]
