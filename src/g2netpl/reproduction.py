"""Recipes of the paper, planned for given data and trained: what there is to do, and how long.

The trainings of all recipes share one cells.jsonl, so nothing is trained twice, and a reproduction
that was broken off goes on with the same command.
"""

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from rich.console import Console

from g2netpl.comparison import Row, choose, train_cell
from g2netpl.config import RunConfig
from g2netpl.contest import Cell, Comparison, load_contest
from g2netpl.data import ImageSource, training_batches
from g2netpl.fitting import make_optimizer
from g2netpl.game import Setup, play_epoch
from g2netpl.labels import LabelTable
from g2netpl.material import read_material
from g2netpl.methods import find_method, make_player, method_options, split_variant
from g2netpl.network import build_backbone, build_network
from g2netpl.paper import Recipe
from g2netpl.photo_cells import config_of, on_photos
from g2netpl.subjects import Kind, Subject
from g2netpl.sweep import Runner, in_memory, sweep


@dataclass(frozen=True)
class Protocol:
    """How every cell is trained."""

    epochs: int
    learning_rates: tuple[float, ...]
    batch_sizes: tuple[int, ...]
    seeds: tuple[int, ...]
    hidden: int = 0
    search_weights: bool = False
    choose_once: bool = False
    expected_positives: float | str = "truth"
    photos: Mapping[str, Any] = field(default_factory=dict)  # mode, backbone, image_size, …


USUAL: dict[Kind, tuple[int, tuple[float, ...], tuple[int, ...]]] = {
    "features": (10, (1e-3, 3e-4), (64,)),
    "scenes": (12, (3e-3,), (32,)),
    "images": (10, (1e-2, 1e-3, 1e-4, 1e-5), (8, 16)),
}
"""Epochs, learning rates and batch sizes where nobody says: of images, the paper's."""


@dataclass(frozen=True)
class Plan:
    """What will be trained, on what."""

    subject: Subject
    protocol: Protocol
    recipes: dict[str, Recipe]

    def comparisons(self, name: str) -> list[Comparison]:
        """The blocks of a recipe."""
        recipe, protocol = self.recipes[name], self.protocol
        found = []
        for block in recipe.blocks:
            methods = tuple(m for m in block.methods if self._can_train(m))
            if methods:
                features = self.subject.root if self.subject.kind == "features" else None
                comparison = Comparison(
                    features,
                    methods,
                    block.settings,
                    protocol.seeds,
                    protocol.learning_rates,
                    protocol.batch_sizes,
                    protocol.epochs,
                    protocol.hidden,
                    protocol.expected_positives,
                    search_weights=protocol.search_weights,
                    choose_once=protocol.choose_once,
                    keep_labels=recipe.watches_labels,
                )
                found.append(comparison)
        return found

    def left_out(self, name: str) -> list[str]:
        """Methods of a recipe that cannot be trained here, and why."""
        methods = [m for block in self.recipes[name].blocks for m in block.methods]
        return [
            f"{method} is left out: it compares views of images, and there are none here"
            for method in methods
            if not self._can_train(method)
        ]

    def trainings(self) -> list[tuple[Comparison, Cell]]:
        """All cells, each once; with `choose_once`, one more per row and further seed."""
        found: dict[Cell, Comparison] = {}
        for name in self.recipes:
            for comparison in self.comparisons(name):
                first = comparison.cells()
                later = comparison.later_cells({(c.method, c.setting): c for c in first}.values())
                for cell in (*first, *later):
                    found.setdefault(cell, comparison)
        return [(comparison, cell) for cell, comparison in found.items()]

    def mode(self, name: str) -> str:
        """How networks of a recipe are trained on images, as the paper did unless told."""
        usual = "linear-init" if self.recipes[name].linear_init else "end-to-end"
        return str(self.protocol.photos.get("mode") or usual)

    def base(self, name: str) -> dict[str, Any]:
        """What every training on images has in common."""
        subject = self.subject
        return {
            **self.protocol.photos,
            "mode": self.mode(name),
            "labels": subject.labels,
            "test_labels": subject.test_labels,
            "images": subject.images,
            "only_listed": True,
        }

    def _can_train(self, method: str) -> bool:
        views = find_method(split_variant(method)[0]).two_views
        linear = self.protocol.photos.get("mode") in ("linear", "linear-init")
        return not views or (self.subject.kind == "images" and not linear)


