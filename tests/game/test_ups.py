"""UPS: the selection by hand, rounds against fresh trainings, dropout against all its masks."""

import copy
import itertools
import math

import numpy as np
import pytest
import torch
from test_costs import LOGITS, NEGATIVE, OBSERVED, POSITIVE, K
from test_epochs import INPUTS, TRUTH, VISIBLE, without_times
from torch.nn import functional

from g2netpl.cli import main
from g2netpl.game.batches import Batch
from g2netpl.game.methods import make_player
from g2netpl.game.network.network import DropoutLinear, build_network
from g2netpl.game.network.optimizers import make_optimizer
from g2netpl.game.network.predicting import opinions
from g2netpl.game.network_step import network_cost
from g2netpl.game.player import Setup
from g2netpl.images.loader import ArraySource
from g2netpl.training import epochs as fitting
from g2netpl.training.epochs import Loop, Schedule, Validation, fit

# an unobserved table; the thresholds are mean ≥ 0.7 and deviation < 0.05 for a positive,
# mean ≤ 0.05 and deviation < 0.005 for a negative
BORDERS = [
    (0.7, 0.04, 1),  # the mean may be met
    (0.69, 0.04, -1),
    (0.99, 0.05, -1),  # the deviation must stay below
    (0.99, 0.049, 1),
    (0.05, 0.004, 0),
    (0.051, 0.004, -1),
    (0.0, 0.005, -1),
    (0.0, 0.0049, 0),
    (0.05, 0.049, -1),  # steady enough for a positive, not for a negative
    (0.5, 0.0, -1),
    (math.nan, 0.0, -1),  # an image that could not be read
    (0.99, math.nan, -1),
    (math.nan, math.nan, -1),
]


def predict_often(*arguments):
    """Mean and deviation of all images."""
    return [torch.cat(parts) for parts in zip(*opinions(*arguments), strict=True)]


def player_of(observed=OBSERVED, **options):
    return make_player("ups", options, Setup(observed, K, 1e-3))


def minus_log(value):
    return -math.log(value)


# --- the player ----------------------------------------------------------------------------------


def exact(values):
    """Numbers as the thresholds are, so that 0.7 is 0.7."""
    return torch.tensor(values, dtype=torch.float64)


@pytest.mark.parametrize(("mean", "deviation", "label"), BORDERS)
def test_the_selection_at_every_threshold(mean, deviation, label):
    observed = torch.tensor([[-1, 1, 0]], dtype=torch.int8)
    player = player_of(observed)
    player.begin_round([(exact([[mean] * 3]), exact([[deviation] * 3]))])
    assert player.selected.previous.tolist() == [[label, -1, -1]]  # never what was observed
    soft = {1: 1.0, 0: 0.0, -1: 0.5}[label]
    assert player.soft_labels().tolist() == [[soft, 1.0, 0.0]]


def test_other_thresholds_are_used():
    player = player_of(
        torch.full((1, 4), -1, dtype=torch.int8),
        positive_mean=0.6,
        positive_deviation=0.2,
        negative_mean=0.4,
        negative_deviation=0.1,
    )
    player.begin_round([(exact([[0.6, 0.59, 0.4, 0.41]]), exact([[0.15, 0.15, 0.09, 0.09]]))])
    assert player.selected.previous.tolist() == [[1, -1, 0, -1]]


def test_each_selection_is_made_anew():
    player = player_of()
    still = torch.zeros(3, 4)
    player.begin_round([(torch.full((3, 4), 0.9), still)])
    assert int((player.selected.previous == 1).sum()) == 9
    player.begin_round([(torch.full((3, 4), 0.5), still)])
    assert (player.selected.previous == -1).all()


# means of the nine unobserved entries: (0, 3) and (2, 0) are sure positives, (1, 0) and (2, 3) sure
# negatives; the observed ones are contradicted, which must not matter
MEAN = torch.tensor([[0.0, 0.5, 1.0, 0.9], [0.01, 0.5, 0.0, 0.5], [0.8, 0.5, 0.5, 0.02]])


def cost_of(player):
    batch = Batch(torch.arange(3), LOGITS, OBSERVED)
    return float(network_cost(LOGITS, player.propose(batch, 0.0, torch.sigmoid), K))


def test_the_cost_before_and_after_a_selection_by_hand():
    ignoring, assuming = player_of(unobserved="ignore"), player_of(unobserved="negative")
    observed = POSITIVE + NEGATIVE
    # the unobserved of the two labelled images: 0.5, 0.1 | 0.6, 0.5, 0.5; the third has no label
    assumed = sum(minus_log(1 - f) for f in (0.5, 0.1, 0.6, 0.5, 0.5))
    assert cost_of(ignoring) == pytest.approx(observed / 12, rel=1e-5)
    assert cost_of(assuming) == pytest.approx((observed + assumed) / 12, rel=1e-5)
    for player in (ignoring, assuming):
        player.begin_round([(MEAN, torch.zeros(3, 4))])
    # selected: + where f is 0.1 (row 0) and 0.5 (row 2), − where it is 0.6 (row 1) and 0.75 (row 2)
    selected = minus_log(0.1) + minus_log(0.5) + minus_log(0.4) + minus_log(0.25)
    assert cost_of(ignoring) == pytest.approx((observed + selected) / 12, rel=1e-5)
    # the other three of the labelled images stay negative, all three with f = 0.5
    rest = 3 * minus_log(0.5)
    assert cost_of(assuming) == pytest.approx((observed + selected + rest) / 12, rel=1e-5)


