"""The plan: its measure against scikit-learn, what is trained on what, refusals, the command."""

import csv
import json

import numpy as np
import pytest
from PIL import Image
from sklearn.metrics import average_precision_score

from g2netpl.base.errors import InputError
from g2netpl.cli import main
from g2netpl.experiments import labelling_plan as planning
from g2netpl.experiments.labelling_plan import (
    Plan,
    check_plan,
    describe,
    measure,
    precision_among_others,
    sizes_to_try,
)
from g2netpl.experiments.learning_curve import LearningCurve
from g2netpl.images.features import FeatureFolder, write_features
from g2netpl.images.scenes import make_scenes
from g2netpl.labels.formats import csv_table
from g2netpl.labels.table import LabelTable
from g2netpl.runs.config import RunConfig

CLASSES = tuple("abcde")


def table_of(values):
    return LabelTable(tuple(str(row) for row in range(len(values))), CLASSES, values)


def made_up(count, random, noise=2.0):
    """Features that tell five labels, more or less."""
    values = (random.random((count, 5)) < 0.3).astype(np.int8)
    empty = ~values.any(axis=1)
    values[empty, random.integers(5, size=int(empty.sum()))] = 1
    signal = (values - 0.3) @ np.random.default_rng(9).standard_normal((5, 16))
    return (signal + noise * random.standard_normal((count, 16))).astype(np.float32), values


def config(**changes):
    values = {"labels": "x", "output": "x", "mode": "linear", "setting": "fspl", "epochs": 2}
    values["expected_positives"] = 1.6  # no need to estimate it
    return RunConfig.read({**values, **changes}, "test")


def by_counting(scores, truth):
    """The same by its words, image by image."""
    sums = []
    for own, labels in zip(scores.T, truth.T, strict=True):
        total = 0.0
        for image in np.flatnonzero(labels == 1):
            above = [
                other
                for other in range(len(own))
                if other != image and labels[other] >= 0 and own[other] >= own[image]
            ]
            total += np.mean([labels[other] for other in above]) if above else 1.0
        sums.append(total)
    return sums


def test_precision_among_others_by_counting_with_ties_and_unknown():
    random = np.random.default_rng(0)
    scores = random.integers(6, size=(40, 5)).astype(np.float32)
    truth = random.choice([1, 0, -1], size=(40, 5)).astype(np.int8)
    sums, positives = precision_among_others(scores, truth)
    assert sums == pytest.approx(by_counting(scores, truth))
    assert positives.tolist() == (truth == 1).sum(axis=0).tolist()


def test_a_class_without_a_known_negative_is_not_perfect():
    truth = np.array([[1, 1], [0, 1], [1, -1], [1, 1]], dtype=np.int8)
    scores = np.array([[0.9, 0.1], [0.8, 0.2], [0.7, 0.3], [0.6, 0.4]], np.float32)
    sums, positives = precision_among_others(scores, truth)
    assert sums.tolist() == pytest.approx([1 + 1 / 2 + 2 / 3, 0])
    assert positives.tolist() == [3, 0]
    assert planning.Point(4, 0, sums, positives).score == pytest.approx(sums[0] / 3)


def test_precision_among_others_by_hand():
    # ranked + − + +: the others above the second positive are + −, above the third + − +;
    # 1 for the first, which has none above it
    truth = np.array([[1], [0], [1], [1]], dtype=np.int8)
    sums, _ = precision_among_others(np.array([[0.9], [0.8], [0.7], [0.6]], np.float32), truth)
    assert sums[0] == pytest.approx(1 + 1 / 2 + 2 / 3)


def test_small_tests_flatter_average_precision_and_not_this():
    random = np.random.default_rng(5)
    truth = (random.random((20_000, 1)) < 0.03).astype(np.int8)
    scores = (2 * truth + random.standard_normal(truth.shape)).astype(np.float32)
    large = average_precision_score(truth[:, 0], scores[:, 0])
    usual, ours = [], np.zeros(2)
    for rows in np.array_split(random.permutation(20_000), 100):
        if truth[rows].any():
            usual.append(average_precision_score(truth[rows, 0], scores[rows, 0]))
            ours += np.concatenate(precision_among_others(scores[rows], truth[rows]))
    flattery = np.mean(usual) - large
    assert flattery > 0.05
    assert abs(ours[0] / ours[1] - large) < flattery / 2


