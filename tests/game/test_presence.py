"""Shares, presence and the cost of draws, against hand-worked values and simulated names."""

import math

import pytest
import torch
from torch import nn
from torch.nn import functional

from g2netpl.core.losses import SPREAD_WEIGHT, sampled_positive, soft_bce
from g2netpl.game.network.network import build_network
from g2netpl.game.network.presence import POOLED, Presence, logits_of_rates, times_chance
from g2netpl.game.network_step import batch_cost, network_cost, to_answer
from g2netpl.game.player import Proposal

RATES = torch.logspace(-20, 1.9, 60, dtype=torch.float64)


def test_logits_are_those_of_the_presence_at_any_rate():
    logits = logits_of_rates(RATES.log().float())
    # ŷ = 1 − e^−μ has the odds e^μ − 1
    assert torch.allclose(logits.double(), torch.expm1(RATES).log(), rtol=1e-5, atol=1e-5)
    assert torch.allclose(functional.softplus(logits).double(), RATES, rtol=1e-4)


def test_a_draw_is_from_the_shares_of_the_rates():
    rates, named = torch.tensor([[0.5, 1.5, 2.0]]), torch.tensor([[0.0, 1.0, 0.0]])
    logs = torch.tensor([0.5, 1.5, 2.0]).div(4.0).log()
    wanted = SPREAD_WEIGHT * logs.var(correction=0) - logs[1]
    assert float(sampled_positive(rates.log(), named)) == pytest.approx(float(wanted) / 3, rel=1e-5)


def test_gradients_stay_finite_far_out():
    scores = torch.tensor([[900.0, 0.0, -900.0]], requires_grad=True)
    module = Presence(nn.Identity(), 2.0, 3)
    (log_rates,), named = module.experts(scores), torch.tensor([[0.0, 0.0, 1.0]])
    (sampled_positive(log_rates, named) + soft_bce(module(scores), named, 1.0 - named)).backward()
    assert torch.isfinite(scores.grad).all()


def test_presence_by_hand():
    module = Presence(nn.Identity(), 3.0, 3)
    presence = module(torch.tensor([[0.0, math.log(2.0), math.log(3.0)]])).sigmoid()
    shares = torch.tensor([[1 / 6, 2 / 6, 3 / 6]])
    assert torch.allclose(presence, 1 - torch.exp(-3.0 * shares), atol=1e-6)
    # an observed negative costs n · share
    assert torch.allclose(-torch.log1p(-presence), 3.0 * shares, atol=1e-5)


def test_the_cost_of_a_name_is_the_cross_entropy_of_the_shares():
    scores = torch.randn(5, 4, generator=torch.Generator().manual_seed(1))
    named = torch.tensor([2, 0, 1, 3, 3])
    logs = scores.log_softmax(dim=1)
    wanted = (
        functional.cross_entropy(scores, named) + SPREAD_WEIGHT * logs.var(1, correction=0).mean()
    )
    (log_rates,) = Presence(nn.Identity(), 2.5, 4).experts(scores)
    found = sampled_positive(log_rates, functional.one_hot(named, 4).float())
    assert float(found) == pytest.approx(float(wanted) / 4, rel=1e-5)  # a mean over entries


def test_an_image_without_a_name_says_nothing():
    scores = torch.randn(3, 4, requires_grad=True)
    named = torch.zeros(3, 4)
    named[0, 1] = 1.0
    sampled_positive(*Presence(nn.Identity(), 2.0, 4).experts(scores), named).backward()
    assert scores.grad[0].abs().sum() > 0
    assert torch.equal(scores.grad[1:], torch.zeros(2, 4))


def test_what_was_named_enters_as_a_draw_and_the_rest_as_proposed():
    rates = torch.randn(3, 4)
    observed = torch.tensor([[1, -1, 0, -1], [-1, -1, -1, -1], [-1, 1, 1, -1]])
    named = observed == 1
    targets, weights = torch.rand(3, 4), torch.rand(3, 4)
    targets[named], weights[named] = 1.0, 1.0
    found = network_cost(rates, Proposal(targets, weights), 1.0, observed)
    rest = soft_bce(logits_of_rates(rates), targets, weights * ~named)
    assert float(found) == pytest.approx(
        float(rest + sampled_positive(rates, named.float())), rel=1e-6
    )


def test_shares_become_the_frequencies_of_names():
    """One kind of image, named 'a' in 5 of 10 cases, 'b' in 3, 'c' in 2, and 'd' never."""
    network = build_network("features", 4, width=1, draws=2.0)
    assert network.draws
    observed = torch.full((10, 4), -1)
    for row, name in enumerate([0] * 5 + [1] * 3 + [2] * 2):
        observed[row, name] = 1
    proposal = Proposal((observed == 1).float(), (observed == 1).float())
    optimizer = torch.optim.Adam(network.parameters(), lr=0.05)
    for _ in range(500):
        optimizer.zero_grad()
        cost, _ = batch_cost(network, torch.ones(10, 1), proposal, 2.0, observed=observed)
        cost.backward()
        optimizer.step()
    shares = network(torch.ones(1, 1), experts=True)[0].softmax(dim=0).detach()
    assert shares.argsort(descending=True).tolist() == [0, 1, 2, 3]
    # at the best shares the slope of the cost is 0, by hand for the first: share − frequency +
    # SPREAD_WEIGHT · 2/4 · (d₀ − share · Σd) = 0 with d the log shares less their mean, and Σd = 0
    away = shares.log() - shares.log().mean()
    frequency = torch.tensor([0.5, 0.3, 0.2, 0.0])
    assert torch.allclose(shares - frequency, -SPREAD_WEIGHT / 2 * away, atol=2e-3)


