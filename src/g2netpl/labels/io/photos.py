"""Keywords of photos: XMP packets and IPTC inside the files, and XMP sidecars next to them.

Packets are read and edited with lxml; all but the edited keywords is kept. A packet that cannot be
read raises ValueError; one with a DOCTYPE is rejected, so that no entity is ever expanded.
"""

import os
import warnings
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence, Set
from functools import cache
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from lxml import etree
from PIL import Image, IptcImagePlugin, UnidentifiedImageError

from g2netpl.labels.io.options import TagLevel
from g2netpl.labels.names import normalize_name
from g2netpl.labels.paths import RAW_SUFFIXES, SUFFIXES, UNREAD_SUFFIXES, is_below
from g2netpl.utils.image_refs import MAX_PIXELS, formats, open_file

TagPath = tuple[str, ...]  # a tag with the levels above it, the widest first
MAX_BYTES = 1 << 24  # of a packet
_IPTC_KEYWORDS = (2, 25)
_INTERNAL = "darktable"  # darktable keeps notes of its own below this level
_PHOTOS = (*SUFFIXES, *RAW_SUFFIXES, *UNREAD_SUFFIXES)

_RDF = "http://www.w3.org/1999/02/22-rdf-syntax-ns#"
_LISTS = tuple(f"{{{_RDF}}}{name}" for name in ("Bag", "Seq", "Alt"))
_ITEM, _DESCRIPTION = f"{{{_RDF}}}li", f"{{{_RDF}}}Description"
_UNICODE_MARKS = (b"\xff\xfe", b"\xfe\xff", b"<\0", b"\0<", b"\0\0")  # UTF-16 or UTF-32
EMPTY = f"""<?xml version="1.0" encoding="UTF-8"?>
<x:xmpmeta xmlns:x="adobe:ns:meta/" x:xmptk="g2netpl">
 <rdf:RDF xmlns:rdf="{_RDF}">
  <rdf:Description rdf:about="">
  </rdf:Description>
 </rdf:RDF>
</x:xmpmeta>
""".encode()


class Property(NamedTuple):
    """A property of XMP that lists keywords; the separator is between the levels of a keyword."""

    prefix: str
    namespace: str
    name: str
    kind: str = "Bag"  # of the list, as its programs write it
    separator: str = "|"

    @property
    def tag(self) -> str:
        """The name as lxml has it."""
        return f"{{{self.namespace}}}{self.name}"

    def levels(self, keyword: str) -> TagPath:
        """The levels of a keyword, the widest first."""
        parts = (part.strip() for part in keyword.split(self.separator))
        return tuple(part for part in parts if part)


SUBJECT = Property("dc", "http://purl.org/dc/elements/1.1/", "subject")
HIERARCHY = Property("lr", "http://ns.adobe.com/lightroom/1.0/", "hierarchicalSubject")
TAGS_LIST = Property("digiKam", "http://www.digikam.org/ns/1.0/", "TagsList", "Seq", "/")
LAST_KEYWORD = Property(
    "MicrosoftPhoto", "http://ns.microsoft.com/photo/1.0/", "LastKeywordXMP", "Bag", "/"
)
ADDED = Property("g2netpl", "http://ns.g2netpl/1.0/", "added")  # keywords that g2netpl predicted
KEYWORDS = (SUBJECT, HIERARCHY, TAGS_LIST, LAST_KEYWORD)


