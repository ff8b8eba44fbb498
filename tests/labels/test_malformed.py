import json

import pytest
from malformed import CASES

from g2netpl.cli import main
from g2netpl.labels.io import LabelFileError, read_labels


def arguments(case, folder):
    flags = [str(folder / flag) if flag.endswith(".txt") else flag for flag in case.flags]
    return ["convert", str(case.put(folder)), str(folder / "out.csv"), *flags]


def listing(folder):
    return sorted(str(path) for path in folder.rglob("*"))


@pytest.mark.parametrize("name", CASES)
def test_a_malformed_file_is_told_in_one_line_and_nothing_is_written(tmp_path, capfd, name):
    case = CASES[name]
    command = arguments(case, tmp_path)
    before = listing(tmp_path)
    assert main(command) == 2
    said, complained = capfd.readouterr()
    assert said == ""
    assert complained.startswith("g2netpl: ")
    assert complained.count("\n") == 1
    assert complained.endswith("\n")
    assert case.says in complained
    assert str(tmp_path) in complained
    assert listing(tmp_path) == before


def problems(path, content):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content)
    with pytest.raises(LabelFileError) as caught:
        read_labels(path)
    return [(each.where.rpartition("/")[2], each.kind) for each in caught.value.issues]


def test_all_mistakes_of_a_csv_file_are_found_in_one_pass(tmp_path):
    content = "image,a,b,a\nx,1,0,1\ny,1\n../z,1,1,1\nw,2,maybe,1\n\nx,1,,1\nv,1,1,1\n"
    assert problems(tmp_path / "labels.csv", content) == [
        ("labels.csv:1", "header"),
        ("labels.csv:3", "number of cells"),
        ("labels.csv:4", "image name"),
        ("labels.csv:5", "cell"),
        ("labels.csv:5", "cell"),
    ]


def test_one_image_under_three_names_is_one_image(tmp_path):
    content = "image,cat\nZoo/a.jpg,1\n./Zoo/a.jpg,0\nZoo//a.jpg,1\n"
    assert problems(tmp_path / "x.csv", content) == [("x.csv:3", "contradiction")]
    (tmp_path / "x.csv").write_text(content.replace(",0", ",1"))
    table = read_labels(tmp_path / "x.csv")
    assert table.images == ("Zoo/a.jpg",)
    assert table.notes == ("merged 2 rows with an earlier row of the same image",)


def test_all_mistakes_of_annotations_are_found_in_one_pass(tmp_path):
    content = {
        "images": [{"id": 1, "file_name": "a"}],
        "annotations": [
            {"image_id": 2, "category_id": 1},
            {"image_id": 1, "category_id": 2},
        ],
        "categories": [{"id": 1, "name": "cat"}],
    }
    assert problems(tmp_path / "x.json", json.dumps(content)) == [
        ("x.json: annotations[0]", "unknown id"),
        ("x.json: annotations[1]", "unknown id"),
    ]
    content["annotations"] += [3, {}]
    assert problems(tmp_path / "x.json", json.dumps(content)) == [
        ("x.json: annotations[2]", "JSON"),
        ("x.json: annotations[3].image_id", "JSON"),
        ("x.json: annotations[3].category_id", "JSON"),
    ]
