"""RunConfig: which data (`DataConfig`), what is trained (`TrainConfig`) and where to write it."""

from typing import Annotated, Literal

from pydantic import Field, field_validator

from g2netpl.labels.files import Files
from g2netpl.labels.io import FORMATS, ReadOptions, read_aliases, read_classes
from g2netpl.labels.io.options import Absent, Contradictions
from g2netpl.runs.tracker_names import parse_trackers
from g2netpl.runs.train_config import PRIORS, TrainConfig, path_text
from g2netpl.utils.errors import did_you_mean
from g2netpl.utils.image_refs import is_address
from g2netpl.utils.options import Options, none_from_text

GROUPS_BY_FOLDER = "folder"  # what --groups may say instead of a file
DATA_PATHS = {
    *("labels", "images", "test_labels", "test_images", "validation_labels", "classes"),
    *("unlabelled", "groups", "aliases"),
}
PATHS = DATA_PATHS | {"output", "weights", "cache", "continue_from", "prior", "names"}
SEVERAL = {"labels", "test_labels", "validation_labels"}  # one path, or a list of them


class DataConfig(Options):
    """Where labels and images are, and how label files are read."""

    labels: Files = Field(
        description="label file of the training images, a folder of such files, or s3://…; "
        "repeat the flag to join several"
    )
    images: str | None = Field(
        default=None,
        description="folder of the images, tar shards, Parquet or s3://… (default: as the format "
        "says, else the folder of the label file)",
    )
    unlabelled: str | None = Field(
        default=None, description="another folder of unlabelled training images"
    )
    only_listed: bool | None = Field(
        default=None,
        description="leave out images that the label file does not list (default: true for VOC, "
        "COCO, NUS-WIDE and SPML; else they are unlabelled training images)",
    )
    missing: Literal["refuse", "leave-out"] = Field(
        default="refuse", description="treatment of listed images that do not exist"
    )
    format: str | None = Field(
        default=None, description="format of the label files (default: recognised)"
    )
    absent: Absent | None = Field(
        default=None,
        description="meaning of labels that the file does not list (default: as usual in its "
        "format)",
    )
    separator: str | None = Field(
        default=None,
        description="separator between tags; each character of ';,' separates (default: ';' or "
        "'|')",
    )
    classes: str | None = Field(
        default=None, description="file with the allowed classes, one per line"
    )
    aliases: str | None = Field(
        default=None,
        description="file with other names of classes, one per line: automobile = car",
    )
    contradictions: Contradictions = Field(
        default="refuse",
        description="treatment of a label that is 1 in one file and 0 in another; last: the last "
        "file counts",
    )
    image_column: str | None = Field(
        default=None, description="column of image names (default: recognised)"
    )
    tags_column: tuple[str, ...] = Field(
        default=(),
        description="columns of tags, separated by commas (default: labels, tags, keywords, "
        "species or the like; else every column is a class)",
    )
    ignore_columns: tuple[str, ...] = Field(
        default=(), description="columns to leave out, separated by commas"
    )
    minus_one: Absent | None = Field(
        default=None, description="meaning of -1 in a class column (default: rejected)"
    )
    encoding: str | None = Field(
        default=None, description="encoding of CSV files, such as cp1252 (default: UTF-8)"
    )
    tag_level: Annotated[int, Field(ge=1)] | Literal["leaf", "all"] | None = Field(
        default=None,
        description="class of a tag with levels such as animal|bird|kestrel: leaf, all, or a "
        "number (default: leaf)",
    )
    test_labels: Files | None = Field(
        default=None, description="label file of the test images; repeat the flag to join several"
    )
    test_images: str | None = Field(
        default=None, description="folder of the test images (default: that of the others)"
    )
    overlap: Literal["refuse", "allow"] = Field(
        default="refuse", description="treatment of test images that are also training images"
    )
    validation_labels: Files | None = Field(
        default=None,
        description="label file of the validation images, instead of held-out training images",
    )
    groups: str | None = Field(
        default=None,
        description="images that stay in one split: a CSV file with image,group, or the word "
        "folder (default: the column group of the label file)",
    )

    @field_validator(*sorted(DATA_PATHS - SEVERAL), mode="before")
    @classmethod
    def _text_of_path(cls, value: object) -> object:
        return path_text(value)

    @field_validator(*sorted(SEVERAL), mode="before")
    @classmethod
    def _texts_of_paths(cls, value: object) -> object:
        if value is None:
            return value
        parts = value if isinstance(value, list | tuple) else [value]
        texts = [path_text(part) for part in parts]
        if not texts or not all(isinstance(text, str) for text in texts):
            raise ValueError("must be a path, or a list of them")
        return texts if len(texts) > 1 else texts[0]

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


class RunConfig(DataConfig, TrainConfig):
    """One training run in a folder. Immutable; unknown keys and invalid values are rejected."""

    output: str = Field(description="run folder to write")
    continue_from: str | None = Field(
        default=None,
        description="reviewed run: continue from its model and pseudo-labels, with the answers of "
        "the review as labels",
    )
    checkpoint_minutes: float = Field(
        default=10, ge=0, description="minutes between checkpoints within an epoch; 0: none"
    )
    checkpoint_steps: int | None = Field(
        default=None, ge=1, description="steps between checkpoints within an epoch (default: none)"
    )
    log_with: tuple[str, ...] = Field(
        default=(),
        description="trackers, separated by commas: tensorboard, mlflow, wandb, trackio, each "
        "with :WHERE if needed",
    )

    _trackers = field_validator("log_with", mode="before")(parse_trackers)
    _no_steps = field_validator("checkpoint_steps", mode="before")(none_from_text)

    @field_validator("output", "continue_from", mode="before")
    @classmethod
    def _text_of_output(cls, value: object) -> object:
        return path_text(value)

    def reading(self, images: str | None = None) -> ReadOptions:
        """How label files are to be understood, whose images may have a folder of their own."""
        return ReadOptions(
            self.absent,
            self.separator,
            None if self.classes is None else read_classes(self.classes),
            aliases=None if self.aliases is None else read_aliases(self.aliases),
            contradictions=self.contradictions,
            one_folder=(images or self.images) is not None,
            image_column=self.image_column,
            tags_column=self.tags_column,
            ignore_columns=self.ignore_columns,
            minus_one=self.minus_one,
            encoding=self.encoding,
            level=self.tag_level or "leaf",
            single_label=self.single_label,
            images=images or self.images,
        )


def is_path(key: str, value: object) -> bool:
    """Whether what a key is set to leads to a file or folder, or to several."""
    elsewhere = isinstance(value, str) and is_address(value)
    is_word = (key, value) == ("groups", GROUPS_BY_FOLDER) or (key == "prior" and value in PRIORS)
    return key in PATHS and not elsewhere and not is_word
