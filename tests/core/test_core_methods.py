"""What holds for every method, and the readings of the paper, by training small models."""

import copy
import itertools

import numpy as np
import pytest
import torch
from hand_worked import BATCH, LOGITS, OBSERVED, F, gradient_of, make
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from g2netpl.core import METHODS, Backbone, Batch, Output, build_method, build_model, train_epoch
from g2netpl.core.equations import best_response
from g2netpl.core.methods import find_method
from g2netpl.utils.errors import InputError

READINGS = [
    {"map": "sigmoid"},
    {"cost": "exponential"},
    {"penalty_shape": "gaussian", "penalty": 3.0},
    {"response": "best_response"},
    {"response": "best_response", "cost": "exponential"},
    {"response": "fixed"},
    {"momentum": 0.9},
    {"order": "as_printed"},
    {"prediction": "fresh"},
]
ALL = [(name, {}) for name in METHODS] + [("g2netpl", options) for options in READINGS]
PAIRS = torch.randn(9, 2, 1, 1, 5, generator=torch.Generator().manual_seed(3))  # two augmentations


class Training:
    """A small model and a method that train on random images, one step at a time."""

    def __init__(self, name, options, observed, annotation="random", deep=False):
        self.observed, self.done = observed, 0
        self.method = build_method(name, observed.clone(), k=1.5, epochs=4, seed=0, **options)
        annotation = "sampled" if name == "sampled" else annotation
        sigmoids = self.method.trains_sigmoids
        body = nn.Sequential(nn.Flatten(), nn.Linear(5, 5) if deep else nn.Identity())
        classes = observed.shape[1]
        self.model = build_model(
            Backbone(body, 5), classes, annotation=annotation, k=1.5, trains_sigmoids=sigmoids
        )
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=0.05)
        self.method.start_phase(0.05, deep)
        self.losses = []
        rows = [torch.randperm(len(observed), generator=torch.Generator()) for _ in range(4)]
        self.steps = [(epoch, part) for epoch in range(4) for part in rows[epoch].split(3)]

    def step(self, loss):
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        self.losses.append(loss.item())
        return True

    def run(self, until=None):
        """Train to some step, which may be amid an epoch."""
        steps = self.steps[self.done : until]
        for epoch, group in itertools.groupby(steps, key=lambda step: step[0]):
            images = PAIRS if self.method.augmentations == 2 else PAIRS[:, 0]
            batches = [Batch(rows, self.observed[rows], images[rows]) for _, rows in group]
            resumed = self.done > 0 and self.steps[self.done - 1][0] == epoch
            train_epoch(self.model, self.method, batches, self.step, epoch / 4, resumed)
            self.done += len(batches)
        return self

    def state(self):
        parts = self.model, self.method, self.optimizer
        return copy.deepcopy([part.state_dict() for part in parts]), self.done

    def resume(self, state):
        parts = self.model, self.method, self.optimizer
        for part, value in zip(parts, state[0], strict=True):
            part.load_state_dict(value)
        self.done = state[1]
        return self

    def labels(self):
        return self.method.pseudo_labels(torch.arange(len(self.observed)))


tables = st.builds(
    lambda seed, images, classes: torch.from_numpy(
        np.random.default_rng(seed).integers(-1, 2, (images, classes)).astype(np.int8)
    ),
    st.integers(0, 10_000),
    st.integers(1, 9),
    st.integers(1, 5),
)


