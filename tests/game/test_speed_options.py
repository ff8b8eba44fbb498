"""Options that are about speed: what they may change, and what is refused."""

import io
import json
from pathlib import Path

import numpy as np
import pytest
import torch
from rich.console import Console
from safetensors.torch import load_file

from g2netpl import RunConfig, read_labels, train
from g2netpl.base.errors import InputError, Refused
from g2netpl.images import jpeg, loader
from g2netpl.runs.metrics import evaluate


@pytest.fixture
def config(small_training):
    def make(name="run", **changes):
        return RunConfig.read(small_training(name, **{"setting": "known:0.5", **changes}), "test")

    return make


def weights_of(run):
    return load_file(run.folder / "model.safetensors")


class Stopped(Exception):
    pass


def stop(*_):
    raise Stopped


def test_a_cache_and_workers_change_nothing(config):
    plain, heard = train(config(image_cache="off")), io.StringIO()
    kept = train(config("kept", image_cache="auto", workers=2), console=Console(file=heard))
    some = train(config("some", image_cache="100KB", workers=1))  # 32 of the images
    assert heard.getvalue().count("image cache: ") == 1
    for name, values in weights_of(plain).items():
        assert torch.equal(values, weights_of(kept)[name])
        assert torch.equal(values, weights_of(some)[name])


def test_trainings_that_share_their_images_decode_them_once(config, monkeypatch):
    alone, images = train(config("alone")), {}
    train(config("first"), kept=images)
    (cache,) = images.values()
    assert [cache.get(row) is None for row in range(60)] == [False] * cache.count
    asked = []
    squashed = loader.squashed
    monkeypatch.setattr(
        loader, "squashed", lambda path, *rest: asked.append(path) or squashed(path, *rest)
    )
    second = train(config("second"), kept=images)
    assert {Path(path).name[:4] for path in asked} == {"test"}  # which is looked at once
    for name, values in weights_of(alone).items():
        assert torch.equal(values, weights_of(second)[name])


def test_a_resume_may_change_the_cache_but_not_the_decoder(config):
    pytest.importorskip("simplejpeg")
    whole = train(config("whole"))
    with pytest.raises(Stopped):
        train(config(), on_epoch=stop)
    with pytest.raises(Refused, match="changed since the run began: decoder; start a new run"):
        train(config(decoder="simplejpeg"), resume=True)
    resumed = train(config(image_cache="off"), resume=True)
    for name, values in weights_of(whole).items():
        assert torch.equal(values, weights_of(resumed)[name])


def test_a_run_of_a_version_with_other_keys_goes_on(config):
    whole = train(config("whole"))
    with pytest.raises(Stopped):
        train(config(), on_epoch=stop)
    path = Path(config().output) / "run.json"
    content = json.loads(path.read_text())
    for key in ("decoder", "image_cache", "resume_labels"):
        del content["config"][key]
    content["config"]["head"] = "boostlu"  # which later versions do not have
    path.write_text(json.dumps(content))
    with pytest.raises(InputError, match="has a BoostLU head, which only older versions know"):
        train(config(), resume=True)
    content["config"]["head"] = "linear"
    content["config"]["compile"] = False  # nor this
    path.write_text(json.dumps(content))
    with pytest.raises(Refused, match="changed since the run began: hidden; start a new run"):
        train(config(hidden=8), resume=True)
    resumed = train(config(), resume=True)
    for name, values in weights_of(whole).items():
        assert torch.equal(values, weights_of(resumed)[name])


def test_a_training_with_the_faster_decoder_says_so(config, monkeypatch):
    pytest.importorskip("simplejpeg")
    run = train(config(decoder="simplejpeg"))
    assert json.loads((run.folder / "run.json").read_text())["config"]["decoder"] == "simplejpeg"
    monkeypatch.setattr(jpeg, "find_spec", lambda name: None)
    with pytest.raises(InputError, match="simplejpeg is not installed"):
        train(config("other", decoder="simplejpeg"))


@pytest.mark.parametrize("mode", ["end-to-end", "linear", "linear-init"])
def test_bf16_on_a_cpu_trains_and_is_judged_as_it_predicts(config, photos, mode):
    run = train(config(mode=mode, precision="bf16", linear_epochs=2))
    assert all(values.dtype != torch.bfloat16 for values in weights_of(run).values())
    paths = sorted(photos.glob("test-*.png"))
    again = run.predict(paths)
    assert np.isfinite(again).all()
    truth = read_labels(photos / "test.csv")
    order = [truth.images.index(path.name) for path in paths]
    found = evaluate(again, truth.values[order], run.thresholds.limits)
    assert found.mean_average_precision == pytest.approx(
        run.evaluation["test"]["mean_average_precision"], abs=1e-9
    )


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"image_cache": "much"}, "image_cache: must be a size such as 500MB or 2GB, or auto, or"),
        ({"image_cache": "-1GB"}, "image_cache: must be a size"),
        ({"decoder": "turbo"}, "decoder: input should be 'pillow' or 'simplejpeg'"),
    ],
)
def test_options_are_checked(config, changes, message):
    with pytest.raises(InputError, match=message):
        config(**changes)
