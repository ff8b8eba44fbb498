"""Counts of people in a training: k, and how many positives an image has."""

import numpy as np
import pytest
import torch
from scipy.special import expit

from g2netpl import PartialLabelClassifier
from g2netpl.cli import main
from g2netpl.labels.formats import read_labels, write_labels
from g2netpl.labels.observation import from_counted
from g2netpl.labels.settings import Setting, observe
from g2netpl.labels.table import POSITIVE
from g2netpl.review.counting import CountReview
from g2netpl.runs.metrics import mean_average_precision
from g2netpl.runs.records import read_training
from g2netpl.runs.run import Run, load_run

EPOCHS = ["--epochs", "1"]


def crowded(images, seed):
    """Vectors of eight classes' logits and one number that tells how crowded an image is."""
    random = np.random.default_rng(seed)
    crowd = random.normal(0, 1.5, images)
    logits = random.normal(0, 2, (images, 8)) + crowd[:, None] - 1.0
    labels = (random.random((images, 8)) < expit(2 * logits)).astype(int)
    shown = logits - logits.mean(axis=1, keepdims=True)  # shares know nothing of the crowd
    return np.hstack([shown, crowd[:, None]]).astype(np.float32), labels


def named(labels, seed):
    """One of the positives of each image, where there are any."""
    random = np.random.default_rng(seed)
    known = np.full(labels.shape, -1)
    for row, positives in enumerate(labels):
        if positives.any():
            known[row, random.choice(np.flatnonzero(positives))] = 1
    return known


def test_k_by_hand():
    assert from_counted(np.array([np.nan, *[1.0, 2.0, 3.0] * 3])) is None  # nine
    assert from_counted(np.array([np.nan, *[1.0, 2.0, 3.0] * 3, 4.0])) == pytest.approx(2.2)
    assert from_counted(np.zeros(20)) == pytest.approx(1 / 20)


def test_counts_give_the_estimator_k_and_a_count_that_follows_the_image():
    features, labels = crowded(900, 0)
    test, truth = crowded(600, 1)
    known, counts = named(labels, 0), labels.sum(axis=1).astype(float)
    few, many = (np.where(np.arange(900) < number, counts, np.nan) for number in (49, 150))
    plain, constant, varying = (
        PartialLabelClassifier(epochs=4, method="draw").fit(features, known, counts=given)
        for given in (None, few, np.where(np.isnan(many), -1, many))
    )
    assert constant.expected_positives_ == pytest.approx(counts[:49].mean())
    assert varying.expected_positives_ == pytest.approx(counts[:150].mean())
    assert not constant.network_.classifier.count.any()
    assert varying.network_.classifier.count[8] > 0.1  # the crowd
    assert varying.completed_labels_[known == -1].sum() > 0
    expected = varying.predict_proba(features).sum(axis=1).mean()
    assert expected == pytest.approx(varying.expected_positives_, rel=0.02)
    gain = [mean_average_precision(each.predict_proba(test), truth) for each in (plain, varying)]
    assert gain[1] > gain[0] + 0.02


def test_without_counts_nothing_changes():
    features, labels = crowded(200, 3)
    known = named(labels, 3)
    first, second = (
        PartialLabelClassifier(epochs=2, method="draw").fit(features, known, counts=counts)
        for counts in (None, np.full(200, -1))
    )
    assert np.array_equal(first.predict_proba(features), second.predict_proba(features))
    assert first.expected_positives_ == second.expected_positives_


@pytest.mark.parametrize(
    ("counts", "says"),
    [
        ([1.0] * 19, "counts: expected 20 numbers"),
        ([1.0] * 19 + [9.0], "counts: image 19: expected 0 to 8"),
        ([0.5] + [1.0] * 19, "counts: image 0: expected 0 to 8"),
        ([-2] + [1.0] * 19, "counts: image 0"),
        ([np.inf] + [1.0] * 19, "counts: image 0"),
        (["many"] * 20, "counts: expected numbers"),
    ],
)
def test_counts_that_cannot_be_are_refused(counts, says):
    features, labels = crowded(20, 4)
    with pytest.raises(ValueError, match=says):
        PartialLabelClassifier(epochs=1).fit(features, named(labels, 4), counts=counts)


@pytest.fixture(scope="module")
def tagged(photos, tmp_path_factory):
    """A run on one name per image, with nothing held out."""
    folder = tmp_path_factory.mktemp("tagged")
    truth = read_labels(photos / "train.csv")
    names = observe(truth, Setting.parse("fspl"), 0)
    write_labels(names, folder / "tags.csv")
    flags = ["--labels", folder / "tags.csv", "--images", photos, "--only-listed", "--mode"]
    flags += ["linear", "--backbone", "tiny", "--image-size", "32", "--workers", "0", "--device"]
    flags += ["cpu", "--cache", folder / "cache", *EPOCHS, "--output", folder / "run"]
    assert main(["train", *map(str, flags)]) == 0
    return folder / "run", truth


def count(run, truth, images):
    review, said = CountReview(run), {}
    while len(said) < images:
        (question,) = review.questions(1)
        row = truth.images.index(question["image"])
        said[row] = int((truth.values[row] == POSITIVE).sum())
        review.decide(f"{row:032x}", question["row"], said[row])
    review.close()
    return np.mean(list(said.values()))


def test_a_training_after_counts_and_all_that_follows(tagged, photos, tmp_path, capsys):
    run, truth = tagged
    assert read_training(run)["observation"] == "draw"
    mean = count(run, truth, 55)
    second = tmp_path / "second"
    go_on = ["train", "--resume-labels", str(run), "--output", str(second)]
    assert main(go_on) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert "55 images with a count by review" in out
    assert f"k = {mean:.2f} (from 55 counted images); n(x) from 55 counted training images" in out
    assert read_training(second)["expected_positives"] == pytest.approx(mean)
    assert len((second / "decided.jsonl").read_bytes().splitlines()) == 55
    learned = load_run(second)
    paths = [str(photos / name) for name in truth.images]
    said = learned.scores(paths)
    assert said.sum(axis=1).mean() == pytest.approx(mean, rel=0.05)
    third = tmp_path / "third"  # a review of the second adds to what was counted before
    assert main(["train", "--resume-labels", str(second), "--output", str(third)]) == 0
    assert read_training(third)["expected_positives"] == pytest.approx(mean)


def test_a_network_that_has_learnt_counts_is_exported(tagged, photos, tmp_path):
    pytest.importorskip("onnx", reason="the extra 'export' is not installed")
    pytest.importorskip("onnxscript", reason="the extra 'export' is not installed")
    from g2netpl.runs.export import export

    run = Run.open(tagged[0])
    before = run.scores(_paths(run, photos)[:2])
    width = len(run.network.classifier.count)
    run.network.classifier.learn_count(torch.linspace(-1, 1, width), 0.2)
    assert not np.allclose(run.scores(_paths(run, photos)[:2]), before)
    assert export(run, tmp_path / "bundle.onnx").difference <= 1e-4


def _paths(run, photos):
    return [str(photos / name) for name in run.labels.images]
