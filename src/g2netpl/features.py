"""Frozen features: computed once by a backbone, kept as files, read back for linear training.

A features folder holds `train.npz` and `test.npz` (`features` float or uint8, `labels` int8 N×L of
1 / 0 / −1) and `meta.npz` (`classes`, optionally a `scale` per dimension that features are
multiplied by).
"""

import hashlib
import os
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import nn

from g2netpl.data import Source, in_turns, plain_groups
from g2netpl.disk import FULL, written_whole
from g2netpl.errors import InputError
from g2netpl.labels import LabelTable
from g2netpl.teams import ALONE, Team

Features = npt.NDArray[np.float32]


@dataclass(frozen=True)
class FeatureFolder:
    """Features and labels of a training and a test part."""

    train_features: Features
    train: LabelTable
    test_features: Features
    test: LabelTable


def read_features(folder: str | Path) -> FeatureFolder:
    """Read a features folder; every mistake in it is named."""
    folder = Path(folder)
    meta = _arrays(folder / "meta.npz", ("classes",))
    classes = tuple(str(name) for name in meta["classes"])
    parts = []
    for part in ("train", "test"):
        path = folder / f"{part}.npz"
        arrays = _arrays(path, ("features", "labels"))
        features, labels = arrays["features"], arrays["labels"]
        if features.ndim != 2 or len(features) != len(labels):
            raise InputError(
                f"{path}: expected features (N, D) and labels (N, L), "
                f"got {features.shape} and {labels.shape}"
            )
        features = features.astype(np.float32)
        if "scale" in meta:
            if meta["scale"].shape != (features.shape[1],):
                raise InputError(
                    f"{folder / 'meta.npz'}: scale: expected {features.shape[1]} values, "
                    f"got {meta['scale'].shape}"
                )
            features *= meta["scale"].astype(np.float32)
        names = arrays.get("images", np.arange(len(features)))
        try:
            table = LabelTable(tuple(str(name) for name in names), classes, labels)
        except InputError as problem:
            raise InputError(f"{path}: {problem}") from None
        parts.append((features, table))
    if parts[0][0].shape[1] != parts[1][0].shape[1]:
        raise InputError(f"{folder}: train and test features have different widths")
    return FeatureFolder(*parts[0], *parts[1])


def write_features(folder: str | Path, features: FeatureFolder) -> None:
    """Write a features folder."""
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    for part, values, table in (
        ("train", features.train_features, features.train),
        ("test", features.test_features, features.test),
    ):
        np.savez(
            folder / f"{part}.npz",
            features=values,
            labels=table.values,
            images=np.array(table.images),
        )
    np.savez(folder / "meta.npz", classes=np.array(features.train.classes))


def compute_features(
    backbone: nn.Module,
    source: Source,
    batch_size: int | None = None,
    on_batch: Callable[[int], None] | None = None,
    team: Team = ALONE,
) -> Features:
    """What a frozen backbone makes of every image, plain view, in the order of the source.

    The ranks of a team share the work, and each of them is given all of it.
    """
    device = next(backbone.parameters()).device
    backbone.eval()
    parts = []
    with torch.inference_mode():
        groups = plain_groups(len(source), batch_size or source.evaluation_batch)
        for vectors in in_turns(backbone, source, groups, device, team):
            parts.append(vectors.float().cpu())
            if on_batch is not None:
                on_batch(len(vectors))
    return torch.cat(parts).numpy() if parts else np.zeros((0, 0), np.float32)


def cached(
    folder: Path | None, key: str, compute: Callable[[], Features], team: Team = ALONE
) -> Features:
    """The features stored under `key`, or computed now and stored for the next time.

    The ranks of a team compute together, unless all of them find what is stored.
    """
    path = (folder or default_cache()) / f"{key}.npy"
    stored = _stored(path)
    lacking = team.most(int(stored is None))
    if stored is not None and not lacking:
        return stored
    features = compute()
    if team.leads:
        _store(path, features)
    return features


def _stored(path: Path) -> Features | None:
    if not path.is_file():
        return None
    try:
        features: Features = np.load(path, allow_pickle=False)
        return features
    except (OSError, ValueError, EOFError):
        path.unlink(missing_ok=True)  # a damaged file is made anew
        return None


def _store(path: Path, features: Features) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with written_whole(path, mark=f"{os.getpid()}.new") as file:
            np.save(SimpleNamespace(write=file.write), features)
    except OSError as problem:
        if problem.errno in FULL:
            raise
        raise InputError(
            f"{path.parent}: features cannot be kept there ({problem.strerror}); "
            "name another folder with --cache"
        ) from None


def default_cache() -> Path:
    """The user's cache folder."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "g2netpl" / "features"


def cache_key(backbone: nn.Module, paths: list[str], view: str) -> str:
    """Changes with the weights, the files (name, size, time) and the view of the images."""
    digest = hashlib.sha256(view.encode())
    for name, tensor in backbone.state_dict().items():
        digest.update(name.encode())
        digest.update(tensor.cpu().numpy().tobytes())
    for path in paths:
        status = os.stat(path)
        text = f"{path}\0{status.st_size}\0{status.st_mtime_ns}\1"
        digest.update(text.encode("utf-8", "surrogateescape"))
    return digest.hexdigest()[:32]


def _arrays(path: Path, needed: tuple[str, ...]) -> dict[str, npt.NDArray[Any]]:
    if not path.is_file():
        raise InputError(f"{path}: no such file (a features folder has train, test and meta.npz)")
    try:
        with np.load(path, allow_pickle=False) as archive:
            arrays = {name: archive[name] for name in archive.files}
    except (OSError, ValueError, zipfile.BadZipFile, AttributeError) as problem:
        raise InputError(f"{path}: not a readable .npz file ({problem})") from None
    for name in needed:
        if name not in arrays:
            raise InputError(f"{path}: array {name!r} is missing (found: {', '.join(arrays)})")
    return arrays
