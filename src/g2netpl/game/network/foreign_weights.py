"""Weights from elsewhere: a .pth file, read as tensors and nothing else, for safetensors.

A .pth is a pickle, and a pickle may run any program when it is read. torch's reader with
`weights_only=True` runs none and refuses all but tensors and plain containers; this is the only
place that meets such a file. What comes out is tensors with names, of no more data than the file
has.
"""

import hashlib
import io
import re
import warnings
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from g2netpl.base.disk import opening, write_whole
from g2netpl.base.errors import InputError, Refused
from g2netpl.game.network.network import FLOATS, INTEGERS, name_of

_RESERVED = "__metadata__"  # of safetensors, for itself
_LONGEST = 200  # characters of a name


@dataclass(frozen=True)
class ForeignWeights:
    """Tensors by name, and the SHA-256 of the file that they were read from."""

    state: dict[str, Tensor]
    sha256: str


def read_weights(path: str | Path, key: str | None = None) -> ForeignWeights:
    """Read a .pth file; with `key`, the tensors of that part of it."""
    path = Path(path)
    with opening(path):
        if path.exists() and not path.is_file():
            raise InputError(f"{path}: not a regular file")
        content = path.read_bytes()
    loaded = _loaded(path, content)
    state = _tensors(path, _part(path, loaded, key))
    total = sum(tensor.numel() * tensor.element_size() for tensor in state.values())
    if total > 2 * len(content):  # a few bytes can be spread over a tensor of any size
        raise Refused(
            f"{path}: {len(content):,} bytes claim to be tensors of {total:,} bytes; refused"
        )
    return ForeignWeights(state, hashlib.sha256(content).hexdigest())


def renamed(
    state: Mapping[str, Tensor], strip: Sequence[str] = (), drop: Sequence[str] = ()
) -> dict[str, Tensor]:
    """The tensors without those whose names begin as in `drop`, and without prefixes in `strip`."""
    names = {name: name for name in state}
    for prefix in strip:
        found = [name for name in names if names[name].startswith(prefix)]
        if not found:
            raise InputError(f"--strip {prefix}: no tensor is named so; {_some(names.values())}")
        for name in found:
            names[name] = names[name].removeprefix(prefix)
    for prefix in drop:
        kept = {name: new for name, new in names.items() if not new.startswith(prefix)}
        if len(kept) == len(names):
            raise InputError(f"--drop {prefix}: no tensor is named so; {_some(names.values())}")
        names = kept
    if len(set(names.values())) < len(names):
        raise InputError("--strip: two tensors would have the same name")
    if not names or "" in names.values():
        raise InputError("--strip, --drop: nothing would be left of some names, or of all")
    return {new: state[name] for name, new in names.items()}


def write_weights(state: Mapping[str, Tensor], path: str | Path) -> str:
    """Write safetensors under that name when they are complete; returns their SHA-256."""
    from safetensors.torch import save

    path = Path(path)
    if _RESERVED in state:
        raise InputError(
            f"{path}: no tensor can be called {_RESERVED!r} in safetensors; leave it out with "
            f"--drop {_RESERVED}"
        )
    for name, tensor in state.items():
        if tensor.dtype not in (*FLOATS, *INTEGERS, torch.bool):
            raise InputError(
                f"{path}: {name!r}: expected floating point or integers, got "
                f"{name_of(tensor.dtype)}; leave it out with --drop {name}"
            )
    content = save({name: tensor.detach().clone().contiguous() for name, tensor in state.items()})
    return write_whole(path, content)


def _loaded(path: Path, content: bytes) -> Any:
    """What is in the file, as far as it is harmless."""
    try:
        if _is_compressed(content):
            raise Refused(
                f"{path}: a compressed archive, as TorchScript programs are and weights are not; "
                "refused, nothing was run"
            )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return torch.load(io.BytesIO(content), map_location="cpu", weights_only=True)
    except Refused:
        raise
    except Exception as problem:  # hostile bytes are met with errors of every kind
        named = re.search(r"GLOBAL ([\w.]+)|(TorchScript)", str(problem))
        if named is None:
            raise InputError(
                f"{path}: not a file of PyTorch weights, or damaged; nothing in it was run"
            ) from None
        what = f"asks to run {named[1]} when it is read" if named[1] else "is a TorchScript program"
        raise Refused(
            f"{path}: {what}; refused, nothing was run. Ask its author for safetensors, or for a "
            "file of the state_dict alone"
        ) from None


def _is_compressed(content: bytes) -> bool:
    """Whether a few bytes may unpack to very many."""
    file = io.BytesIO(content)
    if not zipfile.is_zipfile(file):
        return False
    with zipfile.ZipFile(file) as archive:
        return any(each.compress_type != zipfile.ZIP_STORED for each in archive.infolist())


def _part(path: Path, loaded: Any, key: str | None) -> Mapping[Any, Any]:
    """The dictionary of tensors that is meant."""
    if not isinstance(loaded, Mapping):
        raise InputError(f"{path}: expected named tensors, got {type(loaded).__name__}")
    if key is not None:
        if not isinstance(loaded.get(key), Mapping):
            raise InputError(f"{path}: --key {key}: no named tensors there; {_some(loaded)}")
        part: Mapping[Any, Any] = loaded[key]
        return part
    inner = [name for name, value in loaded.items() if isinstance(value, Mapping)]
    if inner:
        raise InputError(f"{path}: has several parts; choose one with --key: {_first(inner)}")
    return loaded


def _tensors(path: Path, part: Mapping[Any, Any]) -> dict[str, Tensor]:
    """The part, if it is plain tensors with names and nothing else."""
    if not part:
        raise InputError(f"{path}: expected named tensors, got none")
    for name, value in part.items():
        if not isinstance(name, str) or not name.isprintable() or len(name) > _LONGEST:
            raise InputError(f"{path}: expected names of tensors, got {name!r:.100}")
        if not isinstance(value, Tensor):
            raise InputError(f"{path}: {name!r}: expected a tensor, got {type(value).__name__}")
        if value.layout != torch.strided or value.is_quantized or value.device.type != "cpu":
            raise InputError(
                f"{path}: {name!r}: expected a plain tensor, sparse or quantised ones "
                "cannot be weights of a backbone"
            )
    return dict(part)


def _some(names: Any) -> str:
    """The first names, for a hint."""
    return f"there are {_first(names)}"


def _first(names: Any) -> str:
    """The first of some names, each short and harmless to show."""
    texts = [str(name)[:60] for name in names]
    shown = [text if text.isprintable() else ascii(text) for text in texts[:8]]
    return ", ".join([*shown, "…"] if len(texts) > 8 else shown)
