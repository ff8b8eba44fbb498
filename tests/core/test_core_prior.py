"""The prior in both heads: by hand, against torch's own softmax, and through ONNX."""

import math

import pytest
import torch
from torch import nn
from torch.nn import functional

from g2netpl.core import Batch, build_method, build_model, train_epoch
from g2netpl.core.models import Backbone, detach_classifier
from g2netpl.core.prior import NamePrior, ScoresPrior, log_scores
from g2netpl.utils.errors import InputError

GROUPS = torch.tensor([[1.0, 1.0, 0.0, 0.0], [0.0, 0.0, 0.5, 0.0], [0.0, 0.0, 0.0, 0.0]])


def name_prior():
    generator = torch.Generator().manual_seed(0)
    return NamePrior(torch.randn(4, 6, generator=generator), torch.zeros(4), GROUPS)


def model_with(prior, annotation="sampled", **options):
    return build_model(
        Backbone(nn.Identity(), 6), 3, annotation=annotation, k=1.5, prior=prior, **options
    )


def test_scores_by_hand():
    scores = torch.tensor([0.01, 0.1, 1.0, 0.0, float("nan")])
    expected = [0.0, math.log(10), 4.6, -4.6, 0.0]
    assert log_scores(scores).tolist() == pytest.approx(expected, abs=1e-6)


def test_names_sum_the_softmax_of_their_classes():
    prior, x = name_prior(), torch.randn(5, 6)
    p = functional.softmax(x @ prior.weight.float().T, dim=1)
    q = prior(x)
    assert torch.allclose(q[:, 0], ((p[:, 0] + p[:, 1]) * 100).log().clamp(-4.6, 4.6), atol=1e-5)
    assert torch.allclose(q[:, 1], (p[:, 2] * 50).log().clamp(-4.6, 4.6), atol=1e-5)
    assert torch.equal(q[:, 2], torch.zeros(5))  # not matched


@pytest.mark.parametrize("annotation", ["random", "sampled"])
def test_q_is_added_with_the_learnt_factor(annotation):
    x, with_names = torch.randn(5, 6), model_with(name_prior(), annotation)
    without = model_with(None, annotation)
    plain, output = without(x), with_names(x)
    with torch.no_grad():
        with_names.head.factor.copy_(torch.tensor([2.0, 3.0, 4.0]))
    output, q = with_names(x), name_prior()(x)
    factor = torch.tensor([2.0, 3.0, 4.0])
    assert torch.allclose(output.logits, plain.logits + factor * q, atol=1e-5)
    assert torch.allclose(output.head_only_logits, output.logits, atol=1e-6)
    if annotation == "sampled":
        assert torch.allclose(output.tag_logits, plain.tag_logits + q, atol=1e-5)


@pytest.mark.parametrize("method", ["g2netpl", "sampled", "an", "fixmatch"])
def test_training_learns_the_factors_only_of_matched_classes(method):
    torch.manual_seed(1)
    x = torch.randn(60, 6)
    prior = name_prior()
    observed = torch.full((60, 3), -1, dtype=torch.int8)
    observed[torch.arange(60), prior(x).argmax(1)] = 1
    annotation = "sampled" if method in ("g2netpl", "sampled") else "random"
    model = model_with(prior, annotation, trains_sigmoids=method != "sampled")
    trained = build_method(method, observed, k=1.5)
    optimizer = torch.optim.Adam(model.head.parameter_groups(0.05, 1.0))

    def step(loss):
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return True

    before = model.head.prior.weight.clone()
    train_epoch(model, trained, [Batch(torch.arange(60), observed, x)] * 20, step, 0.5)
    factor = model.head.tag_factor if method == "sampled" else model.head.factor
    assert (factor[:2] != 1).all()
    assert factor[2] == 1
    assert torch.equal(model.head.prior.weight, before)


def test_given_scores_replace_the_computed_ones():
    x, q = torch.randn(5, 6), torch.randn(5, 3)
    model = model_with(ScoresPrior(torch.tensor([True, True, False])))
    assert torch.equal(model(x, q).prior, q)
    with pytest.raises(InputError, match="give the scores"):
        model(x)


@pytest.mark.parametrize("name", ["resnet18", "mobilenetv3_small_050", "vit_tiny_patch16_224"])
def test_the_classifier_of_a_timm_model(name):
    timm = pytest.importorskip("timm")
    model = timm.create_model(name, pretrained=False).eval()
    images = torch.randn(1, 3, 224, 224)
    with torch.no_grad():
        expected = model(images)
        weight, bias = detach_classifier(model)
        assert torch.allclose(functional.linear(model(images), weight, bias), expected, atol=1e-4)
