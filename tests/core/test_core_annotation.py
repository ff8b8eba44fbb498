"""Both heads against hand-worked values, torch's cross-entropy and simulated tags."""

import math

import pytest
import torch
from torch import nn
from torch.nn import functional

from g2netpl.core import Batch, Output, SampledPositiveHead, build_method, build_model, train_epoch
from g2netpl.core.annotation import pool, presence_logits
from g2netpl.core.losses import SPREAD_WEIGHT, sampled_positive
from g2netpl.core.models import build_backbone

RATES = torch.logspace(-20, 1.9, 60, dtype=torch.float64)


def softmax_head(classes, k=2.0):
    return SampledPositiveHead(nn.Identity(), None, classes, k)


def test_presence_logits_at_any_rate():
    logits = presence_logits(RATES.log().float())
    # p = 1 − e^−rate has the odds e^rate − 1
    assert torch.allclose(logits.double(), torch.expm1(RATES).log(), rtol=1e-5, atol=1e-5)


def test_presence_by_hand():
    head = softmax_head(3, k=3.0)
    logits = head.predict(head(torch.tensor([[0.0, math.log(2.0), math.log(3.0)]])))
    softmax = torch.tensor([[1 / 6, 2 / 6, 3 / 6]])
    assert torch.allclose(logits.sigmoid(), 1 - torch.exp(-3.0 * softmax), atol=1e-6)


def test_the_loss_of_tags_is_the_cross_entropy_of_the_softmax():
    logits = torch.randn(5, 4, generator=torch.Generator().manual_seed(1))
    tags = torch.tensor([2, 0, 1, 3, 3])
    spread = logits.log_softmax(dim=1).var(1, correction=0).mean()
    expected = functional.cross_entropy(logits, tags) + SPREAD_WEIGHT * spread
    found = sampled_positive(logits, functional.one_hot(tags, 4).float())
    assert float(found) == pytest.approx(float(expected) / 4, rel=1e-5)  # a mean over labels


def test_images_without_a_tag_do_not_train_the_softmax():
    logits = torch.randn(3, 4, requires_grad=True)
    observed = torch.full((3, 4), -1, dtype=torch.int8)
    observed[0, 1] = 1
    head = softmax_head(4)
    head.loss(head(logits), observed).backward()
    assert logits.grad[0].abs().sum() > 0
    assert torch.equal(logits.grad[1:], torch.zeros(2, 4))


def test_an_observed_negative_costs_the_rate_of_its_class():
    head, observed = softmax_head(3, k=3.0), torch.tensor([[-1, -1, 0]], dtype=torch.int8)
    logits = torch.tensor([[0.0, math.log(2.0), math.log(3.0)]])
    # −log(1 − p) = k · softmax = 3 · 3/6, over three labels
    assert float(head.loss(head(logits), observed)) == pytest.approx(1.5 / 3, rel=1e-5)
    assert float(head.loss(head(logits), observed, 0.4)) == pytest.approx(0.4 * 1.5 / 3, rel=1e-5)


def test_the_loss_of_an_epoch_has_the_negative_weight_of_the_method():
    observed, losses = torch.tensor([[1, -1, 0], [-1, -1, -1]], dtype=torch.int8), []
    model = build_model(build_backbone("features", width=2), 3, annotation="sampled", k=2.0)
    method = build_method("g2netpl", observed, k=2.0)
    batch = Batch(torch.arange(2), observed, torch.randn(2, 2))
    train_epoch(model, method, [batch], lambda loss: losses.append(loss.item()), 0.0)
    output = model(batch.images)
    softmax = 2.0 * output.tag_logits.softmax(dim=1)  # expected number of samples per class
    assert method.negative_weight == pytest.approx(0.1 + 0.9 * 2 / 6)
    tags = sampled_positive(output.tag_logits, (observed == 1).float())
    expected = tags + method.negative_weight * softmax[0, 2] / 6  # −log(1 − p) is the rate
    expected = expected + build_method("g2netpl", observed, k=2.0).loss(output, batch, 0.0)
    assert losses == [pytest.approx(expected.item(), rel=1e-5)]


