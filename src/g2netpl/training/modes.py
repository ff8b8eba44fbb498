"""Which mode a training has where none is asked for, and how long each would take here."""

import time
from collections.abc import Callable
from copy import deepcopy

import torch

from g2netpl.base.errors import InputError
from g2netpl.base.progress import about
from g2netpl.game.methods import find_method, needs_of
from g2netpl.game.network.network import starts_trained
from g2netpl.images.pixels import squashed
from g2netpl.runs.config import USUAL_EPOCHS, PhaseMode, RunConfig
from g2netpl.training.devices import on_cpu
from g2netpl.training.inputs import ImageInputs

_TRIED = 4  # images


def usual_mode(config: RunConfig) -> tuple[PhaseMode, str]:
    """The mode of a training that was asked for none, and why."""
    if config.train_from is not None:
        return "top", f"blocks from {config.train_from} on"
    if not starts_trained(config.backbone, config.pretrained, config.weights):
        return "end-to-end", f"the backbone {config.backbone} starts at random"
    learns: PhaseMode = "top" if on_cpu(config) and config.view != "weak" else "end-to-end"
    if find_method(config.method).two_views:
        return learns, f"{config.method} compares views of images"
    if config.view not in ("plain", "paper"):
        return learns, f"a frozen backbone has no {config.view} views"
    if on_cpu(config):
        return "linear", "without a GPU"
    return "end-to-end", "on a GPU"


def told_mode(config: RunConfig, inputs: ImageInputs) -> str:
    """The mode that was chosen, why, and what the others would take, in one line."""
    mode, why = usual_mode(config)
    times = seconds_of_modes(config, inputs) if mode == "linear" else {}
    if not times:
        return f"mode: {mode} ({why})"
    own = about(times.pop(mode))
    others = (f"{about(seconds)} with --mode {other}" for other, seconds in times.items())
    return f"mode: {mode} ({why}, {own}); it would take {', '.join(others)}"


def seconds_of_modes(config: RunConfig, inputs: ImageInputs) -> dict[PhaseMode, float]:
    """How long a training of each mode takes, from a few images; empty where that cannot be told.

    Frozen blocks are timed by PyTorch; onnxruntime takes less.
    """
    try:
        load, look, step = _seconds_per_image(config, inputs)
    except Exception:  # the training itself will tell what is wrong
        return {}
    data = inputs.data
    every, trained = len(data.all_paths), len(data.training)
    held = 0 if data.validation is None else len(data.validation)
    epochs = (config.epochs or USUAL_EPOCHS) * needs_of(config.method, config.options).rounds
    play = epochs * (trained * step + held * look)
    found: dict[PhaseMode, float] = {"linear": every * (load + look)}
    try:
        share = inputs.cut.share
        found["top"] = (every + trained) * (load + (1 - share) * look) + share * play
    except InputError:
        pass  # a backbone that cannot be cut
    return {**found, "end-to-end": every * (load + look) + play}


def _seconds_per_image(config: RunConfig, inputs: ImageInputs) -> tuple[float, float, float]:
    """To load an image, to look at it, and to learn from it; on a copy that is thrown away."""
    module, size = deepcopy(inputs.backbone.module), config.image_size
    paths = inputs.data.paths[:_TRIED]
    device = next(module.parameters()).device
    images = torch.zeros(_TRIED, 3, size, size, device=device)
    images = images.to(memory_format=torch.channels_last)
    load = _seconds(lambda: [squashed(path, size) for path in paths])
    with torch.random.fork_rng(devices=[]):
        with torch.inference_mode():
            module.eval()(images)  # the first time takes longer
            look = _seconds(lambda: module(images))
        step = _seconds(lambda: module.train()(images).sum().backward())
    return load / len(paths) / max(config.workers, 1), look / _TRIED, step / _TRIED


def _seconds(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began
