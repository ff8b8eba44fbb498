"""What all ranks of a training must have in common, compared before anything depends on it.

Ranks are processes that were started one by one, perhaps on several machines with files of their
own. Exchanges whose size depends on a flag or on the data would hang or break off where they
differ, and others would mix two trainings without a word.
"""

import hashlib
import json
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from g2netpl.base.disk import file_digest, file_stamp
from g2netpl.base.errors import Refused
from g2netpl.base.processes import Processes
from g2netpl.runs.config import PATHS, RunConfig, is_path
from g2netpl.runs.folder import RUN
from g2netpl.training.data import TrainingData
from g2netpl.training.description import versions

Facts = Mapping[str, object]

_OF_EACH_RANK = {"workers", "cache"}
_OF_THE_FIRST = {"checkpoint_minutes", "checkpoint_steps", "track"}
_SHOWN = 40  # characters of a value
_OPENED = 64  # image files whose content is compared; of all others the size
_PATIENCE = 60.0  # seconds until what one machine has written must be seen on another


def agree(processes: Processes, facts: Facts) -> None:
    """Refuse to go on where a rank differs from the first one, and say in what."""
    if processes.size == 1:
        return
    first, *others = (json.loads(text) for text in processes.gather_text(_text(facts)))
    for rank, other in enumerate(others, 1):
        names = [name for name in {**first, **other} if first.get(name) != other.get(name)]
        if names:
            differences = ", ".join(_shown(name, first, other) for name in names)
            raise Refused(
                f"rank {rank} differs from rank 0 in {differences}; start every rank with the same "
                "flags, files and versions"
            )


def agree_on_command(
    processes: Processes, config: RunConfig, *, resume: bool, overwrite: bool
) -> None:
    """The same versions, kind of device and flags; of files only whether they were given."""
    given = config.model_dump(exclude=_OF_EACH_RANK | _OF_THE_FIRST)
    for name in PATHS - {"output", "cache"}:
        if given[name] is not None and is_path(name, given[name]):
            given[name] = "given"
    flags = {f"--{name.replace('_', '-')}": value for name, value in given.items()}
    wanted = {"--resume": resume, "--overwrite": overwrite}
    agree(processes, {**versions(), "kind of device": _device(config), **flags, **wanted})


def agree_on_data(processes: Processes, description: Mapping[str, Any], data: TrainingData) -> None:
    """The same classes, labels, images and files of weights."""
    if processes.size == 1:
        return
    told = description["data"]
    agree(
        processes,
        {
            "the number of images": told["images"],
            "the number of classes": len(description["classes"]),
            "the classes": _digest([_text(description["classes"])]),
            **{f"the {part} labels": each for part, each in told["fingerprints"].items()},
            "the labels that are seen": data.visible.fingerprint(),
            "the image files": _images(data),
            "the file of --weights": told["backbone_weights"],
            "the network of --resume-labels": told["earlier_network"],
        },
    )


def agree_on_backbone(processes: Processes, backbone: nn.Module) -> None:
    """The same weights to begin with, wherever each rank has them from."""
    if processes.size > 1:
        state = backbone.state_dict().values()
        parts = (value.detach().cpu().contiguous().flatten().view(torch.uint8) for value in state)
        agree(
            processes, {"the weights of the backbone": _digest(part.numpy().data for part in parts)}
        )


def agree_on_folder(processes: Processes, folder: Path) -> None:
    """The first rank has written run.json: the others see it, in the same folder."""
    if processes.size == 1:
        return
    wanted = processes.gather_text(_content(folder / RUN))[0]
    until = time.monotonic() + _PATIENCE  # a network file system may show it a little later
    while (seen := _content(folder / RUN)) != wanted and time.monotonic() < until:
        time.sleep(0.2)
    agree(processes, {"what is in --output, which all ranks must share": seen})


def _text(value: object) -> str:
    return json.dumps(value, default=str)


def _shown(name: str, first: Facts, other: Facts) -> str:
    """A fact, and what it is on either rank where that is short."""
    there, here = (_word(each.get(name)) for each in (other, first))
    return name if max(len(there), len(here)) > _SHOWN else f"{name} ({there}, not {here})"


def _word(value: object) -> str:
    if value is None or isinstance(value, str):
        return value or "none"
    return _text(value)


def _device(config: RunConfig) -> str:
    if config.device == "cpu" or not torch.accelerator.is_available():
        return "cpu"
    return str(getattr(torch.accelerator.current_accelerator(), "type", None))


def _digest(parts: Iterable[Any]) -> str:
    digest = hashlib.sha256()
    for part in parts:
        content = part.encode() if isinstance(part, str) else part
        digest.update(b"%d\0" % len(content))
        digest.update(content)
    return digest.hexdigest()


def _content(path: str | Path) -> str:
    """SHA-256 of a file."""
    digest = file_digest(path)
    return "nothing" if digest is None else digest.hex()


def _images(data: TrainingData) -> str:
    """Of all images their sizes, and of some the content; names are in the labels."""
    paths = data.all_paths
    chosen = np.linspace(0, len(paths) - 1, min(len(paths), _OPENED)).astype(int)
    sizes = (str(file_stamp(path)[0]) for path in paths)
    return _digest([*sizes, *(_content(paths[row]) for row in chosen)])
