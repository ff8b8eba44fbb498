"""Answers of people about labels: review.jsonl in the run folder, one line each, append only.

    {"id": …, "time": …, "action": "yes", "image": …, "class": …, "old": -1, "new": 1, "order": …}

An answer about a whole photo is a line per label, with one id and the order "photos". Every line is
fsynced before the page says "saved". An undo is a line that takes back the last answer still in
force. A torn last line, left by a crash, is skipped; any other unreadable line is an error.
"""

import json
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import Field

from g2netpl.labels.io.build import apply_answers
from g2netpl.labels.io.writing import write_rows
from g2netpl.labels.table import NEGATIVE, POSITIVE, UNOBSERVED, LabelTable
from g2netpl.runs.records import REVIEW
from g2netpl.runs.run import Run
from g2netpl.utils.errors import InputError
from g2netpl.utils.options import Options

ANSWERS = {"yes": POSITIVE, "no": NEGATIVE}  # a skip leaves the label as it is
PHOTOS = "photos"  # the order of a label that was answered with its whole photo

_Sign = Annotated[int, Field(ge=-1, le=1, strict=True)]


class Decision(Options):
    """The answer of a person about one label of one image."""

    id: str  # chosen by the page, so that saving twice saves once
    time: str
    action: Literal["yes", "no", "skip", "undo"]
    image: str
    label: str = Field(alias="class")
    old: _Sign
    new: _Sign
    order: str  # of the queue that asked

    @property
    def asks(self) -> str:
        """The kind of question that was answered, as `g2netpl review --ask` names it."""
        return PHOTOS if self.order == PHOTOS else "labels"

    def to_line(self) -> bytes:
        """As a line of the file."""
        return json.dumps(self.model_dump(by_alias=True)).encode() + b"\n"

    @classmethod
    def from_line(cls, line: bytes) -> Self:
        """Read a line; ValueError or InputError reports what is wrong."""
        content = json.loads(line)
        if not isinstance(content, dict):
            raise ValueError(f"expected an object, got a {type(content).__name__}")
        decision = cls(**content)
        expected = {**ANSWERS, "skip": decision.old}.get(decision.action, decision.new)
        if decision.new != expected:
            raise ValueError(f"{decision.action} means new: {expected}, got {decision.new}")
        return decision


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


def parse_decisions(content: bytes, path: Path) -> tuple[list[Decision], int]:
    """The decisions, and how many bytes hold them: fewer than all if the last line is torn."""
    lines = content.removesuffix(b"\n").split(b"\n") if content else []
    decisions: list[Decision] = []
    size = 0
    for number, line in enumerate(lines, start=1):
        try:
            decisions.append(Decision.from_line(line))
        except (json.JSONDecodeError, UnicodeDecodeError, RecursionError) as problem:
            if number < len(lines):
                raise _no_decision(path, number, problem) from None
            break
        except (ValueError, InputError) as problem:
            raise _no_decision(path, number, problem) from None
        size += len(line) + 1
    return decisions, min(size, len(content))


def _no_decision(path: Path, number: int, problem: Exception) -> InputError:
    return InputError(f"{path}:{number}: not a decision ({problem}); nothing was changed")


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
    answers = (decision for decision in in_force(decisions) if decision.action in ANSWERS)
    return list({(answer.image, answer.label): answer for answer in answers}.values())


def apply_decisions(
    table: LabelTable, decisions: Iterable[Decision], single_label: bool = False
) -> LabelTable:
    """The table with the answers of people; an answer about another image or class is an error.

    With `single_label` an image has one class: confirming it denies the others.
    """
    rows = {name: row for row, name in enumerate(table.images)}
    columns = {name: column for column, name in enumerate(table.classes)}
    answers = latest(decisions)
    places = [
        (find("image", answer.image, rows), find("class", answer.label, columns), answer.new)
        for answer in answers
    ]
    values = table.values.copy()
    for row, column, sign in places:
        values[row, column] = sign
    if not single_label:
        return table.with_values(values)
    by_image: dict[int, dict[int, int]] = {}
    for row, column, sign in places:
        by_image.setdefault(row, {})[column] = sign
    return table.with_values(apply_answers(values, by_image))


def find(what: str, name: str, known: dict[str, int]) -> int:
    """The position of an image or a class that an answer names."""
    if name not in known:
        raise InputError(
            f"{REVIEW}: decides about {what} {name!r}, which the labels do not know; is the file "
            "that of another run?"
        )
    return known[name]


def reviewed_labels(folder: str | Path) -> LabelTable:
    """The labels that a run was trained on, and on top of them the answers of people since."""
    run = Run.open(folder)
    return apply_decisions(run.observed(), read_decisions(folder), run.config.single_label)


def write_provenance(before: LabelTable, decisions: Iterable[Decision], path: Path) -> int:
    """Which labels people decided, what the run knew before, and when; returns how many."""
    shown = {POSITIVE: "1", NEGATIVE: "0", UNOBSERVED: ""}
    rows = {name: row for row, name in enumerate(before.images)}
    columns = {name: column for column, name in enumerate(before.classes)}
    lines = []
    for answer in latest(decisions):
        was = shown[int(before.values[rows[answer.image], columns[answer.label]])]
        label = (answer.image, answer.label, shown[answer.new], was)
        lines.append([*label, answer.time, answer.order])
    write_rows(path, ["image", "class", "value", "before", "time", "order"], lines)
    return len(lines)
