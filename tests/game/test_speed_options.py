"""Options that are about speed: what they may change, and what is refused."""

import io
import json
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch
from rich.console import Console
from safetensors.torch import load_file

from g2netpl import RunConfig, read_labels, train
from g2netpl.base.errors import InputError, Refused
from g2netpl.game.network import compiling
from g2netpl.game.network.network import build_network
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
    assert cache.filled() == cache.count == 60
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
    for key in ("decoder", "compile", "image_cache", "resume_labels"):
        del content["config"][key]
    content["config"]["head"] = "boostlu"  # which later versions do not have
    path.write_text(json.dumps(content))
    with pytest.raises(InputError, match="has a BoostLU head, which only older versions know"):
        train(config(), resume=True)
    content["config"]["head"] = "linear"
    path.write_text(json.dumps(content))
    with pytest.raises(Refused, match="changed since the run began: compile; start a new run"):
        train(config(compile=True), resume=True)
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


def test_a_compiled_backbone_starts_as_it_was_and_gives_the_same(monkeypatch):
    monkeypatch.setattr(torch, "compile", partial(torch.compile, backend="eager"))
    network = build_network("tiny", 4, seed=1)
    before = {name: value.clone() for name, value in network.state_dict().items()}
    inputs = torch.randn(3, 3, 32, 32, generator=torch.Generator().manual_seed(0))
    expected = network(inputs)
    network.load_state_dict(before)
    plain = network.vectors
    compiling.compile_network(network, 5, 32)
    assert network.vectors != plain
    for name, value in network.state_dict().items():
        assert torch.equal(value, before[name])
    assert all(parameter.grad is None for parameter in network.parameters())
    torch.testing.assert_close(network(inputs), expected)


def test_what_cannot_be_compiled_is_one_line_and_leaves_no_folder(config, monkeypatch):
    def broken(function):
        def run(inputs):
            raise RuntimeError("\nno C++ compiler was found\nmore") from ValueError("g++: missing")

        return run

    monkeypatch.setattr(torch, "compile", broken)
    chosen = config(compile=True)
    with pytest.raises(InputError, match=r"compile: torch\.compile does not work here \(ValueErro"):
        train(chosen)
    assert not Path(chosen.output).exists()
    with pytest.raises(InputError, match="compile: needs a backbone that learns as a whole"):
        train(config(compile=True, mode="linear"))


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
