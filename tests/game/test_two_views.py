"""--view pair: the network learns from the strong view, the labels answer the weak one."""

import numpy as np
import pytest
import torch
from scipy.special import expit
from torch import nn

from g2netpl import PartialLabelClassifier, RunConfig, train
from g2netpl.base.signals import Stopped
from g2netpl.cli import main
from g2netpl.game.batches import Batch
from g2netpl.game.loop import play_epoch
from g2netpl.game.methods import make_player
from g2netpl.game.player import LabelPlayer, Proposal, Setup
from g2netpl.training import saving

OBSERVED = torch.tensor([[1, -1], [0, 1]], dtype=torch.int8)
PAIRS = torch.arange(24).reshape(2, 2, 3, 1, 2) / 10.0 - 1.0  # two images of two views


class Seen(nn.Module):
    """A linear network that counts its forwards."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.last, self.forwards = nn.Linear(6, 2), 0

    def forward(self, images):
        self.forwards += 1
        return self.last(images.flatten(1))


def said(network, images):
    weight, bias = (each.detach().numpy() for each in (network.last.weight, network.last.bias))
    return expit(images.flatten(1).numpy() @ weight.T + bias)


class Listening(LabelPlayer):
    """Learns everything as negative, and notes what it is told."""

    def propose(self, batch, progress, predict):
        self.asked = predict(batch.inputs)
        return Proposal(torch.zeros(2, 2), torch.ones(2, 2))

    def respond(self, batch, predicted, progress):
        self.answered = predicted


def one_step(player):
    network = Seen()
    optimizer = torch.optim.SGD(network.parameters(), lr=0.5)
    play_epoch(network, player, [Batch(torch.arange(2), PAIRS, OBSERVED)], optimizer, 0.5, 1.0)
    return network


def test_the_strong_view_is_learnt_from_and_the_weak_one_answered():
    start, player = Seen(), Listening()
    network = one_step(player)
    weak, strong = PAIRS[:, 0], PAIRS[:, 1]
    # the mean over 2·2 entries of −log(1 − p) has the gradient p/4 at each logit
    slope = said(start, strong) / 4
    expected = start.last.weight.detach().numpy() - 0.5 * slope.T @ strong.flatten(1).numpy()
    np.testing.assert_allclose(network.last.weight.detach().numpy(), expected, atol=1e-6)
    np.testing.assert_allclose(player.answered, said(network, weak), atol=1e-6)
    np.testing.assert_allclose(player.asked, said(start, weak), atol=1e-6)
    assert network.forwards == 3


def test_the_labels_of_the_game_move_by_the_weak_view():
    """The same labels come of telling the player the weak view's prediction."""

    def player():
        return make_player("g2netpl", {"map": "sigmoid"}, Setup(OBSERVED, 1.0, 0.5))

    played, told = player(), player()
    network = one_step(played)
    batch = Batch(torch.arange(2), PAIRS, OBSERVED)
    told.propose(batch, 0.5, torch.sigmoid)
    told.respond(batch, torch.from_numpy(said(network, PAIRS[:, 0])).float(), 0.5)
    told.end_epoch()
    torch.testing.assert_close(played.soft_labels(), told.soft_labels())
    assert (told.soft_labels()[0, 1] - 0.5).abs() > 1e-3


def stop_at(monkeypatch, step):
    """Stop at a step, after what was done is saved."""
    original, calls = saving.CheckpointSaver.step, []

    def count(saver, take):
        calls.append(1)
        if len(calls) == step:
            saver._save(take())
            raise saver.stopped()
        return original(saver, take)

    monkeypatch.setattr(saving.CheckpointSaver, "step", count)


def test_going_on_is_exact(small_training, monkeypatch):
    def config(name):
        mode = {"mode": "linear-init", "linear_epochs": 1, "train_from": "9"}
        changes = {"view": "pair", "ema": 0.9, "batch_size": 7, "learning_rate": 0.01, **mode}
        return RunConfig.read(small_training(name, **changes), "test")

    whole = train(config("whole"))
    with monkeypatch.context() as patch:
        stop_at(patch, 10)
        with pytest.raises(Stopped):
            train(config("stopped"))
    resumed = train(config("stopped"), resume=True)
    for name in ("model.safetensors", "soft_labels.npy"):
        assert (whole.folder / name).read_bytes() == (resumed.folder / name).read_bytes()


def test_a_frozen_backbone_has_one_view(small_training, capsys):
    keys = small_training("run", mode="linear", view="pair")
    flags = [f"--{name.replace('_', '-')}={value}" for name, value in keys.items()]
    flags[flags.index("--only-listed=True")] = "--only-listed"
    assert main(["train", *flags]) == 2
    told = capsys.readouterr().err
    assert "view pair" in told
    assert "end-to-end" in told


def test_the_estimator_refuses_two_views_of_features():
    with pytest.raises(ValueError, match=r"view pair: .* two need mode='end-to-end'$"):
        PartialLabelClassifier(view="pair").fit(np.eye(4), np.eye(4, dtype=int))
