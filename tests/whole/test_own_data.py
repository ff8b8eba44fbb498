"""From a folder and a label file to a classifier and a completed table, by commands only."""

import csv
import json
import shlex
import shutil

import numpy as np
import pytest

from g2netpl import load_run, read_labels
from g2netpl.cli import main
from g2netpl.labels.io import tables, write_labels
from g2netpl.labels.settings import Setting, observe
from g2netpl.labels.table import LabelTable
from g2netpl.runs.completion import complete_run

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
    assert "30 positive and 0 negative, on 30 images (30 have none)" in out
    seen = read_labels(folder / "seen.json")
    assert seen.values.tolist() == read_labels(folder / "labels.csv").values.tolist()
    assert main([*arguments, str(folder / "seen.json"), "--to", "coco"]) == 2
    assert main([*arguments, str(folder / "x.csv"), "--seed", "-1"]) == 2
    assert main([*arguments, str(folder / "x.csv"), "--setting", "half"]) == 2


def test_predict_writes_scores_and_the_labels_above_the_thresholds(finished, tmp_path, capsys):
    out, run, photos = tmp_path / "scores.csv", load_run(finished / "run"), finished / "photos"
    predict = ["predict", str(finished / "run"), "--workers", "0", "--images"]
    given = [*predict, str(photos), "--output", str(out)]
    assert main(given) == 0
    assert "k = 2.30 expected positives per image" in capsys.readouterr().out
    rows, names = rows_of(out), sorted(path.name for path in photos.glob("*.png"))
    assert [row["image"] for row in rows] == names
    scores = run.predict([photos / name for name in names])
    for row, expected in zip(rows, scores, strict=True):
        assert [float(row[name]) for name in run.classes] == pytest.approx(expected, abs=6e-5)
        above = np.array(run.classes)[run.thresholds.decide(expected)].tolist()
        assert [name for name in row["labels"].split(";") if name] == above
    assert main(given) == 2  # it is there already
    assert main([*given, "--threshold", "0", "--overwrite"]) == 0
    assert rows_of(out)[0]["labels"].split(";") == list(run.classes)
    one = [*predict, str(photos / "train-00002.png"), "--output", str(out), "--overwrite"]
    assert main([*one, "--threshold", "1"]) == 0
    (row,) = rows_of(out)
    assert (row["image"], row["labels"]) == ("train-00002.png", "")
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
    assert main([*predict, str(empty), "--overwrite"]) == 2
    assert f"{empty}: no images there" in capsys.readouterr().err


def test_complete_fills_every_unknown_label_and_names_its_source(finished, tmp_path, capsys):
    out = tmp_path / "completed.csv"
    arguments = ["complete", str(finished / "run"), "--details", str(out)]
    assert main(arguments) == 0
    shown = capsys.readouterr().out
    assert "60 images × 10 classes: 30 observed, 570 soft" in shown
    assert "so that k = 2.30 positives per image are expected" in shown
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


def test_an_unreadable_image_keeps_its_place_and_is_named(folder, capsys):
    broken = folder / "photos" / "train-00001.png"
    content = broken.read_bytes()
    broken.write_bytes(content[: len(content) // 2])  # readable by its header
    more = ["--mode", "full", "--cache", folder / "cache", *LISTED, "--overwrite"]
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
    assert truth.read_bytes() == before


def test_classes_may_contain_the_separator_of_tags(folder, capsys):
    table = read_labels(folder / "truth.csv")
    classes = ("zero;0", *table.classes[1:])
    tables.write(LabelTable(table.images, classes, table.values), folder / "odd.csv")
    assert train(folder, *LISTED, labels="odd.csv") == 0
    predict = ["predict", str(folder / "run"), "--images", str(folder / "photos")]
    predict += ["--workers", "0", "--threshold", "0", "--output"]
    assert main([*predict, str(folder / "tags.csv")]) == 0
    assert "labels are separated by '|'" in capsys.readouterr().out
    assert rows_of(folder / "tags.csv")[0]["labels"].split("|") == list(classes)
    content = json.loads((folder / "run" / "run.json").read_text())
    content["classes"][0] = "labels"  # a column of the table
    (folder / "run" / "run.json").write_text(json.dumps(content))
    assert main([*predict, str(folder / "scores.csv")]) == 2
