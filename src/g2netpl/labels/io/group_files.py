"""Files `image,group` of --groups: which image belongs to which group."""

from collections.abc import Mapping
from pathlib import Path

from g2netpl.labels.io.columns import image_place
from g2netpl.labels.io.frames import open_sheet
from g2netpl.labels.io.groups import GROUP, Groups
from g2netpl.labels.io.issues import Issues
from g2netpl.labels.io.writing import write_rows
from g2netpl.labels.names import plain_names
from g2netpl.utils.errors import InputError


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
    group = header.index(GROUP)
    cells = sheet.load([image, group])
    names = plain_names(cells[image].to_pylist())
    issues.add_names(names, sheet.where)
    groups = Groups(issues)
    groups.add_all(sheet.where, names, cells[group].to_pylist())
    issues.raise_any()
    if not groups.of:
        raise InputError(f"{path}: no image has a group; expected names in the column 'group'")
    return groups.of


def write_groups(path: str | Path, groups: Mapping[str, str]) -> None:
    """Write `image,group`, for --groups."""
    write_rows(path, ["image", GROUP], groups.items())
