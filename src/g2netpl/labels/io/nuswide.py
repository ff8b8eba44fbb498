"""NUS-WIDE as it is on disk: name a list, `ImageList/TrainImagelist.txt` or `TestImagelist.txt`.

`Labels_<concept>_Train.txt` in `TrainTestLabels` (or `Groundtruth/TrainTestLabels`; for the whole
list `AllLabels`) holds 0 or 1 per image. `Concepts81.txt` gives the order of the classes. Images
without any positive, a fifth of the set, stay: all their classes are known to be absent.
"""

from pathlib import Path

import numpy as np

from g2netpl.labels.io.build import wide_table
from g2netpl.labels.io.issues import Issues, numbered_lines
from g2netpl.labels.io.options import ReadOptions, check_classes, read_classes
from g2netpl.labels.names import plain_names
from g2netpl.labels.table import NEGATIVE, UNOBSERVED, LabelMatrix, LabelTable, check_size
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
    issues, root, (below, ending) = Issues(), path.parent.parent, _LISTS[path.stem]
    folders = [root / above / below for above in ("", "Groundtruth", "GroundTruth")]
    folder = next((folder for folder in folders if folder.is_dir()), None)
    if folder is None:
        raise InputError(f"{path}: no folder {below} with labels next to it, nor in Groundtruth")
    lines = list(numbered_lines(path, issues))
    names = plain_names([text.replace("\\", "/") for _, text in lines])
    places = [f"{path}:{line}" for line, _ in lines]
    classes = _concepts(root, folder, ending, issues)
    if not names or not classes:
        raise InputError(f"{path}: expected image names, and Labels_<concept>{ending}.txt")
    check_size(len(names), len(classes))
    files = [folder / f"Labels_{name}{ending}.txt" for name in classes]
    values = np.column_stack([_column(file, len(names), issues) for file in files])
    if options.absent == "unobserved":
        values[values == NEGATIVE] = UNOBSERVED
    return wide_table(names, classes, values, places.__getitem__, issues)


def _concepts(root: Path, folder: Path, ending: str, issues: Issues) -> list[str]:
    """The classes, in the order of the list of concepts if there is one."""
    lists = (root / "Concepts81.txt", root / "ConceptsList/Concepts81.txt")
    file = next((file for file in lists if file.is_file()), None)
    if file is not None:
        classes = list(read_classes(file))
    else:
        labels = sorted(file.stem for file in folder.glob(f"Labels_?*{ending}.txt"))
        classes = [name.removeprefix("Labels_").removesuffix(ending) for name in labels]
    for name in classes:
        if "/" in name:
            raise InputError(f"{root}: concept {name!r} cannot be part of a file name")
    check_classes(classes, str(folder), issues)
    return classes


def _column(path: Path, count: int, issues: Issues) -> LabelMatrix:
    """The labels of a class."""
    lines = list(numbered_lines(path, issues))
    for line, text in lines:
        if text not in ("0", "1"):
            issues.stop(f"{path}:{line}", "cell", f"expected 0 or 1, got {text[:40]!r}")
    if len(lines) != count:
        message = f"expected {count:,} labels, one per image, got {len(lines):,}"
        issues.stop(str(path), "number of labels", message)
    return np.array([text == "1" for _, text in lines], dtype=np.int8)
