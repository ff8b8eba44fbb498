"""Algorithm 1 of the paper (G²NetPL, BMVC 2022): one epoch of training, the same for every method.

The model takes a step that lowers `method.loss`, then the method moves its pseudo-labels towards
the model's predictions (a method without pseudo-labels has no `update`). `methods/g2netpl.py` is
the paper's method. The pseudo-label is û here, y its latent; the paper writes ŷ_u and y_u. The
method's constructor sets û = ½ for unobserved labels (`Require`); the trainer calls `train_epoch`
once per epoch (lines 1 and 7, `Repeat` and `until`), and each batch takes lines 2 to 6 in turn.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from torch import Tensor

POSITIVE = 1
NEGATIVE = 0
UNOBSERVED = -1


@dataclass(frozen=True)
class Batch:
    """Some training images and their observed labels. It never holds the hidden truth."""

    rows: Tensor  # (B,) int64: positions of the images among the training images
    observed: Tensor  # (B, L) int8: 1 positive, 0 negative, -1 unobserved
    images: Tensor | None = None  # (B, …) images or features; (B, 2, C, H, W) two augmentations
    prior: Tensor | None = None  # (B, L) q of `prior`, if it is not computed from the images

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def is_pair(self) -> bool:
        """Whether every image comes in a weak and a strong augmentation."""
        return self.images is not None and self.images.ndim == 5

    @property
    def weak(self) -> Tensor | None:
        """The weak augmentation if there are two, else the images."""
        return self.images[:, 0] if self.images is not None and self.is_pair else self.images

    @property
    def strong(self) -> Tensor | None:
        """The strong augmentation if there are two, else the images."""
        return self.images[:, 1] if self.images is not None and self.is_pair else self.images


def train_epoch(
    model: Any,  # a `models.Model`
    method: Any,  # a `methods.Method`
    batches: Iterable[Batch],
    step: Callable[[Tensor], bool | None],
    phi: float,
    resumed: bool = False,
) -> None:
    """Algorithm 1. `step` makes one optimizer step, or returns False: the loss is not finite.

    The model is a `Model(backbone, head)`, the method comes from `build_method`. φ is the fraction
    of all epochs that is finished. `resumed`: these are what is left of an interrupted epoch.
    """
    if not resumed:
        method.start_epoch(phi)
    for batch in batches:  # line 1: repeat, here for a batch of images and their observed labels
        output = method(model, batch)  # forward pass; of two augmentations if the method needs them
        loss = method.loss(output, batch, phi)  # line 2: ξ(û, φ); L_obs + Σ ξ · CE(û, ŷ)
        tag_loss = model.head.loss(output, batch.observed, method.negative_weight)  # ours; paper: 0
        if step(tag_loss + loss) is False:  # line 3: one optimizer step on θ
            continue
        predicted = method.predict(model, batch, output)  # line 4: ŷ of this step's forward pass
        method.update(batch, predicted, phi)  # lines 5 and 6: y descends, so û = F(y) moves
