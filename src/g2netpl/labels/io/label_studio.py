"""Label Studio tasks as JSON: annotations in, and proposed labels out as predictions.

In a task every choice (and the label of every box or polygon) of a person is positive; choices of
a control called `absent` are negative; the rest is unobserved, or with `absent = negative` negative
if the task was annotated. Predictions of models are not observations and are ignored.

An image is named by an address: an upload, a file below the root of the local files, an object in
a bucket or on a web server, or a plain name. Nothing is fetched from there: an address gives the
name of a file of ours. JSON-MIN, the flat export, does not say what is a choice: it is rejected.
"""

import json
import posixpath
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.parse import parse_qs, quote, unquote, urlsplit

import numpy as np
import numpy.typing as npt

from g2netpl.labels.io.builder import TableBuilder
from g2netpl.labels.io.issues import Issues
from g2netpl.labels.io.options import ReadOptions, silent_classes
from g2netpl.labels.io.tables import rows_of
from g2netpl.labels.io.text import beginning, json_issue, member, read_json
from g2netpl.labels.names import name_before_upload, plain_name, stored_name
from g2netpl.labels.paths import SUFFIXES
from g2netpl.labels.table import NEGATIVE, POSITIVE, UNOBSERVED, LabelTable
from g2netpl.utils.arrays import Scores
from g2netpl.utils.errors import InputError, counted
from g2netpl.utils.files import write_text

ABSENT = "absent"  # a control of this name says what is not in the picture
_KINDS = (
    *("choices", "labels", "rectanglelabels", "polygonlabels", "ellipselabels", "keypointlabels"),
    "brushlabels",
)
_LOCAL_FILES = "/data/local-files/"
_REMOTE = ("http", "https", "s3", "gs", "azure-blob")


@dataclass(frozen=True)
class Control:
    """A field where classes of an image are chosen."""

    name: str = "label"
    to_name: str = "image"

    def result(self, names: Sequence[str]) -> dict[str, Any]:
        """These classes, chosen."""
        value = {"choices": list(names)}
        return {"from_name": self.name, "to_name": self.to_name, "type": "choices", "value": value}


def can_read(path: Path) -> bool:
    """A JSON file that is a list."""
    return path.suffix.lower() == ".json" and beginning(path).startswith("[")


def read(path: Path, options: ReadOptions) -> LabelTable:
    """Read tasks; issues name the task's place in the file."""
    issues = Issues()
    tasks = read_tasks(path, issues)
    builder = TableBuilder(lambda place: f"{path}: task {place}", options.classes, issues)
    shown: dict[int, tuple[str, str]] = {}  # task: image and its address
    for place, task in enumerate(tasks):
        with issues.kept():
            where = builder.at(place)
            address = address_in(member(task, "data", dict, where), where)
            shown[place] = image_name(address, where), address
    names = distinct_names(*([pair[side] for pair in shown.values()] for side in (0, 1)))
    annotated: list[bool] = []
    for place, name in zip(shown, names, strict=True):
        with issues.kept():
            row, where, done = builder.new_image(place, name), builder.at(place), False
            for annotation in _annotations(tasks[place], where):
                done = done or not _is_skipped(annotation)
                for label, value in _labels_in(annotation, where):
                    builder.label(place, row, label, value)
            annotated.append(done)
    table = builder.table(UNOBSERVED)
    if options.absent == "negative":
        unknown = (table.values == UNOBSERVED) & np.array(annotated, dtype=bool)[:, None]
        table = table.with_values(np.where(unknown, NEGATIVE, table.values))
    return table


def read_tasks(path: Path, issues: Issues) -> list[Any]:
    """The tasks of a file."""
    tasks = read_json(path, issues)
    if not isinstance(tasks, list):
        raise InputError(f"{path}: expected a list of tasks")
    if any(isinstance(task, dict) and "annotation_id" in task for task in tasks):
        raise InputError(f"{path}: this is JSON-MIN; export the project as JSON")
    return tasks


def write(table: LabelTable, path: Path) -> list[str]:
    """Write a task per image; what is known goes into annotations."""
    _write(path, _new_tasks(table))
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
    """Write what a model predicts for each image, for the tasks of a project or for new ones.

    `new` are positives that nobody observed, `folder` is that of the images, `project` a file of
    tasks. A task of a project keeps its id and data, and is a prediction of that id as well: Label
    Studio takes the same file as new tasks, and as predictions for those that it has. Gives notes.
    """
    decided = (table.values == POSITIVE) | new
    tasks = list(_new_tasks(table)) if project is None else read_tasks(project, Issues())
    control = Control() if project is None else _control_in(tasks)
    images, written, left = ImagesByAddress(table.images, folder), [], 0
    for place, task in enumerate(tasks):
        where = f"{project}: task {place}"
        row = images.row(address_in(member(task, "data", dict, where), where), where)
        if row is None:
            left += 1
            continue
        says = prediction(control or Control(), table.classes, chances[row], decided[row], version)
        id = member(task, "id", int, where)
        same = {} if project is None else {"task": id, **says}
        written.append({**task, "predictions": [says], **same})
    if not written:
        raise InputError(f"{project}: its tasks show no image of the run, as {table.images[0]!r}")
    _write(path, written)
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
    """What a model predicts for an image.

    The score is the fraction of the labels that is expected to be right: Label Studio's uncertainty
    sampling asks about the lowest first.
    """
    certain = np.nan_to_num(chances, nan=0.5)
    score = round(float(np.where(decided, certain, 1 - certain).mean()), 4)
    results = []
    if decided.any():
        names = [classes[column] for column in np.flatnonzero(decided).tolist()]
        lowest = round(float(chances[decided].min()), 4)
        results.append({**control.result(names), "score": lowest})
    return {"model_version": version, "score": score, "result": results}


