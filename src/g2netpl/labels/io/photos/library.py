"""A folder of photos: the keywords of each, inside the file and in the sidecars next to it."""

import os
import warnings
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Set
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

from PIL import Image, IptcImagePlugin, UnidentifiedImageError

from g2netpl.labels.io.options import TagLevel
from g2netpl.labels.io.photos import xmp
from g2netpl.labels.names import normalize_name
from g2netpl.labels.paths import RAW_SUFFIXES, SUFFIXES, UNREAD_SUFFIXES
from g2netpl.utils.image_refs import MAX_PIXELS, PathBelow, formats, open_file

TagPath = tuple[str, ...]  # a tag with the levels above it, the widest first

_IPTC_KEYWORDS = (2, 25)
_INTERNAL = "darktable"  # darktable keeps notes of its own below this level


@dataclass(frozen=True)
class Tags:
    """The tags in one place, those that g2netpl predicted, and the lists that are there."""

    paths: frozenset[TagPath] = frozenset()
    predicted: frozenset[str] = frozenset()
    lists: frozenset[xmp.Property] = frozenset()

    @property
    def known(self) -> frozenset[TagPath]:
        """The tags that a person gave."""
        return frozenset(
            path for path in self.paths if normalize_name(path[-1]) not in self.predicted
        )


@dataclass(frozen=True)
class Photo:
    """The tags of a photo: inside the file, and in each sidecar."""

    embedded: Tags
    sidecars: dict[str, Tags] = field(default_factory=dict)

    @property
    def paths(self) -> frozenset[TagPath]:
        """All tags."""
        return self.embedded.paths.union(*(tags.paths for tags in self.sidecars.values()))

    @property
    def known(self) -> frozenset[TagPath]:
        """All tags that a person gave."""
        return self.embedded.known.union(*(tags.known for tags in self.sidecars.values()))


class Library:
    """Photos below a folder. A file that cannot be read has no tags; `issues` says why."""

    def __init__(self, root: str | Path) -> None:
        self.root = os.fspath(root)
        self.issues: list[str] = []
        self._folders: dict[str, _Folder] = {}

    def photo(self, name: str) -> Photo:
        """The tags of a photo."""
        embedded, sidecars = Tags(), dict.fromkeys(self.sidecars(name), Tags())
        with self._noting_issues(name), self.open(name) as file:
            embedded = embedded_tags(file)
        for sidecar in sidecars:
            with self._noting_issues(sidecar):
                sidecars[sidecar] = tags_in_xmp(self.content(sidecar))
        return Photo(embedded, sidecars)

    def sidecars(self, name: str) -> list[str]:
        """The sidecars of a photo: `IMG.JPG.xmp` before `IMG.xmp`."""
        above, file = os.path.split(name)
        folder, stem = self._folder(above), os.path.splitext(file)[0]
        found = [path for base in (file, stem) for path in folder.spellings(f"{base}.xmp")]
        own = (path for path in found if path[:-4] == file or path[:-4] not in folder.photos)
        return [os.path.join(above, path) for path in own]

    def shares_stem(self, name: str) -> bool:
        """Whether `IMG.xmp` would also be the sidecar of another photo, such as a raw file."""
        above, file = os.path.split(name)
        return self._folder(above).stems[os.path.splitext(file)[0].lower()] > 1

    def shared_sidecars(self, name: str) -> list[str]:
        """The sidecars of a photo that belong to another photo too."""
        full = os.path.basename(f"{name}.xmp").lower()
        sidecars = self.sidecars(name) if self.shares_stem(name) else []
        return [sidecar for sidecar in sidecars if os.path.basename(sidecar).lower() != full]

    def open(self, name: str) -> BinaryIO:
        """Open a regular file below the folder; no link leads out of it."""
        return open_file(PathBelow(self.root, name))

    def content(self, name: str) -> bytes:
        """The bytes of a sidecar."""
        with self.open(name) as file:
            return file.read(xmp.MAX_BYTES + 1)

    def content_to_replace(self, name: str) -> bytes | None:
        """The bytes of a sidecar that will be replaced; None if there is none."""
        if os.path.islink(os.path.join(self.root, name)):
            raise ValueError("a link is not written to")
        try:
            return self.content(name)
        except FileNotFoundError:
            return None

    def _folder(self, name: str) -> "_Folder":
        if name not in self._folders:
            self._folders[name] = _Folder(os.path.join(self.root, name))
        return self._folders[name]

    @contextmanager
    def _noting_issues(self, name: str) -> Iterator[None]:
        try:
            yield
        except (OSError, ValueError) as problem:
            self.issues.append(f"{os.path.join(self.root, name)}: {reason(problem)}")


