"""Where images are: a folder, tar shards, a Hugging Face data set, or an object store.

`images_at` finds out what an address names. In each kind, an image is found by its name, and its
reference (`utils.image_refs.ImageRef`) can be opened in any process and in any order.
"""

import glob
import io
import os
import tarfile
import time
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from itertools import groupby
from pathlib import Path
from shlex import quote
from typing import Any

import numpy as np
import numpy.typing as npt

from g2netpl.labels import paths
from g2netpl.labels.files import Files, each_file, ensure_local
from g2netpl.labels.io import find_format, image_folders
from g2netpl.labels.names import name_problem, plain_name
from g2netpl.labels.paths import SUFFIXES, Located, images_on_top, is_below, names_on_top, with_near
from g2netpl.utils.errors import InputError
from g2netpl.utils.files import friendly_os_errors
from g2netpl.utils.image_refs import ImageRef, Opened, Stamp, is_address, stamp_of
from g2netpl.utils.stores import objects_at

LEAVE_OUT_HINT = " (--set missing=leave-out leaves them out)"
_LARGEST = 1 << 28  # bytes of one image
_LISTING_SECONDS = 300  # until a store is listed again
_PARQUET = (".parquet", ".pq")
_COMPRESSED = (".tar.gz", ".tgz", ".tar.bz2", ".tar.xz", ".tar.zst")


class TarMember(ImageRef):
    """An image in a tar file; the text reads as if that were a folder."""

    tar: ImageRef
    shard: str
    offset: int
    size: int

    def stamp(self) -> Stamp:
        """Its own size, and the time of the tar file."""
        size, changed = self.tar.stamp()
        return (size if size < 0 else self.size), changed

    def open(self) -> Opened:
        """Its bytes."""
        if self.size > _LARGEST:
            raise ValueError(f"{self.size:,} bytes are too many for an image")
        with self.tar.open() as file:
            file.seek(self.offset)
            content = file.read(self.size)
        if len(content) < self.size:
            raise ValueError("the tar file was changed; run the command again")
        return io.BytesIO(content)


class DatasetImage(ImageRef):
    """An image in a row of a Hugging Face data set; the text reads as if that were a folder."""

    path: str
    row: int

    def stamp(self) -> Stamp:
        """That of the data set."""
        return stamp_of(self.path)

    def open(self) -> Opened:
        """Its bytes."""
        content = _dataset(self.path).picture(self.row)
        if content is None:
            raise ValueError("the row has no picture")
        return io.BytesIO(content)


class Catalogue:
    """The images at an address, by name; no link leads out of a folder.

    `refs` are those that were listed when the address was opened; without them it is a folder,
    which is listed again each time. `notes` say what was skipped.
    """

    def __init__(
        self, address: str, refs: Mapping[str, ImageRef] | None = None, notes: Sequence[str] = ()
    ) -> None:
        self.address, self.refs, self.notes = address, refs, list(notes)

    def names(self) -> list[str]:
        """The names of all images."""
        return paths.list_images(self.address) if self.refs is None else list(self.refs)

    def together(self) -> list[int] | None:
        """How many images each tar file holds, in order; None if there are none."""
        shards = [ref.shard for ref in (self.refs or {}).values()]
        return [len([*group]) for _, group in groupby(shards)] if any(shards) else None

    def find(self, names: Sequence[str], exactly: bool = False) -> Located:
        """The references of these names; unless `exactly`, similar names are found too."""
        if self.refs is None:
            return paths.find(names, self.address, exactly)
        for name in names:
            problem = name_problem(name)
            if problem is not None:
                raise InputError(f"image {name!r}: {problem}")
        missing = [row for row, name in enumerate(names) if name not in self.refs]
        located = Located(self._paths(names), missing, list(names), self.notes)
        if not missing or exactly:
            return located
        return with_near(located, self.names(), self.address, self._paths)

    def _paths(self, names: Sequence[str]) -> list[str]:
        refs = self.refs or {}
        return [refs.get(name, f"{self.address}/{name}") for name in names]


