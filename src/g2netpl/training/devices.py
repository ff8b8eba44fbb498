"""What the network learns on: one device as it is, or what accelerate makes of several."""

from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from g2netpl.base import launch as launched
from g2netpl.runs.config import RunConfig


@dataclass(frozen=True)
class OneDevice:
    """As much of accelerate's Accelerator as one CPU needs; it wraps nothing, and costs nothing."""

    device: torch.device
    scaler: None = None

    def prepare(
        self, network: nn.Module, optimizer: torch.optim.Optimizer
    ) -> tuple[nn.Module, torch.optim.Optimizer]:
        """Both as they are."""
        return network, optimizer

    def backward(self, cost: Tensor) -> None:
        """Gradients of the cost."""
        cost.backward()  # type: ignore[no-untyped-call]

    def autocast(self) -> AbstractContextManager[None]:
        """The precision stays as it is."""
        return nullcontext()

    def unwrap_model(self, network: nn.Module, keep_fp32_wrapper: bool = False) -> nn.Module:
        """It was not wrapped."""
        return network


def on_cpu(config: RunConfig) -> bool:
    """Whether a run trains on the CPU."""
    return config.device == "cpu" or not torch.accelerator.is_available()


def accelerator_of(config: RunConfig) -> Any:
    """Accelerate's hands on one device or several, in the precision of a run.

    One CPU in full precision needs none: accelerate's optimizer looks for packages in every step,
    which takes longer than Adam's own step of a linear layer.
    """
    if on_cpu(config) and config.precision == "float32" and launched.size() == 1:
        return OneDevice(torch.device("cpu"))
    from accelerate import Accelerator
    from accelerate.state import AcceleratorState

    precision = {"float32": "no"}.get(config.precision, config.precision)
    AcceleratorState._reset_state(reset_partial_state=True)  # an earlier run may have differed
    return Accelerator(mixed_precision=precision, cpu=on_cpu(config))
