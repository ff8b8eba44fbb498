"""Each baseline's loss on one 3 × 4 example worked out by hand."""

import math

import pytest
import torch

from g2netpl.core.losses import expected_positives, reversed_bce, soft_bce
from g2netpl.game.batches import Batch
from g2netpl.game.methods import make_player
from g2netpl.game.network_step import network_cost
from g2netpl.game.player import Setup

# predictions f and observed labels; the other entries are unobserved (−1)
F = torch.tensor([[0.8, 0.5, 0.2, 0.1], [0.6, 0.5, 0.9, 0.5], [0.5, 0.25, 0.5, 0.75]])
OBSERVED = torch.tensor([[1, -1, 0, -1], [-1, -1, 1, -1], [-1, -1, -1, -1]], dtype=torch.int8)
LOGITS = torch.logit(F)
K = 2.0
# Σ f = 1.6 + 2.5 + 2.0 = 6.1, mean per image 6.1/3 = 2.033333, R = (0.033333/4)² = 6.944444e-5
R = ((6.1 / 3 - 2) / 4) ** 2

POSITIVE = -math.log(0.8) - math.log(0.9)  # 0.223144 + 0.105361
NEGATIVE = -math.log(1 - 0.2)  # 0.223144
# −log(1 − f) over the nine unobserved entries: 0.5, 0.1 | 0.6, 0.5, 0.5 | 0.5, 0.25, 0.5, 0.75
UNOBSERVED = -sum(math.log(1 - f) for f in (0.5, 0.1, 0.6, 0.5, 0.5, 0.5, 0.25, 0.5, 0.75))
# −log f over the same entries
UNOBSERVED_AS_POSITIVE = -sum(math.log(f) for f in (0.5, 0.1, 0.6, 0.5, 0.5, 0.5, 0.25, 0.5, 0.75))
# with labels smoothed by 0.1, the other side of every entry counts 0.1
OTHER_SIDE = -math.log(0.2) - math.log(0.1) - math.log(0.2)  # observed + + −

CASES = {
    "iu": (POSITIVE + NEGATIVE) / 12,
    "an": (POSITIVE + NEGATIVE + UNOBSERVED) / 12,
    "an-ls": (
        0.9 * (POSITIVE + NEGATIVE + UNOBSERVED) + 0.1 * (OTHER_SIDE + UNOBSERVED_AS_POSITIVE)
    )
    / 12,
    "wan": (POSITIVE + NEGATIVE + UNOBSERVED / 3) / 12,
    "epr": (POSITIVE + NEGATIVE) / 12 + R,
}


def cost_of(method, observed=OBSERVED, **options):
    player = make_player(method, options, Setup(observed, K, 1e-3))
    batch = Batch(torch.arange(3), LOGITS, observed)
    proposal = player.propose(batch, 0.0, lambda inputs: inputs.sigmoid())
    return float(network_cost(LOGITS, proposal, K))


@pytest.mark.parametrize("method", CASES)
def test_baselines_by_hand(method):
    assert cost_of(method) == pytest.approx(CASES[method], abs=1e-6)


# (f − target)/12 is the gradient of a cross-entropy by its logit; that of R is, with
# mean = 6.1/3, B = 3 and L = 4: 2·(mean − k)/4² · f(1 − f)/3
IS_POSITIVE, IS_KNOWN = (OBSERVED == 1).float(), (OBSERVED != -1).float()
SLOPE_OF_R = 2 * (6.1 / 3 - 2) / 16 * F * (1 - F) / 3
SLOPES = {
    "iu": IS_KNOWN * (F - IS_POSITIVE) / 12,
    "an": (F - IS_POSITIVE) / 12,
    "an-ls": (F - (0.1 + 0.8 * IS_POSITIVE)) / 12,
    "wan": (IS_KNOWN + (1 - IS_KNOWN) / 3) * (F - IS_POSITIVE) / 12,
    "epr": IS_KNOWN * (F - IS_POSITIVE) / 12 + SLOPE_OF_R,
}


def gradient_of(player):
    logits = LOGITS.clone().requires_grad_()
    batch = Batch(torch.arange(3), LOGITS, OBSERVED)
    network_cost(logits, player.propose(batch, 0.0, torch.sigmoid), K).backward()
    return logits.grad


@pytest.mark.parametrize("method", SLOPES)
def test_gradients_by_hand(method):
    found = gradient_of(make_player(method, {}, Setup(OBSERVED, K, 1e-3)))
    torch.testing.assert_close(found, SLOPES[method], rtol=0, atol=1e-7)


def test_gradient_of_role_by_hand():
    player = make_player("role", {}, Setup(OBSERVED, K, 1e-3, seed=5))
    g = player.logits.previous.sigmoid()
    slope = 0.5 * (IS_POSITIVE * (F - 1) + F - g) / 12 + 0.5 * SLOPE_OF_R
    torch.testing.assert_close(gradient_of(player), slope, rtol=0, atol=1e-7)


def test_bce_and_bce_ls_by_hand():
    full = torch.tensor([[1, 0, 0, 0], [1, 0, 1, 0], [0, 0, 0, 1]], dtype=torch.int8)
    agree = -sum(
        math.log(p) for p in (0.8, 0.5, 0.8, 0.9, 0.6, 0.5, 0.9, 0.5, 0.5, 0.75, 0.5, 0.75)
    )
    differ = -sum(
        math.log(1 - p) for p in (0.8, 0.5, 0.8, 0.9, 0.6, 0.5, 0.9, 0.5, 0.5, 0.75, 0.5, 0.75)
    )
    assert cost_of("bce", full) == pytest.approx(agree / 12, abs=1e-6)
    assert cost_of("bce-ls", full) == pytest.approx((0.9 * agree + 0.1 * differ) / 12, abs=1e-6)


