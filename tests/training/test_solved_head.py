"""A linear run starts with the solved probe of its annotation model."""

import numpy as np
import pytest
import torch
from small_trainer import INPUTS, TRUTH, VISIBLE, small_data, small_trainer

from g2netpl.training.expected_positives import from_positives
from g2netpl.training.linear_probe import label_loss, solve, tag_loss

SIGNS = np.where(np.random.default_rng(7).random(TRUTH.shape) < 0.5, TRUTH, -1).astype(np.int8)


def probe_of(trainer, loss, visible):
    """The same probe, on the rows that the loss learns from."""
    observed = torch.tensor(visible[:60])
    rows = (observed == 1).any(1) if loss is tag_loss else (observed >= 0).any(1)
    return solve(loss, INPUTS[:60][rows], None, observed[rows], trainer.choice.weight_decay)


def test_the_softmax_is_solved_and_stays_so():
    trainer = small_trainer(annotation="sampled", prior="none")
    trainer.fit()
    expected = probe_of(trainer, tag_loss, VISIBLE)
    head = trainer.full_model.head
    assert head.softmax.weight.T.numpy(force=True) == pytest.approx(expected.weight.numpy())
    assert head.softmax.bias.numpy(force=True) == pytest.approx(expected.bias.numpy())
    before = small_trainer(annotation="sampled", prior="none").full_model.head
    assert not torch.equal(head.classifier.weight, before.classifier.weight)  # by the method
    tagged = INPUTS[:60][(torch.tensor(VISIBLE[:60]) == 1).any(1)]
    part = 0.03 * trainer.choice.weight_decay / len(TRUTH[0])  # which the sigmoids keep
    assert trainer.linear_decay == pytest.approx(part * float(tagged.var(0).sum()) / 1000)


def test_the_sigmoids_of_positives_and_negatives_start_solved_and_go_on_with_the_method():
    trainer = small_trainer(data=small_data(visible=SIGNS[:60]))
    trainer.start_head()
    head, expected = trainer.full_model.head, probe_of(trainer, label_loss, SIGNS)
    assert head.classifier.weight.T.numpy(force=True) == pytest.approx(expected.weight.numpy())
    trainer.fit()
    assert not torch.equal(head.classifier.weight.T, expected.weight)
    decays = {group["weight_decay"] for group in trainer.optimizer.param_groups}
    assert decays == {trainer.linear_decay}
    assert trainer.linear_decay > 0


@pytest.mark.parametrize(
    "changes",
    [
        {"solver": "epochs"},
        {"hidden": 4},
        {"method": "ups"},  # its dropout is part of the method
        {"annotation": "random"},  # tags only: one sign has no optimum
    ],
    ids=str,
)
def test_what_is_not_convex_is_trained_in_epochs(changes):
    trainer = small_trainer(**{"annotation": "sampled", **changes})
    trainer.start_head()
    assert trainer.choice is None


def test_the_probe_and_the_estimate_of_k_use_one_thread(monkeypatch):
    threads, seen = torch.get_num_threads(), set()
    softmax = torch.nn.functional.log_softmax

    def watch(*given, **more):
        seen.add(torch.get_num_threads())
        return softmax(*given, **more)

    monkeypatch.setattr(torch.nn.functional, "log_softmax", watch)
    torch.set_num_threads(2)
    try:
        small_trainer(annotation="sampled", prior="none").start_head()
        assert torch.get_num_threads() == 2
        assert seen == {1}
        seen.clear()
        from_positives(INPUTS.numpy(), VISIBLE, 0)
    finally:
        torch.set_num_threads(threads)
    assert seen == {1}
