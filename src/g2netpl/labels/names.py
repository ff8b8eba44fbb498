"""Names of images and classes: one spelling (Unicode NFC), and the file that a name means.

People and programs write `IMG_1` without its ending, `2019\\trip\\IMG_1.JPG` from Windows,
`img_1.jpg` for `IMG_1.JPG`, `1879` for `0001879.jpg`, leave out folders, and add spaces at the end.
Label Studio stores `photo one.jpg` as `1a2b3c4d-photo_one.jpg`. Only listed files can be meant, so
no name leads anywhere else.
"""

import os
import re
import unicodedata
from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from itertools import takewhile

from g2netpl.utils.errors import InputError

_IDLE = re.compile(r"(^|/)(?:\.?/)+")  # parts of a name that lead nowhere
_UPLOAD = re.compile(r"[0-9a-f]{8}-([^/]+)")  # as Label Studio stores it, without odd letters
_ZEROS = re.compile(r"^0+(?=\d+(\.[^.]*)?$)")  # before a name that is a number


def normalize_name(name: str) -> str:
    """A name with its accents as parts of their letters (NFC)."""
    return name if name.isascii() else unicodedata.normalize("NFC", name)


def name_problem(name: str) -> str | None:
    """Why an image name must not be looked for below a folder; None if it may."""
    if not name.strip():
        return "the name is empty"
    if "\0" in name or "\r" in name:
        return "the name contains a NUL character or a carriage return"
    if "://" in name:
        return "expected a file name, not an address"
    if name[0] in "/\\" or (name[1:2] == ":" and name[0].isalpha()):
        return "leads out of the image folder; expected a name relative to it"
    if ".." in name and ".." in name.replace("\\", "/").split("/"):
        return "leads out of the image folder ('..')"
    return None


def plain_name(name: str) -> str:
    """An image name without `./` and doubled slashes; one that may not be used stays as it is."""
    if ("./" in name or "//" in name) and name_problem(name) is None:
        return _IDLE.sub(r"\1", name)
    return name


def plain_names(names: Iterable[str]) -> list[str]:
    """Image names as all readers give them: plain, and in NFC."""
    return [normalize_name(plain_name(name)) for name in names]


class FileIndex:
    """Files by the last part of their names: whole, without ending, or without leading zeros."""

    def __init__(self, files: Iterable[str]) -> None:
        self._files: dict[str, list[tuple[int, str]]] = defaultdict(list)  # with a rank
        for file in files:
            last = _key(file.rpartition("/")[2])
            stem = os.path.splitext(last)[0]
            stored = re.sub(r"[^-\w.]", "", normalize_name(file).strip().replace(" ", "_"))
            ranks = {stored: 3, _ZEROS.sub("", stem): 2, _ZEROS.sub("", last): 2}
            for form, rank in (ranks | {stem: 1} | {last: 0}).items():
                self._files[form].append((rank, file))

    def files(self, parts: Sequence[str]) -> list[str]:
        """The files whose names end with these parts; those with no other folder count first."""
        *folders, last = map(_key, parts)
        upload = _UPLOAD.fullmatch("/".join(parts))
        stored = normalize_name(upload[1]) if upload else ""
        found = []
        for rank, file in (*self._files.get(last, ()), *self._files.get(stored, ())):
            above = _key(file).split("/")[:-1]
            if above[len(above) - len(folders) :] == folders and len(above) >= len(folders):
                found.append((rank, len(above) > len(folders), file))
        best = min((rank[:2] for rank in found), default=None)
        return [file for *rank, file in found if tuple(rank) == best]


def match_filenames(
    names: Sequence[str], files: Sequence[str], root: str, listed: Collection[str]
) -> dict[str, str]:
    """The file that each name means, if there is one; none that is `listed` by its own name.

    Folders that all names begin with may be left out. A name that may mean two files is an error.
    """
    parts = {name: plain_name(name.replace("\\", "/")).split("/") for name in names}
    folders = zip(*(each[:-1] for each in parts.values()), strict=False)
    shared = len(list(takewhile(lambda level: len(set(level)) == 1, folders)))
    index, best = FileIndex(files), dict[str, list[str]]()
    for left_out in range(shared + 1):
        found = {name: index.files(each[left_out:]) for name, each in parts.items()}
        best = max(best, {name: hits for name, hits in found.items() if hits}, key=len)
    meant: dict[str, str] = {}
    by: dict[str, str] = {}
    for name, hits in best.items():
        if len(hits) > 1:
            both = " and ".join(map(repr, hits[:2]))
            where = os.path.abspath(root) if root == "." else root
            raise InputError(f"image {name!r}: {where} has {both}; write the exact name")
        other = by.setdefault(hits[0], hits[0] if hits[0] in listed else name)
        if other != name:
            raise InputError(
                f"images {other!r} and {name!r}: both are listed, but {root} has only one "
                f"file, {hits[0]!r}; list it by that name"
            )
        meant[name] = hits[0]
    return meant


def match_known(names: Iterable[str], known: Iterable[str], where: str) -> dict[str, str]:
    """The known image that each other name means, if it means one; all in NFC."""
    there, given = ({normalize_name(name): None for name in some} for some in (known, names))
    others = [name for name in given if name not in there]
    free = [name for name in there if name not in given]
    return match_filenames(others, free, where, ()) if others and free else {}


def _key(name: str) -> str:
    return normalize_name(name).casefold().strip()
