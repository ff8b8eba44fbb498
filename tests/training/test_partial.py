"""--mode partial: the upper blocks are trained on activations of the frozen ones."""

import pytest
import torch
from safetensors.torch import load_file

from g2netpl import RunConfig, train
from g2netpl.cli import main
from g2netpl.core.freezing import frozen_below
from g2netpl.core.models import build_backbone
from g2netpl.images.loader import ImageSource
from g2netpl.utils.errors import InputError


@pytest.fixture
def config(small_training):
    def make(name="run", **changes):
        usual = {"mode": "partial", "learning_rate": 0.01, "train_from": "9"}
        return RunConfig.read(small_training(name, **{**usual, **changes}), "test")

    return make


def weights(run):
    return load_file(run.folder / "model.safetensors")


def assert_upper_alone_learnt(run, at="9"):
    """Of the backbone everything above the cut has moved, and nothing below."""
    start = build_backbone("tiny").module
    above = frozen_below(start, at, 32).upper.state_dict()
    for name, value in start.state_dict().items():
        assert torch.equal(weights(run)[f"backbone.{name}"], value) == (name not in above), name
    assert 0 < len(above) < len(start.state_dict())


@pytest.fixture
def decoded(monkeypatch):
    """Which images were looked at."""
    seen, load = [], ImageSource.load

    def watch(source, groups, *rest):
        groups = list(groups)
        seen.extend(source.dataset.paths[row] for rows in groups for row in rows)
        return load(source, groups, *rest)

    monkeypatch.setattr(ImageSource, "load", watch)
    return seen


def test_the_upper_blocks_alone_learn_and_images_are_looked_at_once(config, tmp_path, decoded):
    run = train(config())
    assert_upper_alone_learnt(run)
    assert len(decoded) == 60 * 2 + 20  # with mirror images but for the test
    assert len(list((tmp_path / "cache").glob("*.f16.npy"))) == 3
    decoded.clear()
    again = train(config("again"))
    assert decoded == []
    assert all(torch.equal(value, weights(again)[n]) for n, value in weights(run).items())
    train(config("other", train_from="12"))
    assert len(decoded) == 60 * 2 + 20


def test_fixmatch_trains_on_images_and_on_nothing_else(config, tmp_path, capsys):
    keys = {"method": "fixmatch", "setting": "sspl:0.5", "train_from": None}
    assert 0 < train(config(mode="full", **keys)).result["validation_map"] <= 1
    with pytest.raises(InputError, match="mode full"):
        train(config("no", mode="linear", **keys))
    arguments = ["--methods", "fixmatch", "--settings", "fspl", "--output", str(tmp_path / "c")]
    assert main(["compare", *arguments]) == 2
    assert "mode full" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"train_from": "blocks.5"}, "train_from: cannot split the backbone at 'blocks.5'"),
        ({"mode": "linear"}, "train_from: .* use --mode partial"),
        ({"augment": "weak"}, "augment weak: .* use --set augment=paper, or --mode full"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_what_does_not_fit_is_one_line_before_anything_is_written(
    config, tmp_path, changes, message
):
    with pytest.raises(InputError, match=message):
        train(config(**changes))
    assert not (tmp_path / "run").exists()
