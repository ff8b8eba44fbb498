"""Answers of people about labels: review.jsonl in the run folder, one line each, append only.

    {"id": …, "time": …, "action": "yes", "image": …, "class": …, "old": -1, "new": 1, "order": …}

An answer about a whole photo is a line per label, with one id and the order "photos". Every line is
fsynced before the page says "saved". An undo is a line that takes back the last answer still in
force. A last line without its end, left by a crash, is skipped; an unreadable line is an error.
"""

import json
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from g2netpl.labels.io.build import apply_answers
from g2netpl.labels.table import NEGATIVE, POSITIVE, LabelTable
from g2netpl.runs.records import REVIEW
from g2netpl.runs.run import Run
from g2netpl.utils.errors import InputError
from g2netpl.utils.files import friendly_os_errors
from g2netpl.utils.options import Options, parse_record

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

    @model_validator(mode="after")
    def _new_follows_from_the_action(self) -> Self:
        expected = {**ANSWERS, "skip": self.old}.get(self.action, self.new)
        if self.new != expected:
            raise ValueError(f"{self.action} means new: {expected}, got {self.new}")
        return self


def now() -> str:
    """The time in UTC, to the millisecond."""
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def read_decisions(folder: str | Path, name: str = REVIEW) -> list[Decision]:
    """Every line about a run, in order; none if nobody has reviewed it. Nothing is changed."""
    path = Path(folder) / name
    with friendly_os_errors(path):
        return parse_decisions(path.read_bytes(), path)[0] if path.exists() else []


def parse_decisions(content: bytes, path: Path) -> tuple[list[Decision], int]:
    """The decisions, and how many bytes hold them: without a torn last line."""
    *lines, _ = content.split(b"\n")
    decisions = []
    for number, line in enumerate(lines, start=1):
        where = f"{path}:{number}: not a decision"
        decisions.append(Decision.read(parse_record(dict[str, Any], line, where), where))
    return decisions, content.rfind(b"\n") + 1


def in_force(decisions: Iterable[Decision]) -> list[Decision]:
    """The answers that no undo has taken back, in order."""
    kept: list[Decision] = []
    for decision in decisions:
        if decision.action != "undo":
            kept.append(decision)
            continue
        undone = kept.pop() if kept else None
        if undone is None or (undone.image, undone.label) != (decision.image, decision.label):
            raise InputError(
                f"{REVIEW}: the undo of {decision.time} does not follow the answer that it takes "
                "back; lines are missing or out of order"
            )
    return kept


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
    values, by_image = table.values.copy(), dict[int, dict[int, int]]()
    for answer in latest(decisions):
        row, column = find("image", answer.image, rows), find("class", answer.label, columns)
        values[row, column] = by_image.setdefault(row, {})[column] = answer.new
    return table.with_values(apply_answers(values, by_image) if single_label else values)


def find(what: str, name: str, known: dict[str, int]) -> int:
    """The position of an image or a class that an answer names."""
    if name not in known:
        raise InputError(
            f"{REVIEW}: has an answer about {what} {name!r}, which the labels lack; is the file "
            "from another run?"
        )
    return known[name]


def reviewed_labels(folder: str | Path) -> LabelTable:
    """The labels that a run was trained on, and on top of them the answers of people since."""
    run = Run.open(folder)
    return apply_decisions(run.observed(), read_decisions(folder), run.config.single_label)
