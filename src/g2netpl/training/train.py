"""train(config): from label files and images to a run folder."""

import shutil
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from g2netpl.core.plugins import LOADED
from g2netpl.images.workers import with_resume_advice
from g2netpl.labels.class_names import write_names
from g2netpl.labels.files import each_file
from g2netpl.runs.config import PATHS, RunConfig, is_path
from g2netpl.runs.folder import CHECKPOINTS, HISTORY, NAMES, RESULT, RUN, is_finished
from g2netpl.runs.ownership import check_folder, check_unchanged, is_empty, set_aside
from g2netpl.runs.prior import find_prior
from g2netpl.runs.records import RUN_FORMAT, read_training, write_history
from g2netpl.runs.run import Run, load_run
from g2netpl.runs.tracker_names import is_inside
from g2netpl.training import expected_positives
from g2netpl.training.checkpoints import Checkpointing, load_checkpoint, saved
from g2netpl.training.configuration import (
    check_config,
    print_summary,
    resolve_mode,
    resolved_configuration,
    versions,
    weights_identity,
)
from g2netpl.training.data import read_training_data
from g2netpl.training.datamodule import ImageDataModule, backbone_of
from g2netpl.training.names_only import (
    CLASS_LIST,
    known_classes_only,
    untagged_config,
    without_weights,
)
from g2netpl.training.progress import Progress
from g2netpl.training.results import write_results
from g2netpl.training.splits import TrainingData
from g2netpl.training.trackers import Trackers
from g2netpl.training.trainer import Callback, Trainer
from g2netpl.training.warm_start import (
    compared_with,
    continue_from,
    decisions_for,
    earlier_prior,
    with_decisions,
    write_decided,
)
from g2netpl.utils import distributed
from g2netpl.utils.console import Console, quoted
from g2netpl.utils.files import friendly_os_errors, write_json
from g2netpl.utils.image_refs import file_digest
from g2netpl.utils.launch import device_of
from g2netpl.utils.locks import locked
from g2netpl.utils.signals import AGAIN, Interrupts

OnEpoch = Callable[[Trainer], None]


def train(
    config: RunConfig,
    *,
    resume: bool = False,
    overwrite: bool = False,
    progress: bool = False,
    console: Console | None = None,
    on_epoch: OnEpoch | None = None,
    advice: str | None = None,
) -> Run:
    """Train as the configuration says, write the run folder and return the run.

    With `progress` it prints what `g2netpl train` prints; `console` is another place for that.
    `on_epoch` is called after every epoch. `advice` says how to resume after an interruption, if
    that is not by `g2netpl train`.
    """
    with Interrupts(advice) as interrupts, ExitStack() as stack:
        if resume:
            interrupts.begun(AGAIN)
        stack.enter_context(distributed.process_group(device_of(config.device)))
        if console is None or not distributed.is_main():
            console = Console(quiet=not (progress and distributed.is_main()))
        folder = Path(config.output)
        stack.enter_context(friendly_os_errors(folder))
        stack.enter_context(with_resume_advice(interrupts))
        lock = stack.enter_context(ExitStack())
        again = resume and not distributed.broadcast(is_empty(folder))  # or the first launch
        config = _resolved(config, again, console)
        _claim(folder, config, again, overwrite, lock)
        return _train(config, again, console, on_epoch, interrupts, lock)


def _resolved(config: RunConfig, resume: bool, console: Console) -> RunConfig:
    if config.format == CLASS_LIST:
        config = untagged_config(config)
    if config.mode == "auto":
        mode, why = resolve_mode(config)
        if resume:
            mode = read_training(config.output)["config"]["mode"]
        config = config.model_copy(update={"mode": mode})
        console.print(f"mode: {mode} ({why})")
    config = check_config(config)
    distributed.check_ranks_match(
        {
            "flags": str(config.model_dump(exclude={"workers", "cache", *PATHS})),
            "versions": str(versions()),
        }
    )
    return config


