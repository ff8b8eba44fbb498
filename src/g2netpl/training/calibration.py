"""After the last epoch: the sampled-positive head is calibrated by tags only.

Held-out images tell how sharp the softmax should be: the sharpness that makes their tags most
likely. The count is set so that k positives per image are expected. Images without a tag may show
no class at all: how likely an image shows any follows from which images have tags.

Where validation labels have positives and negatives missing at random, thresholds are calibrated
by them instead (`runs/thresholds`), and nothing is done here.
"""

from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from g2netpl.core.annotation import LEAST_SHOWN, SampledPositiveHead
from g2netpl.core.inference import compute_all
from g2netpl.images.loader import Source, Subset
from g2netpl.labels.missingness import informative_rows
from g2netpl.labels.table import POSITIVE, per_image
from g2netpl.training.presence_calibration import best_sharpness, learn_shown, matching_count
from g2netpl.training.trainer import Trainer
from g2netpl.utils.arrays import Scores

_MOST = 4000  # images, with and without a tag, that tell whether an image shows any class
_BUFFERS = ("head.sharpness", "head.log_count", "head.shown_weight", "head.shown_bias")


def calibrate(trainer: Trainer) -> None:
    """Calibrate the head of the best epoch, and with it the last one."""
    head, held = trainer.full_model.head, trainer.validation
    if not isinstance(head, SampledPositiveHead):
        return
    if held is not None:
        scores = trainer.predict(trainer.state.best_model, held.source)
        if len(informative_rows(held.truth, trainer.k, scores)):
            return
    trainer.load_model(trainer.state.best_model)
    chosen = float(head.sharpness)  # by held-out tags, if the head was solved
    head.calibrate(1.0, trainer.k)
    softmax, sigmoids = _both_parts(trainer, trainer.inputs.training(trainer.mode))
    sharpness = chosen if trainer.is_solved else 1.0
    if held is not None and not trainer.is_solved:
        sharpness = best_sharpness(_both_parts(trainer, held.source)[0], held.truth)
    shown = _learn_shown(trainer, head)
    head.calibrate(sharpness, matching_count(softmax, sharpness, trainer.k, sigmoids, shown))
    for state in (trainer.last_model, trainer.state.best_model):
        calibrated = trainer.model.state_dict()
        state.update({name: calibrated[name].cpu().clone() for name in _BUFFERS})


def _both_parts(trainer: Trainer, source: Source) -> tuple[Scores, Scores | None]:
    """Probabilities (N, L) by the softmax, and by the sigmoids if there are any."""
    model: Any = trainer.model

    def parts(images: Tensor, prior: Tensor | None) -> Tensor:
        both = [part for part in model.head.parts(model(images, prior)) if part is not None]
        return torch.stack(both, dim=1).float().sigmoid()

    found = compute_all(model, parts, source)
    return found[:, 0], found[:, 1] if found.shape[1] > 1 else None


def _learn_shown(trainer: Trainer, head: SampledPositiveHead) -> npt.NDArray[np.float64] | None:
    """Let the head know how likely an image shows any class, from which images have a tag.

    Returns it for every readable training image if k is of all images; else None.
    """
    config, visible = trainer.config, trainer.data.visible.values
    has_tag, is_unknown = per_image(visible, POSITIVE) > 0, per_image(visible) == 0
    if not is_unknown.any():
        return None
    is_of_all = config.expected_positives != "estimate"  # else of those with a tag
    rows = np.arange(len(has_tag))
    if not is_of_all and len(rows) > _MOST:
        rows = np.random.default_rng(config.seed).permutation(rows)[:_MOST]
    source = Subset(trainer.inputs.training(trainer.mode), rows)
    features = compute_all(trainer.model, lambda images, _: trainer.model.backbone(images), source)
    readable = np.isfinite(features).all(axis=1)
    asked = np.flatnonzero(readable & (has_tag | is_unknown)[rows])[:_MOST]
    found = learn_shown(features[asked], has_tag[rows[asked]])
    if found is None:
        return None
    weights, bias = found
    head.set_shown(torch.from_numpy(weights), bias)
    shown = np.clip(features[readable] @ weights + bias, LEAST_SHOWN, 1.0)
    return shown if is_of_all else None
