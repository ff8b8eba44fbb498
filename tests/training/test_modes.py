"""The mode of a training that was asked for none: which, why, and what the others would take."""

import io
import json
import time
from pathlib import Path

import pytest
import torch
from rich.console import Console
from safetensors.torch import load_file, save_file

from g2netpl import RunConfig, train
from g2netpl.base.errors import InputError
from g2netpl.game.network.cutting import cut
from g2netpl.game.network.network import BACKBONES, build_backbone
from g2netpl.training import devices, modes
from g2netpl.training.checks import check_config
from g2netpl.training.modes import seconds_of_modes, usual_mode


@pytest.fixture
def config(small_training):
    def make(name="run", **changes):
        return RunConfig.read(small_training(name, **changes), "test")

    return make


@pytest.fixture
def own_weights(tmp_path):
    """`tiny` as somebody trained it before, for whom it does not start at random."""
    path = tmp_path / "tiny.safetensors"
    state = build_backbone("tiny", seed=5).module.state_dict()
    save_file({name: value.contiguous() for name, value in state.items()}, path)
    return str(path)


def trained(config, **more):
    heard = io.StringIO()
    run = train(config, console=Console(file=heard, width=300), **more)
    return run, heard.getvalue()


def mode_in(folder):
    return json.loads((Path(folder) / "run.json").read_text())["config"]["mode"]


@pytest.mark.parametrize("mode", ["top", "linear-init", "end-to-end"])
def test_names_are_draws_where_a_trained_backbone_learns(config, own_weights, mode):
    one = {"mode": mode, "backbone": "tiny", "epochs": 1, "linear_epochs": 1, "setting": "fspl"}
    _, learnt = trained(config("learnt", **one, weights=own_weights))
    _, at_random = trained(config("random", **one))
    assert "observation: draw (there are positives alone)" in learnt
    assert "observation: random (the backbone starts at random)" in at_random


@pytest.mark.parametrize(
    ("changes", "gpu", "mode", "why"),
    [
        ({"backbone": "lite0"}, False, "linear", "without a GPU"),
        ({"backbone": "resnet50"}, False, "linear", "without a GPU"),
        ({"backbone": "lite0"}, True, "end-to-end", "on a GPU"),
        ({"backbone": "lite0", "device": "cpu"}, True, "linear", "without a GPU"),
        ({"backbone": "lite0", "pretrained": False}, False, "end-to-end", "lite0 starts at random"),
        ({"backbone": "tiny"}, False, "end-to-end", "tiny starts at random"),
        ({"backbone": "tiny", "weights": "w"}, False, "linear", "without a GPU"),
        ({"backbone": "of-a-plugin"}, False, "end-to-end", "starts at random"),
        ({"backbone": "lite0", "method": "fixmatch"}, False, "top", "compares views"),
        ({"backbone": "lite0", "method": "fixmatch"}, True, "end-to-end", "compares views"),
        ({"backbone": "lite0", "view": "pair"}, False, "top", "no pair views"),
        ({"backbone": "lite0", "view": "weak"}, False, "end-to-end", "no weak views"),
        ({"backbone": "lite0", "train_from": "blocks.5"}, False, "top", "from blocks.5 on"),
    ],
)
def test_a_frozen_backbone_is_for_cpus_and_must_have_learnt(
    config, monkeypatch, changes, gpu, mode, why
):
    monkeypatch.setitem(BACKBONES, "of-a-plugin", BACKBONES["tiny"])
    chosen = config(**{"device": "auto", **changes})
    with monkeypatch.context() as machine:
        machine.setattr(torch.accelerator, "is_available", lambda: gpu)
        found, reason = usual_mode(chosen)
    assert found == mode
    assert why in reason
    if not gpu:
        assert check_config(chosen).mode == mode


def test_without_a_mode_the_training_is_the_one_of_that_mode_and_says_so(config, own_weights):
    run, heard = trained(config(weights=own_weights))
    other, silent = trained(config("other", weights=own_weights, mode="linear"))
    assert mode_in(run.folder) == "linear"
    assert heard.count("mode: linear (without a GPU, less than a minute); it would take") == 1
    assert "with --mode top" in heard
    assert "with --mode end-to-end" in heard
    assert "mode: " not in silent
    ours, theirs = (load_file(each.folder / "model.safetensors") for each in (run, other))
    assert all(torch.equal(value, theirs[name]) for name, value in ours.items())


