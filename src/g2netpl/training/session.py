"""train(config): from a label file and a folder of images to a run folder.

end-to-end    everything is trained
linear        the backbone is frozen; its features are computed once, the last layer is trained
linear-init   linear first, then everything; the best linear weights, û and φ carry over
"""

import os
import time
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import nn

from g2netpl.base.console import Console
from g2netpl.base.disk import check_space, sync, told_plainly, write_json
from g2netpl.base.errors import InputError
from g2netpl.base.locks import check_ours, locked
from g2netpl.base.processes import Processes, connect
from g2netpl.base.signals import Interrupts
from g2netpl.base.terminal import quoted
from g2netpl.game.methods import find_method, method_options, needs_of
from g2netpl.game.network.compiling import compile_network
from g2netpl.game.network.optimizers import make_optimizer
from g2netpl.images.cache import KeptImages
from g2netpl.images.jpeg import check_decoder
from g2netpl.images.workers import told_how_to_go_on
from g2netpl.labels.entries import per_class, per_image, take
from g2netpl.labels.table import POSITIVE
from g2netpl.runs.aside import recover
from g2netpl.runs.config import PATHS, RunConfig
from g2netpl.runs.folder import read_training
from g2netpl.runs.ownership import check_folder, check_unchanged, claimed, is_empty
from g2netpl.runs.run import Run, load_run
from g2netpl.training import expected_positives as expected
from g2netpl.training.agreement import (
    agree_on_backbone,
    agree_on_command,
    agree_on_data,
    agree_on_folder,
)
from g2netpl.training.checkpoints import KEPT, remove_checkpoint, saved
from g2netpl.training.continuation import (
    compared_with,
    decisions_for,
    take_over_labels,
    take_over_network,
    with_decisions,
    write_decided,
)
from g2netpl.training.data import Material, read_material
from g2netpl.training.description import announce, describe
from g2netpl.training.divergence import check_given_up
from g2netpl.training.inputs import Sources, backbone_of
from g2netpl.training.phases import Players, Watch, play
from g2netpl.training.rehearsal import check_memory, rehearse
from g2netpl.training.results import finish
from g2netpl.training.snapshots import Record, Snapshot
from g2netpl.training.trackers import check_trackers, open_trackers


def train(
    config: RunConfig,
    *,
    resume: bool = False,
    overwrite: bool = False,
    console: Console | None = None,
    on_epoch: Watch | None = None,
    kept: KeptImages | None = None,
    advice: str | None = None,
    on_saved: Callable[[], None] | None = None,
) -> Run:
    """Train as the configuration says, write the run folder and give the run back.

    `on_epoch` is called after every epoch with all there is: for experiments. Trainings that are
    given the same `kept`, an empty dictionary at first, decode their images once. `advice` says how
    to go on after a stop, where that is not by `g2netpl train`. `on_saved` is called whenever a
    checkpoint is on the disk; old results may wait for that, so one step is tried first.
    """
    with Interrupts(advice) as interrupts, ExitStack() as lock:
        processes = connect(config.device == "cpu", interrupts)
        if console is None or not processes.is_main:
            console = Console(quiet=True)
        folder = Path(config.output)
        with processes.together(), told_plainly(folder), told_how_to_go_on(interrupts):
            return _train(
                config,
                resume,
                overwrite,
                console,
                on_epoch,
                kept,
                interrupts,
                processes,
                lock,
                on_saved,
            )


