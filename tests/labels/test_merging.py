"""Several label files are one table: what any of them knows, and never more."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from g2netpl import (
    LabelTable,
    ReadOptions,
    inspect_labels,
    read_labels,
)
from g2netpl.labels.io import image_folder, read_aliases
from g2netpl.labels.io.build import merge
from g2netpl.labels.io.issues import LabelFileError
from g2netpl.utils.errors import InputError

ALICE = "image,cat,dog\n1.jpg,1,0\n2.jpg,,1\n"
BOB = "image,dog,tree\n2.jpg,,0\n3.jpg,1,1\n"


def known(table):
    """What a table says, as a dictionary: nothing of ours but its rows."""
    return {
        (image, name): int(value)
        for image, row in zip(table.images, table.values, strict=True)
        for name, value in zip(table.classes, row, strict=True)
        if value >= 0
    }


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "alice.csv").write_text(ALICE)
    (tmp_path / "bob.csv").write_text(BOB)
    return tmp_path


def coco(path, images, categories, there):
    content = {
        "images": [{"id": place, "file_name": name} for place, name in enumerate(images)],
        "categories": [{"id": place, "name": name} for place, name in enumerate(categories)],
        "annotations": [
            {"id": number, "image_id": images.index(image), "category_id": categories.index(name)}
            for number, (image, name) in enumerate(there)
        ],
    }
    path.write_text(json.dumps(content))


def test_images_and_classes_of_both_and_what_either_knows(folder):
    table = read_labels(["alice.csv", "bob.csv"])
    assert table.images == ("1.jpg", "2.jpg", "3.jpg")
    assert table.classes == ("cat", "dog", "tree")
    assert table.values.tolist() == [[1, 0, -1], [-1, 1, 0], [-1, 1, 1]]
    joined = "2 label files joined: 1 of 3 images and 1 of 3 classes are in more than one"
    assert table.notes == (joined,)
    assert read_labels(["alice.csv"]).values.tolist() == read_labels("alice.csv").values.tolist()


def test_only_the_classes_of_a_file_are_absent_from_its_images(folder):
    coco(folder / "carol.json", ["2.jpg", "4.jpg"], ["bird", "dog"], [("2.jpg", "bird")])
    coco(folder / "dan.json", ["4.jpg"], ["tree"], [("4.jpg", "tree")])
    table = read_labels(["carol.json", "dan.json"])
    assert known(table) == {("2.jpg", "bird"): 1, ("2.jpg", "dog"): 0, ("4.jpg", "tree"): 1}
    (folder / "tags.csv").write_text("image,tags\n5.jpg,cat\n6.jpg,cat;sun\n")
    table = read_labels(["alice.csv", "tags.csv"], None, ReadOptions(absent="negative"))
    assert {name: value for (image, name), value in known(table).items() if image == "5.jpg"} == {
        "cat": 1,
        "sun": 0,
    }


@pytest.fixture
def contradicting(folder):
    (folder / "bob.csv").write_text("image,cat,dog\n3.jpg,,1\n1.jpg,0,1\n2.jpg,0,1\n")
    return ["alice.csv", "bob.csv"]


def test_contradictions_are_told_with_both_files_and_lines_and_a_remedy(contradicting):
    with pytest.raises(LabelFileError) as told:
        read_labels(contradicting)
    assert str(told.value) == (
        "bob.csv: image '1.jpg', class 'cat': negative here, positive in alice.csv (and 1 more "
        "problem: g2netpl check lists them); correct one of the files, or use "
        "--set contradictions=unknown or last"
    )
    assert [each.message for each in told.value.issues][1:] == [
        "image '1.jpg', class 'dog': positive here, negative in alice.csv"
    ]
    found = inspect_labels(contradicting)
    assert [each.kind for each in found.errors] == ["contradiction"] * 2
    assert found.table is None


@pytest.mark.parametrize(
    ("rule", "cat", "dog", "said"),
    [("unknown", -1, -1, "taken as unknown"), ("last", 0, 1, "the file named last counts")],
)
def test_the_user_says_what_counts(contradicting, rule, cat, dog, said):
    table = read_labels(contradicting, None, ReadOptions(contradictions=rule))
    assert table.values.tolist() == [[cat, dog], [0, 1], [-1, 1]]
    first = "bob.csv: image '1.jpg', class 'cat': negative here, positive in alice.csv"
    assert table.notes[-1] == f"2 contradictions, {said}; the first: {first}"


def test_mistakes_of_all_files_are_told_at_once(folder):
    (folder / "alice.csv").write_text(ALICE + "4.jpg,2,0\n")
    (folder / "bob.csv").write_text(BOB + "../x.jpg,1,0\n")
    found = inspect_labels(["alice.csv", "bob.csv"])
    assert [each.where for each in found.errors] == ["alice.csv:4", "bob.csv:4"]
    with pytest.raises(InputError, match=r"^carl.csv: no such label file"):
        read_labels(["alice.csv", "carl.csv"])
    with pytest.raises(InputError, match="expected a label file, or several, got none"):
        read_labels([])


def test_groups_are_joined_and_an_image_has_one(folder):
    (folder / "alice.csv").write_text("image,group,cat\n1.jpg,zoo,1\n2.jpg,,0\n")
    (folder / "bob.csv").write_text("image,cat\n2.jpg,\n3.jpg,1\n")
    (folder / "carol.csv").write_text("image,group,cat\n2.jpg,park,\n3.jpg,zoo,1\n")
    assert read_labels(["alice.csv", "bob.csv"]).groups == ("zoo", "", "")
    assert read_labels(["alice.csv", "bob.csv", "carol.csv"]).groups == ("zoo", "park", "zoo")
    (folder / "carol.csv").write_text("image,group,cat\n1.jpg,park,\n")
    with pytest.raises(InputError, match=r"^carol.csv: image '1.jpg' is in group 'zoo' already"):
        read_labels(["alice.csv", "carol.csv"])


TRUTH = {(f"{image}", name): (image * 7 + place) % 3 % 2 for image in range(6) for place, name in
         enumerate("abcd")}  # fmt: skip


@st.composite
def parts_of_truth(draw):
    """Tables that know some of one truth, so that nothing contradicts."""
    images = draw(st.lists(st.sampled_from("012345"), unique=True, max_size=6))
    classes = draw(st.lists(st.sampled_from("abcd"), unique=True, min_size=1, max_size=4))
    seen = draw(st.sets(st.sampled_from(sorted(TRUTH))))
    values = [[TRUTH[i, c] if (i, c) in seen else -1 for c in classes] for i in images]
    matrix = np.array(values, dtype=np.int8).reshape(len(images), len(classes))
    return LabelTable(images, classes, matrix)


@given(st.lists(st.tuples(parts_of_truth(), st.integers(0, 2**32 - 1)), min_size=2, max_size=4))
def test_contradictions_are_those_that_a_dictionary_finds(drawn):
    tables = {}
    for place, (table, seed) in enumerate(drawn):
        flip = np.random.default_rng(seed).random(table.values.shape) < 0.3
        values = np.where(flip & (table.values >= 0), 1 - table.values, table.values)
        tables[str(place)] = table.with_values(values.astype(np.int8))
    said: dict[tuple[str, str], list[int]] = {}
    for table in tables.values():
        for label, value in known(table).items():
            said.setdefault(label, []).append(value)
    agreed = {label: values[0] for label, values in said.items() if len(set(values)) == 1}
    assert known(merge(tables, "unknown")) == agreed
    assert known(merge(tables, "last")) == {label: values[-1] for label, values in said.items()}
    if len(agreed) < len(said):
        with pytest.raises(LabelFileError) as told:
            merge(tables)
        assert len(told.value.issues) == len(said) - len(agreed)


def test_files_in_different_folders_name_their_images_from_the_folder_above(folder):
    for name, text in (("zoo", ALICE), ("park", BOB)):
        (folder / name).mkdir()
        (folder / name / "labels.csv").write_text(text)
    files = ["zoo/labels.csv", "park/labels.csv"]
    table = read_labels(files)
    assert table.images == ("zoo/1.jpg", "zoo/2.jpg", "park/2.jpg", "park/3.jpg")
    assert image_folder(files).resolve() == folder
    note = "the files are in different folders: their images are named relative to . (with "
    assert table.notes[-1] == f"{note}--images, to that folder)"
    assert read_labels(files, options=ReadOptions(one_folder=True)).images == (
        "1.jpg",
        "2.jpg",
        "3.jpg",
    )
    beside = ["zoo/labels.csv", "alice.csv"]
    (folder / "alice.csv").write_text("image,fox\nzoo/1.jpg,1\n")
    assert read_labels(beside).images == ("zoo/1.jpg", "zoo/2.jpg")


ALIASES = "# of Bob\nhound = dog\n\nautomobile = car\nCar=car\n"


def test_aliases_make_many_names_one_class(folder):
    (folder / "aliases.txt").write_text(ALIASES)
    aliases = read_aliases("aliases.txt")
    assert aliases == {"hound": "dog", "automobile": "car", "Car": "car"}
    (folder / "c.csv").write_text(
        "image,automobile,cat,Car,hound\n1.jpg,1,0,0,\n2.jpg,,,0,1\n3.jpg,0,1,,\n4.jpg,,1,,0\n"
    )
    table = read_labels("c.csv", None, ReadOptions(aliases=aliases))
    assert table.classes == ("car", "cat", "dog")
    assert table.values.tolist() == [[1, 0, -1], [0, -1, 1], [0, 1, -1], [-1, 1, 0]]
    assert table.notes == ()
    (folder / "tags.csv").write_text("image,tags\n1.jpg,Car;hound\n2.jpg,car;Car\n3.jpg,cat\n")
    tags = read_labels("tags.csv", None, ReadOptions(aliases=aliases))
    assert known(tags) == {("1.jpg", "car"): 1, ("1.jpg", "dog"): 1, ("2.jpg", "car"): 1,
                             ("3.jpg", "cat"): 1}  # fmt: skip


MALFORMED = {
    "no mark": ("dog\n", r":1: expected 'other name = class', got 'dog'"),
    "two marks": ("# x\na = b = c\n", r":2: expected 'other name = class', got 'a = b = c'"),
    "two classes": ("a = b\na = c\n", ":2: 'a = c': expected a name that is neither"),
    "itself": ("dog = dog\n", ":1: 'dog = dog': expected a name that is neither"),
    "a chain": ("a = b\n\nb = c\n", ":3: 'b = c': expected a name that is neither"),
    "nothing": ("# only this\n", ": expected 'other name = class', one per line; the file is emp"),
}


@pytest.mark.parametrize("kind", MALFORMED)
def test_a_mistake_in_the_aliases_is_told_with_its_line(kind, tmp_path):
    content, message = MALFORMED[kind]
    path = tmp_path / "aliases.txt"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(InputError, match=f"aliases.txt{message}"):
        read_aliases(path)
