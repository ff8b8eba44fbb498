"""Where images are: a folder, tar shards, a Hugging Face data set, or an object store.

`images_at` finds out what an address names. In each kind, an image is found by its name, and its
reference (`utils.image_refs.ImageRef`) can be opened in any process and in any order.
"""

import glob
import io
import os
import re
import tarfile
import time
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from itertools import groupby, product
from pathlib import Path
from shlex import quote
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from g2netpl.labels import paths
from g2netpl.labels.names import name_problem, plain_name
from g2netpl.labels.paths import SUFFIXES, Located, images_on_top, names_on_top, with_near
from g2netpl.utils.errors import InputError
from g2netpl.utils.files import friendly_os_errors
from g2netpl.utils.image_refs import (
    LARGEST,
    ImageRef,
    Opened,
    PathBelow,
    Stamp,
    Unfit,
    file_stamp,
    is_address,
)
from g2netpl.utils.stores import Remote, check_address, object_at, objects_at

Address = str | Path
GO_ON_WITHOUT = " (--missing leave-out goes on without them)"
_LISTING_SECONDS = 300  # until a store is listed again
_COMPRESSED = (".tar.gz", ".tgz", ".tar.bz2", ".tar.xz", ".tar.zst")
_BRACES = re.compile(r"\{([^{}]*)\}")
_RANGE = re.compile(r"(\d+)\.\.(\d+)")
_MOST_SHARDS = 1_000_000


class TarMember(ImageRef):
    """An image in a tar file."""

    __slots__ = ("holder", "offset", "size")
    holder: ImageRef
    offset: int
    size: int

    def __new__(cls, holder: ImageRef, name: str, offset: int, size: int) -> Self:
        """The text reads as if the tar file were a folder."""
        made = super().__new__(cls, f"{holder}/{name}")
        made.holder, made.offset, made.size = holder, offset, size
        return made

    @property
    def shard(self) -> str:
        """The tar file."""
        return str(self.holder)

    def stamp(self) -> Stamp:
        """Its own size, and the times of the tar file."""
        stamp = self.holder.stamp()
        return stamp if stamp[0] < 0 else (self.size, *stamp[1:])

    def open(self) -> Opened:
        """Its bytes."""
        if self.size > LARGEST:
            raise Unfit(f"{self.size:,} bytes are too many for an image")
        content = self.holder.read(self.offset, self.offset + self.size)
        if len(content) < self.size:
            raise Unfit("the tar file was changed; run the command again")
        return io.BytesIO(content)

    def __getnewargs__(self) -> tuple[Any, ...]:
        return self.holder, self[len(self.holder) + 1 :], self.offset, self.size


class DatasetImage(ImageRef):
    """An image in a row of a Hugging Face data set."""

    __slots__ = ("path", "row")
    path: str
    row: int

    def __new__(cls, path: str, name: str, row: int) -> Self:
        """The text reads as if the data set were a folder."""
        made = super().__new__(cls, f"{path}/{name}")
        made.path, made.row = path, row
        return made

    def stamp(self) -> Stamp:
        """That of the data set."""
        return file_stamp(self.path)

    def open(self) -> Opened:
        """Its bytes."""
        content = _dataset(self.path).picture(self.row)
        if content is None:
            raise Unfit("the row has no picture")
        return io.BytesIO(content)

    def __getnewargs__(self) -> tuple[Any, ...]:
        return self.path, self[len(self.path) + 1 :], self.row


class Catalogue:
    """The images in a folder, by name; no link leads out of it. `notes` say what was skipped."""

    def __init__(self, address: str) -> None:
        self.address, self.notes = address, list[str]()

    def names(self) -> list[str]:
        """The names of all images."""
        return paths.list_images(self.address)

    def together(self) -> list[int] | None:
        """How many images each tar file holds, in order; None if there are none."""
        return None

    def find(self, names: Sequence[str], exactly: bool = False) -> Located:
        """The references of these names; unless `exactly`, similar names are found too."""
        return paths.find(names, self.address, exactly)


