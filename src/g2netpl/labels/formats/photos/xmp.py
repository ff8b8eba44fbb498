"""XMP, the metadata of photos in XML: lists of keywords read, and changed with all else as it was.

A change is made in the bytes: items of a list are cut out and put in, and nothing else moves. A
text in another encoding than Unicode, as ISO-8859-1, becomes UTF-8 with its declaration changed.
No DOCTYPE, so no entities either. A text that cannot be read raises ValueError.
"""

import codecs
import contextlib
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal
from xml.parsers import expat
from xml.sax.saxutils import escape

from g2netpl.labels.formats.xml_file import Walk

_RDF = "http://www.w3.org/1999/02/22-rdf-syntax-ns#"
_ROOT, _DESCRIPTION, _ITEM = (f"{_RDF} {name}" for name in ("RDF", "Description", "li"))
_LISTS = tuple(f"{_RDF} {name}" for name in ("Bag", "Seq", "Alt"))
Role = Literal["rdf", "description", "property", "list", "item"]
_ENCODINGS = (  # first bytes of a text; behind them, if they are no letter, it begins
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
    (b"<\0\0\0", "utf-32-le"),
    (b"\0\0\0<", "utf-32-be"),
    (b"<\0", "utf-16-le"),
    (b"\0<", "utf-16-be"),
)
_DECLARATION = re.compile(rb"""(<\?xml\s[^>]*?\bencoding\s*=\s*["'])([\w.:-]+)""")
_NOT_UNICODE = ("ascii", "iso8859-", "cp", "koi8-", "mac-", "shift_jis", "euc_", "gb", "big5")
_TAG = re.compile(rb"""</?([^\s/>]+)(?:[^"'>]|"[^"]*"|'[^']*')*>""")  # of XML that was read
NOT_IN_XML = re.compile("[^\t\n\r -\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")

EMPTY = f"""<?xml version="1.0" encoding="UTF-8"?>
<x:xmpmeta xmlns:x="adobe:ns:meta/" x:xmptk="g2netpl">
 <rdf:RDF xmlns:rdf="{_RDF}">
  <rdf:Description rdf:about=""/>
 </rdf:RDF>
</x:xmpmeta>
""".encode()


@dataclass(frozen=True)
class Property:
    """A list of keywords in XMP; the marks stand between the levels of one."""

    prefix: str
    namespace: str
    name: str
    kind: str  # of the list, as its programs write it
    mark: str


SUBJECT = Property("dc", "http://purl.org/dc/elements/1.1/", "subject", "Bag", "|")
HIERARCHY = Property("lr", "http://ns.adobe.com/lightroom/1.0/", "hierarchicalSubject", "Bag", "|")
TAGS_LIST = Property("digiKam", "http://www.digikam.org/ns/1.0/", "TagsList", "Seq", "/")
ADDED = Property("g2netpl", "http://ns.g2netpl/1.0/", "added", "Bag", "|")  # tags nobody gave
PROPERTIES = (SUBJECT, HIERARCHY, TAGS_LIST, ADDED)
_BY_NAME = {f"{each.namespace} {each.name}": each for each in PROPERTIES}  # as the parser names it


@dataclass(slots=True)
class Element:
    """Where an element stands in the bytes, what it is to us, and the text directly in it."""

    role: Role | None
    of: Property | None  # whose list or item it is
    start: int
    inner: int = -1  # its end tag; −1 where it has none, `<rdf:Bag/>`
    end: int = -1
    text: str = ""


@dataclass
class Packet:
    """What was found in XMP: keywords by list, and where all of it stands."""

    text: bytes  # in UTF-8
    rdf: Element | None = None
    description: Element | None = None  # the first
    lists: dict[Property, Element] = field(default_factory=dict)
    items: list[Element] = field(default_factory=list)
    odd: list[tuple[Property, str]] = field(default_factory=list)  # a keyword that is in no list

    def keywords(self, property: Property) -> list[str]:
        """The keywords of a list, without spaces around them."""
        texts = [item.text for item in self.items if item.of is property]
        texts += [text for of, text in self.odd if of is property]
        return [text for each in texts if (text := each.strip())]


def parse(content: bytes) -> Packet:
    """Read XMP, in any of its encodings."""
    return _parsed(_decoded(content)[0])


def _parsed(text: str) -> Packet:
    packet = Packet(text.encode())
    _Reader(packet).read()
    if packet.rdf is None:
        raise ValueError("not XMP: it has no rdf:RDF")
    return packet


