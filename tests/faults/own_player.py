"""A player as somebody may write one: its state is what it goes on to change, in place."""

import torch

from g2netpl.base.options import Options
from g2netpl.game.methods import Method
from g2netpl.game.player import LabelPlayer, Proposal
from g2netpl.labels.table import POSITIVE, UNOBSERVED


class InPlacePlayer(LabelPlayer):
    """A running mean of the predictions for each label, and one of all images."""

    def __init__(self, setup, options):
        self.mean = torch.full(setup.observed.shape, 0.5)
        self.usual = torch.full((setup.observed.shape[1],), 0.5)

    def propose(self, batch, progress, predict):
        known = batch.observed != UNOBSERVED
        targets = torch.where(known, (batch.observed == POSITIVE).float(), self.mean[batch.rows])
        return Proposal(targets, torch.where(known, 1.0, 0.3 * self.usual))

    def respond(self, batch, predicted, progress):
        self.mean[batch.rows] += 0.3 * (predicted - self.mean[batch.rows])
        self.usual.lerp_(predicted.mean(dim=0), 0.1)

    def state(self):
        return {"mean": self.mean, "usual": self.usual}

    def load_state(self, state):
        self.mean, self.usual = state["mean"], state["usual"]


IN_PLACE = Method(InPlacePlayer, Options, "changes its state in place", "somebody")
