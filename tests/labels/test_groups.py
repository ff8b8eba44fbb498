"""Groups of images: read from label files and from files of their own, and never lost."""

import unicodedata

import numpy as np
import pytest

from g2netpl.labels.io import read_labels, write_labels
from g2netpl.labels.io.build import by_folder
from g2netpl.labels.io.tables import read_groups
from g2netpl.utils.errors import InputError

WIDE = "image,group,cat,dog\na.jpg,zoo,1,0\nb.jpg,,,1\nc.jpg,zoo,0,\n"


@pytest.fixture
def wide(tmp_path):
    path = tmp_path / "labels.csv"
    path.write_text(WIDE)
    return path


@pytest.mark.parametrize(
    "text",
    [
        WIDE,
        "image,cat,Group,dog\na.jpg,1,zoo,0\nb.jpg,, ,1\nc.jpg,0, zoo ,\n",
        "image;cat;dog;group\na.jpg;1;0;zoo\nb.jpg;;1;\nc.jpg;0;;zoo\n",
        "image,labels,absent,group\na.jpg,cat,dog,zoo\nb.jpg,dog,,\nc.jpg,,cat,zoo\n",
        "image,tags,group,absent\na.jpg,cat,zoo,dog\nb.jpg,dog,,\nc.jpg,,zoo,cat\n",
    ],
)
def test_a_column_of_groups_is_no_class(tmp_path, text):
    path = tmp_path / "labels.csv"
    path.write_text(text)
    table = read_labels(path)
    assert table.classes == ("cat", "dog")
    assert table.groups == ("zoo", "", "zoo")
    assert table.values.tolist() == [[1, 0], [-1, 1], [0, -1]]


@pytest.mark.parametrize("name", ["o.csv", "o.tags", "o.parquet", "f/metadata.jsonl"])
def test_groups_survive_a_conversion(wide, tmp_path, name):
    before, path = read_labels(wide), tmp_path / name
    path.parent.mkdir(exist_ok=True)
    format = "tags" if name == "o.tags" else None
    write_labels(before, path, format)
    after = read_labels(path, format)
    assert after.groups == before.groups
    assert after.fingerprint() == before.fingerprint()


def test_groups_are_a_part_of_what_a_table_says(wide):
    table = read_labels(wide)
    other, none = table.with_groups(("zoo", "zoo", "")), table.with_groups(None)
    assert len({each.fingerprint() for each in (table, other, none)}) == 3
    assert table.take([2, 1]).groups == ("zoo", "")
    assert table.with_unlabelled(["d.jpg"]).groups == ("zoo", "", "zoo", "")
    assert table.with_values(np.zeros((3, 2))).groups == table.groups
    with pytest.raises(InputError, match="groups: expected one per image, 3, got 1"):
        table.with_groups(["zoo"])


def test_an_image_is_in_one_group(tmp_path):
    path = tmp_path / "labels.csv"
    path.write_text("image,labels,group\na.jpg,cat,one\n./a.jpg,cat,two\n")
    with pytest.raises(InputError, match=r"labels\.csv:3: image 'a.jpg' is in group 'one' alr"):
        read_labels(path)


def test_a_file_of_groups(wide, tmp_path):
    path = tmp_path / "groups.csv"
    path.write_text("image,group\na.jpg,=1\nb.jpg,two\n")
    assert read_groups(path) == {"a.jpg": "=1", "b.jpg": "two"}
    assert read_groups(wide) == {"a.jpg": "zoo", "c.jpg": "zoo"}  # a label file is one too
    path.write_text(f"image,group\n{unicodedata.normalize('NFD', 'é.jpg')},x\n")
    assert read_groups(path) == {"é.jpg": "x"}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("id,group\na,b\n", r"groups\.csv:1: expected a header 'image,group', got 'id,group'"),
        ("image,album\na,b\n", r":1: expected a header 'image,group'"),
        ("image,group\na,b\n/etc/x,b\n", r"groups\.csv:3: image '/etc/x': leads out"),
        ("image,group\na,b\na,c\n", r"groups\.csv:3: image 'a' is in group 'b' already"),
        ("image,group\na\n", r"groups\.csv:2: expected 2 cells"),
        ("image,group\na,\n", "no image has a group"),
    ],
)
def test_mistakes_in_a_file_of_groups(tmp_path, text, message):
    path = tmp_path / "groups.csv"
    path.write_text(text)
    with pytest.raises(InputError, match=message):
        read_groups(path)


def test_folders_as_groups():
    assert by_folder(["a/1.jpg", "a/b/2.jpg", "3.jpg"]) == {"a/1.jpg": "a", "a/b/2.jpg": "a/b"}
