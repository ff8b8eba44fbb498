"""The SPML benchmark's .npy files.

`formatted_train_labels.npy` holds 0 / 1 (full labels), `formatted_train_labels_obs.npy` −1 / 0 / +1
where 0 means unknown; `formatted_train_images.npy` beside them the image names. The files know no
class names: classes are called `class_0`, `class_1`, …
"""

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from g2netpl.errors import InputError
from g2netpl.labels import NEGATIVE, POSITIVE, UNOBSERVED, LabelTable


def recognises(path: Path) -> bool:
    """By its name, …_labels.npy or …_labels_obs.npy."""
    return path.name.endswith(("_labels.npy", "_labels_obs.npy"))


def read(path: Path) -> LabelTable:
    """Read labels, full or observed, with the image names beside them."""
    observed = path.name.endswith("_obs.npy")
    values: Any = _load(path)
    if values.ndim != 2 or values.dtype.kind not in "iuf":
        raise InputError(
            f"{path}: expected a matrix of numbers (N, L), got {values.dtype} {values.shape}"
        )
    allowed = (-1, 0, 1) if observed else (0, 1)
    wrong = ~np.isin(values, allowed)
    if wrong.any():
        row, column = (int(index) for index in np.argwhere(wrong)[0])
        raise InputError(
            f"{path}: row {row}, column {column}: expected one of {allowed}, "
            f"got {values[row, column]}"
        )
    labels = np.full(values.shape, UNOBSERVED, dtype=np.int8)
    labels[values == 1] = POSITIVE
    labels[values == (-1 if observed else 0)] = NEGATIVE
    names_path = _images_path(path)
    names: Any = _load(names_path)
    if names.ndim != 1 or len(names) != len(labels) or names.dtype.kind not in "US":
        raise InputError(
            f"{names_path}: expected {len(labels)} image names, got {names.dtype} {names.shape}"
        )
    classes = tuple(f"class_{index}" for index in range(labels.shape[1]))
    return LabelTable(tuple(str(name) for name in names), classes, labels)


def write(table: LabelTable, path: Path) -> None:
    """Write …_labels.npy (needs full labels) or …_labels_obs.npy, and the image names."""
    if path.name.endswith("_labels_obs.npy"):
        values = np.zeros(table.values.shape, dtype=np.float64)
        values[table.values == POSITIVE] = 1
        values[table.values == NEGATIVE] = -1
    elif path.name.endswith("_labels.npy"):
        if not table.is_complete:
            raise InputError(
                f"{path}: holds full labels only; write to a name ending in _labels_obs.npy"
            )
        values = table.values.astype(np.float64)
    else:
        raise InputError(f"{path}: expected a name ending in _labels.npy or _labels_obs.npy")
    np.save(path, values)
    np.save(_images_path(path), np.array(table.images))


def _images_path(path: Path) -> Path:
    stem = path.name.removesuffix("_labels.npy").removesuffix("_labels_obs.npy")
    return path.with_name(f"{stem}_images.npy")


def _load(path: Path) -> npt.NDArray[Any]:
    if not path.is_file():
        raise InputError(f"{path}: no such file")
    try:
        array = np.load(path, allow_pickle=False)
    except (OSError, ValueError, EOFError) as problem:
        raise InputError(f"{path}: not a readable .npy file ({problem})") from None
    if not isinstance(array, np.ndarray):
        raise InputError(f"{path}: expected one array (.npy), got an archive")
    return array
