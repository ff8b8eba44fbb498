"""PartialLabelClassifier: scikit-learn's own checks, and the same figures as compare and train."""

import pickle

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.base import clone
from sklearn.metrics import average_precision_score
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import check_estimator

from g2netpl import PartialLabelClassifier, RunConfig, load_run, read_labels, train
from g2netpl.experiments.cells import train_cell, trainer_of
from g2netpl.experiments.data import ArrayData
from g2netpl.experiments.sweep import Cell, Sweep
from g2netpl.labels.io import tables
from g2netpl.labels.settings import Setting, observe
from g2netpl.labels.table import LabelTable
from g2netpl.training.splits import split_and_observe
from g2netpl.training.trainer import Trainer

NOT_FOR_US = {
    "check_estimators_dtypes": "its labels are 1 and 2; ours are 1, 0 and -1",
    "check_classifier_data_not_an_array": "its labels are 1 and 2; ours are 1, 0 and -1",
    "check_fit2d_1feature": "its labels are 1 and 2; ours are 1, 0 and -1",
    "check_classifiers_classes": "its labels are words, one per image; ours are a matrix",
    "check_classifiers_train": "it wants one label per image from predict; ours are a matrix",
    "check_classifier_multioutput": "it wants every threshold at 0.5; ours are chosen per class",
}


@pytest.mark.filterwarnings("ignore")
def test_scikit_learn_checks():
    results = check_estimator(
        PartialLabelClassifier(epochs=2), on_fail=None, expected_failed_checks=NOT_FOR_US
    )
    by_status = {}
    for result in results:
        by_status.setdefault(result["status"], []).append(result)
    assert not by_status.get("failed"), by_status["failed"]
    assert len(by_status["passed"]) > 40
    # all of those that do not apply, and no other: one that would pass has no place in the list
    assert {result["check_name"] for result in by_status["xfail"]} == set(NOT_FOR_US)
    assert not {result["check_name"] for result in by_status["passed"]} & set(NOT_FOR_US)


def made_up(count=240, classes=4, seed=0):
    random = np.random.default_rng(seed)
    truth = (random.random((count, classes)) < 0.35).astype(np.int8)
    truth[~truth.any(axis=1), 0] = 1
    signal = (truth - 0.3) @ np.random.default_rng(9).standard_normal((classes, 12))
    features = signal + random.standard_normal((count, 12))
    return features.astype(np.float32), truth


def single_positives(truth, seed=0):
    names = tuple(str(row) for row in range(len(truth)))
    table = LabelTable(names, tuple(f"class {j}" for j in range(truth.shape[1])), truth)
    return observe(table, Setting.parse("fspl"), seed).values.copy()


@pytest.mark.parametrize("method", ["g2netpl", "role", "an"])
def test_features_are_trained_as_in_compare(method):
    """With the annotation model that has no solved start, which comparisons leave out."""
    row = f"{method}:annotation=random"
    features, truth = made_up()
    new_features, new_truth = made_up(seed=1)
    names = [tuple(str(row) for row in range(len(truth)))] * 2
    arrays = ArrayData(
        torch.from_numpy(features),
        LabelTable(names[0], tuple("abcd"), truth),
        torch.from_numpy(new_features),
        LabelTable(names[1], tuple("abcd"), new_truth),
    )
    comparison = Sweep((row,), ("fspl",), (3,), epochs=4, expected_positives=1.5)
    cell = Cell(row, "fspl", 3, 1e-2, 32)
    outcome, trainer = train_cell(comparison, cell, arrays), trainer_of(comparison, cell, arrays)
    trainer.fit()
    soft = trainer.pseudo_labels()
    split = split_and_observe(arrays.train, Setting.parse("fspl"), 0.2, 3)
    training, visible = split.training, split.visible.values
    known = truth.copy()
    known[training] = visible
    ours = PartialLabelClassifier(
        method=method,
        annotation="random",
        epochs=4,
        learning_rate=1e-2,
        batch_size=32,
        expected_positives=1.5,
        random_state=3,
        classes=list("abcd"),
    ).fit(features, known)
    assert ours.best_epoch_ == outcome["best_epoch"]
    assert ours.validation_score_ == pytest.approx(outcome["validation_map"], abs=1e-6)
    assert ours.score(new_features, new_truth) == pytest.approx(outcome["test_map"], abs=1e-4)
    completed = ours.completed_labels_
    assert (completed[known >= 0] == known[known >= 0]).all()
    if soft is not None:
        assert completed[training][visible < 0] == pytest.approx(soft[visible < 0])


