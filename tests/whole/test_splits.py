"""Splits that do not lie, by commands: near-duplicates are found and kept in one part."""

import json
import shutil

import numpy as np
import pytest
from PIL import Image

from g2netpl import read_labels
from g2netpl.cli import main
from g2netpl.labels.io import write_labels
from g2netpl.labels.io.tables import read_groups
from g2netpl.labels.table import LabelTable
from g2netpl.runs.config import RunConfig
from g2netpl.runs.run import Run
from g2netpl.training.data import read_training_data

QUICK = ["--backbone", "tiny", "--image-size", "32", "--workers", "0", "--device", "cpu"]
QUICK += ["--expected-positives", "2"]


@pytest.fixture
def album(tmp_path):
    """40 pictures, of 12 of which there is a second one, smaller and as JPEG."""
    random, folder = np.random.default_rng(0), tmp_path / "album"
    folder.mkdir()
    names, twins = [f"{number:02d}.png" for number in range(40)], []
    for number, name in enumerate(names):
        image = Image.fromarray(random.integers(0, 256, (9, 9, 3), dtype=np.uint8))
        image = image.resize((96, 96), Image.Resampling.BILINEAR)
        image.save(folder / name)
        if number < 12:
            twins.append(f"again-{number:02d}.jpg")
            image.resize((64, 64)).save(folder / twins[-1], quality=80)
    values = (random.random((40, 3)) < 0.5).astype(np.int8)
    table = LabelTable((*names, *twins), tuple("abc"), np.vstack([values, values[:12]]))
    write_labels(table, folder / "labels.csv")
    return folder


def run(command, folder, *flags):
    labels = ["--labels", str(folder / "labels.csv"), "--images", str(folder)]
    return main([command, *labels, *map(str, flags)])


def parts_of(**keys):
    data = read_training_data(RunConfig.read({"output": "unused", **keys}, "test"))
    held = {data.table.images[row] for row in data.held_out}
    return data, held


def parted(held):
    """Twins of which only one is held out."""
    return [n for n in range(12) if (f"{n:02d}.png" in held) != (f"again-{n:02d}.jpg" in held)]


def test_check_offers_groups_that_training_takes(album, tmp_path, capsys):
    groups = tmp_path / "groups.csv"
    files = {"labels": str(album / "labels.csv"), "images": str(album)}
    before = parted(parts_of(**files)[1])
    assert before
    assert run("check", album, "--workers", 0) == 0
    line = f"near-duplicates: 12 pairs, {len(before)} in different splits"
    assert line in capsys.readouterr().out
    assert run("check", album, "--workers", 0, "--groups-out", groups) == 0
    assert "12 groups of 24 images" in " ".join(capsys.readouterr().out.split())
    found = read_groups(groups)
    assert all(found[f"{n:02d}.png"] == found[f"again-{n:02d}.jpg"] for n in range(12))
    assert len(set(found.values())) == 12
    assert run("check", album, "--workers", 0, "--groups", groups) == 0
    assert "12 pairs, 0 in different splits" in capsys.readouterr().out
    data, held = parts_of(**files, groups=str(groups))
    assert held
    assert parted(held) == []
    assert "24 images in 12 groups, which no split divides" in data.notes


def test_check_looks_at_the_test_file_too(album, tmp_path, capsys):
    table = read_labels(album / "labels.csv")
    write_labels(table.take(np.arange(40)), album / "labels.csv")
    write_labels(table.take(np.arange(40, 52)), album / "test.csv")
    test = ["--test-labels", album / "test.csv", "--workers", 0]
    groups = tmp_path / "groups.csv"
    assert run("check", album, *test, "--groups-out", groups) == 0
    said = capsys.readouterr().out
    assert "12 pairs, 12 in different splits" in said
    assert "not listed" not in said
    keys = {"labels": str(album / "labels.csv"), "images": str(album)}
    data, _ = parts_of(**keys, test_labels=str(album / "test.csv"), groups=str(groups))
    assert any("12 groups of the test or validation file also among" in each for each in data.notes)
    shutil.copy(album / "07.png", album / "again-07.jpg")
    assert run("check", album, *test) == 2
    assert "1 image also trained on, the first 'again-07.jpg' = '07.png'" in capsys.readouterr().out
    assert run("check", album, *test, "--set", "overlap=allow") == 0


def test_a_run_keeps_its_split(album, tmp_path, capsys):
    """Its configuration gives the same one again; groups that changed meanwhile are refused."""
    groups, first = tmp_path / "groups.csv", tmp_path / "first"
    assert run("check", album, "--workers", 0, "--groups-out", groups) == 0
    assert run("train", album, "--output", first, "--groups", groups, "--epochs", 1, *QUICK) == 0
    assert main(["train", "--resume", "--output", str(first)]) == 0
    labels = Run.open(first).labels
    held = {name for name, soft in zip(labels.images, labels.has_soft, strict=True) if not soft}
    keys = json.loads((first / "run.json").read_text())["config"]
    assert keys["groups"] == str(groups)
    assert parts_of(**keys)[1] == held
    groups.write_text(groups.read_text().replace("again-03.jpg,03.png", "again-03.jpg,04.png"))
    capsys.readouterr()
    assert main(["train", "--resume", "--output", str(first)]) == 2
    assert "changed since the run began: the training labels" in capsys.readouterr().err
