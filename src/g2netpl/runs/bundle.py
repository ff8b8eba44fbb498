"""A bundle: a classifier as one ONNX file that needs nothing else, here or on Hugging Face's hub.

Input `pixels`: (batch, size, size, 3) bytes, RGB, images squashed to a square as in training; mean
and standard deviation are part of the graph. Output `scores`: (batch, classes) in [0, 1]. The
metadata of the file have the rest as JSON under the key `g2netpl`: classes, image size,
calibration, thresholds, what was trained on what (`Contents`).

On the hub, model.onnx is the bundle, README.md its card and config.json has the classes.
huggingface_hub takes the token from HF_TOKEN or its own login; it is in no message and no file.
"""

import hashlib
import json
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Self

import numpy as np
import numpy.typing as npt
import torch
from huggingface_hub import HfApi, get_token, hf_hub_download
from huggingface_hub.utils import validate_repo_id  # type: ignore[attr-defined]
from pydantic import Field, field_validator, model_validator
from torch import Tensor

from g2netpl.images.features import OnBatch, compute_rows
from g2netpl.images.loader import ImageSource, Rows
from g2netpl.labels.io.options import class_problem
from g2netpl.runs.classifier import Classifier
from g2netpl.runs.thresholds import Number, Thresholds
from g2netpl.utils.arrays import Scores, first_line
from g2netpl.utils.errors import InputError
from g2netpl.utils.files import friendly_os_errors
from g2netpl.utils.options import parse_record

KEY = "g2netpl"
INPUT, OUTPUT = "pixels", "scores"
LARGEST = 2**31 - 1  # bytes of a protobuf message

MODEL, CARD, CONFIG = "model.onnx", "README.md", "config.json"
SCHEME = "hf://"
_ROUNDING = 1e-6  # by which a score may leave [0, 1]
_NOWHERE = os.path.join(os.devnull, "none")  # a folder in which no file can ever be


Whole = Annotated[int, Field(strict=True)]


class Contents(Thresholds):
    """What the metadata of a bundle say."""

    format: Whole = Field(default=2, ge=2, le=2)
    classes: tuple[str, ...] = Field(min_length=1)
    image_size: Whole = Field(gt=0, le=8_192)
    mean: tuple[Number, ...] = Field(min_length=3, max_length=3)
    std: tuple[Number, ...] = Field(min_length=3, max_length=3)
    training: dict[str, Any]

    @field_validator("classes")
    @classmethod
    def _distinct_names(cls, names: tuple[str, ...]) -> tuple[str, ...]:
        for problem in filter(None, map(class_problem, names)):
            raise ValueError(problem)
        if len(set(names)) < len(names):
            raise ValueError("a class is listed twice")
        return names

    @model_validator(mode="after")
    def _one_threshold_per_class(self) -> Self:
        if len(self.per_class) != len(self.classes):
            raise ValueError(f"expected {len(self.classes)} thresholds, got {len(self.per_class)}")
        return self


@dataclass(frozen=True)
class Bundle(Classifier):
    """A classifier from a bundle, ready to run."""

    path: Path
    contents: Contents
    session: Any
    sha256: str  # of the file

    @property
    def classes(self) -> tuple[str, ...]:
        """The names of the classes, in the order of the scores."""
        return self.contents.classes

    @property
    def digest(self) -> str:
        """SHA-256 of the file."""
        return self.sha256

    @cached_property
    def thresholds(self) -> Thresholds:
        """Calibration and thresholds."""
        names = set(Thresholds.model_fields)
        return Thresholds(**self.contents.model_dump(include=names, by_alias=True))

    @property
    def pixels(self) -> tuple[int, Sequence[float], Sequence[float]]:
        """Pixels a side of its images; the graph normalises them."""
        return self.contents.image_size, (0.0,) * 3, (1 / 255,) * 3

    def score_source(self, source: ImageSource, on_batch: OnBatch, count: int) -> Scores:
        """Scores of a source of images."""

        def compute(_: Rows, images: Tensor) -> Tensor:
            pixels = images.nan_to_num().round().to(torch.uint8).permute(0, 2, 3, 1)
            scores = torch.from_numpy(self._score(pixels.contiguous().numpy()))
            scores[images[:, 0, 0, 0].isnan()] = torch.nan
            return scores

        return compute_rows(compute, source, "cpu", on_batch=on_batch)

    def _score(self, pixels: npt.NDArray[np.uint8]) -> Scores:
        """The scores (B, L) of a batch, checked."""
        try:
            (found,) = self.session.run([OUTPUT], {INPUT: pixels})
        except Exception as problem:  # onnxruntime has many kinds, derived from Exception only
            raise _unusable(self.path, problem) from None
        scores: Scores = np.asarray(found)
        expected = (len(pixels), len(self.classes))
        if scores.shape != expected or scores.dtype != np.float32:
            raise InputError(
                f"{self.path}: expected float32 scores of shape {expected}, got {scores.dtype} "
                f"of {scores.shape}; not a bundle of g2netpl export"
            )
        clipped = scores.clip(0, 1)
        wrong = scores[~(np.abs(scores - clipped) <= _ROUNDING)]
        if len(wrong):
            raise InputError(f"{self.path}: expected scores between 0 and 1, got {wrong[0]:g}")
        return clipped


