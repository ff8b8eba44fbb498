"""Decisions of people about labels: review.jsonl in the run folder, one line each, append only.

    {"id": …, "time": …, "action": "yes", "image": …, "class": …, "old": -1, "new": 1, "order": …}

What somebody says of a whole photo is a line per label, with one id and the order "photos".

Every line is on the disk before anybody is told that it is saved. An undo is a line of its own that
takes back the last answer still in force. What a crash leaves of a last line is skipped; any other
line that cannot be read stops us.
"""

import json
from collections.abc import Iterable
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Self

from g2netpl.labels.io.single_label import apply_answers
from g2netpl.labels.io.writing import write_rows
from g2netpl.labels.table import NEGATIVE, POSITIVE, UNOBSERVED, LabelTable, with_labels
from g2netpl.runs.folder import REVIEW
from g2netpl.runs.run import Run
from g2netpl.utils.errors import InputError, did_you_mean

ANSWERS = {"yes": POSITIVE, "no": NEGATIVE}  # a skip leaves the label as it is
PHOTOS = "photos"  # the order of a label that was answered with its whole photo
_ACTIONS = (*ANSWERS, "skip", "undo")
_LABELS = {POSITIVE, NEGATIVE, UNOBSERVED}


@dataclass(frozen=True)
class Decision:
    """What somebody said about one label of one image, and when."""

    id: str  # from the one who asks to save it, so that asking twice saves it once
    time: str
    action: str  # yes, no, skip or undo
    image: str
    label: str  # the name of the class; `class` in the file
    old: int
    new: int
    order: str  # of the queue that asked

    @property
    def asks(self) -> str:
        """The kind of question that was answered, as `g2netpl review --ask` names it."""
        return PHOTOS if self.order == PHOTOS else "labels"

    def to_line(self) -> bytes:
        """As a line of the file."""
        content = {_KEYS.get(name, name): value for name, value in vars(self).items()}
        return json.dumps(content).encode() + b"\n"

    @classmethod
    def from_line(cls, line: bytes) -> Self:
        """The way back; ValueError tells why not."""
        content = json.loads(line)
        if not isinstance(content, dict):
            raise ValueError("expected an object")
        values: dict[str, Any] = {}
        for field in fields(cls):
            key = _KEYS.get(field.name, field.name)
            value = values[field.name] = content.get(key)
            if type(value) is not field.type:
                raise ValueError(f"{key}: got {value!r}")
        decision = cls(**values)
        if decision.action not in _ACTIONS:
            raise ValueError(f"action: {did_you_mean(decision.action, _ACTIONS)}")
        if not {decision.old, decision.new} <= _LABELS:
            raise ValueError("old and new must be 1, 0 or -1")
        said = {**ANSWERS, "skip": decision.old}.get(decision.action, decision.new)
        if decision.new != said:
            raise ValueError(f"{decision.action} means new: {said}, got {decision.new}")
        return decision


_KEYS = {"label": "class"}
_TORN = (json.JSONDecodeError, UnicodeDecodeError, RecursionError)  # what is whole is not cut off


def now() -> str:
    """The time in UTC, to the millisecond."""
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def read_decisions(folder: str | Path, name: str = REVIEW) -> list[Decision]:
    """Every line about a run, in order; none if nobody has reviewed it. Nothing is changed."""
    path = Path(folder) / name
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return []
    except OSError as problem:
        raise InputError(f"{path}: cannot be read ({problem.strerror})") from None
    return parse_decisions(content, path)[0]


def in_force(decisions: Iterable[Decision]) -> list[Decision]:
    """The answers that no undo has taken back, in order."""
    standing: list[Decision] = []
    for decision in decisions:
        if decision.action != "undo":
            standing.append(decision)
            continue
        undone = standing.pop() if standing else None
        if undone is None or (undone.image, undone.label) != (decision.image, decision.label):
            raise InputError(
                f"{REVIEW}: the undo of {decision.time} does not follow the answer that it takes "
                "back; lines are missing or out of order"
            )
    return standing


def latest(decisions: Iterable[Decision]) -> list[Decision]:
    """The last yes or no in force about each label."""
    answers = (each for each in in_force(decisions) if each.action in ANSWERS)
    return list({(each.image, each.label): each for each in answers}.values())


def apply_decisions(
    table: LabelTable, decisions: Iterable[Decision], single_label: bool = False
) -> LabelTable:
    """The table with what people decided; a decision about nothing in the table is a mistake.

    With `single_label` an image has one class: who confirms it denies the others.
    """
    rows = {name: row for row, name in enumerate(table.images)}
    columns = {name: column for column, name in enumerate(table.classes)}
    found = latest(decisions)
    where = (
        [find("image", each.image, rows) for each in found],
        [find("class", each.label, columns) for each in found],
        [each.new for each in found],
    )
    decided = table.with_values(with_labels(table.values, *where))
    if not single_label:
        return decided
    answers: dict[int, dict[int, int]] = {}
    for row, column, answer in zip(*where, strict=True):
        answers.setdefault(row, {})[column] = answer
    return table.with_values(apply_answers(decided.values, answers))


def find(what: str, name: str, known: dict[str, int]) -> int:
    """The position of an image or a class that a decision names."""
    if name not in known:
        raise InputError(
            f"{REVIEW}: decides about {what} {name!r}, which the labels do not know; is the file "
            "that of another run?"
        )
    return known[name]


def reviewed_labels(folder: str | Path) -> LabelTable:
    """What the training of a run knew, and on top of it what people decided since."""
    run = Run.open(folder)
    return apply_decisions(run.observed(), read_decisions(folder), run.config.single_label)


def write_provenance(before: LabelTable, decisions: Iterable[Decision], path: Path) -> int:
    """Which labels people decided, what the run knew before, and when; returns how many."""
    shown = {POSITIVE: "1", NEGATIVE: "0", UNOBSERVED: ""}
    rows = {name: row for row, name in enumerate(before.images)}
    columns = {name: column for column, name in enumerate(before.classes)}
    found = latest(decisions)
    lines = []
    for each in found:
        was = shown[int(before.values[rows[each.image], columns[each.label]])]
        what = (each.image, each.label, shown[each.new], was)
        lines.append([*what, each.time, each.order])
    write_rows(path, ["image", "class", "value", "before", "time", "order"], lines)
    return len(found)


def parse_decisions(content: bytes, path: Path) -> tuple[list[Decision], int]:
    """The decisions, and how many bytes hold them: less than all if the last line is torn."""
    lines = content.removesuffix(b"\n").split(b"\n") if content else []
    found: list[Decision] = []
    size = 0
    for number, line in enumerate(lines, start=1):
        try:
            found.append(Decision.from_line(line))
        except (ValueError, RecursionError) as problem:
            if number == len(lines) and isinstance(problem, _TORN):
                break
            raise InputError(
                f"{path}:{number}: not a decision ({problem}); nothing was changed"
            ) from None
        size += len(line) + 1
    return found, min(size, len(content))
