"""To resume after a review: what people decided is observed from now on.

The run that was reviewed gives its configuration, its k and its split: labels that were chosen to
be asked about tell neither how many positives there are nor how good a network is. The model
starts with the weights of that run, and unobserved labels with its pseudo-labels.

decided.jsonl in the new run folder holds all decisions behind it, also those of earlier reviews:
the first run may be reviewed further while the second is trained, and the second one reviewed too.
"""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from shlex import quote
from typing import Any

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.torch import load
from torch import Tensor

from g2netpl.core.annotation import SampledPositiveHead
from g2netpl.core.prior import prior_from_state
from g2netpl.runs.answers import Decision, apply_decisions, latest, read_decisions
from g2netpl.runs.config import RunConfig
from g2netpl.runs.folder import DECIDED, MODEL, REVIEW
from g2netpl.runs.prior import FoundPrior
from g2netpl.runs.run import Run
from g2netpl.training.splits import TrainingData
from g2netpl.training.trainer import Trainer
from g2netpl.utils import distributed
from g2netpl.utils.errors import InputError, counted
from g2netpl.utils.files import write_bytes


def config_after_review(folder: str | Path, given: Mapping[str, Any]) -> dict[str, Any]:
    """The keys of a reviewed run to go on with; `given` are those that shall be different.

    Those that follow from the mode of that run, or belong to it, do not outlive it.
    """
    about = Run.open(folder).about
    before: dict[str, Any] = {**about["config"], **about.get("asked", {})}
    del before["output"]  # the run that was reviewed stays as it is
    if given.get("mode", before.get("mode")) != before.get("mode"):
        before.pop("train_from", None)
    return {**before, "continue_from": str(folder)}


def decisions_for(config: RunConfig, resume: bool) -> list[Decision]:
    """What people decided before this run began, in the order of time; none without a review."""
    if config.continue_from is None:
        return []
    if resume:
        return read_decisions(config.output, DECIDED)
    folder = Path(config.continue_from)
    if folder.resolve() == Path(config.output).resolve():
        raise InputError(
            f"{folder}: the run that was reviewed must stay as it is; choose another --output"
        )
    # rank 0 reads for all of them: somebody may be answering meanwhile
    lines = _lines(_decisions_about(folder)) if distributed.is_main() else b""
    return [Decision.from_line(line) for line in distributed.broadcast(lines).splitlines()]


def _decisions_about(folder: Path) -> list[Decision]:
    found = latest([*read_decisions(folder, DECIDED), *latest(read_decisions(folder))])
    if not found:
        raise InputError(
            f"continue_from: {folder / REVIEW} holds no answers; review the run first with "
            f"g2netpl review {quote(str(folder))}"
        )
    return found


def write_decided(folder: Path, decisions: list[Decision]) -> None:
    """Keep the decisions with the run that was trained on them."""
    write_bytes(folder / DECIDED, _lines(decisions))


def _lines(decisions: list[Decision]) -> bytes:
    return b"".join(each.to_line() for each in decisions)


def compared_with(folder: str | Path, data: TrainingData) -> TrainingData:
    """Refuse labels that an earlier run cannot go on with; note what it had seen of the others."""
    saved = Run.open(folder).labels
    if saved.classes != data.table.classes:
        raise InputError(
            f"continue_from: {folder} knows other classes than the label file, or in another "
            f"order; train anew on the file of g2netpl review {quote(str(folder))} --export "
            "labels.csv"
        )
    trained = {name for name, soft in zip(saved.images, saved.has_soft, strict=True) if soft}
    seen = sum(data.table.images[row] in trained for row in data.held_out)
    if not seen:
        return data
    note = (
        f"{counted(seen, 'held-out image')} trained on before the review, since the labels, the "
        "groups or the seed are others: mAP on them is too good"
    )
    return replace(data, notes=(*data.notes, note))


def with_decisions(
    data: TrainingData, decisions: list[Decision], single_label: bool = False
) -> TrainingData:
    """The decisions as observed labels. What the epoch is chosen by stays as it was."""
    if not decisions:
        return data
    trained = set(data.visible.images)
    seen = [each for each in decisions if each.image in trained]
    yes = sum(each.new for each in decisions)
    note = (
        f"{counted(len(decisions), 'label')} by review: {yes:,} positive, "
        f"{len(decisions) - yes:,} negative"
    )
    if len(seen) < len(decisions):
        note += f"; {len(decisions) - len(seen):,} of them of held-out images, not trained on"
    return replace(
        data,
        table=apply_decisions(data.table, decisions, single_label),
        visible=apply_decisions(data.visible, seen, single_label),
        notes=(*data.notes, note),
    )


def earlier_prior(folder: str | Path, asked: FoundPrior) -> FoundPrior:
    """The names of an earlier run; they are not matched again."""
    if asked.kind == "scores" or asked.reason == "given":
        return asked
    prior = prior_from_state(_state(Path(folder) / MODEL))
    return replace(asked, kind="none" if prior is None else "names", prior=prior)


def continue_from(folder: str | Path, trainer: Trainer) -> None:
    """Start with the model and the pseudo-labels of an earlier run; 0.5 for images it had not."""
    _load_model(folder, trainer)
    saved = Run.open(folder).labels
    places = {name: row for row, name in enumerate(saved.images) if saved.has_soft[row]}
    images = [trainer.data.visible.images[row] for row in trainer.rows]
    rows = np.array([places.get(name, -1) for name in images], dtype=np.int64)
    labels = np.array(saved.completed[np.maximum(rows, 0)], dtype=np.float32)
    labels[(rows < 0)[:, None] | np.isnan(labels)] = 0.5  # NaN: the image could not be read
    own = torch.arange(len(rows), device=trainer.device)
    trainer.method.init_pseudo_labels(own, torch.from_numpy(labels).to(trainer.device))


def _load_model(folder: str | Path, trainer: Trainer) -> None:
    model = trainer.full_model
    try:
        model.load_state_dict(_state(Path(folder) / MODEL))
    except RuntimeError:
        raise InputError(
            f"continue_from: the architecture of {folder} differs; use the same backbone, hidden, "
            f"prior and classes, or train on the file of g2netpl review {quote(str(folder))} "
            "--export labels.csv"
        ) from None
    if isinstance(model.head, SampledPositiveHead):
        model.head.reset_calibration(trainer.k)


def _state(path: Path) -> dict[str, Tensor]:
    try:
        state = load(path.read_bytes())
    except (OSError, SafetensorError) as problem:
        raise InputError(f"{path}: cannot be read ({problem}); train again") from None
    if not all(bool(torch.isfinite(value).all()) for value in state.values()):
        raise InputError(f"{path}: has values that are not finite; train again")
    return state
