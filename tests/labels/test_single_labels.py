"""Files that name labels one by one, however they are cut into blocks."""

import json
import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from g2netpl.labels.io import LabelFileError, read_labels

listings = st.lists(
    st.tuples(
        st.sampled_from(["a.jpg", "b.jpg", "é.jpg", "d.jpg", "e.jpg"]),
        st.lists(st.sampled_from(["x", "y", "zebra 猫"]), max_size=4),
        st.lists(st.sampled_from(["x", "y", "u"]), max_size=2),
    ),
    min_size=1,
    max_size=9,
)


def truth_of(rows):
    """Labels by image, and the line of every contradiction, by plain dictionaries."""
    there, absent = {}, {}
    for image, yes, no in rows:
        there.setdefault(image, set()).update(yes)
        absent.setdefault(image, set()).update(no)
    wrong = [
        line for line, (image, _, no) in enumerate(rows, start=2) for _ in set(no) & there[image]
    ]
    return {image: (there[image], absent[image]) for image in there}, wrong


@given(listings, st.sampled_from(["tags", "lines"]))
def test_tags_say_what_dictionaries_say(rows, shape):
    first, wrong = truth_of(rows)
    if shape == "tags":
        name = "x.csv"
        lines = [f"{image},{';'.join(yes)},{'|'.join(no)}" for image, yes, no in rows]
        lines = ["image,labels,absent", *lines]
    else:
        name = "metadata.jsonl"
        keys = ("file_name", "labels", "absent")
        lines = ["", *(json.dumps(dict(zip(keys, row, strict=True))) for row in rows)]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, name)
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")
        classes = sorted({tag for _, yes, no in rows for tag in (*yes, *no)})
        if wrong or not classes:
            with pytest.raises(LabelFileError) as caught:
                read_labels(path)
            at = f"{path}:{{0}}" if shape == "tags" else f"{path}: row {{1}}"
            lines = [at.format(line, line - 2) for line in wrong] if classes else [str(path)]
            assert sorted(problem.where for problem in caught.value.issues) == sorted(lines)
            return
        read = read_labels(path)
    assert read.images == tuple(first)
    assert read.classes == tuple(classes)
    expected = [
        [1 if name in yes else 0 if name in no else -1 for name in classes]
        for yes, no in first.values()
    ]
    assert read.values.tolist() == expected
    assert ("united" in "".join(read.notes)) == (len(first) < len(rows))
