"""One class written in several ways is suspected, two classes are not."""

import numpy as np
import pytest

from g2netpl.labels.class_warnings import similar_class_names
from g2netpl.labels.table import LabelTable


def table(**positives):
    """A class of each name with as many positives."""
    rows = max(positives.values())
    values = np.full((rows, len(positives)), -1, dtype=np.int8)
    for column, count in enumerate(positives.values()):
        values[:count, column] = 1
    return LabelTable([f"{row}.jpg" for row in range(rows)], list(positives), values)


@pytest.mark.parametrize(
    ("rare", "count"), [("girafe", 1), ("girafffe", 2), ("giraffa", 3), ("Griaffe", 1)]
)
def test_a_rare_name_one_letter_apart_is_suspected(rare, count):
    (found,) = similar_class_names(table(giraffe=30, zebra=20, **{rare: count}))
    shown = "1 image" if count == 1 else f"{count} images"
    assert found.names == f"{rare!r} ({shown}) and 'giraffe' (30 images)"
    assert str(found).endswith(f"with the line '{rare} = giraffe'")


@pytest.mark.parametrize(
    "positives",
    [
        {"giraffe": 30, "girafe": 4},  # not rare
        {"giraffe": 19, "girafe": 2},  # not so much rarer
        {"giraffe": 30, "girafe": 0},  # nobody wrote it
        {"glass": 50, "glasses": 1},  # two letters
        {"cat": 50, "car": 1},  # very short
        {"row 1": 50, "row 2": 1, "row 11": 2},  # numbers
        {"horse": 50, "house": 40},  # both frequent
        {"glove": 12, "gloves": 12},
    ],
)
def test_two_classes_are_not_suspected(positives):
    assert similar_class_names(table(**positives)) == []


def test_case_and_joints_are_suspected_whatever_their_number():
    found = similar_class_names(table(**{"Polar bear": 40, "polar_bear": 40, "cow": 2, "Cow": 9}))
    assert found == [
        ("'Polar bear' and 'polar_bear'", "polar_bear = Polar bear"),
        ("'cow' and 'Cow'", "cow = Cow"),
    ]
