"""A frozen network on a CPU through onnxruntime, which is faster than PyTorch there.

It is used if its output is that of PyTorch. Which of the two is used depends on the number of
images and on what is installed, never on a clock, so the same command gives the same bits.
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
ADVICE = "onnxruntime is not installed; with pip install 'g2netpl[export]' this is faster"


class Unfit(Exception):
    """Why a network cannot be run by onnxruntime."""


class Engine(nn.Module):
    """A network that onnxruntime runs; the output of an input with NaN is NaN."""

    def __init__(self, content: bytes) -> None:
        import onnxruntime

        super().__init__()
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 4
        options.intra_op_num_threads = torch.get_num_threads()
        # threads that wait leave the cores to the processes that load images
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        self._session = onnxruntime.InferenceSession(
            content, options, providers=["CPUExecutionProvider"]
        )

    def forward(self, inputs: Tensor) -> Tensor:
        """The output for a batch of any length."""
        (made,) = self._session.run(None, {"inputs": inputs.contiguous().numpy()})
        outputs = torch.from_numpy(made)
        outputs[inputs.flatten(1).isnan().any(dim=1)] = torch.nan  # a clip makes a number of it
        return outputs


def quick(module: nn.Module, source: Source, count: int) -> nn.Module:
    """The same network in onnxruntime, if that is faster and possible; else itself."""
    try:
        return faster(module, source) if worth(module, count) else module
    except Unfit:
        return module


def worth(module: nn.Module, count: int) -> bool:
    """Whether onnxruntime is faster for so many images on the network's device."""
    on_cpu = all(parameter.device.type == "cpu" for parameter in module.parameters())
    return on_cpu and count >= ENOUGH


def faster(module: nn.Module, source: Source) -> nn.Module:
    """The same network in onnxruntime, checked on the first images; or `Unfit`."""
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
        raise Unfit(f"onnxruntime differs from PyTorch by {apart:.2g} of {scale:.2g}")
    return engine


def onnx_graph(module: nn.Module, example: Tensor, given: str, made: str) -> Any:
    """The network as an ONNX model for batches of any length, with these names of its ends."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the exporter, about itself
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