def _train(
    config: RunConfig,
    resume: bool,
    overwrite: bool,
    console: Console,
    on_epoch: Watch | None,
    kept: KeptImages | None,
    interrupts: Interrupts,
    processes: Processes,
    lock: ExitStack,
    on_saved: Callable[[], None] | None,
) -> Run:
    began = time.perf_counter()
    config = check_config(config)
    folder = Path(config.output)
    agree_on_command(processes, config, resume=resume, overwrite=overwrite)
    if processes.is_main:
        recover(folder)
    processes.barrier()
    resume = resume and not processes.broadcast(
        is_empty(folder)
    )  # a launcher may say --resume the first time too
    if not resume:
        check_folder(folder, "train", overwrite=overwrite)
    if processes.is_main:
        lock.enter_context(locked(folder))
    accelerator = _accelerator(config)
    earlier = config.resume_labels
    decisions = decisions_for(config, resume, processes)
    material = read_material(config)
    if earlier is not None and not resume:
        material = compared_with(earlier, material)
    material = with_decisions(material, decisions)
    if not resume:
        check_memory(config, len(material.paths), accelerator.device)
    description = describe(config, material, read_training(folder) if resume else None, processes)
    agree_on_data(processes, description, material)
    if resume:
        other = check_unchanged(folder, description)
        if other:
            console.print(f"note: begun with other versions ({other}): results may differ a little")
        check_given_up(folder)
        interrupts.begun(_how_to_go_on(folder))
        if processes.broadcast((folder / "result.json").is_file()):
            console.print(f"{folder}: this run is finished already")
            if processes.is_main:
                remove_checkpoint(folder)
            return load_run(folder)
        if not saved(folder):
            console.print("nothing was saved yet: beginning with the first epoch")
    backbone = backbone_of(config)
    agree_on_backbone(processes, backbone.module)
    backbone.module.to(accelerator.device)
    sources = Sources(config, material, backbone, console, processes, kept)
    if resume:
        k, how = read_training(folder)["expected_positives"], "as before"
    else:
        k, how = _expected_positives(config, material, sources)
    k = processes.broadcast(k)
    contest = Players.prepare(config, material, sources, accelerator, processes, k)
    if earlier is not None:
        take_over_network(earlier, contest.network)
    sources.prepare()
    if config.compile:
        compile_network(contest.network, config.batch_size, config.image_size, accelerator.autocast)
    check_space(folder, (1 if resume else KEPT + 1) * contest.bytes())
    description |= {"expected_positives": k, "mean": backbone.mean, "std": backbone.std}
    replaces = not resume and bool(processes.broadcast(not is_empty(folder)))
    if replaces:
        rehearse(config, contest, sources)
    aside = None
    if processes.is_main and not resume:  # after everything that a mistake of the user could stop
        aside = lock.enter_context(claimed(folder, "train", overwrite=overwrite))
        write_json(folder / "run.json", description)
        if decisions:
            write_decided(folder, decisions)
    if not replaces:
        interrupts.begun(_how_to_go_on(folder))
    agree_on_folder(processes, folder)
    if on_saved is not None and not resume:  # the old results of others; our own were tried before
        rehearse(config, contest, sources)
    announce(console, config, material, f"{k:.2f} ({how})")
    say = None if console.quiet else partial(console.print, markup=False, highlight=False)
    tracked = config.track if processes.is_main else ()
    trackers = open_trackers(tracked, folder, config.model_dump(), say)

    def watch(now: Snapshot, *rest: Any) -> None:
        trackers.epoch(now.history[-1])
        if on_epoch is not None:
            on_epoch(now, *rest)

    def begin() -> None:
        if earlier is not None:
            take_over_labels(earlier, material, contest.player)

    def saved_now() -> None:
        if aside is not None:
            aside.drop()
        interrupts.begun(_how_to_go_on(folder))
        if on_saved is not None:
            on_saved()

    with trackers:
        snapshot = play(
            config, contest, material, sources, console, watch, interrupts, begin, saved_now
        )
    interrupts.check()
    accelerator.unwrap_model(contest.network, keep_fp32_wrapper=False)  # judged as it predicts
    check_ours(folder)
    result = finish(
        config, material, sources, contest.network, contest.player, snapshot, k, processes
    )
    _say_what_was_left_out(console, material, sources, result)
    result["seconds"] = round(time.perf_counter() - began, 3)
    if processes.is_main:
        check_ours(folder)
        sync(folder / "history.jsonl")
        write_json(folder / "run.json", description)
        write_json(folder / "result.json", result)
        trackers.finish(result)
        remove_checkpoint(folder)
    processes.barrier()
    return load_run(folder)


