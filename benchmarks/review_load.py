"""The review page under load: 50 clients × 1,000 requests on a run of 100,000 images × 80 classes.

    python benchmarks/review_load.py
    python benchmarks/review_load.py --clients 10 --requests 100

80 % of the requests are JSON (questions in all orders, filtered and searched; state; decisions),
20 % pictures of 256 px that are in memory. Every client sends its next request when it has the
answer to the last, without a pause. Bars: 95 % within 150 ms, no error, the server at most 300 MB.
"""

import argparse
import asyncio
import json
import os
import random
import re
import secrets
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from pathlib import Path

import numpy as np
from measure import Figure, show
from PIL import Image
from scipy.special import logit

from g2netpl.runs.answers import in_force, read_decisions
from g2netpl.runs.thresholds import Thresholds

FILES, CLASSES = 300, 80


def make_run(folder: Path, count: int) -> None:
    """A run whose images are links to a few hundred JPEGs."""
    draw = np.random.default_rng(0)
    (folder / "photos").mkdir()
    for number in range(FILES):
        coarse = Image.fromarray(draw.integers(0, 255, (8, 8, 3), dtype=np.uint8))
        coarse.resize((320, 240), Image.Resampling.BICUBIC).save(folder / f"photos/{number}.jpg")
    names = [f"{number % FILES}.jpg" for number in range(FILES)]
    for number in range(FILES, count):
        names.append(f"shard-{number % 97:02d}/image-{number:08d}.jpg")
    for shard in range(97):
        (folder / f"photos/shard-{shard:02d}").mkdir()
    for number in range(FILES, min(count, 20 * FILES)):  # those that are looked at
        os.link(folder / f"photos/{number % FILES}.jpg", folder / "photos" / names[number])
    classes = [f"class {number:02d}" for number in range(CLASSES)]
    run = folder / "run"
    run.mkdir()
    shape = (count, CLASSES)
    known = draw.random(shape, dtype=np.float32)
    observed = np.where(known < 0.002, 1, np.where(known < 0.003, 0, -1)).astype(np.int8)
    chances = draw.beta(0.4, 4.0, shape).astype(np.float32)
    completed = np.where(observed >= 0, observed, chances).astype(np.float32)
    np.save(run / "soft_labels.npy", completed)
    noisy = np.clip(chances + draw.normal(0, 0.1, shape), 0, 1)
    np.save(run / "logits.npy", logit(noisy).clip(-30, 30).astype(np.float16))
    np.savez_compressed(
        run / "labels.npz", images=np.array(names), observed=observed, soft=np.ones(count, bool)
    )
    content = {
        "format": 2,
        "command": "train",
        "config": {"labels": "labels.csv", "images": str(folder / "photos"), "format": None},
        "classes": classes,
        "expected_positives": 2.9,
    }
    plain = Thresholds(1.0, 0.0, (0.5,) * CLASSES, "f1", "nothing")
    (run / "run.json").write_text(json.dumps(content))
    (run / "decisions.json").write_text(json.dumps(plain.to_json()))
    (run / "result.json").write_text("{}")


