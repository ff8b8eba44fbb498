"""The example backend for Label Studio, asked as Label Studio 1.23 was seen to ask."""

import http.client
import json
import os
import subprocess
import sys
from pathlib import Path
from urllib.parse import urlsplit

import numpy as np
import pytest
from review_runs import write_photos, write_run

from g2netpl.runs.answers import read_decisions
from g2netpl.runs.run import Run

EXAMPLE = Path(__file__).parents[2] / "examples" / "label_studio_backend"
CLASSES = ["cat", "dog", "owl"]
NAMES = ["a 1.png", "b.png", "zoo/c.png"]
SOFT = np.array([[0.9, 0.8, 0.1], [0.6, 0.2, 0.45], [0.05, 0.95, 0.1]])
INTERFACE = (
    '<View><Image name="photo" value="$picture"/><Choices name="tags" toName="photo" '
    'choice="multiple" showInline="true"><Choice value="cat"/><Choice value="dog"/>'
    '<Choice value="owl"/></Choices></View>'
)
ADDRESSES = ["/data/upload/1/377351e8-a_1.png", "s3://x/b.png", "/data/local-files/?d=my/zoo/c.png"]


class Backend:
    """The example as a process of its own, and requests to it."""

    def __init__(self, run, *flags, **environment):
        source = str(Path(__file__).parents[2] / "src")
        self.process = subprocess.Popen(
            [sys.executable, str(EXAMPLE / "backend.py"), str(run), "--port", "0", *flags],
            stdout=subprocess.PIPE,
            text=True,
            env=os.environ | {"PYTHONPATH": source, **environment},
        )
        self.version, _, address = self.process.stdout.readline().partition(": connect ")
        parts = urlsplit(address.strip())
        self.host, self.token = parts.netloc, parts.path[1:]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.said = self.process.communicate(timeout=120)[0]

    def ask(self, path, body=None, token=None, **head):
        connection = http.client.HTTPConnection(self.host, timeout=120)
        target = f"/{self.token if token is None else token}{path}"
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

    def annotate(self, address, *names, action="ANNOTATION_CREATED", seen=()):
        annotation = {"id": 1, "result": [result(*names)] if names else [], "was_cancelled": False}
        annotation["prediction"] = {"result": [result(*seen)]} if seen else {}
        project = {"id": 1, "label_config": INTERFACE, "show_collab_predictions": True}
        task = {"id": 4, "data": {"picture": address}, "project": 1}
        body = {"action": action, "annotation": annotation, "project": project, "task": task}
        status, answer = self.ask("/webhook", body)
        assert status == 200, answer
        return answer["answers"]

    def chosen(self, *addresses):
        tasks = [{"id": 4, "data": {"picture": address}} for address in addresses]
        status, answer = self.ask("/predict", {"tasks": tasks, "label_config": INTERFACE})
        assert status == 200, answer
        assert {said["model_version"] for said in answer["results"]} == {self.version}
        results = [said["result"] for said in answer["results"]]
        names = [result[0]["value"]["choices"] if result else [] for result in results]
        return names, [said["score"] for said in answer["results"]]


def result(*names):
    value = {"choices": list(names)}
    return {"from_name": "tags", "to_name": "photo", "type": "choices", "value": value}


@pytest.fixture
def run(tmp_path):
    write_photos(tmp_path / "photos", NAMES)
    folder = write_run(tmp_path / "run", NAMES, CLASSES, np.full((3, 3), -1), SOFT, SOFT)
    (folder / "model.safetensors").write_bytes(b"weights")
    (folder / "evaluation.json").write_text("{}")
    result = {"method": "g2netpl", "setting": "", "weight": "", "seed": 0, "learning_rate": 0.1}
    result |= {"batch_size": 8, "best_epoch": 1, "seconds": 1.0}
    maps = ("validation_map", "test_map", "last_test_map", "pseudo_label_map", "unresolved")
    (folder / "result.json").write_text(json.dumps(result | dict.fromkeys(maps)))
    return folder


def test_it_predicts_takes_annotations_and_rejects_strangers(run):
    given = "T-_" * 14 + "z"
    with Backend(run, G2NETPL_TOKEN=given) as backend:
        assert backend.token == given
        assert backend.version == Run.open(run).version
        assert backend.ask("/health") == (200, {"status": "UP", "versions": [backend.version]})
        setup = {"project": "1.1", "schema": INTERFACE, "access_token": "0123456789abcdef"}
        assert backend.ask("/setup", setup) == (200, {"model_version": backend.version})
        other = INTERFACE.replace("cat", "x").replace("dog", "y").replace("owl", "z")
        status, answer = backend.ask("/setup", setup | {"schema": other})
        assert (status, "no choice is a class of the run" in answer["error"]) == (422, True)

        # k = 1.35 positives per image make four of nine: those from 0.6 on
        names, scores = backend.chosen(*ADDRESSES, "https://example.org/elsewhere.png")
        assert names == [["cat", "dog"], ["cat"], ["dog"], []]
        right = np.where(SOFT >= 0.6, SOFT, 1 - SOFT).mean(axis=1)
        assert scores == pytest.approx([*right, 0], abs=2e-3)

        for path, more in {
            "/health": {"token": "x" * 43},
            "/predict": {"body": {}, "Host": f"evil.example:{backend.host[-5:]}"},
            "/versions": {"Origin": f"http://{backend.host}"},
            "/": {"Sec-Fetch-Site": "none"},
        }.items():
            assert backend.ask(path, **more)[0] == 403, path
        assert backend.ask("/review.jsonl")[0] == 404
        assert backend.ask("/webhook", {"action": "ANNOTATION_CREATED"})[0] == 422
        assert (run / "review.jsonl").read_bytes() == b""

        assert backend.annotate(ADDRESSES[0], "cat", seen=("cat", "dog")) == 2
        assert backend.annotate(ADDRESSES[0], "cat", seen=("cat", "dog")) == 0  # sent twice
        assert backend.annotate(ADDRESSES[1], "owl") == 1
        assert backend.annotate(ADDRESSES[1], "cat", action="ANNOTATION_UPDATED") == 2
        assert backend.chosen(*ADDRESSES[:2])[0] == [["cat"], ["cat"]]
    assert [(each.image, each.label, each.action) for each in read_decisions(run)] == [
        ("a 1.png", "cat", "yes"),
        ("a 1.png", "dog", "no"),
        ("b.png", "owl", "yes"),
        ("b.png", "cat", "yes"),
        ("b.png", "owl", "no"),
    ]
    assert "3 yes, 2 no, 0 skipped saved in" in backend.said


def test_a_token_is_new_or_a_long_one_of_the_environment(run):
    with Backend(run, "--unchosen-is-no") as backend:
        assert len(backend.token) == 43
        assert backend.annotate(ADDRESSES[0], "cat") == 3
    with Backend(run, G2NETPL_TOKEN="short") as odd:
        assert odd.process.wait(120) == 2
