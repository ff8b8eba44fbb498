import os

import numpy as np
import pytest
import torch

from g2netpl.data import ArraySource
from g2netpl.errors import InputError
from g2netpl.features import (
    FeatureFolder,
    cache_key,
    cached,
    compute_features,
    read_features,
    write_features,
)
from g2netpl.labels import LabelTable
from g2netpl.network import build_backbone


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


def test_missing_and_damaged_files_are_named(tmp_path):
    with pytest.raises(InputError, match=r"meta\.npz: no such file"):
        read_features(tmp_path)
    write_features(tmp_path, a_folder())
    (tmp_path / "train.npz").write_bytes(b"nonsense")
    with pytest.raises(InputError, match="not a readable"):
        read_features(tmp_path)


def test_features_are_what_the_backbone_gives_in_eval_mode():
    module = build_backbone("tiny").module
    images = torch.randn(5, 3, 64, 64)
    computed = compute_features(module, ArraySource(images), batch_size=2)
    with torch.no_grad():
        expected = module.eval()(images)
    np.testing.assert_allclose(computed, expected.numpy(), atol=1e-5)


def test_the_cache_computes_once_and_repairs_itself(tmp_path):
    calls = []

    def compute():
        calls.append(1)
        return np.ones((2, 2), np.float32)

    for _ in range(2):
        assert (cached(tmp_path, "key", compute) == 1).all()
    assert len(calls) == 1
    (tmp_path / "key.npy").write_bytes(b"nonsense")
    assert (cached(tmp_path, "key", compute) == 1).all()
    assert len(calls) == 2


def test_the_cache_key_changes_with_weights_files_and_view(photos):
    module, other = build_backbone("tiny").module, build_backbone("tiny", seed=1).module
    paths = sorted(str(path) for path in photos.glob("*.png"))
    keys = {
        cache_key(module, paths, "64"),
        cache_key(other, paths, "64"),
        cache_key(module, paths[1:], "64"),
        cache_key(module, paths, "32"),
    }
    assert len(keys) == 4
    assert cache_key(module, paths, "64") in keys
    status = os.stat(paths[0])
    os.utime(paths[0], ns=(status.st_atime_ns, status.st_mtime_ns + 1_000_000))
    assert cache_key(module, paths, "64") not in keys


def test_a_cache_that_cannot_be_written_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="name another folder with --cache"):
        cached(tmp_path / "file" / "cache", "key", lambda: np.ones((2, 2), np.float32))
