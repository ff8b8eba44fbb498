"""The BoostLU head: classify every position of the feature map, boost what speaks for a class.

A network trained on partial labels answers at the right places, but too weakly. So the linear
layer is applied before pooling, positive scores are multiplied by α, and the mean over positions is
the logit (Kim et al., CVPR 2023). With α = 1 this is the plain network.
"""

import torch
from torch import Tensor, nn

from g2netpl.base.errors import InputError
from g2netpl.game.network.network import Network

ALPHA = 5.0


class BoostedNetwork(Network):
    """A network with a backbone of timm that has feature maps, and one linear layer."""

    def __init__(self, backbone: nn.Module, classifier: nn.Module, alpha: float = ALPHA) -> None:
        super().__init__(backbone, classifier)
        self.alpha = alpha

    def vectors(self, inputs: Tensor) -> Tensor:
        """One vector per position, (B, H, W, C)."""
        maps: Tensor = self.backbone.forward_features(inputs)  # type: ignore[operator]
        return maps.movedim(1, -1)

    def scores(self, vectors: Tensor) -> Tensor:
        """Boosted scores of the positions, averaged: (B, L)."""
        scores = self.classifier(vectors)
        return torch.where(scores > 0, self.alpha * scores, scores).mean(dim=(1, 2))


def boosted(network: Network, name: str, image_size: int) -> BoostedNetwork:
    """The same network with the BoostLU head, or one line about why it cannot have one."""
    module, classifier = network.backbone, network.classifier
    if not isinstance(classifier, nn.Linear):
        raise InputError("head boostlu: needs one linear layer; use it with --hidden 0")
    if not _averages_maps(module, image_size):
        raise InputError(
            f"head boostlu: backbone {name} does not average a feature map; use one of timm's "
            "convolutional networks, such as lite0 or resnet50"
        )
    return BoostedNetwork(module, classifier)


def _averages_maps(module: nn.Module, image_size: int) -> bool:
    """Whether the vector of an image is the mean over the positions of its feature map."""
    if not hasattr(module, "forward_features"):
        return False
    parameter = next(module.parameters())
    trial = torch.linspace(-1.0, 1.0, 3 * image_size * image_size, device=parameter.device)
    trial = trial.reshape(1, 3, image_size, image_size)
    training = module.training
    module.eval()
    with torch.no_grad():
        maps, vector = module.forward_features(trial), module(trial)  # type: ignore[operator]
    module.train(training)
    if maps.ndim != 4 or maps.shape[1] != vector.shape[1]:
        return False
    return torch.allclose(maps.mean(dim=(2, 3)), vector, rtol=1e-4, atol=1e-5)