class Client:
    """One connection that stays open."""

    def __init__(self, number: int, port: int, token: str, times: dict[str, list[float]]) -> None:
        self.random = random.Random(number)
        self.host, self.port, self.token, self.times = f"127.0.0.1:{port}", port, token, times
        self.errors: list[str] = []
        self.saved = 0
        self.questions: list[dict[str, int]] = []

    async def run(self, requests: int) -> None:
        """Send so many, one after the other."""
        self.reader, self.writer = await asyncio.open_connection("127.0.0.1", self.port)
        for _ in range(requests):
            await self.one()
        self.writer.close()

    async def one(self) -> None:
        """Send any request."""
        chance = self.random.random()
        if chance < 0.2:
            await self.send("picture", f"/api/image?row={self.random.randrange(200)}&size=256")
        elif chance < 0.3 and self.questions:
            question = self.questions.pop()
            kept = {key: question[key] for key in ("row", "column", "order")}
            body = {"id": secrets.token_hex(16), "answer": "yes", **kept}
            if await self.send("decision", "/api/decide", body):
                self.saved += 1
        elif chance < 0.31:
            await self.send("state", "/api/state")
        else:
            order = self.random.choice(("useful", "disagreement", "doubtful", "random"))
            filtered = self.random.choice(("", "", "&class=7", "&search=class+4", "&search=0012"))
            found = await self.send("questions", f"/api/questions?order={order}&count=3{filtered}")
            self.questions = json.loads(found)["questions"] if found else []

    async def send(self, kind: str, path: str, body: dict[str, object] | None = None) -> bytes:
        """The content of an answer; empty if it is no good."""
        content = b"" if body is None else json.dumps(body).encode()
        lines = [f"{'GET' if body is None else 'POST'} {path} HTTP/1.1", f"Host: {self.host}"]
        lines.append(f"X-G2netpl-Token: {self.token}")
        if body is not None:
            lines += [f"Origin: http://{self.host}", "Content-Type: application/json"]
            lines.append(f"Content-Length: {len(content)}")
        began = time.perf_counter()
        self.writer.write("\r\n".join(lines).encode() + b"\r\n\r\n" + content)
        head = await self.reader.readuntil(b"\r\n\r\n")
        length = int(re.search(rb"Content-Length: (\d+)", head)[1])
        answer = await self.reader.readexactly(length)
        self.times[kind].append(time.perf_counter() - began)
        if not head.startswith(b"HTTP/1.1 200"):
            self.errors.append(f"{path}: {head[:40]!r} {answer[:200]!r}")
            return b""
        return answer


async def attack(clients: list[Client], requests: int) -> None:
    await asyncio.gather(*(client.run(requests) for client in clients))


def memory(process: int) -> int:
    """The most that a process has ever held, in MB."""
    text = Path(f"/proc/{process}/status").read_text()
    return int(re.search(r"VmHWM:\s+(\d+)", text)[1]) // 1024


def review(count: int = 100_000, number: int = 50, requests: int = 1000) -> list[Figure]:
    with tempfile.TemporaryDirectory() as made:
        make_run(Path(made), count)
        command = [sys.executable, "-m", "g2netpl", "review", f"{made}/run", "--no-browser"]
        began = time.perf_counter()
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
            assert server.stdout is not None
            found = re.search(r":(\d+)/#(\S+)", server.stdout.readline())
            assert found is not None
            ready = time.perf_counter() - began
            times: dict[str, list[float]] = defaultdict(list)
            clients = [Client(each, int(found[1]), found[2], times) for each in range(number)]
            warm = [
                Client(1000 + each, int(found[1]), found[2], defaultdict(list)) for each in (0, 1)
            ]
            asyncio.run(attack(warm, 400))  # queues are made, pictures are in memory
            slow = max(max(values) for values in warm[0].times.values())
            began = time.perf_counter()
            asyncio.run(attack(clients, requests))
            seconds = time.perf_counter() - began
            peak = memory(server.pid)
            server.terminate()
        everything = np.concatenate(list(times.values()))
        errors = [error for client in clients + warm for error in client.errors]
        saved = sum(client.saved for client in clients + warm)
        kept = len(in_force(read_decisions(f"{made}/run")))
    for error in errors[:5]:
        print(error, file=sys.stderr)
    what = f"review of {count:,} × {CLASSES}, {number} clients"
    slowest = (
        f"the slowest {1000 * everything.max():.0f} ms, the first of a queue {1000 * slow:.0f} ms"
    )
    rate = f"{len(everything) / seconds:.0f} requests/s, ready in {ready:.1f} s"
    return [
        Figure(
            f"{what}: 95 % of {len(everything):,} requests within",
            1000 * float(np.quantile(everything, 0.95)),
            "{:.0f} ms",
            most=150.0,
            note=slowest,
        ),
        Figure(f"{what}: errors", float(len(errors)), "{:.0f}", most=0.0, note=rate),
        Figure(f"{what}: decisions lost", float(saved - kept), "{:.0f}", most=0.0),
        Figure(f"{what}: memory of the server", float(peak), "{:.0f} MB", most=300.0),
    ]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--images", type=int, default=100_000)
    parser.add_argument("--clients", type=int, default=50)
    parser.add_argument("--requests", type=int, default=1000)
    flags = parser.parse_args()
    show(review(flags.images, flags.clients, flags.requests))
