"""Frozen features: computed by a backbone, kept in a folder, read for training on features.

A features folder holds `train.npz` and optionally `test.npz` (`features` float or uint8, `labels`
int8 N×L of 1 / 0 / −1) and `meta.npz` (`classes`, optionally a `scale` per dimension that features
are multiplied by). `imagenet_head.npz` has the backbone's ImageNet classifier, if it has one
(`weight` C×D, `bias` C). All of them are finite numbers.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import nn

from g2netpl.images.loader import Part, Source, plain_groups
from g2netpl.labels.table import LabelTable
from g2netpl.utils import distributed
from g2netpl.utils.arrays import finite_rows, read_npz, write_npz
from g2netpl.utils.errors import InputError

Features = npt.NDArray[np.float32]
CLASSIFIER = "imagenet_head.npz"


@dataclass(frozen=True)
class FeatureFolder:
    """Features and labels of a training split, and of a test split if there is one."""

    train_features: Features
    train: LabelTable
    test_features: Features | None = None
    test: LabelTable | None = None
    classifier: tuple[Features, Features] | None = None  # weight and bias of ImageNet's


def compute_features(
    backbone: nn.Module,
    source: Source,
    batch_size: int | None = None,
    on_batch: Callable[[int], None] | None = None,
) -> Features:
    """The output of a frozen backbone for every image, not augmented, in the order of the source.

    The ranks share the images, and each of them gets the whole table.
    """
    own = source
    if distributed.size() > 1:
        own = Part(source, distributed.own_rows(len(source)))
    device = next(backbone.parameters(), torch.empty(0)).device
    backbone.eval()
    table, done = np.zeros((0, 0), np.float32), 0
    with torch.inference_mode():
        groups = plain_groups(len(own), batch_size or source.evaluation_batch)
        for images in own.load(groups, None, device):
            vectors = backbone(images).float().cpu().numpy()
            if not done:  # one table: many small arrays would fragment the heap
                table = np.empty((len(own), *vectors.shape[1:]), np.float32)
            table[done : done + len(vectors)] = vectors
            done += len(vectors)
            if on_batch is not None:
                on_batch(len(vectors) * distributed.size())
    return distributed.gather_rows(table, len(source))


def read_features(folder: str | Path) -> FeatureFolder:
    """Read a features folder; every mistake in it is named."""
    folder = Path(folder)
    path = folder / "meta.npz"
    meta = _arrays(path, ("classes",))
    classes = _names(path, "classes", meta["classes"])
    scale = None
    if "scale" in meta:
        scale = _numbers(path, "scale", meta["scale"])
        _check_finite(f"{path}: scale", scale.reshape(1, -1), meta["scale"].reshape(1, -1))
    train = _read_split(folder / "train.npz", classes, scale)
    classifier = _read_classifier(folder / CLASSIFIER, train[0].shape[1])
    if not (folder / "test.npz").is_file():
        return FeatureFolder(*train, classifier=classifier)
    test = _read_split(folder / "test.npz", classes, scale)
    if train[0].shape[1] != test[0].shape[1]:
        raise InputError(f"{folder}: train and test features have different widths")
    return FeatureFolder(*train, *test, classifier)


def _read_classifier(path: Path, width: int) -> tuple[Features, Features] | None:
    if not path.is_file():
        return None
    arrays = _arrays(path, ("weight", "bias"))
    weight, bias = (_numbers(path, name, arrays[name]) for name in ("weight", "bias"))
    if bias.ndim != 1 or weight.shape != (len(bias), width):
        raise InputError(
            f"{path}: expected weight (C, {width}) and bias (C,), got {weight.shape} and "
            f"{bias.shape}"
        )
    _check_finite(f"{path}: weight", weight, weight)
    return weight, bias


def _read_split(
    path: Path, classes: tuple[str, ...], scale: Features | None
) -> tuple[Features, LabelTable]:
    arrays = _arrays(path, ("features", "labels"))
    given, labels = arrays["features"], arrays["labels"]
    if given.ndim != 2 or labels.ndim != 2 or len(given) != len(labels) or not given.size:
        raise InputError(
            f"{path}: expected features (N, D) and labels (N, L), "
            f"got {given.shape} and {labels.shape}"
        )
    features = _numbers(path, "features", given)
    if scale is not None:
        if scale.shape != (features.shape[1],):
            raise InputError(
                f"{path.with_name('meta.npz')}: scale: expected {features.shape[1]} values, "
                f"got {scale.shape}"
            )
        with np.errstate(over="ignore", invalid="ignore"):
            features *= scale
    _check_finite(f"{path}: features", features, given, scale)
    images = _names(path, "images", arrays.get("images", np.arange(len(features))))
    groups = _names(path, "groups", arrays["groups"]) if "groups" in arrays else None
    try:
        values = _numbers(path, "labels", labels, labels.dtype)
        return features, LabelTable(images, classes, values, groups=groups)
    except InputError as problem:
        raise InputError(f"{path}: {problem}") from None


def _check_finite(
    where: str, values: Features, given: npt.NDArray[Any], scale: Features | None = None
) -> None:
    """Reject numbers that are not finite; `given` is what the file holds."""
    finite = finite_rows(values)
    if not finite.all():
        row = int(np.argmin(finite))
        column = int(np.argmin(np.isfinite(values[row])))
        times = "" if scale is None else f" times the scale {scale[column]}"
        raise InputError(
            f"{where}: row {row}, column {column}: expected a finite number, "
            f"got {given[row, column]}{times}"
        )


def _numbers(
    path: Path, name: str, values: npt.NDArray[Any], kind: npt.DTypeLike = np.float32
) -> npt.NDArray[Any]:
    """The values as numbers; text and times are rejected."""
    if values.dtype.kind not in "biuf":
        raise InputError(f"{path}: {name}: expected numbers, got {values.dtype}")
    with np.errstate(over="ignore", invalid="ignore"):
        return values.astype(kind)


def _names(path: Path, name: str, values: npt.NDArray[Any]) -> tuple[str, ...]:
    if values.ndim != 1 or values.dtype.kind not in "USiu":
        raise InputError(
            f"{path}: {name}: expected a list of names, got {values.dtype} {values.shape}"
        )
    try:
        names: list[str] = values.astype(str).tolist()
        "".join(names).encode()
    except ValueError:  # a damaged file may hold numbers that are not characters
        raise InputError(f"{path}: {name}: the names are not text") from None
    return tuple(names)


def _arrays(path: Path, needed: tuple[str, ...]) -> dict[str, npt.NDArray[Any]]:
    if not path.is_file():
        raise InputError(f"{path}: no such file (a features folder has train.npz and meta.npz)")
    try:
        arrays = read_npz(path)
    except ValueError as problem:
        raise InputError(f"{path}: not a readable .npz file ({problem})") from None
    for name in needed:
        if name not in arrays:
            raise InputError(f"{path}: array {name!r} is missing (found: {', '.join(arrays)})")
    return arrays


def write_features(folder: str | Path, features: FeatureFolder) -> None:
    """Write a features folder: each file is there whole or not at all, and `meta.npz` last."""
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    for split, values, table in (
        ("train", features.train_features, features.train),
        ("test", features.test_features, features.test),
    ):
        if values is None or table is None:
            continue
        names = {"images": np.array(table.images)}
        if table.groups is not None:
            names["groups"] = np.array(table.groups)
        arrays: dict[str, npt.NDArray[Any]] = {"features": values, "labels": table.values, **names}
        write_npz(folder / f"{split}.npz", arrays, is_compressed=False)
    if features.classifier is not None:
        weight, bias = features.classifier
        write_npz(folder / CLASSIFIER, {"weight": weight, "bias": bias}, is_compressed=False)
    write_npz(folder / "meta.npz", {"classes": np.array(features.train.classes)})
