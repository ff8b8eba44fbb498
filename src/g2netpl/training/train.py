"""train(config): from label files and images to a run folder."""

import shutil
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from g2netpl.core.plugins import LOADED
from g2netpl.images.loader import with_resume_advice
from g2netpl.labels.class_names import write_names
from g2netpl.labels.files import each_file
from g2netpl.runs.config import PATHS, RunConfig, is_inside, is_path
from g2netpl.runs.output_dir import check_output_dir, check_unchanged, is_empty, set_aside
from g2netpl.runs.prior import find_prior
from g2netpl.runs.records import (
    CHECKPOINTS,
    DECIDED,
    HISTORY,
    NAMES,
    RESULT,
    RUN,
    RUN_FORMAT,
    is_finished,
    read_training,
    write_history,
)
from g2netpl.runs.run import Run, load_run
from g2netpl.training import names_only, warm_start
from g2netpl.training.checkpoints import Checkpointing, load_checkpoint, saved
from g2netpl.training.configuration import (
    check_config,
    digest_of,
    print_summary,
    resolve_mode,
    resolved_configuration,
    versions,
    weights_identity,
)
from g2netpl.training.data import read_training_data
from g2netpl.training.datamodule import ImageDataModule, backbone_of
from g2netpl.training.expected_positives import Expected
from g2netpl.training.progress import Progress
from g2netpl.training.results import write_results
from g2netpl.training.splits import TrainingData
from g2netpl.training.trackers import Trackers
from g2netpl.training.trainer import Callback, Trainer
from g2netpl.utils import distributed
from g2netpl.utils.console import Console, quoted
from g2netpl.utils.errors import InputError
from g2netpl.utils.files import friendly_os_errors, write_bytes, write_json
from g2netpl.utils.launch import device_of
from g2netpl.utils.locks import locked
from g2netpl.utils.signals import AGAIN, Interrupts

OnEpoch = Callable[[Trainer], None]
About = dict[str, Any]  # the content of run.json


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
    """Train by the configuration, write the run folder and return the run.

    With `progress` it prints what `g2netpl train` prints; `console` is another place for that.
    `on_epoch` is called after every epoch. `advice` says how to resume after an interruption, if
    that is not by `g2netpl train`.
    """
    folder = Path(config.output)
    with Interrupts(advice) as interrupts, ExitStack() as stack:
        if resume:
            interrupts.begun(AGAIN)
        stack.enter_context(distributed.process_group(device_of(config.device)))
        if console is None or not distributed.is_main():
            console = Console(quiet=not (progress and distributed.is_main()))
        stack.enter_context(friendly_os_errors(folder))
        stack.enter_context(with_resume_advice(interrupts))
        lock = stack.enter_context(ExitStack())
        resume = resume and not distributed.broadcast(is_empty(folder))  # or the first launch
        before = read_training(folder) if resume else None
        config, mode = _resolved(config, before)
        if distributed.is_main():
            if not resume:
                inputs = [getattr(config, key) for key in PATHS - {"output", "cache"}]
                given = [path for each in inputs if each is not None for path in each_file(each)]
                check_output_dir(folder, "train", overwrite=overwrite, inputs=given)
            lock.enter_context(locked(folder))
        return _train(config, mode, before, console, on_epoch, interrupts, lock)


def _resolved(config: RunConfig, before: About | None) -> tuple[RunConfig, str]:
    """The configuration with its mode, and a line about the mode if it was `auto`."""
    line = ""
    if config.format == names_only.CLASS_LIST:
        config = names_only.untagged_config(config)
    if config.mode == "auto":
        mode, why = resolve_mode(config)
        if before is not None:
            mode = before["config"]["mode"]
        config = config.model_copy(update={"mode": mode})
        line = f"mode: {mode} ({why})"
    config = check_config(config)
    distributed.check_ranks_match(
        {
            "flags": str(config.model_dump(exclude={"workers", "cache", *PATHS})),
            "versions": str(versions()),
        }
    )
    return config, line


