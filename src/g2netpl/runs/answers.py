"""Decisions of people about labels: review.jsonl in the run folder, one line each, append only.

    {"id": …, "time": …, "action": "yes", "image": …, "class": …, "old": -1, "new": 1, "order": …}
    {…, "action": "count", "image": …, "class": "", "old": -1, "new": 3, "order": "counts"}

The second says how many of the classes are in the image, and not which. What somebody says of a
whole photo is a line per label, with one id and the order "photos"; of a class that the labels did
not know, which somebody has added, the order is "added". Versions that do not know counts or added
classes refuse the line.

Every line is on the disk before anybody is told that it is saved. An undo is a line of its own that
takes back the last answer still in force. What a crash leaves of a last line is cut off at the next
start and kept in review.jsonl.torn; any other line that cannot be read stops us.
"""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from g2netpl.base.errors import InputError, did_you_mean
from g2netpl.labels.formats.one_of import answered
from g2netpl.labels.formats.sheet import write_rows
from g2netpl.labels.observation import from_counted
from g2netpl.labels.table import NEGATIVE, POSITIVE, UNOBSERVED, LabelTable, with_labels
from g2netpl.runs.folder import REVIEW
from g2netpl.runs.run import Run

ANSWERS = {"yes": POSITIVE, "no": NEGATIVE}  # a skip leaves the label as it is
COUNT, COUNTS = "count", "counts"  # an action, and the order that asks for it
PHOTOS, ADDED = "photos", "added"  # orders: a label of a whole photo, and of a class that is new
MOST = 9999  # that somebody may count
_ACTIONS = (*ANSWERS, "skip", "undo", COUNT)
_LABELS = {POSITIVE, NEGATIVE, UNOBSERVED}


@dataclass(frozen=True)
class Decision:
    """What somebody said about one label of one image, or how many it has, and when."""

    id: str  # from the one who asks to save it, so that asking twice saves it once
    time: str
    action: str  # yes, no, skip, undo or count
    image: str
    label: str  # the name of the class; `class` in the file; empty for a count
    old: int
    new: int
    order: str  # of the queue that asked

    @property
    def is_of_count(self) -> bool:
        """Whether it is about how many classes there are, and not about one of them."""
        return self.order == COUNTS

    @property
    def asks(self) -> str:
        """The kind of question that was answered, as `g2netpl review --ask` names it."""
        return {COUNTS: COUNTS, PHOTOS: PHOTOS, ADDED: PHOTOS}.get(self.order, "labels")

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
        decision._check_kind()
        said = {**ANSWERS, "skip": decision.old}.get(decision.action, decision.new)
        if decision.new != said:
            raise ValueError(f"{decision.action} means new: {said}, got {decision.new}")
        return decision

    def _check_kind(self) -> None:
        """See that action and values belong to the question."""
        if not self.is_of_count:
            if self.action == COUNT or not {self.old, self.new} <= _LABELS:
                raise ValueError("old and new must be 1, 0 or -1")
        elif self.action in ANSWERS or self.label:
            raise ValueError(f"{COUNTS}: expected a count, a skip or an undo, of no class")
        elif not all(UNOBSERVED <= value <= MOST for value in (self.old, self.new)):
            raise ValueError(f"old and new must be a count, 0 to {MOST:,}, or -1")
        elif self.action == COUNT and self.new < 0:
            raise ValueError("a count must be 0 or more")


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
    """The last yes or no in force about each label, and the last count of each image."""
    answers = (each for each in in_force(decisions) if each.action in (*ANSWERS, COUNT))
    return list({(each.image, each.label): each for each in answers}.values())


def of_labels(decisions: Iterable[Decision]) -> list[Decision]:
    """The last yes or no in force about each label."""
    return [each for each in latest(decisions) if not each.is_of_count]


def of_counts(decisions: Iterable[Decision]) -> list[Decision]:
    """The last count in force of each image."""
    return [each for each in latest(decisions) if each.is_of_count]


def counts_of(table: LabelTable, decisions: Iterable[Decision]) -> npt.NDArray[np.float64] | None:
    """How many classes people counted in each image of a table, NaN: nobody did; None: nowhere."""
    rows, found = {name: row for row, name in enumerate(table.images)}, of_counts(decisions)
    counts = np.full(len(table), np.nan)
    for each in found:
        if each.new > len(table.classes):
            raise InputError(
                f"{REVIEW}: {each.new:,} classes counted in {each.image!r}, but there are only "
                f"{len(table.classes):,}; is the file that of another run?"
            )
        counts[find("image", each.image, rows)] = each.new
    return counts if found else None


def added_classes(known: Sequence[str], decisions: Iterable[Decision]) -> list[str]:
    """Classes that people have added to those that are known."""
    named = dict.fromkeys(each.label for each in of_labels(decisions) if each.order == ADDED)
    return [name for name in named if name not in known]


def with_added(table: LabelTable, decisions: Iterable[Decision]) -> LabelTable:
    """The table with a column for each class that people have added, unknown everywhere."""
    names = added_classes(table.classes, decisions)
    known = table.classes
    return table.with_classes((*known, *names), np.arange(len(known))) if names else table


def apply_decisions(
    table: LabelTable, decisions: Iterable[Decision], one_of: bool = False
) -> LabelTable:
    """The table with what people decided; a decision about nothing in the table is a mistake.

    With `one_of` an image has one class: who confirms it denies the others.
    """
    decisions = list(decisions)
    table = with_added(table, decisions)
    rows = {name: row for row, name in enumerate(table.images)}
    columns = {name: column for column, name in enumerate(table.classes)}
    found = of_labels(decisions)
    where = (
        [find("image", each.image, rows) for each in found],
        [find("class", each.label, columns) for each in found],
        [each.new for each in found],
    )
    decided = table.with_values(with_labels(table.values, *where))
    if not one_of:
        return decided
    answers: dict[int, dict[int, int]] = {}
    for row, column, answer in zip(*where, strict=True):
        answers.setdefault(row, {})[column] = answer
    return table.with_values(answered(decided.values, answers))


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
    return apply_decisions(run.observed(), read_decisions(folder), run.config.one_of)


def write_provenance(before: LabelTable, decisions: Iterable[Decision], path: Path) -> int:
    """Which labels people decided, what the run knew before, and when; returns how many."""
    shown = {POSITIVE: "1", NEGATIVE: "0", UNOBSERVED: ""}
    rows = {name: row for row, name in enumerate(before.images)}
    columns = {name: column for column, name in enumerate(before.classes)}
    found = of_labels(decisions)
    lines = []
    for each in found:
        was = shown[int(before.values[rows[each.image], columns[each.label]])]
        what = (each.image, each.label, shown[each.new], was)
        lines.append([*what, each.time, each.order])
    write_rows(path, ["image", "class", "value", "before", "time", "order"], lines)
    return len(found)


def mean_count(decisions: Iterable[Decision]) -> float | None:
    """k by the counts of people; None if they are too few."""
    return from_counted(np.array([float(each.new) for each in of_counts(decisions)]))


def write_counts(decisions: Iterable[Decision], path: Path) -> None:
    """Which images people counted, how many classes they saw, and when."""
    rows = ([each.image, str(each.new), each.time] for each in of_counts(decisions))
    write_rows(path, ["image", "count", "time"], rows)


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
