"""Spreadsheets as they come: each is read as the table it says, or refused in one line.

The files in `sheets/` were made by LibreOffice 7.4, pandas and XlsxWriter; the others are written
here byte by byte, as Excel and others are known to write them.
"""

import io
from pathlib import Path

import numpy as np
import openpyxl
import pytest
from malformed import put

from g2netpl.cli import main
from g2netpl.labels.io import ReadOptions, read_labels, write_labels
from g2netpl.labels.names import match_filenames
from g2netpl.labels.paths import find
from g2netpl.labels.table import LabelTable
from g2netpl.utils.errors import InputError

SHEETS = Path(__file__).parent / "sheets"


def workbook(*rows, merged=()):
    """The bytes of a workbook."""
    book, buffer = openpyxl.Workbook(), io.BytesIO()
    for cells in rows:
        book.active.append(cells)
    for span in merged:
        book.active.merge_cells(span)
    book.save(buffer)
    return buffer.getvalue()


WIDE = ["image", "cat", "dog"]


# What must be read

TWO = ("a.jpg", "b.jpg"), ("cat", "dog"), [[1, -1], [0, 1]]
BOTH = ("a.jpg", "b.jpg"), ("cat", "dog"), [[1, 1], [-1, 1]]
THREE = ("a.jpg", "b.jpg", "c.jpg"), ("cat", "dog"), [[1, 1], [-1, 1], [1, -1]]
PHOTOS = tuple(f"2019/IMG_{number}.JPG" for number in range(1, 5))
WORDS = ("Café", "Größe", "Hund", "Vogel")
TAGGED = (
    PHOTOS,
    WORDS,
    [[1, -1, 1, -1], [-1, -1, 1, -1], [-1, -1, -1, -1], [-1, 1, -1, 1]],
)
PANDAS = ("a.jpg", "b.jpg", "c.jpg"), ("cat", "dog"), [[1, -1], [0, 1], [-1, 0]]
FORMULAS = ("a.jpg", "b.jpg"), ("cat", "dog"), [[1, 0], [0, 1]]