class Packet:
    """The keyword lists of an XMP packet."""

    def __init__(self, content: bytes) -> None:
        if len(content) > MAX_BYTES:
            raise ValueError(f"more than {MAX_BYTES:,} bytes of XMP")
        if not content.startswith(_UNICODE_MARKS):
            content = content.strip(b" \t\r\n\0")
        parser = etree.XMLParser(resolve_entities=False, no_network=True, strip_cdata=False)
        try:
            root = etree.fromstring(content, parser)
        except etree.XMLSyntaxError as problem:
            raise ValueError(f"not valid XML ({problem.msg})") from None
        self._tree: Any = root.getroottree()
        self._is_declared = content.startswith(b"<?xml")
        self._rdf: Any = next(root.iter(f"{{{_RDF}}}RDF"), None)
        if self._rdf is None or self._tree.docinfo.doctype:
            raise ValueError("not XMP: it has no rdf:RDF, or a DOCTYPE")

    def keywords(self, property: Property) -> list[str]:
        """The keywords of a property, in a list or not."""
        items = [item for found in self.lists(property) for item in found.iterchildren(_ITEM)]
        return [text for text in (*map(_text, items), *self._unlisted(property)) if text]

    def edit(self, property: Property, added: Sequence[str], removed: Set[str]) -> None:
        """Put keywords at the end of a list, and remove those whose last level (in NFC) is given.

        A list that is missing is made. ValueError if keywords are in no list.
        """
        if self._unlisted(property):
            raise ValueError(f"{property.prefix}:{property.name} is not a list of RDF")
        lists = self.lists(property) or ([self._new_list(property)] if added else [])
        for items in lists:
            for item in items.findall(_ITEM):
                if {normalize_name(word) for word in property.levels(_text(item))[-1:]} & removed:
                    items.remove(item)
        for keyword in added:
            etree.SubElement(lists[0], _ITEM).text = keyword
        for items in lists:
            etree.indent(items, " ", level=len([*items.iterancestors()]))

    def to_bytes(self) -> bytes:
        """The packet as UTF-8."""
        declared = self._is_declared
        content: bytes = etree.tostring(self._tree, encoding="UTF-8", xml_declaration=declared)
        return content + b"\n"

    def lists(self, property: Property) -> list[Any]:
        """The lists of a property, even empty ones."""
        elements = self._rdf.findall(f"{_DESCRIPTION}/{property.tag}")
        return [items for element in elements for items in element.iterchildren(*_LISTS)]

    def _unlisted(self, property: Property) -> list[str]:
        texts = [element.get(property.tag) for element in self._rdf.iterchildren(_DESCRIPTION)]
        texts += [element.text for element in self._rdf.findall(f"{_DESCRIPTION}/{property.tag}")]
        return [text.strip() for text in texts if text and text.strip()]

    def _new_list(self, property: Property) -> Any:
        description = self._rdf.find(_DESCRIPTION)
        if description is None:
            attributes = {f"{{{_RDF}}}about": ""}
            description = etree.SubElement(self._rdf, _DESCRIPTION, attributes)
        nsmap = {property.prefix: property.namespace}
        element = etree.SubElement(description, property.tag, nsmap=nsmap)
        element.tail = "\n"
        return etree.SubElement(element, f"{{{_RDF}}}{property.kind}")


def _text(item: Any) -> str:
    return str(item.xpath("string()")).strip()


class Tags(NamedTuple):
    """The tags in one place, and those of them that a person gave."""

    paths: frozenset[TagPath] = frozenset()
    known: frozenset[TagPath] = frozenset()


def union(places: Iterable[Tags]) -> Tags:
    """The tags of all places."""
    several = list(places)
    paths = frozenset().union(*(tags.paths for tags in several))
    return Tags(paths, frozenset().union(*(tags.known for tags in several)))


def tags_in(packet: Packet) -> Tags:
    """The tags in an XMP packet, without `darktable|format|jpg` and the single words of it."""
    found = {kind.levels(word) for kind in KEYWORDS for word in packet.keywords(kind)} - {()}
    internal = {path for path in found if path[0] == _INTERNAL and len(path) > 1}
    paths = frozenset(found - internal - {(word,) for path in internal for word in path})
    predicted = set(map(normalize_name, packet.keywords(ADDED)))
    known = frozenset(path for path in paths if normalize_name(path[-1]) not in predicted)
    return Tags(paths, known)


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
    texts = []
    for word in words if isinstance(words, list) else [words]:
        try:
            texts.append(word.decode("utf-8"))  # which many programs write without declaring it
        except UnicodeDecodeError:
            texts.append(word.decode("latin-1"))
    paths = frozenset(filter(None, map(SUBJECT.levels, texts)))
    content = packet.encode() if isinstance(packet, str) else packet
    return union([Tags(paths, paths), tags_in(Packet(content)) if content else Tags()])


