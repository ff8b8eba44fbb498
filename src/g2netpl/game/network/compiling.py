"""torch.compile for the backbone, tried out before a training begins."""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import Tensor

from g2netpl.base.errors import InputError
from g2netpl.game.network.network import Network


def compile_network(
    network: Network,
    batch_size: int,
    image_size: int,
    autocast: Callable[[], AbstractContextManager[Any]] = nullcontext,
) -> None:
    """Compile what turns images into vectors, in place; its weights and their names stay.

    One step on black images shows whether it works here, and does most of the compiling.
    """
    plain: Callable[[Tensor], Tensor] = network.vectors
    parameter = next(network.backbone.parameters())
    state = {name: value.clone() for name, value in network.state_dict().items()}
    images = torch.zeros(batch_size, 3, image_size, image_size, device=parameter.device)
    training = network.training
    network.train()
    try:
        with torch.random.fork_rng(devices=[]), autocast():  # each step sets the seed anyway
            compiled = torch.compile(plain)
            torch._dynamo.maybe_mark_dynamic(images, 0)  # batches differ by an image
            compiled(images).float().sum().backward()  # type: ignore[no-untyped-call]
    except Exception as problem:  # a compiler has errors of every kind
        raise InputError(
            f"compile: torch.compile does not work here ({_reason(problem)}); leave --compile out"
        ) from None
    finally:
        network.zero_grad()
        network.load_state_dict(state)  # batch norm has seen the black images
        network.train(training)
    network.vectors = compiled  # type: ignore[assignment, method-assign]


def _reason(problem: BaseException) -> str:
    """The innermost error in one line."""
    while problem.__cause__ is not None:
        problem = problem.__cause__
    lines = [line.strip() for line in str(problem).splitlines() if line.strip()]
    return f"{type(problem).__name__}: {lines[0]}" if lines else type(problem).__name__
