"""The tags in cells: `cat;dog`, or a list written as text, `['cat', 'dog']`."""

import json
import re
from collections import Counter
from collections.abc import Collection, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from g2netpl.labels.names import normalize_name
from g2netpl.labels.table import IndexArray

MARKS = ";|,\t/；"  # that may separate tags
NO_TAG = ("nan", "NaN", "None", "null", "NULL", "<NA>")  # as programs write an empty cell
_SPLIT = "\x1f"
_LISTS = {"[": "]", "(": ")", "{": "}", '"': '"'}
_ITEM = re.compile(r"""'((?:[^'\\]|\\.)*)'|"((?:[^"\\]|\\.)*)\"""")


def split_cells(cells: Sequence[str], separator: str) -> tuple[IndexArray, IndexArray, list[str]]:
    """The tags of a whole column: their rows, their numbers, and the different tags by number.

    A cell is a list written as text, or has parts between separators and line breaks.
    """
    texts = pc.utf8_trim_whitespace(pa.array(cells, pa.large_string()))
    parts = texts = pc.if_else(pc.is_in(texts, pa.array(NO_TAG, texts.type)), "", texts)
    for mark in (*each_mark(separator), "\n", "\r"):
        parts = pc.replace_substring(parts, mark, _SPLIT)
    is_like_list = pc.match_substring_regex(texts, r"""^[\[({"]""")
    may_be_lists = texts.filter(is_like_list).unique().to_pylist()
    lists = {text: items for text in may_be_lists if (items := _list_items(text)) is not None}
    if lists:
        is_list = pc.is_in(texts, pa.array(list(lists), texts.type))
        joined = [_SPLIT.join(lists[text]) for text in texts.filter(is_list).to_pylist()]
        parts = pc.replace_with_mask(parts, is_list, pa.array(joined, texts.type))
    split = pc.split_pattern(parts, _SPLIT)
    coded = pc.utf8_trim_whitespace(split.flatten()).dictionary_encode()
    rows = np.repeat(np.arange(len(split)), np.asarray(pc.list_value_length(split)))
    ids, tags = np.asarray(coded.indices), coded.dictionary.to_pylist()
    kept = np.array([bool(tag) for tag in tags], dtype=bool)[ids]
    return rows[kept], ids[kept], tags


def each_mark(separator: str) -> list[str]:
    """What separates tags: the characters of `;,`, or a text such as `::` as a whole."""
    marks = separator.strip(" ")
    return [*marks] if len({*marks}) > 1 and {*marks} <= {*MARKS} else [separator]


def cell_tags(cell: str, separator: str) -> list[str]:
    """The tags in one cell, in NFC."""
    _, ids, tags = split_cells([cell], separator)
    return [normalize_name(tags[number]) for number in ids]


def _list_items(text: str) -> list[str] | None:
    """The items of `['a', 'b']`, `["a","b"]`, `['a' 'b']`, `[a, b]`, `{a,b}` or `"a", "b"`.

    None if it is no list, or one of objects, or of 1 and 0 for classes that it does not name.
    """
    if _LISTS[text[0]] != text[-1]:
        return None
    found: object = None
    inner = text if text[0] == '"' else text[1:-1]
    if re.fullmatch(r"[01](\.0?)?([\s,]+[01](\.0?)?)+", inner.strip()):
        return None
    try:
        found = json.loads(f"[{inner}]" if text[0] == '"' else text) or []
    except (ValueError, RecursionError):
        quoted = _ITEM.findall(inner)
        if re.fullmatch(r"[\s,]*", _ITEM.sub("", inner)) and (quoted or text[0] == "["):
            found = [re.sub(r"\\(.)", r"\1", one or other) for one, other in quoted]
        elif text[0] in "[{" and not {*";|\"'", *(":" if text[0] == "{" else "")} & {*inner}:
            found = inner.split(",")
    if not isinstance(found, list) or any(isinstance(item, list | dict) for item in found):
        return None
    return [str(item).strip() for item in found if item is not None]


def is_broken(cell: str) -> bool:
    """Whether a cell looks like a list, and is none of tags: `[1, 0]`, `[{"name": "cat"}]`."""
    text = cell.strip()
    return text[:1] in {*'[{"'} and _LISTS[text[0]] == text[-1] and _list_items(text) is None


def commas_separate(tags: Collection[str]) -> bool:
    """Whether commas in these tags separate tags, and do not belong to names.

    They do if each part is found elsewhere, by itself or in another tag, and this holds for half of
    the tags with a comma: `cat, dog` with `cat` and `dog, bird`, but not `salt, table` with
    `salt, sea` and `table`.
    """
    parts = {tag: {part.strip() for part in tag.split(",")} - {""} for tag in tags}
    found = Counter(part for each in parts.values() for part in each)
    with_comma = [each for tag, each in parts.items() if "," in tag]
    separated = sum(all(found[part] > 1 for part in each) for each in with_comma)
    return bool(separated) and 2 * separated >= len(with_comma)


def tags_cell(tags: Sequence[str]) -> str:
    """A cell that reads back as these tags."""
    odd = [name for name in tags if set(";|,；\r\n") & {*name} or name != name.strip()]
    if odd or (tags and (_LISTS.get(tags[0][0]) == tags[-1][-1] or tags[0] in NO_TAG)):
        return json.dumps(tags, ensure_ascii=False)
    return ";".join(tags)
