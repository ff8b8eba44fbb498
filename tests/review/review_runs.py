"""Run folders as `g2netpl train` leaves them, made up for the review, and its page as a process."""

import http.client
import json
import os
import re
import secrets
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
from PIL import Image
from scipy.special import logit

from g2netpl.images.thumbnails import Pictures, Roots
from g2netpl.labels.table import UNOBSERVED
from g2netpl.review.server import ReviewServer
from g2netpl.review.session import ReviewSession
from g2netpl.runs.thresholds import Thresholds

IMAGES, CLASSES = ["w.png", "x.png", "y.png", "z.png"], ["ant", "bee"]
OBSERVED = [[1, -1], [-1, -1], [-1, 0], [-1, -1]]


def small_run(folder):
    """Four photos and two classes, with labels that can be followed by hand."""
    soft = [[1.0, 0.5], [0.5, 0.9], [0.2, 0.0], [0.8, 0.6]]
    predicted = [[0.25, 0.75], [0.5, 0.5], [0.75, 0.875], [0.75, 0.5]]
    write_photos(folder / "photos", IMAGES)
    return write_run(folder / "run", IMAGES, CLASSES, OBSERVED, soft, predicted)


def write_run(folder, images, classes, observed, soft, predicted=None, has_soft=None, k=None):
    """A finished run whose soft labels and predictions stand as they are, uncalibrated.

    k is such that the soft labels expect it already: their calibration moves nothing.
    """
    folder.mkdir(parents=True, exist_ok=True)
    observed = np.asarray(observed, dtype=np.int8)
    completed = np.where(observed == UNOBSERVED, soft, observed).astype(np.float32)
    own = np.ones(len(images), dtype=bool) if has_soft is None else np.asarray(has_soft)
    readable = own & ~np.isnan(completed).any(axis=1)
    expected = float(completed[readable].sum(axis=1).mean()) if k is None else k
    content = {
        "format": 3,
        "command": "train",
        "asked": {},
        "annotation": "random",
        "resolved": {},
        "weights": {},
        "config": {
            "labels": "labels.csv",
            "images": str(folder.parent / "photos"),
            "format": None,
            "output": str(folder),
        },
        "classes": list(classes),
        "versions": {},
        "data": {
            "fingerprints": {},
            "images": len(images),
            "training_images": len(images),
            "observed_fraction": float((observed != UNOBSERVED).mean()),
            "chosen_epoch": "the last one",
            "earlier_model": None,
        },
        "expected_positives": expected,
        "mean": [0.5, 0.5, 0.5],
        "std": [0.5, 0.5, 0.5],
    }
    (folder / "run.json").write_text(json.dumps(content))
    (folder / "result.json").write_text("{}")
    plain = Thresholds(thresholds=(0.5,) * len(classes), rule="f1", basis="nothing")
    (folder / "decisions.json").write_text(json.dumps(plain.to_json()))
    np.savez(folder / "labels.npz", images=np.array(images), observed=observed, soft=own)
    np.save(folder / "soft_labels.npy", completed)
    said = np.asarray(completed if predicted is None else predicted)
    np.save(folder / "logits.npy", logit(said).clip(-30, 30).astype(np.float16))
    return folder


def write_photos(folder, names, size=(40, 30)):
    """Small pictures, each of another colour."""
    for number, name in enumerate(names):
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        colour = (37 * number % 256, 91 * number % 256, 151 * number % 256)
        Image.new("RGB", size, colour).save(path, format="PNG")
    return folder


def random_run(parent, images=30, classes=8, seed=0, names=None):
    """A run of random labels with pictures beside it."""
    random = np.random.default_rng(seed)
    names = names or [f"image {number:03d}.png" for number in range(images)]
    write_photos(parent / "photos", names)
    shape = (len(names), classes)
    observed = np.where(random.random(shape) < 0.1, random.integers(0, 2, shape), UNOBSERVED)
    labels = [f"class {number}" for number in range(classes)]
    soft, predicted = random.random(shape), random.random(shape)
    return write_run(parent / "run", names, labels, observed, soft, predicted)


class Served:
    """The review page of a run, served by a thread of this process."""

    def __init__(self, folder, ask="labels", limit=None, port=0):
        self.review = ReviewSession(folder, ask, limit=limit)
        pictures = Pictures(self.review.saved.images, Roots({"images": folder.parent / "photos"}))
        self.server = ReviewServer(self.review, pictures, "useful", port)
        self.port, self.token = self.server.server_port, self.server.token
        self.address = self.server.address
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.server.shutdown()
        self.server.server_close()
        self.review.close()


def request(page, method, path, body=None):
    """Status, headers and content of one reply of a page."""
    connection = http.client.HTTPConnection("127.0.0.1", page.port, timeout=120)
    headers = {"X-G2netpl-Token": page.token}
    if body is not None:
        headers |= {
            "Origin": f"http://127.0.0.1:{page.port}",
            "Content-Type": "application/json",
        }
        body = json.dumps(body)
    try:
        connection.request(method, path, body, headers)
        reply = connection.getresponse()
        return reply.status, dict(reply.getheaders()), reply.read()
    finally:
        connection.close()


class Page:
    """`g2netpl review` as a process of its own, and requests as the page would send them."""

    def __init__(self, run, *flags, port=0):
        arguments = ["review", str(run), "--no-browser", "--port", str(port), *flags]
        source = str(Path(__file__).parents[2] / "src")
        path = os.pathsep.join([source, os.environ.get("PYTHONPATH", "")])
        self.process = subprocess.Popen(
            [sys.executable, "-m", "g2netpl", *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env=os.environ | {"PYTHONPATH": path, "PYTHONUNBUFFERED": "1"},
        )
        self.said = ""
        for line in self.process.stdout:
            self.said += line
            found = re.search(r"http://127\.0\.0\.1:(\d+)/#(\S+)", line)
            if found:
                self.address, self.port, self.token = found[0], int(found[1]), found[2]
                return
        raise AssertionError(f"the page did not start: {self.said}")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
        self.process.stdout.close()
        self.process.wait()

    def kill(self):
        self.process.kill()
        self.process.wait()

    def ask(self, path, body=None):
        status, _, content = request(self, "GET" if body is None else "POST", path, body)
        assert status == 200, content
        return json.loads(content)

    def next(self, count=1, order="useful"):
        return self.ask(f"/api/questions?order={order}&count={count}")["questions"]

    def decide(self, question, answer, id=None):
        columns = [tag["column"] for tag in question["tags"]]
        body = {"id": id or secrets.token_hex(16), "row": question["row"]}
        body |= {"answer": "skip" if answer == "skip" else "save", "order": question["order"]}
        on = answer == "yes"
        body |= {"on": columns if on else [], "off": [] if on else columns}
        return self.ask("/api/decide", body)
