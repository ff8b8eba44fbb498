"""Images inside a data set of Hugging Face, as its library `datasets` reads them: one per row."""

import io
from functools import lru_cache
from pathlib import Path
from typing import Self

from g2netpl.base.inside import Unfit
from g2netpl.base.places import LARGEST, Place, Stamp
from g2netpl.images.sources.catalogue import Alone
from g2netpl.labels.formats import huggingface


class Cell(Place):
    """An image in a row of a data set; `seen` is the stamp of the data set when it was listed."""

    __slots__ = ("row", "seen", "size", "source")
    source: str
    row: int
    size: int
    seen: Stamp

    def __new__(cls, source: str, name: str, row: int, size: int, seen: Stamp) -> Self:
        """Shown as if the data set were a folder."""
        made = super().__new__(cls, f"{source}/{name}")
        made.source, made.row, made.size, made.seen = source, row, size, seen
        return made

    def stamp(self) -> Stamp:
        """Its own size, and the times of the data set."""
        now = Place(self.source).stamp()
        return now if now[0] < 0 else (self.size, *now[1:])

    def open(self) -> io.BytesIO:
        """The picture in the row."""
        if Place(self.source).stamp() != self.seen or self.size > LARGEST:
            raise Unfit("too large, or the data set has changed since it was listed")
        content = _opened(self.source, self.seen).picture(self.row)
        assert content is not None
        return io.BytesIO(content)

    def __getnewargs__(self) -> tuple[str, str, int, int, Stamp]:  # type: ignore[override]
        name = self.removeprefix(f"{self.source}/")
        return self.source, name, self.row, self.size, self.seen


@lru_cache(maxsize=4)
def _opened(source: str, seen: Stamp) -> huggingface.DataSet:
    return huggingface.DataSet(Path(source))


def is_address(path: Path) -> bool:
    """Whether a path is a data set with pictures inside."""
    return huggingface.recognises(path) and huggingface.DataSet(path).is_packed


def in_rows(path: Path) -> Alone:
    """The images of a data set, in its order; each has the name that the labels know it by."""
    seen, data = Place(path).stamp(), huggingface.DataSet(path)
    cells = {
        name: Cell(str(path), name, row, size, seen)
        for row, (name, size) in enumerate(zip(data.images(), data.sizes(), strict=True))
        if size is not None
    }
    found, lost = Alone(str(path), cells), len(data.table) - len(cells)
    found.notes += [f"{path}: {lost:,} rows have no picture"] if lost else []
    return found