@pytest.mark.parametrize("unlabelled", [0, 40, 200])
def test_what_is_trained_on(monkeypatch, unlabelled):
    features, values = made_up(120 + unlabelled, np.random.default_rng(0))
    values[120:] = -1
    table, seen = table_of(values), []
    on_features = planning.on_features

    def watch(config, inputs, part):
        rows = [int(name) for name in part.images]
        assert (inputs == features[rows]).all()
        known = (part.values >= 0).any(axis=1)
        assert (part.values[known] == values[np.array(rows)[known]]).all()
        seen.append((set(rows), set(np.array(rows)[known].tolist())))
        return on_features(config, inputs, part)

    monkeypatch.setattr(planning, "on_features", watch)
    points = list(measure(features, table, config(epochs=1), 4, 3))
    assert [point.labelled for point in points] == sizes_to_try(80, 4) * 3 == [10, 20, 40, 80] * 3
    tests = []
    for number, (everything, known) in enumerate(seen):
        assert len(known) == points[number].labelled
        assert known <= set(range(120))
        hidden = everything - known - set(range(120, 120 + unlabelled))
        # as many unlabelled images as labelled ones: hidden ones stay in
        assert len(hidden) == (80 - len(known) if unlabelled >= 120 else 0)
        if number % 4:
            assert seen[number - 1][1] < known  # nested
        else:
            tests.append(set(range(120)) - seen[number + 3][1])
    assert [len(test) for test in tests] == [40] * 3
    assert set.union(*tests) == set(range(120))  # every labelled image is in one test
    assert seen[0][1] != seen[4][1]


def test_groups_are_not_parted(monkeypatch):
    features, values = made_up(160, np.random.default_rng(0))
    values[120:] = -1
    groups = [f"album {row % 15}" if row % 10 else "" for row in range(160)]  # some are alone
    table, tests, seen = table_of(values).with_groups(groups), [], []
    train, on_features = planning._train, planning.on_features

    def watch_test(*given):
        tests.append({int(row) for row in given[5]})
        return train(*given)

    def watch(config, inputs, part):
        seen.append({int(name) for name in part.images})
        return on_features(config, inputs, part)

    monkeypatch.setattr(planning, "_train", watch_test)
    monkeypatch.setattr(planning, "on_features", watch)
    points = list(measure(features, table, config(epochs=1), 4, 3))
    assert [point.labelled for point in points] == planning.sizes_of(table, config(), 4, 3) * 3
    for test, trained, point in zip(tests, seen, points, strict=True):
        albums = {groups[row] for row in test} - {""}
        assert not albums & {groups[row] for row in trained}
        assert len([row for row in trained if row < 120]) == point.labelled
        assert 30 <= len(test) <= 50
    assert set.union(*tests) == set(range(120))


def test_a_plan_in_words():
    others = np.tile([0.6, 0.1, 1.0], (20, 1))
    curve = LearningCurve(0.6, 0.1, 1.0, 1000.0, others)  # 0.6 − 0.1 · 1000/n
    plan = Plan(1000, 50, 5, (100, 800), (0.3, 0.475), ((0.3, 0.475),), curve)
    text = describe(plan, config())
    assert "today, 1,000 labelled images: mAP 50.0% (50.0% to 50.0%)" in text
    assert "twice, 2,000 labelled images: mAP 55.0%" in text
    assert "4 times, 4,000 labelled images: mAP 57.5%" in text
    assert "The next 100 labelled images would bring +0.9 points of mAP (+0.9 to +0.9)" in text
    vague = LearningCurve(0.6, 0.1, 1.0, 1000.0, np.vstack([others, others * [1.5, 1, 1]]))
    text = describe(Plan(1000, 50, 5, (100, 800), (0.3, 0.475), (), vague), config())
    assert "today, 1,000 labelled images: the curve does not tell (50.0% to 80.0%)" in text


def test_labels_without_negatives_are_refused_with_a_way_out():
    _, values = made_up(150, np.random.default_rng(0))
    with pytest.raises(InputError, match=r"tags\.csv: no class has known positives and known neg"):
        check_plan(table_of(np.where(values == 1, 1, -1)), "tags.csv")
    with pytest.raises(InputError, match="expected 100 or more labelled images, got 99"):
        check_plan(table_of(values[:99]), "small.csv")
    check_plan(table_of(values), "enough.csv")


@pytest.fixture
def folder(tmp_path):
    random = np.random.default_rng(1)
    train, test = made_up(300, random), made_up(20, random)
    parts = FeatureFolder(train[0], table_of(train[1]), test[0], table_of(test[1]))
    write_features(tmp_path / "features", parts)
    return tmp_path


