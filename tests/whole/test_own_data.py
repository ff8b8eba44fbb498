"""From a folder and a label file to a classifier and a completed table, by commands only."""

import csv
import json
import shlex
import shutil

import numpy as np
import pytest
from scipy.special import expit

from g2netpl import load_run, read_labels
from g2netpl.cli import main
from g2netpl.labels.io import ReadOptions, tables, write_labels
from g2netpl.labels.settings import Setting, observe
from g2netpl.labels.table import LabelTable
from g2netpl.runs.completion import complete_run, fill_in
from g2netpl.runs.thresholds import Thresholds

QUICK = ["--backbone", "tiny", "--image-size", "32", "--epochs", "1", "--workers", "0"]
QUICK += ["--device", "cpu", "--expected-positives", "2.3"]


def own_data(photos, folder):
    """60 listed photos, labels.csv with one tag on 30 of them, truth.csv, test.csv for 20 more."""
    shutil.copytree(photos, folder / "photos", ignore=shutil.ignore_patterns("[!t]*", "*.csv"))
    full = read_labels(photos / "train.csv")
    tables.write(full, folder / "truth.csv")
    tables.write(observe(full, Setting.parse("sspl:0.5"), 0), folder / "labels.csv")
    shutil.copy(photos / "test.csv", folder / "test.csv")
    return folder


@pytest.fixture
def folder(photos, tmp_path):
    return own_data(photos, tmp_path)


@pytest.fixture(scope="module")
def finished(photos, tmp_path_factory):
    """The same folder with a run that no test changes."""
    folder = own_data(photos, tmp_path_factory.mktemp("own"))
    test = ["--test-labels", str(folder / "test.csv"), "--epochs", "4"]
    assert train(folder, *test) == 0
    return folder


def train(folder, *more, labels="labels.csv"):
    given = ["--labels", str(folder / labels), "--images", str(folder / "photos"), *QUICK]
    return main(["train", *given, "--output", str(folder / "run"), *map(str, more)])


def check(folder, *more, labels="labels.csv"):
    given = ["--labels", str(folder / labels), "--images", str(folder / "photos")]
    return main(["check", *given, "--workers", "0", *map(str, more)])


