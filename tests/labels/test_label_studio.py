"""Label Studio's addresses and both of its exports, as version 1.23 writes them."""

import json

import numpy as np
import pytest
from PIL import Image

from g2netpl.images.sources import find, locate
from g2netpl.labels.io import ReadOptions, read_labels
from g2netpl.labels.io.label_studio import propose
from g2netpl.labels.table import LabelTable
from g2netpl.utils.errors import InputError


def chosen(*names, control="tags"):
    value = {"choices": list(names)}
    return {"from_name": control, "to_name": "photo", "type": "choices", "value": value}


def exported(number, address, *annotations):
    """A task of an export, as JSON."""
    made = [
        {"id": place, "result": result, "was_cancelled": False, "prediction": {}}
        for place, result in enumerate(annotations, start=1)
    ]
    data = {"picture": address, "caption": "a photo"}
    return {"id": number, "annotations": made, "predictions": [4], "data": data, "project": 3}


def put(path, tasks):
    path.write_text(json.dumps(tasks), encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("address", "found"),
    [
        ("/data/upload/3/377351e8-IMG_1_%C3%BC.png", "IMG 1 (ü).png"),
        ("http://localhost:8080/data/upload/3/377351e8-IMG_2.png", "IMG_2.png"),
        ("/data/upload/3/1234567-IMG_2.png", None),  # seven digits: no upload of theirs
        ("/data/local-files/?d=zoo/a%20b.png", "zoo/a b.png"),
        ("/data/local-files/?d=me/photos/zoo/a%20b.png", "zoo/a b.png"),
        ("s3://bucket/years/2020/zoo/a%20b.png", "zoo/a b.png"),
        ("https://example.org/IMG_2.png?size=large", "IMG_2.png"),
        ("gs://bucket/else/IMG_3.png", None),
        ("./zoo//a b.png", "zoo/a b.png"),
        ("IMG_2.png", "IMG_2.png"),
    ],
)
def test_an_address_names_an_image_of_ours(tmp_path, address, found):
    images = ("IMG 1 (ü).png", "IMG_2.png", "zoo/a b.png")
    table = LabelTable(images, ("cat",), [[-1]] * 3)
    project, out = put(tmp_path / "project.json", [exported(1, address)]), tmp_path / "out.json"
    scores = np.array([[0.1], [0.2], [0.3]], dtype=np.float32)
    if found is None:
        with pytest.raises(InputError, match=r"project.json: its tasks show no image of the run"):
            propose(table, out, scores > 1, scores, "v", project)
        return
    propose(table, out, scores > 1, scores, "v", project)
    (task,) = json.loads(out.read_text(encoding="utf-8"))
    assert task["score"] == pytest.approx(1 - scores[images.index(found), 0])


def test_an_upload_is_found_under_the_name_it_had(tmp_path):
    for name in ("IMG 1 (ü).png", "u\u0308ber.png", "00000000-kept.png", "kept.png"):
        Image.new("RGB", (4, 4)).save(tmp_path / name)
    stored = ["377351e8-IMG_1_ü.png", "1ba02287-über.png", "00000000-kept.png"]
    meant = ["IMG 1 (ü).png", "u\u0308ber.png", "00000000-kept.png"]
    assert locate(stored, tmp_path) == [str(tmp_path / name) for name in meant]
    assert find(["377351e8-IMG_3.png", "sub/377351e8-kept.png"], tmp_path).missing == [0, 1]
    Image.new("RGB", (4, 4)).save(tmp_path / "IMG_1 ü.png")
    with pytest.raises(InputError, match="write the exact name"):
        locate(stored, tmp_path)


def test_the_same_last_part_in_two_folders_is_told_apart(tmp_path):
    addresses = ["s3://b/all/cat/1.jpg", "s3://b/all/dog/1.jpg", "/data/local-files/?d=x/2.jpg"]
    addresses.append("/data/upload/3/1ba02287-3.jpg")
    tasks = [exported(number, address, [chosen("cat")]) for number, address in enumerate(addresses)]
    images = read_labels(put(tmp_path / "export.json", tasks)).images
    assert images == ("all/cat/1.jpg", "all/dog/1.jpg", "x/2.jpg", "1ba02287-3.jpg")
    images = read_labels(put(tmp_path / "export.json", tasks[1:])).images
    assert images == ("1.jpg", "x/2.jpg", "1ba02287-3.jpg")


