"""`g2netpl serve --label-studio`, asked as Label Studio 1.23 was seen to ask."""

import http.client
import json
import threading

import numpy as np
import pytest
from review_runs import write_photos, write_run

from g2netpl.base.errors import Refused
from g2netpl.cli import main
from g2netpl.images.thumbnails import Roots
from g2netpl.labels.formats import read_labels
from g2netpl.labels.table import NEGATIVE, POSITIVE, UNOBSERVED
from g2netpl.review.label_studio import LabelStudioServer
from g2netpl.review.learner import Learner
from g2netpl.runs.answers import read_decisions
from g2netpl.runs.run import Run

CLASSES = ["cat", "dog", "owl"]
NAMES = ["a 1.png", "b.png", "zoo/c.png"]
SOFT = np.array([[0.9, 0.8, 0.1], [0.6, 0.2, 0.45], [0.05, 0.95, 0.1]])
INTERFACE = (
    '<View><Image name="photo" value="$picture"/><Choices name="tags" toName="photo" '
    'choice="multiple" showInline="true"><Choice value="cat"/><Choice value="dog"/>'
    '<Choice value="owl"/></Choices></View>'
)
ADDRESSES = ["/data/upload/1/377351e8-a_1.png", "s3://x/b.png", "/data/local-files/?d=zoo/c.png"]


class Backend:
    """A server in this process, and what Label Studio asks of it."""

    def __init__(self, parent, run, unchosen_is_no=False):
        self.told = []
        self.learner = Learner(run, Roots(parent / "photos"), self.told.append)
        self.server = LabelStudioServer(self.learner, unchosen_is_no, 0)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.server.shutdown()
        self.server.server_close()
        self.learner.close()

    def ask(self, path, body=None):
        connection = http.client.HTTPConnection("127.0.0.1", self.server.server_port, timeout=120)
        head = {"User-Agent": "heartex/1.23.2", "Connection": "keep-alive"}
        target = f"/{self.server.token}{path}"
        try:
            if body is None:
                connection.request("GET", target, headers=head)
            else:
                head["Content-Type"] = "application/json"
                connection.request("POST", target, json.dumps(body), head)
            answer = connection.getresponse()
            return answer.status, json.loads(answer.read())
        finally:
            connection.close()

    def predict(self, *addresses):
        """POST /predict, as the action `Retrieve predictions` causes it."""
        tasks = [
            {"id": 4 + place, "data": {"picture": address}, "meta": {}, "project": 1}
            for place, address in enumerate(addresses)
        ]
        params = {"login": None, "password": None, "context": None}
        body = {"tasks": tasks, "project": "1.1794916510", "label_config": INTERFACE}
        status, answer = self.ask("/predict", {**body, "params": params})
        assert status == 200, answer
        return answer

    def annotate(self, address, *names, action="ANNOTATION_CREATED", seen=(), **about):
        """POST /webhook, as a submitted annotation causes it."""
        annotation = {"id": 1, "result": [result(*names)] if names else [], "was_cancelled": False}
        annotation |= {
            "prediction": {"result": [result(*seen)]} if seen else {},
            "task": 4,
            **about,
        }
        project = {"id": 1, "label_config": INTERFACE, "show_collab_predictions": True}
        task = {"id": 4, "data": {"picture": address}, "project": 1}
        body = {"action": action, "annotation": annotation, "project": project, "task": task}
        status, answer = self.ask("/webhook", body)
        assert status == 200, answer
        return answer["answers"]

    def known(self, row):
        return self.learner.review.values[row].tolist()


def result(*names, control="tags"):
    value = {"choices": list(names)}
    return {"from_name": control, "to_name": "photo", "type": "choices", "value": value}


def chosen(said):
    return [name for each in said["result"] for name in each["value"]["choices"]]


@pytest.fixture
def run(tmp_path):
    write_photos(tmp_path / "photos", NAMES)
    observed = np.full((3, 3), UNOBSERVED)
    folder = write_run(tmp_path / "run", NAMES, CLASSES, observed, SOFT, SOFT)
    (folder / "model.safetensors").write_bytes(b"weights")
    return folder


