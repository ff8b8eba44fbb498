"""What a network says about every image of a source."""

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor, nn

from g2netpl.data import Source, in_turns, plain_groups
from g2netpl.evaluation import Scores
from g2netpl.snapshots import bare
from g2netpl.teams import ALONE, Team


def predict_all(
    network: nn.Module,
    source: Source,
    batch_size: int | None = None,
    on_batch: Callable[[int], None] | None = None,
    team: Team = ALONE,
) -> Scores:
    """Predictions (N, L) for every image of a source, in its order, plain view.

    The ranks of a team share the images, in the batches that one of them would have.
    """
    module = bare(network)
    device = next(module.parameters()).device
    training = module.training
    module.eval()
    groups = plain_groups(len(source), batch_size or source.evaluation_batch)
    parts = []
    with torch.inference_mode():
        for scores in in_turns(
            lambda inputs: module(inputs).float().sigmoid(), source, groups, device, team
        ):
            parts.append(scores.cpu())
            if on_batch is not None:
                on_batch(len(scores))
    module.train(training)
    return torch.cat(parts).numpy() if parts else np.zeros((0, 0), np.float32)


def predict_often(
    network: nn.Module, source: Source, passes: int, team: Team = ALONE
) -> tuple[Tensor, Tensor]:
    """Mean and standard deviation (N, L) of several predictions with dropout on.

    Dropout sits in the classifier, so the backbone sees every image once. The ranks of a team
    share that, and draw the same predictions from it.
    """
    module = bare(network)
    see = getattr(module, "vectors", nn.Identity())
    score = getattr(module, "scores", module)
    device = next(network.parameters()).device
    training = network.training
    network.eval()
    getattr(module, "classifier", module).train()
    means, deviations = [], []
    with torch.no_grad():
        groups = plain_groups(len(source), source.evaluation_batch)
        for vectors in in_turns(see, source, groups, device, team):
            drawn = torch.stack([score(vectors).float().sigmoid() for _ in range(passes)])
            means.append(drawn.mean(dim=0))
            deviations.append(drawn.std(dim=0))
    network.train(training)
    return torch.cat(means), torch.cat(deviations)
