"""PartialLabelClassifier: scikit-learn's own checks, and the same figures as compare and train."""

import pickle

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.metrics import average_precision_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import check_estimator

from g2netpl import PartialLabelClassifier
from g2netpl.labels.settings import Setting, observe
from g2netpl.labels.table import LabelTable

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


def test_score_is_mean_average_precision_over_known_entries():
    features, truth = made_up()
    model = PartialLabelClassifier(epochs=3, expected_positives=1.5)
    fitted = model.fit(features, single_positives(truth))
    new_features, new_truth = made_up(seed=1)
    scores = fitted.predict_proba(new_features)
    known = np.random.default_rng(0).random(new_truth.shape) < 0.5
    columns = zip(new_truth.T, scores.T, known.T, strict=True)
    expected = [average_precision_score(y[rows], score[rows]) for y, score, rows in columns]
    found = fitted.score(new_features, np.where(known, new_truth, np.nan))
    assert found == pytest.approx(np.mean(expected))


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


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"method": "g2netp"}, "unknown method 'g2netp' .*'g2netpl'"),
        ({"options": {"penalti": 1}}, "unknown key 'penalti' .*'penalty'"),
        ({"epochs": 0}, "epochs: .*greater than or equal to 1"),
        ({"method": "bce"}, "method bce needs full labels"),
        ({"method": "fixmatch"}, "augmentations of images .mode full"),
        ({"expected_positives": "truth"}, "'truth' needs a file with full labels"),
        ({"classes": ["a", "b"]}, "y: expected 2 classes, got 4 columns"),
        ({"thresholds": "best"}, "thresholds: expected f1, expected, or precision:P"),
        ({"optimizer": "Adamm"}, "unknown optimizer 'Adamm'"),
        ({"expected_positives": 4.5}, "expected_positives: 4.5 per image, .* only 4 classes"),
        ({"options": [1]}, "options: .*dictionary"),
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


def test_a_score_needs_positives_and_negatives():
    features, truth = made_up(60)
    model = PartialLabelClassifier(epochs=1).fit(features, truth)
    with pytest.raises(ValueError, match="no class has both a positive and a negative"):
        model.score(features, np.where(truth == 1, 1, -1))


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


def test_groups_change_the_split():
    features, truth = made_up()
    groups = np.arange(len(truth)) // 8
    with_groups = PartialLabelClassifier(epochs=1).fit(features, truth, groups=groups)
    without = PartialLabelClassifier(epochs=1).fit(features, truth)
    assert with_groups.validation_score_ != without.validation_score_
    with pytest.raises(ValueError, match="groups: expected one per image, 240, got 3"):
        PartialLabelClassifier(epochs=1).fit(features, truth, groups=["a", None, float("nan")])