def edited(
    content: bytes,
    add: Mapping[Property, Sequence[str]],
    remove: Callable[[Property, str], bool],
) -> bytes:
    """The same XMP with keywords more, at the end of their lists, and without some."""
    text, lead, encoding = _decoded(content)
    packet = _parsed(text)
    if packet.odd:
        raise ValueError(f"{packet.odd[0][0].prefix}:{packet.odd[0][0].name} is no list of RDF")
    changes = [
        (_before(packet.text, item.start), item.end, b"")
        for item in packet.items
        if item.of is not None and remove(item.of, item.text.strip())
    ]
    rest = []
    for property, names in add.items():
        if names and property in packet.lists:
            changes.append(_appended(packet, packet.lists[property], property, names))
        elif names:
            rest.append(_new_list(packet, property, names))
    if rest:
        changes.append(_in_description(packet, b"".join(rest)))
    result = packet.text
    for start, end, put in sorted(changes, key=lambda each: each[:2], reverse=True):
        result = result[:start] + put + result[end:]
    encoding = encoding if encoding.startswith("utf-") else "utf-8"
    written = (lead + _redeclared(result, encoding).decode()).encode(encoding)
    _check(packet, written, add, remove)
    return written


def _redeclared(text: bytes, encoding: str) -> bytes:
    """The text with a declaration that names the encoding it is written in."""
    declaration = _DECLARATION.match(text)
    name = encoding.upper()[:6].rstrip("-")  # UTF-16 of UTF-16-LE
    if declaration is None or declaration[2].decode().upper() in (name, encoding.upper()):
        return text
    return declaration[1] + name.encode() + text[declaration.end() :]


def _check(
    before: Packet,
    result: bytes,
    add: Mapping[Property, Sequence[str]],
    remove: Callable[[Property, str], bool],
) -> None:
    """See that what was written is what was meant."""
    after = parse(result)
    for property in PROPERTIES:
        kept = [each for each in before.keywords(property) if not remove(property, each)]
        if sorted(after.keywords(property)) != sorted([*kept, *add.get(property, ())]):
            raise ValueError(f"{property.prefix}:{property.name} cannot be changed in this file")


def _decoded(content: bytes) -> tuple[str, str, str]:
    """The text from its first `<` on, what stands before it, and the encoding."""
    found = (encoding for mark, encoding in _ENCODINGS if content.startswith(mark))
    encoding = next(found, None) or _declared_encoding(content)
    whole = content.decode(encoding).rstrip("\0")
    text = whole.lstrip("\ufeff \t\r\n")
    return text, whole[: len(whole) - len(text)], encoding


def _declared_encoding(content: bytes) -> str:
    """The encoding of a text that begins like ASCII, by its declaration."""
    declaration = _DECLARATION.match(content.lstrip())
    if declaration is None:
        return "utf-8"
    name = declaration[2].decode()
    with contextlib.suppress(LookupError):
        encoding = codecs.lookup(name).name
        if encoding.startswith("utf-"):
            return "utf-8"  # UTF-16 would not begin like ASCII, whatever the text declares
        if encoding.startswith(_NOT_UNICODE):
            return encoding
    raise ValueError(f"unknown encoding {name!r}")


class _Reader(Walk):
    """Walks through the elements, and notes where lists of keywords are."""

    def __init__(self, packet: Packet) -> None:
        super().__init__("utf-8", " ")
        self._packet = packet
        self._open: list[Element] = []

    def read(self) -> None:
        """All of it."""
        try:
            self.parser.Parse(self._packet.text, True)
        except expat.ExpatError as problem:
            raise ValueError(f"not valid XML ({problem})") from None

    def begin(self, name: str, attributes: dict[str, str]) -> None:
        """Note what it is."""
        above = self._open[-1] if self._open else None
        role, of = _role(name, above)
        element = Element(role, of, self.parser.CurrentByteIndex)
        self._open.append(element)
        if role == "rdf":
            self._packet.rdf = self._packet.rdf or element
        elif role == "description":
            self._packet.description = self._packet.description or element
            for each in _BY_NAME.keys() & attributes.keys():
                self._packet.odd.append((_BY_NAME[each], attributes[each]))
        elif role == "list" and of is not None:
            self._packet.lists.setdefault(of, element)

    def end(self, name: str) -> None:
        """Note where it ends."""
        element = self._open.pop()
        if element.role is None:
            return
        element.end = _end_of_tag(self._packet.text, element.start)
        if self._packet.text[element.end - 2 : element.end] != b"/>":
            element.inner = self.parser.CurrentByteIndex
            element.end = _end_of_tag(self._packet.text, element.inner)
        if element.role == "item":
            self._packet.items.append(element)
        elif element.of is not None and element.text.strip():
            self._packet.odd.append((element.of, element.text))

    def text(self, content: str) -> None:
        """Keep it, of keywords."""
        if self._open and self._open[-1].of is not None:
            self._open[-1].text += content


