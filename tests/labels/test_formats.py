import os
import tempfile
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from label_samples import (
    class_folders,
    coco,
    lvis,
    metadata,
    nuswide,
    openimages,
    spml_full,
    spml_observed,
    tag_file,
    tasks,
    voc_lists,
    voc_xml,
    wide,
)
from malformed import put

from g2netpl.labels.io import (
    FORMATS,
    LabelFileError,
    ReadOptions,
    image_folder,
    read_classes,
    read_labels,
    write_labels,
)
from g2netpl.labels.io.columns import is_tag_header
from g2netpl.labels.names import name_problem
from g2netpl.labels.table import UNOBSERVED, LabelTable
from g2netpl.utils.errors import InputError

PATHS = {
    "tags": "labels.csv",
    "csv": "labels.csv",
    "xlsx": "labels.xlsx",
    "parquet": "labels.parquet",
    "coco": "labels.json",
    "label-studio": "labels.json",
    "imagefolder": "photos",
    "photo-tags": "photos",
}
ONLY_READ = ("openimages", "voc", "nuswide", "spml", "huggingface", "classes")


def test_every_format_has_a_path_to_be_written_to_or_says_that_it_is_only_read(tmp_path):
    assert {*PATHS, *ONLY_READ} == set(FORMATS)
    table = LabelTable(("a.jpg",), ("cat",), np.array([[1]]))
    for name in ONLY_READ:
        with pytest.raises(InputError, match=f"--to {name}: only read; written are tags, csv, xl"):
            write_labels(table, tmp_path / "x", name)
    assert list(tmp_path.iterdir()) == []


def same(one, other):
    return (
        one.images == other.images
        and one.classes == other.classes
        and one.values.tolist() == other.values.tolist()
    )


def target(name, folder, images):
    """Where a table is written to; tags go beside photos, which must be there."""
    path = Path(folder, PATHS[name])
    if name == "photo-tags":
        path.mkdir()
        for image in images:
            with suppress(OSError, ValueError):
                if name_problem(image) is None:
                    put(path / image, "")
    return path


def kept(name, table):
    """What is left of a table in a format: photos name no negatives, and come sorted."""
    if name == "photo-tags":
        table = table.with_values(np.where(table.values == 1, 1, UNOBSERVED))
        return table.take(np.argsort(np.array(table.images, dtype=object)))
    return table


# Round trips


PIECES = [
    *",\";| \n\r\t/\\'.:~#%+=@&?*[]_-aB1é猫😀",
    "\u2028",
    "\x85",
    "\x0b",
    "..",
    "//",
    "\ufeff",
]
texts = st.lists(st.sampled_from(PIECES), min_size=1, max_size=6).map("".join)
image_names = st.tuples(texts, st.sampled_from(["", ".jpg", ".png", ".JPG"])).map("".join)


@st.composite
def tables(draw):
    images = draw(st.lists(image_names, min_size=1, max_size=4, unique=True))
    classes = draw(st.lists(texts, min_size=1, max_size=4, unique=True))
    known = st.sampled_from([-1, 0, 1])
    values = draw(arrays(np.int8, (len(images), len(classes)), elements=known))
    return LabelTable(tuple(images), tuple(classes), values)


def files_below(folder):
    return [path for path in folder.rglob("*") if path.is_file()]


@pytest.mark.parametrize("name", PATHS)
@given(data=st.data())
def test_what_is_written_reads_back_the_same_or_nothing_is_written(name, data):
    table = data.draw(tables())
    with tempfile.TemporaryDirectory() as folder:
        path = target(name, folder, table.images)
        before = files_below(Path(folder))
        try:
            write_labels(table, path, name)
        except InputError:
            assert files_below(Path(folder)) == before
            return
        table = kept(name, table)
        if name == "photo-tags" and not (table.values == 1).any():
            return
        again = read_labels(path, name, ReadOptions(classes=table.classes))
    assert same(again, table)


plain = st.text("abcdé猫 ,'", min_size=1, max_size=5).map(str.strip).filter(bool)


@pytest.mark.parametrize(
    ("name", "images", "classes", "message"),
    [
        ("csv", ("a",), ("labels",), "would be read as a column of tags"),
        ("csv", ("a",), ("tags", "absent"), "would be read as a column of tags"),
        ("csv", ("a",), (" cat",), "begins or ends with a space"),
        ("parquet", ("a",), ("label",), "would be read as a column of tags"),
        ("parquet", ("a",), ("image",), "would be read as another column"),
        ("tags", ("a",), ("a ",), "begins or ends with a space"),
        ("photo-tags", ("a.jpg",), ("a|b",), "cannot be a keyword"),
        ("photo-tags", ("a.jpg",), ("cat ",), "begins or ends with a space"),
        ("photo-tags", ("a.jpg",), ("c\x0bat",), "characters that XML does not allow"),
    ],
)
def test_names_a_format_would_change_are_refused(tmp_path, name, images, classes, message):
    table = LabelTable(images, classes, np.ones((len(images), len(classes))))
    path = target(name, tmp_path, images)
    before = files_below(tmp_path)
    with pytest.raises(InputError, match=message):
        write_labels(table, path, name)
    assert files_below(tmp_path) == before


