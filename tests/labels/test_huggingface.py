"""Hugging Face data sets: what is inside comes out, and nothing of it leads anywhere else."""

from importlib.util import find_spec

import numpy as np
import pytest
from packed import NAMES, images, pictures, png, write
from PIL import Image as Picture

from g2netpl.cli import main
from g2netpl.images.sources import list_images, locate
from g2netpl.labels.io import LabelFileError, ReadOptions, image_folder, read_labels
from g2netpl.labels.io.huggingface import file_names
from g2netpl.utils.errors import InputError
from g2netpl.utils.image_refs import open_file

pyarrow = pytest.importorskip("pyarrow", reason="the extra 'parquet' is not installed")
pytestmark = pytest.mark.skipif(
    find_spec("datasets") is None, reason="the extra 'datasets' is not installed"
)

U = -1
VALUES = [[1, U, U], [U, 1, 1], [U, U, U], [U, U, U], [U, U, 1]]
LISTED = pyarrow.list_(pyarrow.int64())


def said(path, **reading):
    table = read_labels(path, options=ReadOptions(**reading))
    return table.classes, table.values.tolist()


def contents(table, source):
    """The bytes of all pictures of a table."""
    return [open_file(path).read() for path in locate(table.images, source)]


@pytest.mark.parametrize("name", ["data.parquet", "saved"])
def test_each_picture_has_a_name_of_its_own(tmp_path, name):
    source = pictures(tmp_path / name)
    assert said(source) == (NAMES, VALUES)
    assert said(source, absent="negative")[1][1] == [0, 1, 1]
    table = read_labels(source)
    assert table.images == ("a.jpg", "000001", "a-2.png", "A-3.JPG", "hidden")
    assert image_folder(source) == source
    assert contents(table, source) == [png(row) for row in range(5)]


HOSTILE = {
    "../../etc/passwd": "passwd",
    "/home/me/.ssh/id.png": "id.png",
    "C:\\Windows\\x.jpg": "x.jpg",
    "a\0b\n.png": "a_b_.png",
    "..": "000004",
    "": "000005",
    None: "000006",
    "metadata.jsonl": "metadata.jsonl",  # gets the ending of its picture
    "x" * 400 + ".jpg": "x" * 150 + ".jpg",
    "é" * 200 + ".png": "é" * 75 + ".png",
    "X.PNG": "X-10.PNG",  # one stem, whatever the letters and the ending
    "x-10.gif": "x-10-11.gif",
    "con|a?.jpg": "con_a_.jpg",
}


def test_no_path_leads_out_and_no_two_names_are_one():
    assert file_names(list(HOSTILE)) == list(HOSTILE.values())
    many = file_names(["same.jpg"] * 1000)
    assert len({name.casefold() for name in many}) == 1000


SHAPES = {
    "a class": ({"label": [0, 2, -1]}, {"label": {"names": list(NAMES), "_type": "ClassLabel"}}),
    "a class under another name": (
        {"species": [0, 2, None]},
        {"species": {"names": list(NAMES), "_type": "ClassLabel"}},
    ),
    "lists as older versions wrote them": (
        {"labels": pyarrow.array([[0], [2], []], LISTED)},
        {"labels": {"feature": {"names": list(NAMES), "_type": "ClassLabel"}, "_type": "Sequence"}},
    ),
    "a list of one feature": (
        {"tags": pyarrow.array([[0], [2], []], LISTED)},
        {"tags": [{"names": list(NAMES), "_type": "ClassLabel"}]},
    ),
}


@pytest.mark.parametrize("shape", SHAPES)
def test_classes_are_read_in_every_shape(tmp_path, shape):
    columns, features = SHAPES[shape]
    columns = {"id": ["x", "y", "z"], "image": images(["a", "b", "c"]), **columns}
    path = write(tmp_path / "data.parquet", columns, features)
    assert said(path) == (NAMES, [[1, U, U], [U, U, 1], [U, U, U]])
    order = ReadOptions(classes=("owl", "dog", "bee", "cat"))
    assert read_labels(path, options=order).values[0].tolist() == [U, U, U, 1]
    with pytest.raises(LabelFileError, match=r"unknown class 'dog' \(did you mean 'dogs'"):
        read_labels(path, options=ReadOptions(classes=("owl", "dogs", "cat")))


