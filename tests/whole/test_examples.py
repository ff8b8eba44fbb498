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
import torch
from safetensors.numpy import load_file
from sklearn.datasets import make_multilabel_classification
from sklearn.metrics import average_precision_score, roc_auc_score
from torch import nn

from g2netpl import load_run
from g2netpl.core import (
    METHODS,
    Backbone,
    Batch,
    build_method,
    build_model,
    plugins,
    train_epoch,
)
from g2netpl.core.plugins import load_plugins
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

    sure = {row.pop("image"): row for row in rows_of(folder / "sure.csv")}
    for row in rows:
        kept = sure[row["image"]][row["class"]]
        chance = float(row["score"])
        sign = "1" if chance >= 0.9 else "0" if chance <= 0.1 else ""
        assert kept in ("", sign), row  # the network must be sure too
    assert "with a chance of" in shown


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
    tried = [float(each) for each in re.findall(r"validation mAP ([\d.]+)", shown)]
    assert len(tried) == 4
    assert tried == sorted(tried, reverse=True)
    assert "20% of 2400 training labels are known" in shown


def test_learning_curve(run):
    lines = [line.split() for line in run("learning_curve.py", "--epochs", 5).splitlines()]
    assert [line[0] for line in lines] == ["30", "60", "120", "300", "600"]
    means = [float(line[3]) for line in lines]
    chance = make_multilabel_classification(
        n_samples=900, n_features=30, n_classes=8, length=60, random_state=0
    )[1].mean()  # mAP of a random order
    assert chance + 0.05 < means[0] < means[-1] - 0.05


def test_your_own_loop(run):
    lines = [line.split() for line in run("your_own_loop.py").splitlines()]
    found = {line[0]: int(line[2].rstrip("%")) for line in lines}
    assert list(found) == ["an", "epr", "g2netpl"]
    assert found["an"] < 20 < 60 < min(found["epr"], found["g2netpl"])


def test_sampled_positive_loop(run):
    found, right = map(int, re.findall(r"(\d+)%", run("sampled_positive_loop.py")))
    assert found > 30
    assert right > 60  # a quarter of the unknown labels are positive


def test_own_method(monkeypatch):
    """`own_method.py` is a plugin: its method trains next to AN on the same labels."""
    monkeypatch.setattr(plugins, "LOADED", [])
    monkeypatch.setitem(METHODS, "steady", None)  # gone after the test
    del METHODS["steady"]
    path = EXAMPLES / "own_method.py"
    load_plugins([str(path)])
    assert len(path.read_text(encoding="utf-8").splitlines()) <= 40
    images, truth = make_multilabel_classification(
        n_samples=600, n_features=30, n_classes=8, n_labels=2, length=60, random_state=0
    )
    images, truth = torch.from_numpy(images / 10).float(), torch.from_numpy(truth).to(torch.int8)
    observed = torch.where(torch.rand(truth.shape, generator=torch.manual_seed(0)) < 0.3, truth, -1)
    scores = {}
    for name in ("an", "steady"):
        method = build_method(name, observed)
        model = build_model(Backbone(nn.Identity(), 30), 8, seed=0)
        optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)

        def step(loss, optimizer=optimizer):
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            return True

        batches = [
            Batch(rows, observed[rows], images[rows]) for rows in torch.arange(600).split(20)
        ]
        for epoch in range(10):
            train_epoch(model, method, batches, step, epoch / 10)
        scores[name] = average_precision_score(truth, model.predict(images).detach())
    assert min(scores.values()) > truth.double().mean() + 0.1
    labels, hidden = method.pseudo_labels(torch.arange(600)), observed == -1
    assert torch.equal(labels[~hidden], observed[~hidden].float())
    assert roc_auc_score(truth[hidden], labels[hidden]) > 0.7


def test_own_format_and_backbone(run, tmp_path):
    shown = run("own_format_and_backbone.py", "--scenes", 160, "--epochs", 3)
    folder, truth = tmp_path / "own-example", make_scenes(160, 80)
    lines = [json.loads(line) for line in (folder / "labels.jsonl").read_text().splitlines()]
    said = [
        (line["file"], name, sign)
        for line in lines
        for word, sign in (("yes", 1), ("no", 0))
        for name in line[word]
    ]
    assert number(r"(\d+) labels written", shown) == len(said)
    assert 0.25 < len(said) / 1600 < 0.35
    assert all(true_label(truth.train.values, image, name) == sign for image, name, sign in said)
    with np.load(folder / "run" / "labels.npz") as kept:
        assert (kept["observed"] != -1).sum() == len(said)
    tensors = load_file(folder / "run" / "model.safetensors")
    assert tensors["backbone.look.0.weight"].shape == (24, 3, 5, 5)
    assert tensors["head.classifier.weight"].shape == (10, 96)
    with np.load(folder / "run" / "scores.npz") as kept:
        by_part = {name: kept[name] for name in kept.files}
    assert number(r"test mAP with patches: ([\d.]+)%", shown) / 100 > truth.test.values.mean()
    assert by_part


ALONE = """
import runpy, sys
script, sys.argv = sys.argv[1], sys.argv[1:]
runpy.run_path(script, run_name="__main__")
assert not {"torch", "g2netpl", "sklearn", "timm"} & set(sys.modules)
"""