def reproduce(plan: Plan, folder: Path, jobs: int, console: Console) -> dict[str, list[Row]]:
    """Train what is missing; the chosen rows of every recipe, with their histories."""
    found = {}
    for name in plan.recipes:
        rows: list[Row] = []
        for comparison in plan.comparisons(name):
            rows += sweep(comparison, folder, _runner(plan, name, folder, jobs), console)
        found[name] = _chosen(rows)
    return found


def _chosen(rows: list[Row]) -> list[Row]:
    """The rows with the best validation mAP, whole."""
    keys = ("method", "setting", "seed", "learning_rate", "batch_size", "weight")
    whole = {tuple(row[key] for key in keys): row for row in rows}
    return [whole[tuple(row[key] for key in keys)] for row in choose(rows)]


def _runner(plan: Plan, name: str, folder: Path, jobs: int) -> Runner:
    if plan.subject.kind != "images":
        return in_memory(jobs)
    return on_photos(plan.base(name), folder / "runs" / plan.mode(name))


# --- how long ------------------------------------------------------------------------------------


def estimate_seconds(plan: Plan, jobs: int) -> float:
    """A guess from a short trial on this machine."""
    trainings = plan.trainings()
    if not trainings:
        return 0.0
    if plan.subject.kind != "images":
        comparison = replace(trainings[0][0], epochs=1, keep_labels=False)
        cell = replace(trainings[0][1], method="g2netpl", setting="sspl:0.5", weight="")
        outcome = train_cell(load_contest(comparison.features), comparison, cell)
        epoch = float(outcome.history[0]["seconds"])
        once = float(outcome.row["seconds"]) - epoch
        passes = sum(_passes(*training) for training in trainings)
        return (passes * epoch + len(trainings) * once) / max(jobs, 1)
    name = next(name for name in plan.recipes if plan.comparisons(name))
    config = config_of(plan.base(name), *trainings[0], Path("."))
    material = read_material(config.model_copy(update={"setting": "own"}))
    rate = images_per_second(config, material.paths[:96], len(material.table.classes))
    images = len(material.table) + (0 if material.test is None else len(material.test.table) / 10)
    return images / rate * sum(_passes(*training) for training in trainings)


def _passes(comparison: Comparison, cell: Cell) -> int:
    """Epochs of a cell, counting rounds and views."""
    name, changes = comparison.options_of_cell(cell)
    rounds = getattr(method_options(name, changes), "rounds", 1)
    return comparison.epochs * int(rounds) * (2 if find_method(name).two_views else 1)


def images_per_second(config: RunConfig, paths: list[str], classes: int) -> float:
    """The speed of training end to end, from a few batches, after one to warm up."""
    backbone = build_backbone(config.backbone, pretrained=False, image_size=config.image_size)
    network = build_network(backbone, classes, hidden=config.hidden)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    network.to(device)
    observed = torch.full((len(paths), classes), -1, dtype=torch.int8, device=device)
    player = make_player("g2netpl", {}, Setup(observed, 1.0, 1e-4))
    source = ImageSource(
        paths, config.image_size, backbone.mean, backbone.std, max_bad=len(paths), workers=0
    )
    optimizer = make_optimizer("Adam", network.parameters(), 1e-4)
    batches: Iterator[Any] = training_batches(source, observed, config.batch_size, 0, 0)
    play_epoch(network, player, [next(batches)], optimizer, 0.0, 1.0)
    seen, began = 0, time.perf_counter()
    for batch in batches:
        play_epoch(network, player, [batch], optimizer, 0.0, 1.0)
        seen += len(batch)
        if time.perf_counter() - began > 10.0:
            break
    return max(seen, 1) / (time.perf_counter() - began)


def tables_of(plan: Plan) -> tuple[LabelTable, LabelTable | None]:
    """The labels of the training file and of the test."""
    if plan.subject.kind != "images":
        contest = load_contest(plan.subject.root if plan.subject.kind == "features" else None)
        return contest.train, contest.test
    base = plan.base(next(iter(plan.recipes)))
    material = read_material(RunConfig.read({**base, "output": "unused"}, "reproduce"))
    return material.table, None if material.test is None else material.test.table
