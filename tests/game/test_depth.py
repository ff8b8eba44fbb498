"""Soft labels in doubt teach the classifier; the backbone learns as far as they are sure."""

import pytest
import torch
from torch import nn

from g2netpl.game.batches import Batch
from g2netpl.game.methods import make_player
from g2netpl.game.network.network import Network
from g2netpl.game.network_step import batch_cost, network_cost
from g2netpl.game.player import Proposal, Setup

OBSERVED = torch.tensor([[1, -1, -1], [-1, -1, 0], [-1, -1, -1], [-1, 1, -1]], dtype=torch.int8)
INPUTS = torch.randn(4, 5, generator=torch.Generator().manual_seed(0))
TARGETS = torch.tensor([[1.0, 0.5, 0.1], [0.9, 0.5, 0.0], [0.5, 0.3, 0.7], [0.6, 1.0, 0.5]])
WEIGHTS = torch.rand(4, 3, generator=torch.Generator().manual_seed(1))


def gradients(net, cost):
    net.zero_grad()
    cost.backward()
    return {name: value.grad.clone() for name, value in net.named_parameters()}


def build():
    torch.manual_seed(2)
    return Network(nn.Sequential(nn.Linear(5, 6), nn.Tanh()), nn.Linear(6, 3))


def entry_costs(net):
    """CE of every entry, one at a time, from its definition."""
    predicted = net(INPUTS).sigmoid()
    return -TARGETS * predicted.log() - (1 - TARGETS) * (1 - predicted).log()


def test_each_part_learns_its_share_of_every_entry():
    net, depth = build(), (2 * TARGETS - 1).abs()
    proposal = Proposal(TARGETS, WEIGHTS, regulariser=0.7, depth=depth)
    cost, logits = batch_cost(net, INPUTS, proposal, 1.2)
    found = gradients(net, cost)
    assert torch.equal(logits, net(INPUTS))
    everything = Proposal(TARGETS, WEIGHTS, regulariser=0.7)
    assert torch.allclose(cost, network_cost(logits, everything, 1.2), rtol=1e-6)
    # the classifier: every entry with its whole weight, and R
    whole = gradients(net, network_cost(net(INPUTS), everything, 1.2))
    # the backbone: entry by entry, each with the share it is sure of, and R
    excess = net(INPUTS).sigmoid().sum(1).mean() - 1.2
    costs = (WEIGHTS * depth * entry_costs(net)).sum() / 12 + 0.7 * excess**2 / 9
    shared = gradients(net, costs)
    for name, gradient in found.items():
        expected = shared[name] if name.startswith("backbone") else whole[name]
        assert torch.allclose(gradient, expected, atol=1e-6), name
    assert not torch.allclose(whole["backbone.0.weight"], shared["backbone.0.weight"], atol=1e-4)


def soft_player(**options):
    return make_player("g2netpl", options, Setup(OBSERVED, 1.2, 1e-3, deep=True))


def proposal_of(player):
    return player.propose(Batch(torch.arange(4), INPUTS, OBSERVED), 0.0, lambda inputs: inputs)


def test_at_the_start_only_observed_labels_and_r_teach_the_backbone():
    net, player = build(), soft_player()
    cost, _ = batch_cost(net, INPUTS, proposal_of(player), 1.2)
    found = gradients(net, cost)
    weights = (OBSERVED == 1).float() + player.weights.negative * (OBSERVED == 0).float()
    plain = Proposal((OBSERVED == 1).float(), weights, player.weights.regulariser)
    alone = gradients(net, network_cost(net(INPUTS), plain, 1.2))
    assert torch.allclose(found["backbone.0.weight"], alone["backbone.0.weight"], atol=1e-7)
    assert not torch.allclose(found["classifier.weight"], alone["classifier.weight"], atol=1e-5)


def test_sure_labels_teach_the_backbone_as_before():
    net, player = build(), soft_player()
    player.latents.previous.fill_(0.5)
    player.latents.previous[:, 0] = 20.0  # û = 1
    player.latents.previous[:, 1:] = -20.0  # û = 0
    proposal = proposal_of(player)
    assert torch.equal(proposal.depth, torch.ones(4, 3))
    cost, _ = batch_cost(net, INPUTS, proposal, 1.2)
    one = gradients(net, cost)
    whole = soft_player(doubt_teaches="network")
    whole.latents.previous.copy_(player.latents.previous)
    other = proposal_of(whole)
    assert other.depth is None
    two = gradients(net, batch_cost(net, INPUTS, other, 1.2)[0])
    for name, gradient in one.items():
        assert torch.allclose(gradient, two[name], atol=1e-7)


@pytest.mark.parametrize("order", ["pseudo_target", "literal"])
def test_the_value_of_the_cost_is_the_same(order):
    net = build()
    players = [soft_player(doubt_teaches=who, order=order) for who in ("classifier", "network")]
    costs = [batch_cost(net, INPUTS, proposal_of(each), 1.2)[0] for each in players]
    assert torch.allclose(*costs, rtol=1e-6)


def test_a_hidden_layer_belongs_to_the_classifier():
    torch.manual_seed(0)
    head = nn.Sequential(nn.Linear(6, 4), nn.ReLU(), nn.Linear(4, 3))
    net = Network(nn.Linear(5, 6), head)
    found = gradients(net, batch_cost(net, INPUTS, proposal_of(soft_player()), 1.2)[0])
    whole = proposal_of(soft_player(doubt_teaches="network"))
    same = gradients(net, batch_cost(net, INPUTS, whole, 1.2)[0])
    assert torch.allclose(found["classifier.0.weight"], same["classifier.0.weight"], atol=1e-7)
    assert not torch.allclose(found["backbone.weight"], same["backbone.weight"], atol=1e-6)
