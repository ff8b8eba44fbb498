"""Names that look the same: an accent is a part of its letter (NFC) or stands behind it (NFD).

Macs write names of files in the second way, people type in the first. What looks the same is the
same class, and the same image where no file has exactly that name. So is a file that was uploaded
to Label Studio: `photo one.jpg` is stored there as `1a2b3c4d-photo_one.jpg`.
"""

import os
import re
import sys
import unicodedata
from collections.abc import Callable

from g2netpl.base.errors import InputError
from g2netpl.base.inside import PathBelow

_UPLOAD = re.compile(r"[0-9a-f]{8}-([^/]+)")


def composed(name: str) -> str:
    """A name with its accents as parts of their letters."""
    return name if name.isascii() else unicodedata.normalize("NFC", name)


def stored(name: str) -> str:
    """A name as Label Studio stores it: letters, digits, `-`, `_` and `.`."""
    return re.sub(r"[^-\w.]", "", composed(name).strip().replace(" ", "_"))


def before_upload(name: str) -> str | None:
    """What a name was, as stored, before it was uploaded; None of one that looks like no upload."""
    found = _UPLOAD.fullmatch(name)
    return None if found is None else composed(found[1])


class Spelling:
    """How names are spelt in the folders below `root`."""

    def __init__(self, root: str) -> None:
        self.root, self._base = root, os.path.realpath(root)
        self.others: dict[str, str] = {}  # names that stand there in another spelling
        self._folders: dict[tuple[str, Callable[[str], str]], dict[str, list[str]]] = {}

    def path(self, name: str) -> PathBelow:
        """The path of a name: as it is, or else of what looks the same."""
        path, uploaded = PathBelow(self.root, name), before_upload(name)
        if uploaded is None and unicodedata.normalize("NFD", name) == composed(name):
            return path  # there is no other
        if os.path.lexists(path) and sys.platform != "darwin":
            return path  # a Mac finds a file by either spelling, and lists it by one
        parts: list[str] = []
        for part in name.split("/"):
            there = self._alike(os.path.join(self.root, *parts), part)
            if not there and uploaded is not None:
                there = self._alike(self.root, uploaded, stored)
            if part not in there and len(there) > 1:
                named = " and ".join(map(ascii, there))
                raise InputError(
                    f"image {name!r}: {self.root} has {named}, which look the same; rename one"
                )
            parts.append(part if part in there or not there else there[0])
        spelt = "/".join(parts)
        if spelt == name:
            return path
        other = self.others.setdefault(spelt, name)
        if other != name:
            raise InputError(f"images {other!a} and {name!a} look the same: {_ONCE} in {self.root}")
        return PathBelow(self.root, spelt)

    def check(self, names: set[str]) -> None:
        """Refuse a file that is listed by its own name and by one that looks the same."""
        for spelt, name in self.others.items():
            if spelt in names:
                raise InputError(
                    f"images {spelt!a} and {name!a} look the same: {_ONCE} in {self.root}"
                )

    def _alike(self, folder: str, name: str, looks: Callable[[str], str] = composed) -> list[str]:
        if (folder, looks) not in self._folders:
            found = self._folders[folder, looks] = {}
            try:
                real = os.path.realpath(folder, strict=True)
                inside = os.path.commonpath((real, self._base)) == self._base
                for each in sorted(os.listdir(folder)) if inside else ():
                    found.setdefault(looks(each), []).append(each)
            except (OSError, ValueError):
                pass  # not there, or no folder, as who opens the file will tell
        return self._folders[folder, looks].get(looks(name), [])


_ONCE = "both are listed, and one file is"
