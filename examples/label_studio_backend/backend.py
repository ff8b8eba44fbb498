"""A machine learning backend for Label Studio: it predicts, saves annotations and trains on them.

    python examples/label_studio_backend/backend.py runs/first

The README in this folder says how to connect it, what an annotation means and where answers go.
"""

import argparse
import hmac
import json
import os
import re
import secrets
import signal
from contextlib import closing
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count
from pathlib import Path
from threading import Lock, Thread
from urllib.parse import parse_qs, unquote, urlsplit
from xml.etree import ElementTree

import numpy as np

from g2netpl import ReviewSession, complete_run, load_run, train

MOST_BYTES = 32 << 20  # of a request: some ten thousand tasks
ABSENT = "absent"  # a <Choices> of this name holds classes that are not in the photo


def interface(config: str) -> tuple[str, str, str, set[str]]:
    """Name, image and choices of the <Choices>, and the key of the image's address in a task."""
    root = ElementTree.fromstring(config)
    keys = {each.get("name"): each.get("value", "").strip("$") for each in root.iter("Image")}
    for each in root.iter("Choices"):
        if each.get("name") != ABSENT and each.get("toName") in keys:
            choices = {choice.get("value", "") for choice in each.iter("Choice")}
            return each.get("name", ""), each.get("toName", ""), keys[each.get("toName")], choices
    raise ValueError("expected an <Image> and <Choices> for it")


def chosen(results: list[dict]) -> dict[str, bool]:
    """The classes of an annotation or prediction: True, or False in the control `absent`."""
    found = [each for each in results if each["type"] == "choices"]
    return {name: x["from_name"] != ABSENT for x in found for name in x["value"]["choices"]}


class Backend:
    """One run: its predictions, the answers of people and the training on them."""

    def __init__(self, folder: Path, unchosen_is_no: bool) -> None:
        self.folder, self.unchosen_is_no, self.is_training = folder, unchosen_is_no, Lock()
        self.review = ReviewSession(folder)  # locks the run; answers go to its review.jsonl
        self.classes = self.review.saved.classes
        rows = {name: row for row, name in enumerate(self.review.saved.images)}
        uploads = {re.sub(r"[^-\w.]", "", name.replace(" ", "_")): rows[name] for name in rows}
        self.rows = uploads | rows  # by the names that Label Studio gives to uploads, too
        self.use(load_run(folder))

    def use(self, run) -> None:
        """Predict with this run from now on."""
        completed = complete_run(run)
        self.said = run.version, completed.scores, completed.values == 1

    def row(self, task: dict, key: str) -> int | None:
        """The image of a task, by its name: nothing is fetched from its address."""
        parts = urlsplit(task["data"][key])
        path = parse_qs(parts.query).get("d", [unquote(parts.path)])[0].strip("/").split("/")
        for start in range(len(path)):
            if "/".join(path[start:]) in self.rows:
                return self.rows["/".join(path[start:])]
        return self.rows.get(re.sub("^[0-9a-f]{8}-", "", path[-1]))

    def setup(self, body: dict) -> dict:
        """Check that the labelling interface offers a class of the run."""
        if not interface(body["schema"])[3] & set(self.classes):
            raise ValueError(f"no choice is a class of the run, such as {self.classes[0]!r}")
        return {"model_version": self.said[0]}

    def predict(self, body: dict) -> dict:
        """A prediction for each task; an empty one for an image that the run does not have."""
        version, scores, present = self.said
        name, image, key, choices = interface(body["label_config"])
        columns, results = [at for at, x in enumerate(self.classes) if x in choices], []
        for task in body["tasks"]:
            results.append({"model_version": version, "score": 0.0, "result": []})
            if (row := self.row(task, key)) is None:
                continue
            answers = self.review.values[row]
            sure = np.nan_to_num(np.where(answers == -1, scores[row], answers), nan=0.5)
            there = np.where(answers == -1, present[row], answers == 1)
            right = np.where(there, sure, 1 - sure)[columns].mean()  # fraction that is expected
            results[-1]["score"] = round(float(right), 4)
            if found := [at for at in columns if there[at]]:
                value = {"choices": [self.classes[at] for at in found]}
                result = {"from_name": name, "to_name": image, "type": "choices", "value": value}
                result["score"] = round(float(sure[found].min()), 4)
                results[-1]["result"].append(result)
        return {"results": results, "model_version": version}

    def webhook(self, body: dict) -> dict:
        """Save an annotation, or train; other events are ignored."""
        if body["action"] == "START_TRAINING":
            Thread(target=self.train, daemon=True).start()
            return {"status": "training"}
        if body["action"] not in ("ANNOTATION_CREATED", "ANNOTATION_UPDATED"):
            return {"answers": 0}
        project, annotation = body["project"], body["annotation"]
        _, _, key, choices = interface(project["label_config"])
        row = self.row(body["task"], key)
        if row is None or annotation.get("was_cancelled"):
            return {"answers": 0}
        refused = choices
        if not self.unchosen_is_no:  # proposed and not chosen, or chosen before and taken back
            seen = annotation.get("prediction") if project.get("show_collab_predictions") else {}
            before = (self.review.values[row] == 1) & (self.review.saved.observed[row] != 1)
            taken_back = before & (body["action"] == "ANNOTATION_UPDATED")
            refused = {name for name in chosen((seen or {}).get("result", [])) if name in choices}
            refused |= {self.classes[at] for at in np.flatnonzero(taken_back)}
        said = dict.fromkeys(refused, False) | chosen(annotation["result"])
        known = self.review.values[row].tolist()
        new = [at for at, x in enumerate(self.classes) if x in said and known[at] != said[x]]
        for at in new:  # each answer is on the disk when `decide` returns
            answer = "yes" if said[self.classes[at]] else "no"
            self.review.decide(secrets.token_hex(16), row, at, answer, "label-studio")
        return {"answers": len(new)}

    def train(self) -> None:
        """Continue from the run with all answers, into RUN-answered-1, -2, …"""
        with self.is_training:
            names = (f"{self.folder}-answered-{number}" for number in count(1))
            output = next(name for name in names if not Path(name).exists())
            update = {"continue_from": str(self.folder), "output": output}
            try:
                self.use(train(load_run(self.folder).config.model_copy(update=update)))
                print(f"trained: {self.said[0]} predicts from now on", flush=True)
            except Exception as problem:
                print(f"training failed, the model stays as it was: {problem}", flush=True)


