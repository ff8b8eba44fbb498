"""Processes that are killed or told to stop, and go on as if nothing had been."""

import random
import shutil

from faults.scene import everything

NAMED = (  # moments that random ones rarely hit
    {"at": "g2netpl.utils.locks:locked"},
    {"at": "open", "matching": ".run.json.g2netpl", "action": "tear"},
    {"at": "os:replace", "matching": ".run.json.g2netpl", "after": True},
    {"at": "open", "matching": ".pt.g2netpl", "number": 2, "action": "tear"},
    {"at": "open", "matching": ".pt.g2netpl", "number": 3, "action": "tear"},
    {"at": "os:rename", "number": 1},
    {"at": "os:rename", "number": 3, "after": True},
    {"at": "shutil:rmtree", "number": 4, "after": True},
    {"at": "g2netpl.core.inference:predict_all", "number": 2},
    {"at": "g2netpl.training.diagnostics:Diagnostics.read", "number": 2, "after": True},
    {"at": "g2netpl.training.checkpoints:Checkpointing.on_epoch_end", "number": 2},
    {"at": "open", "matching": ".history.jsonl.g2netpl", "number": 3, "action": "tear"},
    {"at": "g2netpl.training.results:write_results"},
    {"at": "open", "matching": ".model.safetensors.g2netpl", "action": "tear"},
    {"at": "open", "matching": ".soft_labels.npy.g2netpl", "action": "tear"},
    {"at": "open", "matching": ".result.json.g2netpl", "action": "tear"},
    {"at": "g2netpl.training.checkpoints:_tidy", "number": 2},
)


def anywhere(lab, kind, tries, chance):
    """Random moments, spread over a whole training: the n-th call of any of our functions."""
    for number in range(tries):
        share = 0.01 + 0.97 * (number + chance.random()) / tries
        yield {"at": "*", "number": int(share * lab.calls(kind))}


def struck(lab, kind, moment, action):
    """A training that a fault has met; a little earlier where it ended before, as saves vary."""
    while True:
        training = lab.new(kind)
        outcome = training.run({"action": action, **moment})
        number = moment.get("number", 1)
        if outcome.code != 0 or number == 1:
            return training, outcome
        moment = {**moment, "number": int(0.95 * number)}


def kills(lab, kind, tries=20, named=10):
    """`kill -9` at random moments, and at named ones, every third time twice, then resumed."""
    chance = random.Random(kind)
    moments = [*anywhere(lab, kind, tries, chance), *chance.sample(NAMED, named)]
    for number, moment in enumerate(moments):
        training, first = struck(lab, kind, moment, "kill")
        if first.code != -9:
            yield moment, f"{first.code}: {first.said[-900:]}"
            continue
        if number % 3 == 0:
            training.resume({"at": "*", "number": chance.randrange(100, 4000), "action": "kill"})
        yield moment, training.finished()


