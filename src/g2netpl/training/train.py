"""train(config): from a label file and a folder of images to a run folder."""

import time
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from g2netpl.base.console import Console
from g2netpl.base.disk import check_space, sync, told_plainly, write_json
from g2netpl.base.locks import locked
from g2netpl.base.processes import Processes, connect
from g2netpl.base.signals import AGAIN, Interrupts
from g2netpl.base.terminal import quoted
from g2netpl.game.plugins import LOADED
from g2netpl.images.workers import told_how_to_go_on
from g2netpl.labels.files import each_file
from g2netpl.runs.answers import Decision
from g2netpl.runs.config import PATHS, RunConfig
from g2netpl.runs.folder import HISTORY, RESULT, RUN, is_finished
from g2netpl.runs.ownership import check_folder, check_unchanged, is_empty, set_aside
from g2netpl.runs.records import Result, read_training
from g2netpl.runs.run import Run, load_run
from g2netpl.runs.tracker_names import is_inside
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
from g2netpl.training.foresight import foresee
from g2netpl.training.inputs import ImageInputs, backbone_of
from g2netpl.training.modes import usual_mode
from g2netpl.training.results import finish
from g2netpl.training.saving import CheckpointSaver
from g2netpl.training.session import Session, Watch
from g2netpl.training.snapshots import Snapshot
from g2netpl.training.trackers import Trackers


def train(
    config: RunConfig,
    *,
    resume: bool = False,
    overwrite: bool = False,
    progress: bool = False,
    console: Console | None = None,
    on_epoch: Watch | None = None,
    advice: str | None = None,
) -> Run:
    """Train as the configuration says, write the run folder and give the run back.

    With `progress` it says what `g2netpl train` says, on standard output: a bar on a terminal,
    elsewhere a line about every half minute; `console` is another place for that.

    `on_epoch` is called after every epoch with all there is: for experiments. `advice` says how to
    resume after a stop, if that is not by `g2netpl train`.
    """
    with Interrupts(advice) as interrupts, ExitStack() as lock:
        if resume:
            interrupts.begun(AGAIN)
        processes = connect(config.device == "cpu", interrupts)
        if console is None or not processes.is_main:
            console = Console(quiet=not (progress and processes.is_main))
        with processes.together(), told_plainly(Path(config.output)), told_how_to_go_on(interrupts):
            if resume and config.mode == "auto" and not is_empty(Path(config.output)):
                began: Any = read_training(config.output)["config"]
                config = config.model_copy(update={"mode": began["mode"]})
            undecided = config.mode == "auto"
            config = check_config(config)
            agree_on_command(processes, config, resume=resume, overwrite=overwrite)
            around = (console, interrupts, processes, lock)
            training = _FolderTraining(config, undecided, overwrite, *around, on_epoch)
            training.take_folder(resume)
            return training.run()


