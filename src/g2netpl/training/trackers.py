"""What follows a training besides history.jsonl, which is always written: optional trackers.

    tensorboard[:FOLDER]   event files, in the run folder or below FOLDER
    mlflow[:WHERE]         a tracking address, or a folder for mlflow.db; without: MLflow's default
    trackio[:PROJECT]      a project of the local trackio, `g2netpl` if none is named

A tracker gets the configuration, the numbers of every epoch, and the result. One that fails says so
once and is left alone from then on: training never stops for it. `trackers.json` in the run folder
remembers each tracker's run and the last epoch it was given, so that a resumed training goes on in
the same run, no epoch comes twice, and a tracker that joins later is told the earlier epochs too.
"""

import json
import logging
import os
import time
import uuid
import warnings
from collections.abc import Callable, Iterable, Mapping
from contextlib import redirect_stdout
from functools import partial
from importlib.util import find_spec
from io import StringIO
from pathlib import Path
from typing import Any, Self

from g2netpl.base.disk import read_object, write_json
from g2netpl.base.errors import InputError
from g2netpl.runs.folder import HISTORY
from g2netpl.runs.folder import TRACKERS as STATE
from g2netpl.runs.tracker_names import parse_trackers

Numbers = dict[str, float]
Memory = dict[str, Any]


class Tracker:
    """Where the numbers go, behind four calls."""

    def __init__(self, where: str, folder: Path) -> None:
        self.where, self.folder = where, folder

    def begin(self, name: str, config: Memory, memory: Memory | None) -> Memory:
        """Open a run, or go on with the one in `memory`; gives what finds it again."""
        raise NotImplementedError

    def log(self, numbers: Numbers, step: int) -> None:
        """The numbers of one epoch."""
        raise NotImplementedError

    def finish(self, numbers: Numbers, step: int) -> None:
        """The result, after the last epoch."""
        self.log(numbers, step)

    def close(self, finished: bool) -> None:
        """Everything is written; `finished` is false where the training was broken off."""
        raise NotImplementedError


class TensorBoard(Tracker):
    """Event files of TensorBoard."""

    def begin(self, name: str, config: Memory, memory: Memory | None) -> Memory:
        """A folder of event files per training; those of a training that was replaced go."""
        from torch.utils.tensorboard import SummaryWriter

        inside = self.folder / "tensorboard"
        place = str(Path(self.where).absolute() / name if self.where else inside.absolute())
        if memory is not None and self.where:
            place = str(Path(self.where).absolute() / Path(memory["run"]).name)
        elif memory is None and not self.where:
            for old in inside.glob("events.out.tfevents.*"):
                old.unlink()
        self.writer: Any = SummaryWriter(place)
        self.config = config
        if memory is None:
            rows = [f"| {key} | {value} |" for key, value in config.items()]
            self.writer.add_text("config", "\n".join(["| key | value |", "| --- | --- |", *rows]))
        return {"run": place}

    def log(self, numbers: Numbers, step: int) -> None:
        """Scalars at this step, on disk at once."""
        for key, value in numbers.items():
            self.writer.add_scalar(key, value, step)
        self.writer.flush()

    def finish(self, numbers: Numbers, step: int) -> None:
        """The result, beside the configuration as hyper-parameters."""
        self.writer.add_hparams(self.config, numbers, run_name=".", global_step=step)

    def close(self, finished: bool) -> None:
        """Close the file."""
        self.writer.close()