@pytest.mark.parametrize("absent", ["unobserved", "negative"])
def test_an_export_of_a_person_and_another_by_hand(tmp_path, absent):
    tasks = [
        exported(1, "/data/upload/3/377351e8-IMG_1_%C3%BC.png", [chosen("circle", "square")]),
        exported(2, "b.png", [chosen("circle")], [chosen("square", control="absent")]),
        exported(3, "/data/local-files/?d=photos/g%201.png"),
    ]
    table = read_labels(put(tmp_path / "full.json", tasks), options=ReadOptions(absent=absent))
    assert table.images == ("377351e8-IMG_1_ü.png", "b.png", "photos/g 1.png")
    assert table.values.tolist() == [[1, 1], [1, 0], [-1, -1]]


def test_the_flat_export_is_refused_in_one_line(tmp_path):
    flat = {"picture": "a.jpg", "id": 1, "tags": "cat", "annotator": 1, "annotation_id": 3}
    with pytest.raises(InputError, match=r"this is JSON-MIN; export the project as JSON "):
        read_labels(put(tmp_path / "min.json", [flat]))


def test_predictions_go_to_the_tasks_of_the_project(tmp_path):
    """Expected to be right are 0.8 and 0.85 of the labels, and half of those without a score."""
    tasks = [
        exported(17, "/data/upload/3/1ba02287-b_1.png", [chosen("cat")]),
        exported(18, "s3://bucket/unknown.png"),
        exported(19, "/data/local-files/?d=photos/a.png"),
        exported(20, "c.png"),
    ]
    project, out = put(tmp_path / "export.json", tasks), tmp_path / "ours.json"
    table = LabelTable(("a.png", "b 1.png", "c.png"), ("cat", "dog"), [[-1, -1], [1, -1], [-1, -1]])
    scores = np.array([[0.2, 0.9], [1.0, 0.4], [0.3, np.nan]], dtype=np.float32)
    notes = propose(table, out, (table.values == -1) & (scores > 0.5), scores, "run-1", project)
    assert notes == ["1 task with images that the run does not know"]
    first, second, third = json.loads(out.read_text(encoding="utf-8"))
    for task, number, names, score, lowest in (
        (first, 17, ["cat"], 0.8, 1),
        (second, 19, ["dog"], 0.85, 0.9),
    ):
        before = tasks[number - 17]
        assert task["id"] == task["task"] == number
        assert (task["data"], task["annotations"]) == (before["data"], before["annotations"])
        (said,) = task["predictions"]
        assert said == {key: task[key] for key in ("model_version", "score", "result")}
        assert (said["model_version"], said["score"]) == ("run-1", pytest.approx(score))
        assert said["result"] == [{**chosen(*names), "score": pytest.approx(lowest)}]
    assert (third["result"], third["score"]) == ([], pytest.approx((0.7 + 0.5) / 2))
    assert read_labels(out).values.tolist() == [[1], [-1], [-1]]  # predictions: no observations


def test_boxes_and_brushes_are_labels_and_skipped_tasks_and_predictions_are_not(tmp_path):
    box = {"type": "rectanglelabels", "value": {"x": 20.5, "rectanglelabels": ["owl"]}}
    brush = {"type": "brushlabels", "value": {"rle": [0, 1], "brushlabels": ["fox"]}}
    rating = {"type": "rating", "value": {"rating": 4}, "from_name": "stars"}
    relation = {"type": "relation", "from_id": "a", "to_id": "b", "direction": "right"}
    tasks = [
        exported(1, "a.jpg", [box, brush, rating, relation]),
        exported(2, "b.jpg", [chosen("cat")]),
        {"data": {"image": "c.jpg"}, "predictions": [{"result": [chosen("cat")]}]},
    ]
    tasks[1]["annotations"][0]["was_cancelled"] = True
    table = read_labels(put(tmp_path / "tasks.json", tasks))
    assert (table.images, table.classes) == (("a.jpg", "b.jpg", "c.jpg"), ("fox", "owl"))
    assert table.values.tolist() == [[1, 1], [-1, -1], [-1, -1]]