class ListedImages(Catalogue):
    """Images that were listed when the address was opened."""

    def __init__(self, address: str, refs: Mapping[str, ImageRef]) -> None:
        super().__init__(address)
        self._refs = refs

    def names(self) -> list[str]:
        """The names of all images."""
        return list(self._refs)

    def together(self) -> list[int] | None:
        """How many images each tar file holds, in order."""
        shards = [ref.shard for ref in self._refs.values()]
        return [len([*group]) for _, group in groupby(shards)] if any(shards) else None

    def find(self, names: Sequence[str], exactly: bool = False) -> Located:
        """The references of these names."""
        for name in names:
            problem = name_problem(name)
            if problem is not None:
                raise InputError(f"image {name!r}: {problem}")
        missing = [row for row, name in enumerate(names) if name not in self._refs]
        located = Located(self._paths(names), missing, list(names), self.notes)
        if not missing or exactly:
            return located
        return with_near(located, self.names(), self.address, self._paths)

    def _paths(self, names: Sequence[str]) -> list[str]:
        return [self._refs.get(name, f"{self.address}/{name}") for name in names]


def images_at(address: Address) -> Catalogue:
    """The images at an address."""
    text = str(address)
    if is_address(text):
        return _in_store(text, int(time.monotonic() // _LISTING_SECONDS))
    if images_on_top(text):
        return Catalogue(text)
    if _is_tar(text) or any(_is_tar(name) for name in names_on_top(text)):
        shards = _shards_at(text)
        return _in_tars(text, tuple(shards), tuple(map(file_stamp, shards)))
    if text.lower().endswith((".parquet", ".pq")) or os.path.isfile(f"{text}/state.json"):
        return _in_dataset(text, file_stamp(text))
    return Catalogue(text)


@lru_cache(maxsize=8)
def _in_store(address: str, period: int) -> Catalogue:
    check_address(address)
    root = address.rstrip("/")
    found = [file for pattern in expand_braces(root) for file in _list_store(pattern)]
    _check_not_compressed(found)
    images = {_name_below(file, root): file for file in found if file.lower().endswith(SUFFIXES)}
    shards = sorted(file for file in found if _is_tar(file))
    if shards and all("/" in name for name in images):
        return _in_tars(address, tuple(shards), ())
    if not images:
        raise InputError(f"{address}: no images there, and no tar shards")
    return ListedImages(address, dict(sorted(images.items())))


def _list_store(pattern: str) -> list[Remote]:
    is_one = _is_tar(pattern) and not set(pattern) & set("*?[")
    return [object_at(pattern)] if is_one else objects_at(pattern)


def _name_below(file: str, root: str) -> str:
    return file.removeprefix(root).lstrip("/") or file.rpartition("/")[2]


@lru_cache(maxsize=8)
def _in_tars(address: str, shards: tuple[ImageRef, ...], stamps: tuple[Stamp, ...]) -> Catalogue:
    """The images in tar files; listed again if a file has another stamp."""
    if not shards:
        raise InputError(f"{address}: no tar file there")
    refs: dict[str, ImageRef] = {}
    notes = []
    for shard in shards:
        for member in _members(shard):
            name = plain_name(member.name)
            hidden = name.rpartition("/")[2].startswith(".")
            if not name.lower().endswith(SUFFIXES) or hidden:
                continue
            problem = name_problem(name)
            if problem is not None:
                notes.append(f"{shard}: {name!r:.100} skipped: {problem}")
            elif name in refs:
                both = " and ".join(dict.fromkeys([refs[name].shard, str(shard)]))
                raise InputError(f"{both}: image {name!r} is there twice; rename one")
            else:
                refs[name] = TarMember(shard, name, member.offset_data, member.size)
    images = ListedImages(address, refs)
    images.notes = notes
    return images


def _members(shard: ImageRef) -> list[tarfile.TarInfo]:
    """The regular files in a tar file; links and devices are left out."""
    try:
        with (
            friendly_os_errors(shard),
            shard.open() as file,
            tarfile.open(fileobj=file, mode="r:") as archive,
        ):
            members = [member for member in archive if member.isreg() and not member.issparse()]
            file.seek(archive.offset)  # tarfile ends at a broken header without a word
            if file.read(tarfile.BLOCKSIZE).strip(b"\0"):
                raise tarfile.ReadError("a header is broken or cut off")
            return members
    except (tarfile.TarError, ValueError) as problem:
        raise InputError(f"{shard}: damaged ({problem}); make or copy it again") from None


def _is_tar(name: str) -> bool:
    return name.lower().endswith((".tar", *_COMPRESSED))


def _check_not_compressed(files: Iterable[str]) -> None:
    for file in files:
        if file.lower().endswith(_COMPRESSED):
            raise InputError(f"{file}: compressed; decompress it, so that each image can be read")


def _shards_at(address: str) -> list[ImageRef]:
    """The tar files that a folder, a path or a pattern names."""
    if os.path.isdir(address):
        names = sorted(name for name in os.listdir(address) if name[0] != "." and _is_tar(name))
        files = [os.path.join(address, name) for name in names]
    elif os.path.exists(address):
        files = [address]
    else:
        patterns = expand_braces(address)
        files = [path for pattern in patterns for path in sorted(glob.glob(pattern)) or [pattern]]
    if not os.path.isdir(address):  # the user named these, so they may be links
        files = [os.path.realpath(file) if os.path.islink(file) else file for file in files]
    _check_not_compressed(files)
    absent = [file for file in files if not os.path.isfile(file)]
    if absent:
        raise InputError(f"{absent[0]}: no such tar file")
    return [PathBelow(os.path.dirname(file) or os.curdir, os.path.basename(file)) for file in files]


def expand_braces(pattern: str) -> list[str]:
    """`a-{00..12}.tar` and `{a,b}.tar` written out."""
    choices = []
    for place, piece in enumerate(_BRACES.split(pattern)):
        numbers = _RANGE.fullmatch(piece) if place % 2 else None
        if numbers is None:
            choices.append(piece.split(",") if place % 2 else [piece])
            continue
        first, last = map(int, numbers.groups())
        if last - first >= _MOST_SHARDS:
            raise InputError(f"{pattern}: names more than a million shards")
        choices.append([str(each).zfill(len(numbers[1])) for each in range(first, last + 1)])
    return ["".join(pieces) for pieces in product(*choices)]


@lru_cache(maxsize=2)
def _dataset(path: str) -> Any:
    from g2netpl.labels.io.huggingface import DataSet

    return DataSet(Path(path))


@lru_cache(maxsize=2)
def _in_dataset(path: str, stamp: Stamp) -> Catalogue:
    _dataset.cache_clear()
    data = _dataset(path)
    if not data.is_packed:
        raise InputError(f"{path}: has paths of pictures, not pictures; name their folder instead")
    names = data.images()
    return ListedImages(path, {name: DatasetImage(path, name, at) for at, name in enumerate(names)})


def is_one_image(address: Address) -> bool:
    """Whether an address is that of a single image file of this machine."""
    text = str(address)
    if is_address(text) or _is_tar(text):
        return False
    if not os.path.exists(text):
        raise InputError(f"{text}: no such file or folder")
    return os.path.isfile(text) and not text.lower().endswith((".parquet", ".pq"))


def list_images(address: Address) -> list[str]:
    """Names of all images at an address."""
    return list(images_at(address).names())


def unread_note(address: Address) -> list[str]:
    """A note on photos in a folder that cannot be read."""
    images = images_at(address)
    return [] if isinstance(images, ListedImages) else paths.unread_note(images.address)


def find(names: Sequence[str], address: Address, exactly: bool = False) -> Located:
    """The references of the named images, and which of them are missing."""
    return images_at(address).find(names, exactly)


def check_there(address: Address) -> None:
    """Reject an address at which no images can be."""
    images_at(address).find([])


def locate(names: Sequence[str], address: Address) -> list[str]:
    """The references of the named images, all of which must be there."""
    return find_all(names, address).paths


def find_all(names: Sequence[str], address: Address, more: str = "") -> Located:
    """Find the named images, all of which must be there; `more` is added to the hint."""
    located = find(names, address)
    if located.missing:
        first = names[located.missing[0]]
        above = Path(address).parent
        hint = "is --images the right folder"
        if not is_address(str(address)) and os.path.isfile(above / first):
            hint = f"try --images {quote(str(above))}"
        raise InputError(
            f"{address}: {len(located.missing):,} of {len(names):,} images of the label file are "
            f"not there, the first is {first!r}; {hint}?{more}"
        )
    return located


def shards_of(paths: Sequence[str]) -> npt.NDArray[np.int64] | None:
    """The number of the tar file that holds each image, (N,); None if there are no tar files."""
    shards = [path.shard if isinstance(path, ImageRef) else "" for path in paths]
    if not any(shards):
        return None
    return np.unique(shards, return_inverse=True)[1].astype(np.int64)
