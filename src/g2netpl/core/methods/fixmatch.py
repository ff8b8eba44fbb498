"""FixMatch for several labels per image; our form, since the paper compares with it but gives none.

Every image comes in two augmentations. Where the prediction of the weak one is confident (p ≥ τ or
p ≤ 1 − τ), the strong one learns that label. The weak augmentation of labelled images learns the
observed labels, with unobserved ones negative (as in AN).
"""

from pydantic import Field
from torch import Tensor

from g2netpl.core.algorithm import POSITIVE, UNOBSERVED, Batch
from g2netpl.core.annotation import Output
from g2netpl.core.losses import soft_bce
from g2netpl.core.methods.base import Method, MethodOptions, register
from g2netpl.core.models import Model


@register(
    "fixmatch",
    "confident predictions of a weak augmentation train the strong one (multi-label adaptation)",
    "Sohn et al., NeurIPS 2020",
    grid=("threshold", (0.8, 0.9, 0.95)),
)
class FixMatch(Method):
    """The weak augmentation trains the strong one."""

    class Options(MethodOptions):
        threshold: float = Field(default=0.95, gt=0.5, lt=1, description="τ: confident from there")
        weight: float = Field(default=1.0, ge=0, description="weight of the strong augmentation")

    augmentations = 2
    _strong: tuple[Tensor, Tensor] | None = None  # logits, and predictions of the weak augmentation

    def forward(self, model: Model, batch: Batch) -> Output:
        """Both augmentations in one forward pass; the output is that of the weak one."""
        if batch.images is None or not batch.is_pair:
            self._strong = None  # one augmentation only: diagnostics
            return super().forward(model, batch)
        predicted = self.predict_again(model, batch)
        prior = None if batch.prior is None else batch.prior.repeat(2, 1)
        both: Output = model(batch.images.transpose(0, 1).flatten(0, 1), prior)
        self._strong = both.logits[len(batch) :], predicted
        return both.first(len(batch))

    def loss(self, output: Output, batch: Batch, phi: float) -> Tensor:
        is_labelled = (batch.observed != UNOBSERVED).any(dim=1, keepdim=True)
        weights = is_labelled.float().expand_as(output.logits)
        loss = soft_bce(output.logits, (batch.observed == POSITIVE).float(), weights)
        if self._strong is None:
            return loss
        logits, predicted = self._strong
        positive = predicted >= self.options.threshold
        confident = positive | (predicted <= 1.0 - self.options.threshold)
        strong: Tensor = self.options.weight * soft_bce(logits, positive.float(), confident.float())
        return loss + strong
