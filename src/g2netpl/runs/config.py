"""RunConfig: everything one training depends on, checked at once."""

import os
from math import ceil
from typing import Annotated, Any, Literal

from pydantic import Field, field_validator

from g2netpl.base.errors import did_you_mean
from g2netpl.base.options import (
    LARGEST_BATCH,
    LARGEST_IMAGE,
    MOST_EPOCHS,
    MOST_PROCESSES,
    WIDEST,
    Options,
    none_from_text,
)
from g2netpl.base.places import is_address
from g2netpl.base.stores import check_secrets
from g2netpl.images.views import ViewName
from g2netpl.labels.files import Files
from g2netpl.labels.formats import FORMATS, Reading, read_aliases, read_classes
from g2netpl.labels.formats.reading import Absent, Contradictions, Duplicates
from g2netpl.labels.settings import Setting
from g2netpl.runs.thresholds import parse_rule
from g2netpl.runs.tracker_names import parse_trackers

GROUPS_BY_FOLDER = "folder"  # what --groups may say instead of a file
PATHS = {
    *("labels", "images", "output", "test_labels", "test_images", "validation_labels", "weights"),
    *("cache", "classes", "unlabelled", "resume_labels", "groups", "aliases"),
}
USUAL_EPOCHS, LINEAR_STEPS = 10, 500  # the latter where the former bring fewer
SEVERAL = {"labels", "test_labels", "validation_labels"}  # one path, or a list of them

PhaseMode = Literal["end-to-end", "top", "linear"]  # what learns: all, upper blocks, classifier
Mode = Literal[PhaseMode, "linear-init"]
AskedMode = Literal[Mode, "auto"]


