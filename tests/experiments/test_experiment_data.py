"""What an experiment runs on: official layouts are found, trained and judged, in small."""

import json

import numpy as np
import pytest
from malformed import put
from PIL import Image
from sklearn.metrics import average_precision_score
from test_reproduce import csv_of, words_of
from test_reproduce_photos import ONE, SMALL

from g2netpl.cli import main
from g2netpl.experiments.data import ArrayData, PhotoData, find_dataset
from g2netpl.experiments.paper import OURS

PAIRS = [
    ("VOC2012/ImageSets/Main/train.txt", "VOC2012/ImageSets/Main/val.txt"),
    ("VOCdevkit/VOC2012/ImageSets/Main/train.txt", "VOCdevkit/VOC2012/ImageSets/Main/val.txt"),
    ("annotations/instances_train2014.json", "annotations/instances_val2014.json"),
    ("coco/annotations/instances_train2017.json", "coco/annotations/instances_val2017.json"),
    ("formatted_train_labels.npy", "formatted_val_labels.npy"),
    ("NUS-WIDE/ImageList/TrainImagelist.txt", "NUS-WIDE/ImageList/TestImagelist.txt"),
    ("train.csv", "test.csv"),
]


@pytest.mark.parametrize("pair", PAIRS, ids=[train for train, _ in PAIRS])
def test_an_official_layout_is_found_if_both_files_exist(tmp_path, capsys, pair):
    put(tmp_path / pair[0], "")
    words = ["reproduce", "table1", "--data", str(tmp_path), "--output", str(tmp_path / "out")]
    assert main(words) == 2
    shown = capsys.readouterr().err
    assert (shown.count("\n"), f"{tmp_path}: no data found" in shown) == (1, True)
    put(tmp_path / pair[1], "")
    files = [str(tmp_path / name) for name in pair]
    assert find_dataset(str(tmp_path), images="x") == PhotoData(str(tmp_path), *files, "x")


def test_label_files_and_features_are_recognised(photos, tmp_path):
    files = str(photos / "train.csv"), str(photos / "test.csv")
    data = find_dataset(*files, "pictures", {"mode": "linear"})
    assert data == PhotoData(files[0], *files, "pictures", {"mode": "linear"})
    assert (data.name, data.keys["mode"]) == ("train.csv", "linear")
    labels = np.eye(4, 3, dtype=np.int8)
    np.savez(tmp_path / "train.npz", features=labels + 0.5, labels=labels)
    np.savez(tmp_path / "meta.npz", classes=np.array(["a", "b", "c"]))
    put(tmp_path / "train.csv", "")  # next to it, and not read
    put(tmp_path / "test.csv", "")
    data = find_dataset(str(tmp_path))
    assert isinstance(data, ArrayData)
    assert (data.name, data.test, len(data.train)) == (tmp_path.name, None, 4)


# --- the three data sets of the paper, in small -------------------------------------------------

VOC_NAMES = [*(f"class {number:02d}" for number in range(19)), "aeroplane"]
COCO_NAMES = [*(f"thing {number:02d}" for number in range(79)), "toothbrush"]
NUS_NAMES = sorted([*(f"concept{number:02d}" for number in range(80)), "zebra"])
COUNTS = {"train": 20, "test": 10}


def photo(path, random):
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(random.integers(0, 256, (24, 32, 3), dtype=np.uint8)).save(path)


def voc(root, truth, random):
    main_folder = root / "VOC2012/ImageSets/Main"
    for part, listed in (("train", "train"), ("test", "val")):
        names = [f"2008_{part == 'test':d}{row:05d}" for row in range(len(truth[part]))]
        put(main_folder / f"{listed}.txt", "".join(f"{name}\n" for name in names))
        for column, label in enumerate(VOC_NAMES):
            signs = np.where(truth[part][:, column], " 1", "-1")
            lines = (f"{name} {sign}\n" for name, sign in zip(names, signs, strict=True))
            put(main_folder / f"{label}_{listed}.txt", "".join(lines))
        for name in names:
            photo(root / f"VOC2012/JPEGImages/{name}.jpg", random)
        yield part, [f"{name}.jpg" for name in names]


def coco(root, truth, random):
    categories = [{"id": number, "name": name} for number, name in enumerate(COCO_NAMES, start=1)]
    for part, listed in (("train", "train2014"), ("test", "val2014")):
        rows = range(len(truth[part]))
        names = [f"COCO_{listed}_{row:012d}.jpg" for row in rows]
        images = [{"id": row, "file_name": names[row]} for row in rows]
        pairs = np.argwhere(truth[part]).tolist()
        objects = [
            {"id": number, "image_id": row, "category_id": column + 1}
            for number, (row, column) in enumerate(pairs)
        ]
        content = {"images": images, "annotations": objects, "categories": categories}
        put(root / f"annotations/instances_{listed}.json", json.dumps(content))
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
        for column, label in enumerate(NUS_NAMES):
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
    if data == "VOC":  # columns are sorted by name
        order = np.argsort(VOC_NAMES)
        truth = {part: values[:, order] for part, values in truth.items()}
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
    known = ["93.6", "89.8"] if data == "VOC" else ["", ""]
    assert [line["published"] for line in lines] == known
    shown = words_of(out)
    assert f"published for {data}" in shown
    k = truth["train"].sum() / 20
    expected = f"20 images (a fifth held out), {classes} classes, {k:.2f} positives each; 10 test"
    assert expected in shown