def test_the_softmax_learns_the_frequencies_of_tags():
    """One kind of image, tagged 'a' in 5 of 10 cases, 'b' in 3, 'c' in 2, and 'd' never."""
    observed = torch.full((10, 4), -1, dtype=torch.int8)
    for row, tag in enumerate([0] * 5 + [1] * 3 + [2] * 2):
        observed[row, tag] = 1
    backbone = build_backbone("features", width=1)
    model = build_model(backbone, 4, annotation="sampled", k=2.0, trains_sigmoids=False)
    method = build_method("sampled", observed)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.05)

    def step(loss):
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return True

    batch = Batch(torch.arange(10), observed, torch.ones(10, 1))
    train_epoch(model, method, [batch] * 500, step, 0.0)
    found = model(torch.ones(1, 1)).tag_logits.softmax(dim=1)[0].detach()
    # at the minimum: softmax − frequency + SPREAD_WEIGHT · 2/4 · (log softmax − its mean) = 0
    away = found.log() - found.log().mean()
    frequency = torch.tensor([0.5, 0.3, 0.2, 0.0])
    assert torch.allclose(found - frequency, -SPREAD_WEIGHT / 2 * away, atol=2e-3)


def test_predictions_pool_both_parts_and_untagged_images_have_the_sigmoids_in_training():
    head = SampledPositiveHead(nn.Linear(5, 3), nn.Linear(5, 3), 5, 2.0)
    output = head(torch.randn(4, 5))
    softmax, sigmoid = head.parts(output)
    torch.testing.assert_close(head.predict(output), 1.1 * (softmax + 0.5 * sigmoid) / 1.5)
    observed = torch.full((4, 3), -1, dtype=torch.int8)
    observed[1, 2] = 1
    training = head.predict_training(output, observed)
    torch.testing.assert_close(training[1], pool(softmax, sigmoid)[1].sigmoid())
    torch.testing.assert_close(training[[0, 2, 3]], sigmoid[[0, 2, 3]].sigmoid())
    assert not training.requires_grad


def test_calibration_is_part_of_the_state():
    head = softmax_head(3)
    head.calibrate(2.0, 5.0)
    head.set_shown(torch.tensor([0.5, 0.0, 0.0]), 0.25)
    again = softmax_head(3)
    again.load_state_dict(head.state_dict())
    x = torch.tensor([[0.5, 0.1, -0.3], [9.0, 0.1, -0.3], [-9.0, 0.1, -0.3]])
    present = 1 - torch.exp(-5.0 * (2.0 * x).softmax(dim=1))
    shown = torch.tensor([[0.5], [1.0], [0.02]])  # 0.25 + x/2, at least 0.02 and at most 1
    assert torch.allclose(again.predict(again(x)).sigmoid(), shown * present, atol=1e-6)
    again.reset_calibration(2.0)
    fresh = softmax_head(3)
    assert torch.equal(again.predict(again(x)), fresh.predict(fresh(x)))


@pytest.mark.parametrize("annotation", ["random", "sampled"])
def test_uncertain_pseudo_labels_train_the_head_more_than_the_backbone(annotation):
    """The gradient of each label reaches the backbone by the factor |2û − 1|."""
    torch.manual_seed(0)
    observed = torch.full((6, 4), -1, dtype=torch.int8)
    observed[:3, 0] = 1
    backbone = build_backbone("features", width=5)
    model = build_model(backbone, 4, annotation=annotation, k=2.0)
    features = torch.randn(6, 5)
    gradients = {}
    for choice in ("head", "model"):
        method = build_method("g2netpl", observed, k=2.0, uncertain_train=choice, regulariser=0.0)
        method.latent += torch.linspace(-2, 2, 24).view(6, 4)
        method.start_phase(1e-3, deep=True)
        x = features.clone().requires_grad_()
        model.zero_grad()
        loss = method.loss(model.head(x), Batch(torch.arange(6), observed), 0.3)
        loss.backward()
        gradients[choice] = x.grad, model.head.classifier.weight.grad.clone()
    torch.testing.assert_close(gradients["head"][1], gradients["model"][1])
    logits = model.head(features).logits.detach().requires_grad_()
    method.loss(Output(logits), Batch(torch.arange(6), observed), 0.3).backward()
    labels = method.pseudo_labels(torch.arange(6))
    by_hand = ((2 * labels - 1).abs() * logits.grad) @ model.head.classifier.weight.detach()
    torch.testing.assert_close(gradients["head"][0], by_hand)