DATED = (
    {"ignore_columns": ("datum",)},
    (
        ("IMG_1.JPG", "IMG_2.JPG", "IMG_3.JPG"),
        ("Café", "Hund", "Vogel"),
        [[1, 0, -1], [1, 0, -1], [1, -1, 1]],
    ),
)
READ = {
    "LibreOffice, tags beside other columns": ("libreoffice-tags.xlsx", {}, TAGGED),
    "LibreOffice, cp1252": ("libreoffice-tags-cp1252.csv", {"encoding": "cp1252"}, TAGGED),
    "LibreOffice, formulas": ("libreoffice-formula.xlsx", {}, FORMULAS),
    "LibreOffice, dates, bools, marks": ("libreoffice-wide.xlsx", *DATED),
    "Excel's old format": ("libreoffice-wide.xls", *DATED),
    "pandas with its index": ("pandas-index.xlsx", {}, PANDAS),
    "XlsxWriter": ("xlsxwriter.xlsx", {}, PANDAS),
    "Excel of much of Europe": ("image;cat;dog\r\na.jpg;1;\r\nb.jpg;0;1\r\n", {}, TWO),
    "Excel's line for itself": ("sep=;\r\nimage;cat;dog\r\na.jpg;1;\r\nb.jpg;0;1\r\n", {}, TWO),
    "empty rows and columns": (
        "image,cat,dog,,\na.jpg,1,,,\n,,,,\nb.jpg,0,1,,\n,,,,\n,,,,\n",
        {},
        TWO,
    ),
    "decimal commas": ("image;cat;dog\na.jpg;1,0;\nb.jpg;0,0;1,0\n", {}, TWO),
    "marks": ("image,cat,dog\na.jpg,x,\nb.jpg,0,X\n", {}, TWO),
    "TRUE and FALSE": ("image,cat,dog\na.jpg,TRUE,\nb.jpg,FALSE,True\n", {}, TWO),
    "a list of JSON": ('image,tags\na.jpg,"[""cat"", ""dog""]"\nb.jpg,"[""dog""]"\n', {}, BOTH),
    "ids and tags that are numbers": (
        "image,tags\n007,1\n008,02;1\n",
        {},
        (("007", "008"), ("02", "1"), [[-1, 1], [1, 1]]),
    ),
    "pandas, its index": (",image,cat,dog\n0,a.jpg,1,\n1,b.jpg,0,1\n", {}, TWO),
    "a word of another language for the image": ("Bild;cat;dog\na.jpg;1;\nb.jpg;0;1\n", {}, TWO),
    "WAHR and FALSCH": ("image;cat;dog\na.jpg;WAHR;\nb.jpg;FALSCH;WAHR\n", {}, TWO),
    "a class called tags": (
        "image,tags,cat\na.jpg,1,0\n",
        {},
        (("a.jpg",), ("tags", "cat"), [[1, 0]]),
    ),
    "the image is told": (
        "id;cat;dog\na.jpg;1;\nb.jpg;0;1\n",
        {"image_column": "ID"},
        TWO,
    ),
    "columns to leave out": (
        'image,date,"a, b",cat,dog\na.jpg,2019,z,1,\nb.jpg,2020,z,0,1\n',
        {"ignore_columns": ("a, b", "Date,none")},
        TWO,
    ),
    "species": (
        "Path,Date,Species\na.jpg,2019,cat\nb.jpg,2020,dog|cat\n",
        {},
        (("a.jpg", "b.jpg"), ("cat", "dog"), [[1, -1], [1, 1]]),
    ),
    "line breaks in a cell": (
        'image,tags\na.jpg,cat\nb.jpg,"dog\r\ncat\n"\n',
        {},
        (("a.jpg", "b.jpg"), ("cat", "dog"), [[1, -1], [1, 1]]),
    ),
    "a row per tag": (
        "image,label\na.jpg,cat\nb.jpg,dog\na.jpg,dog\n",
        {},
        (("a.jpg", "b.jpg"), ("cat", "dog"), [[1, 1], [-1, 1]]),
    ),
    # as Kaggle, scripts and phones write them
    "one-hot in UTF-16 with commas": (
        "image,cat,dog\na.jpg,1,\nb.jpg,0,1\n".encode("utf-16"),
        {},
        TWO,
    ),
    "semicolons with a byte order mark": ("\ufeffimage;tags\na.jpg;cat,dog\nb.jpg;dog\n", {}, BOTH),
    "a list of Python": ("image,tags\na.jpg,\"['cat', 'dog']\"\nb.jpg,['dog']\n", {}, BOTH),
    "a list without quotes": ('image,tags\na.jpg,"[cat, dog]"\nb.jpg,[dog]\n', {}, BOTH),
    "a list of numpy": ("image,tags\na.jpg,['cat' 'dog']\nb.jpg,['dog']\n", {}, BOTH),
    "an empty list": (
        "image,tags\na.jpg,\"['cat', 'dog']\"\nb.jpg,[]\n",
        {},
        (("a.jpg", "b.jpg"), ("cat", "dog"), [[1, 1], [-1, -1]]),
    ),
    "a list although a comma was told": (
        "image,tags\na.jpg,\"['cat', 'dog']\"\nb.jpg,['dog']\n",
        {"separator": ","},
        BOTH,
    ),
    "commas that separate": ('image,tags\na.jpg,"cat, dog"\nb.jpg,dog\nc.jpg,cat\n', {}, THREE),
    "lists under any name": ("file,what\na.jpg,\"['cat', 'dog']\"\nb.jpg,['dog']\n", {}, BOTH),
    "ticks": ("image,cat,dog\na.jpg,✓,?\nb.jpg,0,✔\n", {}, TWO),
    "spaces around cells": ("image , cat , dog\na.jpg, 1 , \nb.jpg, 0, 1\n", {}, TWO),
    "classes that are numbers": (
        "image,1,2\na.jpg,1,\nb.jpg,0,1\n",
        {},
        (("a.jpg", "b.jpg"), ("1", "2"), [[1, -1], [0, 1]]),
    ),
    "NA and dates as ids": (
        "image,cat\nNA,1\n2019-05-01,0\nnull,1\n1e5,\n",
        {},
        (("NA", "2019-05-01", "null", "1e5"), ("cat",), [[1], [0], [1], [-1]]),
    ),
    "a line break in a quoted id": (
        'image,cat\n"a\nb.jpg",1\nc.jpg,0\n',
        {},
        (("a\nb.jpg", "c.jpg"), ("cat",), [[1], [0]]),
    ),
    "labels merged downwards": (
        workbook(
            *(WIDE, ["a.jpg", 1, 0], ["b.jpg", None, 1], ["c.jpg"], ["d.jpg"]),
            merged=("C3:C5", "B2:B4"),
        ),
        {},
        (("a.jpg", "b.jpg", "c.jpg", "d.jpg"), *TWO[1:2], [[1, 0], [1, 1], [1, 1], [-1, 1]]),
    ),
    "a drive before every name": (
        'image,cat,dog\n"C:\\Users\\me\\a",1,\n"c:\\users\\me\\b",0,1\n',
        {},
        ((r"Users\me\a", r"users\me\b"), *TWO[1:]),
    ),
}