@pytest.fixture
def backend(tmp_path, run):
    with Backend(tmp_path, run) as made:
        yield made


def test_it_is_there_and_takes_an_interface_with_its_classes(backend):
    version = Run.open(backend.learner.folder).version
    assert backend.ask("/health")[1] == backend.ask("/")[1]
    assert backend.ask("/health")[1]["status"] == "UP"
    assert backend.ask("/versions") == (200, {"versions": [version]})
    setup = {
        "project": "1.1794916510",
        "schema": INTERFACE,
        "hostname": "http://localhost:8080",
        "access_token": "0123456789abcdef",
        "extra_params": None,
    }
    assert backend.ask("/setup", setup) == (200, {"model_version": version})
    status, answer = backend.ask("/setup", {**setup, "schema": INTERFACE.replace('"cat"', '"x"')})
    assert status == 200  # dog and owl are enough
    other = INTERFACE.replace("cat", "x").replace("dog", "y").replace("owl", "z")
    status, answer = backend.ask("/setup", {**setup, "schema": other})
    assert (status, "none of its choices is a class of the run" in answer["error"]) == (422, True)
    assert "0123456789abcdef" not in "".join(backend.told)
    assert not [
        path
        for path in backend.learner.folder.rglob("*")
        if path.is_file() and b"0123456789abcdef" in path.read_bytes()
    ]


def test_predictions_are_in_the_order_of_the_tasks(backend):
    """k = 1.35 positives per image make four of nine: those from 0.6 on."""
    answer = backend.predict(*ADDRESSES, "https://example.org/elsewhere.png")
    assert [chosen(said) for said in answer["results"]] == [["cat", "dog"], ["cat"], ["dog"], []]
    assert {said["model_version"] for said in answer["results"]} == {answer["model_version"]}
    scores = [said["score"] for said in answer["results"]]
    right = np.where(SOFT >= 0.6, SOFT, 1 - SOFT).mean(axis=1)
    assert scores == pytest.approx([*right, 0], abs=2e-3)
    assert min(scores[:3]) == scores[1]  # the one to be asked about first


def test_an_odd_task_does_not_stand_in_the_way_of_the_others(backend):
    tasks = [{}, 7, {"data": {"picture": "http://[x"}}, {"data": {"picture": 1}}]
    tasks.append({"data": {"picture": ADDRESSES[2]}})
    status, answer = backend.ask("/predict", {"tasks": tasks, "label_config": INTERFACE})
    assert status == 200
    assert [chosen(said) for said in answer["results"]] == [[], [], [], [], ["dog"]]
    assert [line.startswith("no prediction: task") for line in backend.told] == [True] * 4


def test_choices_are_answers_and_what_was_taken_away_is_a_no(backend):
    assert backend.annotate(ADDRESSES[0], "cat", seen=("cat", "dog")) == 2
    assert backend.known(0) == [POSITIVE, NEGATIVE, UNOBSERVED]
    assert backend.annotate(ADDRESSES[0], "cat", seen=("cat", "dog")) == 0  # told twice
    assert backend.annotate(ADDRESSES[1], "owl") == 1
    assert backend.annotate(ADDRESSES[1], "cat", action="ANNOTATION_UPDATED") == 2
    assert backend.known(1) == [POSITIVE, UNOBSERVED, NEGATIVE]
    assert backend.annotate(ADDRESSES[2], "dog", was_cancelled=True) == 0
    assert backend.known(2) == [UNOBSERVED] * 3
    said = backend.predict(*ADDRESSES[:2])["results"]
    assert [chosen(each) for each in said] == [["cat"], ["cat"]]
    decisions = read_decisions(backend.learner.folder)
    assert {each.order for each in decisions} == {"label-studio"}
    assert [(each.image, each.label, each.action) for each in decisions] == [
        ("a 1.png", "cat", "yes"),
        ("a 1.png", "dog", "no"),
        ("b.png", "owl", "yes"),
        ("b.png", "owl", "no"),
        ("b.png", "cat", "yes"),
    ]


