"""The mode of a training that was asked for none: which, and why."""

import io
import json
from pathlib import Path

import pytest
import torch
from rich.console import Console
from safetensors.torch import load_file, save_file

from g2netpl import RunConfig, train
from g2netpl.game.network.network import BACKBONES, build_backbone
from g2netpl.training import devices, modes
from g2netpl.training.checks import check_config
from g2netpl.training.modes import usual_mode


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
    assert heard.count("mode: linear (without a GPU)\n") == 1
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
