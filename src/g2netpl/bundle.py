"""A bundle: a classifier as one ONNX file, which runs without torch and needs nothing beside it.

Input `pixels`: (batch, size, size, 3) bytes, RGB, images squashed to a square as in training; the
scaling by mean and deviation is part of the graph. Output `scores`: (batch, classes) of the network
in [0, 1]. Under the key `g2netpl` the metadata of the file have the rest as JSON: classes, image
size, calibration, thresholds, what was trained on what (`Contents`). The last entry of the file is
the SHA-256 of everything before it, so a damaged file is told from a whole one.
"""

import hashlib
import json
import os
import signal
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
from pydantic import Field

from g2netpl.decisions import Decisions
from g2netpl.errors import InputError
from g2netpl.evaluation import Scores
from g2netpl.images import Pixels, check_bad, open_image, squash
from g2netpl.options import Options

KEY, SEAL = "g2netpl", b"g2netpl.sha256"
INPUT, OUTPUT = "pixels", "scores"

_BATCH = 16
_WORTH_PROCESSES = 200  # images; for fewer, starting processes takes longer than it saves


class Contents(Options):
    """What the metadata of a bundle say."""

    format: Literal[1] = 1
    classes: tuple[str, ...] = Field(min_length=1)
    image_size: int = Field(gt=0)
    mean: tuple[float, ...] = Field(min_length=3, max_length=3)
    std: tuple[float, ...] = Field(min_length=3, max_length=3)
    temperature: float = Field(gt=0)
    shift: float
    thresholds: tuple[float | None, ...]
    rule: str
    basis: str
    training: dict[str, Any]

    @property
    def decisions(self) -> Decisions:
        """Calibration and thresholds."""
        return Decisions(self.temperature, self.shift, self.thresholds, self.rule, self.basis)


@dataclass(frozen=True)
class Bundle:
    """A classifier from a bundle, ready to run."""

    path: Path
    contents: Contents
    session: Any

    @property
    def classes(self) -> tuple[str, ...]:
        """The names of the classes, in the order of the scores."""
        return self.contents.classes

    @property
    def decisions(self) -> Decisions:
        """Calibration and thresholds."""
        return self.contents.decisions

    def predict(
        self,
        paths: str | Path | Sequence[str | Path],
        workers: int = 0,
        max_bad: int = 0,
        on_batch: Callable[[int], None] | None = None,
    ) -> Scores:
        """Calibrated scores (N, L) in [0, 1] for image files, or for one.

        Up to `max_bad` files may be unreadable; their scores are NaN.
        """
        names = [os.fspath(path) for path in ([paths] if isinstance(paths, str | Path) else paths)]
        return self.decisions.calibrate(self.scores(names, workers, max_bad, on_batch))

    def scores(
        self,
        paths: Sequence[str],
        workers: int = 0,
        max_bad: int = 0,
        on_batch: Callable[[int], None] | None = None,
    ) -> Scores:
        """What the network says, before calibration."""
        scores = np.full((len(paths), len(self.classes)), np.nan, dtype=np.float32)
        bad: list[str] = []
        done = 0
        for pixels, problems in _read_ahead(paths, self.contents.image_size, workers):
            bad += problems.values()
            check_bad(bad, max_bad)
            readable = [place for place in range(len(pixels)) if place not in problems]
            if readable:
                rows = np.array(readable) + done
                scores[rows] = self.session.run([OUTPUT], {INPUT: pixels[readable]})[0]
            done += len(pixels)
            if on_batch is not None:
                on_batch(len(pixels))
        return scores


def load_bundle(path: str | Path, threads: int | None = None) -> Bundle:
    """Load a bundle; `threads` is by default the number of cores that this process may use."""
    path = Path(path)
    try:
        content = path.read_bytes()
    except OSError as problem:
        raise InputError(f"{path}: cannot be read ({problem.strerror})") from None
    return open_bundle(content, path, threads)


