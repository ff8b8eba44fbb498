"""The review page against those who should not use it: each request changes nothing."""

import contextlib
import json
import re
import socket
import threading
import time

import numpy as np
import pytest
from PIL import Image
from review_runs import Served, write_photos, write_run

from g2netpl.review.http import MOST_BYTES, TOKEN_HEADER
from g2netpl.review.server import ReviewServer
from g2netpl.runs.answers import read_decisions

SCRIPT = "<img src=x onerror=window.marked=1>.png"
HOSTILE = [
    SCRIPT,
    '"><script>window.marked=1<.script>.png',
    "\u202egnp.gpj",
    "&lt;b&gt;.png",
    "..\u2024secret.png",
    "{{7*7}}${7*7}.png",
    "a\tb\nc.png",
    "javascript:alert(1).png",
]
LEADS_OUT = ["../secret.png", "/etc/hostname", "link.png"]
CLASSES = ["<script>window.marked=1</script>", "cat", "' OR 1=1 --"]


class Server(Served):
    """A server in this process, and raw requests to it."""

    def __init__(self, parent, ask="labels"):
        self.names = [*HOSTILE, *LEADS_OUT, "plain.png"]
        write_photos(parent / "photos", [*HOSTILE, "plain.png"])
        Image.new("RGB", (9, 9), "red").save(parent / "secret.png")
        (parent / "photos" / "link.png").symlink_to(parent / "secret.png")
        shape = (len(self.names), len(CLASSES))
        soft = np.linspace(0.05, 0.95, shape[0] * shape[1]).reshape(shape)
        observed = np.full(shape, -1)
        self.folder = write_run(parent / "run", self.names, CLASSES, observed, soft, soft)
        super().__init__(self.folder, ask)
        self.review.decide("0" * 32, 0, 0, "yes", "useful")

    def get(self, target, **headers):
        return self.raw("GET", target, headers)

    def post(self, target, body, **headers):
        return self.raw("POST", target, headers, body)

    def raw(self, method, target, changed, body=None, version="HTTP/1.1"):
        """A request as the page sends it, but for what is changed; None leaves a header out."""
        headers = {"Host": f"127.0.0.1:{self.port}", TOKEN_HEADER: self.token}
        content = b""
        if body is not None:
            content = body if isinstance(body, bytes) else json.dumps(body).encode()
            headers |= {
                "Origin": f"http://127.0.0.1:{self.port}",
                "Content-Type": "application/json",
                "Content-Length": str(len(content)),
            }
        headers |= {name.replace("_", "-"): value for name, value in changed.items()}
        lines = [f"{method} {target} {version}".strip()]
        for name, value in headers.items():
            for each in value if isinstance(value, list) else [value]:
                if each is not None:
                    lines.append(f"{name}: {each}")
        return self.send("\r\n".join(lines).encode("latin-1") + b"\r\n\r\n" + content)

    def send(self, content):
        """The whole answer to these bytes: status, head, body."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=120) as connection:
            connection.sendall(content)
            connection.shutdown(socket.SHUT_WR)
            received = b""
            while piece := connection.recv(65536):
                received += piece
        head, _, body = received.partition(b"\r\n\r\n")
        found = re.match(rb"HTTP/1\.[01] (\d{3}) ", head)
        return int(found[1]) if found else None, head.decode("latin-1"), body


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with Server(tmp_path_factory.mktemp("security")) as server:
        yield server


STATE = "/api/state"
ASK = "/api/questions?order=useful&count=1"
IMAGE = "/api/image?row=0&size=256"
DECIDE, UNDO = "/api/decide", "/api/undo"


LAST = {"id": "b" * 32, "answer": "0" * 32}


def good(**changed):
    answer = {"id": "a" * 32, "row": 1, "answer": "save", "on": [1], "off": [], "order": "useful"}
    return answer | changed


def without(name):
    return {key: value for key, value in good().items() if key != name}


CASES = {
    # who is asked: the host
    "another host": lambda s: s.get("/", Host="evil.example"),
    "another host with our port": lambda s: s.get("/", Host=f"evil.example:{s.port}"),
    "no host": lambda s: s.get("/", Host=None),
    "two hosts": lambda s: s.get("/", Host=[f"127.0.0.1:{s.port}", "evil.example"]),
    "our host with another port": lambda s: s.get(STATE, Host=f"127.0.0.1:{s.port + 1}"),
    "a host with a user": lambda s: s.get(STATE, Host=f"127.0.0.1:{s.port}@evil.example"),
    "a script for another host": lambda s: s.get("/review.js", Host="evil.example"),
    "a decision for another host": lambda s: s.post(DECIDE, good(), Host="evil.example"),
    "a whole address as target": lambda s: s.get(f"http://evil.example:{s.port}/"),
    # who asks: origin and site
    "a foreign origin": lambda s: s.post(DECIDE, good(), Origin="http://evil.example"),
    "no origin": lambda s: s.post(DECIDE, good(), Origin=None),
    "origin null": lambda s: s.post(DECIDE, good(), Origin="null"),
    "our origin with another port": lambda s: s.post(
        DECIDE, good(), Origin=f"http://127.0.0.1:{s.port + 1}"
    ),
    "the other name of our origin": lambda s: s.post(
        DECIDE, good(), Origin=f"http://localhost:{s.port}"
    ),
    "two origins": lambda s: s.post(
        DECIDE, good(), Origin=[f"http://127.0.0.1:{s.port}", "http://evil.example"]
    ),
    "a foreign origin that reads": lambda s: s.get(STATE, Origin="http://evil.example"),
    "a foreign site by its own word": lambda s: s.get(STATE, Sec_Fetch_Site="cross-site"),
    "a sister site that writes": lambda s: s.post(DECIDE, good(), Sec_Fetch_Site="same-site"),
    "a foreign page that loads our script": lambda s: s.get(
        "/review.js", Sec_Fetch_Site="cross-site"
    ),
    # the token
    "no token": lambda s: s.get(STATE, **{TOKEN_HEADER: None}),
    "no token for a decision": lambda s: s.post(DECIDE, good(), **{TOKEN_HEADER: None}),
    "no token for an undo": lambda s: s.post(UNDO, LAST, **{TOKEN_HEADER: None}),
    "an empty token": lambda s: s.get(STATE, **{TOKEN_HEADER: ""}),
    "the token of another start": lambda s: s.get(STATE, **{TOKEN_HEADER: "x" * 43}),
    "two tokens": lambda s: s.get(STATE, **{TOKEN_HEADER: [s.token, s.token]}),
    "the token in the address": lambda s: s.get(f"{STATE}?token={s.token}", **{TOKEN_HEADER: None}),
    "the token as a cookie": lambda s: s.get(
        STATE, Cookie=f"{TOKEN_HEADER}={s.token}", **{TOKEN_HEADER: None}
    ),
    # paths
    "a file of the system": lambda s: s.get("/etc/passwd"),
    "upwards": lambda s: s.get("/../../etc/passwd"),
    "upwards from a page": lambda s: s.get("/review.js/../../run/run.json"),
    "two slashes": lambda s: s.get("//"),
    "the run's own files": lambda s: s.get("/review.jsonl"),
    "an image by its name": lambda s: s.get("/api/image?row=plain.png&size=256"),
    "an image by a path": lambda s: s.get("/api/image?row=../secret.png&size=256"),
    "a page with a query": lambda s: s.get("/?row=1"),
    # images
    "an image below the first": lambda s: s.get("/api/image?row=-1&size=256"),
    "an image after the last": lambda s: s.get(f"/api/image?row={len(s.names)}&size=256"),
    "an enormous number": lambda s: s.get(f"/api/image?row={10**40}&size=256"),
    "a row twice": lambda s: s.get("/api/image?row=0&row=1&size=256"),
    "an image whose name leads out": lambda s: s.get(
        f"/api/image?row={s.names.index('../secret.png')}&size=256"
    ),
    "an image that is a link outside": lambda s: s.get(
        f"/api/image?row={s.names.index('link.png')}&size=256"
    ),
    # methods
    "OPTIONS, to ask for permission": lambda s: s.raw(
        "OPTIONS",
        DECIDE,
        {"Origin": "http://evil.example", "Access-Control-Request-Method": "POST"},
    ),
    "TRACE": lambda s: s.raw("TRACE", "/", {}),
    "a decision by GET": lambda s: s.get(f"{DECIDE}?row=1&column=1&answer=yes"),
    "a POST to a page": lambda s: s.post("/", good()),
    # bodies
    "a form": lambda s: s.post(
        DECIDE, b"row=1&answer=yes", Content_Type="application/x-www-form-urlencoded"
    ),
    "too large": lambda s: s.post(DECIDE, json.dumps(good()).encode().ljust(MOST_BYTES + 1)),
    "no length": lambda s: s.post(DECIDE, good(), Content_Length=None),
    "in chunks": lambda s: s.post(DECIDE, good(), Transfer_Encoding="chunked"),
    "a key twice": lambda s: s.post(
        DECIDE, json.dumps(good()).encode().replace(b"{", b'{"row": 2, ', 1)
    ),
    "a row that is no number": lambda s: s.post(DECIDE, good(row=True)),
    "an answer we do not know": lambda s: s.post(DECIDE, good(answer=["yes"])),
    "an id with a line break": lambda s: s.post(DECIDE, good(id="a" * 32 + "\n")),
}


MORE = {
    "an order we do not know": lambda s: s.get("/api/questions?order=evil&count=1"),
    "too many questions": lambda s: s.get("/api/questions?order=useful&count=21"),
    "a very long address": lambda s: s.get(f"{ASK}&search={'x' * 70000}"),
    "a long header": lambda s: s.get(STATE, X_Long="x" * 70000),
    "a GET with a body": lambda s: s.get(STATE, Content_Length="5"),
    "two lengths": lambda s: s.post(DECIDE, good(), Content_Length=["10", "90"]),
    "JSON too deep": lambda s: s.post(DECIDE, b"[" * 4000),
    "a list": lambda s: s.post(DECIDE, [good()]),
    "a key too many": lambda s: s.post(DECIDE, good(image="/etc/passwd")),
    "a row that is too large": lambda s: s.post(DECIDE, good(row=10**30)),
    "a class that is not asked about": lambda s: s.post(DECIDE, good(on=[3])),
    "nothing else, in a question about one class": lambda s: s.post(DECIDE, good(answer="rest")),
    "an undo of no answer": lambda s: s.post(UNDO, {"id": "b" * 32}),
    "no version and no host": lambda s: s.send(b"GET /api/state\r\n\r\n"),
    "no request": lambda s: s.send(b"\x16\x03\x01\x02\x00\x01\x00\r\n\r\n"),
    **{f"no {name}": lambda s, name=name: s.post(DECIDE, without(name)) for name in good()},
}


@pytest.mark.parametrize("case", CASES | MORE)
def test_refused_and_nothing_changed(server, case):
    file = server.folder / "review.jsonl"
    before, values = file.read_bytes(), server.review.values.copy()
    status, head, body = (CASES | MORE)[case](server)
    assert status is not None, "an answer, not a broken connection"
    assert 400 <= status < (600 if case in MORE else 500)
    assert status not in (500, 507)
    assert list(json.loads(body)) == ["error"]
    assert server.token not in head + body.decode()
    assert file.read_bytes() == before
    assert (server.review.values == values).all()
    assert_safe(head)


@pytest.fixture(scope="module")
def photo_server(tmp_path_factory):
    with Server(tmp_path_factory.mktemp("photos"), "photos") as server:
        yield server


def photo(**changed):
    return good(on=[0], off=[1, 2]) | changed


PHOTOS = {
    "a photo without a token": lambda s: s.post(DECIDE, photo(), **{TOKEN_HEADER: None}),
    "a photo from a foreign page": lambda s: s.post(DECIDE, photo(), Origin="http://evil.example"),
    "a photo for another host": lambda s: s.post(DECIDE, photo(), Host="evil.example"),
    "a class after the last": lambda s: s.post(DECIDE, photo(on=[3])),
    "a photo of which nothing is said": lambda s: s.post(DECIDE, photo(on=[], off=[])),
    "a class on and off": lambda s: s.post(DECIDE, photo(off=[0])),
    "tags that are no list": lambda s: s.post(DECIDE, photo(on={"0": 1})),
    "a class that is not there": lambda s: s.post(DECIDE, photo(on=["new"])),
    "tags without end": lambda s: s.post(DECIDE, photo(on=[f"x{n:05}" for n in range(500)])),
}


@pytest.mark.parametrize("case", PHOTOS)
def test_odd_photos_are_refused_and_nothing_changed(photo_server, case):
    file = photo_server.folder / "review.jsonl"
    before = file.read_bytes()
    status, head, body = PHOTOS[case](photo_server)
    assert 400 <= status < 500
    assert list(json.loads(body)) == ["error"]
    assert file.read_bytes() == before
    assert_safe(head)


def test_the_same_photo_unspoilt_is_saved(photo_server):
    assert photo_server.post(DECIDE, photo())[0] == 200
    assert photo_server.review.values[1].tolist() == [1, 0, 0]
    assert photo_server.post(UNDO, {"id": "b" * 32, "answer": "a" * 32})[0] == 200
    assert photo_server.review.values[1].tolist() == [-1, -1, -1]


def assert_safe(head):
    """The headers that every answer has."""
    headers = dict(line.split(": ", 1) for line in head.split("\r\n")[1:])
    policy = headers["Content-Security-Policy"]
    assert "default-src 'none'" in policy
    assert "frame-ancestors 'none'" in policy
    assert "unsafe" not in policy
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert headers["Referrer-Policy"] == "no-referrer"
    assert headers["X-Frame-Options"] == "DENY"
    assert headers["Cache-Control"] == "no-store"
    assert not [name for name in headers if name.lower().startswith("access-control")]
    assert "Server" not in headers


def test_the_same_requests_unspoilt_are_answered(server):
    """Without this one, a server that refuses everything would pass."""
    scripts = ("/review.js", "/questions.js")
    for target in ("/", *scripts):
        kind = "text/javascript" if target in scripts else "text/html"
        status, head, _ = server.get(target, **{TOKEN_HEADER: None})
        assert status == 200
        assert f"Content-Type: {kind}" in head
        assert_safe(head)
    assert (
        server.get("/", Sec_Fetch_Site="cross-site")[0] == 200
    )  # a link to the page may be followed
    assert server.get(STATE, Host=f"localhost:{server.port}")[0] == 200
    for target in (STATE, ASK, IMAGE):
        status, head, body = server.get(target)
        assert status == 200
        assert_safe(head)
    assert body[:2] == b"\xff\xd8"
    count = len(read_decisions(server.folder))
    assert server.post(DECIDE, good(id="c" * 32))[0] == 200
    assert server.post(UNDO, {"id": "d" * 32, "answer": "c" * 32})[0] == 200
    assert len(read_decisions(server.folder)) == count + 2


def test_hostile_names_arrive_as_they_are(server):
    status, head, body = server.get("/api/questions?order=random&count=20")
    assert status == 200
    assert "Content-Type: application/json" in head
    found = json.loads(body)["questions"]
    assert {q["image"] for q in found} <= set(server.names)
    assert {tag["name"] for q in found for tag in q["tags"]} == set(CLASSES)
    for row, name in enumerate(server.names):
        status, _, body = server.get(f"/api/image?row={row}&size=256")
        assert (status == 200) == (name not in LEADS_OUT)
        assert (body[:2] == b"\xff\xd8") == (status == 200)


def test_only_this_machine_is_listened_to(server):
    assert server.server.socket.getsockname()[0] == "127.0.0.1"
    with pytest.raises(OSError, match="refused"):
        socket.create_connection(("127.0.0.2", server.port), timeout=2)


def test_tokens_are_long_and_new_with_every_start(server):
    other = ReviewServer(server.review, server.server.pictures, "useful")
    try:
        assert len(server.token) == len(other.token) == 43
        assert server.token != other.token
        assert server.server.address.endswith(f"/#{server.token}")
    finally:
        other.server_close()


@contextlib.contextmanager
def slow_sockets(server, count, begun=b"GET / HTTP/1.1\r\nHost: 127."):
    """Connections whose requests never come to an end."""
    with contextlib.ExitStack() as stack:
        held = []
        for _ in range(count):
            held.append(socket.create_connection(("127.0.0.1", server.port), timeout=120))
            stack.callback(held[-1].close)
            held[-1].sendall(begun)
        yield held


def is_closed(connection):
    try:
        return connection.recv(1) == b""
    except ConnectionError:
        return True


@pytest.mark.parametrize("begun", [b"", b"G", b"GET / HTTP/1.1\r\nHost: 127."])
def test_slow_connections_do_not_keep_others_out(server, begun):
    with slow_sockets(server, 200, begun) as held:
        assert server.get("/")[0] == 200
        assert server.get(STATE)[0] == 200
        assert all(map(is_closed, held[:72]))  # the oldest have made room
        held[-1].sendall(b"\r\n\r\n" if begun else b"G\r\n\r\n")
        assert held[-1].recv(4) == b"HTTP"  # the latest have not


def test_nobody_is_dropped_while_an_answer_is_worked_out(server):
    found = []
    row = server.names.index("plain.png")
    ask = threading.Thread(
        target=lambda: found.append(server.get(f"/api/image?row={row}&size=1024")[0])
    )
    threads = threading.active_count()
    with server.server.pictures._decoding:
        ask.start()
        while threading.active_count() < threads + 2 or server.server._waiting:
            time.sleep(0.01)
        with slow_sockets(server, 200) as held:
            assert all(map(is_closed, held[:70]))
    ask.join(120)
    assert found == [200]


def test_a_request_that_comes_in_drips_is_not_waited_for(server, monkeypatch):
    monkeypatch.setattr("g2netpl.review.http.PATIENCE", 0.2)

    def drip(connection):
        for _ in range(12_000):  # two minutes, never silent for longer than this
            connection.sendall(b"x")
            time.sleep(0.01)

    with slow_sockets(server, 1) as (connection,), pytest.raises(ConnectionError):
        drip(connection)