class ImagesByAddress:
    """The images of a run, to be found by the addresses that Label Studio has for them."""

    def __init__(self, images: Sequence[str], folder: str | Path) -> None:
        self._rows = {name: row for row, name in enumerate(images)}
        self._stored = {stored_name(name): name for name in reversed(images) if "/" not in name}
        self._folder = Path(folder).resolve().parts

    def _names(self, address: str, where: str) -> Iterator[str]:
        """What the image can be called here, the surest first."""
        name = plain_name(image_name(address, where))
        yield name
        uploaded = name_before_upload(name)
        if uploaded in self._stored:
            yield self._stored[uploaded]
        remote = _remote_path(address)
        if remote is not None:
            yield from ("/".join(remote.parts[start:]) for start in range(1, len(remote.parts)))
        elif "/" in name:  # the root of the local files may be above our folder
            longer = PurePosixPath(name).parts
            for count in range(1, len(longer)):
                if longer[:count] == self._folder[-count:]:
                    yield "/".join(longer[count:])

    def row(self, address: str, where: str) -> int | None:
        """The row of the image at an address; None if the run does not know it."""
        found = (self._rows[name] for name in self._names(address, where) if name in self._rows)
        return next(found, None)


def address_in(data: dict[str, Any], where: str) -> str:
    """The address of the image in the data of a task: under `image`, or else the only one."""
    texts = [value for name, value in data.items() if isinstance(value, str) and name != "text"]
    if len(texts) > 1:
        lower = [text.lower() for text in texts]
        is_image = [t.endswith(SUFFIXES) or t.partition("?")[0].endswith(SUFFIXES) for t in lower]
        texts = [text for text, image in zip(texts, is_image, strict=True) if image]
    address = data.get("image", texts[0] if len(texts) == 1 else None)
    if not isinstance(address, str) or not address.strip():
        raise json_issue(where, "expected the image's name in 'data', as {'image': name}")
    return address


def image_name(address: str, where: str) -> str:
    """The name of the image at an address; of remote images and uploads, the last part."""
    try:
        parts = urlsplit(address)
    except ValueError as problem:
        raise json_issue(where, f"image {address[:60]!r}: {problem}") from None
    if parts.path.endswith("local-files/") and "d" in parse_qs(parts.query):
        return parse_qs(parts.query)["d"][0]
    if parts.scheme in _REMOTE or parts.path.startswith("/data/upload/"):
        return unquote(parts.path.rpartition("/")[2])
    return address


def distinct_names(names: Sequence[str], addresses: Sequence[str]) -> list[str]:
    """The names; if remote images share a last part, their paths below a common folder."""
    paths = {address: _remote_path(address) for address in addresses}
    remote = [path for path in paths.values() if path is not None]
    if len({path.name for path in remote}) == len(set(remote)):
        return list(names)
    common = posixpath.commonpath([path.parent for path in remote])
    found = []
    for name, address in zip(names, addresses, strict=True):
        path = paths[address]
        found.append(name if path is None else str(path.relative_to(common)))
    return found


def _remote_path(address: str) -> PurePosixPath | None:
    """Host or bucket and path of a remote image."""
    parts = urlsplit(address)
    return PurePosixPath(parts.netloc + unquote(parts.path)) if parts.scheme in _REMOTE else None


def _new_tasks(table: LabelTable) -> Iterator[dict[str, Any]]:
    """Tasks for a new project."""
    for row, (name, there, absent, _) in enumerate(rows_of(table)):
        known = [
            Control(control).result(names)
            for control, names in (("label", there), (ABSENT, absent))
            if names
        ]
        task: dict[str, Any] = {"id": row + 1, "data": {"image": f"{_LOCAL_FILES}?d={quote(name)}"}}
        yield {**task, "annotations": [{"result": known}]} if known else task


def _write(path: Path, tasks: Iterable[dict[str, Any]]) -> None:
    write_text(path, json.dumps(list(tasks), ensure_ascii=False, indent=1) + "\n")


def _control_in(tasks: list[Any]) -> Control | None:
    """The control of people's choices; None if nobody has chosen."""
    for task in tasks:
        for annotation in _annotations(task, "") if isinstance(task, dict) else ():
            for item in annotation.get("result", ()) if isinstance(annotation, dict) else ():
                names = item.get("from_name"), item.get("to_name")
                if item.get("type") == "choices" and ABSENT not in names and all(names):
                    return Control(*names)
    return None


def _annotations(task: dict[str, Any], where: str) -> list[Any]:
    key = "annotations" if "annotations" in task else "completions"
    found: list[Any] = [] if task.get(key) is None else member(task, key, list, where)
    return found


def _is_skipped(annotation: Any) -> bool:
    return isinstance(annotation, dict) and annotation.get("was_cancelled") is True


def _labels_in(annotation: Any, where: str) -> Iterator[tuple[str, int]]:
    """The classes that a person named, each positive or negative; none of a skipped task."""
    if _is_skipped(annotation):
        return
    results = member(annotation, "result", list, f"{where}: annotations")
    where = f"{where}: result"
    for item in results:
        kind = member(item, "type", str, where)
        if kind not in _KINDS:  # ratings, text, relations: not labels
            continue
        value = NEGATIVE if item.get("from_name") == ABSENT else POSITIVE
        for name in member(member(item, "value", dict, where), kind, list, where):
            if not isinstance(name, str):
                raise json_issue(where, f"expected names of classes, got {name!r:.60}")
            yield name, value
