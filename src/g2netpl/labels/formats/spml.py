"""The SPML benchmark's .npy files.

`formatted_train_labels.npy` holds 0 / 1 (full labels), `formatted_train_labels_obs.npy` −1 / 0 / +1
where 0 means unknown; `formatted_train_images.npy` beside them the image names. The benchmark's
files know no class names: classes are called `class_0`, `class_1`, … unless a
`formatted_train_classes.npy` of ours lies there too.
"""

import io
import warnings
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from numpy.lib import format as npy

from g2netpl.base.arrays import in_short
from g2netpl.base.errors import InputError
from g2netpl.labels.formats.groups import Groups
from g2netpl.labels.formats.problems import Problems
from g2netpl.labels.formats.reading import Reading, class_problem
from g2netpl.labels.formats.text import read_bytes
from g2netpl.labels.formats.twins import wide_table
from g2netpl.labels.table import NEGATIVE, POSITIVE, UNOBSERVED, LabelTable, plain_name


def recognises(path: Path) -> bool:
    """By its name, …_labels.npy or …_labels_obs.npy."""
    return path.name.endswith(("_labels.npy", "_labels_obs.npy"))


def read(path: Path, reading: Reading) -> LabelTable:
    """Read labels, full or observed, with the image names beside them."""
    problems = Problems()
    observed = path.name.endswith("_obs.npy")
    values: Any = _load(path)
    if values.ndim != 2 or values.dtype.kind not in "iuf":
        raise InputError(
            f"{path}: expected a matrix of numbers (N, L), got {values.dtype} {values.shape}"
        )
    allowed = (-1, 0, 1) if observed else (0, 1)
    for row, column in np.argwhere(~np.isin(values, allowed))[:1000]:
        problems.add(
            f"{path}: row {row}, column {column}",
            "cell",
            f"expected one of {allowed}, got {values[row, column]}",
        )
    problems.raise_any()
    labels = np.full(values.shape, UNOBSERVED, dtype=np.int8)
    labels[values == 1] = POSITIVE
    labels[values == (-1 if observed else 0)] = NEGATIVE
    if not observed and reading.absent == "unobserved":
        labels[labels == NEGATIVE] = UNOBSERVED
    names = [plain_name(each) for each in _names(_beside(path, "images"), len(labels), "image")]
    for row, name in enumerate(names):
        problems.add_name(f"{_beside(path, 'images')}: row {row}", name)
    classes = [f"class_{index}" for index in range(labels.shape[1])]
    if _beside(path, "classes").is_file():
        classes = _names(_beside(path, "classes"), labels.shape[1], "class")
    if not classes:
        raise InputError(f"{path}: expected at least one class, got a matrix {values.shape}")
    seen: set[str] = set()
    for row, name in enumerate(classes):
        problem = f"class {name!r} is there twice" if name in seen else class_problem(name)
        seen.add(name)
        if problem is not None:
            problems.add(f"{_beside(path, 'classes')}: row {row}", "class name", problem)
    at = partial("{}: row {}".format, path)
    return wide_table(names, classes, labels, at, Groups(problems), reading, str(path))


def _beside(path: Path, what: str) -> Path:
    stem = path.name.removesuffix("_labels.npy").removesuffix("_labels_obs.npy")
    return path.with_name(f"{stem}_{what}.npy")


def _names(path: Path, count: int, what: str) -> list[str]:
    names: Any = _load(path)
    if names.ndim != 1 or len(names) != count or names.dtype.kind not in "US":
        raise InputError(f"{path}: expected {count} {what} names, got {names.dtype} {names.shape}")
    width = names.dtype.itemsize
    content = names.astype(names.dtype.newbyteorder("<")).tobytes()
    encoding = "utf-8" if names.dtype.kind == "S" else "utf-32-le"
    try:
        pieces = [content[at : at + width] for at in range(0, len(content), width)]
        return [piece.decode(encoding).rstrip("\0") for piece in pieces]
    except UnicodeDecodeError:  # numpy does not look whether the numbers are characters
        raise InputError(f"{path}: the {what} names are not text") from None


def _load(path: Path) -> npt.NDArray[Any]:
    """An array of a .npy file; never a pickled one."""
    content = io.BytesIO(read_bytes(path))
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # files of Python 2 are read all the same
            return npy.read_array(content, allow_pickle=False)
    except Exception as problem:  # the header of a damaged file can say anything
        raise InputError(f"{path}: not a readable .npy file ({in_short(problem)})") from None
