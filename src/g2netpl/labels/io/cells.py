"""The tags in cells: `cat;dog`, or a list written as text, `['cat', 'dog']`."""

import json
import re
from collections import Counter
from collections.abc import Collection, Iterable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from g2netpl.labels.names import normalize_name
from g2netpl.labels.table import IndexArray

MARKS = ";|,\t/"  # that may separate tags
_SPLIT = "\x1f"
_LISTS = {"[": "]", "(": ")", "{": "}"}
_ITEM = re.compile(r"""'((?:[^'\\]|\\.)*)'|"((?:[^"\\]|\\.)*)\"""")


def cell_tags(cell: str, separator: str) -> list[str]:
    """The tags in a cell: a list written as text, or parts between separators and line breaks."""
    text = cell.strip()
    if text and _LISTS.get(text[0]) == text[-1]:
        items = _list_items(text)
        if items is not None:
            return items
    parts = re.split("|".join(map(re.escape, _separators(separator))), text)
    return [normalize_name(tag) for part in parts if (tag := part.strip())]


def split_cells(cells: pa.Array, separator: str) -> tuple[IndexArray, IndexArray, list[str]]:
    """The tags of a whole column: their rows, their numbers, and the different tags by number."""
    texts = parts = pc.utf8_trim_whitespace(cells)
    for mark in _separators(separator):
        parts = pc.replace_substring(parts, mark, _SPLIT)
    is_list = pc.match_substring_regex(texts, r"^[\[({]")
    if pc.any(is_list).as_py():
        lists = texts.filter(is_list).to_pylist()
        joined = {text: _SPLIT.join(cell_tags(text, separator)) for text in set(lists)}
        whole = pa.array([joined[text] for text in lists], texts.type)
        parts = pc.replace_with_mask(parts, is_list, whole)
    split = pc.split_pattern(parts, _SPLIT)
    coded = pc.utf8_trim_whitespace(split.flatten()).dictionary_encode()
    rows = np.repeat(np.arange(len(split)), np.asarray(pc.list_value_length(split)))
    ids, tags = np.asarray(coded.indices), coded.dictionary.to_pylist()
    kept = np.array([bool(tag) for tag in tags], dtype=bool)[ids]
    return rows[kept], ids[kept], tags


def _separators(separator: str) -> list[str]:
    """Marks separate each by itself (`;,`), anything else as a whole (`::`, ` and `)."""
    marks = set(separator.strip(" "))
    single = len(marks) > 1 and marks <= set(MARKS)
    return [*(sorted(marks) if single else [separator]), "\n", "\r"]


def _list_items(text: str) -> list[str] | None:
    """The items of `['a', 'b']`, `["a","b"]`, `['a' 'b']` or `[a, b]`; None if it is no list."""
    found: object = None
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        inner = text[1:-1]
        quoted = _ITEM.findall(inner)
        if re.fullmatch(r"[\s,]*", _ITEM.sub("", inner)) and (quoted or text[0] == "["):
            found = [re.sub(r"\\(.)", r"\1", one or other) for one, other in quoted]
        elif text[0] == "[" and not re.search("[;|\"']", inner):
            found = inner.split(",")
    if not isinstance(found, list):
        return None
    tags = (str(item).strip() for item in found if item is not None)
    return [normalize_name(tag) for tag in tags if tag]


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


def tags_cell(tags: Iterable[str], separator: str = ";") -> str:
    """A cell that reads back as these tags."""
    names = list(tags)
    odd = [name for name in names if set(";|,\r\n") & {*name} or name != name.strip()]
    if odd or (names and _LISTS.get(names[0][0]) == names[-1][-1]):
        return json.dumps(names, ensure_ascii=False)
    return separator.join(names)