class MLflow(Tracker):
    """A run of the experiment `g2netpl`."""

    def begin(self, name: str, config: Memory, memory: Memory | None) -> Memory:
        """Make a run with the configuration as its parameters, or take up the earlier one."""
        # a server that is not there must not hold up the training; nothing leaves the machine
        os.environ.setdefault("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "1")
        os.environ.setdefault("MLFLOW_HTTP_REQUEST_TIMEOUT", "10")
        os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
        import mlflow
        from mlflow.entities import Param

        for name_of_log in ("mlflow", "alembic"):
            logging.getLogger(name_of_log).setLevel(logging.WARNING)
        address = memory["address"] if memory is not None else self._address(mlflow)
        self.client: Any = mlflow.MlflowClient(tracking_uri=address)
        if memory is not None:
            self.run = memory["run"]
            self.client.update_run(self.run, status="RUNNING")
            return memory
        known = self.client.get_experiment_by_name("g2netpl")
        number = known.experiment_id if known else self.client.create_experiment("g2netpl")
        self.run = self.client.create_run(number, run_name=name).info.run_id
        params = [Param(key, str(value)) for key, value in config.items()]
        self.client.log_batch(self.run, params=params)
        return {"run": self.run, "address": address}

    def _address(self, mlflow: Any) -> str:
        if not self.where:
            return str(mlflow.get_tracking_uri())
        if ":" in self.where or self.where == "databricks":
            return self.where
        folder = Path(self.where).absolute()
        folder.mkdir(parents=True, exist_ok=True)
        return f"sqlite:///{folder}/mlflow.db"

    def log(self, numbers: Numbers, step: int) -> None:
        """All metrics of the epoch in one call."""
        from mlflow.entities import Metric

        now = int(1000 * time.time())
        metrics = [Metric(key, value, now, step) for key, value in numbers.items()]
        self.client.log_batch(self.run, metrics=metrics)

    def close(self, finished: bool) -> None:
        """Say how it ended."""
        self.client.set_terminated(self.run, "FINISHED" if finished else "KILLED")


class Trackio(Tracker):
    """A run of a local trackio project."""

    def begin(self, name: str, config: Memory, memory: Memory | None) -> Memory:
        """Open the run of that name; it greets people on stdout, which is ours."""
        with redirect_stdout(StringIO()):
            import trackio

            name = name if memory is None else memory["run"]
            quiet = {"embed": False, "auto_log_gpu": False, "auto_log_cpu": False}
            project = self.where or "g2netpl"
            self.run: Any = trackio.init(project, name=name, config=config, resume="allow", **quiet)
        return {"run": name}

    def log(self, numbers: Numbers, step: int) -> None:
        """One row."""
        self.run.log(numbers, step=step)

    def close(self, finished: bool) -> None:
        """Wait until everything is written."""
        import trackio

        with redirect_stdout(StringIO()):
            trackio.finish()


TRACKERS: dict[str, Callable[[str, Path], Tracker]] = {
    "tensorboard": TensorBoard,
    "mlflow": MLflow,
    "trackio": Trackio,
}


def check_trackers(names: Iterable[str]) -> None:
    """Whether the packages are there; one line with what to install if not."""
    for name in names:
        kind = name.partition(":")[0]
        if find_spec(kind) is None:
            raise InputError(
                f"--track {kind}: the package {kind} is not installed; "
                f"install it with pip install 'g2netpl[{kind}]'"
            )


def open_trackers(
    names: Iterable[str],
    folder: Path,
    config: Mapping[str, Any],
    say: Callable[[str], object] | None = None,
) -> "Trackers":
    """Begin or go on with a run of every tracker; `say` gets what went wrong, or warnings do."""
    names = parse_trackers(names)
    check_trackers(names)
    trackers = Trackers(folder, say or partial(warnings.warn, stacklevel=2))
    for name in names:
        trackers.open(name, _flat(config))
    return trackers


class Trackers:
    """All trackers of one training; leaving the `with` block by an exception closes them."""

    def __init__(self, folder: Path, say: Callable[[str], object]) -> None:
        self.folder, self.say = folder, say
        self.open_ones: dict[str, Tracker] = {}
        self.memory: dict[str, Memory] = read_object(folder / STATE) or {}

    def open(self, name: str, config: Memory) -> None:
        """Begin with one of them, or go on where it was."""
        kind, _, where = name.partition(":")
        before = self.memory.get(name)

        def begin() -> None:
            tracker = TRACKERS[kind](where, self.folder)
            run = f"{self.folder.absolute().name}-{uuid.uuid4().hex[:6]}"
            found = tracker.begin(run, config, before)
            self.memory[name] = {"epoch": 0, **(before or {}), **found}
            self.open_ones[name] = tracker
            self._remember()

        self._try(name, begin)

    def epoch(self, record: Mapping[str, Any]) -> None:
        """An epoch is over; call it after history.jsonl is written."""
        for name, tracker in list(self.open_ones.items()):
            self._try(name, partial(self._log, name, tracker, record))

    def finish(self, result: Mapping[str, Any]) -> None:
        """The training is over: the result, and the end."""
        numbers = {f"result/{key}": value for key, value in _numbers(result).items()}
        for name, tracker in list(self.open_ones.items()):
            self._try(name, partial(tracker.finish, numbers, self.memory[name]["epoch"]))
        self.close(finished=True)

    def close(self, finished: bool = False) -> None:
        """Nothing more will come."""
        for name, tracker in list(self.open_ones.items()):
            self._try(name, partial(tracker.close, finished))
        self.open_ones.clear()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None:
            self.close()

    def _log(self, name: str, tracker: Tracker, record: Mapping[str, Any]) -> None:
        """What this tracker has not heard of yet, up to this record."""
        memory = self.memory[name]
        earlier = [each for each in _history(self.folder) if each["epoch"] < record["epoch"]]
        for each in [*earlier, record]:
            step = int(each["epoch"])
            if step <= memory["epoch"]:
                continue
            before, memory["epoch"] = memory["epoch"], step
            self._remember()  # first: an epoch that is lost is better than one that comes twice
            try:
                tracker.log(_numbers(each), step)
            except Exception:
                memory["epoch"] = before
                self._remember()
                raise

    def _remember(self) -> None:
        write_json(self.folder / STATE, self.memory)

    def _try(self, name: str, action: Callable[[], object]) -> None:
        """Do it; one that fails is dropped with a word, and without its own warnings."""
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                action()
        except Exception as problem:
            self.open_ones.pop(name, None)
            first = (str(problem).splitlines() or [""])[0]
            self.say(
                f"warning: tracker {name}: {type(problem).__name__}: {first}; "
                "training goes on without it"
            )


def _numbers(record: Mapping[str, Any]) -> Numbers:
    """The numbers of a record, but for the epoch, which is the step."""
    return {
        key: float(value)
        for key, value in record.items()
        if key != "epoch" and isinstance(value, int | float) and not isinstance(value, bool)
    }


def _flat(config: Mapping[str, Any], prefix: str = "") -> Memory:
    """Settings under one name each, `options.penalty`; what is not set is left out."""
    flat: Memory = {}
    for key, value in config.items():
        if isinstance(value, Mapping):
            flat |= _flat(value, f"{prefix}{key}.")
        elif value is not None:
            flat[prefix + key] = value if isinstance(value, int | float | str) else str(value)
    return flat


def _history(folder: Path) -> list[dict[str, Any]]:
    try:
        lines = (folder / HISTORY).read_text(encoding="utf-8").splitlines()
        return [json.loads(line) for line in lines]
    except (OSError, ValueError):
        return []
