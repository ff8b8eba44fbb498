"""Images in stores of objects (`base/stores`): each an object by itself, or in tar shards."""

from g2netpl.base.errors import InputError
from g2netpl.base.stores import Remote, check_address, object_at, objects_at
from g2netpl.images.sources import shards
from g2netpl.images.sources.catalogue import Alone, Catalogue
from g2netpl.labels.paths import SUFFIXES


def at_address(address: str) -> Catalogue:
    """The images that lie at an address: objects below it, or in tar shards."""
    check_address(address)
    root = address.rstrip("/")
    found = [each for text in shards.in_full(root) for each in _listed(text)]
    shards.check_plain(found)
    images = {_below(each, root): each for each in found if each.lower().endswith(SUFFIXES)}
    tars = [each for each in found if each.lower().endswith(".tar")]
    if tars and not any("/" not in name for name in images):
        return shards.in_shards(address, sorted(tars))
    if not images and any(each.lower().endswith((".parquet", ".pq")) for each in found):
        raise InputError(
            f"{address}: pictures inside Parquet are not read; copy it here, write them out with "
            "g2netpl convert, or put tar shards there"
        )
    if not images:
        raise InputError(f"{address}: no images there, and no tar shards")
    return Alone(address, dict(sorted(images.items())))


def _listed(address: str) -> list[Remote]:
    """What a store says that is there; a shard is asked about by itself."""
    is_one = address.lower().endswith(".tar") and not set(address) & set("*?[")
    return [object_at(address)] if is_one else objects_at(address)


def _below(place: str, root: str) -> str:
    return place.removeprefix(root).lstrip("/") or place.rpartition("/")[2]