def images_at(address: str | Path) -> Catalogue:
    """The images at an address."""
    text = str(address)
    if is_address(text):
        return _in_store(text, int(time.monotonic() // _LISTING_SECONDS))
    if images_on_top(text):
        return Catalogue(text)
    if _is_tar(text) or any(map(_is_tar, names_on_top(text))):
        shards = _shards_at(text)
        return _in_tars(text, tuple(shards), tuple(shard.stamp() for shard in shards))
    if text.lower().endswith(_PARQUET) or os.path.isfile(f"{text}/state.json"):
        return _in_dataset(text, stamp_of(text))
    return Catalogue(text)


@lru_cache(maxsize=8)
def _in_store(address: str, period: int) -> Catalogue:
    root = address.rstrip("/")
    files = objects_at(root)
    _check_not_compressed(files)
    images: dict[str, ImageRef] = {
        file.removeprefix(root).lstrip("/") or file.rpartition("/")[2]: file
        for file in sorted(files)
        if file.lower().endswith(SUFFIXES)
    }
    shards = sorted(filter(_is_tar, files))
    if shards and all("/" in name for name in images):
        return _in_tars(address, tuple(shards), ())
    if not images:
        raise InputError(f"{address}: no images there, and no tar shards")
    return Catalogue(address, images)


@lru_cache(maxsize=8)
def _in_tars(address: str, shards: tuple[ImageRef, ...], stamps: tuple[Stamp, ...]) -> Catalogue:
    """The images in tar files; listed again if a file has another stamp."""
    if not shards:
        raise InputError(f"{address}: no tar file there")
    refs, notes = dict[str, ImageRef](), list[str]()
    for shard in shards:
        for member in _members(shard):
            name = plain_name(member.name)
            if not name.lower().endswith(SUFFIXES) or Path(name).name.startswith("."):
                continue
            problem = name_problem(name)
            if problem is not None:
                notes.append(f"{shard}: {name!r:.100} skipped: {problem}")
            elif name in refs:
                both = " and ".join(dict.fromkeys([refs[name].shard, str(shard)]))
                raise InputError(f"{both}: image {name!r} is there twice; rename one")
            else:
                place = {"offset": member.offset_data, "size": member.size}
                refs[name] = TarMember(f"{shard}/{name}", tar=shard, shard=str(shard), **place)
    return Catalogue(address, refs, notes)


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
    is_folder = os.path.isdir(address)
    if is_folder:
        names = sorted(name for name in names_on_top(address) if name[0] != "." and _is_tar(name))
        files = [os.path.join(address, name) for name in names]
    else:
        files = [address] if os.path.exists(address) else sorted(glob.glob(address)) or [address]
    _check_not_compressed(files)
    for file in files:
        if not os.path.isfile(file):
            raise InputError(f"{file}: no such tar file")
        if is_folder and not is_below(file, address):
            raise InputError(f"{file}: a link that leads out of its folder; replace it by a copy")
    return [ImageRef(file) for file in files]


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
    refs = {
        name: DatasetImage(f"{path}/{name}", path=path, row=row)
        for row, name in enumerate(data.images())
    }
    return Catalogue(path, refs)


def is_one_image(address: str) -> bool:
    """Whether an address is that of a single image file of this machine."""
    is_packed = _is_tar(address) or address.lower().endswith(_PARQUET)
    return os.path.isfile(address) and not is_packed


def list_images(address: str | Path) -> list[str]:
    """Names of all images at an address."""
    return images_at(address).names()


def unread_note(address: str | Path) -> list[str]:
    """A note on photos in a folder that cannot be read."""
    images = images_at(address)
    return paths.unread_note(images.address) if images.refs is None else []


def find(names: Sequence[str], address: str | Path, exactly: bool = False) -> Located:
    """The references of the named images, and which of them are missing."""
    return images_at(address).find(names, exactly)


def find_all(names: Sequence[str], address: str | Path, more: str = "") -> Located:
    """Find the named images, all of which must be there; `more` is added to the hint."""
    located = find(names, address)
    if located.missing:
        first = names[located.missing[0]]
        above = Path(address).parent
        hint = "is --images the right folder?"
        if not is_address(str(address)) and os.path.isfile(above / first):
            hint = f"try --images {quote(str(above))}"
        missing = f"{len(located.missing):,} of {len(names):,} images of the label file"
        raise InputError(
            f"{address}: {missing} are not there, the first is {first!r}; {hint}{more}"
        )
    return located


def locate(names: Sequence[str], address: str | Path) -> list[str]:
    """The references of the named images, all of which must be there."""
    return find_all(names, address).paths


def shards_of(paths: Sequence[str]) -> npt.NDArray[np.int64] | None:
    """The number of the tar file that holds each image, (N,); None if there are no tar files."""
    shards = [path.shard if isinstance(path, ImageRef) else "" for path in paths]
    return np.unique(shards, return_inverse=True)[1].astype(np.int64) if any(shards) else None


def images_around(
    files: Files, format: str | None, images: str | None, every: bool = False
) -> tuple[list[str], list[str]]:
    """Names of the images that a training would use, listed or not, below their folder.

    These are all images in a folder that the user named, or else those around a label file that
    stands for the folder it is in, or with `every` around each file. Also gives notes on photos
    there that cannot be read.
    """
    folders = {} if images is None else {"": images}
    if images is None:
        root, ways = image_folders(files, format)
        for path, way in zip(map(Path, each_file(files)), ways, strict=True):
            if every or path.is_dir() or path.stem == "metadata":  # the folder, or its metadata
                folders[way] = str(root / way)
    names = [f"{way}{name}" for way, folder in folders.items() for name in list_images(folder)]
    notes = [note for folder in folders.values() for note in unread_note(folder)]
    return list(dict.fromkeys(names)), notes


def others_left_out(files: Files, format: str | None) -> bool:
    """Whether images that no file lists belong to other splits of a data set."""
    return any(find_format(ensure_local(file), format).lists_all for file in each_file(files))
