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
import uuid
import warnings
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Self

from g2netpl.base.disk import write_json
from g2netpl.base.errors import InputError
from g2netpl.runs.config import parse_trackers
from g2netpl.training.sinks import PLAIN, TRACKERS, Memory, Numbers, Tracker

STATE = "trackers.json"


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
        self.memory: dict[str, Memory] = _read(folder / STATE)

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
            flat[prefix + key] = value if isinstance(value, PLAIN) else str(value)
    return flat


def _read(path: Path) -> dict[str, Memory]:
    try:
        content: dict[str, Memory] = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return content


def _history(folder: Path) -> list[dict[str, Any]]:
    try:
        lines = (folder / "history.jsonl").read_text(encoding="utf-8").splitlines()
        return [json.loads(line) for line in lines]
    except (OSError, ValueError):
        return []
