"""Tables of 1 and -1: nobody loses their negatives, and nobody's unknown labels become negative."""

import numpy as np
import pandas as pd
import pytest

from g2netpl.labels.io import LabelFileError, ReadOptions, read_labels, write_labels
from g2netpl.labels.table import LabelTable

NAMES, CLASSES = ("a.jpg", "b.jpg", "c.jpg"), ("Male", "Young")
SIGNS = [[1, -1], [-1, 1], [-1, -1]]
NEGATIVES = [[1, 0], [0, 1], [0, 0]]


def written(folder, ending, rows):
    """A file with these cells."""
    frame, path = pd.DataFrame(rows, columns=CLASSES, dtype="Int64"), folder / f"x.{ending}"
    frame.insert(0, "image_id", NAMES)
    write = {"csv": frame.to_csv, "xlsx": frame.to_excel, "parquet": frame.to_parquet}[ending]
    write(path, index=False)
    return path


@pytest.mark.parametrize(
    ("ending", "first"), [("csv", "x.csv:2"), ("xlsx", "x.xlsx:2"), ("parquet", "parquet: row 0")]
)
def test_what_minus_one_means_is_asked_where_no_cell_is_0(tmp_path, ending, first):
    path = written(tmp_path, ending, SIGNS)
    with pytest.raises(LabelFileError) as asked:
        read_labels(path)
    assert len(asked.value.issues) == 1
    assert str(asked.value).endswith(
        f"{first}: class 'Young' is -1, and no cell is 0; give --set minus_one=negative if -1 "
        "means negative, or --set minus_one=unobserved if it means unknown"
    )
    assert read_labels(path, options=ReadOptions(minus_one="negative")).values.tolist() == NEGATIVES
    assert read_labels(path, options=ReadOptions(minus_one="unobserved")).values.tolist() == SIGNS


@pytest.mark.parametrize("ending", ["csv", "xlsx", "parquet"])
def test_it_is_unknown_if_there_are_zeros_unless_the_user_says_otherwise(tmp_path, ending):
    path = written(tmp_path, ending, [[1, -1], [0, 1], [-1, None]])
    assert read_labels(path).values.tolist() == [[1, -1], [0, 1], [-1, -1]]
    options = ReadOptions(minus_one="negative")
    assert read_labels(path, options=options).values.tolist() == [[1, 0], [0, 1], [0, -1]]
    write_labels(LabelTable(NAMES, CLASSES, np.array(SIGNS)), tmp_path / f"ours.{ending}")
    assert read_labels(tmp_path / f"ours.{ending}").values.tolist() == SIGNS
