"""A data frame of pandas is read as the file would be that it was written to."""

import numpy as np
import pandas as pd
import pytest

from g2netpl.labels.io import LabelFileError, ReadOptions, read_labels
from g2netpl.labels.table import LabelTable

IMAGES = ["a.jpg", "b.jpg", "c.jpg"]
WIDE = (("cat", "dog"), [[1, 0], [-1, 1], [0, -1]])
TAGS = (("cat", "dog"), [[1, 1], [1, -1], [-1, -1]])
FRAMES = {
    "whole numbers and gaps": ({"cat": [1, None, 0], "dog": [0, 1, None]}, WIDE),
    "nullable integers": ({"cat": pd.array([1, None, 0], "Int8"), "dog": [0.0, 1.0, np.nan]}, WIDE),
    "yes and no": ({"cat": [True, None, False], "dog": ["no", "x", ""]}, WIDE),
    "a categorical": ({"cat": pd.Categorical(["1", None, "0"]), "dog": ["0", "1", "?"]}, WIDE),
    "lists of tags": ({"labels": [["cat", "dog"], ["cat"], []]}, TAGS),
    "arrays of tags": ({"tags": [np.array(["dog", "cat"]), ["cat"], None]}, TAGS),
    "tags as text": ({"labels": ["cat;dog", "cat", None]}, TAGS),
    "lists as text": ({"labels": ["['cat' 'dog']", '["cat"]', "[]"]}, TAGS),
}


@pytest.mark.parametrize("name", FRAMES)
def test_a_frame_is_read_as_the_table_it_says(name):
    columns, (classes, values) = FRAMES[name]
    frame = pd.DataFrame({"image": IMAGES, **columns}, index=[7, 8, 9])
    for table in (
        LabelTable.from_dataframe(frame),
        read_labels(frame),
        read_labels(frame.set_index("image")),
    ):
        assert (table.images, table.classes) == (tuple(IMAGES), classes)
        assert table.values.tolist() == values


def test_options_groups_and_classes():
    frame = pd.DataFrame({"who": ["a", "b"], "Group": [3, 3], "topic": ["x", "y|x"], "n": [5, 6]})
    table = LabelTable.from_dataframe(frame, image_column="who", tags_column="topic")
    assert (table.classes, table.groups) == (("x", "y"), ("3", "3"))
    assert table.notes == ("left out: 'n'",)
    table = LabelTable.from_dataframe(
        frame, image_column="who", tags_column="topic", classes=("y", "z", "x"), absent="negative"
    )
    assert table.values.tolist() == [[0, 0, 1], [1, 0, 1]]


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"image": ["a", "b"], "cat": [1, 2], "dog": [1, 1]}, "row 1: class 'cat': expected 1, 0"),
        ({"image": ["a", "../b"], "cat": [1, 0]}, "row 1: image '../b': leads out"),
        ({"image": ["a", "a"], "cat": [1, 0]}, "row 1: image 'a', class 'cat': negative here, pos"),
        ({"who": ["a", "b"], "cat": [1, 0]}, "data frame: expected a header 'image,<class>"),
    ],
)
def test_issues_name_the_row(columns, message):
    with pytest.raises(LabelFileError, match=message):
        read_labels(pd.DataFrame(columns))


def test_images_are_matched_by_the_folder(tmp_path):
    for name in ("tt1.jpg", "tt2.jpg"):
        (tmp_path / name).write_bytes(b"")
    frame = pd.DataFrame({"Id": ["tt1", "tt2"], "Genre": ["['War']", "['War', 'Crime']"]})
    table = read_labels(frame, options=ReadOptions(images=str(tmp_path)))
    assert table.images == ("tt1", "tt2")
    assert table.classes == ("Crime", "War")
    (tmp_path / "tt2.jpg").unlink()
    with pytest.raises(LabelFileError, match="expected a header"):
        read_labels(frame, options=ReadOptions(images=str(tmp_path)))
