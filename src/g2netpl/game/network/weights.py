"""Files of weights, safetensors or PyTorch: tensors by name, checked against a module; no code."""

import re
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from g2netpl.base.errors import InputError

_PYTORCH = (".pth", ".pt", ".bin", ".ckpt")
_FLOATS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
_INTEGERS = (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64)


def load_weights(module: nn.Module, path: str | Path) -> None:
    """Load a file of weights strictly; a difference in names, shapes or kinds is named.

    The file may hold the classifier that timm knows of the model; it is left out.
    """
    if not Path(path).is_file():
        raise InputError(f"{path}: no such weights file")
    read = _read_pytorch if Path(path).suffix.lower() in _PYTORCH else _read_safetensors
    state, expected = read(path), module.state_dict()
    about: Any = getattr(module, "pretrained_cfg", {})
    heads = about.get("classifier") or ()
    starts = tuple(f"{head}." for head in ([heads] if isinstance(heads, str) else heads))
    state = {key: state[key] for key in state if key in expected or not key.startswith(starts)}
    for key in expected:
        if key not in state:
            raise InputError(f"{path}: tensor {key!r} of the backbone is missing in the file")
        if state[key].shape != expected[key].shape:
            raise InputError(
                f"{path}: tensor {key!r}: expected shape {tuple(expected[key].shape)}, "
                f"got {tuple(state[key].shape)}"
            )
    extra = sorted(set(state) - set(expected))
    if extra:
        raise InputError(f"{path}: tensor {extra[0]!r:.100} does not belong to this backbone")
    check_numbers(module, state, path)
    module.load_state_dict(state)


def _read_safetensors(path: str | Path) -> dict[str, Tensor]:
    from safetensors import SafetensorError
    from safetensors.torch import load

    try:
        return load(Path(path).read_bytes())  # its own opening wants UTF-8 in the path
    except (SafetensorError, OSError) as problem:
        raise InputError(
            f"{path}: not a safetensors file ({problem}); a PyTorch file must end in "
            f"{', '.join(_PYTORCH)}"
        ) from None


def _read_pytorch(path: str | Path) -> dict[str, Tensor]:
    """The tensors of a pickle; torch runs nothing that is in it."""
    from timm.models import load_state_dict

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            state = load_state_dict(str(path), weights_only=True)
    except Exception as problem:  # damaged bytes raise errors of every kind
        found = re.search(r"GLOBAL ([\w.]+)", str(problem.__cause__))
        if found is None:
            raise InputError(f"{path}: not a file of PyTorch weights, or damaged") from None
        raise InputError(
            f"{path}: asks to run {found[1]} when it is read; nothing was run. Ask its author for "
            "safetensors, or for a file of the state_dict only"
        ) from None
    for key, value in state.items():
        if not isinstance(value, Tensor) or value.layout != torch.strided or value.is_meta:
            raise InputError(f"{path}: {key!r:.100}: expected a plain tensor")
    return state


def check_numbers(module: nn.Module, state: Mapping[str, Tensor], path: str | Path) -> None:
    """See that tensors of a file are of the kind that the module has there, and finite."""
    for key, own in module.state_dict().items():
        value = state.get(key, own)
        if _kind(value.dtype) != _kind(own.dtype):
            raise InputError(
                f"{path}: tensor {key!r}: expected {_kind(own.dtype)}, got {_name_of(value.dtype)}"
            )
        if torch.isfinite(own).all() and not torch.isfinite(value.to(own.dtype)).all():
            raise InputError(
                f"{path}: tensor {key!r}: expected finite numbers of {_name_of(own.dtype)}, got "
                "NaN or infinite ones"
            )


def _name_of(dtype: torch.dtype) -> str:
    """`float32`."""
    return str(dtype).removeprefix("torch.")


def _kind(dtype: torch.dtype) -> str:
    """What a tensor is made of, in whatever precision."""
    if dtype in _FLOATS:
        return "floating point"
    return "integers" if dtype in _INTEGERS else _name_of(dtype)
