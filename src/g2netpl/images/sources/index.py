"""What a shard holds, found out in one pass over it and kept for the next time.

The pass reads every image once: where it is, how long, its SHA-256, and whether its first bytes are
those of an image. The index lies in the user's cache folder and is good for a shard of the same
size and times. It is not believed for that: what is read has the sum that the index says, or is
refused. A shard's index is in memory while its images are looked for, and no longer.
"""

import hashlib
import io
import json
from collections.abc import Callable, Iterable
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple, Self

import numpy as np
import numpy.typing as npt

from g2netpl.base.disk import user_cache
from g2netpl.base.errors import InputError
from g2netpl.base.files import atomic_write
from g2netpl.base.inside import Unfit
from g2netpl.base.places import LARGEST, Opened, Place, Stamp
from g2netpl.images.pixels import header_problem
from g2netpl.labels.table import name_problem

CHANGED = "not what it was when the shard was indexed; was the shard changed?"
_VERSION = 2
_OPEN = 2  # indexes at a time
_ROW = np.dtype([("start", "<i8"), ("size", "<i8"), ("sum", "V32"), ("fine", "?")])

Rows = npt.NDArray[np.void]
Scan = Callable[[list[str]], Iterable["Entry"]]  # of a shard; it adds to some notes


class Entry(NamedTuple):
    """One image of a shard, whose content begins at `start`."""

    name: str
    start: int
    size: int
    sum: bytes
    fine: bool  # its first bytes are those of an image

    @classmethod
    def of(cls, name: str, start: int, content: bytes) -> Self:
        """What its content says."""
        fine = header_problem(name, io.BytesIO(content)) is None
        return cls(name, start, len(content), hashlib.sha256(content).digest(), fine)


class Held(Place):
    """An image in a shard; `seen` is the stamp that the shard had when it was indexed."""

    __slots__ = ("entry", "holder", "seen")
    holder: Place
    entry: Entry
    seen: Stamp

    def __new__(cls, holder: Place, entry: Entry, seen: Stamp) -> Self:
        """Shown as if the shard were a folder."""
        made = super().__new__(cls, f"{holder}/{entry.name}")
        made.holder, made.entry, made.seen = holder, entry, seen
        return made

    @property
    def shard(self) -> str:
        """What is read together."""
        return str(self.holder)

    @property
    def looked_at(self) -> bool:
        """Whether its header was found right."""
        return self.entry.fine

    def stamp(self) -> Stamp:
        """Its own size, and the times of the shard."""
        now = self.holder.stamp()
        return now if now[0] < 0 else (self.entry.size, *now[1:])

    def digest(self) -> bytes | None:
        """As the index says, as long as nobody touched the shard."""
        return self.entry.sum if self.holder.stamp() == self.seen else super().digest()

    def open(self) -> Opened:
        """The image that was indexed, and no other."""
        start, size = self.entry.start, self.entry.size
        if not 0 <= start <= start + size <= self.seen[0] or size > LARGEST:
            raise Unfit(CHANGED)
        content = self.holder.read(start, start + size)
        if hashlib.sha256(content).digest() != self.entry.sum:
            raise Unfit(CHANGED)
        return io.BytesIO(content)

    def __getnewargs__(self) -> tuple[Place, Entry, Stamp]:  # type: ignore[override]
        return self.holder, self.entry, self.seen


class Index(NamedTuple):
    """The images of a shard in their order, and notes on what is passed over."""

    names: list[str]
    rows: Rows
    notes: list[str]


class Shard:
    """A file that holds images; `scan` finds out which where no index was kept."""

    def __init__(self, holder: Place, scan: Scan) -> None:
        self.holder, self.scan = holder, scan
        self.seen = holder.stamp()
        self.unkept: Index | None = None  # an index that cannot be kept in a file
        if self.seen[0] < 0:
            raise InputError(f"{holder}: no such shard")

    def index(self) -> Index:
        """What is in it."""
        return self.unkept or _opened(self)

    def held(self, name: str, row: np.void) -> Held:
        """One of its images."""
        return Held(self.holder, Entry(name, *row.item()), self.seen)


@lru_cache(maxsize=_OPEN)
def _opened(shard: Shard) -> Index:
    path = _file(shard.holder)
    kept = None if path is None else _kept(path, shard.seen)
    if kept is not None:
        return kept
    if shard.holder.stamp() != shard.seen:
        raise InputError(f"{shard.holder}: changed since it was listed; start the command again")
    notes: list[str] = []
    entries = _fit(shard.holder, shard.scan(notes), notes)
    rows = np.array([entry[1:] for entry in entries], dtype=_ROW)
    made = Index([entry.name for entry in entries], rows, notes)
    if path is None or not _keep(path, shard.seen, made):
        shard.unkept = made
    return made


def _fit(holder: Place, entries: Iterable[Entry], notes: list[str]) -> list[Entry]:
    """Those whose names may be looked for; none is there twice."""
    found: dict[str, Entry] = {}
    for entry in entries:
        problem = name_problem(entry.name)
        if problem is not None:
            notes.append(f"{holder}: {entry.name!r:.100} passed over: {problem}")
        elif entry.name in found:
            raise InputError(f"{holder}: {entry.name!r} is in it twice; which one is meant?")
        else:
            found[entry.name] = entry
    return list(found.values())


def _file(holder: Place) -> Path | None:
    key = hashlib.sha256(f"{_VERSION}\0{holder.whole}".encode("utf-8", "surrogateescape"))
    try:
        return user_cache("indexes", "") / f"{key.hexdigest()[:32]}.npz"
    except InputError:  # no home: found out anew every time
        return None


def _kept(path: Path, stamp: Stamp) -> Index | None:
    try:
        with open(path, "rb") as opened, np.load(opened, allow_pickle=False) as file:
            seen, text, rows = file["stamp"], file["names"], file["rows"]
        names, notes = json.loads(text.tobytes())
        if tuple(seen.tolist()) != stamp or rows.dtype != _ROW or len(names) != len(rows):
            return None
        return Index(names, rows, notes)
    except Exception:  # not there, or damaged in any way: it can be made anew
        return None


def _keep(path: Path, stamp: Stamp, index: Index) -> bool:
    text = json.dumps([index.names, index.notes]).encode()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        names = np.frombuffer(text, np.uint8)
        with atomic_write(path) as file:
            np.savez(file, stamp=np.array(stamp), names=names, rows=index.rows)
    except OSError:  # a full or read-only disk: found out anew the next time
        return False
    return True
