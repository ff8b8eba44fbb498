"""From files to a run folder, on small scenes with the tiny backbone."""

import json

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from g2netpl import RunConfig, load_run, read_labels, train
from g2netpl.core.models import build_backbone
from g2netpl.labels.io import tables
from g2netpl.labels.table import LabelTable
from g2netpl.utils.errors import InputError


@pytest.fixture
def config(small_training):
    def make(**changes):
        return RunConfig.read(small_training(**{"batch_size": 16, **changes}), "test")

    return make


def history(folder):
    return [json.loads(line) for line in (folder / "history.jsonl").read_text().splitlines()]


def timeless(records):
    return [
        {k: v for k, v in r.items() if k not in ("seconds", "images_per_second")} for r in records
    ]


def test_a_run_folder_holds_everything(config, photos, result_keys):
    run = train(config(method="g2netpl"))
    folder = run.folder
    table = read_labels(photos / "train.csv")
    assert {path.name for path in folder.iterdir()} == {
        "run.json",
        "history.jsonl",
        "model.safetensors",
        "soft_labels.npy",
        "logits.npy",
        "labels.npz",
        "decisions.json",
        "classes.csv",
        "result.json",
        "evaluation.json",
        "scores.npz",
    }
    metrics = json.loads((folder / "evaluation.json").read_text())
    assert len(metrics["classes"]) == len(metrics["test"]["average_precision"]) == 10
    assert metrics["test"]["mean_average_precision"] == run.result["test_map"]
    assert 0 <= metrics["validation"]["f1"] <= 1
    result = json.loads((folder / "result.json").read_text())
    assert set(result) == result_keys
    assert 0 < result["test_map"] <= 1
    described = json.loads((folder / "run.json").read_text())
    assert described["data"]["fingerprints"]["training"] == table.fingerprint()
    assert described["config"]["method"] == "g2netpl"
    assert torch.__version__.startswith(described["versions"]["torch"])
    assert len(history(folder)) == 2
    soft = np.load(folder / "soft_labels.npy")
    assert soft.shape == (60, 10)
    assert soft.dtype == np.float32
    assert ((soft >= 0) & (soft <= 1)).all()


@pytest.mark.parametrize("mode", ["full", "lp-ft"])
def test_same_seed_same_run_for_any_number_of_workers(config, tmp_path, mode):
    one, two = (
        train(config(mode=mode, linear_epochs=2, workers=workers, output=str(tmp_path / name)))
        for workers, name in ((0, "one"), (2, "two"))
    )
    assert timeless(history(one.folder)) == timeless(history(two.folder))
    first, second = (load_file(run.folder / "model.safetensors") for run in (one, two))
    assert all(torch.equal(value, second[name]) for name, value in first.items())
    assert (one.soft_labels() == two.soft_labels()).all()


def test_linear_training_leaves_the_backbone_alone_and_caches_its_features(config, tmp_path):
    run = train(config(mode="linear", backbone="lite0", method="an"))
    weights = load_file(run.folder / "model.safetensors")
    for name, value in build_backbone("lite0").module.state_dict().items():
        assert torch.equal(weights[f"backbone.{name}"], value)
    files = {path: path.stat().st_ino for path in (tmp_path / "cache").glob("*.f32.npy")}
    assert len(files) == 2  # the label file's images and the test images
    train(config(mode="linear", backbone="lite0", method="wan"), overwrite=True)
    assert {path: path.stat().st_ino for path in (tmp_path / "cache").glob("*.f32.npy")} == files


@pytest.mark.parametrize(("mode", "trained"), [("lp-ft", True), ("lp-ft", False), ("full", True)])
def test_after_linear_epochs_batch_norm_keeps_what_pretraining_gathered(
    config, tmp_path, mode, trained
):
    """The last layer was trained on it; a random start has gathered nothing to keep."""
    state = build_backbone("tiny", seed=5).module.state_dict()
    means = [name for name in state if name.endswith("running_mean")]
    for number, name in enumerate(means):
        state[name].fill_(0.01 + 0.01 * number)
    save_file(
        {name: value.contiguous() for name, value in state.items()}, tmp_path / "own.safetensors"
    )
    own = {"weights": str(tmp_path / "own.safetensors")} if trained else {}
    run = train(config(mode=mode, linear_epochs=1, epochs=1, **own))
    after = load_file(run.folder / "model.safetensors")
    kept = [
        bool((after[f"backbone.{name}"] == (state[name] if trained else 0.0)).all())
        for name in means
    ]
    assert kept[-1] == (mode == "lp-ft" and trained)
    learnt = [name for name in state if name.endswith("weight")][-1]
    assert not torch.equal(after[f"backbone.{learnt}"], state[learnt])


def test_resume_refuses_another_configuration_and_a_damaged_checkpoint(config, tmp_path):
    def stop(trainer):
        if trainer.epoch > 2:
            raise InterruptedError

    with pytest.raises(InterruptedError):
        train(config(), on_epoch=stop)
    with pytest.raises(InputError, match="not finished"):
        load_run(tmp_path / "run")
    with pytest.raises(InputError, match="batch_size, seed"):
        train(config(seed=1, batch_size=8), resume=True)
    (path,) = (tmp_path / "run" / "checkpoints").iterdir()
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(InputError, match="no checkpoint can be read"):
        train(config(), resume=True)


def test_validation_and_test_must_not_share_images(config, photos, tmp_path):
    """Neither as the same file, nor where one image of another file is among them."""
    test, train_part = (read_labels(photos / f"{part}.csv") for part in ("test", "train"))
    assert test.classes == train_part.classes
    mixed = LabelTable(
        (*train_part.images[:9], test.images[3]),
        test.classes,
        np.vstack([train_part.values[:9], test.values[3:4]]),
    )
    tables.write(mixed, tmp_path / "mixed.csv")
    for path, shared in ((photos / "test.csv", "20 images"), (tmp_path / "mixed.csv", "1 image")):
        with pytest.raises(InputError, match="must not share images") as caught:
            train(config(validation_labels=str(path)))
        assert f"--validation-labels {path}: {shared} also in the test file" in str(caught.value)
        assert "\n" not in str(caught.value)
        assert not (tmp_path / "run").exists()