def test_a_backbone_that_starts_at_random_is_trained_as_a_whole(config):
    run, heard = trained(config(epochs=1))
    assert mode_in(run.folder) == "end-to-end"
    assert "mode: end-to-end (the backbone tiny starts at random)\n" in heard


def test_a_resume_has_the_mode_that_was_recorded(config, own_weights, monkeypatch):
    def stop(*_):
        raise RuntimeError("stopped")

    chosen = config(weights=own_weights, device="auto")
    with pytest.raises(RuntimeError, match="stopped"):
        train(chosen, on_epoch=stop)
    monkeypatch.setattr(modes, "on_cpu", lambda config: False)  # on a machine with a GPU
    monkeypatch.setattr(devices, "on_cpu", lambda config: True)
    assert check_config(chosen).mode == "end-to-end"
    run, heard = trained(chosen, resume=True)
    assert mode_in(run.folder) == run.config.mode == "linear"
    assert "mode: " not in heard


class Data:
    """8 training, 2 validation and 6 test images."""

    def __init__(self, path):
        self.paths, self.training, self.validation = [path] * 10, range(8), range(2)
        self.all_paths = [path] * 16


class Inputs:
    def __init__(self, data):
        self.data, self.backbone = data, build_backbone("tiny")

    @property
    def cut(self):
        return cut(self.backbone.module, "9", 32)


def test_seconds_are_counted_by_what_sees_how_many_images(config, monkeypatch):
    inputs = Inputs(Data("none"))
    monkeypatch.setattr(modes, "_seconds_per_image", lambda *_: (1.0, 10.0, 100.0))
    found, share = seconds_of_modes(config(epochs=3), inputs), inputs.cut.share
    epochs = 3 * (8 * 100.0 + 2 * 10.0)
    assert found["linear"] == 16 * 11.0
    assert found["end-to-end"] == 16 * 11.0 + epochs
    frozen = 24 * (1.0 + 10.0 * (1 - share))  # of the training images also their mirror images
    assert found["top"] == pytest.approx(frozen + share * epochs)
    assert list(found) == ["linear", "top", "end-to-end"]


def test_what_is_timed_is_what_it_takes_and_leaves_the_network_alone(config, photos, monkeypatch):
    inputs = Inputs(Data(str(photos / "test-0.png")))
    inputs.data.paths = sorted(map(str, photos.glob("*.png")))[:10]
    before = {name: value.clone() for name, value in inputs.backbone.module.state_dict().items()}
    random = torch.get_rng_state()
    ticks = iter([0.0, 4.0, 10.0, 18.0, 20.0, 40.0])
    monkeypatch.setattr(time, "perf_counter", lambda: next(ticks))
    assert modes._seconds_per_image(config(workers=2), inputs) == (0.5, 2.0, 5.0)
    assert torch.equal(torch.get_rng_state(), random)
    for name, value in inputs.backbone.module.state_dict().items():
        assert torch.equal(value, before[name])
    assert all(parameter.grad is None for parameter in inputs.backbone.module.parameters())


def test_no_training_fails_for_an_estimate(config, own_weights, monkeypatch):
    assert seconds_of_modes(config(), Inputs(Data("missing.png"))) == {}
    uncut = Inputs(Data("none"))
    monkeypatch.setattr(modes, "_seconds_per_image", lambda *_: (1.0, 1.0, 1.0))

    def refused(self):
        raise InputError("cannot be cut")

    monkeypatch.setattr(Inputs, "cut", property(refused))
    assert list(seconds_of_modes(config(), uncut)) == ["linear", "end-to-end"]
    monkeypatch.setattr(modes, "_seconds_per_image", None)
    _, heard = trained(config(weights=own_weights, epochs=1))
    assert "mode: linear (without a GPU)\n" in heard
