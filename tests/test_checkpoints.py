import json
import os

import pytest
import torch

from g2netpl.checkpoints import NoCheckpoint, load_checkpoint, save_checkpoint, save_state
from g2netpl.fitting import Snapshot


def a_snapshot(finished=1):
    parameter = torch.nn.Parameter(torch.ones(2))
    optimizer = torch.optim.Adam([parameter], lr=0.1)
    parameter.grad = torch.ones(2)
    optimizer.step()
    return Snapshot(
        finished=finished,
        network={"w": torch.full((2,), float(finished))},
        optimizer=optimizer.state_dict(),
        player={"latents": torch.zeros(2, 2)},
        best_network={"w": torch.ones(2)},
        best_epoch=1,
        best_map=0.5,
        history=[{"epoch": 1}],
    )


def test_what_is_saved_is_loaded(tmp_path):
    snapshot = a_snapshot()
    assert load_checkpoint(tmp_path) is None
    save_checkpoint(tmp_path, snapshot, phase=1)
    loaded, phase = load_checkpoint(tmp_path)
    assert phase == 1
    assert (loaded.finished, loaded.best_epoch, loaded.best_map) == (1, 1, 0.5)
    assert torch.equal(loaded.network["w"], snapshot.network["w"])
    for key, value in snapshot.optimizer["state"][0].items():
        assert torch.equal(loaded.optimizer["state"][0][key], value)
    assert loaded.optimizer["param_groups"][0]["lr"] == 0.1


def test_a_newer_one_replaces_the_older_and_everything_is_flushed(tmp_path, monkeypatch):
    flushed = []
    fsync = os.fsync
    monkeypatch.setattr(os, "fsync", lambda number: flushed.append(number) or fsync(number))
    save_checkpoint(tmp_path, a_snapshot(1), 0)
    assert len(flushed) == 6  # four files of tensors, the manifest, the folder
    save_checkpoint(tmp_path, a_snapshot(2), 0)
    assert load_checkpoint(tmp_path)[0].finished == 2
    assert [path.name for path in tmp_path.iterdir()] == ["checkpoint"]


@pytest.mark.parametrize("name", ["network", "best_network", "optimizer", "player"])
def test_damage_is_noticed_and_the_one_before_is_taken(tmp_path, name):
    save_checkpoint(tmp_path, a_snapshot(1), 0)
    (tmp_path / "checkpoint").rename(tmp_path / "checkpoint.old")
    save_checkpoint(tmp_path / "other", a_snapshot(2), 0)
    (tmp_path / "other" / "checkpoint").rename(tmp_path / "checkpoint")
    file = tmp_path / "checkpoint" / f"{name}.safetensors"
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(content)
    assert load_checkpoint(tmp_path)[0].finished == 1
    (tmp_path / "checkpoint.old" / "manifest.json").write_text("{")
    with pytest.raises(NoCheckpoint, match="nothing was changed"):
        load_checkpoint(tmp_path)
    assert NoCheckpoint.exit_code == 4
    json.loads((tmp_path / "checkpoint" / "manifest.json").read_text())


def test_weights_can_be_read_by_everybody_the_umask_allows(tmp_path):
    save_state(tmp_path / "model.safetensors", {"w": torch.ones(1)})
    (tmp_path / "plain").write_text("")
    modes = {path.stat().st_mode for path in tmp_path.iterdir()}
    assert len(modes) == 1
