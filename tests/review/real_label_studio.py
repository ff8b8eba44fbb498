"""Label Studio itself, from the package index, on this machine: started, and asked by its API."""

import json
import os
import shutil
import socket
import subprocess
import time
import urllib.error
import urllib.request
import uuid

PROGRAM = os.environ.get("LABEL_STUDIO") or shutil.which("label-studio")
TOKEN = "0123456789abcdef0123456789abcdef01234567"


class LabelStudio:
    """A server with one user and its own data."""

    def __init__(self, folder, address=None):
        self.process = None
        self.address = address or f"http://127.0.0.1:{free_port()}"
        if address is None:
            self._start(folder)

    def _start(self, folder):
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
                return self.ask("GET", "/api/projects")
            except OSError:
                assert self.process.poll() is None, (folder / "label-studio.log").read_text()
                time.sleep(0.5)
        self.close()
        raise AssertionError("Label Studio did not start")

    def close(self):
        if self.process is not None:
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

    def annotate(self, task, choices, control="tags", of="photo"):
        result = [
            {"from_name": control, "to_name": of, "type": "choices", "value": {"choices": choices}}
        ]
        path, body = f"/api/tasks/{task}/annotations/", {"result": result if choices else []}
        return self.ask("POST", path, body)["id"]

    def export(self, kind="JSON"):
        return self.ask("GET", f"{self.path}/export?exportType={kind}&download_all_tasks=true")

    def connect(self, address):
        body = {"url": address, "project": self.number, "title": "g2netpl"}
        return self.ask("POST", "/api/ml", body)

    def retrieve(self):
        """Ask the backend for predictions of all tasks."""
        action = f"/api/dm/actions?id=retrieve_tasks_predictions&project={self.number}"
        self.ask("POST", action, {"selectedItems": {"all": True, "excluded": []}})

    def predictions(self, version):
        """What a model said of each task."""
        found = self.ask("GET", f"/api/predictions/?project={self.number}")
        return {each["task"]: each for each in found if each["model_version"] == version}


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]
