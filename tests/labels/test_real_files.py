"""Tables as people have them: what each says was written down by hand."""

import gzip
import io

import numpy as np
import openpyxl
import pytest
from malformed import put

from g2netpl.cli import main
from g2netpl.labels.io import ReadOptions, read_labels, write_labels
from g2netpl.labels.io.issues import LabelFileError
from g2netpl.labels.io.sheets import complete_sheet
from g2netpl.labels.paths import find
from g2netpl.labels.table import LabelTable
from g2netpl.utils.errors import InputError


def labels_of(path, **options):
    """Image -> (positives, negatives), as read."""
    table = read_labels(path, options=ReadOptions(**options))
    return {
        image: tuple(
            {name for name, label in zip(table.classes, row, strict=True) if label == sign}
            for sign in (1, 0)
        )
        for image, row in zip(table.images, table.values.tolist(), strict=True)
    }


CAT_DOG = {"a.jpg": ({"cat"}, {"dog"}), "b.jpg": ({"dog"}, {"cat"})}
CAT_AND_DOG = {"a.jpg": ({"cat"}, set()), "b.jpg": ({"cat", "dog"}, set())}


def test_a_key_that_a_message_names_is_taken_by_convert_and_check(tmp_path, capfd):
    path = put(tmp_path / "x.csv", 'image,"a, b",Date,cat\na.jpg,red,2019,1\nb.jpg,blue,2020,0\n')
    target = str(tmp_path / "out.csv")
    assert main(["convert", str(path), target]) == 2
    said = capfd.readouterr().err
    assert "leave them out: --set ignore_columns='a, b' --set ignore_columns=Date" in said
    keys = ("--set", "ignore_columns=a, b", "--set", "ignore_columns=Date")
    assert main(["convert", str(path), target, *keys]) == 0
    put(tmp_path / "y.csv", "image,tags\na.jpg,cat dog\n")
    assert (
        main(["convert", str(tmp_path / "y.csv"), target, "--overwrite", "--set", "separator= "])
        == 0
    )
    assert labels_of(target) == {"a.jpg": ({"cat", "dog"}, set())}


WIDE = {
    "Y": "N",
    "yes": "no",
    "t": "f",
    "present": "absent",
    "✅": "❌",
    "☑": "☐",
    "✔\ufe0f": "✗",
    "VERO": "FALSO",
    "x": "0",
}


@pytest.mark.parametrize("yes", WIDE)
def test_words_of_labels_are_read(tmp_path, yes):
    no = WIDE[yes]
    path = put(tmp_path / "x.csv", f"image,cat,dog\na.jpg,{yes},{no}\nb.jpg,{no},{yes}\n")
    assert labels_of(path) == CAT_DOG


TAGS = {
    "0 and 1 in a column next to the tags": (
        "image,label,value\na.jpg,cat,1\na.jpg,dog,0\nb.jpg,dog,1\nb.jpg,cat,0\n",
        CAT_DOG,
    ),
    "the value is not known": (
        "image,label,value\na.jpg,cat,1\na.jpg,dog,\nb.jpg,dog,1\nb.jpg,cat,1\n",
        CAT_AND_DOG,
    ),
    "a column twice": ("image,labels,labels\na.jpg,cat,\nb.jpg,cat,dog\n", CAT_AND_DOG),
    "keywords of IPTC and of XMP": (
        "SourceFile,Subject,Keywords\na.jpg,cat,\nb.jpg,cat,dog\n",
        CAT_AND_DOG,
    ),
    "another semicolon": ("image,labels\na.jpg,cat\nb.jpg,cat；dog\n", CAT_AND_DOG),
    "PostgreSQL": ('image,labels\na.jpg,{cat}\nb.jpg,"{cat,dog}"\n', CAT_AND_DOG),
    "quotes": ('image,labels\na.jpg,"""cat"""\nb.jpg,"""cat"", ""dog"""\n', CAT_AND_DOG),
    "nan": (
        "image,labels\na.jpg,cat\nb.jpg,cat;dog\nc.jpg,nan\nd.jpg,None\n",
        {**CAT_AND_DOG, "c.jpg": (set(), set()), "d.jpg": (set(), set())},
    ),
    "one class": (
        "image,label\na.jpg,0\nb.jpg,1\n",
        {"a.jpg": (set(), {"label"}), "b.jpg": ({"label"}, set())},
    ),
    "one class, of ids": (
        "id,label\na.jpg,0\nb.jpg,1\n",
        {"a.jpg": (set(), {"label"}), "b.jpg": ({"label"}, set())},
    ),
    "two classes, one of which every image has": (
        "image,label,absent\na.jpg,0,1\nb.jpg,1,0\n",
        {"a.jpg": ({"0"}, {"1"}), "b.jpg": ({"1"}, {"0"})},
    ),
}


@pytest.mark.parametrize("name", TAGS)
def test_tags_are_read_as_they_are_meant(tmp_path, name):
    content, truth = TAGS[name]
    assert labels_of(put(tmp_path / "x.csv", content)) == truth


def test_0_and_1_are_two_classes_if_each_image_has_one_class(tmp_path):
    path = put(tmp_path / "x.csv", "image,label\na.jpg,0\nb.jpg,1\n")
    truth = {"a.jpg": ({"0"}, {"1"}), "b.jpg": ({"1"}, {"0"})}
    assert labels_of(path, single_label=True) == truth
    assert labels_of(path, tags_column=("label",)) == {
        "a.jpg": ({"0"}, set()),
        "b.jpg": ({"1"}, set()),
    }


