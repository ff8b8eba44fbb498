"""Files that are damaged, disks that are full, numbers that are none."""

import json
import random
from zipfile import ZipFile

import torch

from faults.scene import everything


def stopped(lab, kind, steps, **changes):
    """A training that was stopped after so many steps."""
    training = lab.new(kind, **changes)
    outcome = training.run(
        {
            "at": "g2netpl.training.checkpoints:Checkpointing.on_step_end",
            "number": steps,
            "action": "term",
        }
    )
    if outcome.code != 75:
        raise RuntimeError(outcome.said)
    return training


def damages(lab, tries=100, kinds=("role linear", "g2netpl linear", "g2netpl")):
    """Bits flipped, ends cut off, in checkpoints: noticed; fall back, or exit 4."""
    chance = random.Random(0)
    sources = [stopped(lab, kind, steps) for kind, steps in zip(kinds, (9, 11, 9), strict=False)]
    for number in range(tries):
        training = sources[number % len(sources)].copy(number)
        saved = training.checkpoints()
        if number % 5 == 4:
            hit = [_damage(chance, path, cuts=True) for path in saved]
        else:
            hit = [_damage(chance, saved[0])]
        yield {"at": ", ".join(hit)}, _noticed(training, must_refuse=number % 5 == 4)


def _damage(chance, path, cuts=False):
    raw = bytearray(path.read_bytes())
    if not cuts and chance.random() < 0.5:
        raw[chance.randrange(len(raw))] ^= 1 << chance.randrange(8)
    else:
        raw = raw[: chance.randrange(len(raw))]
    path.write_bytes(raw)
    return "/".join(path.parts[-3:])


def _noticed(training, must_refuse):
    before = everything(training.folder)
    outcome = training.resume()
    if outcome.code == 4:
        quiet = everything(training.folder) == before and outcome.is_one_line
        return "" if quiet else f"something was changed: {outcome.said}"
    if outcome.code != 0 or must_refuse:
        return f"{outcome.code}: {outcome.said[-900:]}"
    return training.unlike()


FULL_AT = (
    {"at": "open", "matching": ".pt.g2netpl"},
    {"at": "open", "matching": ".pt.g2netpl", "number": 3},
    {"at": "os:fsync", "number": 20},
    {"at": "os:mkdir", "matching": "checkpoints"},
    {"at": "open", "matching": "history.jsonl", "number": 2},
    {"at": "open", "matching": "run.json"},
    {"at": "os:posix_fallocate"},
    {"at": "open", "matching": "model.safetensors"},
    {"at": "open", "matching": "soft_labels.npy"},
    {"at": "open", "matching": "labels.npz"},
    {"at": "open", "matching": "decisions.json"},
    {"at": "open", "matching": "result.json"},
)


def full_disks(lab, kind="g2netpl linear", points=FULL_AT):
    """The disk is full at many points: exit 74 with the bytes free, and resumed."""
    for point in points:
        training = lab.new(kind)
        training.changes["cache"] = training.folder.with_suffix(".cache")
        outcome = training.run({"action": "full", **point})
        if outcome.code != 74 or not outcome.is_one_line or "bytes free" not in outcome.said:
            yield point, f"{outcome.code}: {outcome.said[-900:]}"
        elif not all(_is_whole(path) for path in training.checkpoints()):
            yield point, "a checkpoint is damaged"
        else:
            yield point, training.finished()


def _is_whole(path):
    with ZipFile(path) as archive:
        return archive.testzip() is None


def nan_at(*steps):
    """The loss of these steps is no number; after the four of an epoch comes its diagnosis."""
    calls = [step + (step - 1) // 4 for step in steps]
    return {"at": "g2netpl.core.methods.g2netpl:soft_bce", "action": "nan", "number": calls}


def read(path):
    """A checkpoint."""
    return torch.load(path, map_location="cpu", weights_only=True)


def non_finite(lab, kinds=("g2netpl", "g2netpl linear")):
    """A batch of no numbers moves nobody and is named; three in a row: exit 5, and resumed."""
    for kind in kinds:
        yield {"at": f"{kind}, once"}, _non_finite_once(lab, kind)
        for numbers in ((6, 7, 8), (3, 4, 5)):  # also from one epoch to the next
            training = lab.new(kind)
            outcome = training.run(nan_at(*numbers))
            what = {"at": f"{kind}, {numbers}"}
            if outcome.code != 5 or not outcome.is_one_line:
                yield what, f"{outcome.code}: {outcome.said[-900:]}"
                continue
            (training.folder / "non_finite.jsonl").unlink()
            newest = training.checkpoints()[0]
            state = read(newest)
            steps = 4 * state["trainer"]["finished"] + state["trainer"]["step"]
            numbers_all = all(value.isfinite().all() for value in state["model"].values())
            again = training.resume()
            if steps > numbers[1] or not numbers_all or again.code != 0:
                yield what, f"the last checkpoint is of step {steps}; {again.said[-900:]}"
            else:  # two of them were left out of an epoch that was saved
                yield what, "" if steps == numbers[1] else training.unlike()


def _non_finite_once(lab, kind):
    """The sixth step, the second of the second epoch; looked at after the seventh."""
    training = lab.new(kind)
    stop = {
        "at": "g2netpl.training.checkpoints:Checkpointing.on_step_end",
        "number": 6,
        "action": "term",
    }
    outcome = training.run(nan_at(6), stop)
    lines = (training.folder / "non_finite.jsonl").read_text().splitlines()
    noted = [json.loads(line) for line in lines]
    if outcome.code != 75 or len(noted) != 1 or (noted[0]["epoch"], noted[0]["step"]) != (2, 1):
        return f"{outcome.code}: {noted} {outcome.said[-900:]}"
    newest, before = map(read, training.checkpoints()[:2])
    if len(noted[0]["images"]) not in (6, 7):
        return f"{noted} are not the images of a batch"
    for name in ("model", "method"):
        for key, value in newest[name].items():
            if not value.isfinite().all():
                return f"{name}: {key} is no longer made of numbers"
    same = all(before["model"][key].equal(value) for key, value in newest["model"].items())
    return "" if same else "a step was made"