def _how_to_go_on(folder: Path) -> str:
    return f"go on with: g2netpl train --resume --output {quoted(folder)}"


def _say_what_was_left_out(
    console: Console, material: Material, sources: Sources, result: Record
) -> None:
    for problem in sources.bad_images():
        console.print(f"left out: {problem}", highlight=False, soft_wrap=True)
    if material.test is not None and result["test_map"] is None:
        console.print(
            "no class has both a positive and a negative among the test labels: no mAP can be had "
            "from them; where they are complete, say so with g2netpl convert --absent negative"
        )


def _expected_positives(
    config: RunConfig, material: Material, sources: Sources
) -> tuple[float, str]:
    """k and where it comes from."""
    classes = len(material.table.classes)
    if isinstance(config.expected_positives, float):
        expected.check(config.expected_positives, classes)
        return config.expected_positives, "given"
    if config.expected_positives == "truth":
        truth = take(material.table.held, material.training)
        known = per_image(truth)[per_image(truth) > 0]
        if not len(known) or (known < classes).any():
            raise InputError("expected_positives: 'truth' needs a file with full labels")
        return float(per_class(truth, POSITIVE).sum() / len(known)), "the truth's mean"
    if config.resume_labels is not None:
        return read_training(config.resume_labels)["expected_positives"], "as before the review"
    linear = config.mode != "end-to-end"
    return expected.estimate(
        material.visible.held,
        None if material.validation is None else material.validation.held,
        lambda rows: sources.some_features(rows, linear),
        config.seed,
    )


def check_config(config: RunConfig) -> RunConfig:
    """The configuration with its method's options read, or one line about what does not fit."""
    if find_method(config.method).full_labels_only and config.setting != "full":
        raise InputError(f"method {config.method} needs full labels: use it with --setting full")
    if find_method(config.method).two_views and config.mode != "end-to-end":
        raise InputError(f"method {config.method} compares views of images: use --mode end-to-end")
    if config.head == "boostlu" and config.mode == "linear":
        raise InputError("head boostlu: needs feature maps of the images: use --mode end-to-end")
    if config.compile and config.mode == "linear":
        raise InputError("compile: there is no backbone that learns; use --mode end-to-end")
    if config.precision == "fp16" and _on_cpu(config):
        raise InputError("precision: fp16 needs a GPU, and there is none; use bf16 or float32")
    check_decoder(config.decoder)
    options = method_options(config.method, config.options)
    rounds = needs_of(config.method, config.options).rounds
    if config.mode == "linear-init" and rounds > 1:
        raise InputError(
            f"method {config.method} trains the network anew each round: use --mode linear or "
            "end-to-end"
        )
    check_trackers(config.track)
    rate = config.rate("linear" if config.mode == "linear" else "end-to-end")
    make_optimizer(config.optimizer, [nn.Parameter(torch.zeros(1))], rate)
    changes: dict[str, Any] = {"options": {name: getattr(options, name) for name in config.options}}
    for name in PATHS:  # a run can be resumed from any folder
        if getattr(config, name) is not None:
            changes[name] = os.path.abspath(getattr(config, name))
    return config.model_copy(update=changes)


def _on_cpu(config: RunConfig) -> bool:
    return config.device == "cpu" or not torch.accelerator.is_available()


def _accelerator(config: RunConfig) -> Any:
    from accelerate import Accelerator
    from accelerate.state import AcceleratorState

    precision = {"float32": "no"}.get(config.precision, config.precision)
    AcceleratorState._reset_state(reset_partial_state=True)  # an earlier run may have differed
    return Accelerator(mixed_precision=precision, cpu=_on_cpu(config))