@pytest.mark.parametrize("annotation", ["random", "sampled"])
@pytest.mark.parametrize(("name", "options"), ALL)
@settings(max_examples=4, deadline=None)
@given(observed=tables, place=st.floats(0, 1))
def test_a_training_that_was_interrupted_anywhere_ends_bitwise_the_same(
    name, options, annotation, observed, place
):
    whole = Training(name, options, observed, annotation).run()
    until = int(place * len(whole.steps))
    first = Training(name, options, observed, annotation).run(until)
    again = Training(name, options, observed, annotation).resume(first.state()).run()
    for one, two in zip(whole.model.parameters(), again.model.parameters(), strict=True):
        assert torch.equal(one, two)
    assert whole.losses == first.losses + again.losses
    assert np.isfinite(whole.losses).all()
    for key, value in whole.method.state_dict().items():
        assert not isinstance(value, torch.Tensor) or torch.equal(
            value, again.method.state_dict()[key]
        )
    labels, known = whole.labels(), observed != -1
    if labels is not None:
        assert torch.equal(labels, again.labels())
        assert ((labels >= 0) & (labels <= 1)).all()
        assert torch.equal(labels[known].float(), observed[known].float())  # they never move


EDGE_CASES = {
    "a class never observed": [[1, -1], [0, -1], [-1, -1]],
    "everything observed": [[1, 0], [0, 1], [1, 1]],
    "nothing observed": [[-1, -1], [-1, -1], [-1, -1]],
    "one class": [[1], [-1], [0]],
    "one image": [[1, -1, 0]],
}


@pytest.mark.parametrize("case", EDGE_CASES)
@pytest.mark.parametrize(("name", "options"), ALL)
def test_edge_cases_train(name, options, case):
    observed = torch.tensor(EDGE_CASES[case], dtype=torch.int8)
    annotation = "random" if case == "everything observed" else "sampled"
    training = Training(name, options, observed, annotation, deep=True).run()
    assert np.isfinite(training.losses).all()
    assert all(parameter.isfinite().all() for parameter in training.model.parameters())
    labels = training.labels()
    assert labels is None or labels.isfinite().all()


@pytest.mark.parametrize("name", METHODS)
def test_gradients_are_finite_for_extreme_logits(name):
    logits = torch.tensor([[-80.0, 80.0, 30.0, -30.0]] * 3, requires_grad=True)
    loss = make(name).loss(Output(logits), BATCH, 0.9)
    if name != "sampled":  # which has a loss of its head only
        loss.backward()
        assert logits.grad.isfinite().all()


@pytest.mark.parametrize("name", METHODS)
def test_a_method_for_some_images_is_that_of_all_for_these(name):
    whole, part = make(name), make(name)
    rows = torch.tensor([2, 0])
    part.keep_rows(rows)
    for method in (whole, part):
        method.start_phase(0.01, deep=False)
    batch, local = Batch(rows, OBSERVED[rows]), Batch(torch.tensor([0, 1]), OBSERVED[rows])
    output = Output(LOGITS[rows])
    for phi in (0.0, 0.3):
        assert float(whole.loss(output, batch, phi)) == float(part.loss(output, local, phi))
        whole.update(batch, F[rows], phi)
        part.update(local, F[rows], phi)


@pytest.mark.parametrize("name", ["g2netpl", "g2netpl-paper", "plmcl", "role"])
def test_pseudo_labels_of_an_earlier_run_are_taken_over(name):
    earlier = torch.rand(3, 4, generator=torch.Generator().manual_seed(0)) * 0.9 + 0.05
    method = make(name)
    method.init_pseudo_labels(torch.arange(3), earlier)
    labels = method.pseudo_labels(torch.arange(3))
    torch.testing.assert_close(labels[OBSERVED == -1], earlier[OBSERVED == -1])
    assert labels[OBSERVED != -1].tolist() == [1, 0, 1]


# --- the update of pseudo-labels ------------------------------------------------------------------

PREDICTED = torch.tensor([[0.9, 0.5, 0.1]])


def visited(phi=0.5, times=1, name="g2netpl", predicted=PREDICTED, **options):
    """The method after some updates of one image whose labels are all unobserved."""
    observed = torch.full(predicted.shape, -1, dtype=torch.int8)
    method = build_method(name, observed, k=1.0, **options)
    for _ in range(times):
        batch = Batch(torch.arange(len(predicted)), observed)
        method.loss(Output(predicted.logit()), batch, phi)
        method.update(batch, predicted, phi)
    return method


def labels_of(method):
    return method.pseudo_labels(torch.tensor([0]))


