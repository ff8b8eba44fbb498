"""Without the training stack: labels, images and bundles work, the rest says what to install."""

import csv
import json
import subprocess
import sys

import numpy as np
import pytest

from g2netpl import load_run
from g2netpl.cli import main

WITHOUT = """
import sys
MISSING = set(sys.argv[1].split(","))
class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in MISSING:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Missing())
from g2netpl.cli import main
code = main(sys.argv[2:])
assert not MISSING & set(sys.modules)
sys.exit(code)
"""
TRAINING = "torch,torchvision,timm,accelerate,safetensors,sklearn,onnx,onnxscript"


def without(missing, *arguments):
    return subprocess.run(
        [sys.executable, "-c", WITHOUT, missing, *map(str, arguments)],
        capture_output=True,
        text=True,
    )


@pytest.fixture
def light():
    """Run a command where nothing of the training stack can be imported."""

    def run(*arguments):
        done = without(TRAINING, *arguments)
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run


def test_labels_are_checked_hidden_and_converted(light, photos, tmp_path):
    labels = photos / "train.csv"
    page = tmp_path / "check.html"
    shown = light("check", "--labels", labels, "--images", photos, "--html", page)
    assert "a training may begin" in shown
    assert page.stat().st_size > 1000
    shown = light("convert", labels, tmp_path / "o.csv", "--setting", "fspl")
    assert "60 of 600 known labels stay visible" in shown
    light("convert", tmp_path / "o.csv", tmp_path / "c.json", "--to", "coco")
    assert len(json.loads((tmp_path / "c.json").read_text())["annotations"]) == 60


def test_a_bundle_predicts_with_the_bytes_and_scores_of_training(
    light,
    small_run,
    small_bundle,
    photos,
    tmp_path,
):
    out = tmp_path / "scores.csv"
    light(
        "predict", small_bundle, "--images", photos, "--list", photos / "test.csv", "--output", out
    )
    with open(out, newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    run = load_run(small_run)
    expected = run.predict([photos / row["image"] for row in rows])  # squashed by torch
    written = np.array([[float(row[name]) for name in run.classes] for row in rows])
    np.testing.assert_allclose(written, expected, atol=1e-4)
    tags = [";".join(np.array(run.classes)[each]) for each in run.thresholds.decide(expected)]
    assert [row["labels"] for row in rows] == tags


def test_the_labels_of_a_run_are_completed(light, small_run, tmp_path):
    out, expected = tmp_path / "light.csv", tmp_path / "full.csv"
    light("complete", small_run, "--output", out)
    assert main(["complete", str(small_run), "--output", str(expected)]) == 0
    assert out.read_bytes() == expected.read_bytes()
    assert len(out.read_text().splitlines()) == 1 + 600


@pytest.mark.parametrize(
    ("missing", "extra", "arguments"),
    [
        (TRAINING, "train", ["train", "--labels", "a.csv", "--output", "run"]),
        (TRAINING, "train", ["predict", "RUN", "--images", "PHOTOS", "--output", "scores.csv"]),
        (TRAINING, "train", ["methods"]),
        (TRAINING, "export", ["export", "RUN", "--output", "b.onnx"]),
        ("onnxscript", "export", ["export", "RUN", "--output", "b.onnx"]),
        ("onnxruntime", "onnx", ["predict", "BUNDLE", "--images", "PHOTOS", "--output", "s.csv"]),
    ],
    ids=lambda each: each[0] if isinstance(each, list) else each.partition(",")[0],
)
def test_what_is_missing_is_told_in_one_line(
    missing,
    extra,
    arguments,
    small_run,
    small_bundle,
    photos,
    tmp_path,
    monkeypatch,
):
    monkeypatch.chdir(tmp_path)
    known = {"RUN": small_run, "BUNDLE": small_bundle, "PHOTOS": photos}
    done = without(missing, *(known.get(each, each) for each in arguments))
    assert done.returncode == 2, done.stderr
    assert done.stderr.startswith(f"g2netpl {arguments[0]}: needs ")
    assert done.stderr.endswith(f"which is not installed; pip install 'g2netpl[{extra}]'\n")
    assert done.stderr.count("\n") == 1
    assert not list(tmp_path.iterdir())


def test_the_library_says_the_same():
    code = WITHOUT.partition("from g2netpl.cli")[0] + (
        "import g2netpl\n"
        "g2netpl.read_labels, g2netpl.evaluate, g2netpl.load_bundle, g2netpl.load_run\n"
        "try:\n    from g2netpl import train\n"
        "except ModuleNotFoundError as problem:\n    print(problem)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, TRAINING], capture_output=True, text=True, check=True
    )
    says = "g2netpl.train needs torch, which is not installed; pip install 'g2netpl[train]'\n"
    assert done.stdout == says