@pytest.mark.parametrize("classes", [("0", "1"), ("label",), ("None",), ("猫；狗",), ('"a"',)])
@pytest.mark.parametrize("kind", ["tags", "csv"])
def test_odd_classes_are_written_so_that_they_read_back(tmp_path, classes, kind):
    values = [
        [1, *[-1] * (len(classes) - 1)],
        [*[-1] * (len(classes) - 1), 0 if kind == "csv" else 1],
    ]
    table = LabelTable(("a.jpg", "b.jpg"), classes, np.array(values))
    write_labels(table, tmp_path / "x.csv", kind)
    again = read_labels(tmp_path / "x.csv")
    assert (again.classes, again.values.tolist()) == (classes, values)


NOTES = {
    "image,label\na.jpg,0\nb.jpg,1\n": "one class, 1 or 0; as two classes: --set tags_column=label",
    "image,tags\na,haze clear\nb,clear water\n": "if it separates tags: --set separator=' '",
    'image,tags\na,"cat,grass"\nb,"dog,sky"\n': "if it separates tags: --set separator=,",
    "image,tags\na,cat\nb,nan\n": "no tag is in cells that say 'nan'",
}


@pytest.mark.parametrize("content", NOTES)
def test_what_may_be_meant_otherwise_is_noted(tmp_path, content):
    assert NOTES[content] in " ".join(read_labels(put(tmp_path / "x.csv", content)).notes)


def formulas():
    book, buffer = openpyxl.Workbook(), io.BytesIO()
    for row in (["image", "cat"], ["a.jpg", "=IF(TRUE,1,0)"]):
        book.active.append(row)
    book.save(buffer)
    return buffer.getvalue()


MESSAGES = {
    "words": ("x.csv", "image,cat\na.jpg,maybe\n", "a label is 1, 0, true, false, yes, no,"),
    "scores": (
        "x.csv",
        "image,label,confidence\na.jpg,cat,0.93\na.jpg,dog,0.02\n",
        "drop this column: --set ignore_columns=confidence",
    ),
    "a vector": (
        "x.csv",
        'image,labels\na.jpg,cat\nb.jpg,"[1, 0]"\n',
        "x.csv:3: expected tags such",
    ),
    "objects": (
        "x.csv",
        'image,genres\na.jpg,"[{""id"": 28, ""name"": ""Action""}]"\nb.jpg,cat\n',
        "x.csv:2: expected tags such as cat;dog or ['cat', 'dog'], got '[{\"id\": 28",
    ),
    "choices": (
        "x.csv",
        'image,labels\na.jpg,"{""choices"":[""cat""]}"\n',
        "x.csv:2: expected tags",
    ),
    "a title": (
        "x.csv",
        "Survey 2024\nimage,cat\na.jpg,1\n",
        "x.csv:1: expected a header 'image,<class>,…', 'image,labels' or 'image,tags', "
        "got 'Survey 2024'; this row is taken as the header: delete those above the real one",
    ),
    "two rows of header": (
        "x.csv",
        "image,animals,\n,cat,dog\na.jpg,1,0\n",
        "as in the header (row 1), got 3",
    ),
    "CSV": ("x.xlsx", "image,cat\na.jpg,1\n", "it holds CSV, HTML or XML; save it as .xlsx"),
    "a lock": ("~$x.xlsx", b"\5Name", "a lock file of Excel; close Excel and name x.xlsx"),
    "formulas": ("x.xlsx", formulas(), "formulas have no saved values; open the workbook in Excel"),
    "UTF-16": ("x.csv", "image,cat\na.jpg,1\n".encode("utf-16-le"), "--set encoding=utf-16-le"),
    "gzip": ("x.csv", gzip.compress(b"image,cat\na.jpg,1\n"), "compressed by gzip; unpack it"),
    "JSON": (
        "x.json",
        '{"a.jpg": ["cat"]}',
        "(read as COCO; other JSON is not read: write CSV",
    ),
    "a list": ("x.json", '[{"image": "a.jpg"}]', "(read as Label Studio; other JSON is not"),
}


@pytest.mark.parametrize("case", MESSAGES)
def test_the_line_names_the_cause_and_what_to_do(tmp_path, case):
    name, content, says = MESSAGES[case]
    with pytest.raises(LabelFileError) as caught:
        read_labels(put(tmp_path / name, content))
    assert says in str(caught.value)


def test_folders_of_the_system_are_no_classes(tmp_path):
    for name in ("cat/a.jpg", "cat/@eaDir/a.jpg/SYNOPHOTO_THUMB_S.jpg", "#recycle/b.jpg"):
        put(tmp_path / name, b"")
    assert labels_of(tmp_path) == {"cat/a.jpg": ({"cat"}, set())}


def test_the_folder_of_an_ambiguous_name_is_named(tmp_path, monkeypatch):
    for name in ("x/a.jpg", "y/a.jpg"):
        put(tmp_path / name, b"")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError) as caught:
        find(["a.jpg"], ".")
    both = f"{tmp_path} has 'x/a.jpg' and 'y/a.jpg'"
    assert both in str(caught.value)


def test_a_table_with_values_next_to_its_tags_is_not_completed(tmp_path):
    path = put(tmp_path / "x.csv", "image,label,value\na.jpg,cat,1\na.jpg,dog,0\n")
    table = read_labels(path)
    with pytest.raises(InputError, match="the tags depend on the column 'value'"):
        complete_sheet(path, table, np.zeros((1, 2), dtype=bool), tmp_path / "y.csv")
