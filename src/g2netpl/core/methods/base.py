"""`Method`, the base class of every method, and `register`, which makes it available by name.

A method of your own is one class in one file:

    from pydantic import Field
    from torch.nn.functional import logsigmoid
    from g2netpl.core import POSITIVE, Method, MethodOptions, register

    @register("focal", "focal loss, unobserved labels are negative", source="Lin et al., ICCV 2017")
    class Focal(Method):
        class Options(MethodOptions):
            gamma: float = Field(default=2.0, ge=1, description="exponent of the focusing factor")

        def loss(self, output, batch, phi):  # one number, with a gradient
            sign = 2 * (batch.observed == POSITIVE).float() - 1
            log_p = logsigmoid(sign * output.logits)  # p: probability of the target
            return -((1 - log_p.exp()) ** self.options.gamma * log_p).mean()
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from inspect import signature
from types import NoneType
from typing import Any, Literal, TypeVar, get_args, get_origin

import torch
from pydantic import ValidationInfo, field_validator
from torch import Tensor, nn

from g2netpl.core.algorithm import POSITIVE, UNOBSERVED, Batch
from g2netpl.core.annotation import Output
from g2netpl.core.models import Model, evaluating
from g2netpl.utils.errors import InputError, did_you_mean
from g2netpl.utils.options import Options, list_from_text, none_from_text

Annotation = Literal["auto", "sampled", "random"]


class MethodOptions(Options):
    """Base of a method's options. On the command line `none` is None, and `0,2` a list."""

    @field_validator("*", mode="before")
    @classmethod
    def _from_text(cls, value: object, info: ValidationInfo) -> object:
        kind = cls.model_fields[info.field_name or ""].annotation
        kinds = [get_origin(part) or part for part in (kind, *get_args(kind))]
        if NoneType in kinds:
            value = none_from_text(value)
        return list_from_text(value) if tuple in kinds else value


class Method(nn.Module):
    """A loss and, if it has pseudo-labels, an update of them.

    State per training image is a buffer with one row per image, so `state_dict()` is complete.
    """

    Options: type[MethodOptions] = MethodOptions
    rounds = 1  # training runs of the model, each from the same start; the last one counts
    passes = 0  # predictions with dropout between two rounds
    dropout = 0.0  # in front of the last layer
    augmentations = 1  # 2: a weak and a strong augmentation of every image
    trains_sigmoids = True  # False: with sampled-positive labels the softmax predicts by itself
    negative_weight = 1.0  # of an observed negative, for the loss of the head
    observed: Tensor  # (N, L) int8: the observed labels of all training images

    def __init__(
        self,
        observed: Tensor,
        options: MethodOptions | None = None,
        *,
        k: float | None = None,
        epochs: int = 10,
        seed: int = 0,
    ) -> None:
        super().__init__()
        self.options: Any = options or self.Options()
        self.epochs, self.seed, self._k = epochs, seed, k
        self.register_buffer("observed", observed, persistent=False)

    @property
    def k(self) -> float:
        """Expected positives per image."""
        if self._k is None:
            raise InputError(f"{type(self).__name__} needs k, the expected positives per image")
        return self._k

    def forward(self, model: Model, batch: Batch) -> Output:
        """The forward pass: of two augmentations the model is trained on the strong one."""
        output: Output = model(batch.strong, batch.prior)
        return output

    def loss(self, output: Output, batch: Batch, phi: float) -> Tensor:
        """The loss of one batch; φ is the fraction of epochs finished. It changes no state."""
        raise NotImplementedError

    def predict(self, model: Model, batch: Batch, output: Output) -> Tensor:
        """Predictions (B, L) for `update`, of the forward pass or the weak augmentation."""
        if batch.is_pair and type(self).update is not Method.update:
            return self.predict_again(model, batch)
        return model.head.predict_training(output, batch.observed)

    def predict_again(self, model: Model, batch: Batch) -> Tensor:
        """Predictions by a new forward pass in evaluation mode, without gradients."""
        with evaluating(model), torch.no_grad():
            output: Output = model(batch.weak, batch.prior)
            return model.head.predict_training(output, batch.observed)

    def update(self, batch: Batch, predicted: Tensor, phi: float) -> None:
        """Move the pseudo-labels of this batch, given the predictions (B, L)."""

    def start_phase(self, lr: float, deep: bool) -> None:
        """Called before each phase: the learning rate, and whether the backbone is trained."""

    def start_round(self, predictions: Iterable[tuple[Tensor, Tensor, Tensor]]) -> None:
        """Called before each round but the first: rows, mean and deviation of the passes."""

    def start_epoch(self, phi: float) -> None:
        """Called before each epoch."""

    def pseudo_labels(self, rows: Tensor) -> Tensor | None:
        """Pseudo-labels (B, L) in [0, 1] of some images, observed labels included; None: none."""
        return None

    def init_pseudo_labels(self, rows: Tensor, labels: Tensor) -> None:
        """Start from the pseudo-labels of an earlier run."""

    def regret(self, rows: Tensor, predicted: Tensor) -> Tensor | None:
        """What each unobserved pseudo-label would gain by its best response, 1-d; None: none."""
        return None

    def resolved_options(self) -> dict[str, Any]:
        """All options, with the values that stand for none."""
        values: dict[str, Any] = self.options.model_dump()
        return values

    def keep_rows(self, rows: Tensor) -> None:
        """Keep the state of some images only: those that this rank owns."""
        count = len(self.observed)
        for name, buffer in self.named_buffers(recurse=False):
            if buffer.ndim == 2 and len(buffer) == count:
                setattr(self, name, buffer[rows])

    def with_observed(self, labels: Tensor, observed: Tensor) -> Tensor:
        """The labels, replaced by what was observed where something was."""
        return torch.where(observed == UNOBSERVED, labels, observed)


