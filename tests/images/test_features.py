import io
import re

import numpy as np
import pytest
import torch
from rich.console import Console

from g2netpl import RunConfig
from g2netpl.cli import main
from g2netpl.core.models import build_backbone
from g2netpl.images.features import FeatureFolder, compute_features, read_features, write_features
from g2netpl.images.loader import ArraySource, ImageSource
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


def test_whole_numbers_are_scaled_per_dimension(tmp_path):
    write_features(tmp_path, a_folder())
    features = np.arange(8, dtype=np.uint8).reshape(2, 4)
    for part in ("train", "test"):
        np.savez(tmp_path / f"{part}.npz", features=features, labels=np.zeros((2, 2), np.int8))
    np.savez(tmp_path / "meta.npz", classes=["x", "y"], scale=np.array([1, 10, 100, 0.5]))
    assert read_features(tmp_path).train_features.tolist() == [[0, 10, 200, 1.5], [4, 50, 600, 3.5]]


@pytest.mark.parametrize(
    ("file", "arrays", "message"),
    [
        ("train", {"features": np.zeros((2, 4))}, "array 'labels' is missing"),
        ("train", {"features": np.zeros((3, 4)), "labels": np.zeros((2, 2))}, "expected features"),
        (
            "test",
            {"features": np.zeros((1, 4)), "labels": np.full((1, 2), 2)},
            r"test\.npz: .* got 2",
        ),
        ("test", {"features": np.zeros((1, 5)), "labels": np.zeros((1, 2))}, "different widths"),
        ("meta", {"classes": ["x", "y"], "scale": np.ones(3)}, "scale: expected 4 values"),
        ("meta", {"classes": ["x", "x"]}, "class 'x' is listed twice"),
        ("meta", {"names": ["x"]}, "array 'classes' is missing"),
    ],
)
def test_mistakes_in_a_folder_are_named(tmp_path, file, arrays, message):
    write_features(tmp_path, a_folder())
    np.savez(tmp_path / f"{file}.npz", **arrays)
    with pytest.raises(InputError, match=message):
        read_features(tmp_path)


def test_features_are_what_the_backbone_gives_in_eval_mode():
    module = build_backbone("tiny").module
    images = torch.randn(5, 3, 64, 64)
    computed = compute_features(module, ArraySource(images), batch_size=2)
    with torch.no_grad():
        expected = module.eval()(images)
    np.testing.assert_allclose(computed, expected.numpy(), atol=1e-5)


# --- numbers that are none, files that are damaged ------------------------------------------------


def with_value(value, row=3, column=2, kind=np.float32):
    values = np.ones((5, 4), kind)
    values[row, column] = value
    return values


LABELS = np.zeros((5, 2), np.int8)
NOT_FINITE = [
    (
        "nan",
        {"features": with_value(np.nan)},
        None,
        r"train\.npz: features: row 3, column 2: .*nan",
    ),
    ("inf", {"features": with_value(-np.inf)}, None, "row 3, column 2: expected a finite .*-inf"),
    ("too large", {"features": with_value(1e39, kind=np.float64)}, None, r"column 2: .*got 1e\+39"),
    (
        "scale nan",
        {},
        [1, 1, np.nan, 1],
        r"meta\.npz: scale: row 0, column 2: expected a finite .*got nan",
    ),
    ("product", {"features": with_value(2e38)}, [1, 1, 2, 1], "column 2: .*times the scale 2"),
    ("text", {"features": np.full((5, 4), "x")}, None, "features: expected numbers, got <U1"),
    ("complex", {"features": np.ones((5, 4), complex)}, None, "expected numbers, got complex"),
    (
        "no images",
        {"features": np.zeros((0, 4)), "labels": LABELS[:0]},
        None,
        r"expected features \(N, D\)",
    ),
    ("one number", {"features": np.float32(1)}, None, r"expected features \(N, D\)"),
    ("labels of text", {"labels": np.full((5, 2), "1")}, None, "labels: expected numbers, got <U1"),
    ("one image", {"images": np.array("a")}, None, "images: expected a list of names"),
]


@pytest.mark.parametrize(
    ("arrays", "scale", "message"),
    [case[1:] for case in NOT_FINITE],
    ids=[c[0] for c in NOT_FINITE],
)
def test_whatever_is_not_a_finite_number_is_named(tmp_path, arrays, scale, message):
    write_features(tmp_path, a_folder())
    np.savez(
        tmp_path / "train.npz", **({"features": np.ones((5, 4), "f4"), "labels": LABELS} | arrays)
    )
    if scale is not None:
        np.savez(tmp_path / "meta.npz", classes=["x", "y"], scale=scale)
    with pytest.raises(InputError, match=message):
        read_features(tmp_path)


