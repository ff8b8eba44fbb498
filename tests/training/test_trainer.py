"""The Trainer in memory: epochs, diagnostics, phases, resume from any step."""

import io

import numpy as np
import pytest
import torch
from scipy.stats import norm
from small_trainer import (
    INPUTS,
    TRUTH,
    VISIBLE,
    OnEpoch,
    OnStep,
    assert_same,
    small_data,
    small_trainer,
)
from torch import nn

from g2netpl.core.equations import regret
from g2netpl.images.loader import epoch_groups
from g2netpl.training.trainer import Callback, NumericalStop

HIDDEN = VISIBLE[:60] == -1


class WithNorm(nn.Module):
    """A backbone whose batch norm gathers statistics."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(1)
        self.norm, self.layer = nn.BatchNorm1d(6), nn.Linear(6, 6)

    def forward(self, inputs):
        return self.layer(self.norm(inputs))


def fitted(*arguments, **changes):
    trainer = small_trainer(*arguments, **changes)
    trainer.fit()
    return trainer


def test_the_best_epoch_is_the_first_with_the_best_validation_map():
    state = fitted(epochs=8).state
    scores = [record["validation_map"] for record in state.history]
    assert state.best_epoch == 1 + int(np.argmax(scores))
    assert state.best_map == max(scores)


def test_if_validation_map_is_undefined_the_last_epoch_is_kept():
    positives = np.where(TRUTH[60:] == 1, 1, -1)
    trainer = fitted(data=small_data(positives), epochs=4)
    assert trainer.state.best_epoch == 4
    assert trainer.state.best_map is None
    best = trainer.state.best_model
    assert all(torch.equal(value, best[name]) for name, value in trainer.last_model.items())


def test_a_linear_run_is_plain_gradient_descent_on_the_loss():
    """The same steps by hand, with Adam and the batches of `epoch_groups`."""
    trainer = small_trainer("an", epochs=2)
    model = nn.Linear(6, 4)
    model.load_state_dict(
        {
            key.removeprefix("head.classifier."): v
            for key, v in trainer.full_model.state_dict().items()
        }
    )
    trainer.fit()
    adam = torch.optim.Adam(model.parameters(), lr=0.02)
    for epoch in range(2):
        for rows in epoch_groups(60, 16, 0, epoch):
            targets = torch.from_numpy((VISIBLE[rows] == 1).astype(np.float32))
            adam.zero_grad()
            logits = model(INPUTS[rows])
            nn.functional.binary_cross_entropy_with_logits(logits, targets).backward()
            adam.step()
    found = trainer.last_model
    torch.testing.assert_close(found["head.classifier.weight"], model.weight.detach())
    torch.testing.assert_close(found["head.classifier.bias"], model.bias.detach())


# --- diagnostics ---------------------------------------------------------------------------------


def test_diagnostics_by_their_definition():
    seen = []
    watch = OnEpoch(lambda trainer: seen.append(trainer.method.latent.clone()))
    trainer = fitted(options={"map": "sigmoid"}, epochs=5, callbacks=[watch])
    before, after = (latent.sigmoid() for latent in seen[-2:])
    hidden, last = torch.from_numpy(HIDDEN), trainer.state.history[-1]
    assert last["movement"] == pytest.approx(float((after - before)[hidden].abs().mean()), abs=3e-4)
    flips = ((after > 0.5) != (before > 0.5))[hidden].float().mean()
    assert last["flips"] == pytest.approx(float(flips))
    middle = ((after > 0.25) & (after < 0.75))[hidden].float().mean()
    assert last["unresolved"] == pytest.approx(float(middle))
    total = float(trainer.pseudo_labels().sum()) / 60
    assert last["soft_positives"] == pytest.approx(total, rel=1e-5)
    assert last["gradient_norm"] > 0


def test_regret_and_predictions_are_those_of_a_sample():
    trainer = fitted(epochs=3, options={"penalty": 0.6})
    sample = trainer.diagnostics.sample
    assert len(sample) == 32
    with torch.no_grad():
        predicted = trainer.model(INPUTS[sample]).logits.sigmoid()
    trainer.load_model(trainer.last_model)
    reading = trainer.diagnostics.read(0.5)
    with torch.no_grad():
        predicted = trainer.model(INPUTS[sample]).logits.sigmoid()
    soft = torch.from_numpy(trainer.pseudo_labels()[sample])
    gains = regret(soft, predicted, 0.6)[torch.from_numpy(HIDDEN[sample])]
    assert reading["regret"] == pytest.approx(float(gains.mean()), rel=0.05)
    assert reading["predicted_positives"] == pytest.approx(float(predicted.sum()) / 32, rel=1e-5)


def test_the_histogram_counts_unobserved_labels_only():
    some = np.random.default_rng(2).random((60, 4)) < 0.2
    visible = np.where(some, 0, VISIBLE[:60])
    latent = np.random.default_rng(1).normal(0.5, 2.0, (60, 4)).astype(np.float32)
    readings = []

    def watch(trainer):
        trainer.method.latent.copy_(torch.from_numpy(latent))
        readings.append(trainer.diagnostics.read(0.5))

    fitted(data=small_data(visible=visible), epochs=1, callbacks=[OnEpoch(watch)])
    hidden = norm.cdf(latent, loc=0.5)[visible == -1]
    counts, _ = np.histogram(hidden, bins=20, range=(0, 1))
    assert readings[0]["soft_histogram"] == counts.tolist()
    assert readings[0]["unresolved"] == pytest.approx(np.mean(np.abs(hidden - 0.5) < 0.25))


CALM = {"regret_tolerance": 0.05, "movement_tolerance": 0.05, "learning_rate": 1e-3}


def test_it_stops_at_equilibrium_and_not_before():
    options = {"response": "best_response"}
    state = fitted(options=options, epochs=60, patience=3, **CALM).state
    assert state.is_converged
    assert state.finished < 60
    quiet = [each["regret"] < 0.05 and each["movement"] < 0.05 for each in state.history]
    assert quiet[-3:] == [True] * 3
    assert not all(quiet[-4:])
    assert fitted(options=options, epochs=20, patience=0, **CALM).state.finished == 20


def test_equilibrium_is_counted_in_epochs_of_the_same_phase():
    """The linear epochs stop early, so epoch numbers have a gap."""
    keys = {"options": {"response": "best_response"}, "patience": 3, **CALM}
    keys |= {"mode": "lp-ft", "backbone": WithNorm(), "linear_epochs": 60, "epochs": 5}
    numbers = [record["epoch"] for record in fitted(**keys).state.history]
    assert 60 not in numbers
    assert len([number for number in numbers if number > 60]) >= 3


def test_pseudo_labels_that_have_not_begun_to_move_are_no_equilibrium():
    calm = {"regret_tolerance": 0.2, "movement_tolerance": 0.2, "patience": 1}
    options = {"step_growth": 4.0}
    state = fitted(options=options, epochs=12, learning_rate=1e-6, **calm).state
    assert [record["unresolved"] for record in state.history[:3]] == [1.0] * 3
    assert state.history[-1]["unresolved"] < 1


# --- resume --------------------------------------------------------------------------------------

STATEFUL = {
    "an": {},
    "role": {},
    "g2netpl": {},
    "plmcl": {},
    "em-apl": {},
    "ll-cp": {},
    "ups": {"rounds": 2, "positive_mean": 0.51, "positive_deviation": 0.2},
}


def checkpoints_of(trainer):
    """Every state between two steps, as a checkpoint file would hold it; then the end."""
    kept = []

    def keep(trainer):
        content = io.BytesIO()
        torch.save(trainer.state_dict(), content)
        kept.append(content)

    trainer.callbacks += [OnStep(keep), OnEpoch(keep)]
    trainer.fit()
    for content in kept:
        content.seek(0)
    return [torch.load(content, weights_only=True) for content in kept]


@pytest.mark.parametrize("annotation", ["random", "sampled"])
@pytest.mark.parametrize("method", STATEFUL)
def test_resuming_from_any_step_is_bitwise_exact(method, annotation):
    keys = {"options": STATEFUL[method], "epochs": 3, "annotation": annotation, "ema": 0.9}
    if method != "g2netpl":
        keys["ema"] = None
    whole = small_trainer(method, **keys)
    checkpoints = checkpoints_of(whole)
    moments = [(each["trainer"]["finished"], each["trainer"]["step"]) for each in checkpoints]
    assert moments[:6] == [(0, 1), (0, 2), (0, 3), (0, 4), (1, 0), (1, 1)]
    for checkpoint in checkpoints:
        resumed = small_trainer(method, **keys)
        resumed.fit(checkpoint)
        assert_same(resumed, whole)


# --- losses and weights that are not finite ------------------------------------------------------


class Log(Callback):
    def __init__(self):
        self.seen = []

    def on_non_finite(self, trainer, batch, loss):
        place = trainer.state.finished + 1, trainer.state.step
        self.seen.append((*place, 3 in batch.rows.tolist(), loss))


def test_a_batch_with_a_non_finite_loss_is_skipped():
    inputs, log = INPUTS.clone(), Log()
    inputs[3, 0] = torch.inf
    trainer = fitted(inputs=inputs, epochs=2, callbacks=[log])
    assert [(epoch, has_it) for epoch, _, has_it, _ in log.seen] == [(1, True), (2, True)]
    assert not any(np.isfinite(loss) for *_, loss in log.seen)
    assert all(torch.isfinite(value).all() for value in trainer.last_model.values())
    assert np.isfinite(trainer.pseudo_labels()).all()
    with pytest.raises(NumericalStop, match="3 batches in a row"):
        fitted(inputs=torch.full_like(INPUTS, torch.inf))


def test_weights_that_are_not_finite_stop_the_run():
    def break_weights(trainer):
        if trainer.state.step == 4:
            trainer.full_model.head.classifier.weight.data[0, 0] = torch.nan

    with pytest.raises(NumericalStop, match="weights are not finite"):
        fitted("an", callbacks=[OnStep(break_weights)])


# --- averaged weights, batches of one image, phases ----------------------------------------------


def test_averaged_weights_follow_their_formula():
    steps = []

    def note(trainer):
        steps.append(trainer.full_model.head.classifier.weight.detach().clone())

    trainer = fitted("an", ema=0.7, epochs=3, callbacks=[OnStep(note)])
    average = steps[0]
    for number, weights in enumerate(steps[1:], start=1):
        decay = min(0.7, (1 + number) / (10 + number))
        average = decay * average + (1 - decay) * weights
    torch.testing.assert_close(trainer.last_model["head.classifier.weight"], average)
    assert not torch.allclose(average, steps[-1], atol=1e-4)


def test_lp_ft_starts_from_the_best_linear_weights_and_pseudo_labels():
    seen = {}

    class Watch(Callback):
        def on_phase_start(self, trainer):
            weights = {name: v.clone() for name, v in trainer.full_model.state_dict().items()}
            seen[trainer.phase.mode, "start"] = weights, trainer.pseudo_labels()

        def on_phase_end(self, trainer):
            seen[trainer.phase.mode, "best"] = trainer.state.best_model, trainer.pseudo_labels()

    keys = {"mode": "lp-ft", "linear_epochs": 3, "epochs": 2, "callbacks": [Watch()]}
    trainer = fitted(backbone=WithNorm(), **keys)
    best, labels = seen["linear", "best"]
    start, labels_then = seen["full", "start"]
    assert all(torch.equal(start[name], value) for name, value in best.items())
    assert (labels == labels_then).all()
    assert (labels != 0.5).any()
    moved = trainer.last_model["backbone.layer.weight"]
    assert not torch.equal(moved, start["backbone.layer.weight"])
    assert [record["epoch"] for record in trainer.state.history] == [1, 2, 3, 4, 5]


def test_images_that_cannot_be_read_are_not_trained_on():
    inputs = INPUTS.clone()
    inputs[:5] = torch.nan
    trainer = fitted("g2netpl", inputs=inputs, epochs=2)
    assert all(torch.isfinite(value).all() for value in trainer.last_model.values())
    start = torch.full((5, 4), 0.5)
    seen = torch.from_numpy(VISIBLE[:5])
    expected = torch.where(seen == -1, start, seen.float())
    torch.testing.assert_close(torch.from_numpy(trainer.pseudo_labels()[:5]), expected)


# --- rounds, precision ---------------------------------------------------------------------------

ROUNDS = {"rounds": 3, "positive_mean": 0.51, "positive_deviation": 0.3, "passes": 3}


def test_every_round_starts_from_the_same_weights_and_the_last_one_counts():
    first_steps, selected, starts = [], [], []

    def note(trainer):
        if trainer.state.step == 1 and trainer.state.finished % 2 == 0:
            selected.append(trainer.method.selected.clone())
            moments = trainer.optimizer.state_dict()["state"]
            first_steps.append((trainer.state.finished, float(moments[0]["step"])))

    class Watch(Callback):
        def on_step_end(self, trainer, images):
            note(trainer)

        def on_epoch_end(self, trainer):
            starts.append(trainer._initial[0]["head.classifier.1.weight"])

    trainer = small_trainer("ups", ROUNDS, epochs=2, callbacks=[Watch()])
    start = trainer.full_model.state_dict()["head.classifier.1.weight"].clone()
    trainer.fit()
    assert first_steps == [(0, 1.0), (2, 1.0), (4, 1.0)]  # the optimizer starts again, too
    assert all(torch.equal(each, start) for each in starts)
    assert (selected[0] == torch.from_numpy(VISIBLE[:60])).all()
    assert (selected[1] != selected[0]).any()
    assert trainer.state.finished == 6
    assert trainer.state.best_epoch in (5, 6)


@pytest.mark.parametrize(
    ("method", "annotation"), [("an", "random"), ("g2netpl", "random"), ("g2netpl", "sampled")]
)
def test_bf16_trains_in_low_precision_and_keeps_weights_in_full(method, annotation):
    keys = {"backbone": WithNorm(), "epochs": 4, "annotation": annotation}
    full = fitted(method, **keys)
    low = fitted(method, **{**keys, "backbone": WithNorm()}, precision="bf16")
    assert all(value.dtype == full.last_model[name].dtype for name, value in low.last_model.items())
    difference = (
        low.last_model["head.classifier.weight"] - full.last_model["head.classifier.weight"]
    ).abs()
    assert 0 < float(difference.max()) < 0.1
    assert low.state.best_map == pytest.approx(full.state.best_map, abs=0.1)
