"""Several ranks: each owns a part of the images, and together they train one model."""

import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from ranks import Group
from safetensors.torch import load_file
from small_trainer import INPUTS, VISIBLE, small_trainer

from g2netpl import RunConfig, load_run, train
from g2netpl.core.losses import expected_positives
from g2netpl.runs.run import Run
from g2netpl.utils import distributed


@pytest.fixture(scope="module")
def pair():
    group = Group(2)
    yield group
    group.close()


@pytest.fixture(scope="module")
def trio():
    group = Group(3)
    yield group
    group.close()


def regulariser_of_own_rows(logits, k):
    own = logits[distributed.own_rows(len(logits))].clone().requires_grad_()
    loss = expected_positives(own, k)
    loss.backward()
    return loss.item(), own.grad


def test_the_regulariser_is_that_of_the_whole_batch(pair):
    """Value and gradient: ranks average gradients, so each has twice its part."""
    logits = torch.from_numpy(np.random.default_rng(3).normal(size=(8, 4)).astype(np.float32))
    whole = logits.clone().requires_grad_()
    loss = expected_positives(whole, 1.7)
    loss.backward()
    for rank, (value, gradient) in enumerate(pair.run(regulariser_of_own_rows, logits, 1.7)):
        assert value == pytest.approx(loss.item(), rel=1e-5)
        torch.testing.assert_close(gradient / 2, whole.grad[rank::2])


def rows_and_tables(count):
    table = np.arange(2 * count).reshape(count, 2)
    own = distributed.own_rows(count)
    return own, distributed.gather_rows(table[own], count), distributed.broadcast(own.tolist())


@pytest.mark.parametrize("count", [1, 6, 7])
def test_every_row_is_owned_once_and_tables_are_put_together(trio, count):
    found = trio.run(rows_and_tables, count)
    assert sorted(row for own, _, _ in found for row in own) == list(range(count))
    for _, table, first in found:
        assert (table == np.arange(2 * count).reshape(count, 2)).all()
        assert first == found[0][0].tolist()


def fitted(method, options):
    trainer = small_trainer(method, options, epochs=12, learning_rate=0.01, patience=0)
    trainer.fit()
    own = trainer.method.observed.tolist()
    return trainer.state.best_map, trainer.pseudo_labels(), own, trainer.last_model


METHODS = {
    "g2netpl": {},
    "g2netpl-paper": {},
    "role": {},
    "em-apl": {},
    "ups": {"rounds": 2, "positive_mean": 0.6},
}


@pytest.mark.parametrize("method", METHODS)
def test_two_ranks_train_one_model_within_noise_of_one_process(pair, method):
    found = pair.run(fitted, method, METHODS[method])
    alone, labels, _, _ = fitted(method, METHODS[method])
    (first, soft, owned, weights), (second, other_soft, other_owned, other_weights) = found
    assert all(torch.equal(value, other_weights[name]) for name, value in weights.items())
    assert first == second
    assert first == pytest.approx(alone, abs=0.05)
    assert (owned, other_owned) == (VISIBLE[:60:2].tolist(), VISIBLE[1:60:2].tolist())
    if soft is not None:
        assert (soft == other_soft).all()
        assert soft.shape == (60, 4)
        assert np.corrcoef(soft.ravel(), labels.ravel())[0, 1] > 0.9


def with_bad_images(value, rows):
    inputs = INPUTS.clone()
    inputs[rows] = value
    trainer = small_trainer("g2netpl", inputs=inputs, epochs=2, batch_size=4)
    trainer.fit()
    return trainer.last_model


@pytest.mark.parametrize(
    ("value", "rows"), [(float("nan"), list(range(1, 56, 2))), (float("inf"), [3])]
)
def test_ranks_stay_in_step_if_one_has_unreadable_images_or_no_finite_loss(pair, value, rows):
    """Rank 1 owns the odd rows; of most of its batches no image can be read."""
    first, second = pair.run(with_bad_images, value, rows)
    assert all(torch.equal(value, second[name]) for name, value in first.items())
    assert all(torch.isfinite(value).all() for value in first.values())


def training(values, resume=False, stop_after=None):
    """Train in a run folder; every rank returns the result."""
    epochs = []

    def on_epoch(trainer):
        epochs.append(trainer.state.finished)
        if len(epochs) == stop_after:
            raise InterruptedError

    try:
        run = train(RunConfig.read(values, "test"), resume=resume, on_epoch=on_epoch)
    except InterruptedError:
        return None
    return run.result["test_map"]


@pytest.fixture
def values(small_training):
    def make(name, **changes):
        keys = {"backbone": "tiny", "epochs": 6, "batch_size": 8, "learning_rate": 3e-3}
        return small_training(name, **{**keys, **changes})

    return make


def same_weights(one, two):
    first, second = (load_file(f"{folder}/model.safetensors") for folder in (one, two))
    return all(torch.equal(value, second[name]) for name, value in first.items())


def test_a_run_of_two_ranks_resumes_bitwise_with_two(pair, values):
    pair.run(training, values("whole"))
    broken = values("broken")
    assert pair.run(training, broken, False, 3) == [None, None]
    names = sorted(path.name for path in Path(broken["output"], "checkpoints").iterdir())
    assert [name.rpartition("-")[2] for name in names[-2:]] == ["00000000.pt", "00000000.rank1.pt"]
    pair.run(training, broken, True)
    assert same_weights(values("whole")["output"], broken["output"])
    soft = [load_run(values(name)["output"]).soft_labels() for name in ("whole", "broken")]
    assert (soft[0] == soft[1]).all()


def test_a_run_of_two_ranks_resumes_with_one_and_with_three(pair, trio, values):
    begun = values("begun")
    pair.run(training, begun, False, 3)
    copies = [values(name) for name in ("one", "three")]
    for copy in copies:
        shutil.copytree(begun["output"], copy["output"])
    results = [training(copies[0], True), trio.run(training, copies[1], True)[0]]
    for copy, result in zip(copies, results, strict=True):
        run = load_run(copy["output"])
        assert [record["epoch"] for record in run.history] == [1, 2, 3, 4, 5, 6]
        before = [record["cost"] for record in Run.open(begun["output"]).history]
        assert [record["cost"] for record in run.history[: len(before)]] == before
        assert len(before) >= 2
        assert 0 < result <= 1


def with_own_seed(values):
    changed = {**values, "seed": distributed.rank()}
    return training(changed)


def test_ranks_that_were_started_differently_are_rejected(pair, values, tmp_path):
    for _, error in pair.outcomes(with_own_seed, values("different")):
        assert "rank 1 differs from rank 0 in its flags" in error
    assert not (tmp_path / "different" / "run.json").exists()
