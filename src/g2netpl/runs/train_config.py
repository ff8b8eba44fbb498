"""TrainConfig: what a training run depends on, given labels and images."""

import os
from math import ceil
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, field_validator, model_validator

from g2netpl.images.transforms import Augment
from g2netpl.labels.settings import Setting
from g2netpl.runs.thresholds import parse_rule
from g2netpl.utils.options import Options, key, none_from_text
from g2netpl.utils.stores import check_secrets

PRIORS = ("auto", "names", "none")  # what `prior` may say instead of a file
USUAL_EPOCHS, LINEAR_STEPS = 10, 500  # at least so many steps for a head with random weights
_OWN_SIZES = {"tiny": 224, "lite0": 224, "lite1": 240, "lite2": 260}  # pixels

PhaseMode = Literal["full", "partial", "linear"]  # trained: everything, upper blocks, the head
Mode = Literal[PhaseMode, "lp-ft"]
AskedMode = Literal[Mode, "auto"]


def path_text(value: object) -> object:
    """A path as text, checked; other values as they are."""
    value = os.fspath(value) if isinstance(value, os.PathLike) else value
    if isinstance(value, str):
        if "\0" in value:
            raise ValueError("must be a path, without a NUL character")
        check_secrets(value)
    return value


def _timm_size(backbone: str) -> int:
    """The pixels that a model of timm was trained with; 224 if timm does not know it."""
    from timm.models import get_pretrained_cfg  # seconds, and only for models of timm

    about = get_pretrained_cfg(backbone)
    return 224 if about is None else int(about.input_size[-1])


PathText = Annotated[str, BeforeValidator(path_text)]


class TrainConfig(Options):
    """What a training run depends on, given labels and images."""

    single_label: bool = key(False, "one class per image: the most probable")
    method: str = key("g2netpl", "training method; see g2netpl methods")
    options: dict[str, Any] = key({}, "options of the method; see g2netpl methods NAME")
    annotation: Literal["auto", "sampled", "random", "complete"] | None = key(
        None, "how labels came to be observed; sampled: as tags (default: that of the method)"
    )
    setting: str = key("own", "labels to hide, such as fspl, sspl:0.2 or known:0.1 (default: none)")
    mode: AskedMode = key(
        "auto",
        "trained layers; linear: head, partial: upper blocks too, lp-ft: linear, then full; "
        "auto: linear for a pretrained backbone without a GPU, else full",
    )
    train_from: str | None = key(None, "first trained block (default: the last fifth of compute)")
    backbone: str = key("lite1", "tiny, lite0, lite1, lite2, or any model of timm")
    pretrained: bool = key(True, "start from pretrained weights")
    weights: PathText | None = key(None, "weights of the backbone, .safetensors or .pth")
    prior: PathText = key(
        "auto",
        "prior of the classes: names, none, or a FILE of scores",
    )
    names: PathText | None = key(None, "corrected table of check --names-out (default: automatic)")
    hidden: int = key(0, "width of a hidden layer before the head; 0: none", ge=0, le=65_536)
    image_size: int = key(
        240,
        "side in pixels; images are squashed (default: as in pretraining)",
        ge=16,
        le=8_192,
    )
    augment: Literal[Augment, "pair"] = key(
        "paper",
        "augmentation; plain: none, paper: mirror, weak: mirror, shift, strong: also distort, "
        "pair: weak and strong",
    )
    max_unreadable: int | None = key(
        None, "unreadable images allowed (default: 0.1 %, at least 1)", ge=0
    )
    epochs: int | None = key(
        None, "epochs (default: 10; linear and partial at least 500 steps)", ge=1, le=1_000_000
    )
    linear_epochs: int = key(25, "linear epochs of lp-ft", ge=1, le=1_000_000)
    solver: Literal["lbfgs", "epochs"] = key(
        "lbfgs", "training of a linear softmax; lbfgs: solved, epochs: by the optimizer"
    )
    weight_decay: float = key(0.0, "weight decay of the optimizer", ge=0, lt=1)
    batch_size: int = key(16, "images per step", ge=1, le=1_048_576)
    learning_rate: float | None = key(
        None, "learning rate of the last phase (default: 1e-4; linear 1e-3)", gt=0, lt=1e38
    )
    optimizer: str = key("adam", "any optimizer of timm")
    ema: float | None = key(None, "decay of averaged weights, such as 0.999", gt=0, lt=1)
    validation: float = key(0.2, "fraction of images held out to choose the epoch", ge=0, lt=1)
    expected_positives: Annotated[float, Field(gt=0)] | Literal["truth", "estimate"] = key(
        "estimate", "expected positives per image (k): a number, estimate, or truth"
    )
    thresholds: str = key("f1", "rule for decisions: f1, precision:P (on validation) or expected")
    patience: int = key(3, "epochs at equilibrium before training stops; 0: never", ge=0)
    regret_tolerance: float = key(1e-3, "largest regret of the pseudo-labels at equilibrium", gt=0)
    movement_tolerance: float = key(1e-3, "largest update of them at equilibrium", gt=0)
    seed: int = key(0, "seed of splits, masks, initialisation, order, augmentation", ge=0, lt=2**31)
    shuffle: Literal["shards", "images"] = key(
        "shards", "order of the images in an epoch; shards: shuffled in blocks of tar shards"
    )
    workers: int = key(2, "image loader processes", ge=0, le=512)
    device: Literal["auto", "cpu"] = key("auto", "auto: a GPU if there is one")
    precision: Literal["float32", "bf16", "fp16"] = key("float32", "number format of training")
    cache: PathText | None = key(None, "folder for computed features (default: ~/.cache/g2netpl)")

    @model_validator(mode="before")
    @classmethod
    def _size_of_backbone(cls, keys: dict[str, Any]) -> dict[str, Any]:
        """The pixels that the backbone was trained with, unless they are given."""
        if keys.get("image_size") is not None:
            return keys
        backbone = str(keys.get("backbone", cls.model_fields["backbone"].default))
        return {**keys, "image_size": _OWN_SIZES.get(backbone) or _timm_size(backbone)}

    _none = field_validator("learning_rate", "ema", "max_unreadable", mode="before")(none_from_text)

    _setting = field_validator("setting")(lambda value: str(Setting.parse(value)))

    _rule = field_validator("thresholds")(lambda value: parse_rule(value) and value)

    def epochs_on(self, images: int) -> int:
        """Epochs of the last phase; a head needs more of them on few images."""
        if self.epochs is not None:
            return self.epochs
        has_new_head = self.mode in ("linear", "partial")
        least = LINEAR_STEPS / ceil(images / self.batch_size) if has_new_head else 0
        return max(USUAL_EPOCHS, ceil(least))

    def most_unreadable(self, images: int) -> int:
        """How many of so many images may be unreadable."""
        return max(1, images // 1000) if self.max_unreadable is None else self.max_unreadable

    @property
    def phases(self) -> tuple[PhaseMode, ...]:
        """What is trained, phase by phase; `auto` is resolved before."""
        assert self.mode != "auto"
        if self.mode == "lp-ft":
            return "linear", "full" if self.train_from is None else "partial"
        return (self.mode,)

    def lr(self, mode: PhaseMode) -> float:
        """The learning rate of a phase; the one that was given is that of the last phase."""
        usual = 1e-3 * min(1.0, self.batch_size / 64) if mode == "linear" else 1e-4
        given = self.learning_rate if mode == self.phases[-1] else None
        return usual if given is None else given
