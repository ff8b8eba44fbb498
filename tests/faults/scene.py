"""What is trained in these tests, and when two run folders are the same."""

import json
from pathlib import Path

from g2netpl.images.scenes import make_scenes, write_scenes

KEYS = {
    "only_listed": "true",
    "setting": "fspl",
    "expected_positives": 2.3,
    "backbone": "tiny",
    "image_size": 32,
    "epochs": 3,
    "linear_epochs": 2,
    "batch_size": 8,
    "workers": 0,
    "device": "cpu",
    "checkpoint_steps": 1,
}
KINDS = {
    "g2netpl": {"method": "g2netpl"},
    "role": {"method": "role"},
    "g2netpl linear": {"method": "g2netpl", "mode": "linear"},
    "role linear": {"method": "role", "mode": "linear"},
    "g2netpl lp-ft": {"method": "g2netpl", "mode": "lp-ft", "epochs": 2},
    "g2netpl partial": {"method": "g2netpl", "mode": "partial"},
    "g2netpl k": {"method": "g2netpl", "mode": "linear", "expected_positives": "estimate"},
    "g2netpl bf16": {"method": "g2netpl", "precision": "bf16"},
    "fixmatch": {"method": "fixmatch"},
    "g2netpl ema pair": {"method": "g2netpl", "ema": 0.9, "augment": "pair"},
    "em-apl linear": {"method": "em-apl", "mode": "linear"},
    "ups linear": {"method": "ups", "mode": "linear", "epochs": 2},
}


def make_photos(folder, train=32, test=12):
    """A folder of small pictures with full labels."""
    write_scenes(make_scenes(train, test, seed=1), folder)


def content(folder):
    """Everything a finished run consists of, without times and what may differ."""
    found = {}
    for path in sorted(Path(folder).iterdir()):
        raw = b"" if path.is_dir() else path.read_bytes()
        if path.name == "history.jsonl":
            records = [json.loads(line) for line in raw.decode().splitlines()]
            times = ("seconds", "images_per_second")
            found[path.name] = [{k: v for k, v in r.items() if k not in times} for r in records]
        elif path.name == "result.json":
            found[path.name] = {**json.loads(raw), "seconds": None}
        elif path.name == "run.json":
            run = json.loads(raw)
            free = ("output", "cache", "checkpoint_steps", "workers")
            run["config"] = {k: v for k, v in run["config"].items() if k not in free}
            found[path.name] = run
        else:
            found[path.name] = raw
    return found


def everything(folder):
    """All files under a folder with their bytes, without the lock that a crash left."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(Path(folder).rglob("*"))
        if path.is_file() and path.name != ".lock"
    }


class Lab:
    """Runs of the same few kinds, in folders of their own, compared with undisturbed ones."""

    def __init__(self, driver, root):
        self.driver, self.root = driver, Path(root)
        self.photos = self.root / "photos"
        self._whole, self._calls, self._number = {}, {}, 0

    def new(self, kind, **changes):
        """A run that has not begun."""
        self._number += 1
        return Training(self, kind, self.root / f"run-{self._number}", changes)

    def whole(self, kind):
        """What an undisturbed run of this kind leaves."""
        if kind not in self._whole:
            training = self.new(kind)
            outcome = training.run({"at": "*", "number": 0, "action": ""})
            assert outcome.code == 0, outcome.text
            self._whole[kind], self._calls[kind] = content(training.folder), outcome.calls
        return self._whole[kind]

    def moment(self, kind, fraction):
        """The call of one of our functions after this fraction of a run."""
        self.whole(kind)
        return {"at": "*", "number": int((0.01 + 0.97 * fraction) * self._calls[kind])}

    def struck(self, kind, fault):
        """A run that met a fault; a little earlier if it ended before, as saves vary."""
        while True:
            training = self.new(kind)
            outcome = training.run(fault)
            if outcome.code != 0 or fault.get("number", 1) == 1:
                return training, outcome
            fault = {**fault, "number": int(0.95 * fault["number"])}


class Training:
    """One run folder."""

    def __init__(self, lab, kind, folder, changes):
        self.lab, self.kind, self.folder, self.changes = lab, kind, folder, changes

    def arguments(self, *more, **changes):
        """The words of the command line; `--resume` may be there from the first time on."""
        photos = self.lab.photos
        keys = {
            "labels": photos / "train.csv",
            "images": photos,
            "test_labels": photos / "test.csv",
            "cache": self.lab.root / "cache",
            **KEYS,
            **KINDS[self.kind],
            "output": self.folder,
            **self.changes,
            **changes,
        }
        settings = [word for key, value in keys.items() for word in ("--set", f"{key}={value}")]
        return ["train", *more, *settings]

    def run(self, *faults):
        """Begin, with these faults on the way."""
        return self.lab.driver.run(self.arguments(), *faults)

    def resume(self, *faults, **changes):
        """Resume as the message says, if there is something to resume."""
        words = ["train", "--resume", "--output", str(self.folder)]
        if changes or not (self.folder / "run.json").exists():
            words = self.arguments("--resume", **changes)
        return self.lab.driver.run(words, *faults)

    def finish(self, **changes):
        """Resume to the end: the result is that of an undisturbed run, bitwise."""
        outcome = self.resume(**changes)
        assert outcome.code == 0, (sorted(path.name for path in self.folder.glob("*")), outcome)
        self.check_whole()

    def check_whole(self):
        """The folder has what an undisturbed run leaves."""
        expected, found = self.lab.whole(self.kind), content(self.folder)
        assert expected.keys() == found.keys()
        assert [name for name in expected if expected[name] != found[name]] == []