def test_the_first_gradient_step_by_hand():
    # û = ½, slope 4/√(2π) = 1.595769, step 4·0.5² = 1: û = Φ((q − ½)·1.595769); no pull at ½
    move = torch.tensor([[0.4, 0.0, -0.4]]) * 1.595769
    torch.testing.assert_close(labels_of(visited()), torch.special.ndtr(move), atol=1e-6, rtol=0)


def test_repeated_updates_come_nearer_to_the_best_response():
    target, gaps = best_response(PREDICTED, 0.3), []
    for times in (1, 5, 60):
        method = visited(1.0, times, step_size=0.5, penalty=0.3)
        gaps.append(float((labels_of(method) - target).abs().max()))
    assert gaps[0] > gaps[1] > gaps[2]
    assert gaps[2] < 1e-3
    exact = visited(response="best_response", penalty=0.3)
    torch.testing.assert_close(labels_of(exact), target)


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("g2netpl", {"cost": "exponential", "penalty": 2.0}),
        ("g2netpl", {"penalty_shape": "gaussian", "penalty": 4.0, "penalty_width": 0.3}),
        ("g2netpl", {"penalty": 4.0, "map": "sigmoid"}),
        ("g2netpl", {"penalty": (0.5, 2.0, 4.0), "sigma": 0.7}),
        ("g2netpl-paper", {}),
    ],
)
def test_two_updates_equal_gradient_descent_by_autograd(name, options):
    size = 1.0 if name == "g2netpl-paper" else 0.8 * 0.5  # φ = 0.5, growth 1
    steps = {} if name == "g2netpl-paper" else {"step_size": 0.8, "step_growth": 1.0}
    method = visited(times=2, name=name, **options, **steps)
    is_sigmoid = options.get("map") == "sigmoid"
    latent = torch.full((1, 3), 0.0 if is_sigmoid else 0.5)
    penalty = torch.tensor(options.get("penalty", 1.0))
    width = {"gaussian": options.get("penalty_width")}.get(options.get("penalty_shape"))
    width = 0.2 if name == "g2netpl-paper" else width
    if width is not None:
        penalty = penalty * torch.exp(-((PREDICTED - 0.5) ** 2) / (2 * width**2))

    def to_soft(y):
        return y.sigmoid() if is_sigmoid else torch.special.ndtr((y - 0.5) / method.options.sigma)

    for _ in range(2):
        latent = latent.detach().requires_grad_()
        soft = to_soft(latent)
        entropy = -PREDICTED * soft.log() - (1 - PREDICTED) * (1 - soft).log()
        spread = penalty * soft * (1 - soft)
        cost = spread.exp() * entropy if "cost" in options else entropy + spread
        (gradient,) = torch.autograd.grad(cost.sum(), latent)
        latent = latent.detach() - size * gradient
    torch.testing.assert_close(labels_of(method), to_soft(latent), atol=1e-6, rtol=1e-5)


def test_momentum_moves_as_torch_sgd_moves():
    observed = torch.full((4, 3), -1, dtype=torch.int8)
    options = {"momentum": 0.8, "step_growth": 0, "step_size": 0.3, "map": "sigmoid"}
    method = build_method("g2netpl", observed, k=1.0, **options)
    latent = torch.zeros(4, 3, requires_grad=True)
    oracle = torch.optim.SGD([latent], lr=0.3, momentum=0.8)
    random = torch.Generator().manual_seed(0)
    for _ in range(4):
        predicted = torch.rand(4, 3, generator=random) * 0.8 + 0.1
        method.update(Batch(torch.arange(4), observed), predicted, 0.5)
        soft = latent.sigmoid()
        cost = -predicted * soft.log() - (1 - predicted) * (1 - soft).log() + soft * (1 - soft)
        oracle.zero_grad()
        cost.sum().backward()
        oracle.step()
        torch.testing.assert_close(method.latent, latent.detach(), atol=1e-5, rtol=1e-5)