def test_any_damage_is_one_line_or_harmless(tmp_path):
    """Every byte changed in turn; or the file cut off there."""
    write_features(tmp_path, a_folder())
    path = tmp_path / "train.npz"
    with np.load(path) as arrays:
        whole = dict(arrays)
    np.savez_compressed(path, **whole)  # as people make them
    content, refused = path.read_bytes(), 0
    for place in range(len(content)):
        changed = content[:place] + bytes([content[place] ^ 0x55]) + content[place + 1 :]
        path.write_bytes(changed if place % 8 else content[:place])
        try:
            read = read_features(tmp_path)
        except InputError:
            refused += 1
        else:
            assert (read.train_features == whole["features"]).all()
            assert (read.train.values == whole["labels"]).all()
    assert refused > 0.6 * len(content)


@pytest.mark.parametrize("command", ["compare", "reproduce"])
def test_every_command_names_the_cell_that_is_not_a_number(tmp_path, capsys, command):
    write_features(tmp_path / "data", a_folder())
    np.savez(tmp_path / "data" / "train.npz", features=with_value(np.nan), labels=LABELS)
    flags = {
        "compare": ["--features", tmp_path / "data", "--methods", "an", "--settings", "fspl"],
        "reproduce": ["table1", "--data", tmp_path / "data"],
    }[command]
    code = main([command, *map(str, flags), "--output", str(tmp_path / "out")])
    shown = capsys.readouterr().err
    assert (code, len(shown.splitlines())) == (2, 1), shown
    assert re.search(r"train\.npz: features: row 3, column 2: expected a finite number", shown)


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


def test_images_are_looked_for_beside_the_label_file(photos, tmp_path, capsys):
    def made(name, *more):
        flags = ["--backbone", "tiny", "--image-size", "32", "--workers", "0", "--output"]
        return main(["features", *flags, str(tmp_path / name), *map(str, more)])

    labels = ("--labels", photos / "train.csv")
    assert made("one", *labels) == made("two", *labels, "--images", photos) == 0
    one, two = (read_features(tmp_path / name) for name in ("one", "two"))
    np.testing.assert_array_equal(one.train_features, two.train_features)
    np.testing.assert_array_equal(one.test_features, two.test_features)
    assert made("three/") == 2
    assert "expected --images, --labels or both" in capsys.readouterr().err


# --- the cache of a training on frozen features ---------------------------------------------------


@pytest.fixture
def own_photos(photos, small_training, tmp_path):
    """Photos of our own to change, and what a training would learn from them."""
    folder = tmp_path / "own"
    folder.mkdir()
    for path in [*photos.glob("train-*.png"), photos / "train.csv"]:
        (folder / path.name).write_bytes(path.read_bytes())
    keys = {"labels": str(folder / "train.csv"), "images": str(folder), "test_labels": None}
    config = RunConfig.read(small_training(mode="linear", **keys), "test")

    def learn_from():
        said = io.StringIO()
        console = Console(file=said, width=1000)
        sources = ImageDataModule(config, read_training_data(config), backbone_of(config), console)
        sources.prepare()
        return sources.all("linear").inputs.numpy(), sources.bad_images(), said.getvalue()

    def truth():
        backbone = backbone_of(config)
        paths = sorted(str(path) for path in folder.glob("*.png"))
        source = ImageSource(paths, config.image_size, backbone.mean, backbone.std)
        return compute_features(backbone.module, source)

    return folder, learn_from, truth


@pytest.mark.parametrize("number", [np.nan, np.inf])
def test_numbers_that_a_backbone_cannot_make_are_told_as_such(own_photos, monkeypatch, number):
    folder, learn_from, _ = own_photos

    def compute(*arguments, **named):
        features = compute_features(*arguments, **named)
        features[9, 5] = number
        return features

    monkeypatch.setattr("g2netpl.training.datamodule.compute_features", compute)
    features, bad, _ = learn_from()
    assert bad == [f"{folder / 'train-00009.png'}: the backbone makes no finite numbers of it"]
    assert np.flatnonzero(np.isnan(features).all(axis=1)).tolist() == [9]
    assert np.isfinite(np.delete(features, 9, axis=0)).all()
