"""OpenImages' image-level labels: `ImageID,[Source,]LabelName,Confidence`, 1 present, 0 absent.

What no row names is unobserved. `ImageID` has no ending in the official files: .jpg is added. Where
a `class-descriptions….csv` lies beside the file, its names replace codes such as /m/01g317.
"""

from pathlib import Path

from g2netpl.labels.formats.collector import Collector
from g2netpl.labels.formats.problems import Problems
from g2netpl.labels.formats.reading import Reading
from g2netpl.labels.formats.sheet import open_sheet
from g2netpl.labels.formats.text import beginning, csv_rows, read_text
from g2netpl.labels.paths import SUFFIXES
from g2netpl.labels.table import NEGATIVE, POSITIVE, LabelTable

_COLUMNS = ("ImageID", "LabelName", "Confidence")
_VALUES = {"1": POSITIVE, "0": NEGATIVE, "1.0": POSITIVE, "0.0": NEGATIVE}


def recognises(path: Path) -> bool:
    """A CSV file whose header begins with ImageID."""
    return path.suffix.lower() == ".csv" and beginning(path).lstrip('"').startswith("ImageID")


def read(path: Path, reading: Reading) -> LabelTable:
    """Read labels; every mistake is named by file and line."""
    problems = Problems()
    names = _class_names(path, problems)
    sheet = open_sheet(path, problems, reading.encoding)
    header = sheet.header
    for name in _COLUMNS:
        if header.count(name) != 1:
            problems.stop(
                sheet.where(sheet.line),
                "header",
                f"expected the columns {', '.join(_COLUMNS)}; got {','.join(header)[:80]!r}",
            )
    image_at, class_at, value_at = (header.index(name) for name in _COLUMNS)
    collector = Collector(lambda place: f"{path}:{place}", reading.classes, problems)
    for line, row in sheet.whole_rows():
        value = _VALUES.get(row[value_at].strip())
        if value is None:
            problems.add(
                f"{path}:{line}",
                "cell",
                f"Confidence: expected 1 or 0, got {row[value_at][:40]!r}; labels by machines "
                "are no observations, leave them out",
            )
            continue
        image = collector.image(line, _image_name(row[image_at].strip()))
        code = row[class_at].strip()
        collector.label(line, image, names.get(code, code), value)
    return collector.table(reading.absent_value("unobserved"))


def _image_name(identity: str) -> str:
    return identity if not identity or identity.lower().endswith(SUFFIXES) else f"{identity}.jpg"


def _class_names(path: Path, problems: Problems) -> dict[str, str]:
    """Codes and names of class-descriptions….csv beside the file, if there is one."""
    names: dict[str, str] = {}
    for file in sorted(path.parent.glob("*class-descriptions*.csv")):
        rows = csv_rows(read_text(file, problems), file, problems)
        for line, row in rows:
            if len(row) != 2:
                problems.add(f"{file}:{line}", "number of cells", f"expected 2, got {len(row)}")
            elif row[0] != "LabelName":
                names[row[0].strip()] = row[1].strip()
    return names
