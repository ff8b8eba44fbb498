"""The SPML benchmark's .npy files.

`formatted_train_labels.npy` holds 0 / 1 (full labels), `formatted_train_labels_obs.npy` −1 / 0 / +1
where 0 means unknown; `formatted_train_images.npy` next to them the image names. The benchmark's
files have no class names: classes are called `class_0`, `class_1`, … unless there is a
`formatted_train_classes.npy` of ours.
"""

import io
import re
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from numpy.lib import format as npy

from g2netpl.labels.io.build import wide_table
from g2netpl.labels.io.issues import Issues, read_bytes
from g2netpl.labels.io.options import ReadOptions, check_classes
from g2netpl.labels.names import normalize_name, plain_names
from g2netpl.labels.table import NEGATIVE, POSITIVE, UNOBSERVED, LabelTable, check_size
from g2netpl.utils.arrays import first_line
from g2netpl.utils.errors import InputError

_ENDING = re.compile(r"_labels(_obs)?\.npy$")


def can_read(path: Path) -> bool:
    """By its name, …_labels.npy or …_labels_obs.npy."""
    return _ENDING.search(path.name) is not None


def read(path: Path, options: ReadOptions) -> LabelTable:
    """Read labels, full or observed, with the image names next to them."""
    issues, is_observed = Issues(), path.name.endswith("_obs.npy")
    values: Any = _load(path)
    if values.ndim != 2 or values.dtype.kind not in "iuf" or not values.shape[1]:
        raise InputError(
            f"{path}: expected a matrix of numbers (N, L), got {values.dtype} {values.shape}"
        )
    check_size(*values.shape)
    allowed = (-1, 0, 1) if is_observed else (0, 1)
    for row, column in np.argwhere(~np.isin(values, allowed))[:1000].tolist():
        message = f"expected one of {allowed}, got {values[row, column]}"
        issues.add(f"{path}: row {row}, column {column}", "cell", message)
    issues.raise_any()
    labels = np.full(values.shape, UNOBSERVED, dtype=np.int8)
    labels[values == 1] = POSITIVE
    if is_observed or options.absent != "unobserved":
        labels[values == (-1 if is_observed else 0)] = NEGATIVE
    file = path.with_name(_ENDING.sub("_images.npy", path.name))
    images = plain_names(_names(file, len(labels)))
    classes = [f"class_{column}" for column in range(labels.shape[1])]
    listed = path.with_name(_ENDING.sub("_classes.npy", path.name))
    if listed.is_file():
        classes = [normalize_name(name) for name in _names(listed, len(classes))]
        check_classes(classes, str(listed), issues)
    return wide_table(images, classes, labels, f"{file}: row {{}}".format, issues)


def _names(path: Path, count: int) -> list[str]:
    """The names in a file, of which there must be so many."""
    names = _load(path)
    if names.ndim != 1 or len(names) != count or names.dtype.kind not in "US":
        raise InputError(f"{path}: expected {count} names, got {names.dtype} {names.shape}")
    try:
        encoded = names if names.dtype.kind == "S" else np.char.encode(names, "utf-8")
        return [str(name, "utf-8") for name in encoded.tolist()]
    except Exception:  # numbers that are no characters are a SystemError
        raise InputError(f"{path}: the names are not text") from None


def _load(path: Path) -> npt.NDArray[Any]:
    """An array of a .npy file; never a pickled one."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # files of Python 2 are read all the same
            return np.asarray(npy.read_array(io.BytesIO(read_bytes(path)), allow_pickle=False))
    except InputError:
        raise
    except Exception as problem:  # the header of a damaged file can say anything
        raise InputError(f"{path}: not a readable .npy file ({first_line(problem)})") from None
