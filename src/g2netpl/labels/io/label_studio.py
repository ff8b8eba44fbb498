"""Label Studio tasks as JSON: annotations in, and proposed labels out as predictions.

In a task every choice (and the label of every box or polygon) of a person is positive; choices of
a control called `absent` are negative; the rest is unobserved, or with `absent = negative` negative
if the task was annotated. Predictions of models are not observations and are ignored.

An image is named by an address: an upload, a file below the root of the local files, an object in
a bucket or on a web server, or a plain name. Nothing is fetched from there: an address gives the
name of a file of ours. JSON-MIN, the flat export, does not say what is a choice: it is rejected.
"""

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Self
from urllib.parse import parse_qs, quote, unquote, urlsplit

import numpy as np
import numpy.typing as npt
from pydantic import AliasChoices, BaseModel, Field, model_validator

from g2netpl.labels.io.build import long_table
from g2netpl.labels.io.issues import Issues, beginning, read_json
from g2netpl.labels.io.options import ReadOptions, silent_classes
from g2netpl.labels.io.tables import names_of
from g2netpl.labels.names import FileIndex, plain_name, plain_names
from g2netpl.labels.paths import SUFFIXES
from g2netpl.labels.table import NEGATIVE, POSITIVE, UNOBSERVED, LabelTable
from g2netpl.utils.arrays import Scores
from g2netpl.utils.errors import InputError, counted
from g2netpl.utils.files import write_text

_ABSENT = "absent"  # a control of this name says what is not in the picture
_CONTROL = ("label", "image")  # of tasks that we make: the control, and what it is for
_IMAGE = re.compile(rf"({'|'.join(map(re.escape, SUFFIXES))})(\?|$)", re.IGNORECASE)
_REMOTE = ("http", "https", "s3", "gs", "azure-blob")


class _Result(BaseModel):
    type: str
    from_name: str | None = None
    to_name: str | None = None
    value: dict[str, Any] = {}

    @property
    def names(self) -> list[str]:
        """The classes: the choices, or the labels of a box, a polygon or a brush."""
        has_names = self.type == "choices" or self.type.endswith("labels")
        return list(self.value.get(self.type, ())) if has_names else []


class _Annotation(BaseModel):
    result: list[_Result] = []
    was_cancelled: bool | None = None


class _Task(BaseModel):
    data: dict[str, Any] = {}
    annotation_id: Any = None
    annotations: list[_Annotation] | None = Field(
        None, validation_alias=AliasChoices("annotations", "completions")
    )
    path: str = ""  # of the image, without what is before it in the address
    name: str = ""  # of the image, if no other has the same

    @model_validator(mode="after")
    def _find_image(self) -> Self:
        """The image is under `image`, or else in the only text that names an image."""
        if self.annotation_id is not None:
            raise ValueError("this is JSON-MIN; export the project as JSON")
        texts = [value for value in self.data.values() if isinstance(value, str)]
        images = [text for text in texts if _IMAGE.search(text)]
        found = [self.data["image"]] if "image" in self.data else images or texts
        if len(found) != 1 or not isinstance(found[0], str) or not found[0].strip():
            raise ValueError("expected the image's name in 'data', as {'image': name}")
        parts = urlsplit(found[0])
        self.path = self.name = found[0]
        if parts.path.endswith("local-files/") and "d" in parse_qs(parts.query):
            self.path = self.name = parse_qs(parts.query)["d"][0]
        elif parts.scheme in _REMOTE or parts.path.startswith("/data/upload/"):
            self.name = self.path = unquote(parts.path.rpartition("/")[2])
            if not parts.path.startswith("/data/upload/"):
                self.path = unquote(parts.path).lstrip("/")
        return self

    @property
    def results(self) -> list[_Result] | None:
        """What people annotated; None if they skipped the image."""
        done = [each for each in self.annotations or () if not each.was_cancelled]
        return [result for each in done for result in each.result] if done else None


def can_read(path: Path) -> bool:
    """A JSON file that is a list."""
    return path.suffix.lower() == ".json" and beginning(path).startswith("[")


