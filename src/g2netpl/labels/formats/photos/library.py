"""A folder of photos and the tags of each: in its header, and in the sidecars beside it."""

import os
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Set
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

from g2netpl.base.inside import PathBelow, open_file
from g2netpl.labels.formats.photos import headers, xmp
from g2netpl.labels.formats.reading import TagLevel
from g2netpl.labels.paths import SUFFIXES, UNREAD_SUFFIXES
from g2netpl.labels.spelling import composed

TagPath = tuple[str, ...]  # a tag behind the levels above it, the widest first

_NOTES_OF_PROGRAMS = "darktable"  # the level above what darktable notes for itself


@dataclass(frozen=True)
class Tags:
    """The tags in one place, those among them that nobody gave, and the lists they stand in."""

    paths: frozenset[TagPath] = frozenset()
    ours: frozenset[str] = frozenset()
    lists: frozenset[xmp.Property] = frozenset()

    @property
    def given(self) -> frozenset[TagPath]:
        """The tags that somebody gave."""
        if not self.ours:
            return self.paths
        return frozenset(path for path in self.paths if composed(path[-1]) not in self.ours)


@dataclass(frozen=True)
class Photo:
    """The tags of a photo: its own, and those of each sidecar."""

    own: Tags
    beside: dict[str, Tags] = field(default_factory=dict)

    @property
    def paths(self) -> frozenset[TagPath]:
        """All tags."""
        return self.own.paths.union(*(each.paths for each in self.beside.values()))

    @property
    def given(self) -> frozenset[TagPath]:
        """All tags that somebody gave."""
        return self.own.given.union(*(each.given for each in self.beside.values()))


class Library:
    """Photos below a folder. What cannot be read has no tags, and is told in `troubles`."""

    def __init__(self, root: str | Path) -> None:
        self.root = os.fspath(root)
        self.troubles: list[str] = []
        self._folders: dict[str, _Folder] = {}

    def photo(self, name: str) -> Photo:
        """Look at a photo."""
        found: list[Tags] = []
        with self._told(name), self.open(name) as file:
            for kind, content in headers.parts(file):
                with self._told(name):
                    found.append(_tags_of(kind, content))
        beside = dict.fromkeys(self.sidecars(name), Tags())
        for each in beside:
            with self._told(each):
                beside[each] = tags_in_xmp(self.content(each))
        return Photo(_joined(found), beside)

    def sidecars(self, name: str) -> list[str]:
        """The sidecars of a photo: `IMG.JPG.xmp` before `IMG.xmp`."""
        above, file = os.path.split(name)
        folder, stem = self._folder(above), os.path.splitext(file)[0]
        found = [each for of in (file, stem) for each in folder.spelt(f"{of}.xmp")]
        mine = (each for each in found if each[:-4] == file or each[:-4] not in folder.photos)
        return [os.path.join(above, each) for each in mine]

    def shares_stem(self, name: str) -> bool:
        """Whether `IMG.xmp` would be the sidecar of another photo too, such as a raw file."""
        above, file = os.path.split(name)
        return self._folder(above).stems[os.path.splitext(file)[0].lower()] > 1

    def shared_sidecars(self, name: str) -> list[str]:
        """The sidecars of a photo that belong to another photo too."""
        full = os.path.basename(f"{name}.xmp").lower()
        shared = self.sidecars(name) if self.shares_stem(name) else []
        return [sidecar for sidecar in shared if os.path.basename(sidecar).lower() != full]

    def open(self, name: str) -> BinaryIO:
        """A regular file below the folder, and nothing else."""
        return open_file(PathBelow(self.root, name))

    def writable(self, name: str) -> bytes | None:
        """The bytes of a sidecar that is to be replaced; None if there is none."""
        if os.path.islink(os.path.join(self.root, name)):
            raise ValueError("a link is not written to")
        try:
            return self.content(name)
        except FileNotFoundError:
            return None

    def content(self, name: str) -> bytes:
        """The bytes of a sidecar."""
        with self.open(name) as file:
            return headers.exactly(file, os.fstat(file.fileno()).st_size)

    def _folder(self, name: str) -> "_Folder":
        if name not in self._folders:
            self._folders[name] = _Folder(os.path.join(self.root, name))
        return self._folders[name]

    @contextmanager
    def _told(self, name: str) -> Iterator[None]:
        try:
            yield
        except (OSError, ValueError) as problem:
            self.troubles.append(f"{os.path.join(self.root, name)}: {why(problem)}")


