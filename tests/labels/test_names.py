"""Names that look the same, written with an accent in its letter (NFC) or behind it (NFD)."""

import json
import os
import unicodedata

import numpy as np
import pytest
from malformed import put
from PIL import Image

from g2netpl.images.sources import find, locate
from g2netpl.labels.io import (
    ReadOptions,
    read_labels,
    read_matching,
    write_labels,
)
from g2netpl.labels.table import LabelTable
from g2netpl.utils.errors import InputError

ONE, TWO = (unicodedata.normalize(form, "café") for form in ("NFC", "NFD"))


def photo(path, colour=0):
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", (8, 8), (colour, 0, 0)).save(path)


# Classes


def tags(folder):
    return put(folder / "tags.csv", f"image,labels\na.jpg,{ONE}\nb.jpg,{TWO};tea\nc.jpg,{TWO}\n")


def tasks(folder):
    content = []
    for name, classes in (("a.jpg", [ONE]), ("b.jpg", [TWO, "tea"]), ("c.jpg", [TWO])):
        value = {"choices": classes}
        result = {"type": "choices", "value": value, "from_name": "c", "to_name": "image"}
        content.append({"data": {"image": name}, "annotations": [{"result": [result]}]})
    return put(folder / "tasks.json", json.dumps(content))


@pytest.mark.parametrize("make", [tags, tasks])
def test_one_class_in_two_spellings_is_one_class(tmp_path, make):
    table = read_labels(make(tmp_path))
    assert table.classes in ((ONE, "tea"), (TWO, "tea"))  # as it came first
    assert (table.values == 1).sum(axis=0).tolist() == [3, 1]
    for known in (ONE, TWO):
        reading = ReadOptions(classes=("tea", known))
        again = read_labels(tmp_path / make(tmp_path).name, None, reading)
        assert again.classes == ("tea", known)
        assert (again.values == 1).sum(axis=0).tolist() == [1, 3]


@pytest.mark.parametrize("name", ["labels.csv", "labels.parquet", "labels.json"])
def test_two_columns_that_look_the_same_are_refused_and_told_apart(tmp_path, name):
    table = LabelTable(("a.jpg", "b.jpg"), (ONE, TWO), np.array([[1, 0], [0, 1]]))
    write_labels(table, tmp_path / name)
    for reading in (ReadOptions(), ReadOptions(classes=(ONE,)), ReadOptions(classes=(ONE, TWO))):
        with pytest.raises(InputError, match=r"'café' is (listed|there) twice"):
            read_labels(tmp_path / name, None, reading)


@pytest.mark.parametrize("name", ["test.csv", "tags.csv"])
def test_a_test_file_may_spell_a_class_in_the_other_way(tmp_path, name):
    training = LabelTable(("a.jpg",), ("tea", ONE), np.array([[0, 1]]))
    wide = f"image,{TWO},tea\nb.jpg,1,0\n"
    path = put(tmp_path / name, wide if name == "test.csv" else f"image,tags\nb.jpg,{TWO}\n")
    table = read_matching(str(path), training)
    assert table.classes == ("tea", ONE)
    assert table.values[0, 1] == 1
    assert (table.values[0, 0] == 0) == (name == "test.csv")
    other = put(tmp_path / "other.csv", f"image,{TWO},milk\nb.jpg,1,0\n")
    with pytest.raises(InputError, match="unknown class 'milk'"):
        read_matching(str(other), training)


# Files


@pytest.mark.parametrize(("listed", "stored"), [(ONE, TWO), (TWO, ONE), (ONE, ONE), (TWO, TWO)])
def test_an_image_is_found_by_either_spelling(tmp_path, listed, stored):
    photo(tmp_path / stored / f"{stored}.png")
    (path,) = locate([f"{listed}/{listed}.png"], tmp_path)
    assert os.path.samefile(path, tmp_path / stored / f"{stored}.png")
    assert path == f"{tmp_path}/{stored}/{stored}.png"


def test_another_spelling_does_not_lead_out_of_the_folder(tmp_path):
    photo(tmp_path / "secret" / "a.png")
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / TWO).symlink_to(tmp_path / "secret")
    assert find([f"{ONE}/a.png"], tmp_path / "photos").missing == [0]
