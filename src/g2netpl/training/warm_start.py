"""Continue a reviewed run: what people decided is observed from now on.

The reviewed run gives its configuration, its k and its split, since labels that were chosen to be
asked about show neither how many positives there are nor how good a model is. The model starts with
the weights of that run, and unobserved labels with its pseudo-labels.

decided.jsonl in the new run folder holds all decisions behind it, also those of earlier reviews:
the first run may be reviewed further while the second is trained, and the second reviewed too.
"""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from shlex import quote
from typing import Any

import numpy as np
import torch

from g2netpl.core.annotation import SampledPositiveHead
from g2netpl.runs.answers import Decision, apply_decisions, latest, read_decisions
from g2netpl.runs.config import RunConfig
from g2netpl.runs.prior import FoundPrior
from g2netpl.runs.records import DECIDED, REVIEW
from g2netpl.runs.run import Run
from g2netpl.training.names_only import CLASS_LIST
from g2netpl.training.splits import TrainingData
from g2netpl.training.trainer import Trainer
from g2netpl.utils import distributed
from g2netpl.utils.errors import InputError, counted


def config_after_review(folder: str | Path, given: Mapping[str, Any]) -> dict[str, Any]:
    """The keys of a reviewed run to continue with; `given` are those that will be different.

    Keys that belong to the mode of that run are left out if the mode will be different.
    """
    about = Run.open(folder).about
    before: dict[str, Any] = {**about["config"], **about.get("asked", {})}
    if before.get("format") == CLASS_LIST:
        raise InputError(
            f"{folder}: was trained without any tag, so there is nothing to continue from; "
            f"g2netpl review {quote(str(folder))} --export labels.csv, and train on that"
        )
    del before["output"]  # the run that was reviewed stays as it is
    if given.get("mode", before.get("mode")) != before.get("mode"):
        before.pop("train_from", None)
    return {**before, "continue_from": str(folder)}


def decisions_for(config: RunConfig, resume: bool) -> list[Decision]:
    """What people decided before this run began, in the order of time."""
    if resume:
        return read_decisions(config.output, DECIDED)
    folder = Path(str(config.continue_from))
    if folder.resolve() == Path(config.output).resolve():
        raise InputError(f"{folder}: the reviewed run must not be changed; choose another --output")
    decisions: list[Decision] = []
    if distributed.is_main():  # somebody may be answering meanwhile, so one rank reads for all
        decisions = latest([*read_decisions(folder, DECIDED), *latest(read_decisions(folder))])
        if not decisions:
            raise InputError(
                f"continue_from: {folder / REVIEW} holds no answers; review the run first with "
                f"g2netpl review {quote(str(folder))}"
            )
    return distributed.broadcast(decisions)


def with_decisions(
    data: TrainingData, earlier: Run, decisions: list[Decision], single_label: bool
) -> TrainingData:
    """The decisions as observed labels. What the epoch is chosen by stays as it was."""
    saved, name = earlier.labels, earlier.folder
    if saved.classes != data.table.classes:
        raise InputError(
            f"continue_from: {name} has other classes than the label file, or in another "
            f"order; train from scratch on the file of g2netpl review {quote(str(name))} --export "
            "labels.csv"
        )
    is_visible = set(data.visible.images)
    ours = [decision for decision in decisions if decision.image in is_visible]
    positive = sum(decision.new for decision in decisions)
    note = (
        f"{counted(len(decisions), 'label')} by review: {positive:,} positive, "
        f"{len(decisions) - positive:,} negative"
    )
    if len(ours) < len(decisions):
        note += f"; {len(decisions) - len(ours):,} of them on held-out images, not trained on"
    return replace(
        data,
        table=apply_decisions(data.table, decisions, single_label),
        visible=apply_decisions(data.visible, ours, single_label),
        notes=(*data.notes, note),
    )


def earlier_prior(earlier: Run, asked: FoundPrior) -> FoundPrior:
    """The names of an earlier run; they are not matched again."""
    if asked.kind == "scores" or asked.reason == "given":
        return asked
    prior = earlier.model.head.prior
    return replace(asked, kind="none" if prior is None else "names", prior=prior)


def continue_from(earlier: Run, trainer: Trainer) -> None:
    """Start with the model and the pseudo-labels of an earlier run; 0.5 for images it had not."""
    model, folder = trainer.full_model, earlier.folder
    try:
        model.load_state_dict(earlier.model.state_dict())
    except RuntimeError:
        raise InputError(
            f"continue_from: the architecture of {folder} differs; use the same backbone, hidden, "
            f"prior and classes, or train on the file of g2netpl review {quote(str(folder))} "
            "--export labels.csv"
        ) from None
    if isinstance(model.head, SampledPositiveHead):
        model.head.reset_calibration(trainer.k)
    saved = earlier.labels
    places = {name: row for row, name in enumerate(saved.images) if saved.has_soft[row]}
    images = [trainer.data.visible.images[row] for row in trainer.rows]
    rows = np.array([places.get(name, -1) for name in images], dtype=np.int64)
    labels = np.array(saved.completed[np.maximum(rows, 0)], dtype=np.float32)
    labels[(rows < 0)[:, None] | np.isnan(labels)] = 0.5  # NaN: the image could not be read
    own = torch.arange(len(rows), device=trainer.device)
    trainer.method.init_pseudo_labels(own, torch.from_numpy(labels).to(trainer.device))