@dataclass
class _FolderTraining:
    """A session that lives in a run folder, step by step."""

    config: RunConfig
    undecided: bool  # nobody asked for its mode
    overwrite: bool
    console: Console
    interrupts: Interrupts
    processes: Processes
    lock: ExitStack
    on_epoch: Watch | None

    def take_folder(self, resume: bool) -> None:
        """Make sure that the folder may be written, and that nobody else does."""
        self.folder = Path(self.config.output)
        own = "".join(f" --plugin {quoted(path)}" for path in LOADED)
        elsewhere = [name for name in self.config.track if not is_inside(name)]
        tracked = f" --track {quoted(','.join(self.config.track))}" if elsewhere else ""
        again = f"g2netpl train --resume --output {quoted(self.folder)}{tracked}{own}"
        self.how_to_go_on = f"go on with: {again}"
        has_content = not self.processes.broadcast(is_empty(self.folder))
        self.resume = resume and has_content  # a launcher may say --resume the first time too
        self.replaces = not resume and has_content
        if self.resume:
            self.interrupts.begun(self.how_to_go_on)
        else:
            inputs = [getattr(self.config, key) for key in PATHS - {"output", "cache"}]
            given = [path for each in inputs if each is not None for path in each_file(each)]
            check_folder(self.folder, "train", overwrite=self.overwrite, inputs=given)
        if self.processes.is_main:
            self.lock.enter_context(locked(self.folder))

    def run(self) -> Run:
        """Read, prepare, play, and write down what came of it."""
        began = time.perf_counter()
        accelerator = accelerator_of(self.config)
        decisions = decisions_for(self.config, self.resume, self.processes)
        data = self.read_data(decisions)
        description = self.describe(data)
        if self.resume and self.is_finished(description):
            return load_run(self.folder)
        session = self.prepare(data, accelerator)
        backbone = session.inputs.backbone
        description |= {
            "expected_positives": session.k,
            "observation": session.observation,
            "pools": session.network.pools,
        }
        description |= {"mean": backbone.mean, "std": backbone.std}
        if session.mode == "top":
            description["train_from"] = session.inputs.cut.at
        self.claim(description, decisions)
        announce(self.console, self.config, data, session.told)
        foreseen = foresee(
            self.config.thresholds, data.validation, session.k, session.network.draws
        )
        if foreseen:
            self.console.print(foreseen)
        tracked = self.config.track if self.processes.is_main else ()
        say = None if self.console.quiet else self.console.print
        with Trackers(tracked, self.folder, description["config"], say) as trackers:
            snapshot = self.play(session, trackers)
            result = self.finish(session, snapshot, began)
            if result is not None:
                sync(self.folder / HISTORY)
                write_json(self.folder / RUN, description)
                write_json(self.folder / RESULT, result)
                trackers.finish(result)
                remove_checkpoint(self.folder)
        self.processes.barrier()
        return load_run(self.folder)

    def read_data(self, decisions: list[Decision]) -> TrainingData:
        """The label files, and what people decided since."""
        data, earlier = read_training_data(self.config), self.config.resume_labels
        if earlier is not None and not self.resume:
            data = compared_with(earlier, data)
        return with_decisions(data, decisions, self.config.one_of)

    def describe(self, data: TrainingData) -> dict[str, Any]:
        """The content of run.json, the same for all ranks."""
        before = read_training(self.folder) if self.resume else None
        description = describe(self.config, data, before)
        agree_on_data(self.processes, description, data)
        return description

    def is_finished(self, description: dict[str, Any]) -> bool:
        """Whether the run that is to be resumed has ended; refused if it is another one."""
        other, say = check_unchanged(self.folder, description), self.console.print
        if other:
            say(f"note: begun with other versions ({other}): results may differ a little")
        check_given_up(self.folder)
        if self.processes.broadcast(is_finished(self.folder)):
            say(f"{self.folder}: this run is finished already")
            if self.processes.is_main:
                remove_checkpoint(self.folder)
            return True
        if not saved(self.folder):
            say("nothing was saved yet: beginning with the first epoch")
        return False

    def prepare(self, data: TrainingData, accelerator: Any) -> Session:
        """The session, after everything that takes long or can fail."""
        config, processes = self.config, self.processes
        backbone = backbone_of(config)
        agree_on_backbone(processes, backbone.module)
        backbone.module.to(accelerator.device)
        inputs = ImageInputs(config, data, backbone, self.console, processes)
        if self.undecided and not self.console.quiet:
            self.console.print("mode: {} ({})".format(*usual_mode(config)))
        k = expected.as_before(self.folder) if self.resume else None
        session = Session(config, data, inputs, k, accelerator, processes)
        if config.resume_labels is not None:
            take_over_network(config.resume_labels, session.network)
            session.unsettle()
        inputs.prepare()
        check_space(self.folder, (1 if self.resume else KEPT + 1) * session.checkpoint_bytes())
        return session

    def claim(self, description: dict[str, Any], decisions: list[Decision]) -> None:
        """Take the folder, after everything that a mistake of the user could stop."""
        if self.processes.is_main and not self.resume:
            if self.replaces:
                self.lock.close()
                set_aside(self.folder)
                self.lock.enter_context(locked(self.folder))
            write_json(self.folder / RUN, description)
            if decisions:
                write_decided(self.folder, decisions)
        self.interrupts.begun(self.how_to_go_on)
        agree_on_folder(self.processes, self.folder)

    def play(self, session: Session, trackers: Trackers) -> Snapshot:
        """Play all phases, from the last checkpoint where there is one."""
        config, data = self.config, session.data

        def watch(now: Snapshot, *rest: Any) -> None:
            trackers.epoch(now.history)
            if self.on_epoch is not None:
                self.on_epoch(now, *rest)

        saver = CheckpointSaver(config, data, self.interrupts, self.processes)
        start = saver.last(session.player, self.console)
        if start is not None:
            finished = session.phases[start[1]].first_epoch + start[0].finished
            steps = f", {start[0].step} steps into the next" if start[0].step else ""
            self.console.print(f"going on after epoch {finished}{steps}")
        elif config.resume_labels is not None:
            take_over_labels(config.resume_labels, data, session.player)
        with saver.watching():
            return session.play(console=self.console, watch=watch, saver=saver, start=start)

    def finish(self, session: Session, snapshot: Snapshot, began: float) -> Result | None:
        """The results, and what a person should be told about them; None but in the first rank."""
        self.interrupts.check()
        session.accelerator.unwrap_model(session.network, keep_fp32_wrapper=False)  # as it predicts
        result = finish(session, snapshot, began, self.console)
        for problem in session.inputs.bad_images():
            self.console.print(f"left out: {problem}")
        if result is not None and session.data.test is not None and result["test_map"] is None:
            self.console.print(
                "no class has both a positive and a negative among the test labels: no mAP can be "
                "had from them; where they are complete, say so with g2netpl convert --absent "
                "negative"
            )
        return result
