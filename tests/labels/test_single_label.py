"""One class per image: what follows from a name, and what contradicts it."""

import numpy as np
import pytest

from g2netpl import LabelTable
from g2netpl.labels.class_warnings import looks_single_label
from g2netpl.labels.io import LabelFileError
from g2netpl.labels.io.build import apply_answers, complete_single_labels


def table(*rows):
    return LabelTable([f"{row}.jpg" for row in range(len(rows))], ("ant", "bee", "fly"), rows)


def test_a_name_says_all_and_the_last_that_is_left_is_the_one():
    found = complete_single_labels(
        table([1, -1, -1], [-1, 1, 0], [-1, -1, -1], [0, -1, -1], [0, -1, 0])
    )
    assert found.values.tolist() == [[1, 0, 0], [0, 1, 0], [-1, -1, -1], [0, -1, -1], [0, 1, 0]]
    assert complete_single_labels(found).values.tolist() == found.values.tolist()


def test_all_of_them_are_told_and_so_is_an_image_that_lacks_every_class():
    with pytest.raises(LabelFileError) as problem:
        complete_single_labels(table([1, 1, 1], [0, 0, 0], [1, -1, -1]), "labels.csv")
    assert [each.message.split(";")[0] for each in problem.value.issues] == [
        "image '0.jpg' has 3 positives, 'ant', 'bee', 'fly'",
        "image '1.jpg' lacks all classes",
    ]


@pytest.mark.parametrize(
    ("rows", "so"),
    [
        ([[1, -1]] * 10 + [[-1, 1]] * 10, True),  # tags
        ([[1, 0]] * 10 + [[0, 1]] * 10 + [[-1, -1]] * 5, True),  # full, and some unlabelled
        ([[1, -1]] * 10 + [[-1, 1]] * 9, False),  # few
        ([[1, -1]] * 20, False),  # of one class alone
        ([[1, -1]] * 10 + [[-1, 1]] * 10 + [[1, 1]], False),
        ([[1, -1]] * 10 + [[-1, 1]] * 10 + [[0, -1]], False),  # a negative without the one
        ([[-1, -1]] * 30, False),
    ],
)
def test_labels_that_look_so(rows, so):
    table = LabelTable([str(row) for row in range(len(rows))], ["cat", "dog"], rows)
    assert looks_single_label(table) == so


def test_answers_of_people():
    """Yes denies the others, no to the one opens them, no to another changes nothing else."""
    values = np.array([[1, 0, 0], [1, 0, 0], [1, 0, 0], [-1, 0, -1]], dtype=np.int8)
    said = values.copy()
    said[0, 1], said[1, 0], said[2, 1], said[3, 0] = 1, 0, 0, 0
    found = apply_answers(said, {0: {1: 1}, 1: {0: 0}, 2: {1: 0}, 3: {0: 0}})
    assert found.tolist() == [[0, 1, 0], [0, -1, -1], [1, 0, 0], [0, 0, -1]]
