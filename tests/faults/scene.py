"""What is trained in the trials, and when two run folders are the same."""

import json
import shutil
from pathlib import Path

from PIL import Image

from g2netpl.images.scenes import make_scenes
from g2netpl.labels.io import tables

FLAGS = {
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
    scenes = make_scenes(train, test, seed=1)
    folder.mkdir(parents=True)
    for name, images, labels in (
        ("train.csv", scenes.train_images, scenes.train),
        ("test.csv", scenes.test_images, scenes.test),
    ):
        files = tuple(f"{image}.png" for image in labels.images)
        for pixels, file in zip(images, files, strict=True):
            Image.fromarray(pixels).save(folder / file)
        tables.write(type(labels)(files, labels.classes, labels.values), folder / name)
    return folder


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


def difference(one, two):
    """What differs between two contents, in words; empty if nothing does."""
    odd = [f"{name} in one only" for name in sorted(set(one) ^ set(two))]
    return ", ".join(odd + [name for name in sorted(set(one) & set(two)) if one[name] != two[name]])


def everything(folder):
    """All files under a folder with their bytes; the lock that a crash left aside."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(Path(folder).rglob("*"))
        if path.is_file() and path.name != ".lock"
    }


class Lab:
    """Trainings of the same few kinds, in folders of their own, held against whole ones."""

    def __init__(self, driver, root):
        self.driver, self.root = driver, Path(root)
        self.photos = self.root / "photos"
        self._whole, self._calls, self._number = {}, {}, 0

    def new(self, kind, **changes):
        """A training that has not begun."""
        self._number += 1
        return Training(self, kind, self.root / f"run-{self._number}", changes)

    def whole(self, kind):
        """What an unbroken training of this kind leaves."""
        if kind not in self._whole:
            training = self.new(kind)
            outcome = self.driver.run(training.arguments(), {"at": "*"}, counting=True)
            if outcome.code != 0:
                raise RuntimeError(f"{kind}: {outcome.said}")
            self._whole[kind], self._calls[kind] = content(training.folder), int(outcome.places[0])
        return self._whole[kind]

    def calls(self, kind):
        """How many calls of our own functions it is made of."""
        self.whole(kind)
        return self._calls[kind]


class Training:
    """One run folder."""

    def __init__(self, lab, kind, folder, changes):
        self.lab, self.kind, self.folder, self.changes = lab, kind, folder, changes

    def arguments(self, *more, **changes):
        """The words of the command line; `--resume` may be there from the first time on."""
        photos = self.lab.photos
        flags = {
            "labels": photos / "train.csv",
            "images": photos,
            "test_labels": photos / "test.csv",
            "cache": self.lab.root / "cache",
            **FLAGS,
            **KINDS[self.kind],
            "output": self.folder,
            **self.changes,
            **changes,
        }
        words = ["train", "--set", "only_listed=true", *more]
        for name, value in flags.items():
            words += ["--" + name.replace("_", "-"), str(value)]
        return words

    def run(self, *faults, signals=()):
        """Begin, with these faults on the way."""
        return self.lab.driver.run(self.arguments(), *faults, signals=signals)

    def resume(self, *faults, **changes):
        """Go on; as a user is told to, where there is something to go on with."""
        words = ["train", "--resume", "--output", str(self.folder)]
        if changes or not (self.folder / "run.json").exists():
            words = self.arguments("--resume", **changes)
        return self.lab.driver.run(words, *faults)

    def finished(self):
        """Resume to the end; what is wrong with the result, in words."""
        outcome = self.resume()
        if outcome.code != 0:
            there = sorted(path.name for path in self.folder.glob("*"))
            return f"{outcome.code}, where there was {there}: {outcome.said[-900:]}"
        return self.unlike()

    def unlike(self):
        """How the result differs from that of an unbroken training."""
        return difference(self.lab.whole(self.kind), content(self.folder))

    def checkpoints(self):
        """Saved so far, the newest first."""
        shelf = self.folder / "checkpoints"
        return sorted(shelf.glob("*.pt"), reverse=True)

    def copy(self, number):
        """The same folder once more, for some other damage."""
        folder = self.folder.with_name(f"{self.folder.name}-{number}")
        twin = Training(self.lab, self.kind, folder, dict(self.changes))
        shutil.copytree(self.folder, twin.folder)
        return twin
