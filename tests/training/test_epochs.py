import copy

import numpy as np
import pytest
import torch
from scipy.stats import norm

from g2netpl.base.errors import InputError
from g2netpl.core.equations import regret
from g2netpl.game.methods import make_player
from g2netpl.game.network.network import build_network
from g2netpl.game.network.optimizers import make_optimizer
from g2netpl.game.player import Setup
from g2netpl.images.loader import ArraySource, epoch_groups
from g2netpl.training.checkpoints import load_checkpoint, save_checkpoint
from g2netpl.training.epochs import Loop, NumericalStop, Schedule, Validation, fit
from g2netpl.training.equilibrium import Equilibrium
from g2netpl.training.progress import collapsed
from g2netpl.training.snapshots import Snapshot

RANDOM = np.random.default_rng(0)
INPUTS = torch.from_numpy(RANDOM.normal(size=(80, 6)).astype(np.float32))
TRUTH = (INPUTS.numpy()[:, :4] + 0.3 * RANDOM.normal(size=(80, 4)) > 0.4).astype(np.int8)
VISIBLE = np.where(RANDOM.random((80, 4)) < 0.3, np.where(TRUTH == 1, 1, -1), -1).astype(np.int8)


def play(
    method="g2netpl", options=None, epochs=6, start=None, on_epoch=None, on_step=None, **changes
):
    calls = {"on_epoch": on_epoch, "on_step": on_step}
    observed = torch.from_numpy(VISIBLE[:60])
    network = build_network("features", 4, width=6, seed=0)
    rate = changes.pop("rate", 0.02)
    player = make_player(method, options or {}, Setup(observed, 1.4, rate, 0))
    optimizer = torch.optim.Adam(network.parameters(), lr=rate)
    truth = changes.pop("truth", TRUTH[60:])
    snapshot = fit(
        network,
        player,
        ArraySource(INPUTS[:60]),
        observed,
        1.4,
        optimizer,
        Schedule(epochs, 16, 0, **changes),
        Validation(ArraySource(INPUTS[60:]), truth),
        start=start,
        loop=Loop(**{name: call for name, call in calls.items() if call is not None}),
    )
    return snapshot, player


def without_times(history):
    return [
        {k: v for k, v in r.items() if k not in ("seconds", "images_per_second")} for r in history
    ]


def test_the_best_epoch_is_the_first_with_the_best_validation():
    snapshot, _ = play(epochs=8)
    scores = [record["validation_map"] for record in snapshot.history]
    assert snapshot.best_epoch == 1 + int(np.argmax(scores))
    assert snapshot.best_map == max(scores)


def test_without_observed_negatives_the_last_epoch_is_taken():
    only_positives = np.where(TRUTH[60:] == 1, 1, -1).astype(np.int8)
    snapshot, _ = play(truth=only_positives, epochs=4)
    assert snapshot.best_epoch == 4
    assert snapshot.best_map is None
    assert all(torch.equal(v, snapshot.network[k]) for k, v in snapshot.best_network.items())


def test_diagnostics_by_their_definition():
    seen = []

    def watch(now):
        seen.append(now.player["latents.latents"].clone())

    snapshot, player = play(on_epoch=watch, epochs=5, options={"map": "sigmoid"})
    hidden = torch.from_numpy(VISIBLE[:60] == -1)
    before, after = seen[-2].sigmoid(), seen[-1].sigmoid()
    last = snapshot.history[-1]
    assert last["movement"] == pytest.approx(float((after - before)[hidden].abs().mean()), rel=1e-5)
    flips = ((after > 0.5) != (before > 0.5))[hidden].float().mean()
    assert last["flips"] == pytest.approx(float(flips))
    middle = ((after > 0.25) & (after < 0.75))[hidden].float().mean()
    assert last["undecided"] == pytest.approx(float(middle))
    total = float(player.soft_labels().sum()) / 60
    assert last["soft_positives"] == pytest.approx(total, rel=1e-5)
    assert last["regret"] >= 0
    assert last["gradient_norm"] > 0


