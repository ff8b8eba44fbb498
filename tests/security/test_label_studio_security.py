"""The backend for Label Studio, against strangers and against tasks that lead elsewhere."""

import json
import re
import socket
import threading

import numpy as np
import pytest
from PIL import Image
from review_runs import write_photos, write_run

from g2netpl.cli import main
from g2netpl.images.thumbnails import Roots
from g2netpl.review.label_studio import LabelStudioServer
from g2netpl.review.learner import Learner

INTERFACE = (
    '<View><Image name="i" value="$image"/><Choices name="c" toName="i" choice="multiple">'
    '<Choice value="cat"/></Choices></View>'
)


class Server:
    """A server in this process, and raw requests to it."""

    def __init__(self, parent):
        write_photos(parent / "photos", ["a.png", "new.png"])
        Image.new("RGB", (9, 9), "red").save(parent / "secret.png")
        (parent / "photos" / "link.png").symlink_to(parent / "secret.png")
        values, soft = np.full((1, 1), -1), np.array([[0.7]])
        self.folder = write_run(parent / "run", ["a.png"], ["cat"], values, soft, soft)
        (self.folder / "model.safetensors").write_bytes(b"weights")
        self.asked = []
        self.learner = Learner(self.folder, Roots(parent / "photos"), lambda line: None)
        self.learner.model.of_files = self.of_files
        self.server = LabelStudioServer(self.learner, False, 0)
        self.port, self.token = self.server.server_port, self.server.token
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def of_files(self, paths):
        self.asked += paths
        return np.full((len(paths), 1), 0.5, np.float32), np.zeros((len(paths), 1), bool)

    def close(self):
        self.server.shutdown()
        self.server.server_close()
        self.learner.close()

    def get(self, path, **changed):
        return self.raw("GET", f"/{self.token}{path}", changed)

    def post(self, path, body, **changed):
        return self.raw("POST", f"/{self.token}{path}", changed, body)

    def raw(self, method, target, changed, body=None):
        """A request as Label Studio sends it, but for what is changed."""
        headers = {"Host": f"127.0.0.1:{self.port}", "User-Agent": "heartex/1.23.2"}
        content = b""
        if body is not None:
            content = body if isinstance(body, bytes) else json.dumps(body).encode()
            headers |= {"Content-Type": "application/json", "Content-Length": str(len(content))}
        headers |= {name.replace("_", "-"): value for name, value in changed.items()}
        lines = [f"{method} {target} HTTP/1.1"]
        lines += [f"{name}: {value}" for name, value in headers.items() if value is not None]
        with socket.create_connection(("127.0.0.1", self.port), timeout=120) as connection:
            connection.sendall("\r\n".join(lines).encode() + b"\r\n\r\n" + content)
            connection.shutdown(socket.SHUT_WR)
            received = b""
            while piece := connection.recv(65536):
                received += piece
        head, _, answer = received.partition(b"\r\n\r\n")
        return int(re.match(rb"HTTP/1\.[01] (\d{3}) ", head)[1]), json.loads(answer)


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    server = Server(tmp_path_factory.mktemp("studio"))
    yield server
    server.close()


def event(address="a.png", **changed):
    return {
        "action": "ANNOTATION_CREATED",
        "annotation": {"result": [chosen()], "prediction": {}},
        "project": {"label_config": INTERFACE, "show_collab_predictions": True},
        "task": {"data": {"image": address}},
        **changed,
    }


def chosen(names=("cat",)):
    return {"type": "choices", "from_name": "c", "to_name": "i", "value": {"choices": list(names)}}


def tasks(*addresses, interface=INTERFACE):
    return {"tasks": [{"data": {"image": each}} for each in addresses], "label_config": interface}


