"""Cells of a comparison on image files: each is a run folder, trained as `g2netpl train` does.

A run that was broken off goes on where it stopped. Where the labels are followed over the epochs,
that is done on at most 2,000 training images.
"""

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np
from torch import nn

from g2netpl.base.errors import InputError
from g2netpl.base.options import in_full, parse_record
from g2netpl.base.signals import AGAIN
from g2netpl.experiments.cells import Row, diverged_row
from g2netpl.experiments.compare import Movement, Runner
from g2netpl.experiments.data import Dataset, PhotoParts, read_photo_parts, with_test_part
from g2netpl.experiments.grid import Cell, Comparison
from g2netpl.experiments.label_quality import watch_labels
from g2netpl.game.network.predicting import predict_all
from g2netpl.game.player import LabelPlayer
from g2netpl.images.cache import KeptImages
from g2netpl.images.loader import Part
from g2netpl.runs.config import RunConfig
from g2netpl.runs.folder import is_begun
from g2netpl.training.checks import check_config
from g2netpl.training.divergence import attempt
from g2netpl.training.inputs import Inputs, backbone_of
from g2netpl.training.progress import Following, describe
from g2netpl.training.session import Watch, network_of
from g2netpl.training.snapshots import Snapshot
from g2netpl.training.train import train

TRACK = "labels.jsonl"
_WATCHED = 2000
OF_THE_FILE = ("format", "absent", "separator", "classes")  # how to read what was split


@dataclass(frozen=True)
class PhotoData:
    """Image files to compare methods on, and the keys that all trainings have (see RunConfig)."""

    dataset: Dataset
    keys: dict[str, Any]
    told: set[str] = field(default_factory=set)  # which images cannot be read

    @property
    def base(self) -> dict[str, Any]:
        """The keys of a training that do not depend on the cell."""
        dataset = self.dataset
        files = {"labels": dataset.labels, "test_labels": dataset.test_labels}
        return {**self.keys, **files, "images": dataset.images, "only_listed": True}

    @cached_property
    def parts(self) -> PhotoParts:
        """The images; mistakes in all the label files show here."""
        return read_photo_parts(self._config)

    @property
    def _config(self) -> RunConfig:
        return RunConfig.read({**self.base, "output": "unused"}, "images")

    def check(self, comparison: Comparison) -> list[str]:
        """Find what a training would stop at, before anything is written.

        Gives what a person should be told about the images.
        """
        config = self.check_cells(comparison)
        found = self.look_at_files()
        network_of(config, backbone_of(config), len(self.parts.whole.classes))
        return found

    def check_cells(self, comparison: Comparison) -> RunConfig:
        """Find what does not fit the labels, or no training can be told; gives one training."""
        comparison.check(*self.parts.tables, views=self.base["mode"] == "end-to-end")
        configs = [
            check_config(comparison.config_of(cell, self.base)) for cell in comparison.cells()
        ]
        return configs[0]

    def look_at_files(self) -> list[str]:
        """Refuse images that cannot be compared on; what a person should be told about the rest."""
        parts = self.parts
        self.told.update(parts.check(self._config))
        notes = [f"note: {note}" for note in parts.notes]
        return [*notes, *(f"left out: {each}" for each in sorted(self.told)), str(parts)]

    def runner(self, folder: Path, on_saved: Callable[[], None] | None = None) -> Runner:
        """Train cells below `folder`/runs; where there is no test file a fifth is split off.

        `on_saved` is called when a checkpoint is on the disk.
        """
        format = self.keys.get("format")
        dataset = with_test_part(self.dataset, folder / "labels", self.parts.whole, format)
        used = {} if dataset is self.dataset else dict.fromkeys(OF_THE_FILE)
        photos = PhotoData(dataset, {**self.keys, **used})
        advice = f"{AGAIN} and --resume"
        return on_photos(photos.base, folder / "runs", advice, self.told, on_saved)


