"""FiftyOne's data sets on disk: a folder with samples.json, written without its database.

Written are the fields `observed` and `absent`, and of a run `soft` and `predicted`: labels that it
proposes, with their confidence. An observed label that the network takes for wrong is tagged
`likely wrong`. `image` has the name from the label file, wherever FiftyOne says the file is.

Read back: `observed` (or `ground_truth`, or the only field of labels) is positive and `absent`
negative. A label of any field that a person tagged `right` or `wrong` is what the tag says, and so
is a tag of the whole sample that names a class. Proposals without such a tag are passed over.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from g2netpl.base.disk import check_free, write_text_whole
from g2netpl.base.errors import InputError
from g2netpl.labels.formats.collector import Collector
from g2netpl.labels.formats.json_file import member, mistake, read_json
from g2netpl.labels.formats.problems import Problems
from g2netpl.labels.formats.proposals import Proposals
from g2netpl.labels.formats.reading import Reading
from g2netpl.labels.table import NEGATIVE, POSITIVE, LabelTable

SAMPLES = "samples.json"
LIKELY_WRONG = "likely wrong"
_ABOUT = "metadata.json"
_OBSERVED, _ABSENT = ("observed", "ground_truth"), "absent"
_OPINIONS = ("soft", "predicted", "predictions")
_LISTS = {
    "Classifications": "classifications",
    "Detections": "detections",
    "Polylines": "polylines",
}
_ONE = ("Classification", "Detection", "Polyline")
_DOUBT = 0.9  # the network's chance of the opposite from which on a label is likely wrong

Label = tuple[str, int]  # a class, and 1 or 0


def recognises(path: Path) -> bool:
    """A folder with samples.json in it."""
    return (path / SAMPLES).is_file()


def names_classes(path: Path, reading: Reading) -> bool:
    """Where FiftyOne was told the classes."""
    return bool(_default_classes(path, Problems()))


def read(path: Path, reading: Reading) -> LabelTable:
    """Read samples; mistakes are named by the sample's place in the file."""
    problems, file = Problems(), path / SAMPLES
    samples = member(read_json(file, problems), "samples", list, str(file))
    default = _default_classes(path, problems)
    truth = _truth(samples, str(file))
    found: list[tuple[int, str, list[Label]]] = []
    for place, sample in enumerate(samples):
        where = f"{file}: sample {place}"
        with problems.kept():
            found.append((place, _image(sample, where), list(_labels(sample, truth, where))))
    known = dict.fromkeys(default)
    known.update(dict.fromkeys(sorted({name for *_, labels in found for name, _ in labels})))
    classes = reading.classes or (tuple(known) if default else None)
    collector = Collector(lambda place: f"{file}: sample {place}", classes, problems)
    for place, image, labels in found:
        row = collector.new_image(place, image)
        tags = [(tag, POSITIVE) for tag in _texts(samples[place].get("tags")) if tag in known]
        for name, value in (*labels, *tags):
            collector.label(place, row, name, value)
    return collector.table(reading.absent_value("unobserved"))


def write(table: LabelTable, path: Path) -> list[str]:
    """Write what is known; the images are not copied."""
    return propose(table, path, None)


