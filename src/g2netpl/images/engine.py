"""A frozen network on a CPU by onnxruntime, which takes less of a core than PyTorch.

It is used where it says the same as PyTorch. Which of the two it is follows from the number of
images and from what is installed, never from a clock, so that the same command has the same bits.
"""

import warnings
from importlib.util import find_spec
from typing import Any

import torch
from torch import Tensor, nn

from g2netpl.images.loader import Source, plain_groups

ENOUGH = 2000  # images; for fewer the graph takes longer to make than it saves
TOLERANCE = 1e-4  # of the largest value
NEEDED = ("onnxruntime", "onnx", "onnxscript")
ADVICE = "onnxruntime is not installed; pip install 'g2netpl[export]' has more images/s"


class Unfit(Exception):
    """Why a network cannot be run by onnxruntime."""


class Engine(nn.Module):
    """A network that onnxruntime runs; of an input that is NaN it makes NaN."""

    def __init__(self, content: bytes) -> None:
        import onnxruntime

        super().__init__()
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 4
        options.intra_op_num_threads = torch.get_num_threads()
        # those who wait leave the cores to the processes that load images
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        self._session = onnxruntime.InferenceSession(
            content, options, providers=["CPUExecutionProvider"]
        )

    def forward(self, inputs: Tensor) -> Tensor:
        """What the network makes of a batch of any length."""
        (made,) = self._session.run(None, {"inputs": inputs.contiguous().numpy()})
        outputs = torch.from_numpy(made)
        outputs[inputs.flatten(1).isnan().any(dim=1)] = torch.nan  # a clip has a number for it
        return outputs


def quick(module: nn.Module, source: Source, count: int) -> nn.Module:
    """The same by onnxruntime, where that pays for so many images and can be had; else itself."""
    try:
        return faster(module, source) if worth(module, count) else module
    except Unfit:
        return module


def worth(module: nn.Module, count: int) -> bool:
    """Whether so many images are for onnxruntime, by their number and the device."""
    on_cpu = all(parameter.device.type == "cpu" for parameter in module.parameters())
    return on_cpu and count >= ENOUGH


def faster(module: nn.Module, source: Source) -> nn.Module:
    """The same network in onnxruntime, seen to say the same of the first images; or `Unfit`."""
    if any(find_spec(package) is None for package in NEEDED):
        raise Unfit(ADVICE)
    (first,) = source.load(plain_groups(len(source), source.evaluation_batch)[:1], None)
    first = first.nan_to_num()
    training = module.training
    module.eval()
    try:
        zeros = torch.zeros(2, *first.shape[1:])
        engine = Engine(onnx_graph(module, zeros, "inputs", "outputs").SerializeToString())
        with torch.inference_mode():
            ours, expected = engine(first), module(first)
    except Exception as problem:  # exporters fail in many ways
        raise Unfit(f"onnxruntime cannot run this network ({type(problem).__name__})") from None
    finally:
        module.train(training)
    apart, scale = float((ours - expected).abs().max()), float(expected.abs().max())
    if not apart <= TOLERANCE * scale:
        raise Unfit(f"onnxruntime differs from PyTorch by {apart:.2g} where {scale:.2g} is largest")
    return engine


def onnx_graph(module: nn.Module, example: Tensor, given: str, made: str) -> Any:
    """The network as an ONNX model for batches of any length, with the names of its two ends."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the exporter about itself
        program: Any = torch.onnx.export(
            module,
            (example,),
            dynamo=True,
            dynamic_shapes=({0: torch.export.Dim("batch")},),
            input_names=[given],
            output_names=[made],
            verbose=False,
        )
    return program.model_proto