def test_the_selection_follows_the_rows_of_a_batch_and_a_resume():
    player = player_of(unobserved="ignore")
    player.begin_round([(MEAN, torch.zeros(3, 4))])
    again = player_of(unobserved="ignore")
    again.load_state({key: value.clone() for key, value in player.state().items()})
    rows = torch.tensor([2, 0])
    for each in (player, again):
        proposal = each.propose(Batch(rows, LOGITS[rows], OBSERVED[rows]), 0.0, torch.sigmoid)
        assert proposal.targets.tolist() == [[1, 0, 0, 0], [1, 0, 0, 1]]
        assert proposal.weights.tolist() == [[1, 0, 0, 1], [1, 0, 1, 1]]


# --- dropout -------------------------------------------------------------------------------------


@pytest.mark.parametrize("hidden", [0, 7])
def test_several_predictions_equal_a_plain_loop(hidden):
    inputs = torch.randn(600, 5, generator=torch.Generator().manual_seed(1))  # two groups: 512, 88
    network = build_network("features", 3, width=5, hidden=hidden, dropout=0.4, seed=2)
    torch.manual_seed(3)
    mean, deviation = predict_often(network, ArraySource(inputs), 4)
    last = network.classifier if hidden == 0 else network.classifier[2]
    torch.manual_seed(3)
    for group in (range(512), range(512, 600)):
        vectors = inputs[group.start : group.stop]
        if hidden:
            vectors = (vectors @ network.classifier[0].weight.T + network.classifier[0].bias).relu()
        drawn = []
        for _ in range(4):
            kept = functional.dropout(vectors, 0.4, training=True)
            drawn.append((kept @ last.weight.T + last.bias).sigmoid().detach().numpy())
        rows = slice(group.start, group.stop)
        np.testing.assert_allclose(mean[rows], np.mean(drawn, axis=0), atol=1e-6)
        np.testing.assert_allclose(deviation[rows], np.std(drawn, axis=0, ddof=1), atol=1e-6)
    assert float(deviation.mean()) > 0.01


def test_several_predictions_come_near_the_expectation_over_all_masks():
    share, passes = 0.3, 6000
    inputs = torch.tensor([[1.0, -2.0, 0.5], [0.3, 0.0, 3.0]])
    layer = DropoutLinear(3, 2, share)
    with torch.no_grad():
        layer.weight.copy_(torch.tensor([[1.0, 0.5, -0.4], [-1.5, 0.2, 0.8]]))
        layer.bias.copy_(torch.tensor([0.2, -0.1]))
    weight, bias = layer.weight.detach().double().numpy(), layer.bias.detach().double().numpy()
    first = second = np.zeros((2, 2))
    for kept in itertools.product((0, 1), repeat=3):
        chance = math.prod(1 - share if one else share for one in kept)
        logits = (inputs.double().numpy() * kept / (1 - share)) @ weight.T + bias
        predicted = 1 / (1 + np.exp(-logits))
        first = first + chance * predicted
        second = second + chance * predicted**2
    spread = np.sqrt(second - first**2)
    torch.manual_seed(0)
    mean, deviation = predict_often(layer, ArraySource(inputs), passes)
    assert (np.abs(mean.numpy() - first) < 4 * spread / math.sqrt(passes)).all()
    np.testing.assert_allclose(deviation.numpy(), spread, rtol=0.05)


# --- rounds --------------------------------------------------------------------------------------

SURE = {
    "positive_mean": 0.6,
    "positive_deviation": 0.3,
    "negative_mean": 0.3,
    "negative_deviation": 0.2,
    "unobserved": "ignore",
}
NEVER = {"positive_deviation": 1e-30, "negative_deviation": 1e-30}


def play(
    options,
    epochs=3,
    start=None,
    on_epoch=None,
    optimizer="Adam",
    selected=None,
    rate=0.03,
    **schedule,
):
    observed = torch.from_numpy(VISIBLE[:60])
    observed = torch.where(torch.from_numpy(TRUTH[:60] == 0) & (observed[:, :1] == -1), 0, observed)
    observed = observed.to(torch.int8)
    network = build_network("features", 4, width=6, dropout=0.3, seed=0)
    player = make_player("ups", options, Setup(observed, 1.4, rate, 0))
    if selected is not None:
        player.load_state({"selected.latents": selected})
    snapshot = fit(
        network,
        player,
        ArraySource(INPUTS[:60]),
        observed,
        1.4,
        make_optimizer(optimizer, network.parameters(), rate),
        Schedule(epochs, 16, 0, **schedule),
        Validation(ArraySource(INPUTS[60:]), TRUTH[60:]),
        start=start,
        loop=Loop() if on_epoch is None else Loop(on_epoch=on_epoch),
    )
    return snapshot, player


