"""Thresholds and completed labels of anyone's scores: arrays, data frames, and files."""

import numpy as np
import pandas as pd
import pytest
from scipy.special import expit

from g2netpl import choose_thresholds, complete, read_labels
from g2netpl.cli import main
from g2netpl.labels.table import LabelTable
from g2netpl.utils.errors import InputError

CLASSES = ["bee", "fox", "owl"]


def tagger(images=1200, seed=0, known=0.5):
    """Scores whose level is off, labels of which half are known, and the truth."""
    random = np.random.default_rng(seed)
    truth = (random.random((images, 3)) < 0.2).astype(int)
    scores = expit(2 * (random.normal(size=truth.shape) + 4 * truth - 2) + 1)
    labels = np.where(random.random(truth.shape) < known, truth, -1)
    return scores, labels, truth


def frames(images=1200):
    scores, labels, truth = tagger(images)
    names = [f"{row}.jpg" for row in range(images)]
    kept = pd.DataFrame(labels, names, CLASSES, dtype=float).replace(-1, np.nan)
    return pd.DataFrame(scores, names, CLASSES), kept, truth


def test_thresholds_of_arrays_guarantee_a_precision():
    scores, labels, truth = tagger()
    thresholds = choose_thresholds(labels, scores, "precision:0.9")
    assert thresholds.rule == "precision:0.9"
    decided = thresholds.decide(thresholds.calibrate(scores))
    assert truth[decided].mean() >= 0.9
    assert decided.sum() > 300


def test_data_frames_are_aligned_by_name():
    scores, labels, _ = frames()
    shuffled = scores.sample(frac=1, random_state=0)[CLASSES[::-1]]
    by_name, by_place = complete(labels, shuffled), complete(labels.to_numpy(), scores.to_numpy())
    assert by_name.values.tolist() == by_place.values.tolist()
    frame = by_name.as_frame()
    assert (list(frame.index), list(frame)) == (list(labels.index), CLASSES)
    assert (frame.to_numpy()[labels.notna()] == labels.to_numpy()[labels.notna()]).all()
    with pytest.raises(InputError, match="no score for class 'owl'"):
        complete(labels, scores[["bee", "fox"]])
    with pytest.raises(InputError, match="expected shape"):
        complete(labels.to_numpy(), scores.to_numpy()[:5])
    with pytest.raises(InputError, match="expected numbers from 0 to 1"):
        complete(labels, scores * 2)


def test_scores_of_single_precision_are_not_changed():
    scores, labels, _ = tagger()
    scores = scores.astype(np.float32)
    scores[3, 1] = np.nan
    given = scores.copy()
    scores.flags.writeable = False
    assert (complete(labels, scores).values[3] == labels[3]).all()  # no score, so nothing is added
    np.testing.assert_array_equal(scores, given)


def test_a_label_table_can_be_completed():
    scores, labels, _ = frames()
    table = LabelTable.from_dataframe(labels.rename_axis("image"))
    assert (complete(table, scores).values == complete(labels, scores).values).all()


@pytest.mark.parametrize("confidence", [0.4, 1.0, 90])
def test_a_confidence_that_is_no_precision_is_rejected(confidence):
    scores, labels, _ = tagger()
    with pytest.raises(InputError, match="less than 1, got"):
        complete(labels, scores, confidence=confidence)


def test_confident_labels_are_right_and_the_others_stay_unknown():
    scores, labels, truth = tagger()
    completed = complete(labels, scores, confidence=0.95)
    for sign in (1, 0):
        new = (labels == -1) & (completed.values == sign)
        assert (truth[new] == sign).mean() >= 0.95
        assert new.sum() > 100
    assert (completed.values == -1).any()
    assert "probability   tags   expected precision" in str(completed)


def test_tags_only_follow_the_scores():
    scores, labels, _ = tagger()
    tags = np.where(labels == 1, 1, -1)
    completed = complete(tags, scores, expected_positives=0.6)
    assert completed.values.sum(axis=1).mean() == pytest.approx(0.6, abs=0.05)
    scores[3] = np.nan
    assert (complete(tags, scores).values[3] == tags[3]).all()


def test_classes_that_get_no_tag_are_named():
    scores, labels, _ = tagger()
    scores[:, 1] = 0.01
    assert "1 of 3 classes got no new tag: '1'" in str(complete(labels, scores))


def test_files_of_scores_and_labels(tmp_path, capsys):
    scores, labels, _ = frames(400)
    scores.rename_axis("image").to_csv(tmp_path / "scores.csv")
    labels[:300].rename_axis("image").to_csv(tmp_path / "labels.csv")
    command = ["complete", "--scores", tmp_path / "scores.csv", "--labels", tmp_path / "labels.csv"]
    out = tmp_path / "out.csv"
    assert main([*map(str, command), "--output", str(out)]) == 0
    shown = capsys.readouterr().out
    assert "400 images × 3 classes" in shown
    assert f"written to {out}" in shown
    table = read_labels(out)
    assert len(table) == 400
    assert table.is_complete
    labels[300:] = np.nan
    expected = complete(labels, scores)
    assert (table.values == expected.values).all()
    assert main([*map(str, command)]) == 2
    assert main(["complete"]) == 2
    assert "expected RUN, or --scores" in capsys.readouterr().err
    scores.drop(columns="owl").rename_axis("image").to_csv(tmp_path / "scores.csv")
    assert main([*map(str, command), "--output", str(tmp_path / "x.csv")]) == 2
    assert "no scores for class 'owl'" in capsys.readouterr().err
