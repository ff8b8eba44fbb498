"""Properties that hold for every method, and the choices of the paper's player."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from g2netpl.base.errors import InputError
from g2netpl.core.equations import best_response
from g2netpl.game.batches import Batch, training_batches
from g2netpl.game.loop import play_epoch
from g2netpl.game.methods import METHODS, make_player, method_options
from g2netpl.game.network.network import build_network
from g2netpl.game.player import Setup, kept_state, take_up
from g2netpl.images.loader import ArraySource

GAMES = [
    ("g2netpl", {}),
    ("g2netpl", {"map": "sigmoid"}),
    ("g2netpl", {"cost": "exponential"}),
    ("g2netpl", {"penalty_shape": "gaussian", "penalty": 3.0}),
    ("g2netpl", {"response": "best_response"}),
    ("g2netpl", {"response": "best_response", "cost": "exponential"}),
    ("g2netpl", {"response": "frozen"}),
    ("g2netpl", {"momentum": 0.9}),
    ("g2netpl", {"order": "literal"}),
    ("g2netpl", {"prediction": "fresh"}),
    ("g2netpl-paper", {}),
]
ALL = [(name, {}) for name in METHODS if not name.startswith("g2netpl")] + GAMES


def run_epochs(method, options, observed, epochs=3, batch_size=4, seed=0):
    images, classes = observed.shape
    inputs = torch.randn(images, 5, generator=torch.Generator().manual_seed(seed))
    network = build_network("features", classes, width=5, seed=seed)
    optimizer = torch.optim.Adam(network.parameters(), lr=0.05)
    player = make_player(method, options, Setup(observed, 1.5, 0.05, seed))
    costs = []
    for epoch in range(epochs):
        batches = training_batches(ArraySource(inputs), observed, batch_size, seed, epoch)
        costs.append(play_epoch(network, player, batches, optimizer, epoch / epochs, 1.5))
    return network, player, costs


observed_tables = st.builds(
    lambda seed, images, classes: torch.from_numpy(
        np.random.default_rng(seed).integers(-1, 2, (images, classes)).astype(np.int8)
    ),
    st.integers(0, 10_000),
    st.integers(1, 9),
    st.integers(1, 5),
)


@pytest.mark.parametrize(("method", "options"), ALL)
@settings(max_examples=15, deadline=None)
@given(observed=observed_tables)
def test_a_resume_amid_an_epoch_is_exact(method, options, observed):
    """A new player with the state of another proposes the same and has the same soft labels."""

    def new():
        return make_player(method, options, Setup(observed.clone(), 1.5, 0.05))

    player = new()
    for epoch in range(1, 6):
        visit(player, observed, epoch)
        player.end_epoch()
    if player.needs.rounds > 1:
        player.begin_round([(said(observed, 5), 0.01 * said(observed, 6))])
    visit(player, observed, 6, slice(0, 4))
    state, other = kept_state(player), new()
    take_up(other, state)
    for epoch, rows in ((6, slice(4, None)), (7, slice(None)), (8, slice(None))):
        for one, two in zip(
            visit(player, observed, epoch, rows), visit(other, observed, epoch, rows), strict=True
        ):
            assert torch.equal(one.nan_to_num(), two.nan_to_num())
        player.end_epoch()
        other.end_epoch()
    labels = player.soft_labels()
    assert labels is None or torch.equal(labels, other.soft_labels())


@pytest.mark.parametrize(("method", "options"), ALL)
@settings(max_examples=15, deadline=None)
@given(observed=observed_tables)
def test_proposals_and_soft_labels_are_sound(method, options, observed):
    before = observed.clone()
    _, player, _ = run_epochs(method, options, observed)
    targets, weights, *_ = visit(player, observed, 3)
    assert torch.equal(observed, before)
    assert targets.shape == weights.shape == observed.shape
    assert ((targets >= 0) & (targets <= 1)).all()
    assert ((weights >= 0) & weights.isfinite()).all()
    read, rows = player.labels_now(), torch.arange(len(observed))
    if read is None:
        return
    soft, known = read(rows), observed != -1
    assert ((soft >= 0) & (soft <= 1)).all()
    assert torch.equal(soft[known].float(), observed[known].float())
    player.end_epoch()
    visit(player, observed, 4)
    player.end_epoch()
    assert torch.equal(read(rows), soft)  # it stays with its moment


def said(observed, epoch):
    """What some network might say in an epoch: about many labels surely the same."""
    random = torch.Generator().manual_seed(0)
    kind = torch.rand(observed.shape, generator=random)
    now = torch.rand(observed.shape, generator=random.manual_seed(epoch))
    now = torch.where(kind < 0.3, 0.98 + 0.01 * now, now)
    return torch.where(kind > 0.7, 0.01 + 0.01 * now, now)


def visit(player, observed, epoch, only=slice(None)):
    """One batch of an epoch; gives all that was proposed."""
    rows, predicted = torch.arange(len(observed))[only], said(observed, epoch)[only]
    if not len(rows):
        return []
    batch = Batch(rows, torch.zeros(len(rows), 5), observed[only])
    proposal = player.propose(batch, epoch / 10, lambda inputs: predicted)
    player.respond(batch, predicted.clone(), epoch / 10)
    found = [proposal.targets, proposal.weights, torch.tensor(float(proposal.regulariser))]
    found += [each for each in (proposal.reversed_weights, proposal.depth) if each is not None]
    if proposal.entry_cost is not None:
        found.append(proposal.entry_cost(predicted.logit(eps=1e-3)))
    return [each.clone() for each in found]


@pytest.mark.parametrize(("method", "options"), ALL)
def test_permuting_a_batch_permutes_the_answer(method, options):
    observed = torch.randint(-1, 2, (6, 4), generator=torch.Generator().manual_seed(1)).to(
        torch.int8
    )
    _, player, _ = run_epochs(method, options, observed)
    predicted = torch.rand(6, 4, generator=torch.Generator().manual_seed(2))
    order = torch.tensor([3, 0, 5, 1, 4, 2])

    def ask(rows):
        batch = Batch(rows, torch.zeros(6, 5), observed[rows])
        proposal = player.propose(batch, 0.5, lambda inputs: predicted[rows])
        player.respond(batch, predicted[rows], 0.5)
        return proposal

    state = {key: value.clone() for key, value in player.state().items()}
    straight = ask(torch.arange(6))
    player.end_epoch()
    moved = {key: value.clone() for key, value in player.state().items()}
    player.load_state(state)
    permuted = ask(order)
    player.end_epoch()
    torch.testing.assert_close(permuted.targets, straight.targets[order])
    torch.testing.assert_close(permuted.weights, straight.weights[order])
    for key, value in player.state().items():
        torch.testing.assert_close(value, moved[key])


EDGE_CASES = {
    "a class never observed": [[1, -1], [0, -1], [-1, -1]],
    "everything observed": [[1, 0], [0, 1], [1, 1]],
    "nothing observed": [[-1, -1], [-1, -1], [-1, -1]],
    "one class": [[1], [-1], [0]],
    "one image": [[1, -1, 0]],
}


@pytest.mark.parametrize("case", EDGE_CASES)
@pytest.mark.parametrize(("method", "options"), ALL)
def test_edge_cases_give_no_nan(method, options, case):
    observed = torch.tensor(EDGE_CASES[case], dtype=torch.int8)
    network, player, costs = run_epochs(method, options, observed, batch_size=2)
    assert np.isfinite(costs).all()
    assert all(parameter.isfinite().all() for parameter in network.parameters())
    soft = player.soft_labels()
    assert soft is None or soft.isfinite().all()


def one_visit(options, predicted, progress=0.5, observed=None, times=1):
    observed = torch.full(predicted.shape, -1, dtype=torch.int8) if observed is None else observed
    player = make_player("g2netpl", options, Setup(observed, 1.0, 1e-3))
    batch = Batch(torch.arange(len(predicted)), predicted, observed)
    for _ in range(times):
        player.propose(batch, progress, lambda inputs: inputs)
        player.respond(batch, predicted, progress)
        player.end_epoch()
    return player


PREDICTED = torch.tensor([[0.9, 0.5, 0.1]])


def test_the_first_gradient_step_by_hand():
    # û = ½, slope 4/√(2π) = 1.595769, step 4·0.5² = 1: y = 0.5 + (q − ½)·1.595769, û = Φ(y − ½)
    options = {"step_size": 4.0, "step_growth": 2.0, "sigma": 1.0}
    soft = one_visit(options, PREDICTED).soft_labels()  # λ has no pull at ½
    move = torch.tensor([[0.4, 0.0, -0.4]]) * 1.595769
    torch.testing.assert_close(soft, torch.special.ndtr(move), atol=1e-6, rtol=0)


def test_labels_rest_while_nothing_is_finished():
    soft = one_visit({"step_growth": 2.0}, PREDICTED, progress=0.0).soft_labels()
    assert soft.tolist() == [[0.5, 0.5, 0.5]]
    moved = one_visit({"step_growth": 0.0}, PREDICTED, progress=0.0).soft_labels()
    assert moved[0, 0] > 0.5 > moved[0, 2]


def test_several_visits_come_nearer_to_the_best_response():
    target = best_response(PREDICTED, 0.3)
    gaps = []
    for times in (1, 5, 60):
        player = one_visit({"step_size": 0.5, "penalty": 0.3}, PREDICTED, 1.0, times=times)
        gaps.append(float((player.soft_labels() - target).abs().max()))
    assert gaps[0] > gaps[1] > gaps[2]
    assert gaps[2] < 1e-3


@pytest.mark.parametrize(
    "options",
    [
        {"cost": "exponential", "penalty": 2.0},
        {"penalty_shape": "gaussian", "penalty": 4.0, "penalty_width": 0.3},
        {"penalty": 4.0, "map": "sigmoid"},
        {"penalty": [0.5, 2.0, 4.0], "sigma": 0.7},
    ],
)
def test_two_visits_equal_gradient_descent_by_autograd(options):
    player = one_visit({**options, "step_size": 0.8, "step_growth": 1.0}, PREDICTED, times=2)
    latent = torch.full((1, 3), 0.0 if options.get("map") == "sigmoid" else 0.5)
    penalty = torch.tensor(options["penalty"])
    if options.get("penalty_shape") == "gaussian":
        penalty = penalty * torch.exp(-((PREDICTED - 0.5) ** 2) / (2 * 0.3**2))

    def to_soft(y):
        if options.get("map") == "sigmoid":
            return y.sigmoid()
        return torch.special.ndtr((y - 0.5) / options.get("sigma", 1.0))

    for _ in range(2):
        latent = latent.detach().requires_grad_()
        soft = to_soft(latent)
        entropy = -PREDICTED * soft.log() - (1 - PREDICTED) * (1 - soft).log()
        spread = penalty * soft * (1 - soft)
        cost = spread.exp() * entropy if "cost" in options else entropy + spread
        (gradient,) = torch.autograd.grad(cost.sum(), latent)
        latent = latent.detach() - 0.8 * 0.5 * gradient  # φ = 0.5, growth 1
    torch.testing.assert_close(player.soft_labels(), to_soft(latent), atol=1e-6, rtol=1e-5)


def test_the_best_response_is_remembered():
    player = one_visit({"response": "best_response", "penalty": 0.3}, PREDICTED)
    torch.testing.assert_close(player.soft_labels(), best_response(PREDICTED, 0.3))
    frozen = one_visit({"response": "frozen"}, PREDICTED)
    assert frozen.soft_labels().tolist() == [[0.5, 0.5, 0.5]]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"gamma": 1.5}, "gamma: .*less than or equal to 1, got 1.5"),
        ({"beta": -0.1}, "beta: .*greater than or equal to 0"),
        ({"penalty": -1}, "penalty: must be 0 or more"),
        ({"momentum": 0.9, "response": "best_response"}, "momentum needs response=gradient"),
        ({"gama": 0.5}, "did you mean 'gamma'"),
        ({"step_size": -1}, "step_size: .*greater than or equal to 0"),
        ({"penalty": float("nan")}, "penalty: .*finite"),
        ({"sigma": float("inf")}, "sigma: .*finite"),
        ({"map": "cubic"}, "'sigmoid' or 'cdf'"),
    ],
)
def test_bad_options_are_named(options, message):
    with pytest.raises(InputError, match=message):
        method_options("g2netpl", options)


def test_one_penalty_per_class_must_fit_the_classes():
    setup = Setup(torch.full((2, 3), -1, dtype=torch.int8), 1.0, 1e-3)
    assert make_player("g2netpl", {"penalty": [0.1, 0.2, 0.3]}, setup).penalty.shape == (3,)
    with pytest.raises(InputError, match="1 or 3 values"):
        make_player("g2netpl", {"penalty": [0.1, 0.2]}, setup)


def test_fresh_predictions_are_asked_after_the_step_without_moving_batch_norm():
    seen = []

    class Counting(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.norm = torch.nn.BatchNorm1d(5)
            self.last = torch.nn.Linear(5, 3)

        def forward(self, inputs):
            seen.append(self.training)
            return self.last(self.norm(inputs))

    observed = torch.full((4, 3), -1, dtype=torch.int8)
    observed[0, 0] = 1
    network = Counting()
    optimizer = torch.optim.SGD(network.parameters(), lr=0.1)
    player = make_player("g2netpl", {"prediction": "fresh"}, Setup(observed, 1.0, 1e-3))
    batch = Batch(torch.arange(4), torch.randn(4, 5), observed)
    play_epoch(network, player, [batch], optimizer, 0.5, 1.0)
    assert seen == [True, False]
    assert int(network.norm.num_batches_tracked) == 1
    with torch.no_grad():  # the labels answer what the moved network says in eval mode
        answered = network.eval()(batch.inputs).sigmoid()
    slope = 4 / np.sqrt(2 * np.pi)
    expected = torch.special.ndtr((answered - 0.5) * slope)  # one step of size 4·0.5² = 1
    hidden = observed == -1
    torch.testing.assert_close(player.soft_labels()[hidden], expected[hidden], atol=1e-5, rtol=0)


def test_unlabelled_images_can_be_left_out():
    observed = torch.tensor([[1, -1, 0], [-1, -1, -1]], dtype=torch.int8)
    batch = Batch(torch.arange(2), torch.zeros(2, 5), observed)
    for method, weight in (("an", 1.0), ("wan", 0.5)):
        setup = Setup(observed, 1.0, 1e-3)
        plain = make_player(method, {}, setup).propose(batch, 0.0, torch.sigmoid)
        assert plain.weights.tolist() == [[1, weight, 1], [weight] * 3]
        some = make_player(method, {"unlabelled_images": "ignore"}, setup)
        assert some.propose(batch, 0.0, torch.sigmoid).weights.tolist() == [[1, weight, 1], [0] * 3]


def test_role_keeps_its_ratio_to_the_networks_learning_rate():
    player = make_player("role", {}, Setup(torch.zeros(1, 1, dtype=torch.int8), 1.0, 1e-3))
    player.begin_phase(1e-4, True)
    assert player.learning_rate == pytest.approx(1e-3)


def test_the_reading_of_the_paper_does_not_move_with_our_defaults():
    ours = METHODS["g2netpl-paper"].defaults
    assert set(ours) == set(METHODS["g2netpl-paper"].options.model_fields)


def test_momentum_moves_the_latents_as_sgd_would():
    observed = torch.full((4, 3), -1, dtype=torch.int8)
    options = {"momentum": 0.8, "step_growth": 0, "step_size": 0.3, "map": "sigmoid"}
    player = make_player("g2netpl", options, Setup(observed, 1.0, 1e-3))
    latent = torch.zeros(4, 3, requires_grad=True)
    oracle = torch.optim.SGD([latent], lr=0.3, momentum=0.8)
    random = torch.Generator().manual_seed(0)
    for _ in range(4):
        predicted = torch.rand(4, 3, generator=random) * 0.8 + 0.1
        batch = Batch(torch.arange(4), torch.zeros(4, 1), observed)
        player.propose(batch, 0.5, lambda inputs: inputs)
        player.respond(batch, predicted, 0.5)
        player.end_epoch()
        soft = latent.sigmoid()
        cost = -predicted * soft.log() - (1 - predicted) * (1 - soft).log() + soft * (1 - soft)
        oracle.zero_grad()
        cost.sum().backward()
        oracle.step()
        torch.testing.assert_close(player.latents.previous, latent.detach(), atol=1e-5, rtol=1e-5)
    with pytest.raises(InputError, match="momentum needs response=gradient"):
        method_options("g2netpl", {"momentum": 0.5, "response": "best_response"})


def test_many_classes_pull_less_at_a_backbone_that_learns_unless_every_image_is_labelled():
    """40 classes, one label on half of the images: w = 0.1 · 4^(½ − 1), R = 10/40^1.5 · 4^½."""
    sure = 0.8 * 0.7 / 1.3  # ξ(½, 0)

    def parts(classes, labelled, deep=True, **options):
        observed = torch.full((4, classes), -1, dtype=torch.int8)
        observed[:labelled, 0] = 1
        player = make_player("g2netpl", options, Setup(observed, 1.0, 1e-3, deep=deep))
        batch = Batch(torch.arange(4), torch.zeros(4, 1), observed)
        proposal = player.propose(batch, 0.0, lambda inputs: inputs)
        return proposal.weights[0, 1].item() / sure, proposal.regulariser

    plain = 10 / 40**1.5
    assert parts(40, 2, deep=False) == pytest.approx((0.1, plain))
    assert parts(40, 2) == pytest.approx((0.05, 2 * plain))
    assert parts(40, 4) == pytest.approx((0.1, 4 * plain))
    assert parts(40, 0) == pytest.approx((0.025, plain))
    assert parts(5, 2) == pytest.approx((0.1, 10 / 5**1.5))
    assert parts(40, 2, unobserved_weight=0.3, regulariser=2) == pytest.approx((0.3, 2.0))


def test_a_phase_of_the_classifier_alone_has_its_own_weights():
    observed = torch.full((4, 40), -1, dtype=torch.int8)
    player = make_player("g2netpl", {}, Setup(observed, 1.0, 1e-3, deep=False))
    before = player.weights.unobserved
    player.begin_phase(1e-3, True)
    assert player.weights.unobserved < before
    player.begin_phase(1e-3, False)
    assert player.weights.unobserved == before


def test_an_observed_negative_counts_little_more_than_an_unobserved_label():
    """Of 10 labels 1 is positive, 1 negative: f = 0.2, w = 0.1, so 0.1 + 0.9 · 0.2 = 0.28."""
    observed = torch.tensor([[1.0, 0.0, -1.0, -1.0, -1.0], [-1.0] * 5])
    batch = Batch(torch.arange(2), torch.zeros(2, 1), observed)

    def weights(method="g2netpl", labels=observed, **options):
        player = make_player(method, options, Setup(labels, 1.0, 1e-3))
        return player.propose(Batch(batch.rows, batch.inputs, labels), 0.0, lambda x: x).weights

    assert weights()[0, :2].tolist() == pytest.approx([1.0, 0.28])
    assert weights(order="literal")[0, :2].tolist() == pytest.approx([1.0, 0.28])
    assert weights(negative_weight=0.5)[0, :2].tolist() == [1.0, 0.5]
    assert weights("g2netpl-paper")[0, :2].tolist() == [1.0, 1.0]
    full = (observed == 1).float()
    assert torch.equal(weights(labels=full), torch.ones(2, 5))  # plain BCE