def rows_of(path):
    with open(path, newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


LISTED = ("--set", "only_listed=true")


def test_convert_writes_what_stays_visible_and_its_fraction(folder, capsys):
    arguments = ["convert", "--setting", "sspl:0.5", str(folder / "truth.csv")]
    assert main([*arguments, str(folder / "seen.json"), "--to", "coco"]) == 0
    out = capsys.readouterr().out
    assert "30 of 600 known labels stay visible (5.00%)" in out
    assert "30 positive and 0 negative, on 30 images (30 carry none)" in out
    seen = read_labels(folder / "seen.json")
    assert seen.values.tolist() == read_labels(folder / "labels.csv").values.tolist()
    assert main([*arguments, str(folder / "seen.json"), "--to", "coco"]) == 2
    assert main([*arguments, str(folder / "x.csv"), "--seed", "-1"]) == 2
    assert main([*arguments, str(folder / "x.csv"), "--setting", "half"]) == 2


def test_predict_writes_scores_and_the_labels_above_the_thresholds(finished, tmp_path, capsys):
    out, run, photos = tmp_path / "scores.csv", load_run(finished / "run"), finished / "photos"
    predict = ["predict", str(finished / "run"), "--workers", "0", "--images"]
    given = [*predict, str(photos), "--output", str(out)]
    assert main([*given, "--list", str(finished / "test.csv")]) == 0
    assert "k = 2.30 expected positives per image" in capsys.readouterr().out
    rows, test = rows_of(out), read_labels(finished / "test.csv")
    assert [row["image"] for row in rows] == list(test.images)
    scores = run.predict([photos / name for name in test.images])
    for row, expected in zip(rows, scores, strict=True):
        assert [float(row[name]) for name in run.classes] == pytest.approx(expected, abs=6e-5)
        above = np.array(run.classes)[run.thresholds.decide(expected)].tolist()
        assert [name for name in row["labels"].split(";") if name] == above
    assert main(given) == 2  # it is there already
    (tmp_path / "names.txt").write_text("train-00001.png\ntrain-00000.png\n")
    some = ["--list", str(tmp_path / "names.txt"), "--threshold", "0", "--no-scores"]
    assert main([*given, *some, "--overwrite"]) == 0
    rows = rows_of(out)
    assert [row["image"] for row in rows] == ["train-00001.png", "train-00000.png"]
    assert rows[0].keys() == {"image", "labels"}
    assert rows[0]["labels"].split(";") == list(run.classes)
    one = [*predict, str(photos / "train-00002.png"), "--output", str(out), "--overwrite"]
    assert main([*one, "--threshold", "1"]) == 0
    assert rows_of(out)[0]["labels"] == ""
    for odd in (["--threshold", "1.5"], ["--output", "x.txt"]):
        assert main([*given, *odd]) == 2


def test_predict_leaves_unreadable_images_empty_and_names_them(finished, tmp_path, capsys):
    new, empty = tmp_path / "new", tmp_path / "empty"
    new.mkdir()
    empty.mkdir()
    (new / "b.png").write_text("no image")
    predict = ["predict", str(finished / "run"), "--workers", "0", "--output"]
    predict += [str(tmp_path / "new.csv"), "--images"]
    assert main([*predict, str(new)]) == 2
    shutil.copy(finished / "photos" / "train-00000.png", new / "a.png")
    capsys.readouterr()
    assert main([*predict, str(new)]) == 0
    assert f"not readable, left empty: {new / 'b.png'}" in capsys.readouterr().out
    good, bad = rows_of(tmp_path / "new.csv")
    assert float(good["zero"]) > 0
    assert set(bad.values()) == {"b.png", ""}
    (tmp_path / "empty.txt").write_text("\n")
    listed = ["--list", str(tmp_path / "empty.txt"), "--overwrite"]
    for where, more, said in (
        (new, listed, f"{tmp_path / 'empty.txt'}: expected names of images"),
        (empty, ["--overwrite"], f"{empty}: no images there"),
    ):
        assert main([*predict, str(where), *more]) == 2
        assert said in capsys.readouterr().err


def test_complete_fills_every_unknown_label_and_names_its_source(finished, tmp_path, capsys):
    out = tmp_path / "completed.csv"
    arguments = ["complete", str(finished / "run"), "--details", str(out)]
    assert main(arguments) == 0
    shown = capsys.readouterr().out
    assert "60 images × 10 classes: 30 observed, 570 soft" in shown
    assert "so that k = 2.30 positives per image are expected; --confidence P" in shown
    observed, rows = read_labels(finished / "labels.csv"), rows_of(out)
    assert len(rows) == 600
    values = np.array([int(row["value"]) for row in rows]).reshape(60, 10)
    scores = np.array([float(row["score"]) for row in rows]).reshape(60, 10)
    known = observed.values >= 0
    assert (values[known] == observed.values[known]).all()
    sources = np.array([row["source"] for row in rows]).reshape(60, 10)
    assert (sources == np.where(known, "observed", "soft")).all()
    assert values.sum() == pytest.approx(2.3 * 60, abs=1)  # k positives per image
    assert scores.sum() == pytest.approx(2.3 * 60, rel=0.01)
    assert scores[values == 1].min() >= scores[values == 0].max()
    high = scores[~known & (scores >= 0.5)]  # scores of the file are rounded
    assert f"≥ 0.5 {len(high):6,} " in shown


def test_complete_leaves_uncertain_labels_unknown(finished, tmp_path):
    confident, details = tmp_path / "sure.csv", tmp_path / "long.csv"
    run = str(finished / "run")
    assert main(["complete", run, "--output", str(confident), "--confidence", "0.75"]) == 0
    assert main(["complete", run, "--details", str(details)]) == 0
    scores = np.array([float(row["score"]) for row in rows_of(details)])
    values = read_labels(confident).values.ravel()
    known = read_labels(finished / "labels.csv").values.ravel() != -1
    decisions = json.loads((finished / "run" / "decisions.json").read_text())
    logits = np.load(finished / "run" / "logits.npy").astype(float).ravel()
    predicted = expit(logits / decisions["temperature"] + decisions["shift"])
    predicted[known] = scores[known]  # what was observed needs no second opinion
    for side, value in ((1, 1), (-1, 0)):
        both = (side * (scores - 0.5) > 0.2501) & (side * (predicted - 0.5) > 0.2501)
        assert (values[both] == value).all()
    uncertain = np.abs(scores - 0.5) < 0.2499
    assert (values[uncertain] == -1).all()
    assert 0 < uncertain.sum() < 600
    assert main(["complete", run, "--output", "x.csv", "--confidence", "0.2"]) == 2


def test_a_label_is_confident_if_pseudo_label_and_prediction_are():
    """k is the pseudo-labels' sum, so their calibration moves nothing, nor does that of the plain.

    Predictions are kept in half precision as well; only pseudo-labels are compared with those.
    """
    observed = LabelTable(("a", "b"), ("w", "x", "y", "z"), [[-1, -1, -1, 1], [-1, -1, -1, -1]])
    soft = np.array([[0.95, 0.95, 0.04, 1.0], [0.05, 0.5, 0.92, 0.97]], dtype=np.float32)
    predicted = np.array([[0.93, 0.4, 0.03, 0.1], [0.6, 0.99, 0.91, 0.02]], dtype=np.float32)
    plain = Thresholds(thresholds=(0.5,) * 4, rule="f1", basis="nothing")
    given = (observed, np.array([True, True]), soft, plain, float(soft.sum() / 2), 0.9)
    assert fill_in(*given, predicted).values.tolist() == [[1, -1, 0, 1], [-1, -1, 1, -1]]
    assert fill_in(*given).values.tolist() == [[1, 1, 0, 1], [0, -1, 1, 1]]
    observed, plain = (
        LabelTable(("a",), ("w", "x"), [[-1, -1]]),
        Thresholds(thresholds=(0.5,) * 2, rule="f1", basis=""),
    )
    raw = np.array([[0.9001, 0.05]], dtype=np.float32)
    kept = raw.astype(np.float16).astype(np.float32)
    assert kept[0, 0] < 0.9 < raw[0, 0]
    held_out = (observed, np.array([False]), raw, plain, 1.0, 0.9, kept)
    assert fill_in(*held_out).values.tolist() == [[1, 0]]


def test_complete_writes_predictions_for_label_studio(finished, tmp_path):
    out = tmp_path / "tasks.json"
    run = ["complete", str(finished / "run"), "--output", str(out), "--to", "label-studio"]
    assert main(run) == 0
    tasks, observed = json.loads(out.read_text()), read_labels(finished / "labels.csv")
    assert len(tasks) == 60
    assert sum("annotations" in task for task in tasks) == 30
    results = [item for task in tasks for item in task["predictions"][0]["result"]]
    predicted = [name for item in results for name in item["value"]["choices"]]
    assert len(predicted) == pytest.approx(2.3 * 60, abs=1)  # known ones too
    again = read_labels(out)  # predictions of models are no observations
    columns = [observed.classes.index(name) for name in again.classes]
    assert again.values.tolist() == observed.values[:, columns].tolist()


def test_held_out_images_are_predicted(folder):
    full = read_labels(folder / "truth.csv")
    write_labels(observe(full, Setting.parse("known:0.7"), 0), folder / "both.csv")
    assert train(folder, "--validation", "0.4", *LISTED, labels="both.csv") == 0
    assert main(["complete", str(folder / "run"), "--details", str(folder / "out.csv")]) == 0
    rows = rows_of(folder / "out.csv")
    held_out = {row["image"] for row in rows if row["source"] == "predicted"}
    assert 20 <= len(held_out) <= 24  # two may be known in full
    assert not held_out & {row["image"] for row in rows if row["source"] == "soft"}
    decisions = json.loads((folder / "run" / "decisions.json").read_text())
    assert (decisions["rule"], decisions["basis"]) == ("f1", "24 validation images")


def test_images_that_are_not_listed_are_unlabelled_training_images(folder, capsys):
    assert train(folder, "--overwrite") == 0
    shown = capsys.readouterr().out
    assert "20 images of" in shown
    assert "unlabelled training images" in shown
    assert len(load_run(folder / "run").observed()) == 80
    # those of the test file are not trained on, and only_listed leaves out all of them
    for more in (["--test-labels", folder / "test.csv"], LISTED):
        assert train(folder, "--overwrite", *more) == 0
        assert len(load_run(folder / "run").observed()) == 60
    (folder / "few.csv").write_text("image,a,b\ntrain-00000.png,1,\ntrain-00001.png,0,1\n")
    more = ["--set", f"unlabelled={folder / 'photos'}", "--expected-positives", 1, "--overwrite"]
    assert train(folder, *more, labels="few.csv") == 2
    assert "none that is not used already" in capsys.readouterr().err
    assert train(folder, *more, *LISTED, labels="few.csv") == 0
    assert "78 unlabelled training images" in capsys.readouterr().out


def test_a_folder_per_class_and_a_folder_of_unlabelled_images(folder, capsys):
    classes = folder / "by-class"
    table = read_labels(folder / "truth.csv")
    for row in range(40):
        name = table.classes[int(np.argmax(table.values[row]))]
        (classes / name).mkdir(parents=True, exist_ok=True)
        shutil.copy(folder / "photos" / table.images[row], classes / name / f"{row}.png")
    shutil.copy(folder / "photos" / "train-00050.png", classes / "loose.png")
    (folder / "more").mkdir()
    for row in range(51, 60):
        shutil.copy(folder / "photos" / table.images[row], folder / "more" / f"{row}.png")
    more = ["--labels", str(classes), "--set", f"unlabelled={folder / 'more'}"]
    assert main(["train", *more, "--output", str(folder / "run"), *QUICK]) == 0
    shown = capsys.readouterr().out
    assert "1 image of" in shown
    assert "9 unlabelled training images from" in shown
    observed = load_run(folder / "run").observed()
    assert len(observed) == 50
    assert observed.images[-1] == "more/59.png"
    assert ((observed.values == 1).sum(axis=1) == [1] * 40 + [0] * 10).all()
    assert (observed.values != 0).all()


def test_missing_images_are_rejected_or_left_out(folder, capsys):
    (folder / "photos" / "train-00003.png").unlink()
    assert train(folder, *LISTED) == 2
    assert "1 of 60 images of the label file are not there" in capsys.readouterr().err
    assert check(folder) == 2
    assert "is --images the right folder?" in capsys.readouterr().err
    leave_out = ("--set", "missing=leave-out")
    assert check(folder, *leave_out) == 0
    assert "warning: images not there: 1\n" in capsys.readouterr().out
    assert train(folder, *LISTED, *leave_out) == 0
    assert "1 image of" in capsys.readouterr().out
    assert "train-00003.png" not in load_run(folder / "run").observed().images


@pytest.mark.parametrize("mode", ["linear", "full"])
def test_an_unreadable_image_keeps_its_place_and_is_named(folder, mode, capsys):
    broken = folder / "photos" / "train-00001.png"
    content = broken.read_bytes()
    broken.write_bytes(content[: len(content) // 2])  # readable by its header
    more = ["--mode", mode, "--cache", folder / "cache", *LISTED, "--overwrite"]
    assert train(folder, *more) == 0
    assert f"left out: {broken}" in capsys.readouterr().out
    completed = load_run(folder / "run").soft_labels()
    unknown = read_labels(folder / "labels.csv").values < 0
    assert (np.isnan(completed) == (unknown & (np.arange(60) == 1)[:, None])).all()
    assert main(["complete", str(folder / "run"), "--details", str(folder / "out.csv")]) == 0
    rows = [row for row in rows_of(folder / "out.csv") if row["image"] == "train-00001.png"]
    assert {row["source"] for row in rows} <= {"unreadable", "observed"}
    assert {row["value"] for row in rows if row["source"] == "unreadable"} == {""}
    assert train(folder, *more, "--max-unreadable", 0) == 2
    assert str(broken) in capsys.readouterr().err


def test_check_counts_all_unreadable_images_and_its_advice_works(folder, capsys):
    bad = [folder / "photos" / f"train-0000{number}.png" for number in range(1, 5)]
    for path, held in zip(bad, (b"", b"no image", bad[3].read_bytes()[:-60]), strict=False):
        path.write_bytes(held)
    bad.pop().unlink()  # not there at all
    assert check(folder) == 2
    assert capsys.readouterr().err.endswith("or give --max-unreadable 3\n")
    more = ["--mode", "full", "--cache", folder / "cache", "--set", "missing=leave-out"]
    for most in ([], ["--max-unreadable", 2]):
        assert train(folder, *more, *most) == 2
        error = capsys.readouterr().err
        assert f"images cannot be read, --max-unreadable allows {2 if most else 1}: " in error
        assert error.endswith("or give --max-unreadable as many as g2netpl check finds\n")
    # in the middle of an epoch there is a run already
    assert train(folder, *more, "--max-unreadable", 3, "--overwrite") == 0


def test_formats_and_their_options_reach_the_training(folder, capsys):
    table = read_labels(folder / "truth.csv")
    tags = LabelTable(table.images, table.classes, np.where(table.values == 1, 1, -1))
    write_labels(tags, folder / "tags.csv", "tags")
    (folder / "tags.csv").write_text((folder / "tags.csv").read_text().replace(";", "/"))
    more = [*LISTED, "--overwrite", "--set", "separator=/"]
    assert train(folder, *more, "--set", "absent=negative", labels="tags.csv") == 0
    assert load_run(folder / "run").observed().is_complete
    assert train(folder, *more, labels="tags.csv") == 0
    why = "no class has both a positive and a negative among the held-out images"
    assert why in capsys.readouterr().out
    (folder / "classes.txt").write_text("\n".join(table.classes[:-1]))
    known = ["--set", f"classes={folder / 'classes.txt'}"]
    assert train(folder, *more, *known, labels="tags.csv") == 2
    assert "unknown class 'nine'" in capsys.readouterr().err


def test_check_finds_everything_in_one_pass(folder, capsys):
    photos, issues = folder / "photos", folder / "issues.csv"
    shutil.copy(photos / "train-00000.png", photos / "twin.png")
    (photos / "broken.png").write_text("no image")
    lines = ["image,cat,Cat,dog,nobody", "train-00000.png,1,,0,", "twin.png,0,,0,"]
    lines += ["broken.png,,1,,", "gone.png,1,,,"]
    (folder / "odd.csv").write_text("\n".join(lines) + "\n")
    more = ["--output", issues, "--max-unreadable", 0]
    assert check(folder, *more, labels="odd.csv") == 2
    out, err = capsys.readouterr()
    assert "4 images × 4 classes, 37.50% of the labels known" in out
    assert "79 images in" in out
    assert err.count("\n") == 1
    assert "2 errors" in err
    assert {(row["severity"], row["kind"]) for row in rows_of(issues)} == {
        ("error", "images not there"),
        ("error", "unreadable images"),
        ("warning", "class without positives"),
        ("warning", "classes that look alike"),
        ("warning", "equal images, contradicting labels"),
    }
    lines = ["image,cat", "a.png,2", "b.png,1,1", "../c.png,1"] + [f"x{i}.png,7" for i in range(30)]
    lines += [f"y{i}.png,1" for i in range(40)]
    (folder / "bad.csv").write_text("\n".join(lines) + "\n")
    assert check(folder, *more, "--overwrite", labels="bad.csv") == 2
    out, err = capsys.readouterr()
    assert "33 errors" in err
    for line in (
        "bad.csv:2: class 'cat': expected 1, 0",
        "bad.csv:3: expected 2 cells",
        "bad.csv:4: image '../c.png': leads out",
    ):
        assert line in out
    assert len(rows_of(issues)) == 33


def test_check_rejects_what_a_training_would(folder, capsys):
    odd, labels = folder / "odd.csv", str(folder / "labels.csv")
    for rows, said in (
        ("train-00000.png,0,\ntrain-00001.png,0,0\n", "no positive label"),
        ("train-00000.png,1,\n", "expected at least 2 images, got 1"),
    ):
        odd.write_text(f"image,a,b\n{rows}")
        assert check(folder, labels="odd.csv") == 2
        assert said in capsys.readouterr().out
    before = (folder / "labels.csv").read_text()
    assert check(folder, "--output", labels) == 2
    assert check(folder, "--output", labels, "--overwrite") == 2
    assert (folder / "labels.csv").read_text() == before
    odd.write_text("image,a,b\ntrain-00000.png,1,\ntrain-00001.png,0,1\n")
    assert check(folder, labels="odd.csv") == 0
    for name in ("x.png", "y.png"):  # images that nobody listed are trained on too
        (folder / "photos" / name).write_text("no image")
    assert check(folder, labels="odd.csv") == 2
    assert train(folder, "--expected-positives", 1, labels="odd.csv") == 2
    assert capsys.readouterr().err.count("y.png") == 1


def test_a_training_shows_how_to_look_at_it_and_why_no_epoch_is_chosen(folder, capsys):
    """One negative and one positive are held out, of different classes; the line can be pasted."""
    (folder / "few.csv").write_text("image,a,b\ntrain-00000.png,1,\ntrain-00001.png,1,\n")
    (folder / "validation.csv").write_text("image,a,b\ntrain-00002.png,1,\ntrain-00003.png,,0\n")
    more = [*LISTED, "--validation-labels", folder / "validation.csv", "--expected-positives", 1]
    output = folder / "my first run"
    assert train(folder, *more, "--output", output, labels="few.csv") == 0
    out = capsys.readouterr().out
    who = "among the images of the validation file"
    assert f"(no class has both a positive and a negative {who})" in out
    (line,) = [line for line in out.splitlines() if line.startswith("look at it: ")]
    words = shlex.split(line.removeprefix("look at it: "))
    assert words == ["g2netpl", "report", str(output)]
    assert main(words[1:]) == 0


def test_images_of_both_files_are_not_trained_on(folder, capsys):
    """A review exports all images, also those that were only tagged: completely known ones count.

    What the validation file knows about them is in the completed table.
    """
    table = read_labels(folder / "truth.csv")
    tags = np.where((table.values == 1) & (np.cumsum(table.values == 1, axis=1) == 1), 1, -1)
    write_labels(LabelTable(table.images, table.classes, tags), folder / "tags.csv")
    tags[:15] = table.values[:15]
    write_labels(LabelTable(table.images, table.classes, tags), folder / "reviewed.csv")
    more = [*LISTED, "--overwrite", "--validation-labels", folder / "reviewed.csv"]
    assert train(folder, *more, labels="tags.csv") == 0
    out = " ".join(capsys.readouterr().out.split())
    assert "15 images of the validation file also in the training file: not trained on" in out
    assert f"{len(table) - 15} images of the validation file also in the training file, and" in out
    assert f"training on {len(table) - 15} images" in out
    run = load_run(folder / "run")
    assert len(run.held_out["validation"].table) == 15
    filled = complete_run(run)
    rows = [filled.observed.images.index(name) for name in table.images[:15]]
    assert (filled.values[rows] == table.values[:15]).all()
    assert (filled.observed.values[rows] == table.values[:15]).all()
    write_labels(table, folder / "reviewed.csv")
    assert train(folder, *more, labels="tags.csv") == 2
    assert "all positives are in the validation file, too" in capsys.readouterr().err


def test_images_of_training_and_test_are_rejected_unless_allowed(folder, capsys):
    more = ["--test-labels", folder / "truth.csv", *LISTED]
    assert train(folder, *more, labels="truth.csv") == 2
    assert "60 images also trained on, the first 'train-00000.png'" in capsys.readouterr().err
    assert not (folder / "run").exists()
    assert train(folder, *more, "--set", "overlap=allow", labels="truth.csv") == 0
    assert "60 images also trained on" in capsys.readouterr().out


def test_complete_touches_nothing_when_it_rejects(finished, tmp_path, capsys):
    there, new = tmp_path / "there.csv", tmp_path / "new.csv"
    there.write_text("mine")
    run = ["complete", str(finished / "run"), "--details", str(new)]
    for output in (there, tmp_path / "x.foo", there / "x.csv"):
        assert main([*run, "--output", str(output)]) == 2
    assert not new.exists()
    assert there.read_text() == "mine"


def test_what_is_read_is_not_replaced(folder, capsys):
    truth, before = folder / "truth.csv", (folder / "truth.csv").read_bytes()
    (folder / "link.csv").symlink_to(truth)
    for command in (
        ["convert", truth, truth],
        ["convert", truth, folder / "link.csv"],
        ["convert", truth, folder / "labels.csv", truth],
        ["convert", truth, truth, "--setting", "fspl"],
    ):
        assert main([*map(str, command), "--overwrite"]) == 2
        said = capsys.readouterr().err
        assert f"would replace {truth}, which is read; choose another name" in said
    assert main(["convert", str(truth), str(folder / "photos")]) == 0  # photos/metadata.jsonl
    again = ["convert", str(folder / "photos"), str(folder / "photos"), "--overwrite"]
    assert main(again) == 2
    assert "photos, which is read" in capsys.readouterr().err
    assert truth.read_bytes() == before


def test_the_rule_of_the_thresholds_is_shown(folder, capsys):
    more = [*LISTED, "--thresholds", "precision:0.9", "--overwrite"]
    assert train(folder, *more) == 0
    out = capsys.readouterr().out
    assert "thresholds: expected, by k = 2.30" in out
    assert "(not precision:0.9: " in " ".join(out.split())
    assert train(folder, *more, labels="truth.csv") == 0
    out = capsys.readouterr().out
    assert "thresholds: precision:0.9, by 12 validation images; " in out
    rows, run = rows_of(folder / "run" / "classes.csv"), load_run(folder / "run")
    assert [row["class"] for row in rows] == list(run.classes)
    assert [row["decided by"] for row in rows] == list(run.thresholds.reasons)
    truth = run.held_out["validation"].truth
    assert [int(row["validation positives"]) for row in rows] == (truth == 1).sum(axis=0).tolist()
    limits = [limit is None for limit in run.thresholds.per_class]
    assert [row["threshold"] == "" for row in rows] == limits
    confident = ["--output", str(folder / "sure.csv"), "--confidence", "0.9"]
    assert main(["complete", str(folder / "run"), *confident]) == 0
    assert "10 of 10 classes get no positives: precision 0.9 needs 29" in capsys.readouterr().out


def test_classes_may_contain_the_separator_of_tags(folder, capsys):
    table = read_labels(folder / "truth.csv")
    classes = ("zero;0", *table.classes[1:])
    tables.write(LabelTable(table.images, classes, table.values), folder / "odd.csv")
    assert train(folder, *LISTED, labels="odd.csv") == 0
    predict = ["predict", str(folder / "run"), "--images", str(folder / "photos")]
    predict += ["--workers", "0", "--threshold", "0", "--no-scores", "--output"]
    assert main([*predict, str(folder / "tags.csv")]) == 0
    assert "labels are separated by '|'" in capsys.readouterr().out
    assert rows_of(folder / "tags.csv")[0]["labels"].split("|") == list(classes)
    back = read_labels(folder / "tags.csv", options=ReadOptions(separator="|"))
    assert set(back.classes) == set(classes)
    content = json.loads((folder / "run" / "run.json").read_text())
    content["classes"][0] = "labels"  # a column of the table
    (folder / "run" / "run.json").write_text(json.dumps(content))
    predict.remove("--no-scores")
    assert main([*predict, str(folder / "scores.csv")]) == 2
