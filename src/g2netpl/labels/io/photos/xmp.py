"""XMP packets: the keyword lists of photo programs, read and edited with lxml.

Everything but the edited keywords is kept. A packet that cannot be read raises ValueError; one with
a DOCTYPE is rejected, so that no entity is ever expanded.
"""

import re
from collections.abc import Sequence, Set
from dataclasses import dataclass
from typing import Any

from lxml import etree

from g2netpl.labels.names import normalize_name

MAX_BYTES = 1 << 24  # of a packet
NOT_IN_XML = re.compile("[^\t\n\r -\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
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


@dataclass(frozen=True)
class Property:
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

    def levels(self, keyword: str) -> tuple[str, ...]:
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
        parser = etree.XMLParser(
            resolve_entities=False, no_network=True, load_dtd=False, strip_cdata=False
        )
        try:
            root = etree.fromstring(content, parser)
        except etree.XMLSyntaxError as problem:
            raise ValueError(f"not valid XML ({problem.msg})") from None
        self._tree: Any = root.getroottree()
        if self._tree.docinfo.doctype:
            raise ValueError("XMP with a DOCTYPE is not read")
        self._is_declared = b"<?xml" in content[:16]
        self._rdf: Any = next(root.iter(f"{{{_RDF}}}RDF"), None)
        if self._rdf is None:
            raise ValueError("not XMP: it has no rdf:RDF")

    def keywords(self, property: Property) -> list[str]:
        """The keywords of a property, in a list or not."""
        listed = (item for items in self._lists(property) for item in items.iterchildren(_ITEM))
        return [text for text in (*map(_text, listed), *self._unlisted(property)) if text]

    def has_list(self, property: Property) -> bool:
        """Whether there is such a list, even an empty one."""
        return bool(self._lists(property))

    def edit(self, property: Property, added: Sequence[str], removed: Set[str]) -> None:
        """Put keywords at the end of a list, and remove those whose last level (in NFC) is given.

        A list that is missing is made. ValueError if keywords are in no list.
        """
        if self._unlisted(property):
            raise ValueError(f"{property.prefix}:{property.name} is not a list of RDF")
        lists = self._lists(property) or ([self._new_list(property)] if added else [])
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

    def _lists(self, property: Property) -> list[Any]:
        elements = self._rdf.findall(f"{_DESCRIPTION}/{property.tag}")
        return [items for element in elements for items in element.iterchildren(*_LISTS)]

    def _unlisted(self, property: Property) -> list[str]:
        texts = [element.get(property.tag) for element in self._rdf.iterchildren(_DESCRIPTION)]
        texts += [element.text for element in self._rdf.findall(f"{_DESCRIPTION}/{property.tag}")]
        return [text.strip() for text in texts if text and text.strip()]

    def _new_list(self, property: Property) -> Any:
        description = self._rdf.find(_DESCRIPTION)
        if description is None:
            description = etree.SubElement(self._rdf, _DESCRIPTION)
            description.set(f"{{{_RDF}}}about", "")
        nsmap = {property.prefix: property.namespace}
        element = etree.SubElement(description, property.tag, nsmap=nsmap)
        element.tail = "\n"
        return etree.SubElement(element, f"{{{_RDF}}}{property.kind}")


def _text(item: Any) -> str:
    return str(item.xpath("string()")).strip()