def why(problem: OSError | ValueError) -> str:
    """What a person is told of a file that cannot be read."""
    return str(problem.strerror if isinstance(problem, OSError) else problem)


class _Folder:
    """Names in a folder, by their small letters; how many photos have a name but for its ending."""

    def __init__(self, path: str) -> None:
        self._names: dict[str, list[str]] = defaultdict(list)
        try:
            for name in sorted(os.listdir(path)):
                self._names[name.lower()].append(name)
        except OSError:
            pass  # as who opens the photo will tell
        endings = SUFFIXES + UNREAD_SUFFIXES  # raw files have sidecars too
        photos = (names for small, names in self._names.items() if small.endswith(endings))
        self.photos = {name for names in photos for name in names}
        self.stems = Counter(os.path.splitext(name)[0].lower() for name in self.photos)

    def spelt(self, name: str) -> list[str]:
        """The file of a name, or else those with other letters of it as capitals."""
        found = self._names.get(name.lower(), [])
        return [name] if name in found else found


def _tags_of(kind: str, content: bytes) -> Tags:
    if kind == "iptc":
        words = (xmp.levels(word, "|") for word in headers.keywords(content))
        return Tags(_of_people(path for path in words if path))
    return tags_in_xmp(content)


def tags_in_xmp(content: bytes) -> Tags:
    """The tags of a sidecar, or of the XMP in a photo."""
    packet = xmp.parse(content)
    ours = frozenset(map(composed, packet.keywords(xmp.ADDED)))
    return Tags(_of_people(xmp.tag_paths(packet)), ours, frozenset(packet.lists))


def _joined(found: Iterable[Tags]) -> Tags:
    """The tags of all parts of a header."""
    paths, ours = set[TagPath](), set[str]()
    for each in found:
        paths |= each.paths
        ours |= each.ours
    return Tags(frozenset(paths), frozenset(ours))


def _of_people(paths: Iterable[TagPath]) -> frozenset[TagPath]:
    """Without what darktable notes for itself, `darktable|format|jpg`, nor the words of it."""
    found = frozenset(paths)
    notes = [path for path in found if path[0] == _NOTES_OF_PROGRAMS and len(path) > 1]
    words = {(word,) for path in notes for word in path}
    return found.difference(notes, words)


def whole(paths: Set[TagPath]) -> list[TagPath]:
    """Without single words that are a level of another tag: programs list those too."""
    deeper = {(word,) for path in paths if len(path) > 1 for word in path}
    return sorted(path for path in paths if path not in deeper)


def at_level(paths: Set[TagPath], level: TagLevel) -> set[str]:
    """The classes that tags stand for: the last level of each, all, or that of a number."""
    if level == "all":
        return {word for path in paths for word in path}
    tags = whole(paths)
    if level != "leaf":
        return {path[level - 1] for path in tags if len(path) >= level}
    above = {path[:depth] for path in tags for depth in range(1, len(path))}
    return {path[-1] for path in tags if path not in above}


class Places:
    """Where words stand in the hierarchy of tags: `kestrel` in `animal|bird|kestrel`."""

    def __init__(self) -> None:
        self._of: dict[str, set[TagPath]] = defaultdict(set)

    def add(self, paths: Set[TagPath]) -> None:
        """Note the tags of a photo."""
        for path in whole(paths):
            for depth, word in enumerate(path, start=1):
                self._of[composed(word)].add(path[:depth])

    def of(self, word: str) -> list[TagPath]:
        """All places of a word."""
        return sorted(self._of.get(composed(word), ()))

    def only(self, word: str) -> TagPath:
        """The only place of a word; the word by itself where it has none, or several."""
        found = self.of(word)
        return found[0] if len(found) == 1 else (word,)
