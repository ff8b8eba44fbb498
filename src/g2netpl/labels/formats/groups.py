"""Groups: which images must stay together in a split, as those of a sequence, album or patient.

A label file has them in a column `group`, and so has any CSV file with `image` and `group`. An
image without a group is one by itself.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from g2netpl.base.errors import InputError
from g2netpl.labels.formats.columns import GROUP, image_place
from g2netpl.labels.formats.problems import Problems
from g2netpl.labels.formats.sheet import open_sheet, write_rows
from g2netpl.labels.spelling import composed
from g2netpl.labels.table import LabelTable, plain_name


class Groups:
    """The groups that a file names; names of images that look the same are the same."""

    def __init__(self, problems: Problems) -> None:
        self.problems = problems
        self.of: dict[str, str] = {}

    def add(self, where: str, image: str, named: object) -> None:
        """Keep the group of an image, which has one only; an empty name is none."""
        group = "" if named is None else str(named).strip()
        if not group:
            return
        before = self.of.setdefault(composed(plain_name(image)), group)
        if before != group:
            what = f"image {image!r} is in group {before!r} already; put it into one only"
            self.problems.add(where, GROUP, f"{what}, got {group!r}")

    def on(self, table: LabelTable) -> LabelTable:
        """The table with these groups, if there are any."""
        self.problems.raise_any()
        return with_groups_of(table, self.of) if self.of else table


def with_groups_of(table: LabelTable, groups: Mapping[str, str]) -> LabelTable:
    """The table with the groups of its images, by their composed names."""
    return table.with_groups([groups.get(composed(name), "") for name in table.images])


def by_folder(images: Iterable[str]) -> dict[str, str]:
    """The images of a folder as a group; those in no folder have none."""
    return {composed(name): folder for name in images if (folder := name.rpartition("/")[0])}


def read_groups(path: str | Path) -> dict[str, str]:
    """The group of every image that a CSV file with `image` and `group` names."""
    path, problems = Path(path), Problems()
    if not path.is_file():
        raise InputError(f"{path}: no such file; --groups takes a CSV file image,group, or folder")
    sheet = open_sheet(path, problems)
    names = [name.lower() for name in sheet.header]
    image_at = image_place(sheet, [place for place, name in enumerate(names) if name != GROUP])
    if image_at is None or GROUP not in names:
        what = f"expected a header 'image,group', got {','.join(sheet.header)[:80]!r}"
        problems.stop(sheet.where(sheet.line), "header", what)
    groups, place = Groups(problems), names.index(GROUP)
    for line, row in sheet.whole_rows():
        image, group = plain_name(row[image_at]), row[place]
        if not problems.add_name(f"{path}:{line}", image):
            groups.add(f"{path}:{line}", image, group)
    problems.raise_any()
    if not groups.of:
        raise InputError(f"{path}: no image has a group; expected names in the column 'group'")
    return groups.of


def write_groups(path: str | Path, groups: Mapping[str, str]) -> None:
    """Write `image,group`, for --groups."""
    write_rows(path, ["image", GROUP], groups.items())


def group_header(table: LabelTable) -> list[str]:
    """The header of the column, where there is one to be written."""
    return [] if table.groups is None else [GROUP]


def group_cells(table: LabelTable) -> Iterator[Sequence[str]]:
    """Its cell, image after image."""
    for group in table.groups or ((),) * len(table):
        yield [group] if isinstance(group, str) else ()
