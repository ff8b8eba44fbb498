"""`train --continue-from`: training continues after a review, whose answers are observed."""

import json
import shutil

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from g2netpl.cli import main
from g2netpl.labels.io import read_labels
from g2netpl.labels.missingness import infer_mechanism
from g2netpl.labels.table import NEGATIVE, POSITIVE, UNOBSERVED
from g2netpl.review.session import ReviewSession
from g2netpl.runs.answers import reviewed_labels
from g2netpl.runs.records import read_training
from g2netpl.runs.run import Run
from g2netpl.training.checkpoints import Checkpointing

STILL = ["--learning-rate", "1e-12", "--set", "step_size=0", "--epochs", "1"]


def train(photos, folder, *flags):
    """A run on one positive per image, as it is before anybody reviews it."""
    words = ["train", "--labels", photos / "train.csv", "--images", photos, "--setting", "fspl"]
    words += ["--set", "only_listed=true", "--backbone", "tiny", "--image-size", "32"]
    words += ["--workers", "0", "--device", "cpu", "--set", f"cache={folder / 'cache'}"]
    assert main([*map(str, words), *flags, "--output", str(folder / "run")]) == 0
    return folder / "run"


@pytest.fixture(scope="module")
def first(photos, tmp_path_factory):
    folder = tmp_path_factory.mktemp("first")
    return train(photos, folder, "--epochs", "2", "--learning-rate", "3e-3")


@pytest.fixture
def reviewed(first, tmp_path):
    """The same after eight answers about training images and two about a held-out one."""
    run = tmp_path / "first"
    shutil.copytree(first, run)
    answer(run, trained_on(run)[:4], ("yes", "no"))
    return run


def trained_on(run):
    saved = Run.open(run).labels
    return [row for row in range(len(saved.images)) if saved.has_soft[row]]


def answer(run, rows, actions, columns=(3, 5)):
    """One action for each of the columns of each row."""
    review = ReviewSession(run)
    for row in rows:
        for column, action in zip(columns, actions, strict=True):
            review.decide(f"{row:016x}{column:016x}", row, column, action, "random")
    review.close()


def continue_from(run, output, *flags):
    return main(["train", "--continue-from", str(run), "--output", str(output), *flags])


def test_answers_are_observed_and_everything_else_is_as_before(reviewed, tmp_path, capsys):
    assert continue_from(reviewed, tmp_path / "second") == 0
    assert "8 labels by review: 4 positive, 4 negative" in capsys.readouterr().out
    before, after = Run.open(reviewed).labels, Run.open(tmp_path / "second").labels
    expected = before.observed.copy()
    for row in trained_on(reviewed)[:4]:
        expected[row, 3], expected[row, 5] = POSITIVE, NEGATIVE
    assert np.array_equal(after.observed, expected)
    old, new = read_training(reviewed), read_training(tmp_path / "second")
    assert new["expected_positives"] == old["expected_positives"]
    assert np.array_equal(after.has_soft, before.has_soft)  # the same images are held out
    changed = {key for key in old["config"] if old["config"][key] != new["config"][key]}
    assert changed == {"output", "continue_from"}


def test_model_and_pseudo_labels_continue_from_where_they_were(reviewed, tmp_path):
    """With steps of no size, the model and the pseudo-labels are those of the first run."""
    assert continue_from(reviewed, tmp_path / "second", *STILL) == 0
    old, new = (load_file(run / "model.safetensors") for run in (reviewed, tmp_path / "second"))
    for name, weights in old.items():
        if "running" not in name and "batches" not in name:  # statistics, not weights
            torch.testing.assert_close(new[name], weights, rtol=0, atol=1e-9)
    before, after = Run.open(reviewed).labels, Run.open(tmp_path / "second").labels
    rows = trained_on(reviewed)
    free = after.observed[rows] == UNOBSERVED
    assert np.abs(before.completed[rows][free] - 0.5).max() > 0.01  # they had moved
    np.testing.assert_allclose(after.completed[rows][free], before.completed[rows][free], atol=2e-6)


