"""What a network says about every image of a source."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from g2netpl.base.arrays import Scores
from g2netpl.base.processes import ALONE, Processes
from g2netpl.game.network.network import bare
from g2netpl.images.loader import Source, in_turns, plain_groups


def predict_all(
    network: nn.Module,
    source: Source,
    batch_size: int | None = None,
    on_batch: Callable[[int], None] | None = None,
    processes: Processes = ALONE,
    experts: bool = False,
) -> Scores:
    """Predictions (N, L) for every image of a source, in its order, plain view.

    The ranks share the images, in the batches that one of them would have. With `experts` what
    each of them says, side by side (N, 2L).
    """
    module = bare(network)
    device = next(module.parameters()).device
    training = module.training
    module.eval()
    say: Any = module.expert_logits if experts else module
    groups = plain_groups(len(source), batch_size or source.evaluation_batch)
    table, done = np.zeros((0, 0), np.float32), 0
    with torch.inference_mode():
        for scores in in_turns(
            lambda inputs: say(inputs).float().sigmoid(),
            source,
            groups,
            device,
            processes,
        ):
            if not done:
                table = np.empty((len(source), scores.shape[1]), np.float32)
            table[done : done + len(scores)] = scores.cpu().numpy()
            done += len(scores)
            if on_batch is not None:
                on_batch(len(scores))
    module.train(training)
    return table


def opinions(
    network: nn.Module, source: Source, passes: int, processes: Processes = ALONE
) -> Iterator[tuple[Tensor, Tensor]]:
    """Mean and standard deviation (B, L) of several predictions with dropout on, in blocks of rows.

    Dropout sits in the classifier, so the backbone sees every image once. The ranks
    share that, and draw the same predictions from it.
    """
    module = bare(network)
    see = getattr(module, "vectors", nn.Identity())
    score = getattr(module, "scores", module)
    device = next(network.parameters()).device
    training = network.training
    network.eval()
    getattr(module, "classifier", module).train()
    with torch.no_grad():
        groups = plain_groups(len(source), source.evaluation_batch)
        for vectors in in_turns(see, source, groups, device, processes):
            drawn = torch.stack([score(vectors).float().sigmoid() for _ in range(passes)])
            yield drawn.mean(dim=0), drawn.std(dim=0)
    network.train(training)
