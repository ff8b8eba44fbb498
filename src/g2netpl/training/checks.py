"""What is rejected before any data are read: method, mode and options that do not fit."""

import os
from collections.abc import Mapping
from importlib.util import find_spec
from typing import Any

import torch
from torch import nn

from g2netpl.core.methods import find_method
from g2netpl.core.models import build_optimizer
from g2netpl.labels.files import of_each
from g2netpl.labels.settings import Setting
from g2netpl.runs.config import PATHS, RunConfig, is_path
from g2netpl.runs.train_config import AskedMode, TrainConfig
from g2netpl.training.resolved import on_cpu, resolve_mode
from g2netpl.utils.errors import InputError

FULL = "needs full labels"
VIEWS = "compares two augmentations of images"
ROUNDS = "trains the model from scratch in each round"
WAYS_OUT = {
    FULL: "use it with --setting full",
    VIEWS: "use it with --labels and --mode partial or full",
    ROUNDS: "use --mode linear or full",
}


def obstacle(
    name: str, changes: Mapping[str, Any], *, full: bool, mode: AskedMode, images: bool = True
) -> str | None:
    """Why a method cannot be trained on such labels in such a mode; None if it can."""
    entry = find_method(name)
    if entry.full_labels and not full:
        return FULL
    if entry.method.augmentations == 2 and (mode == "linear" or not images):
        return VIEWS
    if mode == "lp-ft" and getattr(entry.options(changes), "rounds", 1) > 1:
        return ROUNDS
    return None


def check_method(
    name: str,
    changes: Mapping[str, Any],
    *,
    full: bool,
    mode: AskedMode,
    images: bool = True,
    ways_out: Mapping[str, str] = WAYS_OUT,
) -> None:
    """Refuse a method that cannot be trained like this, and say what to do."""
    why = obstacle(name, changes, full=full, mode=mode, images=images)
    if why is not None:
        raise InputError(f"method {name} {why}: {ways_out[why]}")


def check_view(config: TrainConfig, needed: str = "mode partial or full") -> None:
    """Refuse two views where the network does not look at images."""
    if config.augment == "pair" and config.phases[-1] == "linear":
        raise InputError(
            f"augment pair: a frozen backbone sees each image once; two augmentations need {needed}"
        )


def check_single_label(config: TrainConfig) -> None:
    """Refuse what contradicts one class per image."""
    if not config.single_label:
        return
    if config.expected_positives not in ("estimate", "truth", 1.0):
        raise InputError(
            f"expected_positives: {config.expected_positives:g}, but with --single-label it is "
            "1: leave one of them out"
        )
    if config.thresholds.startswith("precision"):
        raise InputError(
            f"thresholds {config.thresholds}: with --single-label every image gets its most "
            "probable class; leave it out, and use g2netpl complete --confidence P or "
            "predict --threshold P"
        )


def check_config(config: RunConfig) -> RunConfig:
    """The configuration, its mode decided and its options read, or a line on what does not fit."""
    if config.mode == "auto":
        config = config.model_copy(update={"mode": resolve_mode(config)[0]})
    full = Setting.parse(config.setting).kind == "full"
    ways_out = {**WAYS_OUT, VIEWS: "use --mode partial or full"}
    check_method(config.method, config.options, full=full, mode=config.mode, ways_out=ways_out)
    check_view(config)
    check_single_label(config)
    last = config.phases[-1]
    if config.train_from is not None and last != "partial":
        raise InputError(
            f"train_from: there is no such block in mode {config.mode}: use --mode partial"
        )
    if last == "partial" and config.augment == "weak":
        raise InputError(
            "augment weak: activations of shifted images are not cached; use another augmentation, "
            "or --mode full"
        )
    if config.precision == "fp16" and on_cpu(config):
        raise InputError("precision: fp16 needs a GPU, and there is none; use bf16 or float32")
    for name in config.log_with:
        kind = name.partition(":")[0]
        if find_spec(kind) is None:
            raise InputError(
                f"--log-with {kind}: the package {kind} is not installed; "
                "install it, or all with pip install 'g2netpl[trackers]'"
            )
    build_optimizer(config.optimizer, [{"params": [nn.Parameter(torch.zeros(1))]}], config.lr(last))
    options = find_method(config.method).options(config.options)
    changes: dict[str, Any] = {"options": {name: getattr(options, name) for name in config.options}}
    for name in PATHS:  # a run can be resumed from any folder
        value = getattr(config, name)
        if value is not None and is_path(name, value):
            changes[name] = of_each(value, os.path.abspath)
    return config.model_copy(update=changes)
