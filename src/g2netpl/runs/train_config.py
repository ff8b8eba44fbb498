"""TrainConfig: what a training run depends on, given labels and images."""

import os
from math import ceil
from typing import Any, Literal

from pydantic import Field, field_validator

from g2netpl.images.transforms import ViewName
from g2netpl.labels.settings import Setting
from g2netpl.runs.thresholds import parse_rule
from g2netpl.utils.options import (
    LARGEST_BATCH,
    LARGEST_IMAGE,
    MOST_EPOCHS,
    MOST_PROCESSES,
    WIDEST,
    Options,
    none_from_text,
)
from g2netpl.utils.stores import check_secrets

PRIORS = ("auto", "names", "none")  # what `prior` may say instead of a file
USUAL_EPOCHS, LINEAR_STEPS = 10, 500  # the latter where the former bring fewer

PhaseMode = Literal["full", "partial", "linear"]  # trained: everything, upper blocks, the head
Mode = Literal[PhaseMode, "lp-ft"]
AskedMode = Literal[Mode, "auto"]


class TrainConfig(Options):
    """What a training run depends on, given labels and images."""

    one_of: bool = Field(
        default=False,
        description="each image has exactly one class, as a photo of one species: its name says "
        "all, and every image gets its likeliest class",
    )
    method: str = Field(default="g2netpl", description="a name from `g2netpl methods`")
    options: dict[str, Any] = Field(default_factory=dict, description="changed method options")
    annotation: Literal["auto", "sampled", "random", "complete"] | None = Field(
        default=None,
        description="how labels came to be observed: sampled (tags), random (positives and "
        "negatives missing at random), complete, or auto (default: that of the method)",
    )
    setting: str = Field(
        default="own", description="which labels to hide for an experiment; own: none"
    )
    mode: AskedMode = Field(
        default="auto",
        description="what is trained: full (everything), partial (the upper blocks), linear (the "
        "head), lp-ft (linear, then full or partial), or auto: linear for a pretrained backbone "
        "without a GPU, else full",
    )
    train_from: str | None = Field(
        default=None,
        description="first trained block with partial or lp-ft, such as blocks.5 (default: about "
        "the last fifth of the compute)",
    )
    backbone: str = Field(default="lite0", description="tiny, lite0 to lite2, or any timm name")
    pretrained: bool = Field(default=True, description="start from pretrained weights")
    weights: str | None = Field(default=None, description="backbone file, .safetensors or .pth")
    prior: str = Field(
        default="auto",
        description="scores of the classes before any tag: names (the backbone's ImageNet "
        "classifier and the class names), none, a FILE of another tagger's scores (image x class), "
        "or auto: names if the backbone has such a classifier",
    )
    names: str | None = Field(
        default=None, description="corrected table of --names-out: what each class name means"
    )
    hidden: int = Field(default=0, ge=0, le=WIDEST, description="width of a hidden layer; 0: none")
    image_size: int = Field(
        default=224, ge=16, le=LARGEST_IMAGE, description="images are squashed to this square"
    )
    view: Literal[ViewName, "pair"] = Field(
        default="paper",
        description="of training images: plain, paper (mirrored), weak (and shifted), strong "
        "(and distorted), or pair: labels answer the weak one, the network learns from the strong",
    )
    max_bad: int | None = Field(
        default=None,
        ge=0,
        description="unreadable images to put up with; none: 0.1 %, and 1 at least",
    )

    epochs: int | None = Field(
        default=None,
        ge=1,
        le=MOST_EPOCHS,
        description="epochs, with lp-ft those after the linear ones (default: 10, and with linear "
        "or partial at least 500 steps)",
    )
    linear_epochs: int = Field(
        default=25, ge=1, le=MOST_EPOCHS, description="linear epochs of lp-ft"
    )
    batch_size: int = Field(default=16, ge=1, le=LARGEST_BATCH, description="images per step")
    learning_rate: float | None = Field(
        default=None,
        gt=0,
        lt=1e38,  # single precision
        description="of the last phase (default: 1e-4; linear 1e-3, less below batch size 64)",
    )
    optimizer: str = Field(default="adam", description="any optimizer of timm")
    ema: float | None = Field(
        default=None,
        gt=0,
        lt=1,
        description="decay of a moving average of the weights, such as 0.999, which is then "
        "judged, kept and predicted with (default: no average)",
    )
    validation: float = Field(
        default=0.2, ge=0, lt=1, description="share of the images held out to choose the epoch"
    )
    expected_positives: float | Literal["truth", "estimate"] = Field(
        default="estimate", description="k per image: a number, estimate, or truth (full labels)"
    )
    thresholds: str = Field(
        default="f1",
        description="how labels are decided: f1 or precision:P on validation, or expected (k)",
    )
    patience: int = Field(
        default=3, ge=0, description="epochs at equilibrium before a stop; 0: off"
    )
    regret_tolerance: float = Field(default=1e-3, gt=0, description="the labels' regret there")
    movement_tolerance: float = Field(default=1e-3, gt=0, description="the labels' movement there")
    seed: int = Field(
        default=0, ge=0, lt=2**31, description="decides split, mask, start, order, views"
    )
    order: Literal["shards", "images"] = Field(
        default="shards",
        description="of an epoch: shards (images that lie in shards are mixed within blocks of "
        "them, other images all with each other) or images (all with each other)",
    )
    workers: int = Field(default=2, ge=0, le=MOST_PROCESSES, description="image loader processes")
    device: Literal["auto", "cpu"] = Field(
        default="auto", description="auto: a GPU if there is one"
    )
    precision: Literal["float32", "bf16", "fp16"] = Field(
        default="float32", description="float32, bf16, or on a GPU fp16"
    )
    cache: str | None = Field(
        default=None, description="folder for computed features (default: in ~/.cache/g2netpl)"
    )

    _none = field_validator("learning_rate", "ema", "max_bad", mode="before")(none_from_text)

    _setting = field_validator("setting")(lambda value: str(Setting.parse(value)))

    @field_validator("thresholds")
    @classmethod
    def _known_rule(cls, value: str) -> str:
        parse_rule(value)
        return value

    @field_validator("expected_positives")
    @classmethod
    def _positive(cls, value: float | str) -> float | str:
        if isinstance(value, float) and not value > 0:
            raise ValueError("must be greater than 0")
        return value

    @field_validator("weights", "cache", "prior", "names", mode="before")
    @classmethod
    def _text_of_file(cls, value: object) -> object:
        return path_text(value)

    def epochs_on(self, images: int) -> int:
        """Epochs of the last phase; a head needs more of them on few images."""
        if self.epochs is not None:
            return self.epochs
        least = self.epochs_of_a_head(images) if self.mode in ("linear", "partial") else 0
        return max(USUAL_EPOCHS, least)

    def epochs_of_a_head(self, images: int) -> int:
        """Epochs that a head with random weights needs."""
        return ceil(LINEAR_STEPS / ceil(images / self.batch_size))

    def most_bad(self, images: int) -> int:
        """How many of so many images may be unreadable."""
        return max(1, images // 1000) if self.max_bad is None else self.max_bad

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


def path_text(value: object) -> object:
    """A path as text, checked; other values as they are."""
    value = os.fspath(value) if isinstance(value, os.PathLike) else value
    if isinstance(value, str) and "\0" in value:
        raise ValueError("must be a path, without a NUL character")
    if isinstance(value, str):
        check_secrets(value)
    return value
