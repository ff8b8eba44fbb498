"""Experiment trackers, through accelerate's; history.jsonl is written in any case.

    tensorboard[:FOLDER]   event files in the run folder, or below FOLDER
    mlflow[:WHERE]         a tracking address, or a folder for mlflow.db; default: MLflow's own
    wandb[:PROJECT]        a project of Weights & Biases, or ENTITY/PROJECT; default: g2netpl
    trackio[:PROJECT]      a project of the local trackio; default: g2netpl

A tracker that fails is dropped with a warning, and training continues. `trackers.json` stores the
run and the last epoch of each tracker, so that a resumed training continues its run.
"""

import logging
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


class _Tracked:
    """The run of one tracker, new or the one that `run` names."""

    def __init__(self, name: str, folder: Path, config: Flat, run: str | None) -> None:
        from accelerate import PartialState
        from accelerate.tracking import LOGGER_TYPE_TO_CLASS

        PartialState(cpu=True)  # accelerate's trackers need one; an existing one stays as it is
        self.kind, _, where = name.partition(":")
        self.config, make = config, LOGGER_TYPE_TO_CLASS[self.kind]
        self.run = run or f"{folder.absolute().name}-{uuid.uuid4().hex[:8]}"
        project, options = where, Flat(name=self.run, config=config, resume="allow")
        if self.kind == "tensorboard":
            place = (Path(where, Path(self.run).name) if where else folder / self.kind).absolute()
            self.run, project, options = str(place), place.name, {"logging_dir": place.parent}
        elif self.kind == "mlflow":
            _set_up_mlflow(where)
            project, options = "", Flat(run_id=run, nested_run=True)
            options["run_name"] = None if run else self.run
        elif self.kind == "wandb":
            entity, _, project = where.rpartition("/")
            options |= {"entity": entity or None, "id": self.run[-8:], "reinit": "create_new"}
            options["settings"] = {"console": "off", "login_timeout": 30}
        else:
            options |= {"embed": False, "auto_log_gpu": False, "auto_log_cpu": False}
        self.tracker = make(project or "g2netpl", **options)
        self.tracker.start()
        if self.kind == "mlflow":
            self.run = self.tracker.tracker.info.run_id
            if run is None:
                self.tracker.store_init_configuration(config)
        elif self.kind == "tensorboard" and run is None:
            rows = "".join(f"| {key} | {value} |\n" for key, value in config.items())
            self.tracker.log({"config": f"| key | value |\n| --- | --- |\n{rows}"})

    def log(self, numbers: dict[str, float], step: int, is_result: bool = False) -> None:
        if is_result and self.kind == "tensorboard":
            self.tracker.tracker.add_hparams(self.config, numbers, run_name=".", global_step=step)
        elif is_result and self.kind == "wandb":
            self.tracker.tracker.summary.update(numbers)
        else:
            self.tracker.log(numbers, step, **({"commit": True} if self.kind == "wandb" else {}))

    def end(self, status: str) -> None:
        if self.kind == "tensorboard":
            self.tracker.finish()
        elif self.kind == "mlflow":
            import_module("mlflow").end_run(status)
        elif self.kind == "wandb":
            self.tracker.tracker.finish({"FINISHED": 0, "FAILED": 1, "KILLED": 255}[status])
        else:
            import_module("trackio").finish()


def _set_up_mlflow(where: str) -> None:
    """Set its address; a server that is not there must not hold up the training."""
    os.environ.setdefault("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "1")
    os.environ.setdefault("MLFLOW_HTTP_REQUEST_TIMEOUT", "10")
    os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
    mlflow = import_module("mlflow")
    for name in ("mlflow", "alembic"):
        logging.getLogger(name).setLevel(logging.WARNING)
    if where and ":" not in where and where != "databricks":
        Path(where).mkdir(parents=True, exist_ok=True)
        where = f"sqlite:///{Path(where).absolute()}/mlflow.db"
    if where:
        mlflow.set_tracking_uri(where)


class Trackers(Callback):
    """All trackers of one training; without `say`, Python's warnings get what goes wrong."""

    def __init__(self, names: Iterable[str], folder: Path, config: Flat, say: Say | None) -> None:
        self.folder, self.say = folder, say or partial(warnings.warn, stacklevel=2)
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
            self._try(name, partial(tracked.log, numbers, self.memory[name]["epoch"], True))
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
    return {
        key: float(value)
        for key, value in record.items()
        if key != "epoch" and isinstance(value, int | float) and not isinstance(value, bool)
    }


def _flat(config: Mapping[str, Any], prefix: str = "") -> Flat:
    """Settings under one name each, `options.penalty`; what is not set is left out."""
    flat: Flat = {}
    for key, value in config.items():
        if isinstance(value, Mapping):
            flat |= _flat(value, f"{prefix}{key}.")
        elif value is not None:
            flat[prefix + key] = value if isinstance(value, int | float | str) else str(value)
    return flat
