"""The user's own sheet comes back: the same columns, ids and order, with the labels completed."""

from pathlib import Path

import numpy as np
import openpyxl
import pandas as pd
import pytest

from g2netpl.labels.io import ReadOptions, read_labels
from g2netpl.labels.io.sheets import complete_sheet, completed_name
from g2netpl.labels.io.tables import can_read
from g2netpl.labels.table import LabelTable

SHEETS = Path(__file__).parent / "sheets"
CHANCES = np.array([[0.99, 0.93, 0.1], [0.2, 0.88, 0.815], [0.5, 0.4, 0.7]])


def completed(path, changes, options=ReadOptions()):  # noqa: B008
    """What was read from a sheet with some labels added: image, class."""
    table = read_labels(path, options=options)
    values, added = table.values.copy(), np.zeros(table.values.shape, dtype=bool)
    for image, name in changes:
        row, column = table.images.index(image), table.classes.index(name)
        values[row, column], added[row, column] = 1, True
    chances = np.resize(CHANCES, values.shape)
    return table.with_values(values), added, completed_name(path, path.parent), chances, options


def test_tags_of_a_csv_file_with_other_columns(tmp_path):
    path = tmp_path / "shop.csv"
    path.write_bytes(
        b"\xef\xbb\xbfSKU;Photo;Keywords;Price\r\n"
        b"007;a;cat;1,50\r\nNA;b;;2019-05-01\r\n008;c;owl, cat;\r\n"
    )
    parts = completed(path, [("a", "owl"), ("b", "cat"), ("b", "owl")])
    assert complete_sheet(path, *parts[:3], *parts[3:]) == []
    assert (tmp_path / "shop-completed.csv").read_bytes() == (
        b"\xef\xbb\xbfSKU;Photo;Keywords;Price;added\r\n"
        b"007;a;cat, owl;1,50;owl 0.93\r\nNA;b;cat, owl;2019-05-01;cat 0.10; owl 0.20\r\n"
        b"008;c;owl, cat;;\r\n"
    ).replace(b"cat 0.10; owl 0.20", b'"cat 0.10; owl 0.20"')
    again = read_labels(tmp_path / "shop-completed.csv")
    assert again.classes == ("cat", "owl")
    assert again.values.tolist() == [[1, 1], [1, 1], [1, 1]]


@pytest.mark.parametrize(
    ("cell", "after"),
    [
        ("\"['Comedy', 'Drama']\"", "\"['Comedy', 'Drama', 'War']\""),
        ('"[""Comedy"", ""Drama""]"', '"[""Comedy"", ""Drama"", ""War""]"'),
        ("Comedy|Drama", "Comedy|Drama|War"),
        ("Comedy; Drama", "Comedy; Drama; War"),
        ("Comedy", "Comedy;War"),
    ],
)
def test_tags_are_added_in_the_style_of_the_cell(tmp_path, cell, after):
    path = tmp_path / "films.csv"
    path.write_text(f"image,tags\na.jpg,{cell}\nb.jpg,War\n")
    table, added, target, *_ = completed(path, [("a.jpg", "War")])
    complete_sheet(path, table, added, target)
    assert target.read_text() == f"image,tags,added\na.jpg,{after},War\nb.jpg,War,\n"


def test_a_cell_with_no_or_one_tag_gets_the_style_of_the_other_cells(tmp_path):
    path = tmp_path / "shop.csv"
    path.write_text(
        'image,tags\na.jpg,"red, wool"\nb.jpg,red\nc.jpg,\nd.jpg,"wool, silk"\ne.jpg,silk\n'
    )
    table, added, target, *_ = completed(path, [("b.jpg", "wool"), ("c.jpg", "wool")])
    complete_sheet(path, table, added, target)
    assert '\nb.jpg,"red, wool",wool\n' in target.read_text()
    names = tmp_path / "names.csv"
    names.write_text('image,tags\na.jpg,"salt, table"\nb.jpg,cat\nc.jpg,dog\n')
    table, added, target, *_ = completed(names, [("b.jpg", "dog")])
    complete_sheet(names, table, added, target)
    assert "\nb.jpg,cat;dog,dog\n" in target.read_text()


