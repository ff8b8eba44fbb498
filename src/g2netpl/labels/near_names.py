"""Files that are meant by names that no file has: as people and their programs write them.

`IMG_1` without its ending, `2019\\trip\\IMG_1.JPG` from Windows, `img_1.jpg` for `IMG_1.JPG`, names
below a folder that all of them share, names without the folders that the files are in, other ways
to write an accent, names of uploads to Label Studio (`spelling`), and `1879` for `0001879.jpg`: a
spreadsheet keeps no zeros before a number. Only files that were listed can be meant, so no name
leads anywhere else; where two files may be, the name is a mistake.
"""

import os
import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import takewhile

from g2netpl.base.errors import InputError, counted
from g2netpl.labels.spelling import before_upload, composed, stored
from g2netpl.labels.table import plain_name

_ZEROS = re.compile(r"(?<![^/])0+(?=\d+(\.[^/.]*)?$)")  # before a name that is a number


def files_meant(
    names: Sequence[str], files: Sequence[str], root: str, listed: Collection[str]
) -> dict[str, str]:
    """The file that each name means, where there is one; none that is `listed` by its own name."""
    parts = {name: plain_name(name.replace("\\", "/")).split("/") for name in names}
    folders = zip(*(each[:-1] for each in parts.values()), strict=False)
    shared = len(list(takewhile(lambda level: len(set(level)) == 1, folders)))
    whole, best = _Index(files), dict[str, list[str]]()
    for taken_off in range(shared + 1):  # folders that all names begin with, and no file
        shorter = {name: each[taken_off:] for name, each in parts.items()}
        best = max(best, whole.of(shorter), key=len)
    for depth in {len(each) for name, each in parts.items() if name not in best}:
        as_deep = {name: each for name, each in parts.items() if len(each) == depth}
        best = _Index(files, depth).of(as_deep) | best  # files in further folders
    return _one_each(best, root, listed)


def known_as(names: Iterable[str], known: Iterable[str], where: str) -> dict[str, str]:
    """The known image that each other name means, where it means one; all in composed spelling.

    So a file beside the labels may name images as the label file does, or as their files are.
    """
    there, asked = dict.fromkeys(map(composed, known)), dict.fromkeys(map(composed, names))
    others = [name for name in asked if name not in there]
    free = [name for name in there if name not in asked]
    return files_meant(others, free, where, ()) if others and free else {}


def note_on(meant: Mapping[str, str]) -> list[str]:
    """How many were found so, in one line."""
    if not meant:
        return []
    name, file = next(iter(meant.items()))
    return [f"{counted(len(meant), 'image')} found by another name, as {name!r} = {file!r}"]


def _one_each(found: Mapping[str, list[str]], root: str, listed: Collection[str]) -> dict[str, str]:
    meant: dict[str, str] = {}
    by: dict[str, str] = {}
    for name, files in found.items():
        if len(files) > 1:
            both = " and ".join(map(repr, files[:2]))
            raise InputError(f"image {name!r}: {root} has {both}; write the one that is meant")
        other = by.setdefault(files[0], files[0] if files[0] in listed else name)
        if other != name:
            raise InputError(
                f"images {other!r} and {name!r}: both are listed, and one file is in {root}, "
                f"{files[0]!r}; write it as that, and give --duplicates unite"
            )
        meant[name] = files[0]
    return meant


class _Index:
    """Files by their names, or by the last parts of them: whole, or without ending or zeros."""

    def __init__(self, files: Sequence[str], depth: int = 0) -> None:
        self._looks: list[dict[str, list[str]]] = [defaultdict(list) for _ in range(3)]
        self._stored: dict[str, list[str]] = defaultdict(list)
        whole, stems, numbers = self._looks
        for file in files:
            last = "/".join(file.split("/")[-depth:])
            key, stem = _key(last), _key(os.path.splitext(last)[0])
            whole[key].append(file)
            stems[stem].append(file)
            self._stored[stored(file)].append(file)
            for form in {key, stem}:
                if _ZEROS.search(form):
                    numbers[_ZEROS.sub("", form)].append(file)

    def of(self, parts: Mapping[str, Sequence[str]]) -> dict[str, list[str]]:
        """The files of each name that has some, by the parts that it is looked for by."""
        keys = {name: _key("/".join(each)) for name, each in parts.items()}
        found = {
            name: next((look[key] for look in self._looks if key in look), [])
            or self._stored.get(before_upload(name) or "", [])
            for name, key in keys.items()
        }
        return {name: files for name, files in found.items() if files}


def _key(name: str) -> str:
    return composed(name).casefold()
