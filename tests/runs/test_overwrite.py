"""--overwrite: old results keep all they hold, under the name NAME.old-1."""

import os
from pathlib import Path

import pytest

from g2netpl.cli import main
from g2netpl.runs.config import RunConfig
from g2netpl.training.train import train
from g2netpl.utils.errors import InputError


def everything(folder):
    """All files below a folder and their bytes."""
    paths = (path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): path.read_bytes() for path in paths}


@pytest.fixture
def finished(small_training):
    """A finished run with answers of people, and what is in its folder."""
    run = train(RunConfig(**small_training(learning_rate=1e-3)))
    (run.folder / "review.jsonl").write_text("decisions of people")
    return run.folder, everything(run.folder)


def train_command(keys):
    settings = (f"{name}={value}" for name, value in keys.items())
    return ["train", *(word for setting in settings for word in ("--set", setting))]


def test_an_old_run_is_renamed_and_the_new_one_is_as_any(finished, small_training, capsys):
    folder, before = finished
    keys = small_training(learning_rate=1e-3)
    assert main(train_command(keys)) == 2
    assert "holds results of 'g2netpl train'; resume it with --resume" in capsys.readouterr().err
    assert main([*train_command(keys), "--learning-rate", "1e38", "--overwrite"]) == 2
    assert capsys.readouterr().err.count("\n") == 1
    assert everything(folder) == before
    for number in (1, 2):
        again = train(RunConfig(**keys), overwrite=True)
        assert everything(folder.with_name("run.old-1")) == before
        assert folder.with_name(f"run.old-{number}").is_dir()
    assert not (folder / "review.jsonl").exists()
    new = train(RunConfig(**{**keys, "output": f"{folder}-2"}))
    for name in ("model.safetensors", "soft_labels.npy"):
        assert (again.folder / name).read_bytes() == (new.folder / name).read_bytes()


def test_a_run_that_fails_leaves_the_old_one(finished, small_training, monkeypatch):
    folder, before = finished
    config = RunConfig(**small_training(method="an"))

    def fail(*_, **__):
        raise InputError("no use")

    with monkeypatch.context() as patch:
        patch.setattr("g2netpl.training.train.write_results", fail)
        with pytest.raises(InputError, match="no use"):
            train(config, overwrite=True)
    assert everything(folder.with_name("run.old-1")) == before
    assert train(config, resume=True).config.method == "an"


def test_what_is_read_or_worked_in_is_not_renamed(finished, small_training, capsys, monkeypatch):
    folder, before = finished
    labels = folder / "labels.csv"
    labels.write_bytes(Path(small_training()["labels"]).read_bytes())
    keys = small_training(labels=str(labels))
    assert main([*train_command(keys), "--overwrite"]) == 2
    assert f"--overwrite would rename it, and {labels} is in it" in capsys.readouterr().err
    labels.unlink()
    monkeypatch.chdir(folder)
    assert main([*train_command(small_training()), "--overwrite"]) == 2
    assert f"and {folder} is in it" in capsys.readouterr().err
    assert everything(folder) == before


def test_a_label_file_that_is_replaced_is_kept(tmp_path, capsys):
    (tmp_path / "in.csv").write_text("image,a,b\nx.png,1,0\n")
    target = tmp_path / "out.csv"
    convert = ["convert", str(tmp_path / "in.csv"), str(target)]
    target.write_text("made by a person\n")
    assert main(convert) == 2
    assert main([*convert, "--overwrite"]) == 0
    assert main([*convert, "--overwrite"]) == 0
    assert (tmp_path / "out.csv.old-1").read_text() == "made by a person\n"
    assert (tmp_path / "out.csv.old-2").read_bytes() == target.read_bytes()
    assert os.listdir(tmp_path).count("out.csv") == 1
    capsys.readouterr()
