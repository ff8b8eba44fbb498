"""OpenImages' image-level labels: `ImageID,[Source,]LabelName,Confidence`, 1 present, 0 absent.

What no row names is unobserved. `ImageID` has no ending in the official files: .jpg is added. If a
`class-descriptions….csv` is next to the file, its names replace codes such as /m/01g317.
"""

from pathlib import Path

import numpy as np
import pandas as pd

from g2netpl.labels.io.build import long_table
from g2netpl.labels.io.frames import label_of, open_sheet
from g2netpl.labels.io.issues import Issues, beginning
from g2netpl.labels.io.options import ReadOptions
from g2netpl.labels.names import plain_names
from g2netpl.labels.paths import SUFFIXES
from g2netpl.labels.table import NEGATIVE, POSITIVE, LabelTable

_COLUMNS = ("ImageID", "LabelName", "Confidence")


def can_read(path: Path) -> bool:
    """A CSV file whose header begins with ImageID."""
    return path.suffix.lower() == ".csv" and beginning(path).lstrip('"').startswith("ImageID")


def read(path: Path, options: ReadOptions) -> LabelTable:
    """Read labels; every issue names file and line."""
    issues = Issues()
    descriptions = _descriptions(path, issues)
    sheet = open_sheet(path, issues, options.encoding)
    if any(sheet.header.count(name) != 1 for name in _COLUMNS):
        message = f"expected the columns {', '.join(_COLUMNS)}; got {','.join(sheet.header)[:80]!r}"
        issues.stop(sheet.header_place, "header", message)
    images, codes, cells = (
        pd.Series(sheet.texts(sheet.header.index(name))).str.strip() for name in _COLUMNS
    )
    signs = cells.map({cell: label_of(cell) for cell in cells.unique()})
    for row in np.flatnonzero(~signs.isin((POSITIVE, NEGATIVE))).tolist():
        message = (
            f"Confidence: expected 1 or 0, got {cells[row][:40]!r}; machine-made labels are not "
        )
        issues.add(sheet.where(row), "cell", f"{message}observations; leave them out")
    ids = images.where((images == "") | images.str.lower().str.endswith(SUFFIXES), images + ".jpg")
    classes = codes.map(lambda code: descriptions.get(code, code))
    labels = pd.DataFrame({"row": range(len(codes)), "name": classes, "sign": signs})
    absent = options.absent_value("unobserved")
    names = plain_names(ids.tolist())
    return long_table(names, labels, sheet.where, issues, options.classes, absent)


def _descriptions(path: Path, issues: Issues) -> dict[str, str]:
    """Codes and names of class-descriptions….csv next to the file, if there is one."""
    names: dict[str, str] = {}
    for file in sorted(path.parent.glob("*class-descriptions*.csv")):
        sheet = open_sheet(file, issues)
        if len(sheet.header) != 2:
            message = f"expected 2 cells, got {len(sheet.header)}"
            issues.stop(sheet.header_place, "number of cells", message)
        codes, titles = (sheet.texts(place) for place in (0, 1))
        rows = [sheet.header, *zip(codes, titles, strict=True)]
        names |= {code.strip(): name.strip() for code, name in rows if code != "LabelName"}
    return names
