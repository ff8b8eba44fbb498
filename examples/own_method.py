"""A method of your own in one file, compared with others on the built-in scenes.

A method is a label player: for a batch it proposes targets and weights to the network, and it may
answer the network's predictions afterwards. This one, "steady", remembers a running mean of the
predictions for every image and label. Once the mean is far from 0.5 on either side, it is learnt
from. The means are a memory that the player asks for with `remember`: an epoch reads what the one
before has written, so a training may be stopped at any step and goes on exactly. The method is then
one row of METHODS like all others, and compared with two of them: one positive label on each of the
scenes, the same masks, start and order for all.

    python examples/own_method.py
    python examples/own_method.py --setting sspl:0.2

It writes `comparison.csv`. To make a method part of the package: docs/develop/extending.md.
"""

import argparse
import csv
from collections.abc import Callable
from pathlib import Path

import torch
from pydantic import Field
from torch import Tensor

from g2netpl.experiments import Comparison, scenes_data, train_cell
from g2netpl.game import METHODS, Batch, LabelPlayer, Method, Options, Predict, Proposal, Setup

POSITIVE, UNOBSERVED = 1, -1


class SteadyOptions(Options):
    """When the memory is believed."""

    memory: float = Field(default=0.7, ge=0, lt=1, description="share of the mean that stays")
    sure: float = Field(default=0.8, gt=0.5, lt=1, description="means beyond this are learnt")
    regulariser: float = Field(default=0.3, ge=0, description="weight of expected positives")


class SteadyPlayer(LabelPlayer):
    """Observed labels, and what the network has been saying for some epochs."""

    def __init__(self, setup: Setup, options: SteadyOptions) -> None:
        self.options = options
        self.observed = setup.observed
        self.mean = self.remember(setup, "mean", 0.5)

    def propose(self, batch: Batch, progress: float, predict: Predict) -> Proposal:
        """Sure means become targets, weighted by how far the training has come."""
        mean, known = self.mean.read(batch.rows), batch.observed != UNOBSERVED
        sure = torch.maximum(mean, 1 - mean) > self.options.sure
        targets = torch.where(known, batch.observed == POSITIVE, mean > 0.5).float()
        weights = torch.where(known, 1.0, 0.3 * progress * sure)
        return Proposal(targets, weights, self.options.regulariser)

    def respond(self, batch: Batch, predicted: Tensor, progress: float) -> None:
        """The mean moves towards the prediction."""
        keep = self.options.memory
        before = self.mean.read(batch.rows)
        self.mean.write(batch.rows, keep * before + (1 - keep) * predicted)

    def labels_now(self) -> Callable[[Tensor], Tensor]:
        """The means are soft labels: reports show how they move, and how many are undecided."""
        read = self.mean.reader()  # stays with this moment

        def shown(rows: Tensor) -> Tensor:
            observed = self.observed[rows]
            return torch.where(observed == UNOBSERVED, read(rows), observed)

        return shown


METHODS["steady"] = Method(SteadyPlayer, SteadyOptions, "means of predictions", "this file")


def main() -> None:
    """Compare the method, which is in the catalogue now."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--scenes", type=int, default=1500)
    parser.add_argument("--epochs", type=int, default=12)
    parser.add_argument("--setting", default="fspl", help="which labels are seen")
    parser.add_argument("--output", type=Path, default=Path("comparison.csv"))
    flags = parser.parse_args()

    comparison = Comparison(
        features=None,
        methods=("an", "steady", "g2netpl"),
        settings=(flags.setting,),
        seeds=(0,),
        learning_rates=(3e-3,),
        batch_sizes=(32,),
        epochs=flags.epochs,
    )
    arrays = scenes_data(flags.scenes, test=flags.scenes // 2)
    comparison.check(arrays.train, arrays.test)
    with open(flags.output, "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["method", "validation_map", "test_map"])
        for cell in comparison.cells():
            row = train_cell(arrays, comparison, cell).row
            print(f"{row['method']:8} test mAP {row['test_map']:.1%}", flush=True)
            writer.writerow([row["method"], row["validation_map"], row["test_map"]])


if __name__ == "__main__":
    main()
