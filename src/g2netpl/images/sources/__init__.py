"""Where images are: a folder, tar shards, or a store of objects.

An address names them all; `images_at` says what kind it is. Whatever the kind, an image is found by
its name, and its place (`base/places`) can be opened at any time, in any process and in any order.
"""

import os
import time
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from shlex import quote

import numpy as np
import numpy.typing as npt

from g2netpl.base.disk import file_stamp
from g2netpl.base.errors import InputError
from g2netpl.base.places import Place, is_address
from g2netpl.images.sources import remote, shards
from g2netpl.images.sources.catalogue import Catalogue, Folder
from g2netpl.labels import paths
from g2netpl.labels.paths import Located, images_on_top, names_on_top

Address = str | Path
_BELIEVED = 300.0  # seconds, of what a store lists
_LOOKED_AT = 100_000  # files in a folder


def images_at(address: Address) -> Catalogue:
    """The images that an address names."""
    text = str(address)
    if is_address(text):
        return _elsewhere(text, int(time.monotonic() // _BELIEVED))
    if images_on_top(text):
        return Folder(text)
    there = [text, *(os.path.join(text, name) for name in sorted(names_on_top(text)))]
    return _here(text, tuple((path, file_stamp(path)) for path in there[:_LOOKED_AT]))


@lru_cache(maxsize=8)
def _elsewhere(address: str, minutes: int) -> Catalogue:
    """What a store lists; it is asked again after some minutes."""
    return remote.at_address(address)


@lru_cache(maxsize=8)
def _here(address: str, stamps: tuple[object, ...]) -> Catalogue:
    """What is on this machine; it is looked at again where a file has another stamp."""
    path = Path(address)
    if shards.holds_shards(path) or (shards.is_address(address) and not path.is_dir()):
        return shards.in_shards(address, shards.shards_at(address))
    if path.suffix.lower() in (".parquet", ".pq") or (path / "state.json").is_file():
        raise InputError(
            f"{address}: pictures inside Parquet or Arrow are not read from there; write them out "
            f"with: g2netpl convert {quote(address)} FOLDER"
        )
    return Folder(address)


def is_one_image(address: Address) -> bool:
    """Whether an address is that of a single image file of this machine."""
    if is_address(str(address)) or shards.is_address(str(address)):
        return False
    if not os.path.exists(address):
        raise InputError(f"{address}: no such file or folder")
    return os.path.isfile(address)


def list_images(address: Address) -> list[str]:
    """Names of all images at an address."""
    return list(images_at(address).names())


def unread_note(address: Address) -> list[str]:
    """A note on photos in a folder that are of kinds which are not read."""
    images = images_at(address)
    return paths.unread_note(images.address) if isinstance(images, Folder) else []


def find(names: Sequence[str], address: Address, exactly: bool = False) -> Located:
    """Where the named images are, and which of them are not there."""
    return images_at(address).find(names, exactly)


def check_there(address: Address) -> None:
    """Refuse an address at which no images can be."""
    images_at(address).find([])


def locate(names: Sequence[str], address: Address) -> list[str]:
    """Places of the named images, all of which must be there."""
    return find_all(names, address).paths


GO_ON_WITHOUT = " (--missing leave-out goes on without them)"


def find_all(names: Sequence[str], address: Address, more: str = "") -> Located:
    """Look for the named images, all of which must be there; `more` to the hint."""
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
    """Which shard each image lies in, by number, (N,); None where none lies in one."""
    names = [path.shard if isinstance(path, Place) else "" for path in paths]
    if not any(names):
        return None
    number = {name: place for place, name in enumerate(dict.fromkeys(names))}
    return np.array([number[name] for name in names], dtype=np.int64)
