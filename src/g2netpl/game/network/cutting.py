"""A backbone in two: blocks that stay as they are, and blocks above them that learn.

Each part is the backbone with the modules of the other part replaced by `nn.Identity`. They hold
the backbone's own modules: what one of them learns, the whole has. This works for backbones that
are a chain of modules (EfficientNet, ResNet and the like), which is checked.
"""

import copy
from collections.abc import Iterable
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

from g2netpl.base.errors import InputError, closest, listed

_USUAL_SHARE = 0.2  # of the compute, about, that learns
_WAY_OUT = "use --mode linear or end-to-end"


@dataclass(frozen=True)
class Cut:
    """Two parts of a backbone: `upper(lower(images))` is what the whole makes of them."""

    at: str  # the first block that learns
    lower: nn.Module
    upper: nn.Module
    shape: tuple[int, ...]  # of what passes between them, for one image
    share: float  # of the multiply-adds that is above

    def __str__(self) -> str:
        parameters = sum(parameter.numel() for parameter in self.upper.parameters())
        return (
            f"{self.at} and above learn ({self.share:.0%} of the compute, "
            f"{parameters / 1e6:.1f} M parameters)"
        )


def cut(backbone: nn.Module, at: str | None = None, image_size: int = 224) -> Cut:
    """Cut a backbone before the block `at`; without a name about a fifth of the compute is above.

    A backbone or a place that cannot be cut is refused.
    """
    training, device = backbone.training, next(backbone.parameters()).device
    images = torch.linspace(-1.0, 1.0, 6 * image_size**2, device=device)
    images = images.reshape(2, 3, image_size, image_size)
    backbone.eval()
    try:
        with torch.no_grad():
            return _cut(backbone, at, images)
    finally:
        backbone.train(training)


def _cut(backbone: nn.Module, at: str | None, images: Tensor) -> Cut:
    shares, worth = _shares(backbone, images[:1])
    usual = sorted(worth, key=lambda name: abs(shares[name] - _USUAL_SHARE))
    expected = backbone(images)
    for name in usual if at is None else [at] if at in shares else []:
        lower, upper = _parts(backbone, name, list(shares))
        try:
            passing = lower(images)
            same = torch.allclose(upper(passing), expected, 1e-4, 1e-5)
        except (RuntimeError, TypeError, AttributeError, ValueError):
            continue
        frozen, learnt = ({id(each) for each in part.parameters()} for part in (lower, upper))
        if same and frozen and not frozen & learnt:
            return Cut(name, lower, upper, tuple(passing.shape[1:]), shares[name])
    close = None if at is None else closest(at, shares)
    hint = "" if close in (None, at) else f" (did you mean {close!r}?)"
    outer = [name for name in worth if name.count(".") < 2]
    place = "" if at is None else f" at {at!r}{hint}; its blocks are {listed(outer, 20)}"
    raise InputError(f"--train-from: the backbone cannot be cut{place}; {_WAY_OUT}")


def _shares(backbone: nn.Module, images: Tensor) -> tuple[dict[str, float], list[str]]:
    """Blocks in the order of their calls with the share of the compute from there on.

    These are what the backbone is made of, and what is in its sequences of blocks. The list has
    those that compute something.
    """
    blocks = {child: name for name, child in backbone.named_children()}
    for outer in list(backbone.modules()):
        if type(outer) is nn.Sequential and (outer is backbone or outer in blocks):
            prefix = f"{blocks[outer]}." if outer in blocks else ""
            blocks |= {child: f"{prefix}{name}" for name, child in outer.named_children()}
    before: dict[str, int] = {}
    after: dict[str, int] = {}
    with FlopCounterMode(display=False) as counter:

        def note(module: nn.Module, inputs: object) -> None:
            before.setdefault(blocks[module], counter.get_total_flops())

        def note_end(module: nn.Module, inputs: object, made: object) -> None:
            after[blocks[module]] = counter.get_total_flops()

        hooks = [module.register_forward_pre_hook(note) for module in blocks]
        hooks += [module.register_forward_hook(note_end) for module in blocks]
        try:
            backbone(images)
        finally:
            for hook in hooks:
                hook.remove()
    total = max(counter.get_total_flops(), 1)
    shares = {name: (total - count) / total for name, count in before.items()}
    return shares, [name for name in shares if after[name] > before[name]]


def _parts(backbone: nn.Module, at: str, order: list[str]) -> tuple[nn.Module, nn.Module]:
    """The backbone without what is called from a block on, and without what is called before."""
    first = order.index(at)
    below = [name for name in order[:first] if not at.startswith(f"{name}.")]
    return _without(backbone, order[first:]), _without(backbone, below)


def _without(backbone: nn.Module, names: Iterable[str]) -> nn.Module:
    """A backbone of the same modules, with some left out."""
    part = _shallow(backbone)
    for name in names:
        outer, (*parents, child) = part, name.split(".")
        for parent in parents:
            inner = outer._modules[parent] = _shallow(outer.get_submodule(parent))
            outer = inner
        outer._modules[child] = nn.Identity()
    return part


def _shallow(module: nn.Module) -> nn.Module:
    """A copy with the same modules inside."""
    copied = copy.copy(module)
    copied._modules = module._modules.copy()
    return copied
