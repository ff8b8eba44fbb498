import numpy as np
import pytest
import torch
from rich.console import Console

from g2netpl import RunConfig
from g2netpl.cli import main
from g2netpl.core.models import build_backbone
from g2netpl.images.features import FeatureFolder, compute_features, read_features, write_features
from g2netpl.images.loader import ArraySource
from g2netpl.labels.table import LabelTable
from g2netpl.training.data import read_training_data
from g2netpl.training.datamodule import ImageDataModule, backbone_of
from g2netpl.utils.errors import InputError


def a_folder():
    random = np.random.default_rng(0)
    tables = [
        LabelTable(
            tuple(f"{part}{i}" for i in range(n)), ("x", "y"), random.integers(-1, 2, (n, 2))
        )
        for part, n in (("a", 5), ("b", 3))
    ]
    values = [random.random((n, 4)).astype(np.float32) for n in (5, 3)]
    return FeatureFolder(values[0], tables[0], values[1], tables[1])


def test_a_features_folder_round_trip(tmp_path):
    folder = a_folder()
    write_features(tmp_path, folder)
    read = read_features(tmp_path)
    assert (read.train_features == folder.train_features).all()
    assert read.test.images == folder.test.images
    assert read.train.values.tolist() == folder.train.values.tolist()
    assert read.test.classes == ("x", "y")


def with_value(value, row=3, column=2, kind=np.float32):
    values = np.ones((5, 4), kind)
    values[row, column] = value
    return values


NUMBERS, TEXT = np.ones((5, 4), np.float32), np.full((5, 4), "x")
MISTAKES = [  # arrays of train.npz, a scale, and the message
    ({"labels": None}, None, "array 'labels' is missing"),
    ({"labels": np.ones((2, 2))}, None, r"labels: expected \(5, L\), got float64 \(2, 2\)"),
    ({"labels": np.full((5, 2), 2)}, None, r"train\.npz: .* got 2"),
    ({"labels": np.full((5, 2), "1")}, None, "labels: expected numbers in 2 dimensions"),
    ({"features": np.ones((5, 5))}, None, "different widths"),
    ({"features": TEXT}, None, "features: expected numbers in 2 dimensions, got <U1"),
    ({"features": NUMBERS + 1j}, None, "features: expected numbers in 2 dimensions, got complex"),
    ({"features": np.zeros((0, 4))}, None, r"2 dimensions, got float64 \(0, 4\)"),
    ({"features": np.float32(1)}, None, r"2 dimensions, got float32 \(\)"),
    ({"features": with_value(np.nan)}, None, r"train\.npz: features: row 3, column 2: .*nan"),
    ({"features": with_value(-np.inf)}, None, "row 3, column 2: expected a finite .*-inf"),
    ({"features": with_value(1e39, kind=np.float64)}, None, r"column 2: .*got inf"),
    ({"features": with_value(2e38)}, [1, 1, 2, 1], "column 2: .* got inf"),
    ({"images": np.array("a")}, None, "images: expected a list of names"),
    ({}, np.ones(3), "expected 3 columns, as in the scale"),
    ({}, [1, 1, np.nan, 1], r"meta\.npz: scale: row 2: expected a finite number, got nan"),
]


@pytest.mark.parametrize(("arrays", "scale", "message"), MISTAKES, ids=[m[2] for m in MISTAKES])
def test_mistakes_in_a_folder_are_named(tmp_path, arrays, scale, message):
    write_features(tmp_path, a_folder())
    whole = {"features": NUMBERS, "labels": np.zeros((5, 2), np.int8)} | arrays
    np.savez(
        tmp_path / "train.npz", **{key: each for key, each in whole.items() if each is not None}
    )
    if scale is not None:
        np.savez(tmp_path / "meta.npz", classes=["x", "y"], scale=scale)
    with pytest.raises(InputError, match=message):
        read_features(tmp_path)


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"classes": ["x", "x"]}, "class 'x' is listed twice"),
        ({"names": ["x"]}, "array 'classes' is missing"),
    ],
)
def test_mistakes_in_class_names_are_named(tmp_path, arrays, message):
    write_features(tmp_path, a_folder())
    np.savez(tmp_path / "meta.npz", **arrays)
    with pytest.raises(InputError, match=message):
        read_features(tmp_path)


def test_features_are_what_the_backbone_gives_in_eval_mode():
    module = build_backbone("tiny").module
    images = torch.randn(5, 3, 64, 64)
    computed = compute_features(module, ArraySource(images), batch_size=2)
    with torch.no_grad():
        expected = module.eval()(images)
    np.testing.assert_allclose(computed, expected.numpy(), atol=1e-5)


def test_an_earlier_folder_is_there_until_the_new_features_are(photos, tmp_path, capsys):
    arguments = ["features", "--labels", photos / "train.csv", "--images", tmp_path / "photos"]
    arguments += ["--backbone", "tiny", "--image-size", "32", "--workers", "0"]
    arguments = [*map(str, arguments), "--output", str(tmp_path / "made")]
    (tmp_path / "photos").mkdir()
    for path in photos.glob("*.png"):
        (tmp_path / "photos" / path.name).write_bytes(path.read_bytes())
    assert main(arguments) == 0
    before = {path.name: path.read_bytes() for path in (tmp_path / "made").iterdir()}
    assert set(before) == {"run.json", "train.npz", "test.npz", "meta.npz"}
    path = tmp_path / "photos" / "train-00003.png"
    path.write_bytes(path.read_bytes()[:200])
    assert main([*arguments, "--overwrite"]) == 2
    assert path.name in capsys.readouterr().err
    assert {path.name: path.read_bytes() for path in (tmp_path / "made").iterdir()} == before


@pytest.mark.parametrize("number", [np.nan, np.inf])
def test_numbers_that_a_backbone_cannot_make_are_reported(small_training, monkeypatch, number):
    def compute(*arguments, **named):
        features = compute_features(*arguments, **named)
        features[9, 5] = number
        return features

    monkeypatch.setattr("g2netpl.training.datamodule.compute_features", compute)
    config = RunConfig.read(small_training(mode="linear", test_labels=None), "test")
    data = read_training_data(config)
    inputs = ImageDataModule(config, data, backbone_of(config), Console(quiet=True))
    inputs.prepare()
    features = inputs.all("linear").inputs.numpy()
    assert inputs.bad_images() == [f"{data.paths[9]}: the output of the backbone is not finite"]
    assert np.flatnonzero(np.isnan(features).all(axis=1)).tolist() == [9]
    assert np.isfinite(np.delete(features, 9, axis=0)).all()