def _role(name: str, above: Element | None) -> tuple[Role | None, Property | None]:
    """What an element is, by its name and the one it is in: rdf:RDF/rdf:Description/dc:subject."""
    outer, of = (None, None) if above is None else (above.role, above.of)
    if name == _ROOT:
        return "rdf", None
    if outer == "rdf" and name == _DESCRIPTION:
        return "description", None
    if outer == "description" and name in _BY_NAME:
        return "property", _BY_NAME[name]
    if outer == "property" and name in _LISTS:
        return "list", of
    return ("item", of) if outer == "list" and name == _ITEM else (None, None)


Change = tuple[int, int, bytes]  # from, to, what takes its place


def _before(text: bytes, at: int) -> int:
    """Where the space before a place begins."""
    while text[at - 1 : at].isspace():
        at -= 1
    return at


def _indent(packet: Packet, element: Element) -> bytes:
    """The space before an element."""
    return packet.text[_before(packet.text, element.start) : element.start]


def _end_of_tag(text: bytes, at: int) -> int:
    """Behind the tag that begins at a place; a `>` in an attribute does not end it."""
    tag = _TAG.match(text, at)
    assert tag is not None
    return tag.end()


def _raw_name(packet: Packet, element: Element) -> bytes:
    tag = _TAG.match(packet.text, element.start)
    assert tag is not None
    return tag[1]


def _rdf_prefix(packet: Packet) -> str:
    """As the text has it, with its colon."""
    assert packet.rdf is not None
    return _raw_name(packet, packet.rdf).decode().removesuffix("RDF")


def _lines(packet: Packet, names: Sequence[str], indent: str) -> bytes:
    prefix = _rdf_prefix(packet)
    return "".join(
        f"{indent}<{prefix}li>{escape(name, {chr(13): '&#13;'})}</{prefix}li>" for name in names
    ).encode()


def _appended(packet: Packet, element: Element, property: Property, names: Sequence[str]) -> Change:
    """Items at the end of a list, as far in as its last one."""
    last = [item for item in packet.items if item.of is property and item.end <= element.end]
    indent = "\n     "
    if last:
        indent = _indent(packet, last[-1]).decode()
    return _inside(packet, element, _lines(packet, names, indent))


def _new_list(packet: Packet, property: Property, names: Sequence[str]) -> bytes:
    prefix, name = _rdf_prefix(packet), f"{property.prefix}:{property.name}"
    start = f'\n   <{name} xmlns:{property.prefix}="{property.namespace}">'
    items = _lines(packet, names, "\n     ").decode()
    kind = f"{prefix}{property.kind}"
    return f"{start}\n    <{kind}>{items}\n    </{kind}>\n   </{name}>".encode()


def _in_description(packet: Packet, content: bytes) -> Change:
    if packet.description is not None:
        return _inside(packet, packet.description, content)
    assert packet.rdf is not None
    prefix = _rdf_prefix(packet)
    name = f"{prefix}Description"
    start = f'\n  <{name} {prefix}about="">'
    return _inside(packet, packet.rdf, start.encode() + content + f"\n  </{name}>".encode())


def _inside(packet: Packet, element: Element, content: bytes) -> Change:
    """What is put at the end of an element, which may have been empty."""
    if element.inner >= 0:
        at = _before(packet.text, element.inner)
        return at, at, content
    name = _raw_name(packet, element)
    indent = _indent(packet, element)
    return element.end - 2, element.end, b">" + content + indent + b"</" + name + b">"


def levels(keyword: str, mark: str) -> tuple[str, ...]:
    """The levels of a keyword, the widest first."""
    return tuple(part for each in keyword.split(mark) if (part := each.strip()))


def tag_paths(packet: Packet) -> Iterator[tuple[str, ...]]:
    """The tags of a packet, each with the levels above it."""
    for property in (SUBJECT, HIERARCHY, TAGS_LIST):
        for keyword in packet.keywords(property):
            if path := levels(keyword, property.mark):
                yield path
