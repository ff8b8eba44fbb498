"""One training on labels in memory, of feature vectors or of image files; nothing is written.

It is the training of `g2netpl train` and `compare` without their folders: the estimator's.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from torch import nn

from g2netpl.base.arrays import Scores
from g2netpl.base.console import Console
from g2netpl.game.methods import dropout_of, make_player
from g2netpl.game.network.network import Backbone, Network, build_network
from g2netpl.game.network.optimizers import make_optimizer
from g2netpl.game.network.predicting import predict_all
from g2netpl.game.observed import ObservedLabels
from g2netpl.game.player import Setup
from g2netpl.images.features import Features
from g2netpl.images.loader import ArraySource, Part, Source
from g2netpl.labels.settings import IndexArray, Setting
from g2netpl.labels.table import UNOBSERVED, LabelMatrix, LabelTable
from g2netpl.runs import thresholds as decisions
from g2netpl.runs.config import RunConfig
from g2netpl.runs.thresholds import Decisions
from g2netpl.training import expected_positives as expected
from g2netpl.training.checks import FULL, VIEWS, check_method
from g2netpl.training.data import TrainingData, check_learnable, split_and_observe
from g2netpl.training.epochs import Schedule, Validation, fit
from g2netpl.training.inputs import ImageInputs, backbone_of
from g2netpl.training.progress import epoch_bar
from g2netpl.training.snapshots import Snapshot, load_network
from g2netpl.training.steps import Loop


@dataclass(frozen=True)
class Lesson:
    """Images, what is known about them, and a network at its start."""

    config: RunConfig
    table: LabelTable
    training: IndexArray
    visible: LabelMatrix  # labels of the training images, as far as they may be known
    held_out: IndexArray  # to choose the epoch by; may be empty
    source: Source  # all images, as the learner sees them
    network: Network
    learner: Network  # the part of the network that learns
    features_of: Callable[[IndexArray], Features]  # vectors of some of the training images
    image_view: tuple[int, tuple[float, ...], tuple[float, ...]] | None = None  # size, mean, std


@dataclass(frozen=True)
class Taught:
    """What a training gives, beside the network, which now has the weights of the best epoch."""

    snapshot: Snapshot
    decisions: Decisions
    expected_positives: float
    completed: Scores  # (N, L): observed labels, soft labels, predictions


def on_features(config: RunConfig, values: Features, table: LabelTable) -> Lesson:
    """A lesson on feature vectors (N, D)."""
    config = config.model_copy(update={"mode": "linear"})
    _check(config, table, images=False)
    training, visible, held_out = _parts(config, table)
    network = _network(config, Backbone(nn.Identity(), values.shape[1]), table)
    source = ArraySource(torch.from_numpy(values))
    return Lesson(
        *(config, table, training, visible.values, held_out, source, network, network),
        lambda rows: values[training[rows]],
    )


def on_images(config: RunConfig, paths: list[str], table: LabelTable, console: Console) -> Lesson:
    """A lesson on image files; with mode linear on what the frozen backbone makes of them."""
    _check(config, table, images=True)
    training, visible, held_out = _parts(config, table)
    backbone = backbone_of(config)
    backbone.module.to(device_of(config.device))
    validation = table.take(held_out) if len(held_out) else None
    data = TrainingData(table, training, visible, held_out, validation, paths=paths)
    sources = ImageInputs(config, data, backbone, console)
    sources.prepare()
    network = _network(config, backbone, table)
    linear = config.mode == "linear"
    return Lesson(
        *(config, table, training, visible.values, held_out, sources.all(linear), network),
        network.head() if linear else network,
        partial(sources.some_features, linear=linear),
        (config.image_size, backbone.mean, backbone.std),
    )


def teach(lesson: Lesson, console: Console) -> Taught:
    """Play all epochs, and settle the thresholds."""
    config, learner, visible = lesson.config, lesson.learner, lesson.visible
    source = Part(lesson.source, lesson.training)
    truth = lesson.table.values[lesson.held_out] if len(lesson.held_out) else None
    k: float | str = config.expected_positives
    if not isinstance(k, float):
        k, _ = expected.estimate(visible, truth, lesson.features_of, config.seed)
    rate, device = config.rate(config.mode), device_of(config.device)
    lesson.network.to(device)
    observed = ObservedLabels.of(np.array(visible), torch.device(device))
    setup = Setup(observed, k, rate, config.seed, config.epochs, deep=learner.is_deep)
    player = make_player(config.method, config.options, setup)
    with epoch_bar(console, config.epochs * player.rounds, len(source)) as bar:
        snapshot = fit(
            learner,
            player,
            source,
            observed,
            k,
            make_optimizer(config.optimizer, learner.parameters(), rate),
            Schedule(config.epochs, config.batch_size, config.seed, patience=config.patience),
            None if truth is None else Validation(Part(lesson.source, lesson.held_out), truth),
            loop=Loop(on_epoch=lambda now: bar.epoch(now.history[-1]), on_batch=bar.advance),
        )
    load_network(learner, snapshot.best_network)
    lesson.network.eval()
    predicted = predict_all(learner, lesson.source)
    chosen = decisions.choose(
        config.thresholds,
        None if truth is None else (predicted[lesson.held_out], truth),
        predicted[lesson.training],
        k,
    )
    return Taught(snapshot, chosen, k, _completed(lesson, predicted, player.soft_labels()))


def device_of(name: str) -> str:
    """A GPU if there is one and it is wanted."""
    return "cuda" if name == "auto" and torch.cuda.is_available() else "cpu"


def _completed(lesson: Lesson, predicted: Scores, soft: torch.Tensor | None) -> Scores:
    """Every label: observed as observed, soft labels where there are, else the prediction."""
    completed, known = predicted.copy(), lesson.table.values.copy()
    known[lesson.training] = lesson.visible
    if soft is not None:
        readable = ~np.isnan(predicted[lesson.training]).any(axis=1)
        completed[lesson.training[readable]] = soft.float().cpu().numpy()[readable]
    return np.where(known == UNOBSERVED, completed, known).astype(np.float32)


def _network(config: RunConfig, backbone: Backbone, table: LabelTable) -> Network:
    return build_network(
        backbone,
        len(table.classes),
        hidden=config.hidden,
        dropout=dropout_of(config.method, config.options),
        seed=config.seed,
    )


def _parts(config: RunConfig, table: LabelTable) -> tuple[IndexArray, LabelTable, IndexArray]:
    """Training images, what may be known about them, and images held out to choose the epoch by.

    None are held out where they have no negatives to rank by.
    """
    split = split_and_observe(table, Setting.parse(config.setting), config.validation, config.seed)
    return split.training, split.visible, split.held_out


def _check(config: RunConfig, table: LabelTable, images: bool) -> None:
    expected.check(config.expected_positives, table.held)
    check_method(
        *(config.method, config.options),
        full=table.is_complete,
        mode=config.mode,
        images=images,
        ways_out={
            FULL: "some are unobserved",
            VIEWS: "give image paths and mode='end-to-end'",
        },
    )
    check_learnable(table, "y")
