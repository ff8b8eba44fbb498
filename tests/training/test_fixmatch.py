"""FixMatch on photos: both augmentations are loaded together, and features are rejected."""

import numpy as np
import pytest
import torch

from g2netpl import RunConfig, train
from g2netpl.cli import main
from g2netpl.images.loader import ImageSource
from g2netpl.images.transforms import PAIR
from g2netpl.utils.errors import InputError


def test_two_views_of_an_image_are_one_axis(photos):
    paths = sorted(str(path) for path in photos.glob("train-*.png"))[:5]
    groups = [np.array([3, 1]), np.array([0, 4, 2])]
    both = list(
        ImageSource(paths, 32, (0.5,) * 3, (0.25,) * 3, seed=2, augment=PAIR, workers=1).load(
            groups, 7
        )
    )
    assert [batch.shape for batch in both] == [(2, 2, 3, 32, 32), (3, 2, 3, 32, 32)]
    for place, name in enumerate(PAIR):
        alone = ImageSource(paths, 32, (0.5,) * 3, (0.25,) * 3, seed=2, augment=name)
        for one, pair in zip(alone.load(groups, 7), both, strict=True):
            assert torch.equal(one, pair[:, place])
    (plain,) = ImageSource(paths, 32, (0.5,) * 3, (0.25,) * 3, augment=PAIR).load(groups[:1], None)
    assert plain.shape == (2, 3, 32, 32)


def test_it_trains_on_photos_and_nowhere_else(photos, tmp_path, capsys):
    values = {
        "labels": str(photos / "train.csv"),
        "images": str(photos),
        "only_listed": True,
        "output": str(tmp_path / "run"),
        "setting": "sspl:0.5",
        "backbone": "tiny",
        "image_size": 32,
        "epochs": 2,
        "workers": 0,
        "method": "fixmatch",
        "expected_positives": 2.3,
    }
    run = train(RunConfig(**values))
    assert 0 < run.result["validation_map"] <= 1
    with pytest.raises(InputError, match="use --mode partial or full"):
        train(RunConfig(**values | {"mode": "linear", "output": str(tmp_path / "no")}))
    arguments = ["--methods", "fixmatch", "--settings", "fspl", "--output", str(tmp_path / "c")]
    assert main(["compare", *arguments]) == 2
    assert "partial or full" in capsys.readouterr().err
