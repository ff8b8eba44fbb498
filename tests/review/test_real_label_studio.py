"""The whole loop with Label Studio itself: upload, tags, train, predict, answer, train, predict.

Needs the program `label-studio` (1.23 was tried), on the path or named by LABEL_STUDIO.
"""

import json
import random
import re
import time

import numpy as np
import pytest
from real_label_studio import PROGRAM, LabelStudio
from test_label_studio_example import Backend

from g2netpl.cli import main
from g2netpl.images.scenes import CLASSES, make_scenes, write_scenes
from g2netpl.labels.io import read_labels
from g2netpl.utils.errors import InputError

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(PROGRAM is None, reason="label-studio is not installed (LABEL_STUDIO=path)"),
]
CHOICES = "".join(f'<Choice value="{name}"/>' for name in CLASSES)
INTERFACE = (
    '<View><Image name="photo" value="$picture"/><Choices name="tags" toName="photo" '
    f'choice="multiple">{CHOICES}</Choices></View>'
)
IMAGES, TAGGED, ANSWERED = 300, 150, 60


@pytest.fixture(scope="module")
def studio(tmp_path_factory):
    found = LabelStudio(tmp_path_factory.mktemp("studio"))
    yield found
    found.close()


@pytest.fixture(scope="module")
def photos(tmp_path_factory):
    """Scenes as files whose names Label Studio changes, and their truth."""
    folder = tmp_path_factory.mktemp("scenes")
    scenes = make_scenes(IMAGES, 1, seed=1)
    write_scenes(scenes, folder)
    for number, file in enumerate(sorted((folder / "images").glob("train-*.png"))):
        file.rename(file.with_name(f"photo {number}.png"))
    (folder / "images" / "test-00000.png").unlink()
    return folder / "images", scenes.train.values


def number_of(task):
    """Which scene a task shows."""
    return int(re.search(r"photo_(\d+)\.png", task["data"]["picture"])[1])


def share_right(predictions, truth, numbers, among):
    """Of the labels of some tasks."""
    right = []
    for task in among:
        names = [name for each in predictions[task]["result"] for name in each["value"]["choices"]]
        said = np.array([name in names for name in CLASSES])
        right.append((said == truth[numbers[task]]).mean())
    return float(np.mean(right))


def test_from_uploads_to_better_predictions(studio, photos, tmp_path):
    folder, truth = photos
    project, draw = studio.project(INTERFACE), random.Random(0)
    project.upload(sorted(folder.glob("*.png")))
    tasks = project.export()
    numbers = {task["id"]: number_of(task) for task in tasks}
    assert len(numbers) == IMAGES
    for task in tasks[:TAGGED]:  # one tag each, of those that are right
        there = np.flatnonzero(truth[numbers[task["id"]]])
        project.annotate(task["id"], [CLASSES[draw.choice(there.tolist())]])

    # the flat export is refused, the other one names files of ours
    export, small = tmp_path / "export.json", tmp_path / "min.json"
    export.write_text(json.dumps(project.export()))
    small.write_text(json.dumps(project.export("JSON_MIN")))
    with pytest.raises(InputError, match="export the project as JSON"):
        read_labels(small)
    run = tmp_path / "first"
    flags = ["--labels", export, "--images", folder, "--backbone", "tiny", "--image-size", "64"]
    flags += ["--epochs", "12", "--learning-rate", "3e-3", "--workers", "0", "--device", "cpu"]
    flags += ["--expected-positives", "2.3", "--output", run]
    assert main(["train", *map(str, flags)]) == 0

    # by a file: predictions for the same tasks
    ours = tmp_path / "ours.json"
    assert main(["complete", str(run), "--output", str(ours), "--to", "label-studio"]) == 0
    imported = project.ask("POST", f"{project.path}/import/predictions", ours.read_bytes())
    assert imported == {"created": IMAGES}
    assert len(project.export()) == IMAGES  # no task is new
    second = studio.project(INTERFACE)  # and as tasks of another project
    made = second.ask("POST", f"{second.path}/import", ours.read_bytes())
    counts = {"task_count": IMAGES, "annotation_count": TAGGED, "prediction_count": IMAGES}
    assert {key: made[key] for key in counts} == counts

    # by the backend: the same predictions, the most doubtful first, answers, a training
    with Backend(run, "--unchosen-is-no") as serving:
        address = f"http://{serving.host}/{serving.token}"
        assert project.connect(address)["model_version"] == serving.version
        by_file = project.predictions(serving.version)
        second.connect(address)
        second.retrieve()
        by_backend = second.predictions(serving.version)
        said = [
            sorted((each["score"], str(each["result"])) for each in found.values())
            for found in (by_file, by_backend)
        ]
        assert len(said[0]) == IMAGES
        assert said[0] == said[1]
        change = {"model_version": serving.version, "sampling": "Uncertainty sampling"}
        project.ask("PATCH", project.path, change)
        doubtful = sorted(by_file, key=lambda task: by_file[task]["score"])
        asked, rest = doubtful[:ANSWERED], doubtful[ANSWERED:]
        following = project.ask("GET", f"{project.path}/next")["id"]
        assert by_file[following]["score"] == by_file[asked[0]]["score"]
        before = share_right(by_file, truth, numbers, rest)
        assert share_right(by_file, truth, numbers, asked) < before
        for task in asked:
            project.annotate(task, [CLASSES[at] for at in np.flatnonzero(truth[numbers[task]])])
        backend = project.ask("GET", f"/api/ml?project={project.number}")[0]["id"]
        project.ask("POST", f"/api/ml/{backend}/train", {})
        version = serving.version
        for _ in range(300):
            version = project.ask("GET", f"/api/ml?project={project.number}")[0]["model_version"]
            if version != serving.version:
                break
            time.sleep(1)
        project.retrieve()
        by_next = project.predictions(version)
        assert len(by_next) == IMAGES
        assert share_right(by_next, truth, numbers, asked) == 1.0  # what was answered
        assert share_right(by_next, truth, numbers, rest) > before + 0.01
    assert serving.process.returncode == 0
    assert f"trained: {version} predicts from now on" in serving.said
