"""What a label player proposes, checked: shapes and kinds before a step, numbers after it."""

import math

import torch
from torch import Tensor

from g2netpl.base.errors import InputError
from g2netpl.game.batches import Batch
from g2netpl.game.player import LabelPlayer, Proposal

_SLACK = 1e-5  # of what was computed in 32 or 16 bits


def check_form(player: LabelPlayer, batch: Batch, proposal: Proposal) -> None:
    """Refuse what is no proposal for this batch; costs nothing worth naming."""
    if not isinstance(proposal, Proposal):
        raise _mistake(player, f"expected a Proposal, got {type(proposal).__name__}")
    views = 1 if proposal.inputs is None else max(len(proposal.inputs) // len(batch.inputs), 1)
    wanted = (views * batch.observed.shape[0], batch.observed.shape[1])
    for name, values in _tensors(proposal).items():
        if not isinstance(values, Tensor) or not values.is_floating_point():
            kind = values.dtype if isinstance(values, Tensor) else type(values).__name__
            raise _mistake(player, f"{name}: expected floats, got {kind}; use .float()")
        if values.shape != wanted:
            shape = tuple(values.shape)
            raise _mistake(
                player, f"{name}: expected one for each image and class, {wanted}, got {shape}"
            )
    if not (math.isfinite(proposal.regulariser) and proposal.regulariser >= 0):
        raise _mistake(player, f"regulariser: expected 0 or more, got {proposal.regulariser}")


def check_numbers(player: LabelPlayer, proposal: Proposal) -> None:
    """Refuse targets outside 0 … 1 and weights that are negative or no numbers."""
    for name, values in _tensors(proposal).items():
        if values.numel() == 0:
            continue
        least, most = (float(value) for value in torch.aminmax(values.detach()))
        top = 1.0 if name in ("targets", "depth") else math.inf
        wanted = "0 to 1" if top == 1 else "0 or more, and finite"
        if not (least >= -_SLACK and most <= top + _SLACK and math.isfinite(most)):
            wrong = least if not least >= -_SLACK else most  # NaN is both
            raise _mistake(player, f"{name}: expected {wanted}, got {wrong:g}")


def _tensors(proposal: Proposal) -> dict[str, Tensor]:
    named = {
        "targets": proposal.targets,
        "weights": proposal.weights,
        "reversed_weights": proposal.reversed_weights,
        "depth": proposal.depth,
    }
    return {name: values for name, values in named.items() if values is not None}


def _mistake(player: LabelPlayer, what: str) -> InputError:
    name = player.method or type(player).__name__
    code = getattr(type(player).propose, "__code__", None)
    where = f" ({code.co_filename}:{code.co_firstlineno})" if code else ""
    return InputError(f"method {name}: what propose gives{where}: {what}")
