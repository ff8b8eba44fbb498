"""train(config): from a label file and a folder of images to a run folder.

end-to-end    everything is trained
linear        the backbone is frozen; its features are computed once, the last layer is trained
linear-init   linear first, then everything; the best linear weights, û and φ carry over
"""

import time
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

from g2netpl.base.console import Console
from g2netpl.base.disk import check_space, sync, told_plainly, write_json
from g2netpl.base.locks import check_ours, locked
from g2netpl.base.processes import Team, connect
from g2netpl.base.signals import Interrupts
from g2netpl.base.terminal import quoted
from g2netpl.game.network.compiling import compile_network
from g2netpl.images.cache import KeptImages
from g2netpl.images.workers import told_how_to_go_on
from g2netpl.runs.aside import recover
from g2netpl.runs.config import RunConfig
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
from g2netpl.training.checks import check_config
from g2netpl.training.continuation import (
    compared_with,
    decisions_for,
    take_over_labels,
    take_over_network,
    with_decisions,
    write_decided,
)
from g2netpl.training.data import TrainingData, read_training_data
from g2netpl.training.description import announce, describe
from g2netpl.training.devices import accelerator_of
from g2netpl.training.divergence import check_given_up
from g2netpl.training.inputs import ImageInputs, backbone_of
from g2netpl.training.phases import Players, Watch, play
from g2netpl.training.rehearsal import check_memory, rehearse
from g2netpl.training.results import finish
from g2netpl.training.snapshots import Record, Snapshot
from g2netpl.training.trackers import open_trackers


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
        team = connect(config.device == "cpu", interrupts)
        if console is None or not team.leads:
            console = Console(quiet=True)
        folder = Path(config.output)
        with team.together(), told_plainly(folder), told_how_to_go_on(interrupts):
            return _train(
                config, resume, overwrite, console, on_epoch, kept, interrupts, team, lock, on_saved
            )


def _train(
    config: RunConfig,
    resume: bool,
    overwrite: bool,
    console: Console,
    on_epoch: Watch | None,
    kept: KeptImages | None,
    interrupts: Interrupts,
    team: Team,
    lock: ExitStack,
    on_saved: Callable[[], None] | None,
) -> Run:
    began = time.perf_counter()
    config = check_config(config)
    folder = Path(config.output)
    agree_on_command(team, config, resume=resume, overwrite=overwrite)
    if team.leads:
        recover(folder)
    team.wait()
    resume = resume and not team.same(
        is_empty(folder)
    )  # a launcher may say --resume the first time too
    if not resume:
        check_folder(folder, "train", overwrite=overwrite)
    if team.leads:
        lock.enter_context(locked(folder))
    accelerator = accelerator_of(config)
    earlier = config.resume_labels
    decisions = decisions_for(config, resume, team)
    data = read_training_data(config)
    if earlier is not None and not resume:
        data = compared_with(earlier, data)
    data = with_decisions(data, decisions)
    if not resume:
        check_memory(config, len(data.paths), accelerator.device)
    description = describe(config, data, read_training(folder) if resume else None, team)
    agree_on_data(team, description, data)
    if resume:
        other = check_unchanged(folder, description)
        if other:
            console.print(f"note: begun with other versions ({other}): results may differ a little")
        check_given_up(folder)
        interrupts.begun(_how_to_go_on(folder))
        if team.same((folder / "result.json").is_file()):
            console.print(f"{folder}: this run is finished already")
            if team.leads:
                remove_checkpoint(folder)
            return load_run(folder)
        if not saved(folder):
            console.print("nothing was saved yet: beginning with the first epoch")
    backbone = backbone_of(config)
    agree_on_backbone(team, backbone.module)
    backbone.module.to(accelerator.device)
    sources = ImageInputs(config, data, backbone, console, team, kept)
    if resume:
        k, how = read_training(folder)["expected_positives"], "as before"
    else:
        k, how = expected.find(
            config, data, lambda rows: sources.some_features(rows, config.mode != "end-to-end")
        )
    k = team.same(k)
    contest = Players.prepare(config, data, sources, accelerator, team, k)
    if earlier is not None:
        take_over_network(earlier, contest.network)
    sources.prepare()
    if config.compile:
        compile_network(contest.network, config.batch_size, config.image_size, accelerator.autocast)
    check_space(folder, (1 if resume else KEPT + 1) * contest.bytes())
    description |= {"expected_positives": k, "mean": backbone.mean, "std": backbone.std}
    replaces = not resume and bool(team.same(not is_empty(folder)))
    if replaces:
        rehearse(config, contest, sources)
    aside = None
    if team.leads and not resume:  # after everything that a mistake of the user could stop
        aside = lock.enter_context(claimed(folder, "train", overwrite=overwrite))
        write_json(folder / "run.json", description)
        if decisions:
            write_decided(folder, decisions)
    if not replaces:
        interrupts.begun(_how_to_go_on(folder))
    agree_on_folder(team, folder)
    if on_saved is not None and not resume:  # the old results of others; our own were tried before
        rehearse(config, contest, sources)
    announce(console, config, data, f"{k:.2f} ({how})")
    say = None if console.quiet else partial(console.print, markup=False, highlight=False)
    tracked = config.track if team.leads else ()
    trackers = open_trackers(tracked, folder, config.model_dump(), say)

    def watch(now: Snapshot, *rest: Any) -> None:
        trackers.epoch(now.history[-1])
        if on_epoch is not None:
            on_epoch(now, *rest)

    def begin() -> None:
        if earlier is not None:
            take_over_labels(earlier, data, contest.player)

    def saved_now() -> None:
        if aside is not None:
            aside.drop()
        interrupts.begun(_how_to_go_on(folder))
        if on_saved is not None:
            on_saved()

    with trackers:
        snapshot = play(
            config, contest, data, sources, console, watch, interrupts, begin, saved_now
        )
    interrupts.check()
    accelerator.unwrap_model(contest.network, keep_fp32_wrapper=False)  # judged as it predicts
    check_ours(folder)
    result = finish(config, data, sources, contest.network, contest.player, snapshot, k, team)
    _say_what_was_left_out(console, data, sources, result)
    result["seconds"] = round(time.perf_counter() - began, 3)
    if team.leads:
        check_ours(folder)
        sync(folder / "history.jsonl")
        write_json(folder / "run.json", description)
        write_json(folder / "result.json", result)
        trackers.finish(result)
        remove_checkpoint(folder)
    team.wait()
    return load_run(folder)


def _how_to_go_on(folder: Path) -> str:
    return f"go on with: g2netpl train --resume --output {quoted(folder)}"


def _say_what_was_left_out(
    console: Console, data: TrainingData, sources: ImageInputs, result: Record
) -> None:
    for problem in sources.bad_images():
        console.print(f"left out: {problem}", highlight=False, soft_wrap=True)
    if data.test is not None and result["test_map"] is None:
        console.print(
            "no class has both a positive and a negative among the test labels: no mAP can be had "
            "from them; where they are complete, say so with g2netpl convert --absent negative"
        )
