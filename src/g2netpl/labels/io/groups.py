"""Groups: which images must stay together in a split, as those of a sequence, album or patient.

A label file has them in a column `group`, and so has any CSV file with `image` and `group`. An
image without a group is one by itself.
"""

from collections.abc import Callable, Iterable, Mapping

from g2netpl.labels.io.issues import Issues
from g2netpl.labels.names import normalize_name, plain_name
from g2netpl.labels.table import LabelTable

GROUP = "group"


class Groups:
    """The groups that a file names; names of images that look the same are the same."""

    def __init__(self, issues: Issues) -> None:
        self.issues = issues
        self.of: dict[str, str] = {}

    def add(self, where: str, image: str, named: object) -> None:
        """Keep the group of an image, which has one only; an empty name is none."""
        group = "" if named is None else str(named).strip()
        if not group:
            return
        before = self.of.setdefault(normalize_name(plain_name(image)), group)
        if before != group:
            message = f"image {image!r} is in group {before!r} already; put it into one only"
            self.issues.add(where, GROUP, f"{message}, got {group!r}")

    def add_all(
        self, where: Callable[[int], str], images: Iterable[str], groups: Iterable[object]
    ) -> None:
        """The same for many images."""
        for row, (image, group) in enumerate(zip(images, groups, strict=True)):
            if group:
                self.add(where(row), image, group)

    def on(self, table: LabelTable) -> LabelTable:
        """The table with these groups, if there are any."""
        self.issues.raise_any()
        return with_groups_of(table, self.of) if self.of else table


def with_groups_of(table: LabelTable, groups: Mapping[str, str]) -> LabelTable:
    """The table with the groups of its images, by their names in NFC."""
    return table.with_groups([groups.get(normalize_name(name), "") for name in table.images])


def by_folder(images: Iterable[str]) -> dict[str, str]:
    """The images of a folder as a group; those in no folder have none."""
    return {normalize_name(name): folder for name in images if (folder := name.rpartition("/")[0])}