def test_few_rows_are_learnt_without_asking_for_epochs():
    random = np.random.default_rng(0)
    features, directions = random.standard_normal((80, 20)), random.standard_normal((20, 4))
    truth = (features @ directions > 0).astype(float)  # which a last layer can learn
    known = np.where(random.random(truth.shape) < 0.4, truth, np.nan)
    assert PartialLabelClassifier().fit(features, known).score(features, truth) > 0.75


def test_score_is_mean_average_precision_over_known_entries():
    features, truth = made_up()
    model = PartialLabelClassifier(epochs=3, expected_positives=1.5)
    fitted = model.fit(features, single_positives(truth))
    new_features, new_truth = made_up(seed=1)
    scores = fitted.predict_proba(new_features)
    assert fitted.score(new_features, new_truth) == pytest.approx(
        average_precision_score(new_truth, scores, average="macro")
    )
    hidden = np.random.default_rng(0).random(new_truth.shape) < 0.5
    expected = np.mean(
        [
            average_precision_score(new_truth[~hidden[:, j], j], scores[~hidden[:, j], j])
            for j in range(4)
        ]
    )
    partial = np.where(hidden, np.nan, new_truth)
    assert fitted.score(new_features, partial) == pytest.approx(expected)


def test_unobserved_may_be_minus_one_or_nan_and_rows_may_be_empty():
    features, truth = made_up()
    known = single_positives(truth)
    known[200:] = -1
    as_nan = np.where(known == -1, np.nan, known)
    one, two = (
        PartialLabelClassifier(epochs=2, expected_positives=1.5).fit(features, y)
        for y in (known, as_nan)
    )
    assert (one.completed_labels_ == two.completed_labels_).all()
    assert one.completed_labels_.shape == (240, 4)
    assert ((one.completed_labels_ >= 0) & (one.completed_labels_ <= 1)).all()
    assert len(one.history_) == 2
    assert one.validation_score_ is None  # tags have no negatives: all images are trained on
    assert one.decisions_.is_sampled


def test_predict_follows_the_thresholds_and_the_expected_number():
    features, truth = made_up(600)
    fitted = PartialLabelClassifier(epochs=5, learning_rate=1e-2).fit(features, truth)
    scores, decided = fitted.predict_proba(features), fitted.predict(features)
    assert (decided == (scores >= fitted.decisions_.limits)).all()
    agreement = (decided == truth).mean()
    assert agreement > 0.8  # 0.65 by saying no to everything
    fitted.set_params(thresholds="expected").fit(features, single_positives(truth))
    k = fitted.expected_positives_
    assert fitted.predict(features).sum(axis=1).mean() == pytest.approx(k, abs=0.05)


def test_grid_search_by_own_score_and_by_scikit_learns():
    features, truth = made_up(150)
    grid = {"learning_rate": [1e-5, 1e-2], "hidden": [0]}
    model = PartialLabelClassifier(epochs=3, expected_positives=1.4)
    own = GridSearchCV(model, grid, cv=2, error_score="raise").fit(features, truth)
    theirs = GridSearchCV(
        model, grid, cv=2, error_score="raise", scoring="average_precision", refit=False
    ).fit(features, truth)
    assert own.best_params_["learning_rate"] == 1e-2
    assert own.cv_results_["mean_test_score"] == pytest.approx(
        theirs.cv_results_["mean_test_score"], abs=1e-6
    )
    assert own.best_estimator_.predict_proba(features).shape == (150, 4)