def read(path: Path, options: ReadOptions) -> LabelTable:
    """Read tasks; issues name the task's place in the file, from 0."""
    issues = Issues()
    tasks: list[_Task] = read_json(path, issues, list[_Task], "Label Studio")
    is_unique = len({task.name for task in tasks}) == len({task.path for task in tasks})
    names = plain_names([task.name if is_unique else task.path for task in tasks])
    found = [
        (row, name, NEGATIVE if result.from_name == _ABSENT else POSITIVE)
        for row, task in enumerate(tasks)
        for result in task.results or ()
        for name in result.names
    ]
    where = f"{path}: [{{}}]".format
    table = long_table(names, found, where, issues, options.classes, UNOBSERVED)
    if options.absent == "negative":
        annotated = {
            name for name, task in zip(names, tasks, strict=True) if task.results is not None
        }
        is_annotated = np.array([name in annotated for name in table.images])
        unknown = (table.values == UNOBSERVED) & is_annotated[:, None]
        table = table.with_values(np.where(unknown, NEGATIVE, table.values))
    return table


def write(table: LabelTable, path: Path) -> list[str]:
    """Write a task per image; what is known goes into annotations."""
    _write(path, [*_new_tasks(table)])
    return silent_classes(table)


def propose(
    table: LabelTable,
    path: Path,
    new: npt.NDArray[np.bool_],
    scores: Scores,
    version: str,
    project: Path | None,
) -> list[str]:
    """Write what a model predicts for each image, for the tasks of a project or for new ones.

    `new` are positives that nobody observed, `project` is a file of tasks. A task of a project
    keeps its id and data, and is a prediction of that id as well: Label Studio takes the same file
    as new tasks, and as predictions for those that it has. Returns notes.
    """
    tasks, control, notes = list(_new_tasks(table)), _CONTROL, list[str]()
    rows: list[int | None] = list(range(len(table)))
    if project is not None:
        tasks, known = (read_json(project, Issues(), kind) for kind in (Any, list[_Task]))
        index = FileIndex(table.images)
        row_of = {name: row for row, name in enumerate(table.images)}
        rows = [row_of.get(_image_at(task.path, index)) for task in known]
        if None in rows:
            unknown = counted(rows.count(None), "task")
            notes.append(f"{unknown} with images that the run does not know")
        controls = [
            (result.from_name, result.to_name)
            for task in known
            for result in task.results or ()
            if result.type == "choices" and result.from_name != _ABSENT
        ]
        control = [*controls, _CONTROL][0]
        if not controls:
            notes.append(
                f"no annotation in {project} names the control, so predictions are for "
                '<Choices name="label" toName="image">; Label Studio ignores those for others'
            )
    written, names = [], np.array(table.classes, dtype=object)
    for task, row in zip(tasks, rows, strict=True):
        if row is None:
            continue
        is_there = (table.values[row] == POSITIVE) | new[row]
        results = []
        if is_there.any():
            lowest = round(float(scores[row][is_there].min()), 4)
            results.append({**_choices(names[is_there].tolist(), *control), "score": lowest})
        # the fraction of the labels that is expected to be right: Label Studio's uncertainty
        # sampling asks about the images with the lowest first
        known_scores = np.nan_to_num(scores[row], nan=0.5)
        score = round(float(np.where(is_there, known_scores, 1 - known_scores).mean()), 4)
        prediction = {"model_version": version, "score": score, "result": results}
        same = {} if project is None else {"task": task.get("id"), **prediction}
        written.append({**task, "predictions": [prediction], **same})
    if not written:
        raise InputError(f"{project}: its tasks show no image of the run, as {table.images[0]!r}")
    _write(path, written)
    return notes


def _image_at(path: str, index: FileIndex) -> str:
    """The image of ours that is meant; "" if there is none, or if it may be one of several."""
    parts = plain_name(path).split("/")
    meant = next(filter(None, (index.files(parts[start:]) for start in range(len(parts)))), [])
    return meant[0] if len(meant) == 1 else ""


def _new_tasks(table: LabelTable) -> Iterator[dict[str, Any]]:
    """Tasks for a new project."""
    signs = [names_of(table, sign) for sign in (POSITIVE, NEGATIVE)]
    for number, (name, *chosen) in enumerate(zip(table.images, *signs, strict=True), start=1):
        controls = zip((_CONTROL[0], _ABSENT), chosen, strict=True)
        known = [_choices(names, control, "image") for control, names in controls if names]
        task = {"id": number, "data": {"image": f"/data/local-files/?d={quote(name)}"}}
        yield {**task, "annotations": [{"result": known}]} if known else task


def _choices(names: Sequence[str], control: str, shown: str) -> dict[str, Any]:
    """The result of a control in which these classes are chosen."""
    value = {"choices": list(names)}
    return {"from_name": control, "to_name": shown, "type": "choices", "value": value}


def _write(path: Path, tasks: Iterable[dict[str, Any]]) -> None:
    write_text(path, json.dumps(list(tasks), ensure_ascii=False, indent=1) + "\n")
