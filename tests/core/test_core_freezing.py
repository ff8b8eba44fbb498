"""A backbone in two: both halves compute and learn what the whole does."""

import pytest
import torch
from torch import nn

from g2netpl.core.freezing import frozen_below
from g2netpl.core.models import build_backbone
from g2netpl.utils.errors import InputError

SIZE = 64
PLACES = {
    "tiny": (None, "4", "11"),
    "lite0": (None, "blocks.3", "conv_head"),
    "resnet18": (None, "layer2", "layer4.1"),
    "resnet50": (None, "layer4"),
    "convnext_atto": (None, "stages.1"),
}


def backbone(name):
    return build_backbone(name, pretrained=False, image_size=SIZE).module


def images(count=3):
    return torch.randn(count, 3, SIZE, SIZE, generator=torch.Generator().manual_seed(7))


@pytest.mark.parametrize("name", PLACES)
def test_both_halves_make_the_whole(name):
    whole = backbone(name).eval()
    for at in PLACES[name]:
        split = frozen_below(whole, at, SIZE)
        assert at in (None, split.at)
        with torch.no_grad():
            activations = split.lower(images())
            assert activations.shape[1:] == split.shape
            torch.testing.assert_close(split.upper(activations), whole(images()))
        below, above = split.lower.state_dict(), split.upper.state_dict()
        assert not set(below) & set(above)
        assert {**below, **above}.keys() == whole.state_dict().keys()
        for key, value in whole.state_dict().items():  # the same tensors, not copies
            assert {**below, **above}[key].data_ptr() == value.data_ptr()


def test_gradients_are_those_of_the_whole_with_frozen_lower_blocks():
    whole = backbone("tiny")
    split = frozen_below(whole, None, SIZE)
    for parameter in split.lower.parameters():
        parameter.requires_grad_(False)
    whole.train()
    split.lower.eval()  # of shared modules
    start = {key: value.clone() for key, value in whole.state_dict().items()}
    results = []
    for compute in (whole, lambda inputs: split.upper(split.lower(inputs))):
        whole.load_state_dict(start)
        whole.zero_grad()
        compute(images(4)).square().sum().backward()
        gradients = [each.grad.clone() for each in split.upper.parameters()]
        results.append(gradients + [value.clone() for value in whole.buffers()])
    for one, two in zip(*results, strict=True):
        torch.testing.assert_close(one, two)


def test_places_that_cannot_be_split_are_rejected():
    for name, at, hint in (
        ("lite0", "blocks.9", "did you mean 'blocks."),
        ("lite0", "nowhere", "; its blocks: conv_stem, "),
        ("lite0", "conv_stem", "; use --mode linear or full"),  # nothing is below
        ("resnet18", "layer4.1.conv2", "did you mean 'layer4."),  # next to a residual
        ("vit_tiny_patch16_224", "blocks.11", "; use --mode linear or full"),
    ):
        with pytest.raises(InputError, match=f"cannot split the backbone at '{at}'") as caught:
            frozen_below(backbone(name), at, SIZE)
        assert hint in str(caught.value)


class Branches(nn.Module):
    """A second tensor passes around `two`."""

    def __init__(self):
        super().__init__()
        self.one, self.two = nn.Conv2d(3, 3, 1), nn.Conv2d(3, 3, 1)

    def forward(self, images):
        one = self.one(images)
        return self.two(one) + one


def test_one_tensor_must_pass_and_no_weight_may_be_shared():
    with pytest.raises(InputError, match="cannot split the backbone at 'two'"):
        frozen_below(Branches(), "two", SIZE)
    one, two = nn.Conv2d(3, 3, 1), nn.Conv2d(3, 3, 1)
    assert frozen_below(nn.Sequential(one, two), "1", SIZE).at == "1"
    shared = nn.Sequential(nn.Sequential(one), two, nn.Sequential(one))
    with pytest.raises(InputError, match="cannot split the backbone at '1'"):
        frozen_below(shared, "1", SIZE)
