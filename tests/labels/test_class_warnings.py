"""One class written in several ways is suspected, two classes are not."""

import numpy as np

from g2netpl.labels.class_warnings import similar_class_names
from g2netpl.labels.table import LabelTable


def table(**positives):
    """A class of each name with as many positives."""
    rows = max(positives.values())
    values = np.full((rows, len(positives)), -1, dtype=np.int8)
    for column, count in enumerate(positives.values()):
        values[:count, column] = 1
    return LabelTable([f"{row}.jpg" for row in range(rows)], list(positives), values)


def test_case_and_joints_are_suspected_whatever_their_number():
    found = similar_class_names(table(**{"Polar bear": 40, "polar_bear": 40, "cow": 2, "Cow": 9}))
    assert found == [
        ("'Polar bear' and 'polar_bear'", "polar_bear = Polar bear"),
        ("'cow' and 'Cow'", "cow = Cow"),
    ]
    assert similar_class_names(table(glass=50, glasses=1, horse=40, house=40)) == []
