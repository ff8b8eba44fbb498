"""What the JSON files of a run folder hold: checked here, once for everybody; see also tables.py.

What is missing, torn, or of another kind is one line that names the file.
"""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, NotRequired, TypeVar

from pydantic import FiniteFloat
from typing_extensions import TypedDict

from g2netpl.runs.folder import RUN, is_begun
from g2netpl.utils.errors import InputError
from g2netpl.utils.files import atomic_write, check_no_links
from g2netpl.utils.locks import LOCK
from g2netpl.utils.options import check_record, parse_record

RUN_FORMAT = 3

Content = dict[str, Any]
Figure = FiniteFloat | None
Record = TypeVar("Record")


class AnyRun(TypedDict):
    """run.json of any command."""

    format: Literal[3]
    command: str


class Data(TypedDict):
    """Data of a training run, in run.json."""

    fingerprints: dict[str, str]
    images: int
    training_images: int
    observed_fraction: FiniteFloat
    chosen_epoch: str
    earlier_model: str | None


class Training(AnyRun):
    """run.json of a training."""

    config: Content
    asked: Content  # keys as they were given, where config has what came of them
    versions: dict[str, str]
    data: Data
    classes: list[str]
    expected_positives: FiniteFloat
    annotation: Literal["sampled", "random", "complete"]
    resolved: Content  # what `auto` and `none` stand for
    weights: Content  # identity of the backbone's weights
    mean: list[FiniteFloat]
    std: list[FiniteFloat]


class Reading(TypedDict, total=False):
    """How far model and pseudo-labels are from an equilibrium, as far as it was measured."""

    undecided: float | None
    soft_positives: float | None
    soft_histogram: list[int] | None
    movement: float | None
    flips: float | None
    regret: float | None
    predicted_positives: float | None
    gradient_norm: float | None


class Epoch(Reading):
    """A line of history.jsonl."""

    epoch: int
    cost: NotRequired[float | None]
    validation_map: NotRequired[float | None]
    seconds: NotRequired[float | None]
    images_per_second: NotRequired[float | None]


class Figures(TypedDict):
    """What a training is called and what came of it, in a run folder as in a comparison."""

    method: str
    setting: str
    seed: int
    learning_rate: FiniteFloat
    batch_size: int
    weight: str
    validation_map: Figure
    test_map: Figure
    last_test_map: Figure
    pseudo_label_map: Figure
    undecided: Figure


class CellResult(Figures):
    """A row of a comparison."""

    best_epoch: int | None
    seconds: Figure


class Result(Figures):
    """result.json of a training, which took some time."""

    best_epoch: int
    seconds: FiniteFloat


class Metrics(TypedDict):
    """A part of evaluation.json."""

    average_precision: list[float | None]
    mean_average_precision: float | None
    mean_over_present: float | None
    precision: float | None
    recall: float | None
    f1: float | None
    accuracy: NotRequired[float | None]


class Evaluation(TypedDict):
    """evaluation.json: the figures of every class, on the parts that there are."""

    validation: NotRequired[Metrics]
    test: NotRequired[Metrics]


def read_run(folder: str | Path, kind: type[Any] = AnyRun) -> Content:
    """The content of run.json."""
    check_no_links(Path(folder))
    path = Path(folder) / RUN
    if not is_begun(Path(folder)):
        if (Path(folder) / LOCK).is_file():
            raise InputError(
                f"{folder}: nothing was saved there yet; run the command that began it again, "
                "unless it is still at work"
            )
        raise InputError(f"{folder}: no run folder ({RUN} is missing)")
    content = parse_record(dict[str, Any], path.read_bytes(), str(path))
    if content.get("format") in (1, 2):
        raise InputError(f"{path}: a run of g2netpl 0.2, which 1.0 cannot read; train again")
    if content.get("format") != RUN_FORMAT:
        raise InputError(f"{path}: expected a {RUN} of g2netpl, format {RUN_FORMAT}")
    check_record(AnyRun, content, str(path))
    check_record(kind, content, str(path))
    return content


def read_training(folder: str | Path) -> Content:
    """The content of run.json of a training, as opposed to a comparison or a demo."""
    content = read_run(folder)
    if content["command"] != "train":
        raise InputError(f"{folder}: was written by 'g2netpl {content['command']}', not by train")
    check_record(Training, content, str(Path(folder) / RUN))
    return content


def read_json(path: Path, kind: type[Record]) -> Record:
    """The content of a JSON file of a run."""
    try:
        return parse_record(kind, path.read_bytes(), f"{path}: cannot be read")
    except OSError as problem:
        raise InputError(f"{path}: cannot be read ({problem.strerror}); train again") from None
    except InputError as problem:
        raise InputError(f"{problem}; train again") from None


def write_history(path: Path, history: Sequence[Mapping[str, Any]]) -> None:
    """Write all epochs, a JSON object per line.

    Not down to the disk, which short epochs would have to wait for: checkpoints hold it too.
    """
    lines = "".join(json.dumps(record) + "\n" for record in history)
    with atomic_write(path, durable=False) as file:
        file.write(lines.encode())
