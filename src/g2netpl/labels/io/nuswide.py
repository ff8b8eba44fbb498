"""NUS-WIDE as it is on disk: name a list, `ImageList/TrainImagelist.txt` or `TestImagelist.txt`.

`Labels_<concept>_Train.txt` in `TrainTestLabels` (or `Groundtruth/TrainTestLabels`; for the whole
list `AllLabels`) holds 0 or 1 per image. `Concepts81.txt` gives the order of the classes. Images
without any positive, a fifth of the set, stay: all their classes are known to be absent.
"""

from pathlib import Path

import numpy as np
import numpy.typing as npt

from g2netpl.labels.io.issues import Issues
from g2netpl.labels.io.options import ReadOptions, class_problem, in_class_order, read_classes
from g2netpl.labels.io.text import numbered_lines, read_text
from g2netpl.labels.names import normalize_name, plain_name
from g2netpl.labels.table import NEGATIVE, LabelTable, check_size
from g2netpl.utils.errors import InputError

_LISTS = {
    "TrainImagelist": ("TrainTestLabels", "_Train"),
    "TestImagelist": ("TrainTestLabels", "_Test"),
    "Imagelist": ("AllLabels", ""),
}


def can_read(path: Path) -> bool:
    """A .txt file in ImageList, or a folder that has one."""
    if path.is_dir():
        return (path / "ImageList").is_dir()
    return path.suffix == ".txt" and path.parent.name == "ImageList"


def image_folder(path: Path) -> Path:
    """`Flickr`, as the images are published, or else `images`."""
    root = path if path.is_dir() else path.parent.parent
    return root / "Flickr" if (root / "Flickr").is_dir() else root / "images"


def read(path: Path, options: ReadOptions) -> LabelTable:
    """Read the images of a list with all their concepts; issues name file and line."""
    if path.is_dir() or path.stem not in _LISTS:
        lists = ", ".join(f"ImageList/{name}.txt" for name in _LISTS)
        raise InputError(f"{path}: name a list as the label file: {lists}")
    issues, names = Issues(), dict[str, int]()
    for line, text in numbered_lines(path, issues):
        name = normalize_name(plain_name(text.replace("\\", "/")))
        where = f"{path}:{line}".format
        if not issues.add_names([name], where) and name in names:
            message = f"image {name!r} is listed already on line {names[name]}"
            issues.add(f"{path}:{line}", "image listed twice", message)
        names.setdefault(name, line)
    issues.raise_any()
    if not names:
        raise InputError(f"{path}: expected image names, one per line; the list is empty")
    folder, ending = _label_folder(path)
    classes = _concepts(path, folder, ending, issues)
    check_size(len(names), len(classes))
    values = np.zeros((len(names), len(classes)), dtype=np.int8)
    for column, name in enumerate(classes):
        values[:, column] = _column(folder / f"Labels_{name}{ending}.txt", len(names), issues)
    issues.raise_any()
    if options.absent == "unobserved":
        values[values == NEGATIVE] = -1
    return in_class_order(LabelTable(list(names), classes, values), options, str(path))


def _label_folder(path: Path) -> tuple[Path, str]:
    folder, ending = _LISTS[path.stem]
    for root in ("", "Groundtruth", "GroundTruth"):
        if (path.parent.parent / root / folder).is_dir():
            return path.parent.parent / root / folder, ending
    raise InputError(f"{path}: no folder {folder} with the labels next to it, nor in Groundtruth")


def _concepts(path: Path, folder: Path, ending: str, issues: Issues) -> list[str]:
    for below in ("Concepts81.txt", "ConceptsList/Concepts81.txt"):
        file = path.parent.parent / below
        if file.is_file():
            names = list(read_classes(file))
            odd = [name for name in names if "/" in name]
            if odd:
                raise InputError(f"{file}: concept {odd[0]!r} cannot be part of a file name")
            return names
    files = [file.name for file in folder.glob(f"Labels_*{ending}.txt")]
    if not files:
        raise InputError(f"{folder}: no Labels_<concept>{ending}.txt")
    names = sorted(file[len("Labels_") : -len(f"{ending}.txt")] for file in files)
    for problem in filter(None, map(class_problem, names)):
        issues.stop(str(folder), "class name", f"Labels_<concept>{ending}.txt: {problem}")
    return names


def _column(path: Path, count: int, issues: Issues) -> npt.NDArray[np.int8]:
    text = read_text(path, issues)
    cells = text.split()
    if len(cells) != count:
        message = f"expected {count:,} labels, one per image, got {len(cells):,}"
        issues.add(str(path), "number of labels", message)
    if not {"0", "1"}.issuperset(cells):
        for line, row in enumerate(text.split("\n"), start=1):
            if not {"0", "1"}.issuperset(row.split()):
                issues.add(f"{path}:{line}", "cell", f"expected 0 or 1, got {row.strip()[:40]!r}")
    elif len(cells) == count:
        return np.frombuffer("".join(cells).encode(), dtype=np.int8) - ord("0")
    return np.zeros(count, dtype=np.int8)