def test_predictions_that_the_project_does_not_show_refuse_nothing(backend):
    project = {"id": 1, "label_config": INTERFACE, "show_collab_predictions": False}
    annotation = {"result": [result("cat")], "prediction": {"result": [result("cat", "dog")]}}
    task = {"data": {"picture": ADDRESSES[0]}}
    body = {"annotation": annotation, "project": project, "task": task}
    assert backend.ask("/webhook", {"action": "ANNOTATION_CREATED", **body})[1] == {"answers": 1}
    assert backend.known(0) == [POSITIVE, UNOBSERVED, UNOBSERVED]


def test_with_absent_negative_what_is_not_chosen_is_a_no(tmp_path, run):
    with Backend(tmp_path, run, unchosen_is_no=True) as backend:
        assert backend.annotate(ADDRESSES[0], "cat") == 3
        assert backend.annotate(ADDRESSES[1]) == 3  # an empty annotation: nothing is there
        assert backend.known(0) == [POSITIVE, NEGATIVE, NEGATIVE]
        assert backend.known(1) == [NEGATIVE] * 3


def test_what_the_run_does_not_know_is_told_and_other_events_are_passed_over(backend):
    assert backend.annotate("/data/upload/1/377351e8-new.png", "cat") == 0
    assert backend.annotate(ADDRESSES[0], "cat", "unicorn") == 1
    assert ["no image" in backend.told[0], "'unicorn'" in backend.told[1]] == [True, True]
    for action in ("TASKS_CREATED", "ANNOTATIONS_DELETED", "PROJECT_UPDATED", "SOMETHING_NEW"):
        assert backend.ask("/webhook", {"action": action}) == (200, {"status": "passed over"})
    assert backend.ask("/webhook", {"action": "ANNOTATION_CREATED"})[0] == 422
    assert backend.ask("/job_status", {"job": "1"})[0] == 404


def test_answers_are_there_after_a_restart(tmp_path, run):
    with Backend(tmp_path, run) as first:
        first.annotate(ADDRESSES[0], "owl")
    with Backend(tmp_path, run) as second:
        assert second.known(0) == [UNOBSERVED, UNOBSERVED, POSITIVE]


def test_another_run_is_not_replaced_by_a_training(tmp_path, run):
    write_run(tmp_path / "run-answered", NAMES, CLASSES, np.full((3, 3), -1), SOFT)
    with pytest.raises(Refused, match="run-answered: is another run"):
        Learner(run, Roots(tmp_path / "photos"), print)


def test_a_training_takes_the_answers_and_the_next_model_predicts(photos, tmp_path):
    flags = ["--labels", photos / "train.csv", "--images", photos, "--only-listed", "--setting"]
    flags += ["fspl", "--backbone", "tiny", "--image-size", "32", "--epochs", "1", "--workers", "0"]
    run = tmp_path / "run"
    assert main(["train", *map(str, flags), "--device", "cpu", "--output", str(run)]) == 0
    table = read_labels(photos / "train.csv")
    told = []
    learner = Learner(run, Roots(photos), told.append)
    try:
        assert learner.learn() == "no answers yet"
        before, image = learner.model.version, table.images[0]
        answers = dict.fromkeys(table.classes[:3], "no")
        new = learner.answer(f"/data/local-files/?d={image}", answers)
        assert learner.learn() == f"training on {new} answer{'s' if new > 1 else ''}"
        thread = learner._thread
        assert learner.learn().startswith("a training is under way")
        thread.join(120)
        assert told == [
            f"training on {new} answer{'s' if new > 1 else ''}",
            f"trained: {learner.model.version} predicts from now on",
        ]
        assert learner.model.version != before
        assert learner.learn() == "nothing new since the last training"
        after = Run.open(tmp_path / "run-answered").observed()
        row = after.images.index(image)
        assert after.values[row, :3].tolist() == [NEGATIVE] * 3
        (outside,) = learner.say(
            [f"https://example.org/{read_labels(photos / 'test.csv').images[0]}"]
        )
        assert outside is not None  # a photo of the folder that was not in the run
        assert np.isfinite(outside[0]).all()
    finally:
        learner.close()
