"""Files that name labels one by one become entries, however they are cut into blocks."""

import json
import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from g2netpl.labels.entries import Entries
from g2netpl.labels.formats import LabelFileError, Reading, read_labels, write_labels
from g2netpl.labels.table import LabelTable

TABLE = LabelTable(
    ("a.jpg", "b.jpg", "c.jpg"),
    ("ant", "bee", "cat"),
    np.array([[1, -1, 0], [-1, 1, -1], [0, 1, 1]]),
)
PATHS = {
    "tags": "x.csv",
    "label-studio": "x.json",
    "coco": "x.json",
    "imagefolder": "metadata.jsonl",
}


@pytest.mark.parametrize("name", PATHS)
def test_formats_of_single_labels_are_held_as_entries(name, tmp_path):
    path = tmp_path / PATHS[name]
    write_labels(TABLE, path, name)
    read = read_labels(path, name)
    assert isinstance(read.held, Entries)
    assert read.entries == TABLE.entries
    again = tmp_path / "again" / PATHS[name]
    again.parent.mkdir()
    write_labels(read, again, name)
    assert again.read_bytes() == path.read_bytes()


def test_tags_in_parquet_are_held_as_entries(tmp_path):
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    listed = {"image": ["a", "b"], "labels": [["cat", "ant"], None], "absent": [[], ["cat"]]}
    plain = {"image": ["a", "b"], "labels": ["cat|ant", None], "absent": ["", "cat"]}
    for number, columns in enumerate((listed, plain)):
        path = tmp_path / f"{number}.parquet"
        parquet.write_table(pyarrow.table(columns), path)
        read = read_labels(path)
        assert isinstance(read.held, Entries)
        assert read.classes == ("ant", "cat")
        assert read.values.tolist() == [[1, 1], [-1, 0]]


def test_what_is_not_named_can_still_be_negative(tmp_path):
    path = tmp_path / "x.csv"
    path.write_text("image,labels\na,cat\nb,dog;cat\nc,\n")
    read = read_labels(path, reading=Reading(absent="negative"))
    assert read.is_complete
    assert read.values.tolist() == [[1, 0], [1, 1], [0, 0]]


listings = st.lists(
    st.tuples(
        st.sampled_from(["a.jpg", "b.jpg", "é.jpg", "d.jpg", "e.jpg"]),
        st.lists(st.sampled_from(["x", "y", "zebra 猫"]), max_size=4),
        st.lists(st.sampled_from(["x", "y", "u"]), max_size=2),
    ),
    min_size=1,
    max_size=9,
)


def truth_of(rows):
    """Images with their labels, and (line, kind) of every mistake, by plain dictionaries."""
    first, mistakes, contradictions, twins = {}, [], [], 0
    for line, (image, present, absent) in enumerate(rows, start=2):
        content = (set(present), set(absent) - set(present))  # of both signs the positive stays
        contradictions += [(line, "contradiction")] * len(set(present) & set(absent))
        if image in first:
            twins += first[image] == content
            mistakes += [] if first[image] == content else [(line, "image listed twice")]
        first.setdefault(image, content)
    return first, mistakes + contradictions, twins


@given(listings, st.sampled_from(["tags", "lines"]))
def test_tags_say_what_dictionaries_say(rows, shape):
    first, mistakes, twins = truth_of(rows)
    if shape == "tags":
        name = "x.csv"
        lines = [f"{image},{';'.join(yes)},{'|'.join(no)}" for image, yes, no in rows]
        lines = ["image,labels,absent", *lines]
    else:
        name = "metadata.jsonl"
        keys = ("file_name", "labels", "absent")
        lines = ["", *(json.dumps(dict(zip(keys, row, strict=True))) for row in rows)]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, name)
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")
        classes = sorted({tag for _, yes, no in rows for tag in (*yes, *no)})
        if mistakes or not classes:
            with pytest.raises(LabelFileError) as caught:
                read_labels(path)
            told = [(problem.where, problem.kind) for problem in caught.value.problems]
            expected = [(f"{path}:{line}", kind) for line, kind in mistakes]
            assert told == (expected if classes else [(str(path), "no tag")])
            return
        read = read_labels(path)
    assert read.images == tuple(first)
    assert read.classes == tuple(classes)
    expected = [
        [1 if name in yes else 0 if name in no else -1 for name in classes]
        for yes, no in first.values()
    ]
    assert read.values.tolist() == expected
    assert len(read.notes) == bool(twins)
    assert not twins or read.notes[0].startswith(f"{twins} row")


@given(
    st.lists(
        st.tuples(st.sampled_from(["a", "b", "c"]), st.sampled_from(["x", "y"]), st.integers(0, 1)),
        min_size=1,
        max_size=8,
    )
)
def test_a_row_per_label_in_any_order(rows):
    signs = {}
    for image, name, sign in rows:
        signs.setdefault((image, name), set()).add(sign)
    wrong = [
        line
        for line, (image, name, sign) in enumerate(rows, start=2)
        if sign == 0 and len(signs[image, name]) == 2
    ]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "x.csv")
        text = "".join(f"{image},{name},{sign}\r\n" for image, name, sign in rows)
        path.write_bytes(f"ImageID,LabelName,Confidence\r\n{text}".encode())
        if wrong:
            with pytest.raises(LabelFileError) as caught:
                read_labels(path)
            assert [(p.where, p.kind) for p in caught.value.problems] == [
                (f"{path}:{line}", "contradiction") for line in wrong
            ]
            return
        read = read_labels(path)
    images = list(dict.fromkeys(image for image, _, _ in rows))
    classes = sorted({name for _, name, _ in rows})
    assert read.images == tuple(f"{image}.jpg" for image in images)
    assert read.values.tolist() == [
        [next(iter(signs.get((image, name), {-1}))) for name in classes] for image in images
    ]


@pytest.mark.parametrize("content", [b"image,labels\na,x\nb,\xff\n", b"image,labels\na,x\nb,\0\n"])
def test_bytes_that_are_no_text_are_named_by_line(content, tmp_path):
    path = tmp_path / "x.csv"
    path.write_bytes(b"\xef\xbb\xbf" + content)
    with pytest.raises(LabelFileError, match=r"x\.csv:3: (a NUL|expected UTF-8 text, byte 22)"):
        read_labels(path)


def test_a_quoted_cell_may_go_on_in_the_next_line(tmp_path):
    path = tmp_path / "x.csv"
    path.write_text('image,labels\n"a\nb.jpg","x;y"\nc.jpg,y\n/d.jpg,x\n')
    with pytest.raises(LabelFileError, match=r"x\.csv:5: image '/d\.jpg'"):
        read_labels(path)
