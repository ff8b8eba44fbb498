import numpy as np
import pytest
import torch

from g2netpl import RunConfig, load_run, train
from g2netpl.cli import main
from g2netpl.core.models import build_backbone
from g2netpl.images import engine
from g2netpl.images.engine import Unfit, faster, worth
from g2netpl.images.features import compute_features, read_features
from g2netpl.images.loader import ArraySource

pytest.importorskip("onnxruntime")
pytest.importorskip("onnxscript")


def some_images(count, size=32):
    return torch.randn(count, 3, size, size, generator=torch.Generator().manual_seed(0))


@pytest.fixture(scope="module")
def pair():
    """A backbone in PyTorch, and the same in onnxruntime."""
    module = build_backbone("tiny", seed=3).module.train()
    before = {name: value.clone() for name, value in module.state_dict().items()}
    fast = faster(module, ArraySource(some_images(5)))
    assert module.training  # left as it was
    assert all(torch.equal(before[name], value) for name, value in module.state_dict().items())
    return module.eval(), fast


def same(ours, theirs):
    return np.abs(ours - theirs).max() <= 1e-4 * np.abs(theirs).max()


@pytest.mark.parametrize("count", [1, 2, 7, 33])
def test_batches_of_any_length_are_as_in_pytorch(pair, count):
    module, fast = pair
    images = some_images(count)
    with torch.inference_mode():
        ours, theirs = fast(images), module(images)
    assert ours.shape == theirs.shape
    assert same(ours.numpy(), theirs.numpy())
    assert theirs.std() > 0


def test_lite0_is_as_in_pytorch():
    module = build_backbone("lite0", pretrained=False).module.eval()
    source = ArraySource(some_images(6, 64))
    fast = compute_features(faster(module, source), source, batch_size=4)
    assert same(fast, compute_features(module, source, batch_size=4))


def test_an_unreadable_image_is_nan_and_its_neighbours_are_not(pair):
    _, fast = pair
    images = some_images(4)
    whole = fast(images)
    images[2] = torch.nan
    made = fast(images)
    assert made[2].isnan().all()
    assert torch.equal(made[[0, 1, 3]], whole[[0, 1, 3]])


def test_the_way_follows_from_the_number_of_images_and_the_device():
    module = build_backbone("tiny").module
    assert not worth(module, engine.ENOUGH - 1)
    assert worth(module, engine.ENOUGH)
    assert not worth(module.to("meta"), engine.ENOUGH)  # another device than the CPU


def no_export(*_):
    raise RuntimeError("no such operator")


def test_a_network_that_cannot_be_exported_is_unfit(monkeypatch):
    monkeypatch.setattr(engine, "onnx_graph", no_export)
    with pytest.raises(Unfit, match="cannot run this network"):
        faster(build_backbone("tiny").module, ArraySource(some_images(2)))


def test_one_that_says_something_else_is_unfit(monkeypatch):
    plain = engine.onnx_graph
    other = build_backbone("tiny", seed=9).module.eval()
    monkeypatch.setattr(engine, "onnx_graph", lambda module, *rest: plain(other, *rest))
    with pytest.raises(Unfit, match="differs from PyTorch by"):
        faster(build_backbone("tiny", seed=1).module, ArraySource(some_images(2)))


def test_without_onnxruntime_the_extra_is_named(monkeypatch):
    monkeypatch.setattr(engine, "find_spec", lambda package: None)
    with pytest.raises(Unfit, match=r"g2netpl\[export\]"):
        faster(build_backbone("tiny").module, ArraySource(some_images(2)))


def written(photos, output, *more):
    main(
        [
            *("features", "--labels", str(photos / "train.csv"), "--images", str(photos)),
            *("--test-labels", str(photos / "test.csv"), "--backbone", "tiny", "--workers", "0"),
            *("--image-size", "32", "--output", str(output), "--cache", f"{output}-cache", *more),
        ]
    )
    return read_features(output)


def test_features_are_the_same_by_either(photos, tmp_path, monkeypatch, capsys):
    by_torch = written(photos, tmp_path / "torch")
    monkeypatch.setattr(engine, "ENOUGH", 1)
    by_engine = written(photos, tmp_path / "engine")
    assert same(by_engine.train_features, by_torch.train_features)
    assert same(by_engine.test_features, by_torch.test_features)
    assert "PyTorch" not in capsys.readouterr().out
    monkeypatch.setattr(engine, "onnx_graph", no_export)
    fallen_back = written(photos, tmp_path / "fallback")
    assert (fallen_back.train_features == by_torch.train_features).all()
    assert "note: features by PyTorch: onnxruntime cannot run" in capsys.readouterr().out


def keys_of(folder):
    return {path.name for path in folder.glob("*.f32.npy")}


def test_features_of_the_two_are_kept_apart(small_training, tmp_path, monkeypatch, capsys):
    def linear(name):
        return train(RunConfig(**small_training(name, mode="linear", epochs=1)))

    by_torch = linear("torch")
    first = keys_of(tmp_path / "cache")
    monkeypatch.setattr(engine, "ENOUGH", 1)
    made = []
    counting = lambda *given: made.append(1) or faster(*given)  # noqa: E731
    monkeypatch.setattr("g2netpl.training.datamodule.faster", counting)
    by_engine = linear("engine")
    second = keys_of(tmp_path / "cache") - first
    assert len(first) == len(second) == 2
    assert len(made) == 1  # for the label file's images and the test images
    assert by_engine.result["test_map"] == pytest.approx(by_torch.result["test_map"], abs=1e-3)
    linear("again")
    assert len(made) == 1
    assert keys_of(tmp_path / "cache") == first | second


def test_the_scores_of_a_run_are_the_same_by_either(small_training, photos, tmp_path, monkeypatch):
    run = train(RunConfig(**small_training(epochs=1)))
    (tmp_path / "broken.png").write_bytes(b"no picture")
    paths = [*map(str, sorted(photos.glob("*.png"))[:20]), str(tmp_path / "broken.png")]
    by_torch = run.predict(paths, max_unreadable=1)
    monkeypatch.setattr(engine, "ENOUGH", 1)
    by_engine = load_run(run.folder).predict(paths, max_unreadable=1)
    assert np.isnan(by_engine[-1]).all()
    np.testing.assert_allclose(by_engine, by_torch, atol=1e-5)
    monkeypatch.setattr(engine, "onnx_graph", no_export)
    np.testing.assert_array_equal(load_run(run.folder).predict(paths, max_unreadable=1), by_torch)