def test_the_probe_measures_regret_and_predictions_by_their_definition():
    _, player = play(epochs=3, options={"penalty": 0.6})
    network = build_network("features", 4, width=6, seed=3)
    observed = torch.from_numpy(VISIBLE[:60])
    equilibrium = Equilibrium(ArraySource(INPUTS[:60]), observed, 1.4, 0)
    reading = equilibrium.read(network, player, 0.5)
    rows = torch.from_numpy(equilibrium.rows)
    assert len(rows) == 32
    with torch.no_grad():
        predicted = network(INPUTS[rows]).sigmoid()
    soft = player.soft_labels()[rows]
    gains = regret(soft, predicted, 0.6)[observed[rows] == -1]
    assert reading["regret"] == pytest.approx(float(gains.mean()), rel=1e-4)
    assert reading["predicted_positives"] == pytest.approx(float(predicted.sum()) / 32, rel=1e-5)


def test_the_state_of_the_labels_is_that_of_the_unobserved_ones():
    some = np.random.default_rng(2).random((60, 4)) < 0.2
    observed = torch.from_numpy(np.where(some, 0, VISIBLE[:60]).astype(np.int8))
    player = make_player("g2netpl", {}, Setup(observed, 1.4, 0.02))
    latents = torch.from_numpy(np.random.default_rng(1).normal(0.5, 2.0, (60, 4)))
    player.load_state({"latents.latents": latents})
    network = build_network("features", 4, width=6, seed=3)
    equilibrium = Equilibrium(ArraySource(INPUTS[:60]), observed, 1.4, 0)
    reading = equilibrium.read(network, player, 0.5)
    hidden = norm.cdf(latents.numpy(), loc=0.5)[observed.numpy() == -1]
    counts, _ = np.histogram(hidden, bins=20, range=(0, 1))
    assert reading["soft_histogram"] == counts.tolist()
    assert reading["undecided"] == pytest.approx(np.mean(np.abs(hidden - 0.5) < 0.25))


def test_regret_falls_as_the_labels_come_to_rest():
    snapshot, _ = play(options={"response": "best_response"}, epochs=30, rate=1e-3, patience=0)
    assert snapshot.history[-1]["regret"] < 0.1 * snapshot.history[0]["regret"] + 1e-4
    frozen, _ = play(options={"response": "frozen"}, epochs=3)
    assert frozen.history[-1]["regret"] > 10 * snapshot.history[-1]["regret"]


def test_it_stops_at_equilibrium_and_not_before():
    options = {"response": "best_response"}
    calm = {"regret_tolerance": 0.05, "movement_tolerance": 0.05}
    snapshot, _ = play(options=options, epochs=60, rate=1e-3, patience=3, **calm)
    assert snapshot.converged
    assert snapshot.finished < 60
    quiet = [r["regret"] < 0.05 and r["movement"] < 0.05 for r in snapshot.history]
    assert quiet[-3:] == [True] * 3
    assert not all(quiet[-4:])
    never, _ = play(options=options, epochs=20, rate=1e-3, patience=0, **calm)
    assert never.finished == 20
    assert not never.converged


def test_a_resume_among_quiet_epochs_stops_where_the_unbroken_run_stops():
    kept = []
    options = {"response": "best_response"}
    calm = {"regret_tolerance": 0.05, "movement_tolerance": 0.05, "patience": 3, "rate": 1e-3}

    def keep(now):
        kept.append(copy.deepcopy(now))

    whole, _ = play(options=options, epochs=60, on_epoch=keep, **calm)
    resumed, _ = play(options=options, epochs=60, start=kept[-2], **calm)
    assert whole.converged
    assert resumed.finished == whole.finished


