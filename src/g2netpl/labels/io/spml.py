"""The SPML benchmark's .npy files.

`formatted_train_labels.npy` holds 0 / 1 (full labels), `formatted_train_labels_obs.npy` −1 / 0 / +1
where 0 means unknown; `formatted_train_images.npy` next to them the image names. The benchmark's
files have no class names: classes are called `class_0`, `class_1`, … unless there is a
`formatted_train_classes.npy` of ours.
"""

import io
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from numpy.lib import format as npy

from g2netpl.labels.io.builder import wide_table
from g2netpl.labels.io.groups import Groups
from g2netpl.labels.io.issues import Issues
from g2netpl.labels.io.options import ReadOptions, check_classes
from g2netpl.labels.io.text import read_bytes
from g2netpl.labels.names import normalize_name, plain_names
from g2netpl.labels.table import NEGATIVE, POSITIVE, UNOBSERVED, LabelTable, check_size
from g2netpl.utils.arrays import first_line
from g2netpl.utils.errors import InputError


def can_read(path: Path) -> bool:
    """By its name, …_labels.npy or …_labels_obs.npy."""
    return path.name.endswith(("_labels.npy", "_labels_obs.npy"))


def read(path: Path, options: ReadOptions) -> LabelTable:
    """Read labels, full or observed, with the image names next to them."""
    issues, observed = Issues(), path.name.endswith("_obs.npy")
    values: Any = _load(path)
    if values.ndim != 2 or values.dtype.kind not in "iuf" or not values.shape[1]:
        raise InputError(
            f"{path}: expected a matrix of numbers (N, L), got {values.dtype} {values.shape}"
        )
    check_size(*values.shape)
    allowed = (-1, 0, 1) if observed else (0, 1)
    for row, column in np.argwhere(~np.isin(values, allowed))[:1000]:
        message = f"expected one of {allowed}, got {values[row, column]}"
        issues.add(f"{path}: row {row}, column {column}", "cell", message)
    issues.raise_any()
    labels = np.full(values.shape, UNOBSERVED, dtype=np.int8)
    labels[values == 1] = POSITIVE
    if observed or options.absent != "unobserved":
        labels[values == (-1 if observed else 0)] = NEGATIVE
    file = _beside(path, "images")
    names = plain_names(_names(file, len(labels), "image"))
    issues.add_names(names, lambda row: f"{file}: row {row}")
    classes = [f"class_{index}" for index in range(labels.shape[1])]
    if _beside(path, "classes").is_file():
        classes = _names(_beside(path, "classes"), labels.shape[1], "class")
        classes = [normalize_name(name) for name in classes]
        check_classes(classes, str(_beside(path, "classes")), issues)
    where = f"{path}: row {{}}".format
    return wide_table(names, classes, labels, where, Groups(issues), options, str(path))


def _beside(path: Path, what: str) -> Path:
    stem = path.name.removesuffix("_labels.npy").removesuffix("_labels_obs.npy")
    return path.with_name(f"{stem}_{what}.npy")


def _names(path: Path, count: int, what: str) -> list[str]:
    names: Any = _load(path)
    if names.ndim != 1 or len(names) != count or names.dtype.kind not in "US":
        raise InputError(f"{path}: expected {count} {what} names, got {names.dtype} {names.shape}")
    width, encoding = names.dtype.itemsize, "utf-8" if names.dtype.kind == "S" else "utf-32-le"
    content = names.astype(names.dtype.newbyteorder("<")).tobytes()
    try:  # numpy does not check that numbers are characters
        pieces = (content[at : at + width] for at in range(0, len(content), width))
        return [piece.decode(encoding).rstrip("\0") for piece in pieces]
    except UnicodeDecodeError:
        raise InputError(f"{path}: the {what} names are not text") from None


def _load(path: Path) -> npt.NDArray[Any]:
    """An array of a .npy file; never a pickled one."""
    content = io.BytesIO(read_bytes(path))
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # files of Python 2 are read all the same
            return npy.read_array(content, allow_pickle=False)
    except Exception as problem:  # the header of a damaged file can say anything
        raise InputError(f"{path}: not a readable .npy file ({first_line(problem)})") from None
