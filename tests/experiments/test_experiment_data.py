"""What an experiment runs on: each layout is found; without a test, one is split off."""

import os
from pathlib import Path

import numpy as np
import pytest
from test_official_layouts import (
    NUS_IMAGES,
    SPML_IMAGES,
    coco_annotation,
    coco_file,
    coco_image,
    nus_files,
    put,
    spml_files,
    voc_lists,
)

from g2netpl import read_labels
from g2netpl.base.errors import InputError
from g2netpl.cli import main
from g2netpl.experiments.data import Dataset, find_dataset, with_test_part
from g2netpl.images.features import FeatureFolder, write_features
from g2netpl.labels.formats import csv_table
from g2netpl.labels.table import LabelTable

# --- official layouts -----------------------------------------------------------------------------


def voc(folder):
    voc_lists(folder)  # makes VOC2012/ImageSets/Main/…


def coco(folder, year=2014):
    for part, count in (("train", 3), ("val", 2)):
        images = [coco_image(number) for number in range(count)]
        labels = [coco_annotation(number, number, 90) for number in range(count)]
        coco_file(folder / f"annotations/instances_{part}{year}.json", images, labels)


def spml(folder):
    folder.mkdir(parents=True, exist_ok=True)
    labels = np.array([[1, 0], [0, 0], [1, 1]])
    spml_files(folder, labels, SPML_IMAGES)
    spml_files(folder, labels[:2], SPML_IMAGES[:2], part="val")


def nuswide(folder):
    put(folder / "ImageList/TrainImagelist.txt", "\n".join(NUS_IMAGES))
    put(folder / "ImageList/TestImagelist.txt", "\n".join(NUS_IMAGES))
    nus_files(folder, "TrainTestLabels", "_Train")
    nus_files(folder, "TrainTestLabels", "_Test")


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
    assert with_test_part(dataset, tmp_path / "unused", read_labels(train)) is dataset
    assert not (tmp_path / "unused").exists()


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


# --- a label file alone ---------------------------------------------------------------------------


@pytest.fixture
def alone(tmp_path):
    """A file of 50 images in a folder of its own."""
    random = np.random.default_rng(0)
    names = tuple(f"sub/{number:02d}, ü.jpg" for number in range(50))
    table = LabelTable(names, ("cat", 'a "dog"'), random.integers(-1, 2, (50, 2)))
    path = tmp_path / "mine" / "labels.csv"
    path.parent.mkdir()
    csv_table.write(table, path)
    return path, table


def test_a_fifth_becomes_the_test(tmp_path, alone):
    path, table = alone
    dataset = with_test_part(find_dataset(str(path)), tmp_path / "out" / "labels", table)
    train, test = read_labels(dataset.labels), read_labels(dataset.test_labels)
    assert (len(train), len(test)) == (40, 10)
    assert not set(train.images) & set(test.images)
    assert set(train.images) | set(test.images) == set(table.images)
    truth = dict(zip(table.images, table.values.tolist(), strict=True))
    for part in (train, test):
        assert part.classes == table.classes
        for name, row in zip(part.images, part.values.tolist(), strict=True):
            assert row == truth[name]
    assert dataset.images == str(tmp_path / "mine")  # where the images of the file are
    assert dataset.root == str(path)
    assert {part.name for part in (tmp_path / "out" / "labels").iterdir()} == {
        "train.csv",
        "test.csv",
    }


def test_the_test_is_a_draw_and_always_the_same(tmp_path, alone):
    path, table = alone
    found = []
    for name in "ab":
        dataset = with_test_part(find_dataset(str(path)), tmp_path / name, table)
        found.append(Path(dataset.test_labels).read_bytes())
    assert found[0] == found[1]
    images = read_labels(dataset.test_labels).images
    assert set(images) not in (set(table.images[:10]), set(table.images[-10:]))


@pytest.mark.parametrize(("part", "keep"), [("train.csv", "lines"), ("test.csv", "half a line")])
def test_a_part_that_was_cut_off_is_written_again(tmp_path, alone, part, keep):
    path, table = alone
    dataset = with_test_part(find_dataset(str(path)), tmp_path / "labels", table)
    file = tmp_path / "labels" / part
    whole = file.read_bytes()
    lines = whole.splitlines(keepends=True)
    file.write_bytes({"lines": b"".join(lines[:6]), "half a line": whole[:-4]}[keep])
    assert with_test_part(find_dataset(str(path)), tmp_path / "labels", table) == dataset
    assert file.read_bytes() == whole
