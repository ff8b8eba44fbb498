"""Groups: which images must stay together in a split, as those of a sequence, album or patient.

A label file has them in a column `group`, and so has any CSV file with `image` and `group`. An
image without a group is one by itself.
"""

from collections.abc import Iterable, Mapping
from pathlib import Path

from g2netpl.labels.io.build import group_of
from g2netpl.labels.io.columns import GROUP, image_names, image_place
from g2netpl.labels.io.frames import open_sheet
from g2netpl.labels.io.issues import Issues
from g2netpl.labels.io.writing import write_rows
from g2netpl.labels.names import normalize_name
from g2netpl.utils.errors import InputError


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
    cells = sheet.texts(header.index(GROUP)).to_pylist()
    groups = group_of(names, cells, sheet.where, issues)
    issues.raise_any()
    if not groups:
        raise InputError(f"{path}: no image has a group; expected names in the column 'group'")
    return groups


def write_groups(path: str | Path, groups: Mapping[str, str]) -> None:
    """Write `image,group`, for --groups."""
    write_rows(path, ["image", GROUP], groups.items())
