"""--ema: a moving average of the weights, which is judged, kept and gone on with."""

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from sklearn.metrics import average_precision_score
from test_epochs import INPUTS, TRUTH, VISIBLE, play, steps_of, without_times

from g2netpl import RunConfig, train
from g2netpl.base.errors import InputError
from g2netpl.cli import main
from g2netpl.game.methods import make_player
from g2netpl.game.network.network import build_network
from g2netpl.game.player import Setup
from g2netpl.images.loader import ArraySource
from g2netpl.training.average import Average
from g2netpl.training.checkpoints import load_checkpoint, save_checkpoint
from g2netpl.training.epochs import Schedule, fit


def followed(path, decay):
    """Where an average ends that follows these weights from the first on."""
    average = path[0].astype(np.float64)
    for step, weights in enumerate(path[1:]):
        keep = min(decay, (1 + step) / (10 + step))
        average = keep * average + (1 - keep) * weights
    return average


def test_three_steps_by_hand():
    network = torch.nn.Linear(1, 1, bias=False)
    torch.nn.init.constant_(network.weight, 1.0)
    average = Average(network, 0.15)
    with average.learning():
        for weight in (2.0, 4.0, 8.0):
            torch.nn.init.constant_(network.weight, weight)
            average.follow()
    # 0.1·1 + 0.9·2 = 1.9; then 0.15, since 2/11 and 3/12 are more
    assert network.weight.item() == pytest.approx(0.15 * (0.15 * 1.9 + 0.85 * 4) + 0.85 * 8)
    with average.learning():
        assert network.weight.item() == 8.0


def test_buffers_are_copied_and_not_averaged():
    network = torch.nn.BatchNorm1d(2)
    average = Average(network, 0.9)
    with average.learning():
        network(torch.tensor([[0.0, 2.0], [4.0, 6.0]]))
        average.follow()
    assert network.running_mean.tolist() == pytest.approx([0.2, 0.4])
    assert int(network.num_batches_tracked) == 1


@pytest.mark.parametrize("method", ["an", "g2netpl"])
def test_the_average_follows_and_the_game_is_the_same(method):
    """The path of a training without an average is that of one with it."""
    plain, whole, player = steps_of(method, epochs=3)
    kept, averaged, other = steps_of(method, epochs=3, ema=0.6)
    start = build_network("features", 4, width=6, seed=0).state_dict()
    for name, first in start.items():
        path = np.stack([first.numpy(), *(each.network[name].numpy() for each in plain)])
        assert (path[1:] == np.stack([each.learner[name] for each in kept])).all()
        for step in (1, 5, len(plain)):
            found = kept[step - 1].network[name].numpy()
            np.testing.assert_allclose(found, followed(path[: step + 1], 0.6), atol=1e-6)
        assert torch.equal(averaged.learner[name], whole.network[name])
    for name, value in player.state().items():
        assert torch.equal(value, other.state()[name])


def test_what_is_judged_and_chosen_is_the_average():
    shown = []
    now, _ = play(epochs=6, ema=0.9, on_epoch=lambda each: shown.append(each.network))
    for state, record in zip(shown, now.history, strict=True):
        scores = INPUTS[60:] @ state["classifier.weight"].T + state["classifier.bias"]
        truth = np.mean([average_precision_score(TRUTH[60:, j], scores[:, j]) for j in range(4)])
        assert record["validation_map"] == pytest.approx(truth, abs=1e-9)
    best = shown[now.best_epoch - 1]
    assert all(torch.equal(value, best[name]) for name, value in now.best_network.items())
    assert any(not torch.equal(value, now.learner[name]) for name, value in now.network.items())


def same(one, two):
    """Whether two trainings are, to the last bit."""
    for name in ("network", "learner", "best_network"):
        state, other = getattr(one, name), getattr(two, name)
        if not all(torch.equal(value, other[key]) for key, value in state.items()):
            return False
    return without_times(one.history) == without_times(two.history)


def test_going_on_from_any_step_is_exact(tmp_path):
    kept, whole, _ = steps_of("g2netpl", epochs=3, ema=0.9)
    for number, snapshot in enumerate(kept):
        save_checkpoint(tmp_path / str(number), snapshot, 0)
        start, _ = load_checkpoint(tmp_path / str(number))
        assert same(play("g2netpl", epochs=3, start=start, ema=0.9)[0], whole)


def test_a_step_that_was_not_taken_is_not_averaged():
    inputs = INPUTS[:60].clone()
    inputs[3, 0] = torch.inf
    observed = torch.from_numpy(VISIBLE[:60])
    network = build_network("features", 4, width=6, seed=0)
    player = make_player("an", {}, Setup(observed, 1.4, 0.02, 0))
    optimizer = torch.optim.Adam(network.parameters(), lr=0.02)
    game = (network, player, ArraySource(inputs), observed, 1.4, optimizer)
    now = fit(*game, Schedule(2, 16, 0, ema=0.9))
    assert now.averaged == 2 * (4 - 1)


@pytest.fixture
def config(small_training):
    def make(name, **changes):
        usual = {"epochs": 3, "batch_size": 7, "learning_rate": 0.02}
        return small_training(name, **{**usual, "ema": 0.8, **changes})

    return make


def test_the_model_of_a_run_is_the_average_of_its_best_epoch(config):
    seen = []
    read = RunConfig.read(config("run", mode="linear-init", linear_epochs=2, epochs=2), "test")
    run = train(read, on_epoch=lambda now, *rest: seen.append(now))
    assert [each.averaged for each in seen] == [7, 14, 7, 14]  # anew in the second phase
    best = seen[2:][run.result["best_epoch"] - 3]
    model = load_file(run.folder / "model.safetensors")
    assert all(torch.equal(value, model[name]) for name, value in best.network.items())
    assert any(not torch.equal(value, model[name]) for name, value in best.learner.items())


def test_a_decay_out_of_range_is_refused(config, capsys):
    with pytest.raises(InputError, match="ema"):
        RunConfig.read(config("run", ema=1.0), "test")
    assert main(["train", "--labels", "x.csv", "--ema", "fast", "--output", "run"]) == 2
    assert "ema" in capsys.readouterr().err
    assert RunConfig.read(config("run", ema="none"), "test").ema is None
