"""From a folder and a label file to a classifier and a completed table, by commands alone."""

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
from g2netpl.runs import run as runs
from g2netpl.runs.completion import complete, fill_in
from g2netpl.runs.thresholds import Thresholds

QUICK = ["--backbone", "tiny", "--image-size", "32", "--epochs", "1", "--workers", "0"]
QUICK += ["--device", "cpu", "--expected-positives", "2.3"]


@pytest.fixture
def folder(photos, tmp_path):
    """Photos of one's own: 60 listed, labels.csv with one tag on 30 of them, truth.csv beside."""
    shutil.copytree(photos, tmp_path / "photos", ignore=shutil.ignore_patterns("[!t]*", "*.csv"))
    full = read_labels(photos / "train.csv")
    tables.write(full, tmp_path / "truth.csv")
    tables.write(observe(full, Setting.parse("sspl:0.5"), 0), tmp_path / "labels.csv")
    shutil.copy(photos / "test.csv", tmp_path / "test.csv")
    return tmp_path


@pytest.fixture
def trained(folder):
    arguments = ["--labels", str(folder / "labels.csv"), "--images", str(folder / "photos")]
    more = ["--test-labels", str(folder / "test.csv"), "--output", str(folder / "run")]
    assert main(["train", *arguments, *more, *QUICK, "--epochs", "4"]) == 0
    return folder / "run"


