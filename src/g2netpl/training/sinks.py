"""The places that can follow a training: TensorBoard, MLflow, trackio; each behind four calls."""

import logging
import os
import time
from collections.abc import Callable
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any, Protocol

Numbers = dict[str, float]
Memory = dict[str, Any]

PLAIN = (bool, int, float, str)


class Tracker(Protocol):
    """Where the numbers go. `memory` is what `begin` gave for the same training before."""

    def begin(self, name: str, config: Memory, memory: Memory | None) -> Memory:
        """Open a run, or go on with the one in `memory`; gives what finds it again."""
        ...

    def log(self, numbers: Numbers, step: int) -> None:
        """The numbers of one epoch."""
        ...

    def finish(self, numbers: Numbers, step: int) -> None:
        """The result, after the last epoch."""
        ...

    def close(self, finished: bool) -> None:
        """Everything is written; `finished` is false where the training was broken off."""
        ...


class TensorBoard:
    """Event files of TensorBoard."""

    def __init__(self, where: str, folder: Path) -> None:
        self.where, self.folder = where, folder
        self.config: Memory = {}

    def begin(self, name: str, config: Memory, memory: Memory | None) -> Memory:
        """A folder of event files per training; those of a training that was replaced go."""
        from torch.utils.tensorboard import SummaryWriter

        inside = self.folder / "tensorboard"
        place = str(Path(self.where).absolute() / name if self.where else inside.absolute())
        if memory is not None and self.where:
            place = memory["run"]
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
        known = {key: value for key, value in self.config.items() if isinstance(value, PLAIN)}
        self.writer.add_hparams(known, numbers, run_name=".", global_step=step)

    def close(self, finished: bool) -> None:
        """Close the file."""
        self.writer.close()


class MLflow:
    """A run of the experiment `g2netpl`."""

    def __init__(self, where: str, folder: Path) -> None:
        self.where = where

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
        experiment = self.client.get_experiment_by_name("g2netpl")
        number = (
            experiment.experiment_id if experiment else self.client.create_experiment("g2netpl")
        )
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

    def finish(self, numbers: Numbers, step: int) -> None:
        """The result."""
        self.log(numbers, step)

    def close(self, finished: bool) -> None:
        """Say how it ended."""
        self.client.set_terminated(self.run, "FINISHED" if finished else "KILLED")


class Trackio:
    """A run of a local trackio project."""

    def __init__(self, where: str, folder: Path) -> None:
        self.project = where or "g2netpl"

    def begin(self, name: str, config: Memory, memory: Memory | None) -> Memory:
        """Open the run of that name; it greets people on stdout, which is ours."""
        with redirect_stdout(StringIO()):
            import trackio

            name = name if memory is None else memory["run"]
            self.run: Any = trackio.init(
                self.project,
                name=name,
                config=config,
                resume="allow",
                embed=False,
                auto_log_gpu=False,
                auto_log_cpu=False,
            )
        return {"run": name}

    def log(self, numbers: Numbers, step: int) -> None:
        """One row."""
        self.run.log(numbers, step=step)

    def finish(self, numbers: Numbers, step: int) -> None:
        """The result, as a row after the last epoch."""
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
