"""Groups: which images must stay together in a split, as those of a sequence, album or patient.

A label file has them in a column `group`, and so has any CSV file with `image` and `group`. An
image without a group is one by itself.
"""

from collections.abc import Iterable, Mapping
from pathlib import Path

from g2netpl.labels.io.columns import GROUP, image_names, image_place
from g2netpl.labels.io.frames import open_sheet
from g2netpl.labels.io.issues import Issues
from g2netpl.labels.io.writing import write_rows
from g2netpl.labels.names import normalize_name, plain_name
from g2netpl.labels.table import LabelTable
from g2netpl.utils.errors import InputError


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


def read_groups(path: str | Path) -> dict[str, str]:
    """The group of every image that a CSV file with `image` and `group` names."""
    path, issues = Path(path), Issues()
    if not path.is_file():
        raise InputError(f"{path}: no such file; --groups takes a CSV file image,group, or folder")
    sheet = open_sheet(path, issues)
    header = [name.lower() for name in sheet.header]
    image = image_place(sheet, [place for place, name in enumerate(header) if name != GROUP])
    if image is None or GROUP not in header:
        message = f"expected a header 'image,group', got {','.join(sheet.header)[:80]!r}"
        issues.stop(sheet.header_place, "header", message)
    names, _ = image_names(sheet, image)
    issues.add_names(names, sheet.where)
    groups = Groups(issues)
    cells = sheet.texts(header.index(GROUP)).to_pylist()
    for row, (name, group) in enumerate(zip(names, cells, strict=True)):
        groups.add(sheet.where(row), name, group)
    issues.raise_any()
    if not groups.of:
        raise InputError(f"{path}: no image has a group; expected names in the column 'group'")
    return groups.of


def write_groups(path: str | Path, groups: Mapping[str, str]) -> None:
    """Write `image,group`, for --groups."""
    write_rows(path, ["image", GROUP], groups.items())