@pytest.mark.parametrize("name", READ)
def test_a_spreadsheet_is_read_as_the_table_it_says(tmp_path, name):
    content, told, (images, classes, values) = READ[name]
    path = SHEETS / content if isinstance(content, str) and "\n" not in content else None
    if path is None:
        ending = ".xlsx" if content[:2] == b"PK" else ".csv"
        path = put(tmp_path / f"x{ending}", content)
    table = read_labels(path, options=ReadOptions(**told))
    assert (table.images, table.classes) == (images, classes)
    assert table.values.tolist() == values


def test_what_was_taken_is_told(tmp_path):
    table = read_labels(SHEETS / "libreoffice-tags.xlsx")
    assert table.notes == (
        "sheet 'Tags' is read, the first of 2; to read another, put it first",
        "column 'File' names the images; column 'Keywords' has their tags; "
        "left out: 'Camera', 'Rating'",
    )
    path = put(tmp_path / "x.csv", "image,label\na.jpg,cat\na.jpg,dog\n")
    table = read_labels(path, options=ReadOptions(ignore_columns=("lable",)))
    assert table.notes == (
        "no column 'lable' to leave out",
        "merged 1 row with an earlier row of the same image",
    )


# What must be refused

OLE = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
REFUSED = {
    "OpenDocument with merged cells": ("libreoffice-tags.ods", ".ods:3: image '': the name is"),
    "cp1252": (
        "libreoffice-tags-cp1252.csv",
        ":2: expected UTF-8 text, byte 71 is 0xe9; save the file as UTF-8, or for CSV name its "
        "encoding, as --set encoding=cp1252",
    ),
    "dates": (
        "libreoffice-wide.xlsx",
        ":1: no labels (1, 0 or nothing) in the columns 'Datum' (as '2019-05-01'); leave them out: "
        "--set ignore_columns=Datum",
    ),
    "a password": (
        OLE + bytes(512) + "EncryptedPackage".encode("utf-16-le"),
        "x.xlsx: not a readable workbook (",
    ),
    "a page of the web": (b"<html><table>", "x.xlsx: not a readable workbook ("),
    "half of a workbook": (workbook(WIDE)[:700], "x.xlsx: not a readable workbook ("),
    "an empty workbook": (workbook(), "x.xlsx:1: expected a header 'image,<class>,…'"),
    "a note beside the table": (
        workbook(WIDE, ["a.jpg", 1, 0, None, "blurred"]),
        "x.xlsx:2: expected 3 cells as in the header (row 1), got 5",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_read_is_told_in_one_line(tmp_path, capfd, name):
    content, says = REFUSED[name]
    path = SHEETS / content if isinstance(content, str) else put(tmp_path / "x.xlsx", content)
    assert main(["convert", str(path), str(tmp_path / "out.csv")]) == 2
    said, complained = capfd.readouterr()
    assert said == ""
    assert complained.count("\n") == 1
    assert says in complained
    assert not (tmp_path / "out.csv").exists()


# Commas in tags


# Names of files

FILES = ("2019/trip/IMG_1.JPG", "2019/trip/img_2.jpg", "IMG_3.JPG", "b.jpg", "b.png", "c.jpg")
NUMBERS = ("000000018792.jpg", "7.jpg", "07.jpg", "v/0042.jpg", "12.05/scan")
TWICE = ("2019/d.jpg", "2020/d.jpg")


@pytest.mark.parametrize(
    ("names", "meant"),
    [
        (["IMG_3"], ["IMG_3.JPG"]),
        (["img_3.jpg"], ["IMG_3.JPG"]),
        (["2019\\trip\\IMG_1.JPG"], ["2019/trip/IMG_1.JPG"]),
        (["2019/TRIP/img_2"], ["2019/trip/img_2.jpg"]),
        (
            ["Users/me/photos/c.jpg", "Users/me/photos/2019/trip/IMG_1.JPG"],
            ["c.jpg", "2019/trip/IMG_1.JPG"],
        ),
        (["Users/me/2018/c.jpg", "Users/me/2017/c.jpg"], [None, None]),
        (["IMG_1.JPG", "c"], ["2019/trip/IMG_1.JPG", "c.jpg"]),
        (["trip/img_1.jpg", "img_2"], ["2019/trip/IMG_1.JPG", "2019/trip/img_2.jpg"]),
        (["rip/IMG_1.JPG", "2020/trip/IMG_1.JPG"], [None, None]),
        (["IMG_3.CR2"], [None]),
    ],
)
def test_a_name_means_the_one_file_that_it_can_mean(names, meant):
    found = match_filenames(names, FILES, "photos", names)
    assert [found.get(name) for name in names] == meant


@pytest.mark.parametrize(
    ("names", "meant"),
    [
        (["18792"], ["000000018792.jpg"]),
        (["18792.jpg", "7"], ["000000018792.jpg", "7.jpg"]),
        (["18792.png", "8792", "12"], [None, None, None]),
        (["v/42"], ["v/0042.jpg"]),
        (["42.JPG"], ["v/0042.jpg"]),
    ],
)
def test_a_number_means_the_file_whose_zeros_a_spreadsheet_took(names, meant):
    found = match_filenames(names, NUMBERS, "photos", names)
    assert [found.get(name) for name in names] == meant


@pytest.mark.parametrize(
    ("names", "listed", "message"),
    [
        (["b"], ["b"], "image 'b': photos has 'b.jpg' and 'b.png'; write the exact name"),
        (["d.jpg"], ["d.jpg"], "photos has '2019/d.jpg' and '2020/d.jpg'; write the exact"),
        (
            ["c", "C.JPG"],
            [],
            "images 'c' and 'C.JPG': both are listed, but photos has only one file",
        ),
        (["c"], ["c.jpg"], "images 'c.jpg' and 'c': both are listed, but photos has only one file"),
    ],
)
def test_a_name_that_may_mean_two_files_is_a_mistake(names, listed, message):
    with pytest.raises(InputError, match=message):
        match_filenames(names, FILES + TWICE, "photos", listed)


def test_files_are_found_by_what_people_write(tmp_path):
    for name in FILES:
        put(tmp_path / "photos" / name, b"")
    names = ["b.jpg", "img_3", "2019\\trip\\IMG_2.JPG", "none.jpg"]
    located = find(names, tmp_path / "photos")
    assert located.names == ["b.jpg", "IMG_3.JPG", "2019/trip/img_2.jpg", "none.jpg"]
    assert located.missing == [3]
    assert [str(path) for path in located.paths[:3]] == [
        str(tmp_path / "photos" / name) for name in located.names[:3]
    ]
    assert located.notes == ["2 images found by another name, such as 'img_3' = 'IMG_3.JPG'"]
    assert find(["IMG_3.JPG "], tmp_path / "photos").names == ["IMG_3.JPG"]  # as Excel keeps them
    assert find(names, tmp_path / "photos", exactly=True).missing == [1, 2, 3]


# Writing


@pytest.mark.parametrize("name", ["=a.jpg", "a_x000D_.jpg", "\x01.jpg", "x" * 40_000])
def test_names_that_a_workbook_would_change_are_not_written(tmp_path, name):
    table = LabelTable((name,), ("cat",), np.array([[1]]))
    with pytest.raises(InputError, match="cannot be in a workbook as it is"):
        write_labels(table, tmp_path / "x.xlsx")
    assert not list(tmp_path.iterdir())