class Handler(BaseHTTPRequestHandler):
    """One request of Label Studio: the first part of its path must be the token."""

    def answer(self, path: str) -> dict | None:
        """What the backend says to a request; None if there is no such page."""
        if path in ("", "health", "versions"):
            return {"status": "UP", "versions": [self.server.backend.said[0]]}
        length = int(self.headers.get("Content-Length", 0))
        if path not in ("setup", "predict", "webhook") or not 0 < length <= MOST_BYTES:
            return None
        return getattr(self.server.backend, path)(json.loads(self.rfile.read(length)))

    def do_POST(self) -> None:
        """Check who asks: Label Studio on this machine, and no browser; then answer."""
        token, _, path = self.path[1:].partition("/")
        is_browser = "Origin" in self.headers or "Sec-Fetch-Site" in self.headers
        status, content = 403, {"error": "connect the address that was printed at the start"}
        is_token = hmac.compare_digest(token.encode(), self.server.token.encode())
        if self.headers.get("Host") in self.server.hosts and is_token and not is_browser:
            try:
                content = self.answer(path) or {"error": "no such page"}
                status = 404 if "error" in content else 200
            except Exception as why:  # a request that is none, or an answer that is not saved
                status, content = 422, {"error": f"{type(why).__name__}: {why}"}
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.end_headers()
        self.wfile.write(json.dumps(content).encode())

    do_GET = do_POST  # noqa: N815

    def log_message(self, *_: object) -> None:
        """Print nothing: the address holds the token."""


def main() -> None:
    """Serve a run until Ctrl-C, on the loopback address only."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("run", type=Path, help="run folder of g2netpl train")
    parser.add_argument("--port", type=int, default=9090, help="(default: 9090)")
    parser.add_argument("--unchosen-is-no", action="store_true", help="or it is unknown")
    flags = parser.parse_args()
    token = os.environ.get("G2NETPL_TOKEN") or secrets.token_urlsafe(32)
    if not re.fullmatch(r"[A-Za-z0-9_-]{43}", token):
        parser.error("G2NETPL_TOKEN: expected 43 letters, digits, - or _")
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    backend = Backend(flags.run.resolve(), flags.unchosen_is_no)
    with closing(backend.review), ThreadingHTTPServer(("127.0.0.1", flags.port), Handler) as server:
        server.backend, server.token = backend, token
        server.hosts = [f"{name}:{server.server_port}" for name in ("127.0.0.1", "localhost")]
        print(f"{backend.said[0]}: connect http://{server.hosts[0]}/{token}", flush=True)
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            print(f"{backend.review.summary()} saved in {flags.run / 'review.jsonl'}", flush=True)


if __name__ == "__main__":
    main()
