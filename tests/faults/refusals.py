"""What must not be done is refused at once, and nothing is touched."""

import csv
import os
import shutil
import signal
import subprocess
import sys
import time

from faults.damage import stopped
from faults.driver import environment
from faults.scene import everything
from g2netpl.utils.locks import locked

HEAVY = {"at": "g2netpl.training.data:read_training_data", "action": "kill"}


def two_runs(lab, kind="g2netpl"):
    """A second run in the same folder, begun, resumed, overwriting: exit 3 before any work."""
    training = stopped(lab, kind, 5)
    before = everything(training.folder)
    for more in ((), ("--resume",), ("--overwrite",)):
        with locked(training.folder):
            outcome = lab.driver.run(training.arguments(*more), HEAVY)
        good = outcome.code == 2 and outcome.is_one_line and everything(training.folder) == before
        yield {"at": f"{more}"}, "" if good else f"{outcome.code}: {outcome.said[-900:]}"
    yield {"at": "afterwards"}, training.finished()
    new = lab.new(kind)  # a folder that the other one has only just made
    with locked(new.folder):
        outcome = lab.driver.run(new.arguments(), HEAVY)
    good = outcome.code == 2 and not new.folder.exists()
    yield {"at": "a new folder"}, "" if good else f"{outcome.code}: {outcome.said[-900:]}"


def early_signals(lab, kind="g2netpl", delays=(0.3, 1.0, 2.0, 4.0, 8.0)):
    """Signals to a real process while it starts: nothing is left behind that is in the way."""
    for number, delay in enumerate(delays):
        training = lab.new(kind)
        name = ("TERM", "INT", "KILL")[number % 3]
        outcome = lab.driver.fresh(training.arguments(), signals=[(delay, name)])
        codes = {"TERM": (75, -15), "INT": (75, 130, -2), "KILL": (-9,)}  # before Python is up
        signalled = codes[name]
        problem = "" if outcome.code in (*signalled, 0) else f"{outcome.code}: {outcome.said}"
        yield {"at": f"{name} after {delay} s"}, problem or training.finished()


def at_the_terminal(lab, kind="g2netpl", delays=(0.0, 0.3, 1.0)):
    """Ctrl-C in a terminal reaches the loader processes too: still one line, and saved."""
    for delay in delays:
        training = lab.new(kind, workers=2)
        words = [sys.executable, "-m", "g2netpl", *training.arguments(epochs=400, patience=0)]
        with subprocess.Popen(
            words,
            env=environment(),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        ) as process:
            while not training.checkpoints() and process.poll() is None:
                time.sleep(0.02)
            time.sleep(delay)
            os.killpg(process.pid, signal.SIGINT)
            said = process.communicate()[1]
        good = process.returncode == 75 and len(said.splitlines()) == 1
        problem = "" if good else f"{process.returncode}: {said[-900:]}"
        yield {"at": f"{delay} s"}, problem


def changes(lab, kind="g2netpl"):
    """Another configuration, other classes, other data on resume: exit 3 with the list."""
    photos = lab.root / "changing"
    shutil.copytree(lab.photos, photos)
    own = {"labels": photos / "train.csv", "images": photos, "test_labels": photos / "test.csv"}
    training = stopped(lab, kind, 5, **own)

    def flip(rows):
        rows[3][2] = "0" if rows[3][2] == "1" else "1"

    def rename(rows):
        rows[0][1] = "nought"

    def swap(rows):
        rows[1][0], rows[2][0] = rows[2][0], rows[1][0]

    cases = [
        ("seed", {"seed": 5}, None),
        ("batch_size, learning_rate", {"batch_size": 4, "learning_rate": 0.5}, None),
        ("method", {"method": "role"}, None),
        ("the training labels", {}, ("train.csv", flip)),
        ("the training labels", {}, ("train.csv", swap)),
        ("the test labels", {}, ("test.csv", flip)),
        ("classes", {}, (("train.csv", "test.csv"), rename)),
    ]
    for words, flags, edit in cases:
        before = everything(training.folder)
        kept = everything(photos)
        if edit is not None:
            _edit(photos, *edit)
        outcome = training.resume(**(flags or {"workers": 0}))
        good = outcome.code == 2 and outcome.is_one_line and words in outcome.said
        same = everything(training.folder) == before
        for name, raw in kept.items():
            (photos / name).write_bytes(raw)
        problem = "" if good and same else f"{outcome.code}: {outcome.said[-900:]}"
        yield {"at": words}, problem
    outcome = training.resume(workers=1, checkpoint_minutes=3, checkpoint_steps=2)
    yield {"at": "what may change"}, "" if outcome.code == 0 else outcome.said


def _edit(photos, names, change):
    for name in (names,) if isinstance(names, str) else names:
        path = photos / name
        with path.open(newline="") as file:
            rows = list(csv.reader(file))
        change(rows)
        with path.open("w", newline="") as file:
            csv.writer(file).writerows(rows)


def unfinished(lab, kind="g2netpl linear"):
    """Begun once more without --resume: exit 3, and told how to go on."""
    training = stopped(lab, kind, 5)
    outcome = lab.driver.run(training.arguments())
    good = outcome.code == 2 and "go on with --resume" in outcome.said
    yield {"at": "the same command"}, "" if good else f"{outcome.code}: {outcome.said}"
    anew = lab.driver.run(training.arguments("--overwrite"))
    yield {"at": "--overwrite"}, training.unlike() if anew.code == 0 else anew.said
    again = training.resume()
    good = again.code == 0 and "finished already" in again.said
    yield {"at": "finished"}, "" if good else f"{again.code}: {again.said}"