def test_texts_and_columns_of_numbers_are_read(tmp_path):
    three = images(["a", "b", "c"])
    path = write(tmp_path / "1.parquet", {"image": three, "labels": [["dog"], ["cat"], None]})
    assert said(path) == (("cat", "dog"), [[U, 1], [1, U], [U, U]])
    path = write(tmp_path / "2.parquet", {"image": three, "label": ["dog;cat", "cat", None]})
    assert said(path) == (("cat", "dog"), [[1, 1], [1, U], [U, U]])
    wide = {"img": three, "cat": [True, False, None], "dog": [1, 0, -1], "author": ["x", "y", "z"]}
    path = write(tmp_path / "3.parquet", wide)
    assert said(path) == (("cat", "dog"), [[1, 1], [0, 0], [U, U]])
    path = write(tmp_path / "4.parquet", wide | {"width": [640, 480, 640]})
    with pytest.raises(LabelFileError, match="leave them out: --set ignore_columns=width"):
        read_labels(path)
    assert said(path, classes=("dog", "cat"))[1] == [[1, 1], [0, 0], [U, U]]
    grouped = write(tmp_path / "5.parquet", wide | {"group": ["g", "h", None]})
    assert read_labels(grouped).groups == ("g", "h", "")


def test_paths_without_pictures_are_names_of_files(tmp_path, capsys):
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub/a.png").write_bytes(png(0))
    (tmp_path / "b.png").write_bytes(png(1))
    columns = {"image": images(["./sub/a.png", "b.png"], [None] * 2), "labels": [["x"], ["y"]]}
    path = write(tmp_path / "data.parquet", columns)
    assert read_labels(path).images == ("sub/a.png", "b.png")
    assert main(["check", "--labels", str(path)]) == 0
    capsys.readouterr()
    path = write(
        tmp_path / "out.parquet", columns | {"image": images(["/etc/passwd", "b"], [None] * 2)}
    )
    with pytest.raises(LabelFileError, match="row 0: image '/etc/passwd': leads out"):
        read_labels(path)


def test_any_shard_names_all_and_splits_are_told_apart(tmp_path, capsys):
    data = tmp_path / "data"
    for number in range(2):
        pictures(data / f"train-0000{number}-of-00002.parquet")
    shard = data / "train-00001-of-00002.parquet"
    for path in (data, shard):
        table = read_labels(path)
        assert table.values.tolist() == VALUES + VALUES
        assert table.images[5] == "a-5.jpg"
    pictures(data / "test-00000-of-00001.parquet")
    assert len(read_labels(shard)) == 10
    with pytest.raises(InputError, match=r"one data set, got test, train; name one"):
        read_labels(data)
    (data / "train-00000-of-00002.parquet").unlink()
    with pytest.raises(InputError, match="expected 2 shards of train, got 1"):
        read_labels(shard)


def save_all(rows):
    """Data sets in every way that `datasets` saves them, in the working folder."""
    from datasets import (
        ClassLabel,
        Dataset,
        DatasetDict,
        Features,
        Image,
        List,
        Value,
        load_from_disk,
    )

    features = {"image": Image(), "labels": List(ClassLabel(names=list(NAMES)))}
    features = Features({**features, "caption": Value("string")})
    columns = {"image": [f"{row}.png" for row in range(6)], "labels": rows}
    data = Dataset.from_dict({**columns, "caption": [*"abcdef"]}, features=features)
    data.save_to_disk("saved", num_shards=2)
    data.select([4, 1]).save_to_disk("chosen")
    DatasetDict(train=data, test=data.select([0])).save_to_disk("both")
    data.to_parquet("paths.parquet")
    load_from_disk("saved").to_parquet("data.parquet")
    one = Features({"image": Image(), "label": ClassLabel(names=["cat", "dog"])})
    pictures = [Picture.new("RGB", (8, 8), (row, 0, 0)) for row in range(3)]
    data = Dataset.from_dict({"image": pictures, "label": [1, 0, -1]}, features=one)
    data.save_to_disk("one")


def test_what_datasets_saves_is_read_as_it_is(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rows = [[0], [1, 2], [], None, [2], [0, 1, 2]]
    for row in range(6):
        (tmp_path / f"{row}.png").write_bytes(png(row))
    save_all(rows)
    values = np.full((6, 3), U)
    for row, classes in enumerate(rows):
        values[row, classes or []] = 1
    chosen = {"saved": range(6), "data.parquet": range(6), "chosen": [4, 1], "both/train": range(6)}
    for name, expected in chosen.items():
        table = read_labels(tmp_path / name, options=ReadOptions(classes=NAMES))
        assert table.values.tolist() == values[list(expected)].tolist(), name
        assert contents(table, tmp_path / name) == [png(number) for number in expected]
    with pytest.raises(InputError, match="has paths of pictures, not pictures; name their folder"):
        list_images(tmp_path / "paths.parquet")
    assert said(tmp_path / "one") == (("cat", "dog"), [[U, 1], [1, U], [U, U]])
    with pytest.raises(InputError, match=r"one of its splits: \S+both/train, \S+both/test"):
        read_labels(tmp_path / "both")