def _claim(folder: Path, config: RunConfig, resume: bool, overwrite: bool, lock: ExitStack) -> None:
    """Check that the folder may be written, and lock it; an old run is renamed."""
    if not distributed.is_main():
        return
    if not resume:
        inputs = [getattr(config, key) for key in PATHS - {"output", "cache"}]
        given = [path for each in inputs if each is not None for path in each_file(each)]
        check_folder(folder, "train", overwrite=overwrite, inputs=given)
    lock.enter_context(locked(folder))


def _train(
    config: RunConfig,
    resume: bool,
    console: Console,
    on_epoch: OnEpoch | None,
    interrupts: Interrupts,
    lock: ExitStack,
) -> Run:
    began, folder = time.perf_counter(), Path(config.output)
    command = f"resume with: {_resume_command(config)}"
    if resume:
        interrupts.begun(command)
    decisions = decisions_for(config, resume)
    data = read_training_data(config)
    if config.continue_from is not None and not resume:
        data = compared_with(config.continue_from, data)
    data = with_decisions(data, decisions, config.single_label)
    about = _description(config, data, read_training(folder) if resume else None)
    distributed.check_ranks_match(
        {"labels": str(about["data"]["fingerprints"]), "visible labels": data.visible.fingerprint()}
    )
    if resume and _is_finished(folder, about, console):
        return load_run(folder)
    backbone = backbone_of(config)
    backbone.module.to(device_of(config.device))
    k, annotation = _as_before(config, resume)
    prior = find_prior(config, data.table.classes, backbone)
    if config.continue_from is not None:
        prior = earlier_prior(config.continue_from, prior)
    if config.format == CLASS_LIST:
        data, prior = known_classes_only(data, prior)
    inputs = ImageDataModule(config, data, backbone, console)
    checkpointing = Checkpointing(config, interrupts)
    trainer = Trainer(
        config,
        data,
        inputs,
        prior=prior,
        k=k,
        annotation=annotation,
        uninterrupted=interrupts.noted,
    )
    if config.format == CLASS_LIST:
        without_weights(trainer.full_model)
    elif config.continue_from is not None:
        continue_from(config.continue_from, trainer)
    inputs.prepare()
    about |= {
        "classes": list(data.table.classes),
        "expected_positives": trainer.k,
        "annotation": trainer.annotation,
        "resolved": resolved_configuration(trainer),
        "mean": backbone.mean,
        "std": backbone.std,
    }
    if distributed.is_main() and not resume:
        _set_aside_old(folder, lock)
        write_json(folder / RUN, about)
        if trainer.prior.matches:
            write_names(folder / NAMES, trainer.prior.matches)
        if decisions:
            write_decided(folder, decisions)
    interrupts.begun(command)
    print_summary(console, trainer)
    say = None if console.quiet else console.print
    names = config.log_with if distributed.is_main() else ()
    with Trackers(names, folder, about["config"], say) as trackers:
        # a checkpoint comes last: who is told of an epoch is told again if it has to be repeated
        trainer.callbacks = [Progress(console), _Epochs(trackers, on_epoch), checkpointing]
        checkpoint = load_checkpoint(folder, console.print) if resume else None
        if checkpoint is not None:
            _print_resumed(console, folder, trainer, checkpoint["trainer"])
        with checkpointing.saving(trainer):
            trainer.fit(checkpoint)
        interrupts.check()
        result = write_results(trainer, folder, began, console)
        for problem in inputs.bad_images():
            console.print(f"left out: {problem}")
        if result is not None:
            if data.test is not None and result["test_map"] is None:
                console.print(
                    "No test class has both positives and negatives, so test mAP is undefined; "
                    "for complete labels use g2netpl convert --absent negative."
                )
            write_json(folder / RESULT, result)
            trackers.finish(result)
            shutil.rmtree(folder / CHECKPOINTS, ignore_errors=True)
    distributed.barrier()
    return load_run(folder)