def test_labels_that_have_not_begun_to_move_are_at_no_equilibrium():
    """At first the network says ½ as they do, and their steps are η·φ²: all is quiet."""
    calm = {"regret_tolerance": 0.2, "movement_tolerance": 0.2, "patience": 1}
    snapshot, _ = play(options={"step_growth": 4.0}, epochs=12, rate=1e-6, **calm)
    assert [record["undecided"] for record in snapshot.history[:3]] == [1.0] * 3
    assert snapshot.history[-1]["undecided"] < 1


def test_with_everything_observed_there_is_no_equilibrium_to_stop_at():
    observed = torch.from_numpy(TRUTH[:60])
    network = build_network("features", 4, width=6, seed=0)
    player = make_player("g2netpl", {}, Setup(observed, 1.4, 0.02, 0))
    optimizer = torch.optim.Adam(network.parameters(), lr=0.02)
    source = ArraySource(INPUTS[:60])
    snapshot = fit(network, player, source, observed, 1.4, optimizer, Schedule(6, 16, 0))
    assert snapshot.finished == 6
    assert snapshot.history[-1]["regret"] is None
    assert snapshot.history[-1]["undecided"] is None


def test_optimizers_that_cannot_train_here_are_refused():
    parameters = [torch.nn.Parameter(torch.zeros(2))]
    assert isinstance(make_optimizer("AdamW", parameters, 0.1), torch.optim.AdamW)
    for name in ("LBFGS", "Optimizer", "SparseAdam", "Muon", "lr_scheduler"):
        with pytest.raises(InputError, match="optimizer"):
            make_optimizer(name, parameters, 0.1)


def test_collapse_is_noticed():
    assert collapsed({"predicted_positives": 0.3}, 1.0)
    assert collapsed({"predicted_positives": 3.1}, 1.0)
    assert not collapsed({"predicted_positives": 2.9}, 1.0)


def test_a_cost_that_is_no_number_stops_the_training():
    with pytest.raises(NumericalStop, match="smaller learning rate"):
        play("an", rate=float("inf"))


def steps_of(method, **changes):
    kept = []
    whole, player = play(method, on_step=lambda take: kept.append(take()), **changes)
    return kept, whole, player


METHODS_WITH_MEMORY = ["an", "role", "g2netpl", "plmcl", "em-apl", "ll-cp", "ups"]


@pytest.mark.parametrize("method", METHODS_WITH_MEMORY)
def test_going_on_from_any_step_is_exact(method):
    kept, whole, player = steps_of(method, epochs=3)
    assert [(each.finished, each.step) for each in kept[:5]] == [
        *((0, step) for step in (1, 2, 3, 4)),
        (1, 1),
    ]
    for snapshot in kept:
        resumed, other = play(method, epochs=3, start=snapshot)
        assert without_times(resumed.history) == without_times(whole.history)
        assert resumed.best_epoch == whole.best_epoch
        for state, same in (
            (whole.network, resumed.network),
            (whole.best_network, resumed.best_network),
            (player.state(), other.state()),
        ):
            assert state.keys() == same.keys()
            assert all(torch.equal(value, same[key]) for key, value in state.items())


def test_a_batch_whose_cost_is_no_number_moves_nobody():
    seen = []
    inputs = INPUTS.clone()
    inputs[3, 0] = torch.inf
    observed = torch.from_numpy(VISIBLE[:60])

    def run(loop, source, epochs=2):
        network = build_network("features", 4, width=6, seed=0)
        player = make_player("g2netpl", {}, Setup(observed, 1.4, 0.02, 0))
        optimizer = torch.optim.Adam(network.parameters(), lr=0.02)
        arguments = (observed, 1.4, optimizer, Schedule(epochs, 16, 0))
        return fit(network, player, ArraySource(source), *arguments, loop=loop), player

    def note(epoch, batch, cost):
        seen.append((epoch, 3 in batch.rows.tolist(), cost))

    now, player = run(Loop(on_non_finite=note), inputs[:60])
    assert [(epoch, with_it) for epoch, with_it, _ in seen] == [(1, True), (2, True)]
    assert all(not cost < np.inf for _, _, cost in seen)
    assert all(torch.isfinite(value).all() for value in now.network.values())
    assert torch.isfinite(player.soft_labels()).all()
    with pytest.raises(NumericalStop, match="3 batches in a row"):
        run(Loop(), torch.full_like(INPUTS[:60], torch.inf))
    assert NumericalStop.exit_code == 5


