"""Files that are damaged, disks that are full, numbers that are none."""

import json
import random
from hashlib import sha256

import torch
from safetensors.torch import load_file

from faults.scene import everything


def stopped(lab, kind, steps, **changes):
    """A training that was stopped after so many steps."""
    training = lab.new(kind, **changes)
    outcome = training.run(
        {"at": "g2netpl.training.saving:CheckpointSaver.step", "number": steps, "action": "term"}
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
            hit = [_damage(chance, chance.choice(sorted(path.iterdir()))) for path in saved]
        else:
            hit = [_damage(chance, chance.choice(sorted(saved[0].iterdir())))]
        yield {"at": ", ".join(hit)}, _noticed(training, must_refuse=number % 5 == 4)


def _damage(chance, path):
    raw = bytearray(path.read_bytes())
    if chance.random() < 0.5:
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
    if "warning: going on from" not in outcome.said or "going on after" not in outcome.said:
        return f"not noticed: {outcome.said}"
    return training.unlike()


FULL_AT = (
    {"at": "open", "matching": "network.safetensors"},
    {"at": "open", "matching": "optimizer.safetensors", "number": 2},
    {"at": "open", "matching": "manifest.json", "number": 3},
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
    {"at": "open", "matching": ".cache"},
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


def _is_whole(folder):
    manifest = json.loads((folder / "manifest.json").read_text())
    return all(
        sha256((folder / f"{name}.safetensors").read_bytes()).hexdigest() == digest
        for name, digest in manifest["sha256"].items()
    )


NAN = {"at": "g2netpl.game.network_step:strong_view", "action": "nan"}


def non_finite(lab, kinds=("g2netpl", "role", "g2netpl linear")):
    """A batch of no numbers moves nobody and is named; three in a row: exit 5, and resumed."""
    for kind in kinds:
        yield {"at": f"{kind}, once"}, _non_finite_once(lab, kind)
        for numbers in ((6, 7, 8), (3, 4, 5)):  # also from one epoch to the next
            training = lab.new(kind)
            outcome = training.run({**NAN, "number": numbers})
            what = {"at": f"{kind}, {numbers}"}
            if outcome.code != 5 or not outcome.is_one_line:
                yield what, f"{outcome.code}: {outcome.said[-900:]}"
                continue
            (training.folder / "non_finite.jsonl").unlink()
            newest = training.checkpoints()[0]
            manifest = json.loads((newest / "manifest.json").read_text())
            steps = 4 * manifest["finished"] + manifest["step"]
            states = [load_file(path) for path in newest.glob("*network.safetensors")]
            numbers_all = all(v.isfinite().all() for state in states for v in state.values())
            again = training.resume()
            if steps > numbers[1] or not numbers_all or again.code != 0:
                yield what, f"the last checkpoint is of step {steps}; {again.said[-900:]}"
            else:  # two of them were left out of an epoch that was saved
                yield what, "" if steps == numbers[1] else training.unlike()


def _non_finite_once(lab, kind):
    """The sixth step, the second of the second epoch; looked at after the seventh."""
    training = lab.new(kind)
    stop = {"at": "g2netpl.training.saving:CheckpointSaver.step", "number": 6, "action": "term"}
    outcome = training.run({**NAN, "number": 6}, stop)
    lines = (training.folder / "non_finite.jsonl").read_text().splitlines()
    noted = [json.loads(line) for line in lines]
    if outcome.code != 75 or len(noted) != 1 or (noted[0]["epoch"], noted[0]["step"]) != (2, 1):
        return f"{outcome.code}: {noted} {outcome.said[-900:]}"
    newest = training.checkpoints()[0]
    player, network = (load_file(newest / f"{n}.safetensors") for n in ("player", "network"))
    (visited,) = (v for k, v in player.items() if k in ("latents.visited", "logits.visited"))
    images = len(noted[0]["images"])
    if int(visited.sum()) + images not in (19, 20, 21) or not 6 <= images <= 7:
        return f"{int(visited.sum())} rows were written, {images} were not"
    if not all(torch.isfinite(value).all() for value in network.values()):
        return "the network is no longer made of numbers"
    return ""
