"""Checks on real photos, where they lie beside the checkout; never needed, never committed."""

from pathlib import Path

import numpy as np
import pytest

from g2netpl.core.models import build_backbone
from g2netpl.images.features import compute_features, read_features
from g2netpl.images.loader import ImageSource
from g2netpl.labels.io import read_labels

DATA = Path(__file__).parents[3] / "shared" / "data"
needs_data = pytest.mark.skipif(not DATA.is_dir(), reason="the real photos are not on this machine")


@needs_data
def test_lite0_gives_the_features_that_others_computed_with_it():
    table = read_labels(DATA / "coco_small" / "train.csv")
    folder = read_features(DATA / "coco_features")
    with np.load(DATA / "coco_features" / "train.npz") as archive:
        row_of = {int(number): row for row, number in enumerate(archive["ids"])}
    chosen = [name for name in table.images if int(Path(name).stem) in row_of][:24]
    assert len(chosen) == 24
    backbone = build_backbone("lite0")
    paths = [str(DATA / "coco_small" / name) for name in chosen]
    ours = compute_features(
        backbone.module, ImageSource(paths, 256, backbone.mean, backbone.std), batch_size=8
    )
    theirs = folder.train_features[[row_of[int(Path(name).stem)] for name in chosen]]
    # photos were stored again as JPEG and features as whole numbers in between
    likeness = (
        (ours * theirs).sum(1) / np.linalg.norm(ours, axis=1) / np.linalg.norm(theirs, axis=1)
    )
    assert likeness.min() > 0.95
    other = (ours[1:] * theirs[:-1]).sum(1)
    other /= np.linalg.norm(ours[1:], axis=1) * np.linalg.norm(theirs[:-1], axis=1)
    assert other.mean() < 0.7
