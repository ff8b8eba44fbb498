"""All images at an address, each by its name: files below a folder, or what was listed once."""

from array import array
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import overload

import numpy as np

from g2netpl.base.errors import InputError
from g2netpl.base.places import Place
from g2netpl.images.sources.index import Shard
from g2netpl.labels import paths
from g2netpl.labels.paths import Located, with_near
from g2netpl.labels.table import hashes_of, name_problem, repeated


class Catalogue:
    """Images by name, in the order that they are best read in; `notes` on what was passed over."""

    def __init__(self, address: str) -> None:
        self.address, self.notes = address, list[str]()

    def names(self) -> Sequence[str]:
        """Of every image."""
        raise NotImplementedError

    def together(self) -> list[int] | None:
        """How many in a row lie in a shard, or are read together; None where each lies alone."""
        return None

    def places(self, names: Sequence[str]) -> Sequence[Place | None]:
        """Where these are, if they are there."""
        raise NotImplementedError

    def find(self, names: Sequence[str], exactly: bool = False) -> Located:
        """The places of these names; unless `exactly`, also by what people may mean.

        No name leads anywhere else.
        """
        for name in names:
            problem = name_problem(name)
            if problem is not None:
                raise InputError(f"image {name!r}: {problem}")
        places = self.places(names)
        missing = [row for row, place in enumerate(places) if place is None]
        located = Located(self._paths(names, places), missing, list(names), self.notes)
        if missing and not exactly:
            return with_near(located, self.names(), self.address, self._near)
        return located

    def _near(self, names: Sequence[str]) -> list[str]:
        return self._paths(names, self.places(names))

    def _paths(self, names: Sequence[str], places: Sequence[Place | None]) -> list[str]:
        pairs = zip(names, places, strict=True)
        return [f"{self.address}/{name}" if place is None else place for name, place in pairs]


class Folder(Catalogue):
    """Files below a folder; no link leads out of it."""

    def names(self) -> list[str]:
        """Of all image files, sorted."""
        return paths.list_images(self.address)

    def find(self, names: Sequence[str], exactly: bool = False) -> Located:
        """The files of these names."""
        return paths.find(names, self.address, exactly)


class Alone(Catalogue):
    """Images that lie by themselves."""

    def __init__(self, address: str, by_name: Mapping[str, Place]) -> None:
        super().__init__(address)
        self._by_name = by_name

    def names(self) -> list[str]:
        """Of every image."""
        return list(self._by_name)

    def places(self, names: Sequence[str]) -> list[Place | None]:
        """Where these are."""
        return [*map(self._by_name.get, names)]


class InShards(Catalogue):
    """Images in shards: a hash of each name is in memory, and what else is known when it is asked.

    So any number of images takes 16 bytes each.
    """

    def __init__(self, address: str, shards: Sequence[Shard]) -> None:
        super().__init__(address)
        hashes, starts, self._together = array("q"), [0], list[int]()
        for shard in shards:
            index = shard.index()
            hashes.frombytes(hashes_of(index.names).tobytes())
            starts.append(starts[-1] + len(index.names))
            self._together += [len(index.names)] if index.names else []
            self.notes += index.notes
        self._names, every = _Names(shards, starts), np.frombuffer(hashes, np.int64)
        for row, before in repeated(self._names, every)[:1]:
            both = " and ".join(self._names.shard(each)[0].holder for each in (row, before))
            name = self._names[row]
            raise InputError(f"{both}: both have an image {name!r}; which one is meant?")
        self._order = np.argsort(every)
        self._hashes = every[self._order]

    def names(self) -> Sequence[str]:
        """Of every image."""
        return self._names

    def together(self) -> list[int]:
        """How many images in a row are read together."""
        return self._together

    def places(self, names: Sequence[str]) -> list[Place | None]:
        """Where these are; the index of each shard is opened once."""
        hashes = hashes_of(names)
        first, last = (np.searchsorted(self._hashes, hashes, side) for side in ("left", "right"))
        asked = defaultdict[Shard, list[tuple[int, int]]](list)
        for place in np.flatnonzero(first < last).tolist():
            for row in self._order[first[place] : last[place]].tolist():
                shard, inside = self._names.shard(row)
                asked[shard].append((place, inside))
        found: list[Place | None] = [None] * len(names)
        for shard, pairs in asked.items():
            index = shard.index()
            for place, inside in pairs:
                if index.names[inside] == names[place]:
                    found[place] = shard.held(names[place], index.rows[inside])
        return found


class _Names(Sequence[str]):
    """Names of all images in some shards, of which `starts` are the first rows, and the end."""

    def __init__(self, shards: Sequence[Shard], starts: Sequence[int]) -> None:
        self._shards, self._starts = shards, starts

    def __len__(self) -> int:
        return self._starts[-1]

    @overload
    def __getitem__(self, which: int) -> str: ...
    @overload
    def __getitem__(self, which: slice) -> list[str]: ...
    def __getitem__(self, which: int | slice) -> str | list[str]:
        rows = range(len(self))[which]
        return [*map(self._name, rows)] if isinstance(rows, range) else self._name(rows)

    def shard(self, row: int) -> tuple[Shard, int]:
        """Which one an image lies in, and its row in there."""
        number = bisect_right(self._starts, row) - 1
        return self._shards[number], row - self._starts[number]

    def _name(self, row: int) -> str:
        shard, inside = self.shard(row)
        return shard.index().names[inside]