@pytest.mark.parametrize("optimizer", ["Adam", "SGD"])
def test_every_round_starts_anew(optimizer):
    """Where nothing is selected, a round is a training of its own with the order of its epochs."""
    whole, player = play({"rounds": 3, **NEVER}, optimizer=optimizer)
    assert whole.finished == 9
    assert [record["epoch"] for record in whole.history] == list(range(1, 10))
    assert (player.selected.previous == -1).all()
    for number in range(3):
        alone, _ = play({"rounds": 1}, optimizer=optimizer, first_epoch=3 * number)
        part = whole.history[3 * number : 3 * number + 3]
        assert without_times(alone.history) == without_times(part)
    assert all(torch.equal(value, whole.network[key]) for key, value in alone.network.items())
    costs = [record["cost"] for record in whole.history]
    assert costs[3] > costs[2]  # it has forgotten


def test_a_second_round_learns_what_the_first_was_sure_about():
    kept = []
    whole, player = play(
        {"rounds": 2, "passes": 6, **SURE}, on_epoch=lambda now: kept.append(copy.deepcopy(now))
    )
    assert (kept[2].player["selected.latents"] == -1).all()  # before round 1 is over
    # what the network at the end of round 1 says, by a plain loop with the same random numbers
    weight, bias = (kept[2].network[f"classifier.{name}"] for name in ("weight", "bias"))
    torch.manual_seed(3)
    drawn = torch.stack(
        [(functional.dropout(INPUTS[:60], 0.3, True) @ weight.T + bias).sigmoid() for _ in range(6)]
    ).numpy()
    mean, deviation = drawn.mean(axis=0), drawn.std(axis=0, ddof=1)
    hidden = player.observed.numpy() == -1
    expected = np.full((60, 4), -1)
    expected[hidden & (mean >= 0.6) & (deviation < 0.3)] = 1
    expected[hidden & (mean <= 0.3) & (deviation < 0.2)] = 0
    assert {-1, 0, 1} == set(expected[hidden])
    assert (player.selected.previous.numpy() == expected).all()
    # and round 2 is a training on these labels from the first start
    alone, _ = play({"rounds": 1, **SURE}, first_epoch=3, selected=player.selected.previous)
    for ours, theirs in zip(whole.history[3:], alone.history, strict=True):
        assert (ours["cost"], ours["validation_map"]) == (theirs["cost"], theirs["validation_map"])
    other, _ = play({"rounds": 1, **SURE}, first_epoch=3)
    assert other.history[0]["cost"] != alone.history[0]["cost"]
    left = (expected == -1)[hidden].mean()  # the selection is made between two epochs
    assert [record["undecided"] for record in whole.history[2:5]] == pytest.approx([1, left, left])
    assert [record["movement"] for record in whole.history] == [0] * len(whole.history)


def test_the_best_epoch_is_one_of_the_round_that_is_played(monkeypatch):
    """In the end of the last: the first knows no pseudo label yet, however good it looks."""
    scores = [0.7, 0.9, 0.8, 0.3, 0.2, 0.3, 0.5, 0.6, 0.6]  # three rounds
    best = [1, 2, 2, 4, 4, 4, 7, 8, 8]
    script = []
    monkeypatch.setattr(fitting, "mean_average_precision", lambda *given: script.pop(0))

    def follow(start=None):
        kept = []
        script[:] = scores[0 if start is None else start.finished :]
        last, _ = play(
            {"rounds": 3, "passes": 3, **SURE},
            start=start,
            on_epoch=lambda now: kept.append(copy.deepcopy(now)),
        )
        assert script == []
        return kept, last

    kept, last = follow()
    assert [now.best_epoch for now in kept] == best
    assert [now.best_map for now in kept] == [scores[epoch - 1] for epoch in best]
    for now in kept:  # whoever looks at a run that was stopped finds a network of that epoch
        of_epoch = kept[now.best_epoch - 1].network
        assert all(torch.equal(value, of_epoch[key]) for key, value in now.best_network.items())
        assert now.best_network
    assert (last.best_epoch, last.best_map) == (8, 0.6)
    for start in kept[:-1]:
        _, resumed = follow(start)
        assert (resumed.best_epoch, resumed.best_map) == (8, 0.6)
        for key, value in last.best_network.items():
            assert torch.equal(value, resumed.best_network[key])


def test_random_numbers_of_others_are_left_alone():
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    play({"rounds": 2, "passes": 3}, epochs=1)
    assert torch.equal(torch.rand(3), expected)


# --- from files ----------------------------------------------------------------------------------


def test_linear_init_is_refused_in_one_line(photos, tmp_path, capsys):
    arguments = ["train", "--labels", str(photos / "train.csv"), "--images", str(photos)]
    arguments += ["--backbone", "tiny", "--method", "ups", "--mode", "linear-init"]
    assert main([*arguments, "--output", str(tmp_path / "run")]) == 2
    shown = capsys.readouterr().err
    assert len(shown.strip().splitlines()) == 1
    assert "method ups trains the network anew each round: use --mode linear or" in shown
    assert not (tmp_path / "run").exists()