HOOK = "/webhook"
CASES = {
    # who asks
    "no token": lambda s: s.raw("POST", HOOK, {}, event()),
    "another token": lambda s: s.raw("POST", f"/{'x' * 43}{HOOK}", {}, event()),
    "the beginning of the token": lambda s: s.raw("POST", f"/{s.token[:-1]}{HOOK}", {}, event()),
    "the token as a header": lambda s: s.raw("POST", HOOK, {"X-G2netpl-Token": s.token}, event()),
    "health without the token": lambda s: s.raw("GET", "/health", {}),
    "the root without the token": lambda s: s.raw("GET", "/", {}),
    "a foreign page": lambda s: s.post(HOOK, event(), Origin="http://evil.example"),
    "a page of this machine": lambda s: s.post(HOOK, event(), Origin=f"http://127.0.0.1:{s.port}"),
    "a page without origin": lambda s: s.post(HOOK, event(), Origin="null"),
    "a browser by its own word": lambda s: s.get("/health", Sec_Fetch_Site="none"),
    "another host": lambda s: s.post(HOOK, event(), Host="evil.example"),
    "a name that was rebound": lambda s: s.post(HOOK, event(), Host=f"evil.example:{s.port}"),
    "no host": lambda s: s.get("/health", Host=None),
    # what is asked
    "a file of the system": lambda s: s.get("/../../etc/passwd"),
    "a file of the run": lambda s: s.get("/review.jsonl"),
    "a query": lambda s: s.get("/predict?x=1"),
    "DELETE": lambda s: s.raw("DELETE", f"/{s.token}/delete", {}),
    # bodies
    "plain text": lambda s: s.post(HOOK, event(), Content_Type="text/plain"),
    "a form": lambda s: s.post(HOOK, b"a=1", Content_Type="application/x-www-form-urlencoded"),
    "too large": lambda s: s.post(HOOK, b"", Content_Length=str((32 << 20) + 1)),
    "in chunks": lambda s: s.post(HOOK, event(), Transfer_Encoding="chunked"),
    "JSON too deep": lambda s: s.post(HOOK, b"[" * 100_000),
    "a key twice": lambda s: s.post(HOOK, b'{"action": "A", "action": "B"}'),
    "a list": lambda s: s.post(HOOK, [event()]),
    "an event without a task": lambda s: s.post(HOOK, event(task=None)),
    "an annotation that is text": lambda s: s.post(HOOK, event(annotation="cat")),
    "choices that are numbers": lambda s: s.post(
        HOOK, event(annotation={"result": [chosen([1])], "prediction": {}})
    ),
    "a prediction that is a list": lambda s: s.post(
        HOOK, event(annotation={"result": [chosen()], "prediction": [1]})
    ),
    "an interface with entities": lambda s: s.post(
        "/predict", tasks("a.png", interface='<!DOCTYPE x [<!ENTITY a "b">]><View>&a;</View>')
    ),
    "an interface that is a number": lambda s: s.post("/predict", tasks("a.png", interface=1)),
    "an address that is none": lambda s: s.post(HOOK, event("http://[x/a.png")),
    "an address that is a number": lambda s: s.post(HOOK, event(7)),
}


@pytest.mark.parametrize("case", CASES)
def test_refused_and_nothing_is_saved(server, case):
    status, body = CASES[case](server)
    assert 400 <= status < 500
    assert list(body) == ["error"]
    assert server.token not in body["error"]
    assert (server.folder / "review.jsonl").read_bytes() == b""
    assert server.asked == []


@pytest.mark.parametrize(
    "address",
    [
        "../secret.png",
        "/data/local-files/?d=../secret.png",
        "/data/local-files/?d=/etc/hostname",
        "/data/upload/1/377351e8-..%2f..%2fsecret.png",
        "/data/upload/1/377351e8-link.png",
        "file:///etc/hostname",
        "link.png",
        "s3://bucket/../../secret.png",
        "http://127.0.0.1:1/secret.png",
        "https://example.org/a/%2e%2e/%2e%2e/secret.png",
        "a\0.png",
        "photos/../../secret.png",
    ],
)
def test_a_task_leads_neither_out_of_the_folder_nor_to_another_machine(
    server, address, monkeypatch
):
    def connect(*_):
        raise AssertionError("nothing is fetched")

    monkeypatch.setattr("urllib.request.urlopen", connect)
    monkeypatch.setattr("http.client.HTTPConnection.connect", connect)
    status, body = server.post("/predict", tasks(address))
    assert (status, body["results"][0]["result"]) == (200, [])
    assert server.asked == []
    assert server.post(HOOK, event(address)) == (200, {"answers": 0})
    assert (server.folder / "review.jsonl").read_bytes() == b""


def test_the_same_requests_unspoilt_are_answered(server):
    """Without this one, a server that refuses everything would pass."""
    assert server.get("/health")[0] == server.get("/")[0] == 200
    assert server.get("/health", Host=f"localhost:{server.port}")[0] == 200
    status, body = server.post("/predict", tasks("a.png", "https://example.org/new.png"))
    assert status == 200
    assert [len(each["result"]) for each in body["results"]] == [1, 0]
    assert [str(path).rpartition("/")[2] for path in server.asked] == ["new.png"]
    assert server.post(HOOK, event()) == (200, {"answers": 1})
    assert server.server.socket.getsockname()[0] == "127.0.0.1"


@pytest.fixture
def started(tmp_path, monkeypatch):
    """Starts and ends `g2netpl serve`; returns its exit code and the token that it accepts."""
    Server(tmp_path).close()
    tokens = []

    def end_at_once(server):
        tokens.append(server.token)
        raise KeyboardInterrupt

    monkeypatch.setattr(LabelStudioServer, "serve_forever", end_at_once)
    monkeypatch.setattr("signal.signal", lambda *_: None)
    return lambda: (main(["serve", "--label-studio", str(tmp_path / "run"), "--port", "0"]), tokens)


def test_a_token_in_the_run_folder_is_not_accepted(tmp_path, started):
    planted = "x" * 43
    (tmp_path / "run" / "label-studio.token").write_text(planted)
    started()
    _, tokens = started()
    assert planted not in tokens
    assert tokens[0] != tokens[1]
    assert {len(token) for token in tokens} == {43}


def test_only_the_environment_gives_a_token(started, monkeypatch, capsys):
    monkeypatch.setenv("G2NETPL_TOKEN", "T-_" * 14 + "z")
    assert started() == (0, ["T-_" * 14 + "z"])
    for odd in ("", "short", "/" * 43, "x" * 44):
        capsys.readouterr()
        monkeypatch.setenv("G2NETPL_TOKEN", odd)
        assert started()[0] == 2
        assert capsys.readouterr().err.startswith("g2netpl: G2NETPL_TOKEN: expected 43 letters")