def open_bundle(content: bytes, path: Path, threads: int | None = None) -> Bundle:
    """The bundle with this content; `path` is its name in messages."""
    import onnxruntime

    body = content[: -len(seal(b""))]
    if content != body + seal(body):
        what = (
            "damaged, or changed by another program (its SHA-256 differs); copy or export it again"
            if SEAL in content
            else "not a bundle of g2netpl, or cut off; g2netpl export RUN makes one"
        )
        raise InputError(f"{path}: {what}")
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4  # what is wrong is told below, in one line
    options.intra_op_num_threads = threads or _cores()
    try:
        session = onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
        text = session.get_modelmeta().custom_metadata_map.get(KEY, "")
        values = json.loads(text)
    except Exception as problem:  # onnxruntime has many kinds, derived from Exception alone
        first = str(problem).strip().partition("\n")[0]
        raise InputError(f"{path}: cannot be used by onnxruntime ({first})") from None
    if not isinstance(values, dict):
        raise InputError(f"{path}: expected a JSON object in its metadata, got {text[:40]!r}")
    contents = Contents.read(values, str(path))
    _check_shapes(path, contents, session)
    return Bundle(path, contents, session)


def seal(body: bytes) -> bytes:
    """One more entry of an ONNX file's metadata, with the SHA-256 of the file so far.

    A file of ONNX is a protobuf message: fields may follow in any order, and 14 is the metadata.
    """
    digest = hashlib.sha256(body).hexdigest().encode()
    entry = b"".join(bytes([tag, len(text)]) + text for tag, text in ((0x0A, SEAL), (0x12, digest)))
    return bytes([14 << 3 | 2, len(entry)]) + entry


def _check_shapes(path: Path, contents: Contents, session: Any) -> None:
    """See that the graph takes and gives what the metadata promise."""
    size, classes = contents.image_size, len(contents.classes)
    for what, nodes, name, kind, shape in (
        ("input", session.get_inputs(), INPUT, "tensor(uint8)", [size, size, 3]),
        ("output", session.get_outputs(), OUTPUT, "tensor(float)", [classes]),
    ):
        got = [(node.name, node.type, node.shape[1:]) for node in nodes]
        if got != [(name, kind, shape)]:
            raise InputError(f"{path}: expected {what} {name} {kind} {shape}, got {got}")
    if len(contents.thresholds) != classes:
        raise InputError(f"{path}: expected {classes} thresholds, got {len(contents.thresholds)}")


class _Read(NamedTuple):
    """(B, size, size, 3) bytes, and what was wrong with which of them."""

    pixels: Pixels
    problems: dict[int, str]


def _read(paths: Sequence[str], size: int) -> _Read:
    pixels = np.zeros((len(paths), size, size, 3), dtype=np.uint8)
    problems = {}
    for place, path in enumerate(paths):
        try:
            pixels[place] = squash(open_image(path, size), size)
        except InputError as problem:
            problems[place] = str(problem)
    return _Read(pixels, problems)


def _read_ahead(paths: Sequence[str], size: int, workers: int) -> Iterator[_Read]:
    """Batches of images in order, read by other processes a few batches ahead."""
    parts = [paths[start : start + _BATCH] for start in range(0, len(paths), _BATCH)]
    if workers == 0 or len(paths) < _WORTH_PROCESSES:
        yield from (_read(part, size) for part in parts)
        return
    waiting: deque[Future[_Read]] = deque()
    quiet = (signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the main process
    with ProcessPoolExecutor(workers, get_context("spawn"), signal.signal, quiet) as pool:
        try:
            for part in parts:
                waiting.append(pool.submit(_read, part, size))
                if len(waiting) > 2 * workers:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            pool.shutdown(wait=False, cancel_futures=True)


def _cores() -> int:
    """Cores that this process may use, which onnxruntime would not ask."""
    allowed = getattr(os, "sched_getaffinity", None)
    return len(allowed(0)) if allowed is not None else os.cpu_count() or 1