def load_bundle(path: str | Path) -> Bundle:
    """Load a bundle: a file, a folder as on the Hugging Face hub, or hf://OWNER/NAME from there."""
    import onnxruntime

    path = bundle_file(path)
    with friendly_os_errors(path):
        if path.exists() and not path.is_file():
            raise InputError(f"{path}: not a regular file")
        if path.stat().st_size > LARGEST:
            raise InputError(f"{path}: not a bundle of g2netpl, which has 2 GB at most")
        content = path.read_bytes()
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4  # problems are reported below, in one line
    options.intra_op_num_threads = torch.get_num_threads()
    options.add_session_config_entry("session.load_model_format", "ONNX")
    options.add_session_config_entry(
        "session.model_external_initializers_file_folder_path", _NOWHERE
    )
    try:
        session = onnxruntime.InferenceSession(
            content, options, providers=["CPUExecutionProvider"], enable_fallback=0
        )
        metadata = session.get_modelmeta().custom_metadata_map
    except Exception as problem:
        raise _unusable(path, problem) from None
    if KEY not in metadata:
        raise InputError(f"{path}: not a bundle of g2netpl; g2netpl export RUN makes one")
    values = parse_record(dict[str, Any], metadata[KEY], f"{path}: metadata")
    contents = Contents.read(values, str(path))
    size, shape = contents.image_size, session.get_inputs()[0].shape[1:]
    if [*shape] != [size, size, 3]:
        raise InputError(
            f"{path}: records {size} px, but its network takes {shape}; export it again"
        )
    return Bundle(path, contents, session, hashlib.sha256(content).hexdigest())


def _unusable(path: Path, problem: Exception) -> InputError:
    return InputError(f"{path}: cannot be used by onnxruntime ({first_line(problem)})")


def config_text(classes: Sequence[str], image_size: int, single_label: bool) -> str:
    """config.json: the classes as the hub's other classifiers name them."""
    about = {
        "library_name": "g2netpl",
        "problem_type": f"{'single' if single_label else 'multi'}_label_classification",
        "image_size": image_size,
        "id2label": dict(enumerate(classes)),
        "label2id": {name: number for number, name in enumerate(classes)},
    }
    return json.dumps(about, indent=2, ensure_ascii=False) + "\n"


def is_bundle(name: str) -> bool:
    """Whether a classifier is a bundle: a file, a folder of the hub's layout, or on the hub."""
    is_file = os.path.isfile(name) or os.path.isfile(os.path.join(name, MODEL))
    return is_file or name.lower().endswith(".onnx") or name.startswith(SCHEME)


def bundle_file(name: str | Path) -> Path:
    """Where the file of a bundle is; one on the hub, hf://OWNER/NAME[@REVISION], is fetched."""
    text = os.fspath(name)
    if not text.startswith(SCHEME):
        return Path(text, MODEL) if os.path.isfile(os.path.join(text, MODEL)) else Path(text)
    repository, _, revision = text.removeprefix(SCHEME).partition("@")
    with _friendly_hub_errors(text):
        return Path(hf_hub_download(repository, MODEL, revision=revision or None))


def check_login(name: str) -> None:
    """Report before the work an odd name, or that nobody is logged in."""
    with _friendly_hub_errors(name):
        validate_repo_id(name)
    if get_token() is None:
        raise InputError(f"{name}: not logged in to the hub; hf auth login, or set HF_TOKEN")


def push(folder: Path, name: str) -> str:
    """Upload card, bundle and classes to a repository, private if new; returns its address."""
    hub = HfApi()
    with _friendly_hub_errors(name):
        hub.create_repo(name, private=True, exist_ok=True)
        files = [CARD, CONFIG, MODEL]
        hub.upload_folder(repo_id=name, folder_path=folder, allow_patterns=files)
    return f"{hub.endpoint}/{name}"


@contextmanager
def _friendly_hub_errors(name: str) -> Iterator[None]:
    """An error of the hub or of the network becomes one line, without the token."""
    try:
        yield
    except Exception as problem:  # of the hub, its client, or the network: many kinds
        text = " ".join(str(problem).split())[:300] or type(problem).__name__
        text = text.replace(get_token() or "\0", "…")
        raise InputError(f"{name}: the request to the hub failed ({text})") from None