def test_in_a_pipeline_cloned_and_pickled():
    features, truth = made_up()
    model = make_pipeline(
        StandardScaler(), PartialLabelClassifier(epochs=2, random_state=5, expected_positives=1.5)
    )
    model.fit(100 * features, single_positives(truth))
    again = pickle.loads(pickle.dumps(model))
    assert (again.predict_proba(100 * features) == model.predict_proba(100 * features)).all()
    fresh = clone(model)
    assert not hasattr(fresh[-1], "model_")
    fresh.fit(100 * features, single_positives(truth))
    assert (fresh.predict_proba(100 * features) == model.predict_proba(100 * features)).all()


@pytest.fixture
def pictures(photos, tmp_path):
    """The paths of the training photos, and one observed positive each, as a file too."""
    table = observe(read_labels(photos / "train.csv"), Setting.parse("fspl"), 0)
    tables.write(table, tmp_path / "tags.csv")
    return [photos / name for name in table.images], table


@pytest.mark.parametrize("mode", ["linear", "full"])
def test_images_are_trained_as_in_train(pictures, photos, tmp_path, mode):
    paths, table = pictures
    shared = {
        "backbone": "tiny",
        "image_size": 32,
        "mode": mode,
        "epochs": 2,
        "batch_size": 16,
        "expected_positives": 2.3,
        "workers": 0,
        "device": "cpu",
        "cache": str(tmp_path / "cache"),
    }
    train(
        RunConfig(
            labels=str(tmp_path / "tags.csv"),
            images=str(photos),
            only_listed=True,
            output=str(tmp_path / "run"),
            **shared,
        )
    )
    run = load_run(tmp_path / "run")
    model = PartialLabelClassifier(classes=table.classes, **shared).fit(paths, table.values)
    assert model.predict_proba(paths[:9]) == pytest.approx(run.predict(paths[:9]), abs=1e-5)
    assert model.completed_labels_ == pytest.approx(run.soft_labels(), abs=1e-5)
    assert tuple(model.class_names_) == run.classes
    again = pickle.loads(pickle.dumps(model))
    words = [str(path) for path in paths[:9]]
    assert (again.predict(words) == model.predict(np.array(words))).all()
    assert not hasattr(model, "n_features_in_")


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"method": "g2netp"}, "unknown method 'g2netp' .*'g2netpl'"),
        ({"options": {"penalti": 1}}, "unknown key 'penalti' .*'penalty'"),
        ({"epochs": 0}, "epochs: .*greater than or equal to 1"),
        ({"mode": "lp-ft"}, "mode: expected 'linear' or 'full'"),
        ({"method": "bce"}, "method bce needs full labels"),
        ({"method": "fixmatch"}, "augmentations of images .mode partial or full"),
        ({"expected_positives": "truth"}, "expected a number or 'estimate', got 'truth'"),
        ({"classes": ["a", "b"]}, "y: expected 2 classes, got 4 columns"),
        ({"thresholds": "best"}, "thresholds: expected f1, expected, or precision:P"),
        ({"optimizer": "Adamm"}, "unknown optimizer 'Adamm'"),
        ({"expected_positives": 4.5}, "expected_positives: 4.5 per image, .* only 4 classes"),
        ({"options": [1]}, r"options: expected a dictionary, got \[1\]"),
        ({"epochs": True}, "epochs: must not be true or false"),
    ],
)
def test_mistakes_in_parameters_are_value_errors_of_fit(changes, problem):
    features, truth = made_up(60)
    model = PartialLabelClassifier(**changes)
    with pytest.raises(ValueError, match=problem):
        model.fit(features, single_positives(truth))


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (lambda y: np.where(y == 1, 2, y), "image .*, class .*: expected 1"),
        (lambda y: y + 0.5, "image .*, class .*: expected 1"),
        (lambda y: y[:, 0], "expected a matrix"),
        (lambda y: y[:-1], "inconsistent numbers of samples: 60 and 59"),
        (lambda y: np.full(y.shape, -1), "no positive label is observed"),
        (lambda y: y + 1j, "Complex data not supported"),
        (lambda y: y.astype(int).astype(str), "dtype='numeric' is not compatible with arrays of"),
    ],
)
def test_mistakes_in_y(change, problem):
    features, truth = made_up(60)
    with pytest.raises(ValueError, match=problem):
        PartialLabelClassifier(epochs=1).fit(features, change(truth.astype(float)))


