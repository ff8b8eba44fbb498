"""The BoostLU head: scores by hand, the plain network at α = 1, and who cannot have it."""

import re

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from torch import nn

from g2netpl import load_run, read_labels
from g2netpl.base.errors import InputError
from g2netpl.cli import main
from g2netpl.game.network.boostlu import ALPHA, BoostedNetwork, boosted
from g2netpl.game.network.network import Network, build_network
from g2netpl.game.network.predicting import predict_all
from g2netpl.images.loader import ImageSource
from g2netpl.training import train as training

CNN = "test_efficientnet"  # timm's smallest


class FakeBackbone(nn.Module):
    """The image is its own feature map; the vector is the map's mean, or something else."""

    def __init__(self, pool="mean"):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(()))
        self.pool = pool

    def forward_features(self, images):
        return images * self.scale

    def forward(self, images):
        maps = self.forward_features(images)
        return maps.mean(dim=(2, 3)) if self.pool == "mean" else maps.amax(dim=(2, 3))


def layer():
    classifier = nn.Linear(3, 2)
    with torch.no_grad():
        classifier.weight.copy_(torch.tensor([[1.0, 0.0, -1.0], [0.5, 0.5, 0.0]]))
        classifier.bias.copy_(torch.tensor([0.5, -1.0]))
    return classifier


# two positions of one image, three channels
IMAGE = torch.tensor([[[[2.0, 0.0]], [[1.0, 0.0]], [[0.0, 2.0]]]])


def test_scores_by_hand():
    # class 0: 2 − 0 + 0.5 = 2.5 and 0 − 2 + 0.5 = −1.5; class 1: 1.5 − 1 = 0.5 and 0 − 1 = −1
    # boosted by 5: 12.5 and −1.5, 2.5 and −1; their means are 5.5 and 0.75
    network = boosted(Network(FakeBackbone(), layer()), "fake", 4)
    assert ALPHA == 5
    assert network(IMAGE).tolist() == [[5.5, 0.75]]
    assert network.vectors(IMAGE).tolist() == [[[[2, 1, 0], [0, 0, 2]]]]
    twice = BoostedNetwork(FakeBackbone(), layer(), alpha=2.0)
    assert twice(IMAGE).tolist() == [[1.75, 0.0]]
    plain = Network(FakeBackbone(), layer())
    assert plain(IMAGE).tolist() == [[0.5, -0.25]]
    assert BoostedNetwork(FakeBackbone(), layer(), alpha=1.0)(IMAGE).tolist() == [[0.5, -0.25]]


def test_the_gradient_of_a_position_is_boosted_where_its_score_is_positive():
    network = boosted(Network(FakeBackbone(), layer()), "fake", 4)
    image = IMAGE.clone().requires_grad_()
    network(image)[0, 0].backward()
    # half of α·w at the first position, half of w at the second
    assert image.grad[0, :, 0, 0].tolist() == [2.5, 0.0, -2.5]
    assert image.grad[0, :, 0, 1].tolist() == [0.5, 0.0, -0.5]


@pytest.mark.parametrize("name", ["resnet18", "tf_efficientnet_lite0", CNN])
def test_without_a_boost_it_is_the_plain_network(name):
    plain = build_network(name, 5, pretrained=False, image_size=64, seed=1).eval()
    images = torch.randn(2, 3, 64, 64, generator=torch.Generator().manual_seed(0))
    head = boosted(plain, name, 64).eval()
    with torch.no_grad():
        expected, strong = plain(images), head(images)
        head.alpha = 1.0
        torch.testing.assert_close(head(images), expected, rtol=1e-4, atol=1e-5)
        plain.classifier.bias += 1e3  # all positions speak for all classes: α times the mean
        head.alpha = ALPHA
        torch.testing.assert_close(head(images), 5 * plain(images), rtol=1e-5, atol=1e-3)
    assert not torch.allclose(strong, expected)
    assert list(head.state_dict()) == list(plain.state_dict())


def test_trying_a_backbone_moves_nothing():
    plain = build_network(CNN, 5, pretrained=False, image_size=32).train()
    before = {key: value.clone() for key, value in plain.state_dict().items()}
    head = boosted(plain, CNN, 32)
    assert all(torch.equal(value, before[key]) for key, value in head.state_dict().items())
    assert all(module.training for module in head.modules())


@pytest.mark.parametrize("name", ["test_vit", "test_convnext", "lcnet_050"])
def test_a_backbone_that_does_more_than_average_is_refused(name):
    network = build_network(name, 3, pretrained=False, image_size=32)
    with pytest.raises(InputError, match=f"backbone {name} does not average a feature map"):
        boosted(network, name, 32)


def test_another_pooling_is_refused():
    with pytest.raises(InputError, match="does not average"):
        boosted(Network(FakeBackbone("max"), layer()), "fake", 4)


def train(photos, output, *more):
    arguments = ["train", "--labels", str(photos / "train.csv"), "--images", str(photos)]
    arguments += ["--setting", "sspl:0.5", "--expected-positives", "2.3", "--only-listed"]
    arguments += ["--image-size", "32", "--epochs", "1", "--workers", "0", "--no-pretrained"]
    arguments += ["--device", "cpu", "--method", "an", "--head", "boostlu"]
    return main([*arguments, "--output", str(output), *more])


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["--backbone", "tiny"], "backbone tiny does not average a feature map"),
        (["--backbone", "test_vit"], "backbone test_vit does not average a feature map"),
        (["--backbone", CNN, "--hidden", "4"], "needs one linear layer; use it with --hidden 0"),
        (["--backbone", CNN, "--mode", "linear"], "use --mode end-to-end"),
        (["--backbone", CNN, "--head", "boost"], "head: .*'linear' or 'boostlu'"),
    ],
)
def test_what_cannot_have_it_is_told_in_one_line(photos, tmp_path, capsys, more, message):
    assert train(photos, tmp_path / "run", *more) == 2
    shown = capsys.readouterr().err
    assert len(shown.strip().splitlines()) == 1
    assert "head" in shown
    assert re.search(message, shown), shown
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("method", ["an", "ups"])
def test_a_run_loads_again_and_predicts_the_same(photos, tmp_path, monkeypatch, method):
    made = []
    finish = training.finish

    def keep(session, *rest):
        result = finish(session, *rest)  # leaves the best epoch in it
        made.append(session.network)
        return result

    monkeypatch.setattr(training, "finish", keep)
    more = ["--backbone", CNN, "--method", method, "--learning-rate", "0.01", "--image-size", "64"]
    assert train(photos, tmp_path / "run", *more) == 0
    (network,) = made
    run = load_run(tmp_path / "run")
    assert isinstance(network, BoostedNetwork)
    assert isinstance(run.network, BoostedNetwork)
    assert run.config.head == "boostlu"
    start = build_network(CNN, 10, pretrained=False, image_size=64, seed=0).state_dict()
    saved = load_file(tmp_path / "run" / "model.safetensors")
    assert any(not torch.equal(saved[key], value) for key, value in start.items())
    paths = [str(photos / name) for name in read_labels(photos / "test.csv").images]
    source = ImageSource(paths, 64, run.mean, run.std)
    expected = run.thresholds.calibrate(predict_all(network, source))
    np.testing.assert_array_equal(run.predict(paths), expected)
    with torch.no_grad():  # and not what the plain network of the same weights would say
        run.network.classifier.bias += 1.0  # some logits are positive, and only those are boosted
        (images,) = source.load([np.arange(4)], None)
        plain = Network(run.network.backbone, run.network.classifier).eval()
        assert not torch.allclose(plain(images), run.network(images))