def propose(table: LabelTable, path: Path, proposals: Proposals | None) -> list[str]:
    """The same, with what a run proposes."""
    if path.suffix and not path.is_dir():
        raise InputError(f"{path}: expected a folder")
    samples = []
    for row, (name, values) in enumerate(zip(table.images, table.rows(), strict=True)):
        sample: dict[str, Any] = {"filepath": name, "tags": [], "image": name}
        chances = None if proposals is None or proposals.chances is None else proposals.chances[row]
        for field, sign in ((_OBSERVED[0], POSITIVE), (_ABSENT, NEGATIVE)):
            right = chances if chances is None or sign == POSITIVE else 1 - chances
            columns = np.flatnonzero(values == sign)
            sample[field] = _field(
                [_known(table.classes[each], right, each) for each in columns.tolist()]
            )
        if proposals is not None:
            new = proposals.new[row]
            for field, chosen in (
                ("soft", proposals.soft[row]),
                ("predicted", ~proposals.soft[row]),
            ):
                sample[field] = _field(
                    _label(table.classes[each], float(proposals.scores[row, each]))
                    for each in np.flatnonzero(new & chosen)
                )
        samples.append(sample)
    check_free(path / SAMPLES, [path / _ABOUT])
    path.mkdir(parents=True, exist_ok=True)
    about = {"media_type": "image", "info": {"default_classes": list(table.classes)}}
    for name, content in ((_ABOUT, about), (SAMPLES, {"samples": samples})):
        write_text_whole(path / name, json.dumps(content, ensure_ascii=False, indent=1) + "\n")
    return []


def _field(labels: Any) -> dict[str, Any]:
    return {"_cls": "Classifications", "classifications": list(labels)}


def _known(name: str, right: Any, column: int) -> dict[str, Any]:
    """An observed label, with what the network thinks of it."""
    chance = None if right is None or np.isnan(right[column]) else float(right[column])
    doubted = chance is not None and chance <= 1 - _DOUBT
    return _label(name, chance, (LIKELY_WRONG,) if doubted else ())


def _label(
    name: str, confidence: float | None = None, tags: tuple[str, ...] = ()
) -> dict[str, Any]:
    label: dict[str, Any] = {"_cls": "Classification", "tags": list(tags), "label": name}
    return label if confidence is None else label | {"confidence": round(confidence, 4)}


def _default_classes(path: Path, problems: Problems) -> list[str]:
    """The classes that the data set says it has."""
    if not (path / _ABOUT).is_file():
        return []
    about = read_json(path / _ABOUT, problems)
    places = (about, about.get("info")) if isinstance(about, dict) else ()
    found = (each.get("default_classes") for each in places if isinstance(each, dict))
    return next((names for each in found if (names := _texts(each))), [])


def _texts(value: Any) -> list[str]:
    return [each for each in value if isinstance(each, str)] if isinstance(value, list) else []


def _is_labels(value: Any) -> bool:
    return isinstance(value, dict) and value.get("_cls") in (*_LISTS, *_ONE)


def _truth(samples: list[Any], where: str) -> tuple[str, ...]:
    """The fields whose labels people gave."""
    fields = {
        name: None
        for sample in samples
        if isinstance(sample, dict)
        for name, value in sample.items()
        if _is_labels(value)
    }
    usual = tuple(name for name in _OBSERVED if name in fields)
    others = [name for name in fields if name not in (*_OPINIONS, _ABSENT)]
    if not usual and len(others) > 1:
        named = ", ".join(map(repr, others[:5]))
        raise InputError(f"{where}: expected labels in 'ground_truth' or 'observed', got {named}")
    return usual or tuple(others)


def _image(sample: Any, where: str) -> str:
    """The name from the label file, or else the place of the file."""
    key = (
        "image" if isinstance(sample, dict) and isinstance(sample.get("image"), str) else "filepath"
    )
    name: str = member(sample, key, str, where)
    return name


def _labels(sample: dict[str, Any], truth: tuple[str, ...], where: str) -> Iterator[Label]:
    for field, value in sample.items():
        if not _is_labels(value):
            continue
        usual = POSITIVE if field in truth else NEGATIVE if field == _ABSENT else None
        inner = _LISTS.get(value["_cls"])
        for label in [value] if inner is None else member(value, inner, list, where):
            if not isinstance(label, dict):
                raise mistake(where, f"{field}: expected a label, got {label!r:.60}")
            if label.get("label") is None:
                continue
            name, tags = member(label, "label", str, where), _texts(label.get("tags"))
            if usual is not None or {"right", "wrong"} & {*tags}:
                meant = POSITIVE if usual is None else usual
                yield name, 1 - meant if "wrong" in tags else meant
