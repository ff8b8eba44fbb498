"""A bundle: a classifier as one ONNX file that needs nothing else.

Input `pixels`: (batch, size, size, 3) bytes, RGB, images squashed to a square as in training; mean
and standard deviation are part of the graph. Output `scores`: (batch, classes) in [0, 1]. The
metadata of the file have the rest as JSON under the key `g2netpl`: classes, image size,
calibration, thresholds, what was trained on what (`Contents`).
"""

import hashlib
import math
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import numpy.typing as npt
import torch
from pydantic import AfterValidator, Field

from g2netpl.images.loader import ImageSource, joined_sources, plain_groups
from g2netpl.labels.io.issues import Issues
from g2netpl.labels.io.options import class_problem
from g2netpl.labels.io.text import parse_json
from g2netpl.runs.classifier import Classifier, OnBatch
from g2netpl.runs.hub import bundle_file
from g2netpl.runs.thresholds import Thresholds
from g2netpl.utils.arrays import Scores
from g2netpl.utils.errors import InputError
from g2netpl.utils.files import friendly_os_errors
from g2netpl.utils.image_refs import MAX_PIXELS
from g2netpl.utils.options import Options

KEY = "g2netpl"
INPUT, OUTPUT = "pixels", "scores"
LARGEST = 2**31 - 1  # bytes of a protobuf message

_BATCH = 16
_ROUNDING = 1e-6  # by which a score may leave [0, 1]
_NOWHERE = os.path.join(os.devnull, "none")  # a folder in which no file can ever be
_UNSCALED = (0.0,) * 3, (1 / 255,) * 3  # mean and deviation with which pixels stay 0 to 255


def _plain_text(text: str) -> str:
    if not text.isprintable():
        raise ValueError("expected a line of plain text")
    return text


def _class_names(names: tuple[str, ...]) -> tuple[str, ...]:
    for problem in filter(None, map(class_problem, names)):
        raise ValueError(problem)
    for name in names:
        if names.count(name) > 1:
            raise ValueError(f"class {name!r:.60} is listed twice")
    return names


Number = Annotated[float, Field(strict=True)]
Whole = Annotated[int, Field(strict=True)]
Text = Annotated[str, Field(max_length=500), AfterValidator(_plain_text)]


class Contents(Options):
    """What the metadata of a bundle say."""

    format: Whole = Field(default=2, ge=2, le=2)
    classes: Annotated[tuple[str, ...], Field(min_length=1), AfterValidator(_class_names)]
    image_size: Whole = Field(gt=0, le=math.isqrt(MAX_PIXELS))
    mean: tuple[Number, ...] = Field(min_length=3, max_length=3)
    std: tuple[Number, ...] = Field(min_length=3, max_length=3)
    temperature: Number = Field(ge=1e-3, le=1e3)
    shift: Number = Field(ge=-1e3, le=1e3)
    thresholds: tuple[Number | None, ...]
    rule: Text
    basis: Text
    is_sampled: bool = False
    reasons: tuple[Text, ...] = ()
    single_label: bool = False
    training: dict[str, Any]