@dataclass(frozen=True)
class Entry:
    """A registered method: its class, its defaults and where it comes from."""

    name: str
    method: type[Method]
    summary: str
    source: str
    annotation: Annotation = "random"  # `auto`: decided by the labels
    full_labels: bool = False
    grid: tuple[str, tuple[Any, ...]] | None = None  # the main weight and three values to try
    defaults: Mapping[str, Any] = field(default_factory=dict)

    def options(self, changes: Mapping[str, Any]) -> MethodOptions:
        """The defaults with some of them changed, validated."""
        return self.method.Options.read({**self.defaults, **changes}, f"method {self.name}")


METHODS: dict[str, Entry] = {}
M = TypeVar("M", bound=type[Method])


def register(
    name: str,
    summary: str,
    source: str = "",
    *,
    annotation: Annotation = "random",
    full_labels: bool = False,
    grid: tuple[str, tuple[Any, ...]] | None = None,
    **defaults: Any,
) -> Callable[[M], M]:
    """Class decorator: make a method available by name, with these defaults of its options."""

    def add(cls: M) -> M:
        if name in METHODS:
            raise InputError(f"method {name!r} is registered already; choose another name")
        if cls.loss is Method.loss:
            raise InputError(f"method {name!r}: the class {cls.__name__} has no `loss`")
        try:
            signature(cls).bind(None, None, k=None, epochs=1, seed=0)
        except TypeError:
            raise InputError(
                f"method {name!r}: __init__ must take (observed, *options, **more) and pass them "
                "to super().__init__"
            ) from None
        METHODS[name] = Entry(name, cls, summary, source, annotation, full_labels, grid, defaults)
        return cls

    return add


def find_method(name: str) -> Entry:
    """The registered method of that name."""
    if name not in METHODS:
        hint = did_you_mean(name, METHODS)
        raise InputError(f"unknown method {name!r} ({hint}); --plugin FILE adds your own")
    return METHODS[name]


def build_method(
    name: str,
    observed: Tensor,
    *,
    k: float | None = None,
    epochs: int = 10,
    seed: int = 0,
    lr: float = 1e-3,
    deep: bool = False,
    **options: Any,
) -> Method:
    """A method for the observed labels (N, L) of all training images, ready for the first epoch.

    A label is 1 (positive), 0 (negative) or −1 (unobserved): 0 does not mean unobserved. `k` is the
    expected number of positives per image, `epochs` the number of epochs, `lr` the learning rate.
    `deep`: a backbone is trained too, not only the last layer.
    """
    entry, observed = find_method(name), torch.as_tensor(observed)
    if not bool(((observed >= UNOBSERVED) & (observed <= POSITIVE)).all()):
        raise InputError("observed: expected labels of 1, 0 and -1 (unobserved)")
    method = entry.method(observed, entry.options(options), k=k, epochs=epochs, seed=seed)
    method.start_phase(lr, deep)
    return method


def parse_method(text: str) -> tuple[str, dict[str, str]]:
    """Read `epr:regulariser=0.3:…` as a name and changes of its options."""
    name, *pairs = text.strip().split(":")
    changes = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals:
            raise InputError(f"method {text!r}: expected key=value after ':', got {pair!r}")
        changes[key.strip()] = value.strip()
    find_method(name)
    return name, changes


def weights_to_try(name: str, changes: Mapping[str, Any]) -> list[str]:
    """Three values of the main weight as `key=value`; [""] if it is given or there is none."""
    grid = find_method(name).grid
    if grid is None or grid[0] in changes:
        return [""]
    return [f"{grid[0]}={value}" for value in grid[1]]