# How a file is understood


U = UNOBSERVED
ABSENT = [  # file, values as usual, where what is not named is unobserved, where it is negative
    (tag_file, [[1, U], [U, 0]], [[1, U], [U, 0]], [[1, 0], [0, 0]]),
    (openimages, [[1, U], [U, 0]], [[1, U], [U, 0]], [[1, 0], [0, 0]]),
    (metadata, [[1, U], [U, 0]], [[1, U], [U, 0]], [[1, 0], [0, 0]]),
    (class_folders, [[1, U], [U, 1]], [[1, U], [U, 1]], [[1, 0], [0, 1]]),
    (coco, [[1, 0], [0, 1]], [[1, U], [U, 1]], [[1, 0], [0, 1]]),
    (lvis, [[1, U], [0, U]], [[1, U], [0, U]], [[1, 0]]),
    (voc_lists, [[1, 0], [0, 0]], [[1, U], [U, U]], [[1, 0], [0, 0]]),
    (voc_xml, [[1, 0], [0, 0]], [[1, U], [U, U]], [[1, 0], [0, 0]]),
    (nuswide, [[1, 0], [0, 0]], [[1, U], [U, U]], [[1, 0], [0, 0]]),
    (spml_full, [[1, 0], [0, 0]], [[1, U], [U, U]], [[1, 0], [0, 0]]),
    (spml_observed, [[1, 0], [U, U]], [[1, 0], [U, U]], [[1, 0], [U, U]]),
    (wide, [[1, U], [U, 0]], [[1, U], [U, 0]], [[1, U], [U, 0]]),  # it names every label
    (
        tasks,
        [[1, 1, U], [U, U, 0], [U, U, U]],
        [[1, 1, U], [U, U, 0], [U, U, U]],
        [[1, 1, 0], [0, 0, 0], [U, U, U]],  # nobody looked at the last one
    ),
]


@pytest.mark.parametrize(
    ("make", "usual", "unobserved", "negative"), ABSENT, ids=[row[0].__name__ for row in ABSENT]
)
def test_what_a_file_does_not_name_is_as_the_flag_says(tmp_path, make, usual, unobserved, negative):
    path = make(tmp_path)
    assert read_labels(path).values.tolist() == usual
    assert read_labels(path, options=ReadOptions(absent="unobserved")).values.tolist() == unobserved
    assert read_labels(path, options=ReadOptions(absent="negative")).values.tolist() == negative


@pytest.mark.parametrize("make", [row[0] for row in ABSENT if row[0] not in (spml_full, tasks)])
def test_told_classes_give_the_order_and_others_are_mistakes(tmp_path, make):
    path = make(tmp_path)
    names = ("dog", "owl", "cat")
    if make is spml_observed:
        np.save(tmp_path / "formatted_train_classes.npy", np.array(["cat", "dog"]))
    usual, told = read_labels(path), read_labels(path, options=ReadOptions(classes=names))
    assert told.classes == names
    assert told.values[:, [2, 0]].tolist() == usual.values.tolist()
    assert (told.values[:, 1] == UNOBSERVED).all()
    with pytest.raises(
        LabelFileError, match=r"'dog' \(did you mean 'dogs'\?\).*--set ignore_columns"
    ):
        read_labels(path, options=ReadOptions(classes=("dogs", "cat")))


@pytest.mark.parametrize("name", ["cat,dog", "c" * 300, ""])
def test_classes_that_are_no_file_are_told_what_is_expected(tmp_path, name):
    with pytest.raises(InputError, match=r"; expected a list of classes, one per line$"):
        read_classes(tmp_path / name)


@pytest.mark.parametrize(
    ("separator", "cell", "expected"),
    [
        (None, "a; b|c ;", {"a", "b", "c"}),
        (";", "a;b|c", {"a", "b|c"}),
        ("|", "a;b| c", {"a;b", "c"}),
        (" ", "a b  c", {"a", "b", "c"}),
        (",", '"a,b;c"', {"a", "b;c"}),
        ("::", "a::b:c", {"a", "b:c"}),
        (";,", '"a; b, c|d"', {"a", "b", "c|d"}),  # as a sheet that several people filled in
        (" / ", "a / b/c", {"a", "b/c"}),
    ],
)
def test_the_separator_parts_tags(tmp_path, separator, cell, expected):
    path = put(tmp_path / "tags.csv", f"image,labels\nx.jpg,{cell}\n")
    read = read_labels(path, options=ReadOptions(separator=separator))
    assert set(read.classes) == expected
    assert (read.values == 1).all()


