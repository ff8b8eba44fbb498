import numpy as np
import pytest

from g2netpl import read_labels
from g2netpl.errors import InputError
from g2netpl.formats import FORMATS, spml
from g2netpl.formats import table as csv_table
from g2netpl.labels import LabelTable

TABLE = LabelTable(
    ("a b.jpg", "sub/ü,1.jpg", "c.jpg"), ("cat", "dog, wild"), np.array([[1, 0], [-1, 1], [-1, -1]])
)


def same(one, other):
    return (
        one.images == other.images
        and one.classes == other.classes
        and (one.values.tolist() == other.values.tolist())
    )


def test_wide_csv_round_trip(tmp_path):
    path = tmp_path / "labels.csv"
    csv_table.write(TABLE, path)
    assert same(read_labels(path), TABLE)


@pytest.mark.parametrize("start", ["", "\ufeff"])
def test_wide_csv_cells(tmp_path, start):
    path = tmp_path / "labels.csv"
    path.write_text(start + "image,x,y,z\r\n1.jpg,1,,0\n\n2.jpg, 1 ,-1,0.0\n", encoding="utf-8")
    assert read_labels(path).values.tolist() == [[1, -1, 0], [1, -1, 0]]


def test_tags_are_positives_and_the_rest_is_unobserved(tmp_path):
    path = tmp_path / "tags.csv"
    path.write_text("image,labels\na.jpg,dog; cat\nb.jpg,\nc.jpg,cat|bird\n")
    read = read_labels(path)
    assert read.classes == ("bird", "cat", "dog")
    assert read.values.tolist() == [[-1, 1, 1], [-1, -1, -1], [1, 1, -1]]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", ":1: expected a header"),
        ("picture,x\n", ":1: expected a header 'image"),
        ("image\n", ":1: expected a header"),
        ("image,x,x\n", ":1: class 'x' is listed twice"),
        ("image,x,\n", ":1: column 3 has no class name"),
        ("image,x\na,1,0\n", ":2: expected 2 cells"),
        ("image,x\na,1\nb,2\n", ":3: class 'x': expected 1, 0 or an empty cell"),
        ("image,x\na,1\nb,0\na,1\n", ":4: image 'a' is listed already on line 2"),
        ("image,x\n,1\n", ":2: the image name is empty"),
        ('image,x\n"a,1\n', "unexpected end of data"),
        ("image,x\na,.0\n", ":2: class 'x': expected 1, 0"),
        ("image,labels\na,b,c\n", ":2: expected 2 cells"),
        ("image,labels\na,\n", "no image has a tag"),
    ],
)
def test_malformed_csv_is_named_by_line(tmp_path, content, message):
    path = tmp_path / "labels.csv"
    path.write_text(content)
    with pytest.raises(InputError, match=message):
        read_labels(path)


def test_other_encodings_are_named(tmp_path):
    path = tmp_path / "labels.csv"
    path.write_bytes("image,é\n".encode("latin-1"))
    with pytest.raises(InputError, match="expected UTF-8 text, byte 6"):
        read_labels(path)


def test_spml_observed_labels_round_trip_where_zero_means_unknown(tmp_path):
    path = tmp_path / "formatted_train_labels_obs.npy"
    table = LabelTable(TABLE.images, ("class_0", "class_1"), TABLE.values)
    spml.write(table, path)
    assert np.load(path).tolist() == [[1, -1], [0, 1], [0, 0]]
    assert same(read_labels(path), table)


def test_spml_full_labels_round_trip(tmp_path):
    path = tmp_path / "formatted_val_labels.npy"
    table = LabelTable(("a", "b"), ("class_0", "class_1"), np.array([[1, 0], [0, 0]]))
    spml.write(table, path)
    assert (tmp_path / "formatted_val_images.npy").is_file()
    assert np.load(path).tolist() == [[1, 0], [0, 0]]
    assert same(read_labels(path), table)
    with pytest.raises(InputError, match="full labels only"):
        spml.write(TABLE, path)


def test_spml_mistakes_are_named(tmp_path):
    path = tmp_path / "formatted_train_labels.npy"
    np.save(path, np.array([[1, -1]]))
    with pytest.raises(InputError, match="row 0, column 1: expected one of"):
        read_labels(path)
    np.save(path, np.array([[1, 0]]))
    with pytest.raises(InputError, match=r"formatted_train_images\.npy: no such file"):
        read_labels(path)
    np.save(tmp_path / "formatted_train_images.npy", np.array(["a", "b"]))
    with pytest.raises(InputError, match="expected 1 image names"):
        read_labels(path)
    path.write_bytes(b"nonsense")
    with pytest.raises(InputError, match="not a readable"):
        read_labels(path)


def test_unknown_files_and_formats_are_named(tmp_path):
    with pytest.raises(InputError, match="no such label file"):
        read_labels(tmp_path / "none.csv")
    (tmp_path / "labels.txt").write_text("")
    with pytest.raises(InputError, match="not a known label file"):
        read_labels(tmp_path / "labels.txt")
    with pytest.raises(InputError, match="did you mean 'csv'"):
        read_labels(tmp_path / "labels.txt", format="csvv")
    assert set(FORMATS) == {"csv", "spml"}
