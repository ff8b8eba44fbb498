"""Sessions on features or image paths with a table of labels; nothing is written."""

from dataclasses import replace

import torch

from g2netpl.base.console import Console
from g2netpl.images.features import Features
from g2netpl.labels.table import LabelTable
from g2netpl.runs.config import RunConfig
from g2netpl.training.checks import FULL, VIEWS, check_method
from g2netpl.training.data import observe_data
from g2netpl.training.devices import device_of
from g2netpl.training.inputs import ArrayInputs, ImageInputs, backbone_of
from g2netpl.training.session import Session

_WAYS_OUT = {FULL: "some are unobserved", VIEWS: "give image paths and mode='end-to-end'"}


def on_features(config: RunConfig, features: Features, table: LabelTable) -> Session:
    """A training on feature vectors (N, D)."""
    config = config.model_copy(update={"mode": "linear"})
    _check(config, table, images=False)
    data = observe_data(config, table)
    return Session(config, data, ArrayInputs(data, torch.from_numpy(features)))


def on_images(config: RunConfig, paths: list[str], table: LabelTable, console: Console) -> Session:
    """A training on image files; with mode linear on what the frozen backbone makes of them."""
    _check(config, table, images=True)
    data = replace(observe_data(config, table), paths=paths)
    backbone = backbone_of(config)
    backbone.module.to(device_of(config.device))
    inputs = ImageInputs(config, data, backbone, console)
    inputs.prepare()
    return Session(config, data, inputs)


def _check(config: RunConfig, table: LabelTable, images: bool) -> None:
    given, full = (config.method, config.options), table.is_complete
    check_method(*given, full=full, mode=config.mode, images=images, ways_out=_WAYS_OUT)
