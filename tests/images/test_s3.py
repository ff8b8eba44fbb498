"""Train, predict and complete from a real S3 server that is killed and started again in between.

The server is moto's, from the environment variable MOTO_SERVER or the path: pip install
'moto[server,s3]'.
"""

import os
import shutil
import signal
import socket
import subprocess
import sys
import time

import pytest
from tar_shards import all_of, write_shards

SERVER = os.environ.get("MOTO_SERVER") or shutil.which("moto_server")
pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(SERVER is None, reason="moto_server is not installed"),
]
fsspec = pytest.importorskip("fsspec")
pytest.importorskip("s3fs", reason="the extra 'remote' is not installed")


class Server:
    """moto on loopback; what it holds is gone with it, and put there again."""

    def __init__(self, folder):
        self.folder, self.process = folder, None
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]

    @property
    def environment(self):
        return {
            "AWS_ENDPOINT_URL": f"http://127.0.0.1:{self.port}",
            "AWS_ACCESS_KEY_ID": "somebody-else",
            "AWS_SECRET_ACCESS_KEY": "not-in-any-file",
            "AWS_DEFAULT_REGION": "us-east-1",
        }

    def start(self):
        command = [SERVER, "-H", "127.0.0.1", "-p", str(self.port)]
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        self.process = subprocess.Popen(command, **quiet)
        for _ in range(300):
            with socket.socket() as client:
                if client.connect_ex(("127.0.0.1", self.port)) == 0:
                    break
            time.sleep(0.1)
        fill = (
            "import fsspec, sys; store = fsspec.filesystem('s3'); store.mkdir('bucket'); "
            "store.put(sys.argv[1] + '/', 'bucket/', recursive=True)"
        )
        subprocess.run(
            [sys.executable, "-c", fill, str(self.folder)],
            env=os.environ | self.environment,
            check=True,
            timeout=120,
        )

    def kill(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()


@pytest.fixture
def server(photos, tmp_path):
    content = tmp_path / "content"
    shutil.copytree(photos, content / "photos")
    write_shards(all_of(photos), photos, content / "shards")
    made = Server(content)
    made.start()
    yield made
    made.kill()


def start(tmp_path, *arguments, **environment):
    ours = {"XDG_CACHE_HOME": str(tmp_path / "user-cache"), "OMP_NUM_THREADS": "1"}
    return subprocess.Popen(
        [sys.executable, "-m", "g2netpl", *map(str, arguments)],
        env=os.environ | ours | environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def command(tmp_path, *arguments, **environment):
    process = start(tmp_path, *arguments, **environment)
    out, err = process.communicate(timeout=600)
    assert process.returncode == 0, out + err
    return out


def training(labels, images, output):
    return (
        *("train", "--labels", labels, "--images", images, "--only-listed"),
        *("--output", output, "--backbone", "tiny", "--no-pretrained", "--image-size", 32),
        *("--mode", "end-to-end", "--epochs", 3, "--workers", 2, "--device", "cpu"),
        *("--order", "images", "--checkpoint-steps", 2),
        *("--expected-positives", 2.3, "--setting", "fspl"),
    )


def wait_for(path):
    for _ in range(1200):
        if path.exists():
            return
        time.sleep(0.05)
    raise AssertionError(path)


LEARNT = ("model.safetensors", "labels.npz", "logits.npy")


def learnt(run):
    files = [run / name for name in LEARNT if (run / name).exists()]
    assert files
    return [path.read_bytes() for path in files]


@pytest.mark.parametrize("kind", ["photos", "shards"])
def test_killed_servers_change_nothing(server, photos, tmp_path, kind):
    # nothing fits into the cache, so that every epoch asks the server for everything
    far = {**server.environment, "G2NETPL_REMOTE_CACHE": "1"}
    here, there = tmp_path / "run-here", tmp_path / "run-there"
    command(tmp_path, *training(photos / "train.csv", photos, here))
    address = f"s3://bucket/{kind}"

    process = start(tmp_path, *training("s3://bucket/photos/train.csv", address, there), **far)
    wait_for(there / "run.json")
    server.kill()  # for a moment: it is waited for
    time.sleep(2)
    server.start()
    time.sleep(1)
    server.kill()  # for long: the training ends, and says how to go on
    out, err = process.communicate(timeout=600)
    assert process.returncode == 74, out + err
    assert "be reached" in err
    assert "go on with: g2netpl train --resume" in err
    assert len(err.strip().splitlines()) == 1
    server.start()
    command(tmp_path, "train", "--resume", "--output", there, **far)
    assert learnt(here) == learnt(there)

    tables = []
    for run, images, how in ((here, photos, {}), (there, address, far)):
        command(tmp_path, "predict", run, "--images", images, "--output", run / "scores.csv", **how)
        command(tmp_path, "complete", run, **how)
        scores = sorted((run / "scores.csv").read_text("utf-8").splitlines())
        tables.append((scores, (run / "completed.csv").read_bytes()))
    assert tables[0] == tables[1]
    for path in there.rglob("*"):
        if path.is_file():
            assert b"not-in-any-file" not in path.read_bytes()
            assert b"somebody-else" not in path.read_bytes()
