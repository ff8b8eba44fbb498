"""What a model computes for every image of a source, in its order and without augmentation.

Several ranks share the images, and each of them gets the whole table.
"""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from g2netpl.core.algorithm import Batch
from g2netpl.core.models import evaluating
from g2netpl.images.loader import Part, Rows, Source, plain_groups, prior_of
from g2netpl.utils import distributed
from g2netpl.utils.arrays import Scores

OnBatch = Callable[[int], None] | None  # receives the number of images of a batch


def predict_all(
    model: Any, source: Source, batch_size: int | None = None, on_batch: OnBatch = None
) -> Scores:
    """Probabilities (N, L); NaN for images that cannot be read."""

    def predict(images: Tensor, prior: Tensor | None) -> Tensor:
        return model.predict(images, prior).float().sigmoid()  # type: ignore[no-any-return]

    return compute_all(model, predict, source, batch_size, on_batch)


def compute_all(
    model: nn.Module,
    function: Callable[[Tensor, Tensor | None], Tensor],
    source: Source,
    batch_size: int | None = None,
    on_batch: OnBatch = None,
) -> Scores:
    """A function of images and given prior, (N, …), with the model in evaluation mode."""
    own = source
    if distributed.size() > 1:
        own = Part(source, distributed.own_rows(len(source)))
    device = next(model.parameters(), torch.empty(0)).device
    groups = plain_groups(len(own), batch_size or source.evaluation_batch)
    table, done = np.zeros((0, 0), np.float32), 0
    with evaluating(model), torch.inference_mode():
        for rows, images in zip(groups, own.load(groups, None, device), strict=True):
            values = function(images, _prior(own, rows, device)).float().cpu().numpy()
            if not done:
                table = np.empty((len(own), *values.shape[1:]), np.float32)
            table[done : done + len(values)] = values
            done += len(values)
            if on_batch is not None:
                on_batch(len(values) * distributed.size())
    return distributed.gather_rows(table, len(source))


def readable_batch(source: Source, rows: Rows, images: Tensor, observed: Tensor) -> Batch:
    """A batch of a source without the images that cannot be read, which are NaN."""
    unreadable = images.flatten(1)[:, 0].isnan()
    if unreadable.any():
        rows, images = rows[~unreadable.cpu().numpy()], images[~unreadable]
    index = torch.from_numpy(rows).to(observed.device)
    prior = _prior(source, rows, images.device)
    return Batch(index, observed.index_select(0, index), images, prior)


def mc_dropout(model: Any, source: Source, passes: int) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
    """Rows, mean and standard deviation (B, L) of several predictions with dropout.

    Dropout is part of the head, so the backbone computes the features of every image once.
    """
    device, head = next(model.parameters()).device, model.head
    groups = plain_groups(len(source), source.evaluation_batch)
    with evaluating(model), torch.no_grad():
        head.train()
        for rows, images in zip(groups, source.load(groups, None, device), strict=True):
            features, prior = model.backbone(images), _prior(source, rows, device)
            predictions = [head.predict(head(features, prior)).sigmoid() for _ in range(passes)]
            stacked = torch.stack(predictions)
            yield torch.from_numpy(rows).to(device), stacked.mean(dim=0), stacked.std(dim=0)


def _prior(source: Source, rows: Rows, device: torch.device) -> Tensor | None:
    prior = prior_of(source, rows)
    return None if prior is None else prior.to(device)
