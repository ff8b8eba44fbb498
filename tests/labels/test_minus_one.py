"""Tables of 1 and -1: nobody loses their negatives, and nobody's unknown labels become negative."""

import numpy as np
import pytest
from malformed import put

from g2netpl.labels.io import LabelFileError, ReadOptions, read_labels, write_labels
from g2netpl.labels.table import LabelTable

NAMES, CLASSES = ("a.jpg", "b.jpg", "c.jpg"), ("Male", "Young")
SIGNS = [[1, -1], [-1, 1], [-1, -1]]
NEGATIVES = [[1, 0], [0, 1], [0, 0]]


def text(path, rows, between=",", form="{}"):
    lines = [["image_id", *CLASSES]]
    for name, cells in zip(NAMES, rows, strict=True):
        lines.append([name, *("" if each is None else form.format(each) for each in cells)])
    return put(path, "".join(between.join(line) + "\n" for line in lines))


def workbook(path, rows):
    book = pytest.importorskip("openpyxl").Workbook()
    book.active.append(["image_id", *CLASSES])
    for name, cells in zip(NAMES, rows, strict=True):
        book.active.append([name, *cells])
    book.save(path)
    return path


def parquet(path, rows, kind="int64"):
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow.parquet import write_table

    columns = {"image_id": NAMES}
    for name, cells in zip(CLASSES, zip(*rows, strict=True), strict=True):
        columns[name] = pyarrow.array(cells, kind)
    write_table(pyarrow.table(columns), path)
    return path


WAYS = {  # to write rows, and where the first -1 of SIGNS is then
    "csv": (lambda folder, rows: text(folder / "x.csv", rows), "x.csv:2"),
    "semicolons": (lambda folder, rows: text(folder / "x.csv", rows, ";"), "x.csv:2"),
    "quotes": (lambda folder, rows: text(folder / "x.csv", rows, form='"{}"'), "x.csv:2"),
    "workbook": (lambda folder, rows: workbook(folder / "x.xlsx", rows), "x.xlsx:2"),
    "parquet": (lambda folder, rows: parquet(folder / "x.parquet", rows), "x.parquet: row 0"),
}


@pytest.mark.parametrize("way", WAYS)
def test_what_minus_one_means_is_asked_where_no_cell_is_0(tmp_path, way):
    write, first = WAYS[way]
    path = write(tmp_path, SIGNS)
    with pytest.raises(LabelFileError) as asked:
        read_labels(path)
    assert len(asked.value.issues) == 1
    assert str(asked.value).endswith(
        f"{first}: class 'Young' is -1, and no cell is 0; give --minus-one negative if -1 means "
        "negative, or --minus-one unobserved if it means unknown"
    )
    assert read_labels(path, options=ReadOptions(minus_one="negative")).values.tolist() == NEGATIVES
    assert read_labels(path, options=ReadOptions(minus_one="unobserved")).values.tolist() == SIGNS


@pytest.mark.parametrize("way", WAYS)
def test_beside_0_it_is_unknown_unless_told(tmp_path, way):
    path = WAYS[way][0](tmp_path, [[1, -1], [0, 1], [-1, None]])
    assert read_labels(path).values.tolist() == [[1, -1], [0, 1], [-1, -1]]
    told = ReadOptions(minus_one="negative")
    assert read_labels(path, options=told).values.tolist() == [[1, 0], [0, 1], [0, -1]]


@pytest.mark.parametrize("ending", ["csv", "xlsx", "parquet"])
def test_positives_that_we_wrote_are_read_without_a_question(tmp_path, ending):
    pytest.importorskip({"xlsx": "openpyxl", "parquet": "pyarrow"}.get(ending, "csv"))
    write_labels(LabelTable(NAMES, CLASSES, np.array(SIGNS)), tmp_path / f"x.{ending}")
    for told in (None, "negative", "unobserved"):
        table = read_labels(tmp_path / f"x.{ending}", options=ReadOptions(minus_one=told))
        assert table.values.tolist() == SIGNS