def test_the_command_on_a_features_folder(folder, capsys):
    arguments = ["plan", "--features", str(folder / "features"), "--output", str(folder / "plan")]
    arguments += ["--epochs", "4", "--points", "4", "--repeats", "3", "--expected-positives", "1.6"]
    assert main(arguments) == 0
    shown = capsys.readouterr().out
    said = (folder / "plan" / "plan.txt").read_text()
    assert said in shown
    assert "300 labelled images and 0 unlabelled, mAP over 5 classes" in said
    plan = json.loads((folder / "plan" / "plan.json").read_text())
    assert [point["labelled"] for point in plan["measured"]] == [25, 50, 100, 200]
    levels = [point["map"] for point in plan["measured"]]
    assert levels[-1] > levels[0] > 0.3  # five classes of 30 % by chance
    assert [each["labelled"] for each in plan["forecast"]] == [300, 600, 1200]
    for each in [*plan["forecast"], plan["next_100"]]:
        assert each["low"] <= each["value"] <= each["high"]
    curve = plan["curve"]
    at = [curve["ceiling"] - curve["drop"] * (n / 200) ** -curve["exponent"] for n in (300, 400)]
    assert plan["next_100"]["value"] == pytest.approx(at[1] - at[0])
    with (folder / "plan" / "curve.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [float(row["mAP x 100"]) for row in rows if row["what"] == "measured"] == pytest.approx(
        [100 * level for level in levels], abs=1e-3
    )
    assert max(int(row["labelled images"]) for row in rows) == 1200
    with Image.open(folder / "plan" / "curve.png") as picture:
        assert picture.format == "PNG"
        assert len(picture.convert("RGB").getcolors(1 << 24)) > 20
    assert main(arguments) == 3
    assert "--overwrite" in capsys.readouterr().err
    assert main([*arguments, "--overwrite", "--setting", "own"]) == 0
    assert "labelled as in the file" in capsys.readouterr().out


def test_the_command_on_images(tmp_path, monkeypatch, capsys):
    scenes = make_scenes(train=110, test=1, seed=2)
    (tmp_path / "photos").mkdir()
    names = tuple(f"{image}.png" for image in scenes.train.images)
    for pixels, name in zip(scenes.train_images, names, strict=True):
        Image.fromarray(pixels).save(tmp_path / "photos" / name)
    table = LabelTable(names, scenes.train.classes, scenes.train.values)
    csv_table.write(table, tmp_path / "labels.csv")
    tags = np.where(table.values == 1, 1, -1).astype(np.int8)
    csv_table.write(table.with_values(tags), tmp_path / "tags.csv")
    monkeypatch.chdir(tmp_path)
    arguments = ["--images", "photos", "--backbone", "tiny", "--image-size", "32", "--cache", "c"]
    arguments += ["--workers", "0", "--epochs", "1", "--points", "4", "--repeats", "3"]
    arguments += ["--expected-positives", "2.3"]
    assert main(["plan", "--labels", "tags.csv", *arguments, "--output", "plan"]) == 2
    assert "label 200 or more random images completely" in capsys.readouterr().err
    assert not (tmp_path / "plan").exists()
    assert not (tmp_path / "c").exists()  # refused before any image was looked at
    assert main(["plan", "--labels", "labels.csv", *arguments, "--output", "plan"]) == 0
    plan = json.loads((tmp_path / "plan" / "plan.json").read_text())
    assert plan["labelled_images"] == 110
    assert plan["measured"][-1]["labelled"] == 73


@pytest.mark.parametrize(
    ("flags", "problem"),
    [
        (["--points", "3"], "--points: must be 4 or more, got 3"),
        (["--points", "101"], "--points: must be 100 or less, got 101"),
        (["--repeats", "301"], "--repeats: must be 100 or less, got 301"),
        (["--expected-positives", "5.5"], "5.5 per image, but there are only 5 classes"),
        (["--labels", "x.csv"], "give --labels or --features, not both"),
        (["--method", "fixmatch"], "compares views of images"),
    ],
)
def test_mistakes_are_told(folder, capsys, flags, problem):
    arguments = ["plan", "--features", str(folder / "features"), "--output", str(folder / "plan")]
    assert main([*arguments, *flags]) == 2
    assert problem in capsys.readouterr().err
    assert not (folder / "plan").exists()


@pytest.mark.parametrize("flag", ["--resume-labels"])
def test_flags_that_mean_nothing_to_a_plan_are_not_taken(flag, tmp_path, capsys):
    with pytest.raises(SystemExit):
        main(["plan", "--labels", "l.csv", "--output", str(tmp_path / "p"), flag, "x"])
    assert f"unrecognized arguments: {flag}" in capsys.readouterr().err


def test_no_size_is_tried_twice():
    for points in (4, 20, 100):
        sizes = sizes_to_try(80, points)
        assert len(set(sizes)) == len(sizes) <= points
        assert (sizes[0], sizes[-1]) == (10, 80)


@pytest.mark.parametrize(("count", "repeats"), [(1, 3), (2, 3), (110, 100)])
def test_too_few_positives_to_test_and_learn_are_told_with_the_file(monkeypatch, count, repeats):
    features, values = made_up(120, np.random.default_rng(0))
    values[:] = 0
    values[:count, 1] = 1
    monkeypatch.setattr(
        planning, "on_features", lambda *_: pytest.fail("before anything is trained")
    )
    with pytest.raises(InputError, match=r"own\.csv: too few positives for .* fewer --repeats"):
        list(measure(features, table_of(values), config(labels="own.csv"), 4, repeats))
