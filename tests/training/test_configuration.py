"""Modes, annotation models and options that are left open: what they stand for is recorded."""

import io
import json
from pathlib import Path

import pytest
import torch
from rich.console import Console
from safetensors.torch import save_file
from small_trainer import small_trainer

from g2netpl import RunConfig, train
from g2netpl.core.methods import METHODS
from g2netpl.core.models import BACKBONES, build_backbone
from g2netpl.training.configuration import (
    check_config,
    resolve_mode,
    resolved_configuration,
    weights_identity,
)
from g2netpl.utils.errors import InputError


@pytest.fixture
def config(small_training):
    def make(name="run", **changes):
        return RunConfig.read(small_training(name, **changes), "test")

    return make


@pytest.fixture
def own_weights(tmp_path):
    """`tiny` as somebody trained it before."""
    path = tmp_path / "tiny.safetensors"
    state = build_backbone("tiny", seed=5).module.state_dict()
    save_file({name: value.contiguous() for name, value in state.items()}, path)
    return str(path)


def printed(config, **more):
    console = io.StringIO()
    run = train(config, console=Console(file=console, width=300), **more)
    return run, console.getvalue()


def about(folder):
    return json.loads((Path(folder) / "run.json").read_text())


def values_of(tree):
    if isinstance(tree, dict):
        for value in tree.values():
            yield from values_of(value)
    else:
        yield tree


@pytest.mark.parametrize("annotation", ["sampled", "random"])
@pytest.mark.parametrize("method", [name for name in METHODS if name != "fixmatch"])
def test_nothing_is_left_open_for_any_method(method, annotation):
    trainer = small_trainer(method, annotation=annotation, learning_rate=None, epochs=None)
    found = list(values_of(resolved_configuration(trainer)))
    assert len(found) >= 8
    assert not [value for value in found if value in (None, "auto", "estimate")]


def test_what_is_resolved_is_printed_once_and_saved_with_the_run(config):
    run, shown = printed(config(method="g2netpl"))
    saved = about(run.folder)["resolved"]
    weight = saved["options"]["unobserved_weight"]
    assert shown.count(f"unobserved_weight {weight:.4g}") == 1
    assert shown.count("k:          2.30 expected positives per image (given)") == 1
    assert "annotation: random (the backbone starts with random weights)" in shown
    assert saved["mode"] == "full"
    assert saved["expected_positives"] == 2.3


def test_the_weights_of_the_backbone_are_identified(config, own_weights):
    found = weights_identity(config(weights=own_weights))
    assert found["source"] == "file"
    assert len(found["sha256"]) == 64
    assert (found["name"], found["image_size"]) == ("tiny", 32)
    assert weights_identity(config())["source"] == "random"
    lite = weights_identity(config(backbone="lite0"))
    assert (lite["source"], len(lite["sha256"])) == ("pretrained", 64)


@pytest.mark.parametrize("mode", ["partial", "lp-ft", "full"])
def test_tags_are_sampled_positives_unless_the_backbone_starts_at_random(config, own_weights, mode):
    keys = {"mode": mode, "backbone": "tiny", "epochs": 1, "linear_epochs": 1, "setting": "fspl"}
    _, pretrained = printed(config("pretrained", **keys, weights=own_weights))
    _, random = printed(config("random", **keys))
    assert "annotation: sampled (only positives are observed)" in pretrained
    assert "annotation: random (the backbone starts with random weights)" in random


@pytest.mark.parametrize(
    ("changes", "gpu", "mode", "why"),
    [
        ({"backbone": "lite0"}, False, "linear", "without a GPU"),
        ({"backbone": "lite0"}, True, "full", "on a GPU"),
        ({"backbone": "lite0", "device": "cpu"}, True, "linear", "without a GPU"),
        ({"backbone": "lite0", "pretrained": False}, False, "full", "lite0 starts with random"),
        ({"backbone": "tiny", "weights": "w"}, False, "linear", "without a GPU"),
        ({"backbone": "of-a-plugin"}, False, "full", "starts with random weights"),
        ({"backbone": "lite0", "method": "fixmatch"}, False, "full", "two augmentations"),
        ({"backbone": "lite0", "augment": "weak"}, False, "full", "no weak augmentations"),
        ({"backbone": "lite0", "train_from": "blocks.5"}, False, "partial", "from blocks.5 on"),
    ],
)
def test_the_mode_follows_from_backbone_device_and_method(
    config, monkeypatch, changes, gpu, mode, why
):
    monkeypatch.setitem(BACKBONES, "of-a-plugin", BACKBONES["tiny"])
    chosen = config(**{"device": "auto", **changes})
    with monkeypatch.context() as machine:
        machine.setattr(torch.accelerator, "is_available", lambda: gpu)
        found, reason = resolve_mode(chosen)
    assert found == mode
    assert why in reason
    if not gpu:
        assert check_config(chosen).mode == mode


def test_a_resumed_run_keeps_its_mode(config, own_weights, monkeypatch):
    def stop(_):
        raise RuntimeError("stopped")

    chosen = config(weights=own_weights, device="auto")
    with pytest.raises(RuntimeError, match="stopped"):
        train(chosen, on_epoch=stop)
    monkeypatch.setattr("g2netpl.training.configuration.on_cpu", lambda config: False)
    assert resolve_mode(chosen)[0] == "full"  # on a machine with a GPU
    run, _ = printed(chosen, resume=True)
    assert run.config.mode == "linear"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"precision": "fp16"}, "fp16 needs a GPU"),
        ({"optimizer": "adamm"}, "unknown optimizer 'adamm' .*did you mean 'adam'"),
        ({"method": "fixmatch", "mode": "linear"}, "compares two augmentations of images"),
        ({"method": "bce"}, "method bce needs full labels \\(setting full\\)"),
        ({"mode": "linear", "train_from": "9"}, "train_from: .* use --mode partial"),
        ({"method": "ups", "mode": "lp-ft"}, "trains the model from scratch in each round"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_what_does_not_fit_is_rejected_before_anything_is_written(
    config, tmp_path, changes, message
):
    with pytest.raises(InputError, match=message):
        train(config(**changes))
    assert not (tmp_path / "run").exists()
