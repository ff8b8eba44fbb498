"""Reading XML of others: no DOCTYPE, so no entities either."""

from typing import Any
from xml.parsers import expat

XML_ERRORS = (expat.ExpatError, ValueError, LookupError)  # not XML, refused, an unknown encoding


class Walk:
    """Goes through the elements of XML; `place` has the names of those that are open.

    What it meets it gives to `begin`, `end` and `text`, which a reader makes its own.
    """

    def __init__(self, encoding: str | None = None, separator: str | None = None) -> None:
        self.place: list[str] = []
        self.parser = expat.ParserCreate(encoding, separator)
        self.parser.buffer_text = True
        self.parser.StartDoctypeDeclHandler = _refuse
        self.parser.StartElementHandler = self._begin
        self.parser.EndElementHandler = self._end
        self.parser.CharacterDataHandler = self.text

    def begin(self, name: str, attributes: dict[str, str]) -> None:
        """An element begins; it is the last of `place`."""

    def end(self, name: str) -> None:
        """It ends."""

    def text(self, content: str) -> None:
        """Text in it."""

    def _begin(self, name: str, attributes: dict[str, str]) -> None:
        self.place.append(name)
        self.begin(name, attributes)

    def _end(self, name: str) -> None:
        self.end(name)
        self.place.pop()


def _refuse(*_: Any) -> None:
    raise ValueError("a DOCTYPE is refused; remove it")
