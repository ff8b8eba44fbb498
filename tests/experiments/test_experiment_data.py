"""What an experiment runs on: each layout is found."""

import os

import numpy as np
import pytest
from coco_files import CATEGORIES, coco_annotation, coco_image
from test_official_layouts import (
    MAIN,
    NUS_IMAGES,
    SPML_IMAGES,
    coco_file,
    nus_files,
    put,
    spml_files,
)

from g2netpl import read_labels
from g2netpl.cli import main
from g2netpl.experiments.data import Dataset, find_dataset
from g2netpl.images.features import FeatureFolder, write_features
from g2netpl.labels.table import LabelTable
from g2netpl.utils.errors import InputError

# --- official layouts -----------------------------------------------------------------------------


def voc(folder):
    for part, images in (("train", "abcd"), ("val", "e"), ("trainval", "ae")):
        put(folder / MAIN / f"{part}.txt", "\n".join(images))
        put(folder / MAIN / f"cat_{part}.txt", "".join(f"{image}  1\n" for image in images))


def coco(folder, year=2014):
    for part, count in (("train", 3), ("val", 2)):
        images = [coco_image(number) for number in range(count)]
        labels = [coco_annotation(number, number, 90) for number in range(count)]
        coco_file(folder / f"annotations/instances_{part}{year}.json", images, labels, CATEGORIES)


def spml(folder):
    folder.mkdir(parents=True, exist_ok=True)
    labels = np.array([[1, 0], [0, 0], [1, 1]])
    spml_files(folder, labels, SPML_IMAGES)
    spml_files(folder, labels[:2], SPML_IMAGES[:2], part="val")


def nuswide(folder):
    put(folder / "ImageList/TrainImagelist.txt", "\n".join(NUS_IMAGES))
    put(folder / "ImageList/TestImagelist.txt", "\n".join(NUS_IMAGES))
    nus_files(folder / "TrainTestLabels", "_Train")
    nus_files(folder / "TrainTestLabels", "_Test")


def tables(folder):
    for part, text in (
        ("train", "image,a,b\nx.jpg,1,0\ny.jpg,0,1\n"),
        ("test", "image,a,b\nz,1,0"),
    ):
        put(folder / f"{part}.csv", text)


LAYOUTS = {
    "VOC": (voc, "VOC2012/ImageSets/Main/train.txt", 4, "VOC2012/ImageSets/Main/val.txt", 1),
    "COCO": (
        coco,
        "annotations/instances_train2014.json",
        3,
        "annotations/instances_val2014.json",
        2,
    ),
    "COCO 2017": (
        lambda folder: coco(folder, 2017),
        "annotations/instances_train2017.json",
        3,
        "annotations/instances_val2017.json",
        2,
    ),
    "SPML": (spml, "formatted_train_labels.npy", 3, "formatted_val_labels.npy", 2),
    "NUS-WIDE": (nuswide, "ImageList/TrainImagelist.txt", 3, "ImageList/TestImagelist.txt", 3),
    "tables": (tables, "train.csv", 2, "test.csv", 1),
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_an_official_layout_is_found_and_can_be_read(tmp_path, layout):
    make, train, count, test, test_count = LAYOUTS[layout]
    make(tmp_path)
    dataset = find_dataset(str(tmp_path))
    assert dataset.kind == "images"
    assert dataset.root == str(tmp_path)
    assert os.path.samefile(dataset.labels, tmp_path / train)
    assert os.path.samefile(dataset.test_labels, tmp_path / test)
    assert dataset.images is None
    assert len(read_labels(dataset.labels)) == count
    assert len(read_labels(dataset.test_labels)) == test_count
    assert dataset.name == tmp_path.name


@pytest.mark.parametrize(
    ("make", "below"),
    [
        (voc, "VOCdevkit"),  # and VOC2012 below it
        (nuswide, "NUS-WIDE"),
    ],
)
def test_a_layout_may_be_one_folder_below(tmp_path, make, below):
    make(tmp_path / below)
    dataset = find_dataset(str(tmp_path))
    assert os.path.isfile(dataset.labels)
    assert os.path.isfile(dataset.test_labels)
    assert os.path.realpath(dataset.labels).startswith(os.path.realpath(tmp_path / below))


def test_images_may_lie_elsewhere(tmp_path):
    coco(tmp_path)
    assert find_dataset(str(tmp_path), images="elsewhere").images == "elsewhere"


def test_half_a_layout_is_none(tmp_path):
    coco(tmp_path)
    (tmp_path / "annotations/instances_val2014.json").unlink()
    with pytest.raises(InputError, match="no data found"):
        find_dataset(str(tmp_path))


# --- features, scenes, files ----------------------------------------------------------------------


def features(folder):
    values, labels = np.zeros((4, 2), np.float32), np.eye(4, 3, dtype=np.int8)
    table = LabelTable(tuple("wxyz"), tuple("abc"), labels)
    write_features(folder, FeatureFolder(values, table, values, table))


def test_features_are_found(tmp_path):
    features(tmp_path / "f")
    assert find_dataset(str(tmp_path / "f")) == Dataset("features", str(tmp_path / "f"))
    tables(tmp_path / "f")  # what else lies there changes nothing
    dataset = find_dataset(str(tmp_path / "f"))
    assert dataset.kind == "features"


def test_without_data_there_are_the_scenes():
    dataset = find_dataset(None)
    assert (dataset.kind, dataset.name) == ("scenes", "the built-in scenes")


def test_a_label_file_with_a_test_file(tmp_path):
    tables(tmp_path)
    train, test = str(tmp_path / "train.csv"), str(tmp_path / "test.csv")
    dataset = find_dataset(train, test, "pictures")
    assert dataset == Dataset("images", train, train, test, "pictures")
    assert dataset.name == "train.csv"


@pytest.mark.parametrize("place", ["nowhere", "empty"])
def test_what_is_not_there_is_told_in_one_line(tmp_path, capsys, place):
    (tmp_path / "empty").mkdir()
    root, output = str(tmp_path / place), tmp_path / "out"
    assert main(["reproduce", "table1", "--data", root, "--output", str(output)]) == 2
    shown = capsys.readouterr().err
    assert len(shown.strip().splitlines()) == 1
    assert root in shown
    expected = "no such file or folder" if place == "nowhere" else "ImageSets/Main/train.txt"
    assert expected in shown
    assert not output.exists()