def stops(lab, kind, tries=10):
    """SIGTERM or Ctrl-C at random moments: exit 75, and resumed."""
    chance = random.Random(f"{kind} stop")
    for number, moment in enumerate(anywhere(lab, kind, tries, chance)):
        action = ("term", "int")[number // 2 % 2]
        training, outcome = struck(lab, kind, moment, action)
        yield moment, _saved(training, outcome)


BETWEEN = (
    {"at": "g2netpl.core.inference:predict_all", "number": 2, "after": True},
    {
        "at": "g2netpl.images.pixels:open_image",
        "number": 30,
    },  # of the evaluation of the first epoch
    {"at": "g2netpl.runs.metrics:mean_average_precision"},
    {"at": "g2netpl.training.diagnostics:Diagnostics.read", "number": 2},
    {"at": "g2netpl.training.trainer:Trainer._validate", "number": 2},
    {"at": "g2netpl.training.trainer:Trainer._validate", "number": 2, "after": True},
    {"at": "g2netpl.training.checkpoints:Checkpointing.on_epoch_end"},
    {"at": "g2netpl.training.checkpoints:write_history", "number": 2},
    {"at": "g2netpl.training.checkpoints:Checkpointing._save", "number": 3},
    {"at": "g2netpl.training.checkpoints:save_checkpoint", "number": 3},
    {"at": "g2netpl.core.methods.g2netpl:G2NetPL.update", "number": 2},
    {"at": "g2netpl.training.results:write_results"},
    {"at": "g2netpl.training.checkpoints:_write"},
    {"at": "g2netpl.training.results:_write_labels"},
    {"at": "os:replace", "matching": "soft_labels"},
    {"at": "os:replace", "matching": "result.json", "after": True},
)


def stops_between(lab, kind="g2netpl", moments=BETWEEN):
    """SIGTERM in evaluation, at the switch of epochs, while finishing; said twice, as some do."""
    for moment in moments:
        training = lab.new(kind)
        again = {"at": "g2netpl.training.checkpoints:_write", "number": 7, "action": "term"}
        yield moment, _saved(training, training.run({**moment, "action": "term"}, again))


def _saved(training, outcome):
    if outcome.code != 75 or not outcome.is_one_line:
        return f"{outcome.code}: {outcome.said[-900:]}"
    return training.finished()


BEFORE = (
    ("g2netpl linear", {"at": "g2netpl.images.pixels:open_image", "number": 20}),
    ("g2netpl linear", {"at": "g2netpl.images.feature_cache:get_or_compute", "number": 2}),
    ("g2netpl linear", {"at": "g2netpl.images.features:compute_features", "after": True}),
    ("g2netpl k", {"at": "g2netpl.training.expected_positives:estimate"}),
    ("g2netpl k", {"at": "g2netpl.core.methods.fixed:SampledOnly.loss", "number": 99}),
    ("g2netpl", {"at": "g2netpl.training.data:read_training_data"}),
    ("g2netpl", {"at": "g2netpl.core.models:build_backbone"}),
    ("g2netpl", {"at": "g2netpl.images.pixels:header_problem", "number": 20}),
)


def stops_before(lab, moments=BEFORE):
    """SIGTERM while features are made, k is estimated, files are looked at: the same again."""
    for kind, moment in moments:
        training = lab.new(kind)
        training.changes["cache"] = training.folder.with_suffix(".cache")
        outcome = training.run({**moment, "action": "term"})
        if outcome.code != 75 or not outcome.is_one_line or "same command" not in outcome.said:
            yield moment, f"{outcome.code}: {outcome.said[-900:]}"
        elif training.folder.exists():
            yield moment, "there is a run folder already"
        else:
            again = training.run()
            problem = f"then {again.code}: {again.said[-900:]}" if again.code else training.unlike()
            yield moment, problem


def second_keys(lab, kind="g2netpl", tries=10):
    """A second Ctrl-C while the first one saves: exit 130, and no file is torn."""
    for number in range(tries):
        training = lab.new(kind, checkpoint_steps=100)
        first = {
            "at": "g2netpl.training.trainer:Trainer._step",
            "number": 3 + number,
            "action": "int",
        }
        second = {
            "at": "g2netpl.training.checkpoints:_write",
            "number": 1 + (2 + number) // 4,  # after those at the ends of epochs
            "action": "int",
        }
        outcome = training.run(first, second)
        problem = "" if outcome.code == 130 else f"{outcome.code}: {outcome.said[-900:]}"
        yield second, problem or training.finished()


def crashes(lab, kind="g2netpl linear", every=1):
    """A crash before and after every fsync, rename, mkdir, unlink, … of a training."""
    calls = ("fsync", "rename", "replace", "mkdir", "unlink", "rmdir", "posix_fallocate")
    places = [{"at": f"os:{call}"} for call in calls]
    counted = lab.driver.run(lab.new(kind).arguments(), *places, counting=True)
    moments = [
        {**place, "number": number + 1, "after": after}
        for place, count in zip(places, counted.places, strict=True)
        for number in range(int(count))
        for after in (False, True)
    ]
    for moment in moments[::every]:
        training = lab.new(kind)
        outcome = training.run({**moment, "action": "kill"})
        problem = "" if outcome.code in (-9, 0) else f"{outcome.code}: {outcome.said[-900:]}"
        yield moment, problem or training.finished()


REPLACING = (
    {"at": "g2netpl.runs.ownership:set_aside"},
    {"at": "os:rename"},
    {"at": "os:rename", "after": True},
    {"at": "open", "matching": ".run.json.g2netpl", "action": "tear"},
    {"at": "g2netpl.training.trainer:Trainer._step", "number": 2},
    {"at": "g2netpl.training.checkpoints:Checkpointing.on_epoch_end", "number": 2},
)


def overwrites(lab, kind="role linear", old="g2netpl linear", moments=REPLACING):
    """`kill -9` while a finished run is replaced: nothing is lost, and the new one goes on."""
    finished = lab.new(old)
    finished.run()
    before = everything(finished.folder)
    for moment in moments:
        training = lab.new(kind)
        shutil.copytree(finished.folder, training.folder)
        outcome = lab.driver.run(training.arguments("--overwrite"), {"action": "kill", **moment})
        kept = training.folder.with_name(f"{training.folder.name}.old-1")
        if outcome.code != -9:
            yield moment, f"{outcome.code}: {outcome.said[-900:]}"
        elif not kept.exists():
            same = everything(training.folder) == before
            yield moment, "" if same else "the old run is not as it was"
        else:
            same = everything(kept) == before
            yield moment, training.finished() if same else "the old run is not as it was"


WORKERS = (
    {"at": "g2netpl.training.trainer:Trainer._step", "number": 3},
    {"at": "g2netpl.training.trainer:Trainer._step", "number": 14},
    {"at": "g2netpl.core.inference:predict_all", "number": 2},
    {"at": "g2netpl.training.diagnostics:Diagnostics.read"},
    {"at": "g2netpl.training.checkpoints:Checkpointing.on_epoch_end"},
    {"at": "g2netpl.training.checkpoints:write_history"},
)


def dead_workers(lab, kind="g2netpl", moments=None):
    """A loader process dies: exit 6 in one line, and resumed, with another number of them."""
    moments = moments or [*WORKERS, *({"at": "*", "number": n} for n in range(1, 2400, 200))]
    for moment in moments:
        training = lab.new(kind, workers=2)
        outcome = training.run({**moment, "action": "worker"})
        if outcome.code == 0:  # everything was loaded by then
            yield moment, training.unlike()
            continue
        if outcome.code != 6 or not outcome.is_one_line:
            yield moment, f"{outcome.code}: {outcome.said[-900:]}"
            continue
        again = training.resume(workers=0)
        yield moment, f"{again.code}: {again.said[-900:]}" if again.code else training.unlike()


def orphans(lab, kind="g2netpl", tries=3):
    """kill -9 with loader processes: the folder is free at once, though they live on a moment."""
    for number in range(tries):
        training = lab.new(kind, workers=2)
        moment = {"at": "g2netpl.training.trainer:Trainer._step", "number": 2 + 5 * number}
        outcome = training.run({**moment, "action": "kill"})
        again = training.resume(workers=0)
        problem = "" if (outcome.code, again.code) == (-9, 0) else f"{outcome.code}: {again.said}"
        yield moment, problem or training.unlike()
