"""OpenImages' image-level labels: `ImageID,[Source,]LabelName,Confidence`, 1 present, 0 absent.

What no row names is unobserved. `ImageID` has no ending in the official files: .jpg is added. If a
`class-descriptions….csv` is next to the file, its names replace codes such as /m/01g317.
"""

from pathlib import Path

from g2netpl.labels.io.builder import TableBuilder
from g2netpl.labels.io.frames import open_sheet
from g2netpl.labels.io.issues import Issues
from g2netpl.labels.io.options import ReadOptions
from g2netpl.labels.io.text import beginning
from g2netpl.labels.paths import SUFFIXES
from g2netpl.labels.table import NEGATIVE, POSITIVE, LabelTable

_COLUMNS = ("ImageID", "LabelName", "Confidence")
_VALUES = {"1": POSITIVE, "0": NEGATIVE, "1.0": POSITIVE, "0.0": NEGATIVE}


def can_read(path: Path) -> bool:
    """A CSV file whose header begins with ImageID."""
    return path.suffix.lower() == ".csv" and beginning(path).lstrip('"').startswith("ImageID")


def read(path: Path, options: ReadOptions) -> LabelTable:
    """Read labels; every issue names file and line."""
    issues = Issues()
    descriptions = _descriptions(path, issues)
    sheet = open_sheet(path, issues, options.encoding)
    if any(sheet.header.count(name) != 1 for name in _COLUMNS):
        came = ",".join(sheet.header)[:80]
        message = f"expected the columns {', '.join(_COLUMNS)}; got {came!r}"
        issues.stop(sheet.header_place, "header", message)
    places = [sheet.header.index(name) for name in _COLUMNS]
    images, names, values = (sheet.texts(place).to_pylist() for place in places)
    builder = TableBuilder(sheet.at, options.classes, issues)
    for line, image, code, cell in zip(sheet.places, images, names, values, strict=True):
        value = _VALUES.get(cell.strip())
        if value is None:
            message = f"Confidence: expected 1 or 0, got {cell[:40]!r}; labels by machines are no "
            issues.add(sheet.at(line), "cell", f"{message}observations, leave them out")
            continue
        name, code = image.strip(), code.strip()
        name += "" if not name or name.lower().endswith(SUFFIXES) else ".jpg"
        builder.label(line, builder.image(line, name), descriptions.get(code, code), value)
    return builder.table(options.absent_value("unobserved"))


def _descriptions(path: Path, issues: Issues) -> dict[str, str]:
    """Codes and names of class-descriptions….csv next to the file, if there is one."""
    names: dict[str, str] = {}
    for file in sorted(path.parent.glob("*class-descriptions*.csv")):
        sheet = open_sheet(file, issues)
        if sheet.width != 2:
            message = f"expected 2 cells, got {sheet.width}"
            issues.stop(sheet.header_place, "number of cells", message)
        codes, titles = (sheet.texts(place).to_pylist() for place in (0, 1))
        rows = [sheet.header, *zip(codes, titles, strict=True)]
        names |= {code.strip(): name.strip() for code, name in rows if code != "LabelName"}
    return names
