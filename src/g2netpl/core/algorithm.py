"""Algorithm 1 of the paper (G²NetPL, BMVC 2022): one epoch of training, the same for every method.

The model minimises `head.loss + method.loss` by gradient descent. A method's loss says what the
model learns from observed labels and from pseudo-labels; its `update` moves the pseudo-labels
towards the model's predictions. A method without pseudo-labels has no `update`.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from torch import Tensor

POSITIVE, NEGATIVE, UNOBSERVED = 1, 0, -1


@dataclass(frozen=True)
class Batch:
    """Some training images and their observed labels. It never holds the hidden truth."""

    rows: Tensor  # (B,) int64: positions of the images among the training images
    observed: Tensor  # (B, L) int8: 1 positive, 0 negative, -1 unobserved
    images: Tensor | None = None  # (B, …) images or features; (B, 2, …) two augmentations

    def __len__(self) -> int:
        return len(self.rows)


def train_epoch(
    model: Any,  # a `models.Model`
    method: Any,  # a `methods.Method`
    batches: Iterable[Batch],
    step: Callable[[Tensor], bool],
    phi: float,
) -> None:
    """Train for one epoch; φ is the fraction of all epochs that is finished.

    `step` makes one optimizer step on the loss and returns False if the loss was not finite.
    """
    method.start_epoch(phi)
    for batch in batches:
        output = method(model, batch)  # forward pass
        loss = model.head.loss(output, batch.observed)  # how labels came to be observed
        loss = loss + method.loss(output, batch, phi)  # lines 2 and 3: L_obs + L_unobs + R
        if step(loss):
            predicted = method.predict(model, batch, output)  # line 4: predictions ŷ
            method.update(batch, predicted, phi)  # lines 5 and 6: pseudo-labels û
