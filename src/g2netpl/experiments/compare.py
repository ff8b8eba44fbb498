"""A comparison as a folder: each finished training is a line of cells.jsonl.

A sweep that was broken off goes on with the trainings that are missing.
"""

import json
import os
from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any, NotRequired

from pydantic import FiniteFloat

from g2netpl.experiments.cells import Row, Runner, choose
from g2netpl.experiments.grid import Cell, Comparison
from g2netpl.experiments.label_quality import Movement
from g2netpl.runs.records import CellResult, Epoch
from g2netpl.utils.errors import InputError, counted
from g2netpl.utils.files import appending
from g2netpl.utils.options import parse_record
from g2netpl.utils.progress import Work
from g2netpl.utils.signals import AGAIN, Stopped

CELLS = "cells.jsonl"


def sweep(
    comparison: Comparison,
    folder: Path,
    run: Runner,
    work: Work,
    advice: str = AGAIN,
) -> list[Row]:
    """Train what is missing in the folder; gives back the rows of all trainings.

    `advice` says how to go on after a second Ctrl-C.
    """
    path = folder / CELLS
    rows = {cell_of(row): row for row in read_cells(path)}

    def train(cells: Sequence[Cell]) -> None:
        missing = [cell for cell in cells if not _has(rows.get(cell), comparison)]
        if not missing:
            return
        with appending(path) as file:
            for row in run(comparison, missing, work):
                rows[cell_of(row)] = row
                file.write(json.dumps(row).encode() + b"\n")
                file.flush()
                os.fsync(file.fileno())

    first = comparison.cells()
    try:
        train(first)
        chosen = [row for row in choose([rows[cell] for cell in first]) if "diverged" not in row]
        later = comparison.later_cells(cell_of(row) for row in chosen)
        train(later)
    except (KeyboardInterrupt, Stopped) as end:  # the latter says itself how to go on
        more = "" if isinstance(end, Stopped) else f"; {advice}"
        work.print_line(f"{counted(len(rows), 'training')} finished and kept{more}")
        raise
    return [rows[cell] for cell in (*first, *later)]


def _has(row: Row | None, comparison: Comparison) -> bool:
    """Whether a cell is trained, and its labels followed where it has some and that is wanted."""
    if row is None or not comparison.keep_labels:
        return row is not None
    return bool(row["movement"]) or row["undecided"] is None


def read_cells(path: Path, *, mend: bool = True) -> list[Row]:
    """The finished trainings; a last line that was broken off counts as not written.

    Whoever only looks on does not `mend` the file: another process may be writing that line.
    """
    if not path.is_file():
        return []
    content = path.read_bytes()
    *lines, torn = content.split(b"\n")
    rows = [_row(line, f"{path}: line {number}") for number, line in enumerate(lines, start=1)]
    if torn and mend:
        with appending(path) as file:
            file.truncate(len(content) - len(torn))
            os.fsync(file.fileno())
    return rows


class _Line(CellResult):
    """A line of cells.jsonl."""

    history: list[Epoch]
    movement: list[Movement | None]
    expected_positives: NotRequired[FiniteFloat | None]
    diverged: NotRequired[str]


def _row(line: bytes, where: str) -> Row:
    where = f"{where}: not a training of a comparison"
    row: Row = {**parse_record(_Line, line, where)}
    if row["movement"] and len(row["movement"]) != len(row["history"]):
        raise InputError(f"{where}: movement: expected as many epochs as in its history")
    return row


def cell_of(row: dict[str, Any]) -> Cell:
    """Which training a row is of."""
    return Cell(**{field.name: row[field.name] for field in fields(Cell)})
