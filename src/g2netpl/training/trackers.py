"""Experiment trackers, through accelerate's; history.jsonl is written in any case.

    tensorboard            event files in the run folder
    mlflow[:ADDRESS]       a tracking address, such as sqlite:///ml.db; default: MLflow's own
    wandb[:PROJECT]        a project of Weights & Biases, or ENTITY/PROJECT; default: g2netpl

A tracker that fails is dropped with a warning, and training continues. `trackers.json` stores the
run and the last epoch of each tracker, so that a resumed run continues its tracked run.
"""

import os
import uuid
import warnings
from collections.abc import Callable, Iterable, Mapping
from contextlib import redirect_stdout, suppress
from functools import partial
from importlib import import_module
from io import StringIO
from pathlib import Path
from typing import Any, Self

from g2netpl.runs.records import TRACKERS as STATE
from g2netpl.training.trainer import Callback, Trainer
from g2netpl.utils.files import read_json, write_json

Flat = dict[str, Any]
Say = Callable[[str], object]
_MLFLOW = {  # no telemetry, and no long wait for a server that is down
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "1",
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "10",
}


class _Tracked:
    """The run of one tracker, new or the one that `run` names."""

    def __init__(self, name: str, folder: Path, config: Flat, run: str | None) -> None:
        from accelerate import PartialState
        from accelerate.tracking import LOGGER_TYPE_TO_CLASS

        PartialState(cpu=True)  # accelerate's trackers need one; an existing one stays as it is
        self.kind, _, where = name.partition(":")
        self.run = run or f"{folder.name}-{uuid.uuid4().hex[:8]}"
        make = LOGGER_TYPE_TO_CLASS[self.kind]
        if self.kind == "tensorboard":
            self.tracker = make(self.kind, logging_dir=folder)
        elif self.kind == "mlflow":
            for key, value in _MLFLOW.items():
                os.environ.setdefault(key, value)
            if where:
                import_module("mlflow").set_tracking_uri(where)
            options = Flat(run_id=run, run_name=None if run else self.run, nested_run=True)
            self.tracker = make("g2netpl", **options)
        else:
            entity, _, project = where.rpartition("/")
            options = Flat(entity=entity or None, config=config, reinit="create_new")
            options |= Flat(name=self.run, id=self.run[-8:], resume="allow")
            options["settings"] = {"console": "off", "login_timeout": 30}
            self.tracker = make(project or "g2netpl", **options)
        self.tracker.start()
        if self.kind == "mlflow":
            self.run = self.tracker.tracker.info.run_id
            if run is None:
                self.tracker.store_init_configuration(config)
        elif self.kind == "tensorboard" and run is None:
            rows = "".join(f"| {key} | {value} |\n" for key, value in config.items())
            self.tracker.log({"config": f"| key | value |\n| --- | --- |\n{rows}"})

    def log(self, numbers: dict[str, float], step: int) -> None:
        self.tracker.log(numbers, step, **({"commit": True} if self.kind == "wandb" else {}))

    def log_result(self, numbers: dict[str, float], step: int) -> None:
        if self.kind == "wandb":  # which has a step once
            self.tracker.tracker.summary.update(numbers)
        else:
            self.log(numbers, step)

    def end(self, status: str) -> None:
        if self.kind == "mlflow":
            import_module("mlflow").end_run(status)
        elif self.kind == "wandb":
            self.tracker.tracker.finish({"FINISHED": 0, "FAILED": 1, "KILLED": 255}[status])
        else:
            self.tracker.finish()


class Trackers(Callback):
    """All trackers of one run; without `say`, Python's warnings get what goes wrong."""

    def __init__(self, names: Iterable[str], folder: Path, config: Flat, say: Say | None) -> None:
        self.folder, self.say = folder.absolute(), say or partial(warnings.warn, stacklevel=2)
        self.tracked: dict[str, _Tracked] = {}
        self.memory: dict[str, Flat] = read_json(folder / STATE) or {}
        for name in names:
            self._try(name, partial(self._start, name, _flat(config)))

    def on_phase_start(self, trainer: Trainer) -> None:
        """Log the epochs that a resumed run could not log before it was interrupted."""
        self.on_epoch_end(trainer)

    def on_epoch_end(self, trainer: Trainer) -> None:
        """Log the epochs that a tracker does not have yet."""
        for name in list(self.tracked):
            self._try(name, partial(self._log, name, trainer.state.history))

    def finish(self, result: Mapping[str, Any]) -> None:
        """Log the result, and end."""
        numbers = {f"result/{key}": value for key, value in _numbers(result).items()}
        for name, tracked in list(self.tracked.items()):
            self._try(name, partial(tracked.log_result, numbers, self.memory[name]["epoch"]))
        self._end("FINISHED")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None:  # a signal is no Exception
            self._end("FAILED" if issubclass(kind, Exception) else "KILLED")

    def _end(self, status: str) -> None:
        for name in list(self.tracked):
            self._try(name, partial(self.tracked.pop(name).end, status))

    def _start(self, name: str, config: Flat) -> None:
        before = self.memory.get(name, {"epoch": 0, "run": None})
        self.tracked[name] = _Tracked(name, self.folder, config, before["run"])
        self.memory[name] = {**before, "run": self.tracked[name].run}
        write_json(self.folder / STATE, self.memory)

    def _log(self, name: str, history: Iterable[Mapping[str, Any]]) -> None:
        for record in history:
            if record["epoch"] > self.memory[name]["epoch"]:
                self.tracked[name].log(_numbers(record), record["epoch"])
                self.memory[name]["epoch"] = record["epoch"]
                write_json(self.folder / STATE, self.memory)

    def _try(self, name: str, action: Callable[[], object]) -> None:
        """Do it, without the output of the package; drop a tracker that fails."""
        try:
            with warnings.catch_warnings(), redirect_stdout(StringIO()):
                warnings.simplefilter("ignore")
                action()
        except Exception as problem:
            with suppress(Exception):  # it may not even have started
                self.tracked.pop(name).end("FAILED")
            what = f"{type(problem).__name__}: {(str(problem).splitlines() or [''])[0]}"
            self.say(f"warning: tracker {name}: {what}; training continues without it")


def _numbers(record: Mapping[str, Any]) -> dict[str, float]:
    """The numbers of a record, without the epoch, which is the step."""
    numbers = {key: value for key, value in record.items() if isinstance(value, int | float)}
    return {key: float(value) for key, value in numbers.items() if key != "epoch"}


def _flat(config: Mapping[str, Any]) -> Flat:
    """Settings under one name each, `options.penalty`; what is not set is left out."""
    flat = {**config, **{f"options.{key}": value for key, value in config["options"].items()}}
    kinds = (int, float, str)
    return {
        key: value if isinstance(value, kinds) else str(value)
        for key, value in flat.items()
        if value is not None and key != "options"
    }
