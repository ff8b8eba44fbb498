"""A backbone in two: what both parts compute and learn is what the whole does."""

import pytest
import torch
from torch import nn

from g2netpl.base.errors import InputError
from g2netpl.game.network.cutting import cut
from g2netpl.game.network.network import build_backbone, build_network

SIZE = 64
PLACES = {
    "tiny": (None, "4", "12", "14"),
    "lite0": (None, "blocks.3", "blocks.6", "conv_head"),
    "resnet18": (None, "layer2", "layer4.1", "global_pool"),
    "convnext_atto": (None, "stages.1", "head"),
}


def backbone(name):
    return build_backbone(name, pretrained=False, image_size=SIZE).module


def images(count=3):
    return torch.randn(count, 3, SIZE, SIZE, generator=torch.Generator().manual_seed(7))


@pytest.mark.parametrize("name", PLACES)
def test_both_parts_make_the_whole(name):
    whole = backbone(name).eval()
    for at in PLACES[name]:
        found = cut(whole, at, SIZE)
        assert at in (None, found.at)
        with torch.no_grad():
            passing = found.lower(images())
            assert passing.shape[1:] == found.shape
            torch.testing.assert_close(found.upper(passing), whole(images()))
        below, above = found.lower.state_dict(), found.upper.state_dict()
        assert not set(below) & set(above)
        assert {**below, **above}.keys() == whole.state_dict().keys()
        for key, value in whole.state_dict().items():  # the same tensors, not copies
            assert {**below, **above}[key].data_ptr() == value.data_ptr()


def multiply_adds(module, inputs):
    """Those of all convolutions and linear layers, by the shapes of what they make."""
    found = []

    def count(layer, _, made):
        each = layer.weight.shape[1:].numel()  # per number that is made
        found.append(each * made.numel())

    hooks = [
        layer.register_forward_hook(count)
        for layer in module.modules()
        if isinstance(layer, nn.Conv2d | nn.Linear)
    ]
    with torch.no_grad():
        made = module(inputs)
    for hook in hooks:
        hook.remove()
    return sum(found), made


@pytest.mark.parametrize("name", ["resnet18"])
def test_the_share_is_that_of_the_multiply_adds(name):
    found = cut(backbone(name).eval(), None, SIZE)
    below, passing = multiply_adds(found.lower, images(1))
    above, _ = multiply_adds(found.upper, passing)
    assert found.share == pytest.approx(above / (below + above), rel=1e-6)
    assert 0.1 < found.share < 0.3
    learn = sum(each.numel() for each in found.upper.parameters())
    assert str(found).startswith(f"{found.at} and above learn ({found.share:.0%} of the compute, ")
    assert f"{learn / 1e6:.1f} M parameters" in str(found)


@pytest.mark.parametrize("name", ["tiny", "resnet18"])
def test_the_gradient_is_that_of_the_whole_with_a_frozen_lower_part(name):
    network = build_network(name, 4, pretrained=False, image_size=SIZE)
    found = cut(network.backbone, None, SIZE)
    inputs, wanted = images(4), torch.tensor([[0.0, 1, 0, 1]]).repeat(4, 1)
    cost = nn.functional.binary_cross_entropy_with_logits

    def gradients(logits):
        network.zero_grad()
        cost(logits, wanted).backward()
        named = {n: p.grad.clone() for n, p in network.named_parameters() if p.grad is not None}
        statistics = {n: b.clone() for n, b in network.named_buffers()}
        return named, statistics

    start = {key: value.clone() for key, value in network.state_dict().items()}
    for parameter in found.lower.parameters():
        parameter.requires_grad_(False)
    network.train()
    found.lower.eval()
    expected = gradients(network(inputs))
    network.load_state_dict(start)
    learner = network.above(found.upper).train()
    with torch.no_grad():
        kept = found.lower.eval()(inputs)
    came = gradients(learner(kept))
    assert came[0].keys() == expected[0].keys() == {n for n, _ in learner.named_parameters()}
    for one, two in zip(came, expected, strict=True):
        for key, value in one.items():
            torch.testing.assert_close(value, two[key])


def test_names_and_places_that_cannot_be_cut_are_refused():
    for name, at, hint in (
        ("lite0", "blocks.9", "did you mean 'blocks."),
        ("lite0", "nowhere", "; its blocks are conv_stem, blocks, blocks.0, blocks.1, "),
        ("lite0", "conv_stem", "; use --mode linear or end-to-end"),  # nothing is below
        ("resnet18", "layer4.1.conv2", "did you mean 'layer4."),  # beside a residual
        ("vit_tiny_patch16_224", "blocks.11", "; use --mode linear or end-to-end"),
    ):
        with pytest.raises(InputError, match=f"cannot be cut at '{at}'") as refused:
            cut(backbone(name), at, SIZE)
        assert hint in str(refused.value)


class Branches(nn.Module):
    """Around `two` a second tensor passes."""

    def __init__(self):
        super().__init__()
        self.one, self.two = nn.Conv2d(3, 3, 1), nn.Conv2d(3, 3, 1)

    def forward(self, images):
        one = self.one(images)
        return self.two(one) + one


def test_one_tensor_must_pass_and_no_weight_be_shared():
    with pytest.raises(InputError, match="cannot be cut at 'two'"):
        cut(Branches(), "two", SIZE)
    one, two = nn.Conv2d(3, 3, 1), nn.Conv2d(3, 3, 1)
    assert cut(nn.Sequential(one, two), "1", SIZE).at == "1"
    shared = nn.Sequential(nn.Sequential(one), two, nn.Sequential(one))
    with pytest.raises(InputError, match="cannot be cut at '1'"):
        cut(shared, "1", SIZE)