def test_a_network_without_draws_is_as_it_was():
    plain = build_network("features", 3, width=5, seed=4)
    assert not plain.draws
    shares = build_network("features", 3, width=5, seed=4, draws=2.0).classifier.shares
    assert torch.equal(plain.classifier.weight, shares.weight)


def test_the_presence_is_that_of_n_draws_to_the_bit():
    vectors = torch.randn(7, 5, generator=torch.Generator().manual_seed(0))
    shares = nn.Linear(5, 4)
    logits = Presence(shares, 2.5, 5)(vectors)
    logs = functional.log_softmax(shares(vectors), dim=1)
    assert torch.equal(logits, logits_of_rates(logs + torch.tensor(math.log(2.5))))


def two_experts(seed=3):
    return build_network("features", 4, width=6, seed=seed, draws=2.0, pools=True)


def test_chances_are_times_the_chance_that_anything_is_shown():
    logits = torch.linspace(-40, 40, 81)[None]
    assert torch.equal(times_chance(logits, torch.ones(1, 1)), logits)
    for chance in (0.02, 0.5, 0.9):
        found = times_chance(logits, torch.full((1, 1), chance)).double().sigmoid()
        assert torch.allclose(found, chance * logits.double().sigmoid(), rtol=1e-5)


def test_what_vectors_tell_of_being_shown_enters_the_presence():
    module, vectors = Presence(nn.Identity(), 2.0, 3), torch.randn(50, 3).mul(2).requires_grad_()
    before = module(vectors)
    module.learn_shown(torch.tensor([0.3, 0.0, 0.0]), 0.6)
    shown = (0.3 * vectors[:, :1] + 0.6).clamp(0.02, 1.0)
    assert 0 < (shown == 1.0).sum() < 50
    assert torch.allclose(module(vectors).sigmoid(), shown * before.sigmoid(), atol=1e-6)
    module(vectors).sum().backward()
    assert torch.isfinite(vectors.grad).all()
    module.begin_anew(2.0)
    assert torch.equal(module(vectors), before)


def test_two_experts_are_pooled_as_odds():
    network, vectors = two_experts(), torch.randn(5, 6)
    drawn, sigmoids = network.expert_logits(vectors).chunk(2, dim=1)
    assert torch.equal(drawn, Presence(network.classifier.shares, 2.0, 6)(vectors))
    assert torch.equal(sigmoids, network.classifier.sigmoids(vectors))
    # odds of the pool: the geometric mean of the odds, by hand at weights 2/3 and 1/3
    odds = (drawn.exp() ** 2 * sigmoids.exp()) ** (1 / 3)
    assert POOLED == 0.5
    assert torch.allclose(network(vectors).sigmoid(), odds / (1 + odds), atol=1e-6)


def test_shares_learn_from_what_was_observed_and_sigmoids_from_everything():
    network, vectors = two_experts(), torch.randn(3, 6)
    observed = torch.tensor([[1, -1, 0, -1], [-1, -1, -1, -1], [-1, 1, 1, -1]])
    named = (observed == 1).float()
    targets, weights = torch.where(observed == -1, torch.rand(3, 4), observed), torch.rand(3, 4)
    proposal = Proposal(targets, weights, regulariser=0.7)
    cost, _ = batch_cost(network, vectors, proposal, 2.0, observed=observed)
    found = torch.autograd.grad(cost, list(network.parameters()))
    rates, _ = network(vectors, experts=True).chunk(2, dim=1)
    drawn, sigmoids = network.expert_logits(vectors).chunk(2, dim=1)
    by_hand = (
        sampled_positive(rates, named * weights)
        - (weights * (observed == 0) * torch.log1p(-drawn.sigmoid())).sum() / 12
        + functional.binary_cross_entropy(sigmoids.sigmoid(), targets, weight=weights)
        + 0.7 * (sigmoids.sigmoid().sum(dim=1).mean() / 4 - 2.0 / 4) ** 2
    )
    assert float(cost.detach()) == pytest.approx(float(by_hand.detach()), rel=1e-5)
    wanted = torch.autograd.grad(by_hand, list(network.parameters()))
    for one, other in zip(found, wanted, strict=True):
        assert torch.allclose(one, other, atol=1e-6)


def test_labels_of_images_without_a_name_answer_the_sigmoids():
    network, vectors = two_experts(), torch.randn(2, 6)
    observed = torch.tensor([[-1, 1, -1, -1], [-1, 0, -1, -1]])
    said = network(vectors, experts=True)
    answered = to_answer(said, observed)
    assert torch.equal(answered[0], network(vectors)[0])
    assert torch.equal(answered[1], said[1, 4:])
    alone = network.expert_logits(vectors)[:, :4]
    assert torch.equal(to_answer(said[:, :4], observed), alone)  # one expert
