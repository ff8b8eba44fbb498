"""FiftyOne: what a run says goes there, what a person tagged comes back."""

import json
import os
import subprocess
import sys

import numpy as np
import pytest

from g2netpl.base.errors import InputError
from g2netpl.cli import main
from g2netpl.labels.formats import Reading, read_labels, write_labels
from g2netpl.labels.formats.fiftyone import propose
from g2netpl.labels.formats.proposals import Proposals
from g2netpl.labels.table import LabelTable
from g2netpl.runs.completion import complete
from g2netpl.runs.run import load_run

U = -1
TABLE = LabelTable(("a.jpg", "sub/b.jpg"), ("cat", "dog", "owl"), np.array([[1, 0, U], [U, 0, U]]))
PROPOSALS = Proposals(
    new=np.array([[False, False, True], [True, False, True]]),
    scores=np.array([[1, 0, 0.75], [0.91234, 0, 0.5]], dtype=np.float32),
    soft=np.array([[True] * 3, [False] * 3]),
    chances=np.array([[0.04, 0.3, 0.7], [0.9, 0.99, 0.5]], dtype=np.float32),
)


def fields(folder):
    """Class, confidence and tags of every label, by sample and field."""
    samples = json.loads((folder / "samples.json").read_text(encoding="utf-8"))["samples"]
    return [
        {
            name: [(each["label"], each.get("confidence"), each["tags"]) for each in inner]
            for name, value in sample.items()
            if isinstance(value, dict) and (inner := value.get("classifications")) is not None
        }
        for sample in samples
    ]


def test_what_a_run_says_is_written_with_its_doubts(tmp_path):
    propose(TABLE, tmp_path / "look", PROPOSALS)
    assert fields(tmp_path / "look") == [
        {
            "observed": [("cat", 0.04, ["likely wrong"])],
            "absent": [("dog", 0.7, [])],
            "soft": [("owl", 0.75, [])],
            "predicted": [],
        },
        {
            "observed": [],
            "absent": [("dog", 0.01, ["likely wrong"])],
            "soft": [],
            "predicted": [("cat", 0.9123, []), ("owl", 0.5, [])],
        },
    ]
    again = read_labels(tmp_path / "look")
    assert (again.images, again.classes) == (TABLE.images, TABLE.classes)
    assert again.values.tolist() == TABLE.values.tolist()


def tag(folder, sample, field, name, *tags):
    path = folder / "samples.json"
    content = json.loads(path.read_text(encoding="utf-8"))
    for label in content["samples"][sample][field]["classifications"]:
        if label["label"] == name:
            label["tags"] += tags
    path.write_text(json.dumps(content), encoding="utf-8")


def test_what_a_person_tagged_is_read_back(tmp_path):
    folder = tmp_path / "look"
    propose(TABLE, folder, PROPOSALS)
    tag(folder, 0, "observed", "cat", "wrong")
    tag(folder, 0, "soft", "owl", "right", "nice")
    tag(folder, 1, "predicted", "cat", "wrong")
    tag(folder, 1, "absent", "dog", "wrong")
    content = json.loads((folder / "samples.json").read_text())
    content["samples"][1]["tags"] = ["owl", "validation"]
    content["samples"][1]["filepath"] = "/home/me/photos/sub/b.jpg"
    content["samples"][1]["predicted"]["classifications"].append({"label": None})
    (folder / "samples.json").write_text(json.dumps(content))
    table = read_labels(folder)
    assert table.images == TABLE.images
    assert table.values.tolist() == [[0, 0, 1], [0, 1, 1]]
    told = read_labels(folder, reading=Reading(classes=("owl", "cow", "dog", "cat")))
    assert told.values.tolist() == [[1, U, 0, 0], [1, U, 1, 0]]
    assert main(["convert", str(folder), str(tmp_path / "labels.csv")]) == 0
    assert read_labels(tmp_path / "labels.csv").values.tolist() == table.values.tolist()


def foreign(folder, *samples):
    folder.mkdir(exist_ok=True)
    (folder / "samples.json").write_text(json.dumps({"samples": samples}))
    return folder


