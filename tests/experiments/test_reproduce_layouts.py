"""`g2netpl reproduce` trained through the official layouts of the paper's data sets, in small."""

import json

import numpy as np
import pytest
from coco_files import coco_annotation
from PIL import Image
from sklearn.metrics import average_precision_score
from test_official_layouts import MAIN, coco_file, put
from test_reproduce import csv_of, words_of
from test_reproduce_photos import ONE, SMALL

from g2netpl.cli import main
from g2netpl.experiments.paper import OURS

NAMES = """
aeroplane bicycle bird boat bottle bus car cat chair cow diningtable dog horse motorbike person
pottedplant sheep sofa train tvmonitor
"""
VOC_NAMES = NAMES.split()
COCO_NAMES = [*(f"thing {number:02d}" for number in range(79)), "toothbrush"]
CONCEPTS = [*(f"concept {number:02d}" for number in range(80)), "zebra"]
COUNTS = {"train": 20, "test": 10}


def photo(path, random):
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(random.integers(0, 256, (24, 32, 3), dtype=np.uint8)).save(path)


def voc(root, truth, random):
    for part, listed in (("train", "train"), ("test", "val")):
        names = [f"2008_{part == 'test':d}{row:05d}" for row in range(len(truth[part]))]
        put(root / MAIN / f"{listed}.txt", "".join(f"{name}\n" for name in names))
        for column, label in enumerate(VOC_NAMES):
            signs = np.where(truth[part][:, column], " 1", "-1")
            lines = (f"{name} {sign}\n" for name, sign in zip(names, signs, strict=True))
            put(root / MAIN / f"{label}_{listed}.txt", "".join(lines))
        for name in names:
            photo(root / f"VOC2012/JPEGImages/{name}.jpg", random)
        yield part, [f"{name}.jpg" for name in names]


def coco(root, truth, random):
    categories = [{"id": number, "name": name} for number, name in enumerate(COCO_NAMES, start=1)]
    for part, listed in (("train", "train2014"), ("test", "val2014")):
        rows = range(len(truth[part]))
        names = [f"COCO_{listed}_{row:012d}.jpg" for row in rows]
        images = [
            {"id": row, "file_name": names[row], "width": 32, "height": 24, "license": 1}
            for row in rows
        ]
        pairs = np.argwhere(truth[part]).tolist()
        objects = [coco_annotation(i, row, column + 1) for i, (row, column) in enumerate(pairs)]
        coco_file(root / f"annotations/instances_{listed}.json", images, objects, categories)
        for name in names:
            photo(root / listed / name, random)
        order = sorted(rows, key=str)  # ids are sorted as text
        truth[part] = truth[part][order]
        yield part, [names[row] for row in order]


def nuswide(root, truth, random):
    for part, listed in (("train", "Train"), ("test", "Test")):
        names = [f"actor/{part}_{row:04d}.jpg" for row in range(len(truth[part]))]
        text = "".join(name.replace("/", "\\") + "\r\n" for name in names)
        put(root / f"ImageList/{listed}Imagelist.txt", text)
        for column, label in enumerate(CONCEPTS):
            cells = "".join(f"{value:d}\n" for value in truth[part][:, column])
            put(root / f"Groundtruth/TrainTestLabels/Labels_{label}_{listed}.txt", cells)
        for name in names:
            photo(root / "Flickr" / name, random)
        yield part, names


LAYOUTS = {"VOC": (voc, 20), "COCO": (coco, 80), "NUS-WIDE": (nuswide, 81)}


@pytest.mark.parametrize("data", LAYOUTS)
def test_an_official_layout_is_trained_and_judged(tmp_path, data):
    make, classes = LAYOUTS[data]
    random = np.random.default_rng(classes)
    truth = {part: random.random((count, classes)) < 0.15 for part, count in COUNTS.items()}
    for values in truth.values():
        values[np.arange(len(values)), np.arange(len(values)) % classes] = True
    images = dict(make(tmp_path / "data", truth, random))
    out = tmp_path / "out"
    flags = ["--data", tmp_path / "data", "--output", out, "--epochs", "1", *SMALL, *ONE]
    assert main(["reproduce", "labels", *map(str, flags)]) == 0

    folders = sorted(path.parent for path in (out / "full/runs").glob("*/result.json"))
    assert len(folders) == 2
    for folder in folders:
        with np.load(folder / "labels.npz", allow_pickle=False) as arrays:
            assert arrays["images"].tolist() == images["train"]
            observed, trained = arrays["observed"], arrays["soft"]
        assert trained.sum() == 16  # a fifth of the 20 images is held out
        one = observed[trained]
        assert ((one == 1).sum(axis=1) == 1).all()
        assert ((one == 1) <= truth["train"][trained]).all()
        assert (one != 0).all()
        with np.load(folder / "scores.npz", allow_pickle=False) as arrays:
            assert arrays["test_images"].tolist() == images["test"]
            assert (arrays["test_truth"] == truth["test"]).all()
            logits = arrays["test_logits"].astype(np.float64)  # NaN: an image was not found
        scores = [
            average_precision_score(truth["test"][:, label], logits[:, label])
            for label in range(classes)
            if truth["test"][:, label].any()
        ]
        found = json.loads((folder / "result.json").read_text())["last_test_map"]
        assert found == pytest.approx(sum(scores) / classes, abs=0.02)  # logits have few bits
    lines = csv_of(out / "labels.csv")
    assert [line["method"] for line in lines] == [OURS, "role"]
    assert [line["published"] for line in lines] == (
        ["93.6", "89.8"] if data == "VOC" else ["", ""]
    )
    shown = words_of(out)
    assert f"published for {data}" in shown
    k = truth["train"].sum() / 20
    expected = f"20 images (a fifth held out), {classes} classes, {k:.2f} positives each; 10 test"
    assert expected in shown