def test_a_list_of_classes_is_one_name_per_line(tmp_path):
    path = put(tmp_path / "classes.txt", "\ufeffdog\r\n\n cat \u2028x\n")
    assert read_classes(path) == ("dog", "cat \u2028x")
    for content, message in (("", "the file is empty"), ("a\n\na\n", ":3: class 'a' is listed")):
        with pytest.raises(InputError, match=message):
            read_classes(put(path, content))


# Notes


# Headers


# Wide CSV: at once and row by row


@st.composite
def wide_files(draw):
    """A wide file in words, and the table it must give."""
    classes = draw(st.lists(plain, min_size=1, max_size=4, unique=True))
    if is_tag_header(["image", *classes]):
        classes.append("another")
    odd = st.text("ab.é猫 ,\"'", min_size=1, max_size=6).filter(lambda name: not name_problem(name))
    images = draw(st.lists(odd, max_size=8, unique=True))
    cells = st.sampled_from(["1", "0", "", "-1", "1.0", "0.0", "-1.0", " 1", "0 "])
    usual = st.sampled_from(["1", "0", "", "-1"])
    rows = []
    for image in images:
        kind = draw(st.sampled_from([usual, usual, cells]))
        rows.append([image, *(draw(kind) for _ in classes)])
    meaning = {"1": 1, "0": 0, "-1": -1, "": -1}
    values = [[meaning[cell.strip().removesuffix(".0")] for cell in row[1:]] for row in rows]
    matrix = np.array(values, dtype=np.int8).reshape(len(rows), len(classes))
    return [["image", *classes], *rows], LabelTable(tuple(images), tuple(classes), matrix)


def cell_text(cell, quoted):
    return '"' + cell.replace('"', '""') + '"' if quoted or set(cell) & set(',"\r\n') else cell


@st.composite
def written(draw, rows):
    """The text of the rows in one of the ways people write CSV, and the line of each row."""
    end = draw(st.sampled_from(["\n", "\r\n"]))
    blanks = draw(st.sampled_from([st.just(0), st.sampled_from([0, 0, 1, 2])]))
    text, line, lines = draw(st.sampled_from(["", "\ufeff"])), 1, []
    quotes = draw(st.sampled_from([st.just(False), st.just(True), st.booleans()]))
    for row in rows:
        lines.append(line)
        text += ",".join(cell_text(cell, draw(quotes)) for cell in row) + end
        line += 1 + sum(cell.count("\n") for cell in row)
        blank = draw(blanks)
        text += end * blank
        line += blank
    return text[: -len(end)] if draw(st.booleans()) else text, lines


def read_wide(text):
    with tempfile.TemporaryDirectory() as folder:
        return read_labels(
            put(Path(folder, "x.csv"), text), "csv", ReadOptions(minus_one="unobserved")
        )


@given(wide_files(), st.data())
def test_however_a_wide_file_is_written_it_says_the_same(content, data):
    rows, expected = content
    text, _ = data.draw(written(rows))
    assert same(read_wide(text), expected)


# Which format


def test_unknown_files_and_formats_are_named(tmp_path):
    with pytest.raises(InputError, match="no such label file"):
        read_labels(tmp_path / "none.csv")
    with pytest.raises(InputError, match="File name too long"):
        read_labels(tmp_path / f"{'x' * 300}.csv")
    put(tmp_path / "labels.txt", "")
    with pytest.raises(
        InputError, match="not a known label file; set format to one of openimages,"
    ):
        read_labels(tmp_path / "labels.txt")
    with pytest.raises(InputError, match="did you mean 'csv'"):
        read_labels(tmp_path / "labels.txt", format="csvv")


@pytest.mark.parametrize("name", ["x.csv", "x.json", "x.parquet", "x_labels.npy", "Main/x.txt"])
def test_pipes_are_never_opened(tmp_path, name):
    path = tmp_path / name
    path.parent.mkdir(exist_ok=True)
    os.mkfifo(path)
    with pytest.raises(InputError, match="not a regular file"):
        read_labels(path)
    with pytest.raises(InputError, match="not a regular file"):
        read_labels(path, "csv")


def test_images_are_looked_for_where_the_format_keeps_them(tmp_path):
    folders = {
        "labels.csv": ".",
        "VOC2012/ImageSets/Main/train.txt": "VOC2012/JPEGImages",
        "coco/annotations/instances_val2014.json": "coco/images",
        "NUS/ImageList/TestImagelist.txt": "NUS/images",
        "photos/metadata.jsonl": "photos",
    }
    for name, folder in folders.items():
        assert image_folder(put(tmp_path / name, "{")) == tmp_path / folder
    (tmp_path / "coco/val2014").mkdir()
    (tmp_path / "NUS/Flickr").mkdir()
    found = image_folder(tmp_path / "coco/annotations/instances_val2014.json")
    assert found == tmp_path / "coco/val2014"
    assert image_folder(tmp_path / "NUS/ImageList/TestImagelist.txt") == tmp_path / "NUS/Flickr"
    assert image_folder(tmp_path / "photos") == tmp_path / "photos"