def longest(paths: Set[TagPath]) -> list[TagPath]:
    """The tags without single words that are a level of another tag: programs list those too."""
    levels = {(word,) for path in paths if len(path) > 1 for word in path}
    return sorted(path for path in paths if path not in levels)


def last_levels(tags: Tags) -> set[str]:
    """The last level of each tag, in NFC."""
    return {normalize_name(path[-1]) for path in longest(tags.paths)}


def at_level(paths: Set[TagPath], level: TagLevel) -> set[str]:
    """The classes of some tags: the last level of each, all levels, or the level of a number."""
    if level == "all":
        return {word for path in paths for word in path}
    tags = longest(paths)
    if isinstance(level, int):
        return {path[level - 1] for path in tags if len(path) >= level}
    above = {path[:depth] for path in tags for depth in range(1, len(path))}
    return {path[-1] for path in tags if path not in above}


class Library:
    """Photos below a folder. A file that cannot be read has no tags; `issues` says why."""

    def __init__(self, root: str | Path) -> None:
        self.root = os.fspath(root)
        self.issues: list[str] = []
        self._files_in = cache(self._list_files)

    def tags(self, name: str) -> dict[str, Tags]:
        """The tags in a photo and in each of its sidecars, by the file; an issue is kept."""
        found = dict[str, Tags]()
        for file in (name, *self.sidecars(name)):
            try:
                with self._opened(file) as opened:
                    if file == name:
                        found[file] = embedded_tags(opened)
                    else:
                        found[file] = tags_in(Packet(opened.read(MAX_BYTES + 1)))
            except (OSError, ValueError) as problem:
                self.issues.append(f"{os.path.join(self.root, file)}: {reason(problem)}")
                found[file] = Tags()
        return found

    def sidecars(self, name: str) -> list[str]:
        """The sidecars of a photo: `IMG.JPG.xmp` before `IMG.xmp`, whatever the case."""
        above, file = os.path.split(name)
        names, photos, _ = self._files_in(above)
        found = []
        for sidecar in (f"{file}.xmp", f"{os.path.splitext(file)[0]}.xmp"):
            same = names.get(sidecar.lower(), [])
            found += [sidecar] if sidecar in same else same
        of_photo = (item for item in found if item[:-4] == file or item[:-4] not in photos)
        return [os.path.join(above, item) for item in of_photo]

    def shares_stem(self, name: str) -> bool:
        """Whether `IMG.xmp` would also be the sidecar of another photo, such as a raw file."""
        above, file = os.path.split(name)
        return self._files_in(above)[2][os.path.splitext(file)[0].lower()] > 1

    def sidecar(self, name: str) -> bytes | None:
        """The bytes of a sidecar that will be replaced; None if there is none."""
        if os.path.islink(os.path.join(self.root, name)):
            raise ValueError("a link is not written to")
        try:
            with self._opened(name) as file:
                return file.read(MAX_BYTES + 1)
        except FileNotFoundError:
            return None

    def _opened(self, name: str) -> BinaryIO:
        """A regular file below the folder; no link leads out of it."""
        path = os.path.join(self.root, name)
        if not is_below(path, self.root):
            raise ValueError(f"leads out of the image folder {self.root}")
        return open_file(path)

    def _list_files(self, folder: str) -> tuple[dict[str, list[str]], set[str], Counter[str]]:
        """The files in a folder by their lower-case names, the photos, and the photos' stems."""
        names, photos = defaultdict[str, list[str]](list), set[str]()
        for name in sorted(os.listdir(os.path.join(self.root, folder))):
            names[name.lower()].append(name)
            photos |= {name} if name.lower().endswith(_PHOTOS) else set()
        return dict(names), photos, Counter(os.path.splitext(name)[0].lower() for name in photos)


def reason(problem: OSError | ValueError) -> str:
    """Why a file cannot be read or written."""
    return str((isinstance(problem, OSError) and problem.strerror) or problem)
