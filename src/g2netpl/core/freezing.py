"""Partial fine-tuning: a backbone in two, frozen blocks and the trained blocks above them.

Each half is the backbone with the modules of the other half replaced by `nn.Identity`, and shares
the backbone's modules. This works for backbones that are a chain of modules (EfficientNet, ResNet
and similar), which is checked.
"""

import copy
from collections.abc import Iterable
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

from g2netpl.core.models import evaluating
from g2netpl.utils.errors import InputError, closest, listed

_TRAINED_FRACTION = 0.2  # of the compute, about, by default


@dataclass(frozen=True)
class SplitBackbone:
    """`upper(lower(images))` equals `backbone(images)`."""

    at: str  # name of the first trained block
    lower: nn.Module
    upper: nn.Module
    shape: tuple[int, ...]  # of the activations between them, for one image
    fraction: float  # of the multiply-adds that is in `upper`

    def __str__(self) -> str:
        parameters = sum(parameter.numel() for parameter in self.upper.parameters())
        return (
            f"trains {self.at} and above ({self.fraction:.0%} of the compute, "
            f"{parameters / 1e6:.1f} M parameters)"
        )


def frozen_below(backbone: nn.Module, at: str | None, image_size: int) -> SplitBackbone:
    """Split a backbone in front of the block `at`, or where a fifth of the compute is above."""
    device = next(backbone.parameters()).device
    images = torch.linspace(-1.0, 1.0, 6 * image_size**2, device=device)
    with evaluating(backbone), torch.no_grad():
        return _split(backbone, at, images.reshape(2, 3, image_size, image_size))


def _split(backbone: nn.Module, at: str | None, images: Tensor) -> SplitBackbone:
    fractions = _compute_above(backbone, images[:1])
    expected = backbone(images)
    default = sorted(fractions, key=lambda name: abs(fractions[name] - _TRAINED_FRACTION))
    order = list(fractions)
    for name in default if at is None else [at] if at in fractions else []:
        above = order[order.index(name) :]
        before = [other for other in order if other not in above]
        below = [other for other in before if not name.startswith(f"{other}.")]
        lower, upper = _without(backbone, above), _without(backbone, below)
        try:
            activations = lower(images)
            is_same = torch.allclose(upper(activations), expected, 1e-4, 1e-5)
        except (RuntimeError, TypeError, AttributeError, ValueError):
            continue
        frozen, trained = ({*map(id, half.parameters())} for half in (lower, upper))
        if is_same and frozen and trained and not frozen & trained:
            shape = tuple(activations.shape[1:])
            return SplitBackbone(name, lower, upper, shape, fractions[name])
    near = None if at is None else closest(at, fractions)
    hint = "" if near in (None, at) else f" (did you mean {near!r}?)"
    blocks = listed([name for name in fractions if name.count(".") < 2], 20)
    place = "" if at is None else f" at {at!r}{hint}; its blocks: {blocks}"
    raise InputError(f"train_from: cannot split the backbone{place}; use --mode linear or full")


def _compute_above(backbone: nn.Module, images: Tensor) -> dict[str, float]:
    """Blocks in the order of their calls, with the fraction of the compute from there on."""
    blocks = {child: name for name, child in backbone.named_children()}
    for outer in list(backbone.modules()):
        if type(outer) is nn.Sequential and (outer is backbone or outer in blocks):
            prefix = f"{blocks[outer]}." if outer in blocks else ""
            blocks |= {child: f"{prefix}{name}" for name, child in outer.named_children()}
    before: dict[str, int] = {}
    with FlopCounterMode(display=False) as counter:

        def note(module: nn.Module, inputs: object) -> None:
            before.setdefault(blocks[module], counter.get_total_flops())

        hooks = [module.register_forward_pre_hook(note) for module in blocks]
        backbone(images)
        for hook in hooks:
            hook.remove()
    total = max(counter.get_total_flops(), 1)
    return {name: (total - count) / total for name, count in before.items()}


def _without(backbone: nn.Module, names: Iterable[str]) -> nn.Module:
    """A backbone of the same modules, some of them replaced by `nn.Identity`."""
    half = _shallow_copy(backbone)
    for name in names:
        outer, (*parents, child) = half, name.split(".")
        for parent in parents:
            inner = outer._modules[parent] = _shallow_copy(outer.get_submodule(parent))
            outer = inner
        outer._modules[child] = nn.Identity()
    return half


def _shallow_copy(module: nn.Module) -> nn.Module:
    copied = copy.copy(module)
    copied._modules = module._modules.copy()
    return copied