def test_onnx_only(small_run, small_bundle, photos):
    names = sorted(photos.glob("test-*.png"))[:12]  # 64 px, squashed to 48
    script = [sys.executable, "-c", ALONE, EXAMPLES / "onnx_only.py", small_bundle, *names]
    done, plain = (
        subprocess.run([*script, *more], capture_output=True, text=True)
        for more in (["--json"], [])
    )
    assert done.returncode == 0, done.stderr
    said = [json.loads(line) for line in done.stdout.splitlines()]
    trained = load_run(small_run)
    expected = trained.predict(names)  # by PyTorch, from its own resize
    found = np.array([[line["scores"][name] for name in trained.classes] for line in said])
    np.testing.assert_allclose(found, expected, atol=0.02)
    limits = [2.0 if limit is None else limit for limit in trained.thresholds.per_class]
    for line, scores, photo in zip(said, found, names, strict=True):
        assert line["photo"] == str(photo)
        chosen = [
            name for name, s, t in zip(trained.classes, scores, limits, strict=True) if s >= t
        ]
        assert line["labels"] == chosen
    first = f"{names[0]}: " + ", ".join(
        f"{name} ({said[0]['scores'][name]:.0%})" for name in said[0]["labels"]
    )
    assert plain.stdout.splitlines()[0] == (first if said[0]["labels"] else f"{names[0]}: nothing")


def test_active_loop(run, tmp_path):
    shown = run(
        *("active_loop.py", "--scenes", 100, "--rounds", 2, "--questions", 60, "--epochs", 3)
    )
    folder, truth = tmp_path / "active-example", make_scenes(100, 100).train.values
    before, after = (rows_of(folder / f"labels-{number}.csv") for number in (1, 2))
    answers = [
        json.loads(line) for line in (folder / "run-1" / "review.jsonl").read_text().splitlines()
    ]
    assert len({(each["image"], each["class"]) for each in answers}) == 60
    for each in answers:
        assert each["new"] == true_label(truth, each["image"], each["class"])
    decided = {(each["image"], each["class"]): str(each["new"]) for each in answers}
    for old, new in zip(before, after, strict=True):
        for name in CLASSES:
            asked = decided.get((old["image"], name))
            assert new[name] == (old[name] if asked is None else asked)
            assert asked is None or old[name] == ""
    yes = sum(each["new"] for each in answers)
    assert f"{yes} times yes, {60 - yes} times no" in shown
    assert "round 1: 30 labels" in shown
    assert "round 2: 90 labels" in shown
    reached = json.loads((folder / "run-2" / "result.json").read_text())["test_map"]
    assert f"round 2: 90 labels, test mAP {reached:.1%}" in shown
    assert not (folder / "run-2" / "review.jsonl").exists()


NOTEBOOK = EXAMPLES / "tour.ipynb"


def test_the_notebook_is_one_that_jupyter_opens():
    assert NOTEBOOK.stat().st_size < 200_000
    book = json.loads(NOTEBOOK.read_text(encoding="utf-8"))
    assert set(book) == {"cells", "metadata", "nbformat", "nbformat_minor"}
    assert (book["nbformat"], book["nbformat_minor"]) == (4, 5)
    assert len({cell["id"] for cell in book["cells"]}) == len(book["cells"])
    for cell in book["cells"]:
        assert re.fullmatch(r"[A-Za-z0-9_-]{1,64}", cell["id"])
        own = {"execution_count", "outputs"} if cell["cell_type"] == "code" else set()
        assert set(cell) == {"cell_type", "id", "metadata", "source"} | own
        assert cell["cell_type"] in ("code", "markdown")
        assert all(isinstance(line, str) for line in cell["source"])
        assert cell.get("outputs", []) == []


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

    truth = make_scenes(500, 500)
    assert "500 of 5000 labels are known" in shown
    reached = {
        name: float(value) for name, value in re.findall(r"(\w+) +test mAP ([\d.]+)%", shown)
    }
    for name, run in names["runs"].items():
        photos = [names["folder"] / "photos" / f"images/{each}.png" for each in truth.test.images]
        by_hand = average_precision_score(truth.test.values, run.predict(photos))
        assert reached[name] == pytest.approx(100 * by_hand, abs=0.06)
    assert reached["g2netpl"] > 100 * truth.test.values.mean() + 10
    moving, hidden = names["moving"], names["unknown"]
    assert moving.shape == (names["EPOCHS"] + 1, 500, 10)
    assert roc_auc_score(truth.train.values[hidden], moving[-1][hidden]) > 0.6
    rows = rows_of(names["folder"] / "completed.csv")
    new = [row for row in rows if row["source"] != "observed" and row["value"] == "1"]
    right = np.mean([true_label(truth.train.values, row["image"], row["class"]) for row in new])
    assert f"confidence=None: {len(new)} added, {right:.1%} right" in shown
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


def test_every_script_is_listed_and_tested():
    listed = (EXAMPLES / "README.md").read_text(encoding="utf-8")
    tested = Path(__file__).read_text(encoding="utf-8")
    assert len(SCRIPTS) >= 7
    for name in SCRIPTS:
        assert f"({name})" in listed
        assert f'"{name}"' in tested
        said = (EXAMPLES / name).read_text(encoding="utf-8").split('"""')[1]
        assert f" examples/{name}" in said
