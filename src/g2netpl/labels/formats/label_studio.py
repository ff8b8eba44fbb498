"""Label Studio tasks as plain JSON: annotations in, and proposed labels out as predictions.

In a task every choice (and the label of every box or polygon) of a person is positive; choices of
a control called `absent` are negative; the rest is unobserved, or with `absent = negative` negative
where the task was annotated. Predictions of models are not observations and are passed over.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, quote, unquote, urlsplit

import numpy as np
import numpy.typing as npt

from g2netpl.base.disk import write_text_whole
from g2netpl.base.errors import InputError
from g2netpl.labels.formats.collector import Collector
from g2netpl.labels.formats.json_file import member, mistake, read_json
from g2netpl.labels.formats.problems import Problems
from g2netpl.labels.formats.proposals import Proposals
from g2netpl.labels.formats.reading import Reading, silent_classes
from g2netpl.labels.formats.text import beginning
from g2netpl.labels.table import NEGATIVE, POSITIVE, UNOBSERVED, LabelTable

_LOCAL_FILES = "/data/local-files/"
_KINDS = (
    "choices",
    "labels",
    "rectanglelabels",
    "polygonlabels",
    "ellipselabels",
    "keypointlabels",
    "brushlabels",
)


def recognises(path: Path) -> bool:
    """A JSON file that is a list."""
    return path.suffix.lower() == ".json" and beginning(path).startswith("[")


def read(path: Path, reading: Reading) -> LabelTable:
    """Read tasks; mistakes are named by the task's place in the file."""
    problems = Problems()
    tasks = read_json(path, problems)
    if not isinstance(tasks, list):
        raise InputError(f"{path}: expected a list of tasks")
    collector = Collector(lambda place: f"{path}: task {place}", reading.classes, problems)
    annotated: list[bool] = []
    for place, task in enumerate(tasks):
        with problems.kept():
            annotated.append(_read_task(task, place, collector))
    table = collector.table(UNOBSERVED)
    if reading.absent == "negative":
        values = table.values.copy()
        unknown = values == UNOBSERVED
        values[unknown & np.array(annotated, dtype=bool)[:, None]] = NEGATIVE
        table = table.with_values(values)
    return table


def write(
    table: LabelTable,
    path: Path,
    proposed: npt.NDArray[np.bool_] | None = None,
    scores: npt.NDArray[np.float32] | None = None,
) -> list[str]:
    """Write a task per image; what is known goes into annotations.

    Labels proposed for what is unknown become predictions, to be reviewed.
    """
    tasks = []
    for row, (name, values) in enumerate(zip(table.images, table.rows(), strict=True)):
        task: dict[str, Any] = {"id": row + 1, "data": {"image": _local_address(name)}}
        known = [
            _choices(control, [table.classes[column] for column in np.flatnonzero(values == value)])
            for control, value in (("label", POSITIVE), ("absent", NEGATIVE))
            if (values == value).any()
        ]
        if known:
            task["annotations"] = [{"result": known}]
        if proposed is not None and scores is not None:
            names = [table.classes[column] for column in np.flatnonzero(proposed[row])]
            certainty = np.abs(2 * np.nan_to_num(scores[row], nan=0.5) - 1)
            task["predictions"] = [
                {
                    "model_version": "g2netpl",
                    "score": round(float(certainty.min(initial=1.0)), 4),
                    "result": [_choices("label", names)] if names else [],
                }
            ]
        tasks.append(task)
    write_text_whole(path, json.dumps(tasks, ensure_ascii=False, indent=1) + "\n")
    return silent_classes(table)


def propose(table: LabelTable, path: Path, proposals: Proposals) -> list[str]:
    """Write tasks with what a run proposes, to be reviewed."""
    return write(table, path, proposals.new, proposals.scores)


def _read_task(task: Any, place: int, collector: Collector) -> bool:
    """Collect the labels of a task; True where a person annotated it."""
    where = collector.at(place)
    row = collector.new_image(place, _image_name(member(task, "data", dict, where), where))
    done = False
    key = "annotations" if "annotations" in task else "completions"
    for annotation in () if task.get(key) is None else member(task, key, list, where):
        if isinstance(annotation, dict) and annotation.get("was_cancelled") is True:
            continue
        done = True
        for item in member(annotation, "result", list, f"{where}: {key}"):
            for label, value in _labels(item, f"{where}: result"):
                collector.label(place, row, label, value)
    return done


def _choices(control: str, names: list[str]) -> dict[str, Any]:
    return {
        "from_name": control,
        "to_name": "image",
        "type": "choices",
        "value": {"choices": names},
    }


def _local_address(name: str) -> str:
    return f"{_LOCAL_FILES}?d={quote(name)}"


def _image_name(data: dict[str, Any], where: str) -> str:
    """The image of a task: local files, uploads, addresses or plain names."""
    texts = [value for key, value in data.items() if isinstance(value, str) and key != "text"]
    address = data.get("image", texts[0] if len(texts) == 1 else None)
    if not isinstance(address, str) or not address.strip():
        raise mistake(where, "expected the image's name in 'data', as {'image': name}")
    try:
        parts = urlsplit(address)
    except ValueError as problem:
        raise mistake(where, f"image {address[:60]!r}: {problem}") from None
    if parts.path.endswith("local-files/") and "d" in parse_qs(parts.query):
        return parse_qs(parts.query)["d"][0]
    if parts.scheme in ("http", "https", "s3", "gs", "azure-blob") or parts.path.startswith(
        "/data/upload/"
    ):
        return unquote(parts.path.rpartition("/")[2])
    return address


def _labels(item: Any, where: str) -> Iterator[tuple[str, int]]:
    kind = member(item, "type", str, where)
    if kind not in _KINDS:  # ratings, text, relations: not labels
        return
    names = member(member(item, "value", dict, where), kind, list, where)
    absent = item.get("from_name") == "absent"
    for name in names:
        if not isinstance(name, str):
            raise mistake(where, f"expected names of classes, got {name!r:.60}")
        yield name, NEGATIVE if absent else POSITIVE
