"""A frozen network in onnxruntime says what it says in PyTorch, or PyTorch is used."""

import numpy as np
import pytest
import torch

from g2netpl import RunConfig, load_run, train
from g2netpl.core.models import build_backbone
from g2netpl.images import features as engine
from g2netpl.images.features import Engine, faster
from g2netpl.images.loader import ArraySource

pytest.importorskip("onnxruntime")
pytest.importorskip("onnxscript")


def some_images(count, size=32):
    return torch.randn(count, 3, size, size, generator=torch.Generator().manual_seed(0))


def fast_of(module, count=engine.ENOUGH):
    return faster(module, ArraySource(some_images(5)), count)


@pytest.fixture(scope="module")
def pair():
    """A backbone in PyTorch, and the same in onnxruntime."""
    module = build_backbone("tiny", seed=3).module.train()
    before = {name: value.clone() for name, value in module.state_dict().items()}
    fast = fast_of(module)
    assert isinstance(fast, Engine)
    assert module.training  # left as it was
    assert all(torch.equal(before[name], value) for name, value in module.state_dict().items())
    return module.eval(), fast


def same(ours, theirs):
    return np.abs(ours - theirs).max() <= 1e-4 * np.abs(theirs).max()


@pytest.mark.parametrize("count", [1, 2, 33])
def test_batches_of_any_length_are_as_in_pytorch(pair, count):
    module, fast = pair
    images = some_images(count)
    with torch.inference_mode():
        ours, theirs = fast(images), module(images)
    assert ours.shape == theirs.shape
    assert same(ours.numpy(), theirs.numpy())
    assert theirs.std() > 0


def test_an_unreadable_image_is_nan_and_its_neighbours_are_not(pair):
    _, fast = pair
    images = some_images(4)
    whole = fast(images)
    images[2] = torch.nan
    made = fast(images)
    assert made[2].isnan().all()
    assert torch.equal(made[[0, 1, 3]], whole[[0, 1, 3]])


def no_export(*_):
    raise RuntimeError("no such operator")


def test_pytorch_is_used_for_few_images_another_device_or_if_onnxruntime_fails(monkeypatch):
    module, said = build_backbone("tiny").module, []
    assert fast_of(module, engine.ENOUGH - 1) is module
    assert fast_of(module.to("meta")) is module
    module, source = build_backbone("tiny", seed=1).module, ArraySource(some_images(2))
    plain, other = engine.onnx_graph, build_backbone("tiny", seed=9).module.eval()
    for graph in (no_export, lambda module, *rest: plain(other, *rest)):
        monkeypatch.setattr(engine, "onnx_graph", graph)
        assert faster(module, source, engine.ENOUGH, said.append) is module
    assert said == [
        "note: features by PyTorch: onnxruntime fails (RuntimeError)",
        "note: features by PyTorch: onnxruntime fails (ValueError)",
    ]


def test_a_run_is_the_same_by_either(small_training, photos, tmp_path, monkeypatch):
    run = train(RunConfig(**small_training("torch", mode="linear", epochs=1)))
    (tmp_path / "broken.png").write_bytes(b"no picture")
    paths = [*map(str, sorted(photos.glob("*.png"))[:20]), str(tmp_path / "broken.png")]
    by_torch = run.predict(paths, max_unreadable=1)
    monkeypatch.setattr(engine, "ENOUGH", 1)
    monkeypatch.setattr("g2netpl.training.datamodule.ENOUGH", 1)
    by_engine = load_run(run.folder).predict(paths, max_unreadable=1)
    assert np.isnan(by_engine[-1]).all()
    np.testing.assert_allclose(by_engine, by_torch, atol=1e-5)
    made, keys = [], {"mode": "linear", "epochs": 1, "cache": str(tmp_path / "other")}
    counting = lambda *given: made.append(1) or faster(*given)  # noqa: E731
    monkeypatch.setattr("g2netpl.training.datamodule.faster", counting)
    other = train(RunConfig(**small_training("engine", **keys)))
    assert len(made) == 1  # for the label file's images and the test images
    assert other.result["test_map"] == pytest.approx(run.result["test_map"], abs=1e-3)
