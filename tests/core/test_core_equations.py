"""The paper's equations against independent truth: autograd, a fine grid, hand-worked values."""

import math

import pytest
import torch

from g2netpl.core.equations import (
    GaussianMap,
    SigmoidMap,
    best_response,
    confidence_weight,
    cross_entropy,
    label_cost,
    label_gradient,
    penalty_at,
    regret,
)

PREDICTIONS = torch.linspace(0.001, 0.999, 37, dtype=torch.float64)


def autograd_gradient(latent, predicted, penalty, cost, to_soft):
    latent = latent.clone().requires_grad_()
    soft = to_soft(latent)
    entropy = -predicted * soft.log() - (1 - predicted) * (1 - soft).log()
    spread = penalty * soft * (1 - soft)
    total = entropy + spread if cost == "additive" else spread.exp() * entropy
    return torch.autograd.grad(total.sum(), latent)[0]


@pytest.mark.parametrize("cost", ["additive", "exponential"])
@pytest.mark.parametrize("penalty", [0.0, 0.3, 1.0, 4.0])
def test_gradient_with_sigmoid_equals_autograd(cost, penalty):
    latent = torch.linspace(-6, 6, 37, dtype=torch.float64)
    soft, slope = SigmoidMap().soft_and_slope(latent)
    ours = label_gradient(soft, slope, PREDICTIONS, penalty, cost)
    truth = autograd_gradient(latent, PREDICTIONS, penalty, cost, torch.sigmoid)
    torch.testing.assert_close(ours, truth, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("cost", ["additive", "exponential"])
@pytest.mark.parametrize("sigma", [0.5, 1.0, 2.0])
def test_gradient_with_gaussian_equals_autograd(cost, sigma):
    latent = 0.5 + sigma * torch.linspace(-4, 4, 37, dtype=torch.float64)
    soft, slope = GaussianMap(sigma).soft_and_slope(latent)
    ours = label_gradient(soft, slope, PREDICTIONS, 0.7, cost)
    truth = autograd_gradient(
        latent, PREDICTIONS, 0.7, cost, lambda y: torch.special.ndtr((y - 0.5) / sigma)
    )
    torch.testing.assert_close(ours, truth, rtol=1e-6, atol=1e-8)


def log_space_slope(z):
    """log of density over both tails, in double precision."""
    log_density = -0.5 * z * z - 0.5 * math.log(2 * math.pi)
    return (log_density - torch.special.log_ndtr(z) - torch.special.log_ndtr(-z)).exp()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_gaussian_map_equals_a_log_space_computation(dtype):
    z = torch.linspace(-8, 8, 81, dtype=torch.float64)
    soft, slope = GaussianMap(2.0).soft_and_slope((0.5 + 2.0 * z).to(dtype))
    tolerance = 1e-5 if dtype == torch.float32 else 1e-12
    torch.testing.assert_close(slope.double(), log_space_slope(z) / 2, rtol=2 * tolerance, atol=0)
    torch.testing.assert_close(soft.double(), torch.special.ndtr(z), rtol=0, atol=1e-7)


def test_gaussian_slope_stays_finite_where_pseudo_labels_saturate():
    z = torch.tensor([-1e4, -40.0, -12.0, 0.0, 12.0, 40.0, 1e4], dtype=torch.float64)
    soft, slope = GaussianMap(1.0).soft_and_slope((0.5 + z).float())
    # far out the slope tends to |z| + 1/|z|; at the mean it is 4/√(2π)
    expected = torch.where(z == 0, 4 / math.sqrt(2 * math.pi), z.abs() + 1 / z.abs())
    torch.testing.assert_close(slope.double(), expected, rtol=2e-2, atol=0)
    assert soft.tolist()[2:5] == [0, 0.5, 1]


@pytest.mark.parametrize("mapping", [SigmoidMap(), GaussianMap(0.7), GaussianMap(2.0)])
def test_maps_start_at_one_half_and_increase(mapping):
    soft, _ = mapping.soft_and_slope(torch.tensor([mapping.start]))
    assert float(soft) == pytest.approx(0.5)
    soft, _ = mapping.soft_and_slope(torch.linspace(-5, 5, 101, dtype=torch.float64))
    assert bool((soft.diff() > 0).all())
    for dtype in (torch.float32, torch.float64):
        latent = torch.linspace(-30, 30, 1001, dtype=dtype)
        both, _ = mapping.soft_and_slope(latent)
        torch.testing.assert_close(mapping.soft(latent), both, rtol=0, atol=1e-7)


@pytest.mark.parametrize("cost", ["additive", "exponential"])
@pytest.mark.parametrize("penalty", [0.1, 0.5, 1.0, 2.0, 4.0, 10.0])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_best_response_is_the_minimum_on_a_fine_grid(cost, penalty, dtype):
    grid = torch.linspace(0, 1, 200_001, dtype=torch.float64).clamp(1e-12, 1 - 1e-12)
    predicted = torch.tensor(
        [0.0, 0.001, 0.03, 0.2, 0.35, 0.49, 0.4999, 0.5001, 0.52, 0.7, 0.9, 0.99, 1.0]
    )
    ours = best_response(predicted.to(dtype), penalty, cost).double()
    for q, answer in zip(predicted.double(), ours, strict=True):
        entropy = -torch.xlogy(q, grid) - torch.xlogy(1 - q, 1 - grid)
        spread = penalty * grid * (1 - grid)
        values = entropy + spread if cost == "additive" else spread.exp() * entropy
        assert float(answer) == pytest.approx(float(grid[values.argmin()]), abs=1e-5)


def test_best_response_at_a_tie_stays_on_the_current_side():
    half = torch.tensor([0.5, 0.5])
    current = torch.tensor([0.2, 0.9])
    for cost in ("additive", "exponential"):
        answer = best_response(half, 6.0, cost, current)
        assert answer[0] < 0.4
        assert answer[1] > 0.6
        assert float(answer.sum()) == pytest.approx(1.0, abs=1e-5)
    assert best_response(half, 1.5).tolist() == [0.5, 0.5]


def test_best_response_takes_one_penalty_per_class_and_per_entry():
    predicted = torch.rand(5, 3, generator=torch.Generator().manual_seed(0))
    penalty = torch.tensor([0.1, 2.0, 8.0])
    together = best_response(predicted, penalty)
    for column, value in enumerate(penalty.tolist()):
        torch.testing.assert_close(together[:, column], best_response(predicted[:, column], value))
    by_entry = penalty_at(predicted, 3.0, 0.2)
    assert best_response(predicted, by_entry).isfinite().all()


def test_regret_is_zero_at_the_best_response_and_positive_elsewhere():
    predicted = torch.linspace(0.05, 0.95, 19)
    for cost in ("additive", "exponential"):
        best = best_response(predicted, 0.8, cost)
        assert float(regret(best, predicted, 0.8, cost).max()) < 1e-6
        assert float(regret(1 - best, predicted, 0.8, cost)[:5].min()) > 0.1
        # by its definition, at one point: cost(û) − cost(best)
        direct = label_cost(torch.tensor(0.4), predicted[3], 0.8, cost)
        direct = direct - label_cost(best[3], predicted[3], 0.8, cost)
        ours = regret(torch.tensor([0.4]), predicted[3:4], 0.8, cost)
        assert float(ours) == pytest.approx(float(direct), abs=1e-6)


def test_label_costs_by_hand():
    # CE(0.8, 0.6) = −0.8 ln 0.6 − 0.2 ln 0.4 = 0.408660 + 0.183258 = 0.591918; û(1−û) = 0.24
    soft, predicted = torch.tensor(0.6), torch.tensor(0.8)
    assert float(cross_entropy(predicted, soft)) == pytest.approx(0.591918, abs=1e-6)
    assert float(label_cost(soft, predicted, 0.5)) == pytest.approx(0.711918, abs=1e-6)
    # e^(0.5·0.24) · 0.591918 = 1.127497 · 0.591918
    ours = float(label_cost(soft, predicted, 0.5, "exponential"))
    assert ours == pytest.approx(0.667386, abs=1e-5)


@pytest.mark.parametrize(
    ("soft", "progress", "beta", "gamma", "weight"),
    [
        (0.5, 0.0, 0.8, 0.3, 0.8 * 0.7 / 1.3),  # doubt γ·e⁰ = 0.3
        (0.5, 1.0, 0.8, 0.3, 0.8 * 0.7 / 1.3 + 0.2),
        (0.5, 0.0, 0.5, 1.0, 0.0),  # full doubt: no weight
        (1.0, 0.5, 0.5, 1.0, 0.5 * (1 - 4.5399929e-5) / (1 + 4.5399929e-5) + 0.25),  # e^−10
        (0.0, 0.0, 1.0, 0.0, 1.0),  # ξ ≡ 1
        (0.6, 0.0, 1.0, 1.0, (1 - math.exp(-2)) / (1 + math.exp(-2))),  # |2û − 1| = 0.2
    ],
)
def test_confidence_weight_by_hand(soft, progress, beta, gamma, weight):
    ours = confidence_weight(torch.tensor(soft), progress, beta, gamma)
    assert float(ours) == pytest.approx(weight, abs=1e-6)