def test_a_data_set_of_others_is_read_where_its_labels_are_clear(tmp_path):
    box = {"_cls": "Detections", "detections": [{"_cls": "Detection", "label": "cat"}]}
    one = {"_cls": "Classification", "label": "dog"}
    folder = foreign(tmp_path / "x", {"filepath": "a", "boxes": box}, {"filepath": "b"})
    assert read_labels(folder).values.tolist() == [[1], [U]]
    folder = foreign(folder, {"filepath": "a", "ground_truth": one, "boxes": box})
    assert read_labels(folder).classes == ("dog",)
    folder = foreign(folder, {"filepath": "a", "mine": one, "boxes": box})
    with pytest.raises(InputError, match="expected labels in 'ground_truth' or 'observed'"):
        read_labels(folder)


def test_a_new_class_of_a_person_is_one_more(tmp_path):
    write_labels(TABLE, tmp_path / "look", "fiftyone")
    tag(tmp_path / "look", 0, "observed", "cat")
    content = json.loads((tmp_path / "look/samples.json").read_text())
    new = {"_cls": "Classification", "label": "ant"}
    content["samples"][0]["observed"]["classifications"].append(new)
    (tmp_path / "look/samples.json").write_text(json.dumps(content))
    assert read_labels(tmp_path / "look").classes == ("cat", "dog", "owl", "ant")


def test_complete_writes_for_fiftyone_what_the_run_knows(small_run, tmp_path, capsys):
    command = ["complete", str(small_run), "--table", str(tmp_path / "look"), "--to", "fiftyone"]
    assert main(command) == 0
    assert "known labels as annotations, " in capsys.readouterr().out
    run = load_run(small_run)
    completed, soft = complete(run), run.has_soft_labels()
    assert read_labels(tmp_path / "look").values.tolist() == completed.observed.values.tolist()
    predicted = run.thresholds.calibrate(run.predictions())
    for row, found in enumerate(fields(tmp_path / "look")):
        names = {name for name, _, _ in found["soft" if soft[row] else "predicted"]}
        assert names == set(np.array(run.classes)[completed.proposed()[row]])
        assert not found["predicted" if soft[row] else "soft"]
        for name, chance, tags in found["observed"]:
            expected = predicted[row, run.classes.index(name)]
            assert chance == pytest.approx(expected, abs=1e-4)
            assert bool(tags) == (expected <= 0.1)
    assert main(command) == 3


REAL = """
import json, sys
from bson import json_util
from fiftyone.utils.data.importers import FiftyOneDatasetImporter, LegacyFiftyOneDatasetImporter
assert FiftyOneDatasetImporter("look")._is_legacy_format_data()
importer = LegacyFiftyOneDatasetImporter("look", rel_dir="photos")
importer.setup()
samples = list(importer)
print(json.dumps([importer.get_dataset_info(), [
    [s.filepath, s["image"], *[[(c.label, c.confidence, c.tags) for c in s[f].classifications]
     for f in ("observed", "absent", "soft", "predicted")]] for s in samples]]))
samples[0]["soft"].classifications[0].tags.append("right")
samples[1].tags.append("owl")
back = {"samples": [sample.to_dict(include_private=True) for sample in samples]}
open("back/samples.json", "w").write(json_util.dumps(back))
"""


def test_the_real_importer_takes_it_and_its_samples_come_back(tmp_path):
    """By FiftyOne's own classes; its database is not needed for them, and not tried."""
    python = os.environ.get("FIFTYONE_PYTHON", sys.executable)
    (tmp_path / "back").mkdir()
    environment = {**os.environ, "HOME": str(tmp_path), "FIFTYONE_DO_NOT_TRACK": "1"}

    def run(lines):
        command = [python, "-c", lines]
        return subprocess.run(
            command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=300
        )

    if run("import fiftyone").returncode:
        pytest.skip("no `fiftyone` here; FIFTYONE_PYTHON names a Python that has it")
    propose(TABLE, tmp_path / "look", PROPOSALS)
    done = run(REAL)
    assert done.returncode == 0, done.stderr
    info, samples = json.loads(done.stdout.splitlines()[-1])
    assert info == {"default_classes": ["cat", "dog", "owl"]}
    assert [each[:2] for each in samples] == [
        [str(tmp_path / "photos" / name), name] for name in TABLE.images
    ]
    doubt = ["likely wrong"]
    assert [each[2:] for each in samples] == [
        [[["cat", 0.04, doubt]], [["dog", 0.7, []]], [["owl", 0.75, []]], []],
        [[], [["dog", 0.01, doubt]], [], [["cat", 0.9123, []], ["owl", 0.5, []]]],
    ]
    back = read_labels(tmp_path / "back", reading=Reading(classes=TABLE.classes))
    assert back.images == TABLE.images
    assert back.values.tolist() == [[1, 0, 1], [U, 0, 1]]
