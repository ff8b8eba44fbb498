"""What a model computes for every image of a source, in its order and without augmentation.

Several ranks share the images, and each of them gets the whole table.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from g2netpl.core.algorithm import Batch
from g2netpl.core.models import evaluating
from g2netpl.images.features import OnBatch, compute_rows
from g2netpl.images.loader import Rows, Source, plain_groups
from g2netpl.utils.arrays import Scores


@contextmanager
def one_thread() -> Iterator[None]:
    """Tensors of a head are small: more threads would only wait for each other."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


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
    device = next(model.parameters(), torch.empty(0)).device

    def compute(rows: Rows, images: Tensor) -> Tensor:
        return function(images, source.prior_of(rows, device))

    with evaluating(model):
        return compute_rows(compute, source, device, batch_size, on_batch)


def readable_batch(source: Source, rows: Rows, images: Tensor, observed: Tensor) -> Batch:
    """A batch of a source without the images that cannot be read, which are NaN."""
    unreadable = images.flatten(1)[:, 0].isnan()
    if unreadable.any():
        rows, images = rows[~unreadable.cpu().numpy()], images[~unreadable]
    index = torch.from_numpy(rows).to(observed.device)
    prior = source.prior_of(rows, images.device)
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
            features, prior = model.backbone(images), source.prior_of(rows, device)
            predictions = [head.predict(head(features, prior)).sigmoid() for _ in range(passes)]
            stacked = torch.stack(predictions)
            yield torch.from_numpy(rows).to(device), stacked.mean(dim=0), stacked.std(dim=0)