def reason(problem: OSError | ValueError) -> str:
    """Why a file cannot be read or written."""
    return str((isinstance(problem, OSError) and problem.strerror) or problem)


class _Folder:
    """The file names in a folder, by their lower-case form, and how many photos share a stem."""

    def __init__(self, path: str) -> None:
        self._names: dict[str, list[str]] = defaultdict(list)
        try:
            for name in sorted(os.listdir(path)):
                self._names[name.lower()].append(name)
        except OSError:
            pass  # opening the photo reports it
        endings = (*SUFFIXES, *RAW_SUFFIXES, *UNREAD_SUFFIXES)
        photos = (names for lower, names in self._names.items() if lower.endswith(endings))
        self.photos = {name for names in photos for name in names}
        self.stems = Counter(os.path.splitext(name)[0].lower() for name in self.photos)

    def spellings(self, name: str) -> list[str]:
        """The file of this name, or those that differ in upper and lower case only."""
        found = self._names.get(name.lower(), [])
        return [name] if name in found else found


def embedded_tags(file: BinaryIO) -> Tags:
    """The keywords inside an image file, in XMP and IPTC; no tags if it is not an image."""
    packet, words = b"", list[bytes]()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with Image.open(file, formats=formats()) as image:
                is_small = image.width * image.height <= MAX_PIXELS
                if image.format == "PNG" and "xmp" not in image.info and is_small:
                    image.load()  # the keywords may be behind the pixels
                packet = image.info.get("xmp") or b""
                iptc = (IptcImagePlugin.getiptcinfo(image) or {}).get(_IPTC_KEYWORDS, [])
                words = iptc if isinstance(iptc, list) else [iptc]
    except UnidentifiedImageError:
        return Tags()
    except Exception as problem:  # decoders raise errors of every kind for damaged files
        raise ValueError(f"metadata cannot be read ({problem})") from None
    tags = tags_in_xmp(packet.encode() if isinstance(packet, str) else packet) if packet else Tags()
    levels = (xmp.SUBJECT.levels(_decode(word)) for word in words)
    return Tags(tags.paths | _without_internal(filter(None, levels)), tags.predicted)


def _decode(word: bytes) -> str:
    """UTF-8, which many programs write without declaring it, or else Latin-1."""
    try:
        return word.decode("utf-8")
    except UnicodeDecodeError:
        return word.decode("latin-1")


def tags_in_xmp(content: bytes) -> Tags:
    """The tags in an XMP packet."""
    packet = xmp.Packet(content)
    paths = (of.levels(word) for of in xmp.KEYWORDS for word in packet.keywords(of))
    predicted = frozenset(map(normalize_name, packet.keywords(xmp.ADDED)))
    lists = frozenset(filter(packet.has_list, xmp.KEYWORDS))
    return Tags(_without_internal(filter(None, paths)), predicted, lists)


def _without_internal(paths: Iterable[TagPath]) -> frozenset[TagPath]:
    """The tags without `darktable|format|jpg`, and without the single words of it."""
    found = frozenset(paths)
    internal = [path for path in found if path[0] == _INTERNAL and len(path) > 1]
    return found.difference(internal, {(word,) for path in internal for word in path})


def longest(paths: Set[TagPath]) -> list[TagPath]:
    """The tags without single words that are a level of another tag: programs list those too."""
    levels = {(word,) for path in paths if len(path) > 1 for word in path}
    return sorted(path for path in paths if path not in levels)


def at_level(paths: Set[TagPath], level: TagLevel) -> set[str]:
    """The classes of some tags: the last level of each, all levels, or the level of a number."""
    if level == "all":
        return {word for path in paths for word in path}
    tags = longest(paths)
    if level != "leaf":
        return {path[level - 1] for path in tags if len(path) >= level}
    above = {path[:depth] for path in tags for depth in range(1, len(path))}
    return {path[-1] for path in tags if path not in above}


class Hierarchy:
    """Where each word is among the levels of all tags."""

    def __init__(self) -> None:
        self._paths: dict[str, set[TagPath]] = defaultdict(set)

    def add(self, paths: Set[TagPath]) -> None:
        """Add the tags of a photo."""
        for path in longest(paths):
            for depth, word in enumerate(path, start=1):
                self._paths[normalize_name(word)].add(path[:depth])

    def places(self, word: str) -> list[TagPath]:
        """All places of a word."""
        return sorted(self._paths.get(normalize_name(word), ()))

    def place(self, word: str) -> TagPath:
        """The only place of a word; the word itself if it has none or several."""
        places = self.places(word)
        return places[0] if len(places) == 1 else (word,)