@dataclass(frozen=True)
class Bundle(Classifier):
    """A classifier from a bundle, ready to run."""

    path: Path
    contents: Contents
    session: Any
    sha256: str = ""  # of the file

    @property
    def classes(self) -> tuple[str, ...]:
        """The names of the classes, in the order of the scores."""
        return self.contents.classes

    @cached_property
    def thresholds(self) -> Thresholds:
        """Calibration and thresholds."""
        return Thresholds.from_json(self.contents.model_dump())

    @property
    def digest(self) -> str:
        """SHA-256 of the file."""
        return self.sha256

    def score_each(
        self,
        lists: Iterable[Sequence[str]],
        count: int,
        workers: int = 0,
        max_unreadable: int | None = None,
        on_batch: OnBatch = None,
    ) -> Iterator[Scores]:
        """Scores before calibration for lists of image files, one by one."""
        size = self.contents.image_size
        batch = max(1, min(_BATCH, MAX_PIXELS // size**2))

        def source(paths: Sequence[str]) -> ImageSource:
            most = len(paths) if max_unreadable is None else max_unreadable
            return ImageSource(paths, size, *_UNSCALED, workers=workers, max_unreadable=most)

        for part in joined_sources(lists, source):
            scores = np.full((len(part), len(self.classes)), np.nan, dtype=np.float32)
            groups = plain_groups(len(part), batch)
            for rows, images in zip(groups, part.load(groups, None), strict=True):
                readable = ~images[:, 0, 0, 0].isnan().numpy()
                if readable.any():
                    pixels = images[readable].round().to(torch.uint8).permute(0, 2, 3, 1)
                    scores[rows[readable]] = self._score(pixels.contiguous().numpy())
                if on_batch is not None:
                    on_batch(len(rows))
            yield scores

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


def load_bundle(path: str | Path, threads: int | None = None) -> Bundle:
    """Load a bundle: a file, a folder as on the Hugging Face hub, or hf://OWNER/NAME from there.

    `threads` is by default the number of cores that this process may use.
    """
    path = bundle_file(path)
    with friendly_os_errors(path):
        if path.exists() and not path.is_file():
            raise InputError(f"{path}: not a regular file")
        if path.stat().st_size > LARGEST:
            raise InputError(f"{path}: not a bundle of g2netpl, which has 2 GB at most")
        content = path.read_bytes()
    return open_bundle(content, path, threads)


def open_bundle(content: bytes, path: Path, threads: int | None = None) -> Bundle:
    """The bundle with this content; `path` is its name in messages."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4  # problems are reported below, in one line
    options.intra_op_num_threads = threads or torch.get_num_threads()
    options.add_session_config_entry("session.load_model_format", "ONNX")
    options.add_session_config_entry(
        "session.model_external_initializers_file_folder_path", _NOWHERE
    )
    try:
        session = onnxruntime.InferenceSession(
            content, options, providers=["CPUExecutionProvider"], enable_fallback=0
        )
        ends = [_ends(nodes) for nodes in (session.get_inputs(), session.get_outputs())]
        metadata = session.get_modelmeta().custom_metadata_map
    except Exception as problem:
        raise _unusable(path, problem) from None
    if KEY not in metadata:
        raise InputError(f"{path}: not a bundle of g2netpl; g2netpl export RUN makes one")
    values = parse_json(metadata[KEY], f"{path}: its metadata cannot be used", Issues())
    if not isinstance(values, dict):
        text = metadata[KEY][:40]
        raise InputError(f"{path}: expected a JSON object in its metadata, got {text!r}")
    contents = Contents.read(values, str(path))
    _check_shapes(path, contents, ends)
    return Bundle(path, contents, session, hashlib.sha256(content).hexdigest())


def _unusable(path: Path, problem: Exception) -> InputError:
    first = str(problem).strip().partition("\n")[0][:500]
    shown = first if first.isprintable() else ascii(first)
    return InputError(f"{path}: cannot be used by onnxruntime ({shown})")


def _ends(nodes: list[Any]) -> list[Any]:
    """Name, type and shape of inputs or outputs; a free first dimension is `batch`."""
    ends = []
    for node in nodes:
        first, *rest = node.shape or [0]
        ends.append((node.name, node.type, [first if isinstance(first, int) else "batch", *rest]))
    return ends


def _check_shapes(path: Path, contents: Contents, ends: list[list[Any]]) -> None:
    """See that the graph has the inputs and outputs that the metadata describe."""
    size, classes = contents.image_size, len(contents.classes)
    expected = (
        ("input", (INPUT, "tensor(uint8)", ["batch", size, size, 3])),
        ("output", (OUTPUT, "tensor(float)", ["batch", classes])),
    )
    for (what, wanted), found in zip(expected, ends, strict=True):
        if found != [wanted]:
            name, kind, shape = wanted
            raise InputError(f"{path}: expected {what} {name} {kind} {shape}, got {found!r:.200}")
    for what, count in (
        ("thresholds", len(contents.thresholds)),
        ("reasons", len(contents.reasons) or classes),
    ):
        if count != classes:
            raise InputError(f"{path}: expected {classes} {what}, got {count}")