def test_a_second_review_adds_to_the_first(reviewed, tmp_path):
    assert continue_from(reviewed, tmp_path / "second", *STILL) == 0
    rows = trained_on(reviewed)
    answer(tmp_path / "second", rows[3:5], ("no", "yes"))  # the first of them once more
    assert continue_from(tmp_path / "second", tmp_path / "third", *STILL) == 0
    observed = Run.open(tmp_path / "third").labels.observed
    for row in rows[:3]:
        assert (observed[row, 3], observed[row, 5]) == (POSITIVE, NEGATIVE)
    for row in rows[3:5]:
        assert (observed[row, 3], observed[row, 5]) == (NEGATIVE, POSITIVE)


def test_a_resume_keeps_to_the_answers_it_began_with(reviewed, tmp_path, monkeypatch):
    save = Checkpointing.on_epoch_end

    def stop(self, trainer):
        save(self, trainer)
        raise KeyboardInterrupt

    assert continue_from(reviewed, tmp_path / "whole") == 0
    monkeypatch.setattr(Checkpointing, "on_epoch_end", stop)
    assert continue_from(reviewed, tmp_path / "second") == 130
    monkeypatch.setattr(Checkpointing, "on_epoch_end", save)
    answer(reviewed, trained_on(reviewed)[6:8], ("yes", "yes"))
    assert main(["train", "--resume", "--output", str(tmp_path / "second")]) == 0
    for name in ("soft_labels.npy", "model.safetensors"):
        whole, resumed = (tmp_path / run / name for run in ("whole", "second"))
        assert whole.read_bytes() == resumed.read_bytes()


def test_answers_about_held_out_images_are_kept_but_not_trained_on(reviewed, tmp_path, capsys):
    held_out = next(row for row in range(60) if row not in trained_on(reviewed))
    answer(reviewed, [held_out], ("yes", "no"))
    assert continue_from(reviewed, tmp_path / "second", *STILL) == 0
    assert "10 labels by review" in (out := capsys.readouterr().out)
    assert "2 of them on held-out images, not trained on" in out
    observed = Run.open(tmp_path / "second").labels.observed
    assert (observed[held_out, 3], observed[held_out, 5]) == (POSITIVE, NEGATIVE)


def test_what_cannot_be_continued(first, reviewed, tmp_path, capsys):
    output = tmp_path / "second"
    assert continue_from(first, output) == 2
    assert "holds no answers; review the run first with g2netpl review" in capsys.readouterr().err
    assert continue_from(reviewed, output, "--set", "hidden=8") == 2
    assert "use the same backbone, hidden, prior and classes" in capsys.readouterr().err
    lines = (reviewed / "review.jsonl").read_text().splitlines()
    foreign = {**json.loads(lines[0]), "image": "elsewhere.png"}
    (reviewed / "review.jsonl").write_text("\n".join([json.dumps(foreign), *lines[1:]]) + "\n")
    assert continue_from(reviewed, output) == 2
    assert "has an answer about image 'elsewhere.png'" in capsys.readouterr().err
    assert not output.exists()


def test_a_review_does_not_change_how_labels_came_to_be_known(photos, tmp_path, capsys):
    """Whole photos bring labels of both signs, as if they were missing at random."""
    run = train(photos, tmp_path, "--mode", "linear", "--epochs", "1", "--validation", "0")
    review = ReviewSession(run, "photos")
    truth = read_labels(photos / "train.csv").values
    for row in range(40):
        on = np.flatnonzero(truth[row] == POSITIVE).tolist()
        review.save(f"{row:032x}", row, dict.fromkeys(on, "yes"), rest=True)
    review.close()
    assert infer_mechanism(reviewed_labels(run).values, 2.0)[0] == "random"
    assert main(["review", str(run), "--export", str(tmp_path / "labels.csv")]) == 0
    assert "--validation 0 --annotation sampled" in capsys.readouterr().out

    assert continue_from(run, tmp_path / "second") == 0
    assert read_training(run)["annotation"] == "sampled"
    assert read_training(tmp_path / "second")["annotation"] == "sampled"
