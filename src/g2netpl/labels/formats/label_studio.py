"""Label Studio tasks as JSON: annotations in, and proposed labels out as predictions.

In a task every choice (and the label of every box or polygon) of a person is positive; choices of
a control called `absent` are negative; the rest is unobserved, or with `absent = negative` negative
where the task was annotated. Predictions of models are not observations and are passed over.

JSON-MIN, the flat export, does not say what is a choice and what is free text: it is refused.
"""

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from g2netpl.base.arrays import Scores
from g2netpl.base.disk import write_text_whole
from g2netpl.base.errors import InputError, counted
from g2netpl.labels.formats.collector import Collector
from g2netpl.labels.formats.json_file import member, read_json
from g2netpl.labels.formats.label_studio_tasks import (
    ABSENT,
    ImagesByAddress,
    address_in,
    image_name,
    labels_in,
    local_address,
    told_apart,
)
from g2netpl.labels.formats.problems import Problems
from g2netpl.labels.formats.reading import Reading, silent_classes
from g2netpl.labels.formats.text import beginning
from g2netpl.labels.table import NEGATIVE, POSITIVE, UNOBSERVED, LabelTable


@dataclass(frozen=True)
class Control:
    """A field where classes of an image are chosen."""

    name: str = "label"
    to_name: str = "image"

    def result(self, names: Sequence[str]) -> dict[str, Any]:
        """These classes, chosen."""
        return {
            "from_name": self.name,
            "to_name": self.to_name,
            "type": "choices",
            "value": {"choices": list(names)},
        }


def recognises(path: Path) -> bool:
    """A JSON file that is a list."""
    return path.suffix.lower() == ".json" and beginning(path).startswith("[")


def read(path: Path, reading: Reading) -> LabelTable:
    """Read tasks; mistakes are named by the task's place in the file."""
    problems = Problems()
    tasks = read_tasks(path, problems)
    collector = Collector(lambda place: f"{path}: task {place}", reading.classes, problems)
    shown: dict[int, tuple[str, str]] = {}  # task: image and its address
    for place, task in enumerate(tasks):
        with problems.kept():
            where = collector.at(place)
            address = address_in(member(task, "data", dict, where), where)
            shown[place] = image_name(address, where), address
    names = told_apart(*([pair[side] for pair in shown.values()] for side in (0, 1)))
    annotated: list[bool] = []
    for place, name in zip(shown, names, strict=True):
        with problems.kept():
            annotated.append(_read_task(tasks[place], place, name, collector))
    table = collector.table(UNOBSERVED)
    if reading.absent == "negative":
        values = table.values.copy()
        unknown = values == UNOBSERVED
        values[unknown & np.array(annotated, dtype=bool)[:, None]] = NEGATIVE
        table = table.with_values(values)
    return table


def read_tasks(path: Path, problems: Problems) -> list[Any]:
    """The tasks of a file."""
    tasks = read_json(path, problems)
    if not isinstance(tasks, list):
        raise InputError(f"{path}: expected a list of tasks")
    if any(isinstance(task, dict) and "annotation_id" in task for task in tasks):
        raise InputError(f"{path}: this is JSON-MIN; export the project as JSON")
    return tasks


def write(table: LabelTable, path: Path) -> list[str]:
    """Write a task per image; what is known goes into annotations."""
    _write(path, _made_up(table))
    return silent_classes(table)


def propose(
    table: LabelTable,
    path: Path,
    new: npt.NDArray[np.bool_],
    chances: Scores,
    version: str,
    folder: Path,
    project: Path | None,
) -> list[str]:
    """Write what a model says of each image, for the tasks of a project or for new ones.

    `new` are positives that nobody observed, `folder` is that of the images, `project` a file of
    tasks. A task of a project keeps its id and data, and is a prediction of that id as well: Label
    Studio takes the same file as new tasks, and as predictions for those that it has. Gives notes.
    """
    decided = (table.values == POSITIVE) | new
    tasks = list(_made_up(table)) if project is None else read_tasks(project, Problems())
    control = Control() if project is None else _control_in(tasks)
    images, said, left = ImagesByAddress(table.images, folder), [], 0
    for place, task in enumerate(tasks):
        where = f"{project}: task {place}"
        row = images.row(address_in(member(task, "data", dict, where), where), where)
        if row is None:
            left += 1
            continue
        says = prediction(control or Control(), table.classes, chances[row], decided[row], version)
        id = member(task, "id", int, where)
        same = {} if project is None else {"task": id, **says}
        said.append({**task, "predictions": [says], **same})
    if not said:
        raise InputError(f"{project}: its tasks show no image of the run, as {table.images[0]!r}")
    _write(path, said)
    notes = [] if not left else [f"{counted(left, 'task')} with images that the run does not know"]
    if control is None:
        notes.append(
            f"no annotation in {project} names the control; predictions are for <Choices "
            'name="label" toName="image">, and Label Studio leaves out what fits no control'
        )
    return notes


def prediction(
    control: Control,
    classes: Sequence[str],
    chances: Scores,
    decided: npt.NDArray[np.bool_],
    version: str,
) -> dict[str, Any]:
    """What a model says of an image.

    The score is the share of the labels that is expected to be right: Label Studio's uncertainty
    sampling asks about the lowest first.
    """
    certain = np.nan_to_num(chances, nan=0.5)
    score = _short(np.where(decided, certain, 1 - certain).mean())
    results = []
    if decided.any():
        names = [classes[column] for column in np.flatnonzero(decided).tolist()]
        results.append({**control.result(names), "score": _short(chances[decided].min())})
    return {"model_version": version, "score": score, "result": results}


def _short(chance: Any) -> float:
    return round(float(chance), 4)


def _made_up(table: LabelTable) -> Iterator[dict[str, Any]]:
    """Tasks for a new project."""
    for row, (name, values) in enumerate(zip(table.images, table.values, strict=True)):
        known = [
            Control(control).result([table.classes[at] for at in np.flatnonzero(values == value)])
            for control, value in (("label", POSITIVE), (ABSENT, NEGATIVE))
            if (values == value).any()
        ]
        task: dict[str, Any] = {"id": row + 1, "data": {"image": local_address(name)}}
        yield {**task, "annotations": [{"result": known}]} if known else task


def _write(path: Path, tasks: Iterable[dict[str, Any]]) -> None:
    text = json.dumps(list(tasks), ensure_ascii=False, indent=1)
    write_text_whole(path, text + "\n")


def _control_in(tasks: list[Any]) -> Control | None:
    """Where people have chosen classes; None if they have not."""
    for task in tasks:
        for annotation in _annotations(task, "") if isinstance(task, dict) else ():
            for item in annotation.get("result", ()) if isinstance(annotation, dict) else ():
                names = item.get("from_name"), item.get("to_name")
                if item.get("type") == "choices" and ABSENT not in names and all(names):
                    return Control(*names)
    return None


def _read_task(task: Any, place: int, name: str, collector: Collector) -> bool:
    """Collect the labels of a task; True where a person annotated it."""
    where = collector.at(place)
    row = collector.new_image(place, name)
    done = False
    for annotation in _annotations(task, where):
        skipped = isinstance(annotation, dict) and annotation.get("was_cancelled") is True
        done = done or not skipped
        for label, value in labels_in(annotation, where):
            collector.label(place, row, label, value)
    return done


def _annotations(task: dict[str, Any], where: str) -> list[Any]:
    key = "annotations" if "annotations" in task else "completions"
    found: list[Any] = [] if task.get(key) is None else member(task, key, list, where)
    return found
