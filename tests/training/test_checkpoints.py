"""Checkpoints: what is saved is loaded, whatever happens to the disk in between."""

import json
import os

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from torch import nn

from g2netpl.base import disk, files
from g2netpl.training import checkpoints
from g2netpl.training.checkpoints import (
    NoCheckpoint,
    load_checkpoint,
    save_checkpoint,
    save_state,
)
from g2netpl.training.snapshots import Snapshot


def a_snapshot(finished=1, step=0):
    parameter = torch.nn.Parameter(torch.ones(2))
    optimizer = torch.optim.Adam([parameter], lr=0.1)
    parameter.grad = torch.ones(2)
    optimizer.step()
    return Snapshot(
        finished=finished,
        step=step,
        cost=0.1 * finished,
        images=7,
        non_finite=2,
        network={"w": torch.full((2,), float(finished))},
        optimizer={**optimizer.state_dict(), "scaler": {"scale": 65536.0}},
        player={"latents": torch.zeros(2, 2)},
        best_network={"w": torch.ones(2)},
        best_epoch=1,
        best_map=0.5,
        history=[{"epoch": 1}],
    )


def saved(folder):
    return sorted(path.name for path in (folder / "checkpoints").iterdir())


def test_what_is_saved_is_loaded(tmp_path):
    snapshot = a_snapshot(1, 3)
    assert load_checkpoint(tmp_path) is None
    save_checkpoint(tmp_path, snapshot, phase=1)
    loaded, phase = load_checkpoint(tmp_path)
    assert phase == 1
    figures = ("finished", "step", "cost", "images", "non_finite", "best_epoch", "best_map")
    for name in (*figures, "history"):
        assert getattr(loaded, name) == getattr(snapshot, name)
    assert torch.equal(loaded.network["w"], snapshot.network["w"])
    for key, value in snapshot.optimizer["state"][0].items():
        assert torch.equal(loaded.optimizer["state"][0][key], value)
    assert loaded.optimizer["param_groups"][0]["lr"] == 0.1
    assert loaded.optimizer["scaler"] == {"scale": 65536.0}


def test_the_last_three_are_kept_and_the_newest_is_taken(tmp_path):
    for finished, step in ((0, 5), (1, 0), (1, 5), (2, 0), (10, 0)):
        save_checkpoint(tmp_path, a_snapshot(finished, step), 0)
    assert saved(tmp_path) == ["0-000001-00000005", "0-000002-00000000", "0-000010-00000000"]
    assert load_checkpoint(tmp_path)[0].finished == 10
    save_checkpoint(tmp_path, a_snapshot(0, 1), 1)  # the second phase counts anew
    assert load_checkpoint(tmp_path)[1] == 1


def test_a_network_that_is_no_number_is_not_saved(tmp_path):
    save_checkpoint(tmp_path, a_snapshot(1), 0)
    broken = a_snapshot(2)
    broken.network["w"][0] = torch.nan
    save_checkpoint(tmp_path, broken, 0)
    assert load_checkpoint(tmp_path)[0].finished == 1


def files_of(folder):
    return sorted(path for path in folder.rglob("*") if path.is_file())


def test_a_hundred_damaged_checkpoints_are_all_noticed(tmp_path):
    """Bits flipped and ends cut off anywhere in any file: the one before is taken instead."""
    random = np.random.default_rng(0)
    save_checkpoint(tmp_path, a_snapshot(1), 0)
    save_checkpoint(tmp_path, a_snapshot(2), 0)
    newest = tmp_path / "checkpoints" / saved(tmp_path)[-1]
    warnings = []
    for trial in range(100):
        file = files_of(newest)[trial % 5]
        whole = file.read_bytes()
        if trial % 2:
            damaged = bytearray(whole)
            damaged[random.integers(len(whole))] ^= 1 << random.integers(8)
        else:
            damaged = whole[: random.integers(len(whole))]
        file.write_bytes(damaged)
        assert load_checkpoint(tmp_path, warn=warnings.append)[0].finished == 1, file
        assert len(warnings) == trial + 1
        assert newest.name in warnings[-1]
        file.write_bytes(whole)
    assert load_checkpoint(tmp_path)[0].finished == 2


def test_where_all_are_damaged_nothing_is_begun_anew(tmp_path):
    for finished in (1, 2):
        save_checkpoint(tmp_path, a_snapshot(finished), 0)
    for path in tmp_path.rglob("manifest.json"):
        path.write_text("{")
    before = {path: path.read_bytes() for path in files_of(tmp_path)}
    with pytest.raises(NoCheckpoint, match="nothing was changed"):
        load_checkpoint(tmp_path)
    assert NoCheckpoint.exit_code == 4
    assert before == {path: path.read_bytes() for path in files_of(tmp_path)}


class Crash(BaseException):
    pass


def crash_at(monkeypatch, moment):
    """End the process, as far as it can tell, at one of its writes, fsyncs and renames."""
    calls = [0]

    def count(original):
        def call(*arguments, **named):
            calls[0] += 1
            if calls[0] == moment:
                raise Crash
            return original(*arguments, **named)

        return call

    monkeypatch.setattr(disk.os, "fsync", count(os.fsync))
    monkeypatch.setattr(disk.os, "rename", count(os.rename))
    monkeypatch.setattr(checkpoints, "replace_file", count(files.replace_file))
    return calls


def test_a_crash_at_any_moment_of_a_save_leaves_the_one_before_or_the_new_one(
    tmp_path, monkeypatch
):
    moments = 0
    while True:
        folder = tmp_path / str(moments)
        save_checkpoint(folder, a_snapshot(1), 0)
        with monkeypatch.context() as patch:
            crash_at(patch, moments + 1)
            try:
                save_checkpoint(folder, a_snapshot(2), 0)
                crashed = False
            except Crash:
                crashed = True
        finished = load_checkpoint(folder)[0].finished
        assert finished in (1, 2)
        if not crashed:
            break
        save_checkpoint(folder, a_snapshot(3), 0)  # and what it left is in nobody's way
        assert load_checkpoint(folder)[0].finished == 3
        moments += 1
    assert finished == 2
    assert moments == 17  # 5 files written, flushed and named, a rename, the folder flushed


def test_nothing_is_pickled(tmp_path):
    save_checkpoint(tmp_path, a_snapshot(1), 0)
    for path in files_of(tmp_path):
        if path.suffix == ".json":
            json.loads(path.read_text())
        else:
            header = int.from_bytes(path.read_bytes()[:8], "little")
            json.loads(path.read_bytes()[8 : 8 + header])


def test_weights_with_two_names_are_saved_under_both(tmp_path):
    network = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
    network.append(network[0])
    state = network.state_dict()
    save_state(tmp_path / "model.safetensors", state)
    found = load_file(tmp_path / "model.safetensors")
    assert found.keys() == state.keys()
    assert all(torch.equal(value, state[name]) for name, value in found.items())
    save_checkpoint(tmp_path, Snapshot(network=state), 0)
    loaded, _ = load_checkpoint(tmp_path)
    assert all(torch.equal(value, state[name]) for name, value in loaded.network.items())


def test_weights_can_be_read_by_everybody_the_umask_allows(tmp_path):
    save_state(tmp_path / "model.safetensors", {"w": torch.ones(1)})
    (tmp_path / "plain").write_text("")
    modes = {path.stat().st_mode for path in tmp_path.iterdir()}
    assert len(modes) == 1
