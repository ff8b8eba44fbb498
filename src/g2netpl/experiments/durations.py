"""How long the trainings of a reproduction take on this machine: a guess from a short trial."""

import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import torch

from g2netpl.experiments.cells import train_cell
from g2netpl.experiments.data import load_array_data
from g2netpl.experiments.reproduction import Plan, Training
from g2netpl.game.batches import training_batches
from g2netpl.game.loop import play_epoch
from g2netpl.game.methods import find_method, make_player, needs_of
from g2netpl.game.network.network import build_backbone, build_network
from g2netpl.game.network.optimizers import make_optimizer
from g2netpl.game.observed import ObservedLabels
from g2netpl.game.player import Setup
from g2netpl.images.loader import ImageSource
from g2netpl.labels.entries import Entries
from g2netpl.runs.config import RunConfig
from g2netpl.training.data import read_training_data


def about(seconds: float) -> str:
    """A duration for people: `about 20 minutes`, `about 3.5 hours`."""
    minutes = seconds / 60
    if minutes < 1.5:
        return "less than a minute" if minutes < 1 else "about a minute"
    return f"about {minutes:.0f} minutes" if minutes < 90 else f"about {minutes / 60:,.1f} hours"


def estimate_seconds(plan: Plan, jobs: int) -> float:
    """For all trainings of the plan."""
    trainings = plan.trainings()
    if not trainings:
        return 0.0
    if plan.dataset.kind != "images":
        comparison = replace(trainings[0].comparison, epochs=1, keep_labels=False)
        first = replace(trainings[0].cell, learning_rate=1e-3)  # one that cannot diverge
        cell = replace(first, method="g2netpl", setting="sspl:0.5", weight="")
        outcome = train_cell(load_array_data(comparison.features), comparison, cell)
        epoch = float(outcome.history[0]["seconds"])
        once = float(outcome.row["seconds"]) - epoch
        passes = sum(_passes(training) for training in trainings)
        return (passes * epoch + len(trainings) * once) / max(jobs, 1)
    name = next(name for name in plan.recipes if plan.comparisons(name))
    config = trainings[0].comparison.config_of(trainings[0].cell, plan.photos(name).base)
    data = read_training_data(config.model_copy(update={"setting": "own"}))
    some = data.paths[: max(96, 4 * config.batch_size)]
    rate = images_per_second(config, some, len(data.table.classes))
    images = len(data.table) + (0 if data.test is None else len(data.test.table) / 10)
    passes = sum(_passes(each) for each in trainings if each.mode != "linear")
    if any(each.mode != "end-to-end" for each in trainings):
        passes += 1  # the features of the frozen backbone, once for all
    return images / rate * passes


_FORWARD = 1 / 3  # of a pass; the way back is about two forwards


def _passes(training: Training) -> float:
    """What a cell costs, in passes over the images, forward and back."""
    name, changes = training.comparison.options_of_cell(training.cell)
    needs, two_views = needs_of(name, changes), find_method(name).two_views
    asked: tuple[bool, ...] = (  # forwards besides that of the step
        two_views,  # the weak view, which teaches
        needs.prediction == "fresh",
    )
    epoch = (2 if two_views else 1) + sum(asked) * _FORWARD
    rounds, between = needs.rounds, needs.passes
    if training.comparison.features is None:  # dropout is behind the backbone, which looks once
        between = min(between, 1)
    return training.comparison.epochs * rounds * epoch + (rounds - 1) * between * _FORWARD


def images_per_second(config: RunConfig, paths: list[str], classes: int) -> float:
    """The speed of training end to end, from a few batches, after one to warm up."""
    backbone = build_backbone(config.backbone, pretrained=False, image_size=config.image_size)
    network = build_network(backbone, classes, hidden=config.hidden)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    network.to(device)
    observed = ObservedLabels.of(Entries.nothing(len(paths), classes), device)
    player = make_player("g2netpl", {}, Setup(observed, 1.0, 1e-4, deep=True))
    source = ImageSource(
        paths, config.image_size, backbone.mean, backbone.std, max_bad=len(paths), workers=0
    )
    optimizer = make_optimizer("Adam", network.parameters(), 1e-4)
    batches: Iterator[Any] = training_batches(source, observed, config.batch_size, 0, 0)
    play_epoch(network, player, [next(batches)], optimizer, 0.0, 1.0)
    seen, began = 0, time.perf_counter()
    for batch in batches:
        play_epoch(network, player, [batch], optimizer, 0.0, 1.0)
        seen += len(batch)
        if time.perf_counter() - began > 10.0:
            break
    return max(seen, 1) / (time.perf_counter() - began)
