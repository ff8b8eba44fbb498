"""Every script in examples/ runs as a user would run it, and what it says is true."""

import csv
import json
import os
import re
import runpy
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file
from sklearn.datasets import make_multilabel_classification
from sklearn.metrics import average_precision_score, roc_auc_score

from g2netpl import load_run
from g2netpl.images.scenes import CLASSES, make_scenes
from g2netpl.runs.prior import read_scores

EXAMPLES = Path(__file__).parents[2] / "examples"
SCRIPTS = sorted(path.name for path in EXAMPLES.glob("*.py"))


@pytest.fixture
def run(tmp_path):
    """Run a script in an empty folder; warnings are errors."""

    def in_folder(script, *arguments):
        done = subprocess.run(
            [sys.executable, "-W", "error", EXAMPLES / script, *map(str, arguments)],
            cwd=tmp_path,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    return in_folder


def rows_of(path):
    with open(path, newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def number(pattern, text):
    (found,) = re.findall(pattern, text)
    return float(found)


def true_label(truth, image, name):
    row = int(re.search(r"train-(\d+)", image)[1])
    return truth[row, CLASSES.index(name)]


def test_photos_to_table(run, tmp_path):
    shown = run("photos_to_table.py", "--scenes", 400, "--epochs", 10)
    folder, truth = tmp_path / "photos-example", make_scenes(400, 0).train.values
    tags = {row["image"]: row["labels"] for row in rows_of(folder / "tags.csv")}
    assert len(tags) == 240
    assert "240 tagged photos, 10 classes, 240 tags" in shown
    rows = rows_of(folder / "completed.csv")
    assert len(rows) == 400 * 10
    observed = {row["image"]: row["class"] for row in rows if row["source"] == "observed"}
    assert observed == tags
    assert all(row["value"] == "1" for row in rows if row["source"] == "observed")

    filled = [row for row in rows if row["source"] == "soft"]
    new = sum(row["value"] == "1" for row in filled)
    assert number(r"([\d,]+) new positives, ", shown) == new
    answers = [true_label(truth, row["image"], row["class"]) for row in filled]
    assert roc_auc_score(answers, [float(row["score"]) for row in filled]) > 0.6

    assert len(rows_of(folder / "sure.csv")) == 400


def test_grid_search(run, tmp_path):
    shown = run("grid_search.py", "--rows", 600, "--epochs", 6)
    _, truth = make_multilabel_classification(
        n_samples=600, n_features=30, n_classes=8, n_labels=2, length=60, random_state=0
    )
    scores = np.load(tmp_path / "scores.npy")
    by_hand = np.mean(
        [average_precision_score(truth[300:, column], scores[:, column]) for column in range(8)]
    )
    reached = number(r"test mAP of the best: ([\d.]+)", shown)
    assert reached == pytest.approx(by_hand, abs=5e-4)
    assert reached > number(r"unknown as no: ([\d.]+)", shown)


def test_your_own_loop(run):
    lines = [line.split() for line in run("your_own_loop.py").splitlines()]
    found = {line[0]: int(line[2].rstrip("%")) for line in lines}
    assert list(found) == ["an", "epr", "g2netpl"]
    assert found["an"] < 20 < 60 < min(found["epr"], found["g2netpl"])


def test_sampled_positive_loop(run):
    found, right = map(int, re.findall(r"(\d+)%", run("sampled_positive_loop.py")))
    assert found > 30
    assert right > 60  # a quarter of the unknown labels are positive


def test_own_format_and_backbone(run, tmp_path):
    shown = run("own_format_and_backbone.py", "--scenes", 160, "--epochs", 3)
    folder, truth = tmp_path / "own-example", make_scenes(160, 80)
    lines = [json.loads(line) for line in (folder / "labels.jsonl").read_text().splitlines()]
    given = sum(len(line["yes"]) + len(line["no"]) for line in lines)
    assert number(r"(\d+) labels written", shown) == given
    with np.load(folder / "run" / "labels.npz") as kept:
        assert (kept["observed"] != -1).sum() == given
    tensors = load_file(folder / "run" / "model.safetensors")
    assert tensors["backbone.look.0.weight"].shape == (24, 3, 5, 5)
    assert number(r"test mAP with patches: ([\d.]+)%", shown) / 100 > truth.test.values.mean()


ALONE = """
import runpy, sys
script, sys.argv = sys.argv[1], sys.argv[1:]
runpy.run_path(script, run_name="__main__")
assert not {"torch", "g2netpl", "sklearn", "timm"} & set(sys.modules)
"""


def test_onnx_only(small_run, small_bundle, photos):
    names = sorted(photos.glob("test-*.png"))[:12]  # 64 px, squashed to 48
    script = [sys.executable, "-c", ALONE, EXAMPLES / "onnx_only.py", small_bundle, *names]
    done = subprocess.run([*script, "--json"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    lines, trained = [json.loads(line) for line in done.stdout.splitlines()], load_run(small_run)
    found = np.array([[line["scores"][name] for name in trained.classes] for line in lines])
    np.testing.assert_allclose(found, trained.predict(names), atol=0.02)  # from its own resize
    limits = [2.0 if limit is None else limit for limit in trained.thresholds.per_class]
    for line, scores, photo in zip(lines, found, names, strict=True):
        assert line["photo"] == str(photo)
        chosen = [n for n, s, t in zip(trained.classes, scores, limits, strict=True) if s >= t]
        assert line["labels"] == chosen


def test_active_loop(run, tmp_path):
    shown = run(
        *("active_loop.py", "--scenes", 100, "--rounds", 2, "--questions", 60, "--epochs", 3)
    )
    folder, truth = tmp_path / "active-example", make_scenes(100, 100).train.values
    answers = [
        json.loads(line) for line in (folder / "run-1" / "review.jsonl").read_text().splitlines()
    ]
    assert len({(each["image"], each["class"]) for each in answers}) == 60
    for each in answers:
        assert each["new"] == true_label(truth, each["image"], each["class"])
    yes = sum(each["new"] for each in answers)
    assert f"{yes} times yes, {60 - yes} times no" in shown
    assert "round 1: 30 labels" in shown
    assert "round 2: 90 labels" in shown
    reached = json.loads((folder / "run-2" / "result.json").read_text())["test_map"]
    assert f"round 2: 90 labels, test mAP {reached:.1%}" in shown
    assert not (folder / "run-2" / "review.jsonl").exists()


NOTEBOOK = EXAMPLES / "tour.ipynb"


def test_the_notebook_runs_from_top_to_bottom(monkeypatch, tmp_path, capsys):
    import tempfile

    from matplotlib import pyplot

    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    pyplot.switch_backend("Agg")
    names = {}
    for cell in json.loads(NOTEBOOK.read_text(encoding="utf-8"))["cells"]:
        if cell["cell_type"] == "code":
            exec(compile("".join(cell["source"]), cell["id"], "exec"), names)
    figures = [pyplot.figure(each) for each in pyplot.get_fignums()]
    pictures = [[len(panel.images) for panel in figure.axes] for figure in figures]
    assert pictures == [[1] * 5, [0], [0] * 2, [1] * 6]
    pyplot.close("all")
    shown = capsys.readouterr().out

    assert "500 of 5000 labels are known" in shown
    reached = dict(re.findall(r"(\w+) +test mAP ([\d.]+)%", shown))
    assert float(reached["g2netpl"]) > 100 * make_scenes(500, 500).test.values.mean() + 10
    assert (names["folder"] / "g2netpl" / "report.html").stat().st_size > 10_000


def test_clip_prior(photos, tmp_path, monkeypatch):
    """The table is one that `train --prior` reads; without open_clip one line says so."""
    path = EXAMPLES / "clip_prior.py"
    monkeypatch.setitem(sys.modules, "open_clip", None)
    example = runpy.run_path(str(path))
    classes = ["dog", "cat"]
    with pytest.raises(SystemExit, match="open_clip is not installed; pip install open_clip_torch"):
        example["clip_scores"](classes)

    def score(path):
        return [0.64 if path.name.startswith("train") else 0.3, 0.25]

    example["write_table"](photos, classes, tmp_path / "scores.csv", score)
    table = read_scores(str(tmp_path / "scores.csv"), ["cat", "dog", "bird"])
    assert len(table.scores) == len(list(photos.glob("*.png")))
    assert table.is_matched.tolist() == [True, True, False]
    assert table.scores["cat"].unique().tolist() == [0.25]
    assert table.scores.loc["train-00001.png", "dog"] == 0.64


def test_fiftyone_tags(run, small_run, photos, tmp_path):
    fo = pytest.importorskip("fiftyone", reason="FiftyOne is not installed")
    names = sorted(path.name for path in photos.glob("train-*.png"))[:4]
    dataset = fo.Dataset("g2netpl-example", overwrite=True, persistent=True)
    for number, name in enumerate(names):
        labels = [fo.Classification(label="one")] if number % 2 else []
        known = fo.Classifications(classifications=labels)
        dataset.add_sample(fo.Sample(filepath=str(photos / name), ground_truth=known))
    words = ["fiftyone_tags.py", "g2netpl-example", "--images", photos, "--labels", "tags.csv"]
    run(*words, "--run", small_run)
    assert [row["labels"] for row in rows_of(tmp_path / "tags.csv")] == ["", "one", "", "one"]
    dataset.reload()
    scores = load_run(small_run).predict([photos / name for name in names])
    found = dataset.values("predicted.classifications.confidence")
    assert [len(each or ()) for each in found] == (scores >= 0.5).sum(axis=1).tolist()
    dataset.delete()


def test_every_script_is_listed():
    listed = (EXAMPLES / "README.md").read_text(encoding="utf-8")
    assert len(SCRIPTS) >= 7
    for name in SCRIPTS:
        assert f"({name})" in listed
        said = (EXAMPLES / name).read_text(encoding="utf-8").split('"""')[1]
        assert f" examples/{name}" in said