class RunConfig(Options):
    """One training. Immutable; unknown keys and values out of range are refused."""

    labels: Files = Field(
        description="label file of the training images, also at s3://…, or a folder of them; "
        "several are joined"
    )
    images: str | None = Field(
        default=None,
        description="folder that the image names are relative to, or tar shards, Parquet, s3://… "
        "(default: where the format has them, or else that of the label file)",
    )
    output: str = Field(description="run folder to write")
    resume_labels: str | None = Field(
        default=None,
        description="run folder that was reviewed: go on with its game, with what people decided "
        "as observed labels",
    )
    unlabelled: str | None = Field(
        default=None, description="one more folder, of unlabelled images"
    )
    only_listed: bool | None = Field(
        default=None,
        description="leave out images of the folder that the label file does not list; without "
        "it they are unlabelled training images, but for VOC, COCO, NUS-WIDE and SPML",
    )
    missing: Literal["refuse", "leave-out"] = Field(
        default="refuse", description="what to do about listed images that are not there"
    )
    max_bad: int | None = Field(
        default=None,
        ge=0,
        description="unreadable images to put up with; none: 0.1 %, and 1 at least",
    )

    format: str | None = Field(default=None, description="format of the label files, if not clear")
    absent: Absent | None = Field(
        default=None,
        description="what a label is that the file does not name: unobserved or negative "
        "(default: as usual in its format)",
    )
    separator: str | None = Field(
        default=None,
        description="between tags; of several marks, as ';,', each (default: ';' or '|')",
    )
    classes: str | None = Field(
        default=None, description="file with the classes there may be, one per line"
    )
    aliases: str | None = Field(
        default=None,
        description="file with other names of classes, such as automobile = car, one per line",
    )
    contradictions: Contradictions = Field(
        default="refuse",
        description="what counts where one label file says 1 and another 0: refuse, unknown, or "
        "last (the file named last)",
    )
    image_column: str | None = Field(
        default=None, description="column of a table that names the images (default: by its name)"
    )
    tags_column: tuple[str, ...] = Field(
        default=(),
        description="its column of tags, or several, separated by commas (default: the one called "
        "labels, tags, keywords, species or the like; without one every column is a class)",
    )
    ignore_columns: tuple[str, ...] = Field(
        default=(), description="its columns to leave out, separated by commas"
    )
    duplicates: Duplicates = Field(
        default="refuse", description="rows of one image that say different things: refuse or unite"
    )
    minus_one: Absent | None = Field(
        default=None, description="what -1 in a column of a class means: unobserved or negative"
    )
    encoding: str | None = Field(
        default=None, description="of CSV files, such as cp1252 (default: UTF-8, or as they say)"
    )
    tag_level: Annotated[int, Field(ge=1)] | Literal["leaf", "all"] | None = Field(
        default=None,
        description="of tags in photos with levels such as animal|bird|kestrel the class: leaf "
        "(kestrel), all (each of the three), or a number (1: animal; default: leaf)",
    )
    one_of: bool = Field(
        default=False,
        description="each image has exactly one class, as a photo of one species: its name says "
        "all, and every image gets its likeliest class",
    )

    method: str = Field(default="g2netpl", description="a name from `g2netpl methods`")
    options: dict[str, Any] = Field(default_factory=dict, description="changed method options")
    observation: Literal["auto", "draw", "random", "complete"] | None = Field(
        default=None,
        description="how labels came to be known: draw (named among what is there), random (each "
        "by chance, both signs), complete, or auto: what the labels look like (default: as the "
        "method has it)",
    )
    setting: str = Field(
        default="own", description="which labels to hide for an experiment; own: none"
    )
    test_labels: Files | None = Field(
        default=None, description="label file of test images; several are joined"
    )
    test_images: str | None = Field(default=None, description="their folder, if another one")
    overlap: Literal["refuse", "allow"] = Field(
        default="refuse", description="what to do about test images that are also training images"
    )

    mode: AskedMode = Field(
        default="auto",
        description="end-to-end, top (the upper blocks of the backbone), linear (frozen backbone), "
        "linear-init (linear, then everything), or auto: linear for a pretrained backbone without "
        "a GPU, else end-to-end",
    )
    train_from: str | None = Field(
        default=None,
        description="with top: the first block that learns, such as blocks.5 (default: about the "
        "last fifth of the compute); with linear-init: then this block and those above",
    )
    backbone: str = Field(default="lite0", description="tiny, lite0 to lite2, or any timm name")
    pretrained: bool = Field(default=True, description="start from pretrained weights")
    weights: str | None = Field(default=None, description="backbone file, .safetensors or .pth")
    hidden: int = Field(default=0, ge=0, le=WIDEST, description="width of a hidden layer; 0: none")
    image_size: int = Field(
        default=224, ge=16, le=LARGEST_IMAGE, description="images are squashed to this square"
    )
    view: Literal[ViewName, "pair"] = Field(
        default="paper",
        description="of training images: plain, paper (mirrored), weak (and shifted), strong "
        "(and distorted), or pair: labels answer the weak one, the network learns from the strong",
    )

    epochs: int | None = Field(
        default=None,
        ge=1,
        le=MOST_EPOCHS,
        description="epochs (of everything, with linear-init; default: 10, and with linear as many "
        "more as bring 500 steps)",
    )
    linear_epochs: int = Field(
        default=25, ge=1, le=MOST_EPOCHS, description="first epochs of linear-init"
    )
    batch_size: int = Field(default=16, ge=1, le=LARGEST_BATCH, description="images per step")
    learning_rate: float | None = Field(
        default=None,
        gt=0,
        description="of what learns last (none: 1e-4, of a last layer alone 1e-3, in proportion "
        "less below batch 64); linear epochs before it keep their usual one",
    )
    optimizer: str = Field(default="Adam", description="any optimizer of torch.optim")
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
    validation_labels: Files | None = Field(
        default=None,
        description="own validation label file instead of a share; several are joined",
    )
    groups: str | None = Field(
        default=None,
        description="CSV file image,group, or folder: images that stay in one part (a sequence, an "
        "album, a patient; default: the column group of the label file, if it has one)",
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
    checkpoint_minutes: float = Field(
        default=10, ge=0, description="save in the middle of an epoch this often; 0: after epochs"
    )
    checkpoint_steps: int | None = Field(
        default=None, ge=1, description="and after so many steps; none: by the clock alone"
    )
    workers: int = Field(default=2, ge=0, le=MOST_PROCESSES, description="image loader processes")
    device: Literal["auto", "cpu"] = Field(
        default="auto", description="auto: a GPU if there is one"
    )
    precision: Literal["float32", "bf16", "fp16"] = Field(
        default="float32", description="float32, bf16, or on a GPU fp16"
    )
    track: tuple[str, ...] = Field(
        default=(), description="tensorboard, mlflow, wandb or trackio, each with :WHERE if need be"
    )
    cache: str | None = Field(
        default=None, description="folder for computed features (default: in ~/.cache/g2netpl)"
    )

    @field_validator(*sorted(PATHS - SEVERAL), mode="before")
    @classmethod
    def _text_of_path(cls, value: object) -> object:
        value = os.fspath(value) if isinstance(value, os.PathLike) else value
        if isinstance(value, str) and "\0" in value:
            raise ValueError("must be a path, without a NUL character")
        if isinstance(value, str):
            check_secrets(value)
        return value

    @field_validator(*sorted(SEVERAL), mode="before")
    @classmethod
    def _texts_of_paths(cls, value: object) -> object:
        if value is None:
            return value
        parts = value if isinstance(value, list | tuple) else [value]
        texts = [cls._text_of_path(each) for each in parts]
        if not texts or not all(isinstance(text, str) for text in texts):
            raise ValueError("must be a path, or a list of them")
        return texts if len(texts) > 1 else texts[0]

    _none = field_validator("learning_rate", "ema", "max_bad", "checkpoint_steps", mode="before")(
        none_from_text
    )

    _trackers = field_validator("track", mode="before")(parse_trackers)

    @field_validator("format")
    @classmethod
    def _known_format(cls, value: str | None) -> str | None:
        if value is not None and value not in FORMATS:
            raise ValueError(f"must be a known format ({did_you_mean(value, FORMATS)})")
        return value

    @field_validator("separator")
    @classmethod
    def _some_separator(cls, value: str | None) -> str | None:
        if value == "":
            raise ValueError("must not be empty")
        return value

    _columns = field_validator("tags_column", "ignore_columns", mode="before")(
        lambda value: (value,) if isinstance(value, str) else value if value is not None else ()
    )

    @field_validator("encoding")
    @classmethod
    def _known_encoding(cls, value: str | None) -> str | None:
        try:
            b"a".decode(value or "utf-8")
        except (LookupError, UnicodeError):
            raise ValueError("must be an encoding of text, such as cp1252 or utf-16-le") from None
        return value

    @field_validator("thresholds")
    @classmethod
    def _known_rule(cls, value: str) -> str:
        parse_rule(value)
        return value

    _setting = field_validator("setting")(lambda value: str(Setting.parse(value)))

    @field_validator("expected_positives")
    @classmethod
    def _positive(cls, value: float | str) -> float | str:
        if isinstance(value, float) and not value > 0:
            raise ValueError("must be greater than 0")
        return value

    def reading(self, images: str | None = None) -> Reading:
        """How label files are to be understood, whose images may have a folder of their own."""
        return Reading(
            self.absent,
            self.separator,
            None if self.classes is None else read_classes(self.classes),
            aliases=None if self.aliases is None else read_aliases(self.aliases),
            contradictions=self.contradictions,
            one_folder=(images or self.images) is not None,
            image_column=self.image_column,
            tags_column=self.tags_column,
            ignore_columns=self.ignore_columns,
            duplicates=self.duplicates,
            minus_one=self.minus_one,
            encoding=self.encoding,
            level=self.tag_level or "leaf",
            one_of=self.one_of,
        )

    def epochs_on(self, images: int) -> int:
        """The epochs of the last phase; a last layer at its start needs more on few images."""
        if self.epochs is not None:
            return self.epochs
        least = self.epochs_of_a_layer(images) if self.mode in ("linear", "top") else 0
        return max(USUAL_EPOCHS, least)

    def epochs_of_a_layer(self, images: int) -> int:
        """So many a last layer that starts at random needs to learn anything."""
        return ceil(LINEAR_STEPS / ceil(images / self.batch_size))

    def most_bad(self, images: int) -> int:
        """How many of so many images may be unreadable."""
        return max(1, images // 1000) if self.max_bad is None else self.max_bad

    @property
    def modes(self) -> tuple[PhaseMode, ...]:
        """What learns, phase by phase; auto is decided before (`training/checks`)."""
        assert self.mode != "auto"
        if self.mode == "linear-init":
            return "linear", "end-to-end" if self.train_from is None else "top"
        return (self.mode,)

    def rate(self, mode: PhaseMode) -> float:
        """The learning rate of a phase."""
        usual = 1e-3 * min(1.0, self.batch_size / 64) if mode == "linear" else 1e-4
        return self.given_rate(mode) or usual

    def given_rate(self, mode: PhaseMode) -> float | None:
        """The one that was asked for, which is that of what learns last."""
        return self.learning_rate if mode == self.modes[-1] else None


def is_path(key: str, value: object) -> bool:
    """Whether what a key is set to leads to a file or folder, or to several."""
    elsewhere = isinstance(value, str) and is_address(value)
    return key in PATHS and not elsewhere and (key, value) != ("groups", GROUPS_BY_FOLDER)