def on_photos(
    base: dict[str, Any],
    folder: Path,
    advice: str = AGAIN,
    told: set[str] | None = None,
    on_saved: Callable[[], None] | None = None,
) -> Runner:
    """Train cells with the keys of `base` (see RunConfig) below `folder`.

    `advice` says how to go on after a stop, `told` which unreadable images a person knows of; those
    that are found are added. `on_saved` is called when a checkpoint is on the disk.
    """

    images: KeptImages = {}
    known = set() if told is None else told

    def run(comparison: Comparison, cells: Sequence[Cell], bar: Following) -> Iterator[Row]:
        for cell in cells:
            config = comparison.config_of(cell, base, str(folder / _name(cell)))
            watches: list[Watch] = [partial(_show, _title(cell), bar, known)]
            if comparison.keep_labels:
                watches.append(partial(_watch_labels, config))
            bar.say(f"{_title(cell)}: begins")
            work = partial(_train, config, cell, watches, images, advice, on_saved)
            yield attempt(work, partial(_failed, cell), Path(config.output))

    return run


def _title(cell: Cell) -> str:
    parts = (cell.method, cell.weight, cell.setting, f"seed {cell.seed}")
    text = " ".join(part for part in parts if part)
    return f"{text} rate {in_full(cell.learning_rate)} batch {cell.batch_size}"


def _name(cell: Cell) -> str:
    return _title(cell).replace(":", "_")


def _failed(cell: Cell, reason: str) -> Row:
    return {**diverged_row(cell, reason), "history": [], "movement": []}


def _train(
    config: RunConfig,
    cell: Cell,
    watches: Sequence[Watch],
    images: KeptImages,
    advice: str,
    on_saved: Callable[[], None] | None,
) -> Row:
    folder = Path(config.output)

    def on_epoch(*now: Any) -> None:
        for watch in watches:
            watch(*now)

    again = is_begun(folder)
    run = train(
        config, resume=again, on_epoch=on_epoch, kept=images, advice=advice, on_saved=on_saved
    )
    history = run.history
    seen = _records(folder / TRACK)
    movement = [seen.get(record["epoch"]) for record in history] if seen else []
    named = {"method": cell.method, "weight": cell.weight}
    kept = {"history": history, "movement": movement}
    return {**run.result, **named, "expected_positives": run.expected_positives, **kept}


def _show(title: str, bar: Following, told: set[str], now: Snapshot, *players: Any) -> None:
    """An epoch in a line, and every unreadable image once."""
    record, sources = now.history[-1], players[2]
    bar.say(f"{title}: epoch {record['epoch']}: {describe(record)}")
    for problem in sources.bad_images():
        if not any(known.startswith(problem) for known in told):
            told.add(problem)
            bar.tell(f"left out: {problem}")


def _watch_labels(
    config: RunConfig,
    now: Snapshot,
    network: nn.Module,
    player: LabelPlayer,
    sources: Inputs,
    linear: bool,
) -> None:
    """Follow the soft labels over the epochs."""
    soft = player.soft_labels()
    if soft is None:
        return
    data, track = sources.data, Path(config.output) / TRACK
    rows = np.random.default_rng([config.seed, 0x6C62]).permutation(len(data.training))
    rows = np.sort(rows[:_WATCHED])
    record = watch_labels(
        soft.cpu().numpy()[rows],
        predict_all(network, Part(sources.training(linear), rows)),
        data.table.values[data.training[rows]],
        data.visible.values[rows],
    )
    seen = {**_records(track), now.history[-1]["epoch"]: record}
    lines = (json.dumps({"epoch": epoch, **each}) + "\n" for epoch, each in seen.items())
    temporary = track.with_name(f"{TRACK}.new")
    temporary.write_text("".join(lines), encoding="utf-8")
    temporary.replace(track)


class _Watched(Movement):
    """A line of labels.jsonl."""

    epoch: int


def _records(track: Path) -> dict[int, Row]:
    """What was seen after each epoch; the last word counts where an epoch was played again."""
    if not track.is_file():
        return {}
    found: dict[int, Row] = {}
    for line in track.read_bytes().splitlines():
        try:
            record: Row = {**parse_record(_Watched, line, str(track))}
        except InputError:  # broken off while it was written
            continue
        found[record.pop("epoch")] = record
    return found