def test_role_by_hand():
    # ½[pos(f) + CE(g, f)] / 12 + ½R, g the estimates at the start
    player = make_player("role", {}, Setup(OBSERVED, K, 1e-3, seed=5))
    g = player.logits.previous.sigmoid()
    assert g[0, 0] == pytest.approx(0.995)
    assert g[0, 2] == pytest.approx(0.005)
    hidden = g[OBSERVED == -1]
    assert 0.4 <= hidden.min() < 0.45 < 0.55 < hidden.max() <= 0.6
    entropy = float((-g * F.log() - (1 - g) * (1 - F).log()).sum())
    batch = Batch(torch.arange(3), LOGITS, OBSERVED)
    cost = network_cost(LOGITS, player.propose(batch, 0.0, torch.sigmoid), K)
    assert float(cost) == pytest.approx(0.5 * (POSITIVE + entropy) / 12 + 0.5 * R, abs=1e-6)


def test_role_estimates_move_as_torch_adam_moves_them():
    setup = Setup(OBSERVED, K, 0.01, seed=5)
    player = make_player("role", {}, setup)
    table = player.logits.previous.clone().requires_grad_()
    adam = torch.optim.Adam([table], lr=0.1)  # 10 × the network's
    batch = Batch(torch.arange(3), LOGITS, OBSERVED)
    for _ in range(4):
        adam.zero_grad()
        g = table.sigmoid()
        entropy = -F * g.log() - (1 - F) * (1 - g).log()
        positive = torch.where(OBSERVED == 1, -g.log(), torch.zeros(()))
        regulariser = ((g.sum(1).mean() - K) / 4) ** 2
        (0.5 * (entropy + positive).sum() / 12 + 0.5 * regulariser).backward()
        adam.step()
        player.respond(batch, F, 0.0)
        player.end_epoch()
    torch.testing.assert_close(player.logits.previous, table.detach(), rtol=1e-4, atol=1e-5)


def test_role_estimates_move_on_between_visits_as_in_dense_adam():
    observed = torch.full((24, 3), -1, dtype=torch.int8)
    observed[::5, 1] = 1
    player = make_player("role", {}, Setup(observed, 1.0, 0.01, seed=5))
    table = player.logits.previous.clone().requires_grad_()
    adam = torch.optim.Adam([table], lr=0.1)
    random = torch.Generator().manual_seed(1)
    predictions = 0.1 + 0.8 * torch.rand(24, 3, generator=random)
    for _ in range(30):
        for rows in torch.randperm(24, generator=random).split(2):
            adam.zero_grad()
            predicted, g = predictions[rows], table[rows].sigmoid()
            costs = -predicted * g.log() - (1 - predicted) * (1 - g).log()
            costs = costs + torch.where(observed[rows] == 1, -g.log(), torch.zeros(()))
            regulariser = ((g.sum(1).mean() - 1.0) / 3) ** 2
            (0.5 * costs.sum() / 6 + 0.5 * regulariser).backward()
            adam.step()
            player.respond(Batch(rows, predicted, observed[rows]), predicted, 0.0)
        player.end_epoch()
    soft = torch.where(observed == -1, table.detach().sigmoid(), observed.float())
    torch.testing.assert_close(player.soft_labels(), soft, rtol=1e-4, atol=1e-5)
    assert torch.equal(player.soft_labels(torch.tensor([3, 7])), player.soft_labels()[[3, 7]])


def test_game_by_hand():
    # at the start û = ½: weight of an unobserved entry 1.25·ξ, ξ = 0.8·0.7/1.3
    weight = 1.25 * 0.8 * 0.7 / 1.3
    entropy = 0.5 * (UNOBSERVED + UNOBSERVED_AS_POSITIVE)
    cost = (POSITIVE + NEGATIVE + weight * entropy) / 12 + 1.25 * R
    options = {"unobserved_weight": 1.25, "regulariser": 1.25}
    assert cost_of("g2netpl", **options) == pytest.approx(cost, abs=1e-6)
    # CE(ŷ, ½) = ln 2 whatever ŷ is
    literal = (POSITIVE + NEGATIVE + weight * 9 * math.log(2)) / 12 + 1.25 * R
    assert cost_of("g2netpl", order="literal", **options) == pytest.approx(literal, abs=1e-6)
    # the defaults: 0.1·ξ over B·L, a negative 0.1 + 0.9·f, and R with 10 / 4^1.5 = 1.25
    weight = 0.1 * 0.8 * 0.7 / 1.3
    cost = (POSITIVE + 0.325 * NEGATIVE + weight * entropy) / 12 + 1.25 * R
    assert cost_of("g2netpl") == pytest.approx(cost, abs=1e-6)
    # our reading of the paper: all over B·L, weights 1, γ = 1 mutes û = ½ while φ = 0
    assert cost_of("g2netpl-paper") == pytest.approx((POSITIVE + NEGATIVE) / 12 + R, abs=1e-6)


def test_costs_stay_finite_for_extreme_logits():
    logits = torch.tensor([[200.0, -200.0]], requires_grad=True)
    targets, weights = torch.tensor([[0.0, 1.0]]), torch.ones(1, 2)
    cost = soft_bce(logits, targets, weights) + expected_positives(logits, 1.0)
    cost = cost + reversed_bce(logits, targets, weights)
    cost.backward()
    # CE = 200 twice over 2 entries; R = 0; the clipped order gives −ln 0.001 twice over 2
    assert cost.item() == pytest.approx(200 - math.log(1e-3), rel=1e-5)
    assert logits.grad.isfinite().all()
