"""Foreign weights are read as tensors and nothing else; no code of ours can run what it reads."""

import os
import pickle
from pathlib import Path

import pytest
import timm
import torch
from safetensors.torch import save_file

import g2netpl
from g2netpl.core.models import build_backbone
from g2netpl.utils.errors import InputError


class Malicious:
    """What a hostile author would put into a .pth: reading it makes a file."""

    def __init__(self, target):
        self.target = str(target)

    def __reduce__(self):
        return os.mkdir, (self.target,)


def hostile_files(folder):
    """Every way in which a pickle gets into such a file."""
    folder.mkdir()
    evil = Malicious(folder / "was-here")
    torch.save({"weight": torch.zeros(2), "more": evil}, folder / "zip.pth")
    torch.save(evil, folder / "alone.pth")
    torch.save({"w": evil}, folder / "old.pth", _use_new_zipfile_serialization=False)
    (folder / "plain.pth").write_bytes(pickle.dumps({"weight": evil}))
    (folder / "protocol0.pth").write_bytes(pickle.dumps(evil, protocol=0))
    return sorted(folder.glob("*.pth"))


def test_a_malicious_pickle_is_refused_and_does_not_run(tmp_path):
    paths = hostile_files(tmp_path / "hostile")
    assert len(paths) == 5
    for path in paths:
        with pytest.raises(InputError) as told:
            build_backbone("tiny", weights=path)
        assert not (path.parent / "was-here").exists(), path.name
        assert "not a file of weights only" in str(told.value)
        assert str(told.value).endswith("nothing in it was run")
        assert "\n" not in str(told.value)
    torch.load(paths[0], weights_only=False)  # the trap is real: another reader falls into it
    assert (tmp_path / "hostile" / "was-here").is_dir()


@pytest.mark.parametrize("is_zip", [True, False])
def test_a_backbone_of_another_program_is_loaded(tmp_path, is_zip):
    theirs = build_backbone("tiny", seed=5).module.state_dict()
    wrapped = {f"module.{name}": value for name, value in theirs.items()}
    path = tmp_path / "theirs.pth"
    content = {"state_dict": wrapped, "epoch": 3, "optimizer": {"lr": 0.1}}
    torch.save(content, path, _use_new_zipfile_serialization=is_zip)
    ours = build_backbone("tiny", weights=path, seed=0).module.state_dict()
    assert all(torch.equal(value, theirs[name]) for name, value in ours.items())


def test_the_classifier_of_another_program_is_left_out(tmp_path):
    whole = timm.create_model("resnet18", pretrained=False, num_classes=7)
    torch.save(whole.state_dict(), tmp_path / "whole.pth")
    save_file(whole.state_dict(), tmp_path / "whole.safetensors")
    for name in ("whole.pth", "whole.safetensors"):
        ours = build_backbone("resnet18", weights=tmp_path / name, image_size=32).module
        assert torch.equal(ours.conv1.weight, whole.conv1.weight)
    with pytest.raises(InputError, match=r"whole\.pth: tensor .1\.weight. .* is missing"):
        build_backbone("tiny", weights=tmp_path / "whole.pth")


def test_no_file_of_ours_reads_pickles():
    """Ruff's rules (S) find pickle, eval and shell commands; these two are keywords."""
    sources = list(Path(g2netpl.__file__).parent.rglob("*.py"))
    assert len(sources) > 50
    for path in sources:
        source = path.read_text(encoding="utf-8")
        assert "weights_only=False" not in source, path
        assert "allow_pickle=True" not in source, path
        if "torch.load(" in source:
            assert "weights_only=True" in source, path
