"""RunConfig: which data (`DataConfig`), what is trained (`TrainConfig`) and where to write it."""

from typing import Annotated, Literal

from pydantic import Field, field_validator

from g2netpl.labels.files import Files
from g2netpl.labels.io import FORMATS, ReadOptions, read_aliases, read_classes
from g2netpl.labels.io.options import Absent, Contradictions, Duplicates
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
PATHS = DATA_PATHS | {"output", "weights", "cache", "resume_labels", "prior", "names"}
SEVERAL = {"labels", "test_labels", "validation_labels"}  # one path, or a list of them


class DataConfig(Options):
    """Where labels and images are, and how label files are read."""

    labels: Files = Field(
        description="label file of the training images, also at s3://…, or a folder of them; "
        "several are joined"
    )
    images: str | None = Field(
        default=None,
        description="folder that the image names are relative to, or tar shards, Parquet, s3://… "
        "(default: where the format has them, or else that of the label file)",
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
    test_labels: Files | None = Field(
        default=None, description="label file of test images; several are joined"
    )
    test_images: str | None = Field(default=None, description="their folder, if another one")
    overlap: Literal["refuse", "allow"] = Field(
        default="refuse", description="what to do about test images that are also training images"
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
        texts = [path_text(each) for each in parts]
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
    resume_labels: str | None = Field(
        default=None,
        description="reviewed run folder: continue from its model and pseudo-labels, with the "
        "reviewed labels as observed",
    )
    checkpoint_minutes: float = Field(
        default=10, ge=0, description="save in the middle of an epoch this often; 0: after epochs"
    )
    checkpoint_steps: int | None = Field(
        default=None, ge=1, description="and after so many steps; none: by the clock alone"
    )
    track: tuple[str, ...] = Field(
        default=(), description="tensorboard, mlflow, wandb or trackio, each with :WHERE if need be"
    )

    _trackers = field_validator("track", mode="before")(parse_trackers)
    _no_steps = field_validator("checkpoint_steps", mode="before")(none_from_text)

    @field_validator("output", "resume_labels", mode="before")
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
            duplicates=self.duplicates,
            minus_one=self.minus_one,
            encoding=self.encoding,
            level=self.tag_level or "leaf",
            one_of=self.one_of,
            images=images or self.images,
        )


def is_path(key: str, value: object) -> bool:
    """Whether what a key is set to leads to a file or folder, or to several."""
    elsewhere = isinstance(value, str) and is_address(value)
    is_word = (key, value) == ("groups", GROUPS_BY_FOLDER) or (key == "prior" and value in PRIORS)
    return key in PATHS and not elsewhere and not is_word