def _as_before(
    config: RunConfig, resume: bool
) -> tuple[expected_positives.Expected | None, tuple[str, str] | None]:
    """k and annotation model of the run that is resumed, or of the one that was reviewed.

    Labels that were chosen to be asked about in a review tell neither.
    """
    before = config.output if resume else config.continue_from
    if before is None:
        return None, None
    origin = "as before" if resume else "as before the review"
    k: expected_positives.Expected | None = None
    if resume or config.expected_positives == "estimate":
        k = expected_positives.as_before(before, origin)
    if not resume and config.annotation is not None:
        return k, None
    return k, (read_training(before)["annotation"], origin)


class _Epochs(Callback):
    """Trackers and the caller hear of every epoch."""

    def __init__(self, trackers: Trackers, on_epoch: OnEpoch | None) -> None:
        self.trackers, self.on_epoch = trackers, on_epoch

    def on_epoch_end(self, trainer: Trainer) -> None:
        self.trackers.epoch(trainer.state.history)
        if self.on_epoch is not None:
            self.on_epoch(trainer)

    def on_phase_end(self, trainer: Trainer) -> None:
        self.trackers.epoch(trainer.state.history)  # of a run that crashed directly after its end


def _set_aside_old(folder: Path, lock: ExitStack) -> None:
    """Rename an old run in the folder, which is locked again after that."""
    if not is_empty(folder):
        lock.close()
        set_aside(folder)
        lock.enter_context(locked(folder))


def _description(
    config: RunConfig, data: TrainingData, before: dict[str, Any] | None
) -> dict[str, Any]:
    """The content of run.json; `before` is that of a run that is resumed."""
    earlier = config.continue_from
    digest = None if earlier is None else file_digest(f"{earlier}/model.safetensors")
    return {
        "format": RUN_FORMAT,
        "command": "train",
        "config": config.model_dump() | {"epochs": config.epochs_on(len(data.training))},
        "asked": {"epochs": config.epochs} if before is None else before["asked"],
        "versions": versions(),
        "weights": weights_identity(config),
        "data": {
            "fingerprints": data.fingerprints | _digests(config),
            "earlier_model": None if digest is None else digest.hex(),
            "images": len(data.table),
            "training_images": len(data.training),
            "observed_fraction": data.visible.observed_fraction,
            "chosen_epoch": data.note,
        },
        "classes": list(data.table.classes),
    }


def _digests(config: RunConfig) -> dict[str, str]:
    """Short names of the content of files that the prior depends on."""
    files = {key: getattr(config, key) for key in ("prior", "names")}
    digests = {key: file_digest(file) for key, file in files.items() if file and is_path(key, file)}
    return {key: digest.hex() for key, digest in digests.items() if digest is not None}


def _is_finished(folder: Path, about: dict[str, Any], console: Console) -> bool:
    """Whether the run that is resumed is finished; another run is rejected."""
    other = check_unchanged(folder, about)
    if other:
        console.print(f"note: the run began with other versions ({other}): results may differ")
    if distributed.broadcast(is_finished(folder)):
        console.print(f"{folder}: this run is finished already")
        return True
    if not saved(folder):
        console.print("no checkpoint yet: starting with the first epoch")
    return False


def _print_resumed(console: Console, folder: Path, trainer: Trainer, state: dict[str, Any]) -> None:
    finished = trainer.phases[state["phase"]].first_epoch + state["finished"]
    steps = f", {state['step']} steps into the next" if state["step"] else ""
    console.print(f"resuming after epoch {finished}{steps}")
    if distributed.is_main():
        write_history(folder / HISTORY, state["history"])  # it may hold an epoch that was not saved


def _resume_command(config: RunConfig) -> str:
    plugins = "".join(f" --plugin {quoted(path)}" for path in LOADED)
    outside = [name for name in config.log_with if not is_inside(name)]
    trackers = f" --log-with {quoted(','.join(config.log_with))}" if outside else ""
    return f"g2netpl train --resume --output {quoted(config.output)}{trackers}{plugins}"