@pytest.mark.parametrize(
    ("yes", "no", "filled"), [("1", "0", "1"), ("x", "", "x"), ("TRUE", "FALSE", "TRUE")]
)
def test_unknown_cells_of_class_columns_get_a_label_in_the_words_of_the_sheet(
    tmp_path, yes, no, filled
):
    path = tmp_path / "wide.csv"
    path.write_text(f"image,cat,dog\na.jpg,{yes},?\nb.jpg,,{no}\n")
    table, added, target, *_ = completed(path, [("a.jpg", "dog")])
    complete_sheet(path, table, added, target)
    assert target.read_text() == (f"image,cat,dog,added\na.jpg,{yes},{filled},dog\nb.jpg,,{no},\n")


def test_a_workbook_keeps_its_other_sheets_columns_and_formats(tmp_path):
    path, book = tmp_path / "photos.xlsx", openpyxl.Workbook()
    page = book.active
    for row in (["File", "Keywords", "Rating"], ["a.jpg", "cat", 3], ["b.jpg", None, 5]):
        page.append(row)
    page["C2"].number_format, page["A1"].font = "0.00", openpyxl.styles.Font(bold=True)
    book.create_sheet("Prices").append(["cat", "=1+1"])
    book.save(path)
    table, added, target, chances, _ = completed(path, [("b.jpg", "cat")])
    assert complete_sheet(path, table, added, target, chances) == []
    back = openpyxl.load_workbook(target)
    assert [[cell.value for cell in row] for row in back.worksheets[0]] == [
        ["File", "Keywords", "Rating", "added"],
        ["a.jpg", "cat", 3, None],
        ["b.jpg", "cat", 5, "cat 0.93"],
    ]
    assert back.worksheets[0]["C2"].number_format == "0.00"
    assert back.worksheets[0]["A1"].font.bold
    assert back["Prices"]["B1"].value == "=1+1"


def test_an_old_workbook_comes_back_as_xlsx_and_this_is_said(tmp_path):
    path = tmp_path / "old.xls"
    path.write_bytes((SHEETS / "libreoffice-wide.xls").read_bytes())
    options = ReadOptions(ignore_columns=("Datum",))
    table, added, target, *_ = completed(path, [("IMG_1.JPG", "Vogel")], options)
    assert target.name == "old-completed.xlsx"
    notes = complete_sheet(path, table, added, target, None, options)
    assert notes == [f"{path} is completed as .xlsx: {target}"]
    cells = [[cell.value for cell in row] for row in openpyxl.load_workbook(target).worksheets[0]]
    assert cells[0] == ["Filename", "Datum", "Café", "Hund", "Vogel", "added"]
    assert cells[1][4:] == [1, "Vogel"]


@pytest.mark.parametrize("column", ["labels", "cat"])
def test_parquet_keeps_its_columns_and_types(tmp_path, column):
    cells = [["cat"], []] if column == "labels" else [1.0, None]
    frame = pd.DataFrame({"image": ["a", "b"], column: cells, "size": [5, 6]})
    frame.to_parquet(tmp_path / "x.parquet")
    options = ReadOptions(ignore_columns=("size",))
    table, added, target, *_ = completed(tmp_path / "x.parquet", [("b", "cat")], options)
    complete_sheet(tmp_path / "x.parquet", table, added, target, None, options)
    back = pd.read_parquet(target)
    assert list(back.columns) == ["image", column, "size", "added"]
    assert [list(cell) if column == "labels" else cell for cell in back[column]] == (
        [["cat"], ["cat"]] if column == "labels" else [1.0, 1.0]
    )
    assert back["size"].tolist() == [5, 6]
    assert back["added"].tolist() == ["", "cat"]


def test_ids_without_endings_rows_of_other_images_and_a_second_completion(tmp_path):
    path = tmp_path / "x.csv"
    path.write_text("Id,labels,added\ntt1,cat,\ntt2,dog,\nother,,\n")
    table = LabelTable(("tt1.jpg", "tt2.jpg"), ("cat", "dog"), np.array([[1, 1], [1, 1]]))
    added = np.array([[False, True], [True, False]])
    options = ReadOptions(image_column="Id")
    notes = complete_sheet(path, table, added, tmp_path / "y.csv", None, options)
    assert (tmp_path / "y.csv").read_text() == (
        "Id,labels,added\ntt1,cat;dog,dog\ntt2,dog;cat,cat\nother,,\n"
    )
    assert notes == [f"1 rows of {path} have no image of the run: unchanged"]
    assert can_read(path)
    assert not can_read(tmp_path)
