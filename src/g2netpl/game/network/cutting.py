"""A backbone in two: blocks that stay as they are, and blocks above them that learn.

The forward of a backbone is traced (torch.fx) down to its blocks. It can be cut before a block
where one tensor passes from what is below to what is above, and where both share no weight. The
parts hold the backbone's own modules under their own names: what one of them learns, the whole has.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Any

import torch
from torch import Tensor, fx, nn
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
    try:
        with torch.no_grad():
            measured = _measured(backbone, images[:1])
            found = _at(measured, at)
            same = torch.allclose(found.upper(found.lower(images)), backbone(images), 1e-4, 1e-5)
    finally:
        backbone.train(training)
    if not same:
        raise InputError(f"--train-from: the parts of this backbone do not make it up; {_WAY_OUT}")
    return found


class _OneInput(nn.Module):
    """A backbone without the other arguments that its forward may have."""

    def __init__(self, backbone: nn.Module) -> None:
        super().__init__()
        self.backbone = backbone

    def forward(self, images: Tensor) -> Any:
        return self.backbone(images)


class _Tracer(fx.Tracer):
    """Looks into a backbone and its sequences of blocks, not into the blocks."""

    def is_leaf_module(self, m: nn.Module, module_qualified_name: str) -> bool:
        return module_qualified_name != "backbone" and type(m) is not nn.Sequential


class _Measured(fx.Interpreter):
    """What each node of a backbone costs, and the shape of what it makes."""

    def __init__(self, whole: fx.GraphModule, images: Tensor) -> None:
        super().__init__(whole)
        self.costs: dict[fx.Node, int] = {}
        self.shapes: dict[fx.Node, tuple[int, ...]] = {}
        self.run(images)

    def run_node(self, n: fx.Node) -> Any:
        with FlopCounterMode(display=False) as counter:
            made = super().run_node(n)
        self.costs[n] = counter.get_total_flops()
        if isinstance(made, Tensor):
            self.shapes[n] = tuple(made.shape[1:])
        return made


def _measured(backbone: nn.Module, images: Tensor) -> _Measured:
    """What a backbone calls one after the other, the same in training and afterwards."""
    root = _OneInput(backbone)
    try:
        graphs = [_Tracer().trace(root.train(training)) for training in (True, False)]
        measured = _Measured(fx.GraphModule(root, graphs[1]), images)
    except Exception:  # a forward can do anything
        raise InputError(f"--train-from: this backbone cannot be traced; {_WAY_OUT}") from None
    if str(graphs[0]) != str(graphs[1]):
        raise InputError(
            f"--train-from: this backbone calls other blocks in training than later; {_WAY_OUT}"
        )
    return measured


def _at(measured: _Measured, at: str | None) -> Cut:
    """The cut at a name, or the one whose share is closest to the usual one."""
    whole: Any = measured.module
    nodes = list(whole.graph.nodes)
    places = _places(whole, nodes)
    total = max(sum(measured.costs.values()), 1)
    shares = {
        name: sum(measured.costs[node] for node in nodes[number:]) / total
        for name, (number, _) in places.items()
    }
    worth = [name for name, (number, _) in places.items() if measured.costs[nodes[number]]]
    if at is None:
        at = min(worth, key=lambda name: abs(shares[name] - _USUAL_SHARE), default="")
    if at not in places:
        close = closest(at, places)
        hint = "" if close is None else f" (did you mean {close!r}?)"
        way_out = f"it can at {listed(_outer(worth), 20)}" if worth else _WAY_OUT
        raise InputError(f"--train-from: the backbone cannot be cut at {at!r}{hint}; {way_out}")
    number, passing = places[at]
    return Cut(
        at,
        _part(whole, nodes[1:number], nodes[0], passing),
        _part(whole, nodes[number:-1], passing, nodes[-1].args[0]),
        measured.shapes[passing],
        shares[at],
    )


def _outer(names: Sequence[str]) -> list[str]:
    """The names of outer blocks, or where these are few those just inside them too."""
    outer = [name for name in names if "." not in name]
    return outer if len(outer) > 2 else [name for name in names if name.count(".") < 2]


def _places(whole: nn.Module, nodes: Sequence[fx.Node]) -> dict[str, tuple[int, fx.Node]]:
    """Names of blocks, and of what holds them, before which one tensor alone passes."""
    places: dict[str, tuple[int, fx.Node]] = {}
    seen: set[str] = set()
    for number, node in enumerate(nodes):
        if node.op == "call_module":
            parts = _name(node).split(".")
            names = {".".join(parts[: end + 1]): None for end in range(len(parts))}
            passing = _passing(whole, nodes[:number], nodes[number:])
            if passing is not None:
                places |= {name: (number, passing) for name in names if name not in seen}
            seen.update(names)
    return places


def _passing(
    whole: nn.Module, below: Sequence[fx.Node], above: Sequence[fx.Node]
) -> fx.Node | None:
    """The node whose tensor passes; None where there are several, or weights are shared."""
    used = {each for node in above for each in node.all_input_nodes if each.op != "get_attr"}
    passing = used.intersection(below)
    frozen, learnt = _weights(whole, below), _weights(whole, above)
    return passing.pop() if len(passing) == 1 and frozen and not frozen & learnt else None


def _weights(whole: nn.Module, nodes: Sequence[fx.Node]) -> set[int]:
    """Which parameters these nodes use."""
    held = [_held(whole, node) for node in nodes if node.op in ("call_module", "get_attr")]
    modules = [each for each in held if isinstance(each, nn.Module)]
    found = [each for each in held if isinstance(each, nn.Parameter)]
    return {id(each) for each in (*found, *(p for m in modules for p in m.parameters()))}


def _part(
    whole: nn.Module, nodes: Sequence[fx.Node], given: fx.Node, result: fx.Node
) -> fx.GraphModule:
    """These nodes as a module that turns what is given into the result."""
    graph, held = fx.Graph(), {}
    copies = {given: graph.placeholder("inputs")}

    def copied(node: fx.Node) -> fx.Node:
        if node not in copies:
            copies[node] = graph.node_copy(node, copied)
            if node.op in ("call_module", "get_attr"):
                copies[node].target = _name(node)
                held[_name(node)] = _held(whole, node)
        return copies[node]

    for node in nodes:
        if node.op != "get_attr":  # it comes with whoever uses it
            copied(node)
    graph.output(copied(result))
    return fx.GraphModule(held, graph)


def _name(node: fx.Node) -> str:
    """As the backbone has it."""
    return str(node.target).removeprefix("backbone.")


def _held(whole: nn.Module, node: fx.Node) -> Any:
    """The module or tensor that a node is about."""
    return attrgetter(str(node.target))(whole)
