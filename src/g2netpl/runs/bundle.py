"""A bundle: a classifier as one ONNX file, which runs without torch and needs nothing beside it.

Input `pixels`: (batch, size, size, 3) bytes, RGB, images squashed to a square as in training; the
scaling by mean and deviation is part of the graph. Output `scores`: (batch, classes) of the network
in [0, 1]. Under the key `g2netpl` the metadata of the file have the rest as JSON: classes, image
size, calibration, thresholds, what was trained on what (`Contents`).
"""

import hashlib
import math
import os
import threading
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from multiprocessing import get_context, parent_process
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import numpy as np
from pydantic import AfterValidator, Field

from g2netpl.images.pixels import Pixels, check_unreadable, load_resized
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
from g2netpl.utils.signals import leave_terminal_to_parent

KEY = "g2netpl"
INPUT, OUTPUT = "pixels", "scores"

_BATCH = 16
_WORTH_PROCESSES = 200  # images; for fewer, starting processes takes longer than it saves
_LARGEST = 2**31 - 1  # bytes of a protobuf message
_ROUNDING = 1e-6  # by which a score may leave [0, 1]
_NOWHERE = os.path.join(os.devnull, "none")  # a folder in which no file can ever lie


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


_End = tuple[str, str, list[Any]]  # name, type and shape of an input or output


