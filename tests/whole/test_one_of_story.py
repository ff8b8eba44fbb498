"""A biologist with one species per photo, by commands alone: sorted folders in, names out."""

import csv
import json

import numpy as np
import pytest
from PIL import Image, ImageDraw

from g2netpl import read_labels
from g2netpl.cli import main

COLOURS = {"greenfinch": (70, 160, 60), "robin": (200, 60, 40), "tit": (60, 110, 200)}
SPECIES = list(COLOURS)
QUICK = ["--backbone", "tiny", "--image-size", "32", "--workers", "0", "--device", "cpu"]
QUICK += ["--epochs", "6", "--learning-rate", "3e-3"]


def photo(species, random):
    """A bird of its colour before leaves."""
    picture = Image.fromarray(random.integers(90, 170, (40, 40, 3), dtype=np.uint8))
    x, y = (int(each) for each in random.integers(4, 18, 2))
    ImageDraw.Draw(picture).ellipse((x, y, x + 16, y + 14), fill=COLOURS[species])
    return picture


@pytest.fixture(scope="module")
def birds(tmp_path_factory):
    """A folder per species, six photos that are not sorted yet, and new ones elsewhere."""
    folder, random = tmp_path_factory.mktemp("birds"), np.random.default_rng(0)
    for species in SPECIES:
        (folder / "sorted" / species).mkdir(parents=True)
        for number in range(12):
            photo(species, random).save(folder / "sorted" / species / f"{number}.png")
    (folder / "new").mkdir()
    for number, species in enumerate(2 * SPECIES):
        photo(species, random).save(folder / "sorted" / f"{species}-{number}.png")
        photo(species, random).save(folder / "new" / f"{species}-{number}.png")
    return folder


def trained_by(birds, folder, *more):
    given = ["--labels", str(birds / "sorted"), "--output", str(folder), *QUICK, *more]
    assert main(["train", *given]) == 0
    return folder


@pytest.fixture(scope="module")
def run(birds, tmp_path_factory):
    return trained_by(birds, tmp_path_factory.mktemp("runs") / "birds", "--single-label")


def rows_of(path):
    with open(path, newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def species_of(name):
    return name.partition("-")[0].partition("/")[0]


def test_the_flag_is_told_where_folders_look_so(birds, capsys):
    labels = ["--labels", str(birds / "sorted")]
    assert main(["check", *labels, "--workers", "0"]) == 0
    assert capsys.readouterr().out.count("use --single-label") == 1
    assert main(["check", *labels, "--workers", "0", "--single-label"]) == 0
    said = capsys.readouterr().out
    assert "use --single-label" not in said
    assert "36 positive and 72 negative" in said


def test_the_training_knows_k_and_tells_accuracy(birds, tmp_path, capsys):
    folder = trained_by(birds, tmp_path / "run", "--single-label")
    said = capsys.readouterr().out
    assert "annotation: sampled (one class per image)" in said
    assert "k:          1.00 expected positives per image" in said
    assert "validation mAP: 100.0%, accuracy 100.0%" in said
    assert "thresholds: one class per image, by scores calibrated on " in said
    assert "use --single-label" not in said
    found = json.loads((folder / "evaluation.json").read_text())["validation"]
    assert found["accuracy"] == found["precision"] == found["recall"] == 1.0
    assert main(["train", "--resume", "--output", str(folder)]) == 0
    assert "finished already" in capsys.readouterr().out


def test_every_new_photo_gets_its_species_by_the_run_and_by_the_bundle(birds, run, tmp_path):
    bundle = str(tmp_path / "birds.onnx")
    assert main(["export", str(run), "--output", bundle]) == 0
    given = ["--images", str(birds / "new"), "--workers", "0", "--output"]
    for source, name in ((str(run), "run.csv"), (bundle, "bundle.csv")):
        assert main(["predict", source, *given, str(tmp_path / name)]) == 0
        rows = rows_of(tmp_path / name)
        assert [row["labels"] for row in rows] == [species_of(row["image"]) for row in rows]
        for row in rows:
            assert sum(float(row[each]) for each in SPECIES) == pytest.approx(1, abs=2e-4)
    assert "accuracy" in (tmp_path / "birds.md").read_text()


def test_complete_sorts_the_rest_into_a_table_that_train_reads(run, capsys):
    assert main(["complete", str(run), "--overwrite"]) == 0
    said = capsys.readouterr().out
    assert "6 new positives, 1.00 positives per image" in said
    assert f"each image with its labels, and those added: {run / 'completed.csv'}" in said
    rows = rows_of(run / "completed.csv")
    assert [row["labels"] for row in rows] == [species_of(row["image"]) for row in rows]
    assert {row["added"] for row in rows if row["added"]} <= {*SPECIES}
    assert all(row["added"] in ("", row["labels"]) for row in rows)
    assert sum(row["added"] != "" for row in rows) == 6
    assert len(read_labels(run / "completed.csv")) == len(rows) == 42
    assert main(["complete", str(run)]) == 2  # it may have been changed by hand
