"""A folder of photos: the keywords of each, inside the file and in the sidecars next to it."""

import os
import warnings
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Set
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
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
_PHOTOS = (*SUFFIXES, *RAW_SUFFIXES, *UNREAD_SUFFIXES)


@dataclass(frozen=True)
class Tags:
    """The tags in one place, and those of them that a person gave."""

    paths: frozenset[TagPath] = frozenset()
    known: frozenset[TagPath] = frozenset()

    def __or__(self, other: "Tags") -> "Tags":
        return Tags(self.paths | other.paths, self.known | other.known)

    @property
    def last_levels(self) -> set[str]:
        """The last level of each tag, in NFC."""
        return {normalize_name(path[-1]) for path in longest(self.paths)}


@dataclass(frozen=True)
class Photo:
    """The tags of a photo: inside the file, and in each sidecar."""

    embedded: Tags
    sidecars: dict[str, Tags]

    def tags(self, without: str | None = None) -> Tags:
        """The tags in all places, but for those in one sidecar."""
        found = self.embedded
        for sidecar, tags in self.sidecars.items():
            found |= Tags() if sidecar == without else tags
        return found


class Library:
    """Photos below a folder. A file that cannot be read has no tags; `issues` says why."""

    def __init__(self, root: str | Path) -> None:
        self.root = os.fspath(root)
        self.issues: list[str] = []
        self._files_in = cache(self._list_files)

    def photo(self, name: str) -> Photo:
        """The tags of a photo."""
        embedded, sidecars = Tags(), dict.fromkeys(self.sidecars(name), Tags())
        with self._noting_issues(name), open_file(PathBelow(self.root, name)) as file:
            embedded = embedded_tags(file)
        for sidecar in sidecars:
            with self._noting_issues(sidecar):
                sidecars[sidecar] = tags_in(xmp.Packet(self.content(sidecar)))
        return Photo(embedded, sidecars)

    def sidecars(self, name: str) -> list[str]:
        """The sidecars of a photo: `IMG.JPG.xmp` before `IMG.xmp`, whatever the case."""
        above, file = os.path.split(name)
        names, photos, _ = self._files_in(above)
        found = []
        for sidecar in (f"{file}.xmp", f"{os.path.splitext(file)[0]}.xmp"):
            same = names.get(sidecar.lower(), [])
            found += [sidecar] if sidecar in same else same
        own = (each for each in found if each[:-4] == file or each[:-4] not in photos)
        return [os.path.join(above, each) for each in own]

    def shares_stem(self, name: str) -> bool:
        """Whether `IMG.xmp` would also be the sidecar of another photo, such as a raw file."""
        above, file = os.path.split(name)
        stems = self._files_in(above)[2]
        return stems[os.path.splitext(file)[0].lower()] > 1

    def shared_sidecars(self, name: str) -> list[str]:
        """The sidecars of a photo that belong to another photo too."""
        full = os.path.basename(f"{name}.xmp").lower()
        sidecars = [each for each in self.sidecars(name) if os.path.basename(each).lower() != full]
        return sidecars if sidecars and self.shares_stem(name) else []

    def content(self, name: str) -> bytes:
        """The bytes of a sidecar: a regular file below the folder; no link leads out of it."""
        with open_file(PathBelow(self.root, name)) as file:
            return file.read(xmp.MAX_BYTES + 1)

    def content_to_replace(self, name: str) -> bytes | None:
        """The bytes of a sidecar that will be replaced; None if there is none."""
        if os.path.islink(os.path.join(self.root, name)):
            raise ValueError("a link is not written to")
        try:
            return self.content(name)
        except FileNotFoundError:
            return None

    def _list_files(self, folder: str) -> tuple[dict[str, list[str]], set[str], Counter[str]]:
        """The files in a folder by their lower-case names, the photos, and the photos' stems."""
        names = defaultdict[str, list[str]](list)
        with suppress(OSError):  # opening the photo reports it
            for name in sorted(os.listdir(os.path.join(self.root, folder))):
                names[name.lower()].append(name)
        photos = {
            name for each in names.values() for name in each if name.lower().endswith(_PHOTOS)
        }
        return dict(names), photos, Counter(os.path.splitext(name)[0].lower() for name in photos)

    @contextmanager
    def _noting_issues(self, name: str) -> Iterator[None]:
        try:
            yield
        except (OSError, ValueError) as problem:
            self.issues.append(f"{os.path.join(self.root, name)}: {reason(problem)}")


def reason(problem: OSError | ValueError) -> str:
    """Why a file cannot be read or written."""
    return str((isinstance(problem, OSError) and problem.strerror) or problem)


def embedded_tags(file: BinaryIO) -> Tags:
    """The keywords inside an image file, in XMP and IPTC; no tags if it is not an image."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with Image.open(file, formats=formats()) as image:
                is_small = image.width * image.height <= MAX_PIXELS
                if image.format == "PNG" and "xmp" not in image.info and is_small:
                    image.load()  # the keywords may be behind the pixels
                packet = image.info.get("xmp") or b""
                words = (IptcImagePlugin.getiptcinfo(image) or {}).get(_IPTC_KEYWORDS, [])
    except UnidentifiedImageError:
        return Tags()
    except Exception as problem:  # decoders raise errors of every kind for damaged files
        raise ValueError(f"metadata cannot be read ({problem})") from None
    words = words if isinstance(words, list) else [words]
    paths = frozenset(filter(None, (xmp.SUBJECT.levels(_decode(word)) for word in words)))
    content = packet.encode() if isinstance(packet, str) else packet
    return Tags(paths, paths) | (tags_in(xmp.Packet(content)) if content else Tags())


def _decode(word: bytes) -> str:
    """UTF-8, which many programs write without declaring it, or else Latin-1."""
    try:
        return word.decode("utf-8")
    except UnicodeDecodeError:
        return word.decode("latin-1")


def tags_in(packet: xmp.Packet) -> Tags:
    """The tags in an XMP packet, without `darktable|format|jpg` and the single words of it."""
    found = {of.levels(word) for of in xmp.KEYWORDS for word in packet.keywords(of)} - {()}
    internal = {path for path in found if path[0] == _INTERNAL and len(path) > 1}
    paths = frozenset(found - internal - {(word,) for path in internal for word in path})
    predicted = set(map(normalize_name, packet.keywords(xmp.ADDED)))
    known = frozenset(path for path in paths if normalize_name(path[-1]) not in predicted)
    return Tags(paths, known)


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


def places_of_words(photos: Iterable[Set[TagPath]]) -> dict[str, list[TagPath]]:
    """Where each word (in NFC) is among the levels of the tags of all photos."""
    places = defaultdict[str, set[TagPath]](set)
    for path in {path for paths in photos for path in longest(paths)}:
        for depth, word in enumerate(path, start=1):
            places[normalize_name(word)].add(path[:depth])
    return {word: sorted(paths) for word, paths in places.items()}