def _train(
    config: RunConfig,
    mode: str,
    before: About | None,
    console: Console,
    on_epoch: OnEpoch | None,
    interrupts: Interrupts,
    lock: ExitStack,
) -> Run:
    began, folder, command = time.perf_counter(), Path(config.output), _resume_command(config)
    if before is not None:
        interrupts.begun(command)
    decisions, earlier = [], None
    if config.continue_from is not None:
        decisions = warm_start.decisions_for(config, resume=before is not None)
        earlier = Run.open(config.continue_from)
    data = read_training_data(config)
    if not len(data.training):
        raise InputError(f"{config.images or 'images'}: no images there; name a folder by --images")
    if earlier is not None:
        data = warm_start.with_decisions(data, earlier, decisions, config.single_label)
    about = _description(config, data, before)
    distributed.check_ranks_match(
        {"labels": str(about["data"]["fingerprints"]), "visible labels": data.visible.fingerprint()}
    )
    if before is not None and _is_finished(folder, about, console):
        return load_run(folder)
    trainer = _build_trainer(config, data, earlier, before, console)
    if before is None:
        trainer.start_head()
    about |= {
        "classes": list(trainer.data.table.classes),
        "expected_positives": trainer.k,
        "annotation": trainer.annotation,
        "resolved": resolved_configuration(trainer),
        "mean": trainer.inputs.backbone.mean,
        "std": trainer.inputs.backbone.std,
    }
    if distributed.is_main() and before is None:
        if not is_empty(folder):  # an old run
            lock.close()
            set_aside(folder)
            lock.enter_context(locked(folder))
        write_json(folder / RUN, about)
        if trainer.prior.matches:
            write_names(folder / NAMES, trainer.prior.matches)
        if decisions:
            write_bytes(folder / DECIDED, b"".join(each.to_line() for each in decisions))
    interrupts.begun(command)
    if mode:
        console.print(mode)
    print_summary(console, trainer)
    say = None if console.quiet else console.print
    names = config.log_with if distributed.is_main() else ()
    with Trackers(names, folder, about["config"], say) as trackers:
        checkpointing = Checkpointing(config, interrupts)
        # it comes last: who sees an epoch sees it again if the epoch has to be repeated
        trainer.callbacks = [Progress(console), trackers, _OnEpoch(on_epoch), checkpointing]
        checkpoint = load_checkpoint(folder, console.print) if before is not None else None
        if checkpoint is not None:
            if checkpoint["trainer"]["phase"] >= len(trainer.phases):
                raise InputError(f"{folder}: its checkpoint has another mode; use --overwrite")
            _print_resumed(console, folder, trainer, checkpoint["trainer"])
        with interrupts.noted():
            trainer.fit(checkpoint)
        result = write_results(trainer, folder, began, console)
        for problem in trainer.inputs.bad_images():
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


def _build_trainer(
    config: RunConfig,
    data: TrainingData,
    earlier: Run | None,
    before: About | None,
    console: Console,
) -> Trainer:
    """The Trainer with its inputs, and its model as it is before the first epoch.

    A resumed run keeps its k and annotation model, and so does one that continues after a review:
    labels that were chosen to be asked about show neither.
    """
    backbone = backbone_of(config)
    backbone.module.to(device_of(config.device))
    prior = find_prior(config, data.table.classes, backbone)
    if earlier is not None:
        prior = warm_start.earlier_prior(earlier, prior)
    if config.format == names_only.CLASS_LIST:
        names_only.check_known(data.table.classes, prior)
    k, annotation, kept, origin = None, None, before, "as before"
    if before is None and earlier is not None:
        kept, origin = earlier.about, "as before the review"
    if kept is not None and (before is not None or config.expected_positives == "estimate"):
        k = Expected(kept["expected_positives"], origin, kept["annotation"] != "sampled")
    if kept is not None and (before is not None or config.annotation is None):
        annotation = kept["annotation"], origin
    inputs = ImageDataModule(config, data, backbone, console)
    trainer = Trainer(config, data, inputs, prior=prior, k=k, annotation=annotation)
    if config.format == names_only.CLASS_LIST:
        names_only.without_weights(trainer.full_model)
    elif earlier is not None:
        warm_start.continue_from(earlier, trainer)
    inputs.prepare()
    return trainer


class _OnEpoch(Callback):
    """Calls a function after every epoch."""

    def __init__(self, call: OnEpoch | None) -> None:
        self.call = call

    def on_epoch_end(self, trainer: Trainer) -> None:
        if self.call is not None:
            self.call(trainer)


def _description(config: RunConfig, data: TrainingData, before: About | None) -> About:
    """The content of run.json; `before` is that of a run that is resumed."""
    earlier = config.continue_from
    files = {key: getattr(config, key) for key in ("prior", "names")}
    fingerprints = {name: listed.table.fingerprint() for name, listed in data.files.items()}
    digests = {key: digest_of(file) for key, file in files.items() if file and is_path(key, file)}
    return {
        "format": RUN_FORMAT,
        "command": "train",
        "config": config.model_dump() | {"epochs": config.epochs_on(len(data.training))},
        "asked": {"epochs": config.epochs} if before is None else before["asked"],
        "versions": versions(),
        "weights": weights_identity(config),
        "data": {
            "fingerprints": fingerprints | digests,
            "earlier_model": None if earlier is None else digest_of(f"{earlier}/model.safetensors"),
            "images": len(data.table),
            "training_images": len(data.training),
            "observed_fraction": data.visible.observed_fraction,
            "chosen_epoch": data.note,
        },
        "classes": list(data.table.classes),
    }


def _is_finished(folder: Path, about: About, console: Console) -> bool:
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


def _print_resumed(console: Console, folder: Path, trainer: Trainer, state: About) -> None:
    finished = trainer.phases[state["phase"]].first_epoch + state["finished"]
    steps = f", {state['step']} steps into the next" if state["step"] else ""
    console.print(f"resuming after epoch {finished}{steps}")
    if distributed.is_main():
        write_history(folder / HISTORY, state["history"])  # it may hold an epoch that was not saved


def _resume_command(config: RunConfig) -> str:
    plugins = "".join(f" --plugin {quoted(path)}" for path in LOADED)
    outside = [name for name in config.log_with if not is_inside(name)]
    trackers = f" --log-with {quoted(','.join(config.log_with))}" if outside else ""
    output = quoted(config.output)
    return f"resume with: g2netpl train --resume --output {output}{trackers}{plugins}"