@pytest.mark.parametrize("alive", [1, 9], ids="killed after {} epochs".format)
def test_a_row_of_non_finite_costs_goes_on_after_a_resume(tmp_path, alive):
    """One batch per epoch, none with a cost, and a checkpoint after each."""

    class Killed(BaseException):
        pass

    observed = torch.from_numpy(VISIBLE[:60])

    def play_on():
        network = build_network("features", 4, width=6, seed=0)
        player = make_player("g2netpl", {}, Setup(observed, 1.4, 0.02, 0))
        optimizer = torch.optim.Adam(network.parameters(), lr=0.02)
        source = ArraySource(torch.full_like(INPUTS[:60], torch.inf))
        start, _ = load_checkpoint(tmp_path) or (Snapshot(), 0)
        epochs = []

        def save(now):
            save_checkpoint(tmp_path, now, 0)
            epochs.append(now.finished)
            if len(epochs) == alive:
                raise Killed

        schedule = Schedule(9, 60, 0)
        loop = Loop(on_epoch=save)
        fit(network, player, source, observed, 1.4, optimizer, schedule, start=start, loop=loop)

    def until_the_end():
        while True:
            try:
                return play_on()
            except Killed:
                continue

    with pytest.raises(NumericalStop, match=r"epoch 3: .* 3 batches in a row"):
        until_the_end()


def test_statistics_of_a_batch_whose_cost_is_not_finite_are_forgotten():
    class Normed(torch.nn.Module):
        def __init__(self):
            super().__init__()
            torch.manual_seed(0)
            self.norm, self.last = torch.nn.BatchNorm1d(6), torch.nn.Linear(6, 4)

        def forward(self, inputs):
            return self.last(self.norm(inputs))

    observed = torch.from_numpy(VISIBLE[:60])
    inputs = INPUTS[:60].clone()
    inputs[3] = torch.inf
    seen = []

    def train(inputs, leave_out):
        network = Normed()
        player = make_player("an", {}, Setup(observed, 1.4, 0.02, 0))
        optimizer = torch.optim.Adam(network.parameters(), lr=0.02)
        source = ArraySource(inputs)

        def note(epoch, batch, cost):
            seen.append(batch.number)

        schedule = Schedule(1, 16, 0)
        loop = Loop(on_non_finite=note)
        if leave_out:
            inputs[torch.from_numpy(epoch_groups(60, 16, 0, 0)[seen[0]])] = torch.nan  # unreadable
        fit(network, player, source, observed, 1.4, optimizer, schedule, loop=loop)
        return network.state_dict()

    with_it, without_it = train(inputs, False), train(inputs.clone(), True)
    assert len(seen) == 1
    assert all(torch.equal(value, without_it[key]) for key, value in with_it.items())
    assert int(with_it["norm.num_batches_tracked"]) == 3


def test_weights_that_are_no_numbers_are_not_kept():
    """The cost was a number, but not what it made of the network, in the very last step."""
    observed = torch.from_numpy(VISIBLE[:60])
    network = build_network("features", 4, width=6, seed=0)
    player = make_player("an", {}, Setup(observed, 1.4, 0.02, 0))
    kept = []

    class Wild(torch.optim.SGD):
        def step(self, closure=None):
            super().step()
            kept.append(0)
            if len(kept) == 4:
                network.classifier.weight.data[0, 0] = torch.nan

    optimizer = Wild(network.parameters(), lr=0.02)
    arguments = (ArraySource(INPUTS[:60]), observed, 1.4, optimizer, Schedule(1, 16, 0))
    with pytest.raises(NumericalStop, match="no longer numbers"):
        fit(network, player, *arguments)
