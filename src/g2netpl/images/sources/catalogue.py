"""Images that were listed once, each by its name: what shards, Parquet and stores become."""

from collections.abc import Mapping, Sequence

from g2netpl.base.errors import InputError
from g2netpl.base.places import Place
from g2netpl.labels.paths import Located, with_near
from g2netpl.labels.table import name_problem


class Catalogue:
    """Places by name, in the order that they are best read in; `notes` on what was passed over."""

    def __init__(
        self, address: str, places: Mapping[str, Place], notes: Sequence[str] = ()
    ) -> None:
        self.address, self.places, self.notes = address, places, list(notes)

    def names(self) -> list[str]:
        """Of every image."""
        return list(self.places)

    def find(self, names: Sequence[str], exactly: bool = False) -> Located:
        """The places of these names; no name leads anywhere else."""
        missing, found = [], list[str]()
        for row, name in enumerate(names):
            problem = name_problem(name)
            if problem is not None:
                raise InputError(f"image {name!r}: {problem}")
            if name not in self.places:
                missing.append(row)
            found.append(self.places.get(name, f"{self.address}/{name}"))
        located = Located(found, missing, list(names), self.notes)
        if missing and not exactly:
            return with_near(located, self.names(), self.address, self.places.__getitem__)
        return located