def rows_of(path):
    with open(path, newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def test_convert_writes_what_stays_visible_and_says_the_share(folder, capsys):
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


def test_predict_writes_scores_and_the_labels_above_the_thresholds(folder, trained, capsys):
    out = folder / "scores.csv"
    arguments = ["predict", str(trained), "--images", str(folder / "photos"), "--workers", "0"]
    assert main([*arguments, "--list", str(folder / "test.csv"), "--output", str(out)]) == 0
    assert "k = 2.30 expected positives per image" in capsys.readouterr().out
    rows, run = rows_of(out), load_run(trained)
    test = read_labels(folder / "test.csv")
    assert [row["image"] for row in rows] == list(test.images)
    scores = run.predict([folder / "photos" / name for name in test.images])
    for row, expected in zip(rows, scores, strict=True):
        assert [float(row[name]) for name in run.classes] == pytest.approx(expected, abs=6e-5)
        above = np.array(run.classes)[run.thresholds.decide(expected)].tolist()
        assert [name for name in row["labels"].split(";") if name] == above
    assert main([*arguments, "--output", str(out)]) == 2
    assert main([*arguments, "--output", str(folder / "all.parquet")]) == 0
    import pyarrow.parquet

    table = pyarrow.parquet.read_table(folder / "all.parquet")
    assert table.num_rows == 80
    assert table.column_names == ["image", "labels", *run.classes]


def test_predict_takes_one_threshold_a_text_list_and_a_single_image(folder, trained):
    (folder / "names.txt").write_text("train-00001.png\ntrain-00000.png\n")
    arguments = ["predict", str(trained), "--workers", "0", "--output", str(folder / "out.csv")]
    images = ["--images", str(folder / "photos")]
    more = ["--list", str(folder / "names.txt"), "--threshold", "0", "--no-scores"]
    assert main([*arguments, *images, *more]) == 0
    rows = rows_of(folder / "out.csv")
    assert [row["image"] for row in rows] == ["train-00001.png", "train-00000.png"]
    assert set(rows[0]) == {"image", "labels"}
    assert rows[0]["labels"].split(";") == list(load_run(trained).classes)
    one = ["--images", str(folder / "photos" / "train-00002.png"), "--overwrite"]
    assert main([*arguments, *one, "--threshold", "1"]) == 0
    assert rows_of(folder / "out.csv")[0]["labels"] == ""


def test_predict_leaves_unreadable_images_empty_and_names_them(folder, trained, capsys):
    new = folder / "new"
    new.mkdir()
    (new / "b.png").write_text("no image")
    arguments = ["predict", str(trained), "--images", str(new), "--workers", "0"]
    assert main([*arguments, "--output", str(folder / "new.csv")]) == 2
    shutil.copy(folder / "photos" / "train-00000.png", new / "a.png")
    capsys.readouterr()
    assert main([*arguments, "--output", str(folder / "new.csv")]) == 0
    assert f"not readable, left empty: {new / 'b.png'}" in capsys.readouterr().out
    good, bad = rows_of(folder / "new.csv")
    assert float(good["zero"]) > 0
    assert set(bad.values()) == {"b.png", ""}
    assert main([*arguments, "--output", "x.csv", "--threshold", "1.5"]) == 2
    assert main([*arguments, "--output", "x.txt"]) == 2


def test_complete_fills_every_unknown_label_and_says_where_from(folder, trained, capsys):
    out = folder / "completed.csv"
    arguments = ["complete", str(trained), "--output", str(out)]
    assert main([*arguments, "--truth", str(folder / "truth.csv")]) == 0
    shown = capsys.readouterr().out
    assert "60 images × 10 classes: 30 observed, 570 soft" in shown
    assert "so that about k = 2.30 positives per image come out; --confidence 0.9" in shown
    observed = read_labels(folder / "labels.csv")
    rows = rows_of(out)
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
    truth = read_labels(folder / "truth.csv").values
    hits = ((values == 1) & (truth == 1) & ~known).sum()
    assert f"{hits / ((values == 1) & ~known).sum():.1%} are right (precision)" in shown
    assert f"{hits / ((truth == 1) & ~known).sum():.1%} are found (recall)" in shown


def test_complete_leaves_doubtful_labels_unknown(folder, trained):
    table = folder / "sure.csv"
    assert main(["complete", str(trained), "--table", str(table), "--confidence", "0.75"]) == 0
    assert main(["complete", str(trained), "--output", str(folder / "long.csv")]) == 0
    scores = np.array([float(row["score"]) for row in rows_of(folder / "long.csv")])
    values = read_labels(table).values.ravel()
    known = read_labels(folder / "labels.csv").values.ravel() != -1
    decisions = json.loads((trained / "decisions.json").read_text())
    logits = np.load(trained / "logits.npy").astype(float).ravel()
    predicted = expit(logits / decisions["temperature"] + decisions["shift"])
    predicted[known] = scores[known]  # what was observed needs no second opinion
    for side, value in ((1, 1), (-1, 0)):
        both = (side * (scores - 0.5) > 0.2501) & (side * (predicted - 0.5) > 0.2501)
        assert (values[both] == value).all()
    doubtful = np.abs(scores - 0.5) < 0.2499
    assert (values[doubtful] == -1).all()
    assert 0 < doubtful.sum() < 600
    assert main(["complete", str(trained)]) == 0  # completed.csv in the run folder
    assert main(["complete", str(trained)]) == 2
    assert main(["complete", str(trained), "--table", "x.csv", "--confidence", "0.2"]) == 2


def test_only_what_both_players_are_sure_of_is_sure():
    """k is the soft labels' sum, so their calibration moves nothing, nor does that of the plain."""
    observed = LabelTable(("a", "b"), ("w", "x", "y", "z"), [[-1, -1, -1, 1], [-1, -1, -1, -1]])
    soft = np.array([[0.95, 0.95, 0.04, 1.0], [0.05, 0.5, 0.92, 0.97]], dtype=np.float32)
    predicted = np.array([[0.93, 0.4, 0.03, 0.1], [0.6, 0.99, 0.91, 0.02]], dtype=np.float32)
    plain = Thresholds(1.0, 0.0, (0.5,) * 4, "f1", "nothing")
    k = float(soft.sum() / 2)
    both = np.array([True, True])
    sure = fill_in(observed, both, soft, plain, k, 0.9, predicted).values
    assert sure.tolist() == [[1, -1, 0, 1], [-1, -1, 1, -1]]
    alone = fill_in(observed, both, soft, plain, k, 0.9).values
    assert alone.tolist() == [[1, 1, 0, 1], [0, -1, 1, 1]]


def test_a_held_out_image_is_as_sure_as_its_prediction():
    """Predictions are kept in half precision as well; only soft labels are held against those."""
    observed = LabelTable(("a",), ("w", "x"), [[-1, -1]])
    raw = np.array([[0.9001, 0.05]], dtype=np.float32)
    kept = raw.astype(np.float16).astype(np.float32)
    assert kept[0, 0] < 0.9 < raw[0, 0]
    plain = Thresholds(1.0, 0.0, (0.5,) * 2, "f1", "nothing")
    sure = fill_in(observed, np.array([False]), raw, plain, 1.0, 0.9, kept).values
    assert sure.tolist() == [[1, 0]]


def test_complete_writes_proposals_for_label_studio(folder, trained):
    out = folder / "tasks.json"
    assert main(["complete", str(trained), "--table", str(out), "--to", "label-studio"]) == 0
    tasks = json.loads(out.read_text())
    observed = read_labels(folder / "labels.csv")
    assert len(tasks) == 60
    assert sum("annotations" in task for task in tasks) == 30
    proposed = [
        name
        for task in tasks
        for item in task["predictions"][0]["result"]
        for name in item["value"]["choices"]
    ]
    assert len(proposed) == pytest.approx(2.3 * 60, abs=1)  # known ones too
    again = read_labels(out)  # predictions of models are no observations
    columns = [observed.classes.index(name) for name in again.classes]
    assert again.values.tolist() == observed.values[:, columns].tolist()


def test_held_out_images_are_predicted(folder):
    full = read_labels(folder / "truth.csv")
    write_labels(observe(full, Setting.parse("known:0.7"), 0), folder / "both.csv")
    arguments = ["--labels", str(folder / "both.csv"), "--images", str(folder / "photos")]
    arguments += ["--test-labels", str(folder / "test.csv"), "--output", str(folder / "run")]
    assert main(["train", *arguments, *QUICK, "--validation", "0.4"]) == 0
    assert main(["complete", str(folder / "run"), "--output", str(folder / "out.csv")]) == 0
    rows = rows_of(folder / "out.csv")
    held_out = {row["image"] for row in rows if row["source"] == "predicted"}
    assert 20 <= len(held_out) <= 24  # two may be known in full
    assert not held_out & {row["image"] for row in rows if row["source"] == "soft"}
    decisions = json.loads((folder / "run" / "decisions.json").read_text())
    assert (decisions["rule"], decisions["basis"]) == ("f1", "24 validation images")


def test_images_that_are_not_listed_are_unlabelled_training_images(folder, capsys):
    arguments = ["--labels", str(folder / "labels.csv"), "--images", str(folder / "photos")]
    out = ["--output", str(folder / "run"), "--overwrite"]
    assert main(["train", *arguments, *out, *QUICK]) == 0
    shown = capsys.readouterr().out
    assert "20 images of" in shown
    assert "unlabelled training images" in shown
    assert len(load_run(folder / "run").observed()) == 80
    # those of the test file are not trained on, and only_listed leaves out all of them
    for more in (["--test-labels", str(folder / "test.csv")], ["--set", "only_listed=true"]):
        assert main(["train", *arguments, *out, *QUICK, *more]) == 0
        assert len(load_run(folder / "run").observed()) == 60
    assert "20 images of" in capsys.readouterr().out


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
    arguments = ["--labels", str(classes), "--unlabelled", str(folder / "more")]
    assert main(["train", *arguments, "--output", str(folder / "run"), *QUICK]) == 0
    shown = capsys.readouterr().out
    assert "1 image of" in shown
    assert "9 unlabelled training images from" in shown
    observed = load_run(folder / "run").observed()
    assert len(observed) == 50
    assert observed.images[-1] == "more/59.png"
    assert ((observed.values == 1).sum(axis=1) == [1] * 40 + [0] * 10).all()
    assert (observed.values != 0).all()


def test_missing_images_are_refused_or_left_out(folder, capsys):
    (folder / "photos" / "train-00003.png").unlink()
    arguments = ["--labels", str(folder / "labels.csv"), "--images", str(folder / "photos")]
    arguments += ["--output", str(folder / "run"), "--set", "only_listed=true", *QUICK]
    assert main(["train", *arguments]) == 2
    assert "1 of 60 images of the label file are not there" in capsys.readouterr().err
    check = ["check", *arguments[:4], "--workers", "0"]
    assert main(check) == 2
    assert "is --images the right folder? (--missing leave-out continues" in capsys.readouterr().err
    assert main([*check, "--set", "missing=leave-out"]) == 0
    assert "warning: images not there: 1\n" in capsys.readouterr().out
    assert main(["train", *arguments, "--set", "missing=leave-out"]) == 0
    assert "1 image of" in capsys.readouterr().out
    assert "train-00003.png" not in load_run(folder / "run").observed().images


@pytest.mark.parametrize("mode", ["linear", "full"])
def test_an_unreadable_image_keeps_its_place_and_is_named(folder, mode, capsys):
    shutil.copy(folder / "photos" / "train-00001.png", folder / "whole.png")
    content = (folder / "whole.png").read_bytes()
    broken = folder / "photos" / "train-00001.png"
    broken.write_bytes(content[: len(content) // 2])  # readable by its header
    arguments = ["--labels", str(folder / "labels.csv"), "--images", str(folder / "photos")]
    arguments += ["--mode", mode, "--cache", str(folder / "cache"), "--set", "only_listed=true"]
    arguments += ["--test-labels", str(folder / "test.csv"), *QUICK]
    assert main(["train", *arguments, "--output", str(folder / "run")]) == 0
    assert f"left out: {broken}" in capsys.readouterr().out
    completed = load_run(folder / "run").soft_labels()
    unknown = read_labels(folder / "labels.csv").values < 0
    assert (np.isnan(completed) == (unknown & (np.arange(60) == 1)[:, None])).all()
    assert main(["complete", str(folder / "run"), "--output", str(folder / "out.csv")]) == 0
    rows = [row for row in rows_of(folder / "out.csv") if row["image"] == "train-00001.png"]
    assert {row["source"] for row in rows} <= {"unreadable", "observed"}
    assert {row["value"] for row in rows if row["source"] == "unreadable"} == {""}
    assert main(["train", *arguments, "--max-unreadable", "0", "--output", str(folder / "no")]) == 2
    assert str(broken) in capsys.readouterr().err
    (folder / "photos" / "train-00002.png").write_text("no image")
    assert main(["train", *arguments, "--output", str(folder / "neither")]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1


def test_check_counts_all_unreadable_images_and_its_advice_works(folder, capsys):
    bad = [folder / "photos" / f"train-0000{number}.png" for number in range(1, 5)]
    content = bad[3].read_bytes()
    for path, held in zip(bad, (b"", b"no image", content[:-60]), strict=False):
        path.write_bytes(held)
    bad.pop().unlink()  # not there at all
    arguments = ["--labels", str(folder / "labels.csv"), "--images", str(folder / "photos")]
    train = ["train", "--mode", "full", "--cache", str(folder / "cache"), *QUICK]
    train += ["--output", str(folder / "run")]
    assert main(["check", *arguments, "--workers", "0"]) == 2
    error = capsys.readouterr().err
    assert "(--missing leave-out continues without them); unreadable images: remove them" in error
    assert error.endswith("or give --max-unreadable 3\n")
    for most in ([], ["--max-unreadable", "2"]):
        assert main([*train, *arguments, "--set", "missing=leave-out", *most]) == 2
        error = capsys.readouterr().err
        assert f"images cannot be read, --max-unreadable allows {2 if most else 1}: " in error
        assert error.endswith("or give --max-unreadable as many as g2netpl check finds\n")
    train.append("--overwrite")  # in the middle of an epoch there is a run already
    assert main([*train, *arguments, "--set", "missing=leave-out", "--max-unreadable", "3"]) == 0
    table = read_labels(folder / "labels.csv")
    write_labels(table.take([row for row in range(60) if row not in range(1, 5)]), folder / "a.csv")
    for path in bad:
        path.unlink()
    arguments[1] = str(folder / "a.csv")
    assert main([*train, *arguments]) == 0


def test_formats_and_their_flags_reach_the_training(folder, capsys):
    table = read_labels(folder / "truth.csv")
    tags = LabelTable(table.images, table.classes, np.where(table.values == 1, 1, -1))
    write_labels(tags, folder / "tags.csv", "tags")
    text = (folder / "tags.csv").read_text().replace(";", "/")
    (folder / "tags.csv").write_text(text)
    arguments = ["--labels", str(folder / "tags.csv"), "--images", str(folder / "photos")]
    arguments += [
        "--set",
        "only_listed=true",
        "--output",
        str(folder / "run"),
        "--overwrite",
        *QUICK,
    ]
    assert main(["train", *arguments, "--set", "separator=/", "--set", "absent=negative"]) == 0
    assert load_run(folder / "run").observed().is_complete
    assert main(["train", *arguments, "--set", "separator=/"]) == 0
    assert (
        "no class has both a positive and a negative among the held-out images"
        in capsys.readouterr().out
    )
    (folder / "classes.txt").write_text("\n".join(table.classes[:-1]))
    more = ["--set", "separator=/", "--classes", str(folder / "classes.txt")]
    assert main(["train", *arguments, *more]) == 2
    assert "unknown class 'nine'" in capsys.readouterr().err


def test_check_finds_everything_in_one_pass(folder, capsys):
    photos = folder / "photos"
    shutil.copy(photos / "train-00000.png", photos / "twin.png")
    (photos / "broken.png").write_text("no image")
    (photos / "<b>hostile.png").write_text("no image either")
    lines = ["image,cat,Cat,dog,nobody", "train-00000.png,1,,0,", "twin.png,0,,0,"]
    lines += ["broken.png,,1,,", "<b>hostile.png,1,,,", "gone.png,1,,,"]
    (folder / "odd.csv").write_text("\n".join(lines) + "\n")
    arguments = ["check", "--labels", str(folder / "odd.csv"), "--images", str(photos)]
    more = ["--html", str(folder / "page.html"), "--output", str(folder / "problems.csv")]
    assert main([*arguments, *more, "--workers", "0"]) == 2
    out, err = capsys.readouterr()
    assert "5 images × 4 classes, 35.00% of the labels known" in out
    assert "79 images in" in out
    assert err.count("\n") == 1
    assert "3 errors" in err
    found = {(row["severity"], row["kind"]) for row in rows_of(folder / "problems.csv")}
    assert found == {
        ("error", "images not there"),
        ("error", "unreadable images"),
        ("warning", "class without positives"),
        ("warning", "classes that look alike"),
        ("warning", "equal images, contradicting labels"),
    }
    page = (folder / "page.html").read_text()
    assert "<b>hostile" not in page
    assert "&lt;b&gt;hostile.png" in page
    assert "nobody observed it" in page


def test_check_lists_all_mistakes_of_a_label_file(folder, capsys):
    lines = ["image,cat", "a.png,2", "b.png,1,1", "../c.png,1"] + [f"x{i}.png,7" for i in range(30)]
    lines += [f"y{i}.png,1" for i in range(40)]
    (folder / "bad.csv").write_text("\n".join(lines) + "\n")
    arguments = ["check", "--labels", str(folder / "bad.csv")]
    assert main([*arguments, "--output", str(folder / "problems.csv")]) == 2
    out, err = capsys.readouterr()
    assert "33 errors" in err
    assert "bad.csv:2: class 'cat': expected 1, 0" in out
    assert "bad.csv:3: expected 2 cells" in out
    assert "bad.csv:4: image '../c.png': leads out" in out
    assert len(rows_of(folder / "problems.csv")) == 33


def test_check_refuses_what_a_training_would(folder, capsys):
    arguments = ["--labels", str(folder / "odd.csv"), "--images", str(folder / "photos")]
    (folder / "odd.csv").write_text("image,a,b\ntrain-00000.png,0,\ntrain-00001.png,0,0\n")
    assert main(["check", *arguments]) == 2
    assert "no positive label" in capsys.readouterr().err
    (folder / "odd.csv").write_text("image,a,b\ntrain-00000.png,1,\n")
    assert main(["check", *arguments]) == 2
    assert "expected at least 2 images, got 1" in capsys.readouterr().err
    (folder / "odd.csv").write_text("image,a,b\ntrain-00000.png,1,\ntrain-00001.png,0,1\n")
    assert main(["check", *arguments]) == 0
    for name in ("x.png", "y.png"):  # images that nobody listed are trained on too
        (folder / "photos" / name).write_text("no image")
    for command in (["check"], ["train", "--output", str(folder / "run"), *QUICK[:-1], "1"]):
        assert main([*command, *arguments]) == 2
    assert capsys.readouterr().err.count("y.png") == 1


def test_an_empty_list_is_named_and_not_the_folder(folder, capsys):
    (folder / "empty.txt").write_text("\n")
    arguments = ["predict", "run", "--images", str(folder / "photos")]
    more = ["--list", str(folder / "empty.txt"), "--output", str(folder / "out.csv")]
    assert main([*arguments, *more]) == 2
    assert f"{folder / 'empty.txt'}: expected names of images" in capsys.readouterr().err
    (folder / "new").mkdir()
    assert main([*arguments[:3], str(folder / "new"), *more[2:]]) == 2
    assert f"{folder / 'new'}: no images there" in capsys.readouterr().err


def test_a_training_says_how_to_look_at_it_and_why_no_epoch_is_chosen(folder, capsys):
    """One negative and one positive are held out, of different classes; the line can be pasted."""
    (folder / "few.csv").write_text("image,a,b\ntrain-00000.png,1,\ntrain-00001.png,1,\n")
    (folder / "validation.csv").write_text("image,a,b\ntrain-00002.png,1,\ntrain-00003.png,,0\n")
    arguments = ["--labels", str(folder / "few.csv"), "--images", str(folder / "photos")]
    arguments += [
        "--set",
        "only_listed=true",
        "--validation-labels",
        str(folder / "validation.csv"),
    ]
    assert (
        main(["train", *arguments, "--output", str(folder / "my first run"), *QUICK[:-1], "1"]) == 0
    )
    out = capsys.readouterr().out
    who = "among the images of the validation file"
    assert f"(no class has both a positive and a negative {who})" in out
    (line,) = [line for line in out.splitlines() if line.startswith("look at it: ")]
    words = shlex.split(line.removeprefix("look at it: "))
    assert words == ["g2netpl", "report", str(folder / "my first run")]
    assert main(words[1:]) == 0


def test_images_of_both_files_are_not_trained_on(folder, capsys):
    """A review exports all images, those that were tagged alone, too: completely known ones count.

    What the validation file says of them stands in the completed table.
    """
    table = read_labels(folder / "truth.csv")
    tags = np.where((table.values == 1) & (np.cumsum(table.values == 1, axis=1) == 1), 1, -1)
    write_labels(LabelTable(table.images, table.classes, tags), folder / "tags.csv")
    tags[:15] = table.values[:15]
    write_labels(LabelTable(table.images, table.classes, tags), folder / "reviewed.csv")
    arguments = ["--labels", str(folder / "tags.csv"), "--images", str(folder / "photos")]
    arguments += [
        "--set",
        "only_listed=true",
        "--output",
        str(folder / "run"),
        "--overwrite",
        *QUICK,
    ]
    assert main(["train", *arguments, "--validation-labels", str(folder / "reviewed.csv")]) == 0
    told = " ".join(capsys.readouterr().out.split())
    assert "15 images of the validation file also in the training file: not trained on" in told
    assert f"{len(table) - 15} images of the validation file also in the training file, and" in told
    assert f"training on {len(table) - 15} images" in told
    run = load_run(folder / "run")
    assert len(run.held_out["validation"].table) == 15
    filled = complete(run)
    rows = [filled.observed.images.index(name) for name in table.images[:15]]
    assert (filled.values[rows] == table.values[:15]).all()
    assert (filled.observed.values[rows] == table.values[:15]).all()
    write_labels(table, folder / "reviewed.csv")
    assert main(["train", *arguments, "--validation-labels", str(folder / "reviewed.csv")]) == 2
    assert "all positives are in the validation file, too" in capsys.readouterr().err


def test_check_overwrites_nothing_by_itself(folder):
    labels = str(folder / "labels.csv")
    before = (folder / "labels.csv").read_text()
    arguments = ["check", "--labels", labels, "--images", str(folder / "photos")]
    assert main([*arguments, "--output", labels]) == 2
    assert main([*arguments, "--output", labels, "--overwrite"]) == 2
    assert (folder / "labels.csv").read_text() == before
    assert main([*arguments, "--html", str(folder / "page.txt")]) == 2


def test_an_unlabelled_folder_holds_no_image_that_is_used_already(folder, capsys):
    (folder / "few.csv").write_text("image,a,b\ntrain-00000.png,1,\ntrain-00001.png,0,1\n")
    arguments = ["--labels", str(folder / "few.csv"), "--images", str(folder / "photos")]
    more = ["--unlabelled", str(folder / "photos"), "--output", str(folder / "run")]
    quick = [*QUICK[:-1], "1"]
    assert main(["train", *arguments, *more, *quick]) == 2
    assert "none that is not used already" in capsys.readouterr().err
    test = ["--test-labels", str(folder / "test.csv"), "--classes", str(folder / "none")]
    assert main(["train", *arguments, *more, *quick, "--set", "only_listed=true", *test]) == 2
    assert main(["train", *arguments, *more, *quick, "--set", "only_listed=true"]) == 0
    assert "78 unlabelled training images" in capsys.readouterr().out
    assert len(load_run(folder / "run").observed()) == 80


def test_images_of_training_and_test_are_refused_unless_allowed(folder, capsys):
    arguments = ["--labels", str(folder / "truth.csv"), "--test-labels", str(folder / "truth.csv")]
    more = [
        "--images",
        str(folder / "photos"),
        "--set",
        "only_listed=true",
        "--output",
        str(folder / "run"),
    ]
    assert main(["train", *arguments, *more, *QUICK]) == 2
    assert "60 images also trained on, the first 'train-00000.png'" in capsys.readouterr().err
    assert not (folder / "run").exists()
    assert main(["train", *arguments, *more, *QUICK, "--set", "overlap=allow"]) == 0
    assert "60 images also trained on" in capsys.readouterr().out


def test_complete_touches_nothing_when_it_refuses(folder, trained):
    (folder / "there.csv").write_text("mine")
    arguments = ["complete", str(trained), "--output", str(folder / "new.csv")]
    assert main([*arguments, "--table", str(folder / "there.csv")]) == 2
    assert main([*arguments, "--table", str(folder / "x.foo")]) == 2
    assert main([*arguments, "--table", str(folder / "there.csv" / "x.csv")]) == 2
    assert not (folder / "new.csv").exists()
    assert (folder / "there.csv").read_text() == "mine"


def test_a_truth_of_tags_needs_to_be_complete(folder, trained, capsys):
    full = read_labels(folder / "truth.csv")
    tags = LabelTable(full.images, full.classes, np.where(full.values == 1, 1, -1))
    write_labels(tags, folder / "tags.csv", "tags")
    arguments = ["complete", str(trained), "--truth", str(folder / "tags.csv")]
    assert main(arguments) == 2
    assert "give --absent negative" in capsys.readouterr().err
    assert main([*arguments, "--set", "absent=negative"]) == 0
    assert "570 labels" in capsys.readouterr().out


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


def test_the_rule_of_the_thresholds_is_said(folder, capsys):
    arguments = ["--labels", str(folder / "labels.csv"), "--images", str(folder / "photos")]
    more = [
        "--set",
        "only_listed=true",
        "--output",
        str(folder / "run"),
        "--thresholds",
        "precision:0.9",
    ]
    assert main(["train", *arguments, *more, *QUICK]) == 0
    said = capsys.readouterr().out
    assert "precision:0.9: not guaranteed, since no validation labels have positives and" in said
    assert "thresholds: expected, by k = 2.30" in said
    arguments[1] = str(folder / "truth.csv")
    assert main(["train", *arguments, *more, *QUICK, "--overwrite"]) == 0
    said = capsys.readouterr().out
    assert "0 of 10 classes have the 22 validation positives" in said.partition("epoch 1")[0]
    assert "thresholds: precision:0.9, by 12 validation images; " in said
    rows = rows_of(folder / "run" / "classes.csv")
    run = load_run(folder / "run")
    assert [row["class"] for row in rows] == list(run.classes)
    assert [row["decided by"] for row in rows] == list(run.thresholds.grounds)
    truth = run.held_out["validation"].truth
    assert [int(row["validation positives"]) for row in rows] == (truth == 1).sum(axis=0).tolist()
    assert [row["threshold"] == "" for row in rows] == [
        limit is None for limit in run.thresholds.per_class
    ]
    more = ["--table", str(folder / "sure.csv"), "--confidence", "0.9"]
    assert main(["complete", str(folder / "run"), *more]) == 0
    said = capsys.readouterr().out
    assert "sure by 12 validation images, of 10 classes: positives " in said
    assert "10 of 10 classes get no positives: a bound of 0.9 takes 22 validation" in said


def test_classes_may_hold_the_mark_between_tags(folder, capsys):
    table = read_labels(folder / "truth.csv")
    classes = ("zero;0", *table.classes[1:])
    tables.write(LabelTable(table.images, classes, table.values), folder / "odd.csv")
    arguments = ["--labels", str(folder / "odd.csv"), "--images", str(folder / "photos")]
    run = str(folder / "odd")
    assert main(["train", *arguments, "--set", "only_listed=true", *QUICK, "--output", run]) == 0
    arguments = ["predict", run, "--images", str(folder / "photos"), "--workers", "0"]
    arguments += ["--threshold", "0", "--output"]
    for name, more in (("scores.csv", []), ("tags.csv", ["--no-scores"])):
        capsys.readouterr()
        assert main([*arguments, str(folder / name), *more]) == 0
        assert "labels are separated by '|', since a class holds ';'" in capsys.readouterr().out
        assert rows_of(folder / name)[0]["labels"].split("|") == list(classes)
    back = read_labels(folder / "tags.csv", options=ReadOptions(separator="|"))
    assert set(back.classes) == set(classes)


def test_a_class_of_a_wrong_name_is_told_before_any_image_is_scored(folder, trained, monkeypatch):
    content = json.loads((trained / "run.json").read_text())
    content["classes"][0] = "labels"
    (trained / "run.json").write_text(json.dumps(content))
    monkeypatch.setattr(runs.Run, "predict", lambda *_, **__: pytest.fail("scored"))
    arguments = ["predict", str(trained), "--images", str(folder / "photos"), "--output"]
    assert main([*arguments, str(folder / "scores.csv")]) == 2