def test_features_and_paths_are_not_mixed_up():
    features, truth = made_up(60)
    model = PartialLabelClassifier(epochs=1).fit(features, truth)
    with pytest.raises(ValueError, match="X: expected features as in fit, got image paths"):
        model.predict(["a.png"])
    with pytest.raises(ValueError, match="no class has both a positive and a negative"):
        model.score(features, np.where(truth == 1, 1, -1))


@pytest.mark.parametrize("kind", [np.int64, object])
def test_what_is_masked_is_not_observed(kind):
    features, truth = made_up()
    hidden = np.random.default_rng(0).random(truth.shape) < 0.5
    masked = np.ma.masked_array(truth.astype(kind), mask=hidden)
    model = PartialLabelClassifier(epochs=1)
    expected = model.fit(features, np.where(hidden, np.nan, truth)).completed_labels_
    assert (model.fit(features, masked).completed_labels_ == expected).all()
    assert not np.array_equal(expected, truth)
    with pytest.raises(ValueError, match="X: expected every feature, some are masked"):
        model.fit(np.ma.masked_array(features, mask=features > 2), truth)


def test_columns_of_a_data_frame_go_by_their_names():
    features, truth = made_up()
    frame, turned = pd.DataFrame(truth, columns=list("abcd")), ["d", "c", "a", "b"]
    model = PartialLabelClassifier(epochs=3, learning_rate=1e-2).fit(features, frame)
    assert model.class_names_.tolist() == list("abcd")
    score = model.score(features, truth)
    assert model.score(features, frame[turned].astype("Int8")) == score
    assert model.score(features, pd.DataFrame(truth)) == score  # places are no names
    with pytest.raises(ValueError, match="y: column 'x' is none of the classes"):
        model.score(features, pd.DataFrame(truth, columns=list("abcx")))
    other = PartialLabelClassifier(epochs=3, learning_rate=1e-2, classes=turned)
    other.fit(features, frame)
    alike = PartialLabelClassifier(epochs=3, learning_rate=1e-2)
    alike.fit(features, truth[:, [3, 2, 0, 1]])
    assert (other.completed_labels_ == alike.completed_labels_).all()
    assert other.class_names_.tolist() == turned


def test_an_image_that_is_not_there_is_one_that_cannot_be_read(pictures, tmp_path):
    paths, table = pictures
    features, truth = made_up(60)
    model = PartialLabelClassifier(epochs=1).fit(features, truth)
    shared = {"backbone": "tiny", "image_size": 32, "expected_positives": 2.3}
    model.set_params(cache=tmp_path / "cache", max_unreadable=0, **shared)
    there = [*paths[:-1], tmp_path / "gone.png"]
    with pytest.raises(ValueError, match=r"gone\.png: no such image"):
        model.fit(there, table.values)
    assert model.n_features_in_ == 12
    model.set_params(max_unreadable=1).fit(there, table.values)
    assert np.isnan(model.completed_labels_).any(axis=1).tolist() == [False] * 59 + [True]
    assert not hasattr(model, "n_features_in_")


def test_groups_are_held_out_together(monkeypatch):
    features, truth = made_up()
    groups = np.arange(len(truth)) // 8
    seen = []
    fit = Trainer.fit

    def watched(trainer):
        seen.append(trainer.data)
        return fit(trainer)

    monkeypatch.setattr(Trainer, "fit", watched)
    PartialLabelClassifier(epochs=1).fit(features, truth, groups=groups)
    (data,) = seen
    held = set(groups[data.held_out])
    assert len(data.held_out) == 48  # six groups of eight
    assert not held & set(groups[data.training])
    with pytest.raises(ValueError, match="groups: expected one per image, 240, got 3"):
        PartialLabelClassifier(epochs=1).fit(features, truth, groups=["a", None, float("nan")])