def test_fresh_predictions_come_after_the_step_without_moving_batch_norm():
    seen = []
    body = nn.BatchNorm1d(5)
    body.register_forward_hook(lambda module, *_: seen.append(module.training))
    model = build_model(Backbone(body, 5), 3)
    observed = torch.full((4, 3), -1, dtype=torch.int8)
    observed[0, 0] = 1
    method = build_method("g2netpl", observed, k=1.0, prediction="fresh")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    batch = Batch(torch.arange(4), observed, torch.randn(4, 5))

    def step(loss):
        loss.backward()
        optimizer.step()
        return True

    train_epoch(model, method, [batch], step, 0.5)
    assert seen == [True, False]
    assert int(body.num_batches_tracked) == 1
    assert model.training
    with torch.no_grad():  # what the moved model predicts in evaluation mode
        predicted = model.eval()(batch.images).logits.sigmoid()
    # one step of size 4·0.5² = 1 from û = ½
    expected = torch.special.ndtr((predicted - 0.5) * 4 / np.sqrt(2 * np.pi))
    hidden, labels = observed == -1, method.pseudo_labels(batch.rows)
    torch.testing.assert_close(labels[hidden], expected[hidden], atol=1e-5, rtol=0)


def test_a_loss_that_is_not_finite_moves_no_pseudo_label():
    training = Training("g2netpl", {}, OBSERVED)
    training.step = lambda loss: False
    training.run()
    assert torch.equal(training.labels()[OBSERVED == -1], torch.full((9,), 0.5))


# --- weights of the game --------------------------------------------------------------------------


def test_weights_follow_the_number_of_classes_if_the_backbone_is_trained():
    """40 classes, one label on half of the images: w = 0.1 · 4^(½ − 1), R = 10/40^1.5 · 4^½."""

    def weights(classes, labelled, deep=True, **options):
        observed = torch.full((4, classes), -1, dtype=torch.int8)
        observed[:labelled, 0] = 1
        method = build_method("g2netpl", observed, k=1.0, **options)
        method.start_phase(1e-3, deep)
        return method.unobserved_weight, method.regulariser

    plain = 10 / 40**1.5
    assert weights(40, 2, deep=False) == pytest.approx((0.1, plain))
    assert weights(40, 2) == pytest.approx((0.05, 2 * plain))
    assert weights(40, 4) == pytest.approx((0.1, 4 * plain))
    assert weights(40, 0) == pytest.approx((0.025, plain))
    assert weights(5, 2) == pytest.approx((0.1, 10 / 5**1.5))
    assert weights(40, 2, unobserved_weight=0.3, regulariser=2) == pytest.approx((0.3, 2.0))


@pytest.mark.parametrize(
    ("options", "weight"),
    [({}, 0.325), ({"order": "as_printed"}, 0.325), ({"negative_weight": 0.5}, 0.5)],
)
def test_an_observed_negative_has_a_weight_of_its_own(options, weight):
    """Of 12 labels 3 are observed: f = 0.25, w = 0.1, so 0.1 + 0.9 · 0.25 = 0.325."""
    found = gradient_of(make("g2netpl", regulariser=0.0, **options))
    assert float(found[0, 2]) == pytest.approx(weight * 0.2 / 12, rel=1e-5)  # f = 0.2
    assert float(found[0, 0]) == pytest.approx(-0.2 / 12, rel=1e-5)  # f = 0.8, positive


def test_with_full_labels_the_game_is_cross_entropy():
    full = (F > 0.4).to(torch.int8)
    method = build_method("g2netpl", full, k=2.0, regulariser=0.0)
    loss = method.loss(Output(LOGITS), Batch(torch.arange(3), full), 0.3)
    expected = nn.functional.binary_cross_entropy(F, full.float())
    assert float(loss) == pytest.approx(float(expected), rel=1e-5)


