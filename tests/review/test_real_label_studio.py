"""The loop with Label Studio itself: upload, tags, train, predictions, answers.

Needs the program `label-studio` (1.23 was tried), on the path or named by LABEL_STUDIO.
"""

import json
import os
import random
import re
import shutil
import socket
import subprocess
import time
import urllib.error
import urllib.request
import uuid

import numpy as np
import pytest
from test_label_studio_example import Backend, result

from g2netpl.cli import main
from g2netpl.images.scenes import CLASSES, make_scenes, write_scenes
from g2netpl.runs.answers import read_decisions

PROGRAM = os.environ.get("LABEL_STUDIO") or shutil.which("label-studio")
TOKEN = "0123456789abcdef0123456789abcdef01234567"
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


class LabelStudio:
    """A server with one user and its own data."""

    def __init__(self, folder):
        self.address = f"http://127.0.0.1:{free_port()}"
        (folder / "data").mkdir()
        there = {
            "LABEL_STUDIO_BASE_DATA_DIR": str(folder / "data"),
            "LABEL_STUDIO_LOCAL_FILES_SERVING_ENABLED": "true",
            "LABEL_STUDIO_LOCAL_FILES_DOCUMENT_ROOT": str(folder),
            "LABEL_STUDIO_ENABLE_LEGACY_API_TOKEN": "true",
            "ML_BLOCK_LOCAL_IP": "false",
            "SSRF_PROTECTION_ENABLED": "false",
            "COLLECT_ANALYTICS": "false",
            "LATEST_VERSION_CHECK": "false",
        }
        command = [PROGRAM, "start", "--no-browser", "--internal-host", "127.0.0.1"]
        command += ["--port", self.address.rpartition(":")[2], "--user-token", TOKEN]
        command += ["--username", "me@example.org", "--password", "a long password"]
        with open(folder / "label-studio.log", "wb") as log:
            self.process = subprocess.Popen(
                command, stdout=log, stderr=log, env={**os.environ, "PYTHONPATH": "", **there}
            )
        for _ in range(1200):  # its first start takes a minute, or several on a busy machine
            try:
                self.ask("GET", "/api/projects")
                return
            except OSError:
                assert self.process.poll() is None, (folder / "label-studio.log").read_text()
                time.sleep(0.5)

    def close(self):
        self.process.terminate()
        self.process.wait(120)

    def ask(self, method, path, body=None, kind="application/json"):
        """The answer to a request, of JSON unless the body is bytes of another kind."""
        content = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
        head = {"Authorization": f"Token {TOKEN}", "Content-Type": kind}
        asked = urllib.request.Request(self.address + path, content, head, method=method)
        try:
            with urllib.request.urlopen(asked, timeout=900) as answer:
                return json.loads(answer.read() or b"null")
        except urllib.error.HTTPError as problem:
            raise AssertionError(f"{method} {path}: {problem.read().decode()}") from None

    def project(self, interface):
        made = self.ask("POST", "/api/projects", {"title": "photos", "label_config": interface})
        return Project(self, made["id"])


class Project:
    """One project, and what people do in it."""

    def __init__(self, studio, number):
        self.studio, self.number, self.path = studio, number, f"/api/projects/{number}"

    def ask(self, method, path, body=None, **kind):
        return self.studio.ask(method, path, body, **kind)

    def upload(self, files):
        """Images as a browser sends them, a hundred at a time."""
        for start in range(0, len(files), 100):
            mark, parts = uuid.uuid4().hex, []
            for file in files[start : start + 100]:
                head = f'Content-Disposition: form-data; name="{file.stem}"; filename="{file.name}"'
                head = f"--{mark}\r\n{head}\r\nContent-Type: image/png\r\n\r\n"
                parts.append(head.encode() + file.read_bytes() + b"\r\n")
            body = b"".join(parts) + f"--{mark}--\r\n".encode()
            kind = f"multipart/form-data; boundary={mark}"
            self.ask("POST", f"{self.path}/import", body, kind=kind)

    def annotate(self, task, choices):
        body = {"result": [result(*choices)] if choices else []}
        self.ask("POST", f"/api/tasks/{task}/annotations/", body)

    def export(self):
        return self.ask("GET", f"{self.path}/export?exportType=JSON&download_all_tasks=true")

    def connect(self, address):
        body = {"url": address, "project": self.number, "title": "g2netpl"}
        return self.ask("POST", "/api/ml", body)

    def predictions(self, version):
        """What a model said of each task."""
        found = self.ask("GET", f"/api/predictions/?project={self.number}")
        return {each["task"]: each for each in found if each["model_version"] == version}


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


@pytest.fixture
def studio(tmp_path_factory):
    started = LabelStudio(tmp_path_factory.mktemp("studio"))
    yield started
    started.close()


def test_from_uploads_to_predictions_and_answers(studio, tmp_path):
    scenes = make_scenes(IMAGES, 1, seed=1)
    write_scenes(scenes, tmp_path)
    folder, truth = tmp_path / "images", scenes.train.values
    for number, file in enumerate(sorted(folder.glob("train-*.png"))):
        file.rename(file.with_name(f"photo {number}.png"))  # Label Studio changes such names
    (folder / "test-00000.png").unlink()
    project, choose = studio.project(INTERFACE), random.Random(0)
    project.upload(sorted(folder.glob("*.png")))
    tasks = project.export()
    numbers = {
        task["id"]: int(re.search(r"photo_(\d+)\.png", task["data"]["picture"])[1])
        for task in tasks
    }
    assert len(numbers) == IMAGES
    for task in tasks[:TAGGED]:  # one tag each, a right one
        present = np.flatnonzero(truth[numbers[task["id"]]])
        project.annotate(task["id"], [CLASSES[choose.choice(present.tolist())]])
    export, run = tmp_path / "export.json", tmp_path / "run"
    export.write_text(json.dumps(project.export()))
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

    # by the backend: answers become decisions of the run
    with Backend(run, "--unchosen-is-no") as serving:
        address = f"http://{serving.host}/{serving.token}"
        assert project.connect(address)["model_version"] == serving.version
        by_file = project.predictions(serving.version)
        assert len(by_file) == IMAGES
        uncertain = sorted(by_file, key=lambda task: by_file[task]["score"])[:ANSWERED]
        for task in uncertain:
            project.annotate(task, [CLASSES[at] for at in np.flatnonzero(truth[numbers[task]])])
        for _ in range(300):
            if len({each.image for each in read_decisions(run)}) == ANSWERED:
                break
            time.sleep(1)
    assert len({each.image for each in read_decisions(run)}) == ANSWERED
    for each in read_decisions(run):
        row = int(re.search(r"(\d+)\.png", each.image)[1])
        assert each.new == truth[row, CLASSES.index(each.label)]
