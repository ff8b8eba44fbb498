"""RunConfig: which data (`DataConfig`), what is trained (`TrainConfig`) and where to write it."""

import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Literal

from pydantic import field_validator

from g2netpl.labels.files import Files
from g2netpl.labels.io import FORMATS, ReadOptions, read_aliases, read_classes
from g2netpl.labels.io.options import ReadKeys
from g2netpl.runs.train_config import PRIORS, PathText, TrainConfig, path_text
from g2netpl.utils.console import quoted
from g2netpl.utils.errors import InputError, did_you_mean
from g2netpl.utils.files import friendly_os_errors
from g2netpl.utils.image_refs import is_address
from g2netpl.utils.options import key, none_from_text

TRACKERS = ("tensorboard", "mlflow", "wandb")
GROUPS_BY_FOLDER = "folder"  # what --groups may say instead of a file
SEVERAL = {"labels", "test_labels", "validation_labels"}  # one path, or a list of them
PATHS = SEVERAL | {
    *("images", "test_images", "classes", "unlabelled", "groups", "aliases"),
    *("output", "weights", "cache", "continue_from", "prior", "names"),
}


class DataConfig(ReadKeys):
    """Where labels and images are, and how label files are read."""

    labels: Files = key(..., "label file of the training images, or a folder; may be repeated")
    images: PathText | None = key(
        None, "images: folder, tar shards, Parquet, s3://… (default: next to the labels)"
    )
    unlabelled: PathText | None = key(None, "another folder of unlabelled training images")
    only_listed: bool | None = key(
        None, "no training on images that are not listed (default: for VOC, COCO, NUS-WIDE, SPML)"
    )
    missing: Literal["reject", "leave-out"] = key("reject", "listed images that do not exist")
    format: str | None = key(None, "format of the label files (default: recognised)")
    classes: PathText | None = key(None, "file with the allowed classes, one per line")
    aliases: PathText | None = key(None, "file of class aliases, one per line: automobile = car")
    test_labels: Files | None = key(None, "label file of the test images; may be repeated")
    test_images: PathText | None = key(None, "folder of the test images (default: --images)")
    overlap: Literal["reject", "allow"] = key("reject", "test images that are also trained on")
    validation_labels: Files | None = key(
        None, "label file of validation images, instead of held-out training images"
    )
    groups: PathText | None = key(
        None, "images that stay in one split: CSV file (image,group), or the word folder"
    )

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


class RunConfig(DataConfig, TrainConfig):
    """One training run in a folder. Immutable; unknown keys and invalid values are rejected."""

    output: PathText = key(..., "run folder to write")
    continue_from: PathText | None = key(
        None, "reviewed run, to start from its model, pseudo-labels and answers"
    )
    checkpoint_minutes: float = key(10, "minutes between checkpoints in an epoch; 0: none", ge=0)
    checkpoint_steps: int | None = key(None, "steps between checkpoints in an epoch", ge=1)
    log_with: tuple[str, ...] = key((), "trackers, such as tensorboard,mlflow:ADDRESS,wandb")

    @field_validator("log_with", mode="before")
    @classmethod
    def _split_trackers(cls, value: object) -> object:
        parts = value if isinstance(value, list | tuple) else [value]
        names = [name.strip() for part in parts for name in str(part or "").split(",")]
        names = [name for name in names if name not in ("", "none")]
        for name in names:
            kind, colon, _ = name.partition(":")
            if kind not in TRACKERS or (kind == "tensorboard" and colon):
                raise ValueError(f"unknown tracker {name!r} ({did_you_mean(kind, TRACKERS)})")
        return tuple(dict.fromkeys(names))

    _no_steps = field_validator("checkpoint_steps", mode="before")(none_from_text)

    def reading(self, images: str | None = None) -> ReadOptions:
        """How label files are read; their images may be in a folder of their own."""
        images = images or self.images
        return ReadOptions(
            **{name: getattr(self, name) for name in ReadKeys.model_fields},
            classes=None if self.classes is None else read_classes(self.classes),
            aliases={} if self.aliases is None else read_aliases(self.aliases),
            one_folder=images is not None,
            single_label=self.single_label,
            images=images,
        )


def is_path(key: str, value: object) -> bool:
    """Whether what a key is set to leads to a file or folder, or to several."""
    elsewhere = isinstance(value, str) and is_address(value)
    is_word = (key, value) == ("groups", GROUPS_BY_FOLDER) or (key == "prior" and value in PRIORS)
    return key in PATHS and not elsewhere and not is_word


def read_keys(path: str | Path | None, flags: Mapping[str, Any]) -> dict[str, Any]:
    """The keys of a TOML file, whose paths are relative to it, overridden by flags."""
    return merge_keys({} if path is None else _keys_of_file(Path(path)), flags)


def merge_keys(before: Mapping[str, Any], keys: Mapping[str, Any]) -> dict[str, Any]:
    """Keys over those before them; options of the method are merged one by one."""
    options = {**before.get("options", {}), **keys.get("options", {})}
    return {**before, **keys, **({"options": options} if options else {})}


def _keys_of_file(path: Path) -> dict[str, Any]:
    try:
        with friendly_os_errors(path):
            values = tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except (ValueError, RecursionError) as problem:
        raise InputError(f"{path}: not valid TOML ({problem})") from None

    def next_to_file(value: Any) -> Any:  # addresses and wrong values stay as they are
        if isinstance(value, list):
            return [next_to_file(item) for item in value]
        is_local = isinstance(value, str) and value and not is_address(value)
        return str(path.parent / value) if is_local else value

    for name in PATHS & set(values):
        if is_path(name, values[name]):
            values[name] = next_to_file(values[name])
    if not isinstance(values.get("options", {}), dict):
        raise InputError(f"{path}: options: expected a table [options] of key = value lines")
    return values


def is_inside(tracker: str) -> bool:
    """Whether a tracker writes into the run folder only."""
    return tracker == "tensorboard"


def check_inside(trackers: Iterable[str]) -> None:
    """Reject trackers of a run.json that write elsewhere: the folder may be a stranger's."""
    for name in trackers:
        if not is_inside(name):
            raise InputError(
                f"log_with: run.json names {name!r}, which writes outside of the run folder; give "
                f"--log-with {quoted(name)} to resume with it, or --log-with none"
            )