def test_an_observed_negative_is_not_corrected_by_splc():
    logits = torch.tensor([[3.0, 3.0]], requires_grad=True)
    observed = torch.tensor([[0, -1]], dtype=torch.int8)
    method = build_method("splc", observed)
    method.loss(Output(logits), Batch(torch.tensor([0]), observed), 0.5).backward()
    assert logits.grad[0, 0] > 0 > logits.grad[0, 1]  # down; corrected: up


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"gamma": 1.5}, "gamma: .*less than or equal to 1, got 1.5"),
        ({"penalty": -1}, "penalty: must be 0 or more"),
        ({"momentum": 0.9, "response": "best_response"}, "momentum needs response=gradient"),
        ({"gama": 0.5}, "did you mean 'gamma'"),
        ({"penalty": float("nan")}, "penalty: .*finite"),
        ({"sigma": float("inf")}, "sigma: .*finite"),
        ({"map": "cubic"}, "'sigmoid' or 'cdf'"),
    ],
)
def test_bad_options_are_named(options, message):
    with pytest.raises(InputError, match=message):
        find_method("g2netpl").options(options)


@pytest.mark.parametrize("text", ["1,4", "[1,4]", "(1,4)", " ( 1, 4 ) ", (1, 4), [1, 4]])
def test_several_numbers_may_be_given_as_text(text):
    assert find_method("gr").options({"slope": text}).slope == (1.0, 4.0)
    assert find_method("g2netpl").options({"penalty": text}).penalty == (1.0, 4.0)
    assert find_method("g2netpl").options({"penalty": "0.7"}).penalty == 0.7


# --- two augmentations ----------------------------------------------------------------------------

WEAK = torch.logit(
    torch.tensor([[0.99, 0.5, 0.02, 0.1], [0.6, 0.01, 0.96, 0.5], [0.5, 0.25, 0.97, 0.03]])
)


def identity_model():
    """A model whose logits are its images."""
    model = build_model(Backbone(nn.Flatten(), 4), 4)
    with torch.no_grad():
        model.head.classifier.weight.copy_(torch.eye(4))
        model.head.classifier.bias.zero_()
    return model


def test_fixmatch_by_hand():
    method = make("fixmatch")
    batch = Batch(torch.arange(3), OBSERVED, torch.stack([WEAK, LOGITS], 1)[:, :, None, None])
    output = method(identity_model(), batch)
    torch.testing.assert_close(output.logits, WEAK)
    # observed: + 0.99 and − 0.02 (row 0), + 0.96 (row 1); row 2 has no label
    expected = np.log(0.99) + np.log(0.96) + np.log(0.98)
    expected += np.log(0.5 * 0.9) + np.log(0.4 * 0.99 * 0.5)  # the other labels of rows 0 and 1
    # confident in the weak augmentation: 0.99+, 0.02−, 0.01−, 0.96+, 0.97+, 0.03−; the strong one
    # predicts 0.8, 0.2, 0.5, 0.9, 0.5, 0.75 there
    expected += np.log(0.8 * 0.8 * 0.5) + np.log(0.9 * 0.5 * 0.25)
    assert method.loss(output, batch, 0.0).item() == pytest.approx(-expected / 12, rel=1e-5)


def test_the_strong_augmentation_trains_and_pseudo_labels_follow_the_weak_one():
    model, method, losses = identity_model(), make("g2netpl", map="sigmoid"), []
    batch = Batch(torch.arange(3), OBSERVED, torch.stack([WEAK, LOGITS], 1)[:, :, None, None])
    train_epoch(model, method, [batch], lambda loss: losses.append(loss.item()) is None, 0.5)
    alone = make("g2netpl", map="sigmoid")
    assert losses == [pytest.approx(float(alone.loss(Output(LOGITS), BATCH, 0.5)), rel=1e-5)]
    alone.update(BATCH, WEAK.sigmoid(), 0.5)
    torch.testing.assert_close(method.latent, alone.latent)


def test_labels_other_than_positive_negative_unobserved_are_rejected():
    with pytest.raises(InputError, match="expected labels of 1, 0 and -1"):
        build_method("an", np.array([[2, 1]]))
