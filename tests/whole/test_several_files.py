"""A team with two label files of different classes: check, train, complete, and go on."""

import csv
import json
import random
from pathlib import Path

import pytest
from PIL import Image

from g2netpl import ReviewSession, load_run, read_labels
from g2netpl.cli import main
from g2netpl.runs.export import describe

COLOURS = {"car": "red", "cat": "green", "tree": "blue"}
QUICK = ["--backbone", "tiny", "--image-size", "32", "--epochs", "1", "--workers", "0"]
QUICK += ["--device", "cpu"]
FILES = ["--labels", "alice.csv", "--labels", "bob.json", "--set", "aliases=aliases.txt"]


def draw(path, shown):
    """A picture with a bar for each thing that it shows, and an edge of its own."""
    picture = Image.new("RGB", (48, 48), "grey")
    for place, (name, colour) in enumerate(COLOURS.items()):
        if name in shown:
            picture.paste(colour, (place * 16, 8, place * 16 + 14, 40))
    picture.paste((int(path.stem), 7, 9), (0, 44, 48, 48))
    picture.save(path)


@pytest.fixture
def team(tmp_path, monkeypatch):
    """Alice knows cars and cats on 28 of 40 photos, Bob automobiles and trees on 28."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    chance, truth = random.Random(0), {}
    (tmp_path / "photos").mkdir()
    for number in range(40):
        shown = [name for name in COLOURS if chance.random() < 0.5]
        truth[f"{number:02}.png"] = shown
        draw(tmp_path / "photos" / f"{number:02}.png", shown)
    names = list(truth)
    with open("alice.csv", "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["image", "car", "cat"])
        writer.writerows([n, int("car" in truth[n]), int("cat" in truth[n])] for n in names[:28])
    bob = [name for name in names[12:] if {"car", "tree"} & set(truth[name])]
    content = {
        "images": [{"id": int(name[:2]), "file_name": name} for name in bob],
        "categories": [{"id": 1, "name": "automobile"}, {"id": 2, "name": "tree"}],
        "annotations": [
            {"id": 10 * int(name[:2]) + number, "image_id": int(name[:2]), "category_id": number}
            for name in bob
            for number, thing in ((1, "car"), (2, "tree"))
            if thing in truth[name]
        ],
    }
    (tmp_path / "bob.json").write_text(json.dumps(content))
    (tmp_path / "aliases.txt").write_text("automobile = car\n")
    (tmp_path / "run.toml").write_text(
        'labels = ["alice.csv", "bob.json"]\nimages = "photos"\naliases = "aliases.txt"\n'
    )
    known = {(n, c): int(c in truth[n]) for n in names[:28] for c in ("car", "cat")}
    known |= {(n, c): int(c in truth[n]) for n in bob for c in ("car", "tree")}
    return known


def test_a_team_checks_trains_and_completes(team, capsys):
    assert main(["check", *FILES, "--images", "photos"]) == 0
    out = capsys.readouterr().out
    assert "2 label files joined: " in out
    assert "1 of 3 classes are in more than one" in out
    assert f"{sum(team.values())} positive and {len(team) - sum(team.values())} negative" in out

    assert main(["train", "--config", "run.toml", *QUICK, "--output", "run"]) == 0
    assert "note: 2 label files joined: " in capsys.readouterr().out
    run = load_run("run")
    assert run.classes == ("car", "cat", "tree")
    assert [path.rpartition("/")[2] for path in run.config.labels] == ["alice.csv", "bob.json"]

    assert main(["complete", "run", "--details", "all.csv", "--output", "labels.csv"]) == 0
    completed = read_labels("labels.csv")
    assert completed.is_complete
    with open("all.csv", newline="", encoding="utf-8") as file:
        observed = {
            (row["image"], row["class"]): int(row["value"])
            for row in csv.DictReader(file)
            if row["source"] == "observed"
        }
    assert observed == team

    assert main(["report", "run"]) == 0
    page = Path("run/report.html").read_text(encoding="utf-8")
    assert "trained on alice.csv + bob.json" in page
    assert describe(run).training["labels"] == "alice.csv + bob.json"

    review = ReviewSession("run")
    review.decide("0" * 32, 0, 2, "yes", "random")
    review.close()
    assert main(["train", "--continue-from", "run", "--output", "second"]) == 0
    assert "1 label by review: 1 positive, 0 negative" in capsys.readouterr().out
    assert load_run("second").config.labels == run.config.labels


def test_a_run_goes_on_with_the_same_files_alone(team, capsys):
    assert main(["train", "--config", "run.toml", *QUICK, "--output", "run"]) == 0
    assert main(["train", "--resume", "--output", "run"]) == 0
    assert "this run is finished already" in capsys.readouterr().out
    fewer = ["train", "--resume", "--labels", "alice.csv", "--output", "run"]
    assert main(fewer) == 2
    assert "changed since the run began: the training labels" in capsys.readouterr().err
    content = json.loads(Path("bob.json").read_text())
    content["annotations"][0]["category_id"] = 3 - content["annotations"][0]["category_id"]
    Path("bob.json").write_text(json.dumps(content))
    flags = ["train", "--resume", "--set", "contradictions=unknown", "--output", "run"]
    assert main(flags) == 2
    assert "the training labels" in capsys.readouterr().err
