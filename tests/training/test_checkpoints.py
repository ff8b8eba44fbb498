"""Checkpoint files: whole or not there, damaged ones noticed, rows of several ranks."""

import numpy as np
import pytest
import torch
from small_trainer import small_trainer

from g2netpl.training.checkpoints import load_checkpoint, own_rows, save_checkpoint, saved
from g2netpl.utils import distributed
from g2netpl.utils.errors import InputError


@pytest.fixture
def state():
    """What a Trainer has after an epoch and two steps, with another moment written into it."""
    trainer = small_trainer(epochs=2)
    trainer.fit()
    base = trainer.state_dict()

    def at(finished, step=0, phase=0):
        moment = {"phase": phase, "finished": finished, "step": step}
        return {**base, "trainer": {**base["trainer"], **moment}}

    return at


def test_the_two_newest_are_kept_in_the_order_of_phase_epoch_and_step(tmp_path, state):
    for moment in ((0, 5), (1, 0), (1, 5), (2, 0), (10, 0)):
        save_checkpoint(tmp_path, state(*moment), 60)
    names = [path.name for path in saved(tmp_path)]
    assert names == ["0-000010-00000000.pt", "0-000002-00000000.pt"]
    save_checkpoint(tmp_path, state(0, 1, phase=1), 60)
    assert load_checkpoint(tmp_path)["trainer"]["phase"] == 1


def test_a_damaged_checkpoint_is_noticed_and_the_previous_one_is_used(tmp_path, state):
    """Bits flipped and ends cut off at random places."""
    random = np.random.default_rng(0)
    save_checkpoint(tmp_path, state(1), 60)
    save_checkpoint(tmp_path, state(2), 60)
    newest = saved(tmp_path)[0]
    whole = newest.read_bytes()
    for trial in range(40):
        damaged = bytearray(whole)
        if trial % 2:
            damaged = damaged[: random.integers(len(whole))]
        else:
            damaged[random.integers(len(whole))] ^= 1 << random.integers(8)
        newest.write_bytes(damaged)
        warnings = []
        found = load_checkpoint(tmp_path, warnings.append)
        assert torch.equal(found["method"]["latent"], state(1)["method"]["latent"])
        if found["trainer"]["finished"] == 1:  # else a byte between tensors: nothing is lost
            assert newest.name in warnings[0]


def test_what_is_no_checkpoint_of_training_is_not_used(tmp_path, state):
    save_checkpoint(tmp_path, state(1), 60)
    shelf = saved(tmp_path)[0].parent
    torch.save({"ranks": 1}, shelf / "0-000002-00000000.pt")
    torch.save({**state(2), "ranks": 10**8, "images": 60}, shelf / "0-000003-00000000.pt")
    said = []
    assert load_checkpoint(tmp_path, said.append)["trainer"]["finished"] == 1
    assert "0-000002" in said[0]
    assert "0-000003" in said[0]


def test_a_checkpoint_of_another_model_is_one_line(state):
    other = small_trainer(epochs=2, hidden=3)
    other._start_phase(0, None)
    with pytest.raises(InputError, match="the checkpoint is not one of this run"):
        other.load_state_dict(state(1))


def test_a_file_that_would_run_code_is_not_loaded(tmp_path, state):
    class Hostile:
        def __reduce__(self):
            return (open, (str(tmp_path / "ran"), "w"))

    save_checkpoint(tmp_path, state(1), 60)
    (path,) = saved(tmp_path)
    torch.save({"trainer": Hostile()}, path)
    with pytest.raises(InputError):
        load_checkpoint(tmp_path)
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize(("before", "after"), [(1, 1), (1, 2), (2, 1), (3, 2), (2, 3)])
def test_rows_are_divided_again_for_another_number_of_ranks(monkeypatch, before, after):
    """Rank r of n owns rows r, r + n, …; 11 rows, so the parts differ in length."""
    whole = torch.arange(33.0).reshape(11, 3)
    vector, adam = torch.arange(3.0), {"step": torch.tensor(5.0)}
    parts = [
        {"rows": whole[rank::before], "per_class": vector, "adam": adam, "none": None}
        for rank in range(before)
    ]
    monkeypatch.setattr(distributed, "size", lambda: after)
    for rank in range(after):
        monkeypatch.setattr(distributed, "rank", lambda rank=rank: rank)
        found = own_rows(parts, 11)
        assert torch.equal(found["rows"], whole[rank::after])
        assert torch.equal(found["per_class"], vector)
        assert found["adam"] == adam
        assert found["none"] is None
