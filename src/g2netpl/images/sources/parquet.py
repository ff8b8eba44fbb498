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

    __slots__ = ("row", "seen", "source")
    source: str
    row: int
    seen: Stamp

    def __new__(cls, source: str, name: str, row: int, seen: Stamp) -> Self:
        """Shown as if the data set were a folder."""
        made = super().__new__(cls, f"{source}/{name}")
        made.source, made.row, made.seen = source, row, seen
        return made

    def stamp(self) -> Stamp:
        """That of the data set."""
        return Place(self.source).stamp()

    def open(self) -> io.BytesIO:
        """The picture in the row."""
        if self.stamp() != self.seen:
            raise Unfit("the data set has changed since it was listed")
        content = _opened(self.source, self.seen).picture(self.row)
        if content is None or len(content) > LARGEST:
            raise Unfit("no picture in this row")
        return io.BytesIO(content)

    def __getnewargs__(self) -> tuple[str, str, int, Stamp]:  # type: ignore[override]
        return self.source, self.removeprefix(f"{self.source}/"), self.row, self.seen


@lru_cache(maxsize=4)
def _opened(source: str, seen: Stamp) -> huggingface.DataSet:
    return huggingface.DataSet(Path(source))


def is_address(path: Path) -> bool:
    """Whether a path is a data set with pictures inside."""
    return huggingface.recognises(path) and huggingface.DataSet(path).is_packed


def in_rows(path: Path) -> Alone:
    """The images of a data set, in its order; each has the name that the labels know it by."""
    seen, data = Place(path).stamp(), huggingface.DataSet(path)
    names, rows = data.images(), data.rows_with_pictures()
    found = Alone(str(path), {names[row]: Cell(str(path), names[row], row, seen) for row in rows})
    lost = len(names) - len(rows)
    found.notes += [f"{path}: {lost:,} rows have no picture"] if lost else []
    return found
