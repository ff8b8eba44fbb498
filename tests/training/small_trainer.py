"""A Trainer on 60 feature vectors of 4 classes, with 20 more for validation."""

import numpy as np
import torch

from g2netpl.core.models import Backbone
from g2netpl.labels.table import LabelTable
from g2netpl.runs.train_config import TrainConfig
from g2netpl.training.datamodule import TensorDataModule
from g2netpl.training.expected_positives import Expected
from g2netpl.training.splits import TrainingData
from g2netpl.training.trainer import Callback, Trainer

RANDOM = np.random.default_rng(0)
INPUTS = torch.from_numpy(RANDOM.normal(size=(80, 6)).astype(np.float32))
TRUTH = (INPUTS.numpy()[:, :4] + 0.3 * RANDOM.normal(size=(80, 4)) > 0.4).astype(np.int8)
VISIBLE = np.where(RANDOM.random((80, 4)) < 0.3, np.where(TRUTH == 1, 1, -1), -1).astype(np.int8)
TRAIN, HELD_OUT = np.arange(60), np.arange(60, 80)


def table(values):
    images = tuple(f"{row}.jpg" for row in range(len(values)))
    return LabelTable(images, ("a", "b", "c", "d"), np.asarray(values, dtype=np.int8))


def small_data(truth=TRUTH[60:], visible=VISIBLE[:60]):
    return TrainingData(
        table(TRUTH), TRAIN, table(visible), HELD_OUT, None if truth is None else table(truth)
    )


def small_trainer(
    method="g2netpl",
    options=None,
    *,
    inputs=INPUTS,
    backbone=None,
    data=None,
    callbacks=(),
    **changes,
):
    """The usual one, with some keys of its configuration changed."""
    keys = {"epochs": 6, "batch_size": 16, "learning_rate": 0.02, "annotation": "random"}
    keys["mode"] = "linear" if backbone is None else "full"
    config = TrainConfig(method=method, options=options or {}, device="cpu", **{**keys, **changes})
    data = data or small_data()
    module = TensorDataModule(
        data, inputs, backbone=None if backbone is None else Backbone(backbone, 6)
    )
    return Trainer(
        config,
        data,
        module,
        k=Expected(1.4, "given"),
        callbacks=callbacks,
    )


class OnEpoch(Callback):
    def __init__(self, call):
        self.call = call

    def on_epoch_end(self, trainer):
        self.call(trainer)


class OnStep(Callback):
    def __init__(self, call):
        self.call = call

    def on_step_end(self, trainer, images):
        self.call(trainer)


def timeless(history):
    times = ("seconds", "images_per_second")
    return [{key: value for key, value in each.items() if key not in times} for each in history]


def assert_same(one, two):
    """Two trainers ended with bitwise the same weights, pseudo-labels and history."""
    assert timeless(one.state.history) == timeless(two.state.history)
    assert one.state.best_epoch == two.state.best_epoch
    for state, other in (
        (one.last_model, two.last_model),
        (one.state.best_model, two.state.best_model),
        (one.method.state_dict(), two.method.state_dict()),
    ):
        assert state.keys() == other.keys()
        for name, value in state.items():
            if isinstance(value, torch.Tensor):
                assert torch.equal(value, other[name]), name
