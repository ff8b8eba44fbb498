"""A stand-in of Hugging Face's hub on this machine: the few requests of a push and a download.

It keeps what it is given in `files`, and answers 401 without the right token. Large files go the
way of Git LFS; the hub's newer way, Xet, has no stand-in.
"""

import base64
import hashlib
import json
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

TOKEN = "hf_onlyForThisTest"


class Hub(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Answers)
        self.address = f"http://127.0.0.1:{self.server_port}"
        self.files, self.large, self.created, self.paths = {}, {}, [], []


class Answers(BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.server.paths.append(self.path)
        if self.headers.get("Authorization") != f"Bearer {TOKEN}":
            return self.answer({"error": "Invalid credentials"}, 401)
        path = self.path.partition("?")[0]
        if path == "/api/repos/create":
            self.server.created.append(json.loads(body))
            return self.answer({"url": f"{self.server.address}/me/birds"})
        if path == "/api/validate-yaml":
            return self.answer({"errors": [], "warnings": []})
        if path == "/api/models/me/birds/preupload/main":
            asked = [each["path"] for each in json.loads(body)["files"]]
            modes = {True: "lfs", False: "regular"}
            files = [
                {"path": name, "uploadMode": modes[name.endswith(".onnx")], "shouldIgnore": False}
                for name in asked
            ]
            return self.answer({"files": files})
        if path == "/me/birds.git/info/lfs/objects/batch":
            objects = json.loads(body)["objects"]
            for each in objects:
                address = f"{self.server.address}/large/{each['oid']}"
                each["actions"] = {"upload": {"href": address}}
            return self.answer({"transfer": "basic", "objects": objects})
        if path == "/api/models/me/birds/commit/main":
            for line in body.splitlines():
                self.keep(**json.loads(line))
            address = f"{self.server.address}/me/birds/commit/{'0' * 40}"
            return self.answer({"success": True, "commitUrl": address, "commitOid": "0" * 40})
        return self.answer({"error": "not found"}, 404)

    def keep(self, key, value):
        if key == "file":
            self.server.files[value["path"]] = base64.b64decode(value["content"])
        elif key == "lfsFile":
            self.server.files[value["path"]] = self.server.large[value["oid"]]

    def do_PUT(self):
        content = self.rfile.read(int(self.headers["Content-Length"]))
        assert hashlib.sha256(content).hexdigest() == self.path.rpartition("/")[2]
        self.server.large[self.path.rpartition("/")[2]] = content
        self.answer({})

    def do_GET(self):
        self.server.paths.append(self.path)
        folder, _, name = self.path.rpartition("/")
        content = self.server.files.get(name) if folder.startswith("/me/birds/resolve/") else None
        if content is None:
            return self.answer({"error": "not found"}, 404)
        headers = {"ETag": f'"{hashlib.sha256(content).hexdigest()}"', "X-Repo-Commit": "0" * 40}
        return self.send(200, content, headers | {"Content-Type": "application/octet-stream"})

    def do_HEAD(self):
        self.do_GET()

    def answer(self, content, code=200):
        self.send(code, json.dumps(content).encode(), {"Content-Type": "application/json"})

    def send(self, code, content, headers):
        self.send_response(code)
        for key, value in {**headers, "Content-Length": str(len(content))}.items():
            self.send_header(key, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    def log_message(self, *_):
        pass


@contextmanager
def hub_stand_in():
    hub = Hub()
    Thread(target=hub.serve_forever, daemon=True).start()
    try:
        yield hub
    finally:
        hub.shutdown()
        hub.server_close()