class Contents(Options):
    """What the metadata of a bundle say."""

    format: Whole = Field(default=1, ge=1, le=1)
    classes: Annotated[tuple[str, ...], Field(min_length=1), AfterValidator(_class_names)]
    image_size: Whole = Field(gt=0, le=math.isqrt(MAX_PIXELS))
    mean: tuple[Number, ...] = Field(min_length=3, max_length=3)
    std: tuple[Number, ...] = Field(min_length=3, max_length=3)
    temperature: Number = Field(ge=1e-3, le=1e3)
    shift: Number = Field(ge=-1e3, le=1e3)
    thresholds: tuple[Number | None, ...]
    rule: Text
    basis: Text
    by_draw: bool = False
    grounds: tuple[Text, ...] = ()
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
        """What the network says of lists of image files, one after the other."""
        lengths: deque[int] = deque()  # of lists that are read, and not scored yet
        size = self.contents.image_size
        batch = max(1, min(_BATCH, MAX_PIXELS // size**2))

        def batches() -> Iterator[Sequence[str]]:
            for paths in lists:
                lengths.append(len(paths))
                yield from (paths[start : start + batch] for start in range(0, len(paths), batch))

        made, bad = list[Scores](), list[str]()
        for pixels, problems in _read_ahead(
            batches(), size, workers if count >= _WORTH_PROCESSES else 0
        ):
            bad += problems.values()
            check_unreadable(bad, lengths[0] if max_unreadable is None else max_unreadable)
            made.append(np.full((len(pixels), len(self.classes)), np.nan, dtype=np.float32))
            readable = [place for place in range(len(pixels)) if place not in problems]
            if readable:
                made[-1][readable] = self._answers(pixels[readable])
            if on_batch is not None:
                on_batch(len(pixels))
            if sum(map(len, made)) == lengths[0]:
                yield np.concatenate(made)
                lengths.popleft()
                made, bad = [], []

    def _answers(self, pixels: Pixels) -> Scores:
        """The scores (B, L) of a batch, if they are such."""
        try:
            (scores,) = self.session.run([OUTPUT], {INPUT: pixels})
        except Exception as problem:  # onnxruntime has many kinds, derived from Exception alone
            raise _unusable(self.path, problem) from None
        answers: Scores = np.asarray(scores)
        expected = (len(pixels), len(self.classes))
        if answers.shape != expected or answers.dtype != np.float32:
            raise InputError(
                f"{self.path}: expected float32 scores of shape {expected}, got {answers.dtype} "
                f"of {answers.shape}; not a bundle of g2netpl export"
            )
        clipped = answers.clip(0, 1)
        wrong = answers[~(np.abs(answers - clipped) <= _ROUNDING)]
        if len(wrong):
            raise InputError(f"{self.path}: expected scores between 0 and 1, got {wrong[0]:g}")
        return clipped


def load_bundle(path: str | Path, threads: int | None = None) -> Bundle:
    """Load a bundle: a file, a folder as on Hugging Face's hub, or hf://OWNER/NAME from there.

    `threads` is by default the number of cores that this process may use.
    """
    path = bundle_file(path)
    with friendly_os_errors(path):
        if path.exists() and not path.is_file():
            raise InputError(f"{path}: not a regular file")
        if path.stat().st_size > _LARGEST:
            raise InputError(f"{path}: not a bundle of g2netpl, which has 2 GB at most")
        content = path.read_bytes()
    return open_bundle(content, path, threads)


def open_bundle(content: bytes, path: Path, threads: int | None = None) -> Bundle:
    """The bundle with this content; `path` is its name in messages."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4  # what is wrong is told below, in one line
    options.intra_op_num_threads = threads or _cores()
    options.add_session_config_entry("session.load_model_format", "ONNX")
    options.add_session_config_entry(
        "session.model_external_initializers_file_folder_path", _NOWHERE
    )
    try:
        session = onnxruntime.InferenceSession(
            content, options, providers=["CPUExecutionProvider"], enable_fallback=0
        )
        ends = _ends(session.get_inputs()), _ends(session.get_outputs())
        metadata = session.get_modelmeta().custom_metadata_map
    except Exception as problem:
        raise _unusable(path, problem) from None
    if KEY not in metadata:
        raise InputError(f"{path}: not a bundle of g2netpl; g2netpl export RUN makes one")
    contents = _contents(metadata[KEY], path)
    _check_shapes(path, contents, *ends)
    return Bundle(path, contents, session, hashlib.sha256(content).hexdigest())


def _contents(text: str, path: Path) -> Contents:
    """What the metadata say."""
    values = parse_json(text, f"{path}: its metadata cannot be used", Issues())
    if not isinstance(values, dict):
        raise InputError(f"{path}: expected a JSON object in its metadata, got {text[:40]!r}")
    return Contents.read(values, str(path))


def _unusable(path: Path, problem: Exception) -> InputError:
    first = str(problem).strip().partition("\n")[0][:500]
    shown = first if first.isprintable() else ascii(first)
    return InputError(f"{path}: cannot be used by onnxruntime ({shown})")


def _ends(nodes: list[Any]) -> list[_End]:
    """Inputs or outputs of a graph; a first side that is free, under whatever name, is `batch`."""

    def any_batch(first: Any, *rest: Any) -> list[Any]:
        return [first if isinstance(first, int) else "batch", *rest]

    return [(node.name, node.type, any_batch(*node.shape) if node.shape else []) for node in nodes]


def _check_shapes(path: Path, contents: Contents, inputs: list[_End], outputs: list[_End]) -> None:
    """See that the graph takes and gives what the metadata promise."""
    size, classes = contents.image_size, len(contents.classes)
    for what, got, name, kind, shape in (
        ("input", inputs, INPUT, "tensor(uint8)", ["batch", size, size, 3]),
        ("output", outputs, OUTPUT, "tensor(float)", ["batch", classes]),
    ):
        if got != [(name, kind, shape)]:
            raise InputError(f"{path}: expected {what} {name} {kind} {shape}, got {got!r:.200}")
    if len(contents.thresholds) != classes:
        raise InputError(f"{path}: expected {classes} thresholds, got {len(contents.thresholds)}")
    if len(contents.grounds) not in (0, classes):
        raise InputError(f"{path}: expected {classes} grounds, got {len(contents.grounds)}")


class _Read(NamedTuple):
    """(B, size, size, 3) bytes, and what was wrong with which of them."""

    pixels: Pixels
    problems: dict[int, str]


def _read(paths: Sequence[str], size: int) -> _Read:
    pixels = np.zeros((len(paths), size, size, 3), dtype=np.uint8)
    problems = {}
    for place, path in enumerate(paths):
        try:
            pixels[place] = load_resized(path, size)
        except InputError as problem:
            problems[place] = str(problem)
    return _Read(pixels, problems)


def _read_ahead(batches: Iterator[Sequence[str]], size: int, workers: int) -> Iterator[_Read]:
    """Batches of images in order, read by other processes a few batches ahead."""
    if workers == 0:
        yield from (_read(paths, size) for paths in batches)
        return
    waiting: deque[Future[_Read]] = deque()
    workers = min(workers, 61)
    with ProcessPoolExecutor(workers, get_context("spawn"), _begin_reading) as pool:
        try:
            for paths in batches:
                waiting.append(pool.submit(_read, paths, size))
                if len(waiting) > 2 * workers:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            pool.shutdown(wait=False, cancel_futures=True)


def _begin_reading() -> None:
    """Ctrl-C is for the main process; where that is killed, its readers end as well."""
    leave_terminal_to_parent()
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _cores() -> int:
    """Cores that this process may use, which onnxruntime would not ask; launchers say a number."""
    told = os.environ.get("OMP_NUM_THREADS", "")
    if told.isdecimal() and int(told):
        return int(told)
    allowed = getattr(os, "sched_getaffinity", None)
    return len(allowed(0)) if allowed is not None else os.cpu_count() or 1
