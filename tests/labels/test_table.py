import numpy as np
import pytest

from g2netpl.labels.table import LabelTable
from g2netpl.utils.errors import InputError


def table(values=((1, 0), (-1, 1)), images=("a", "b"), classes=("x", "y")):
    return LabelTable(images, classes, np.array(values))


def test_a_table_is_a_checked_private_copy():
    values = np.array([[1, 0], [-1, 1]])
    made = LabelTable(("a", "b"), ("x", "y"), values)
    values[0, 0] = 0
    assert made.values.dtype == np.int8
    assert made.values.tolist() == [[1, 0], [-1, 1]]
    with pytest.raises(ValueError, match="read-only"):
        made.values[0, 0] = 0
    assert made.observed_fraction == 0.75
    assert not made.is_complete
    assert len(made) == 2


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"values": ((2, 0), (0, 1))}, "image 0, class 0: .* got 2"),
        ({"values": ((0.5, 0), (0, 1))}, "got 0.5"),
        ({"values": ((1, 0),)}, "2 images × 2 classes, got shape"),
        ({"classes": ("x", "x")}, "class 'x' is listed twice"),
        ({"images": ("a", "a")}, "image 'a' is listed twice"),
        ({"classes": (), "values": np.zeros((2, 0))}, "at least one class"),
        ({"values": (1, 0)}, "expected a matrix"),
    ],
)
def test_mistakes_are_named(change, message):
    with pytest.raises(InputError, match=message):
        table(**change)


def test_the_fingerprint_changes_with_every_part():
    prints = {
        table().fingerprint(),
        table(values=((1, 0), (0, 1))).fingerprint(),
        table(images=("a", "c")).fingerprint(),
        table(classes=("x", "z")).fingerprint(),
    }
    assert len(prints) == 4
    assert table().fingerprint() == table().fingerprint()


def test_labels_above_four_gigabytes_are_rejected_before_they_are_made():
    images, classes = range(70_000), [str(number) for number in range(70_000)]
    with pytest.raises(InputError, match=r"70,000 images × 70,000 classes: .* 4.6 GB.*sample the"):
        LabelTable([str(number) for number in images], classes, None)
