"""Real runs that are killed, stopped and disturbed at many moments, and resumed.

`pytest -m long tests/faults` tries more of them.
"""

import json
import random

import pytest
import torch

from faults.driver import Driver
from faults.scene import KINDS, Lab, everything, make_photos
from g2netpl.utils.locks import locked

CHECKPOINTS, TRAINER = "g2netpl.training.checkpoints", "g2netpl.training.trainer:Trainer"
STEP = {"at": f"{TRAINER}._step"}
SAVED = {"at": f"{CHECKPOINTS}:Checkpointing.on_epoch_end", "number": 2}
READING = {"at": "g2netpl.training.data:read_training_data"}
DIAGNOSTICS = {"at": "g2netpl.training.diagnostics:Diagnostics.read", "number": 2}
PREDICTION = {"at": "g2netpl.core.inference:predict_all", "number": 2}
RESULTS = {"at": "g2netpl.training.results:write_results"}
LINEAR = "g2netpl linear"


def moving(name, number=1, **more):
    """A file that is complete and about to get its name."""
    return {"at": "os:replace", "matching": f".{name}.g2netpl", "number": number, **more}


@pytest.fixture(scope="module")
def lab(tmp_path_factory):
    lab = Lab(None, tmp_path_factory.mktemp("lab"))
    make_photos(lab.photos)
    lab.driver = Driver(lab.new("g2netpl lp-ft").arguments())
    yield lab
    lab.driver.close()


# --- killed --------------------------------------------------------------------------------------

NAMED = [  # moments that random ones rarely hit
    {"at": "g2netpl.utils.locks:locked"},
    moving("run.json"),
    moving("run.json", after=True),
    {"at": f"{CHECKPOINTS}:_write", "number": 2},
    {"at": f"{CHECKPOINTS}:_write", "number": 3, "after": True},
    PREDICTION,
    {**DIAGNOSTICS, "after": True},
    SAVED,
    moving("history.jsonl", 3),
    RESULTS,
    moving("model.safetensors"),
    moving("soft_labels.npy"),
    moving("result.json"),
    {"at": f"{CHECKPOINTS}:_tidy", "number": 2},
]


def kill(lab, kind, moment, again=None):
    """`kill -9` at a moment, and perhaps at another one of the resumed run."""
    training, outcome = lab.struck(kind, {"action": "kill", **moment})
    assert outcome.code == -9, outcome
    if again is not None:
        training.resume({"at": "*", "number": again, "action": "kill"})
    training.finish()


@pytest.mark.parametrize("kind", ["role", LINEAR, "g2netpl partial", "g2netpl lp-ft", "ups linear"])
def test_a_run_killed_at_a_random_moment_resumes_bitwise(lab, kind):
    chance = random.Random(kind)
    kill(lab, kind, lab.moment(kind, chance.random()), again=chance.randrange(100, 4000))


@pytest.mark.parametrize("moment", NAMED[1::5], ids=str)
def test_a_run_killed_while_it_writes_resumes_bitwise(lab, moment):
    kill(lab, LINEAR, moment)


@pytest.mark.long
@pytest.mark.parametrize("kind", KINDS)
def test_a_run_killed_at_twenty_random_moments_resumes_bitwise(lab, kind):
    chance = random.Random(f"{kind} long")
    for number in range(20):
        again = chance.randrange(100, 4000) if number % 3 == 0 else None
        kill(lab, kind, lab.moment(kind, (number + chance.random()) / 20), again)
    for moment in chance.sample(NAMED, 10):
        kill(lab, kind, moment)


# --- stopped -------------------------------------------------------------------------------------

DURING = [
    {**PREDICTION, "after": True},
    DIAGNOSTICS,
    {"at": f"{TRAINER}._validate", "number": 2},
    {"at": f"{CHECKPOINTS}:write_history", "number": 2},
    {"at": f"{CHECKPOINTS}:save_checkpoint", "number": 3},
    {"at": "g2netpl.core.methods.g2netpl:G2NetPL.update", "number": 2},
    {"at": "os:replace", "matching": "soft_labels"},
    {"at": "os:replace", "matching": "result.json", "after": True},
]


def stop(lab, kind, moment, action="term"):
    """A signal at a moment, sent again while the run is saved, as some launchers do."""
    again = {"at": f"{CHECKPOINTS}:_write", "number": 7, "action": action}
    training = lab.new(kind)
    outcome = training.run({**moment, "action": action}, *([again] if action == "term" else []))
    assert (outcome.code, outcome.is_one_line) == (75, True), outcome
    training.finish()


@pytest.mark.parametrize(("action", "fraction"), [("term", 0.3), ("int", 0.8)])
def test_a_signal_at_any_moment_saves_and_a_resume_is_bitwise(lab, action, fraction):
    stop(lab, "role linear", lab.moment("role linear", fraction), action)


@pytest.mark.parametrize("moment", DURING[::3], ids=str)
def test_a_signal_between_the_steps_saves(lab, moment):
    stop(lab, "g2netpl", moment)


@pytest.mark.parametrize(
    ("kind", "moment"),
    [
        (LINEAR, {"at": "g2netpl.images.pixels:open_image", "number": 20}),
        ("g2netpl k", {"at": "g2netpl.training.expected_positives:estimate"}),
    ],
    ids=str,
)
def test_a_signal_before_the_first_epoch_leaves_nothing(lab, kind, moment):
    training = lab.new(kind)
    training.changes["cache"] = training.folder.with_suffix(".cache")
    outcome = training.run({**moment, "action": "term"})
    assert (outcome.code, outcome.is_one_line) == (75, True), outcome
    assert "same command" in outcome.text
    assert not training.folder.exists()
    assert training.run().code == 0
    training.check_whole()


@pytest.mark.long
def test_signals_at_every_moment_save(lab):
    chance = random.Random("stop")
    for number in range(10):
        fraction = (number + chance.random()) / 10
        stop(lab, "g2netpl", lab.moment("g2netpl", fraction), ("term", "int")[number % 2])
    for moment in DURING:
        stop(lab, "g2netpl", moment)


def test_a_second_ctrl_c_while_it_saves_tears_no_file(lab):
    training = lab.new(LINEAR, checkpoint_steps=100)
    first = {**STEP, "number": 6, "action": "int"}
    second = {"at": f"{CHECKPOINTS}:_write", "number": 2, "action": "int"}
    outcome = training.run(first, second)
    assert outcome.code == 130, outcome
    training.finish()


# --- disturbed -----------------------------------------------------------------------------------


def test_a_loader_process_that_dies_is_one_line(lab):
    training = lab.new("g2netpl", workers=2)
    outcome = training.run({**DIAGNOSTICS, "number": 1, "action": "worker"})
    assert (outcome.code, outcome.is_one_line) == (2, True), outcome
    assert "resume with" in outcome.text
    training.finish(workers=0)


def test_a_batch_with_a_non_finite_loss_is_logged_and_changes_nothing(lab):
    """The loss of step 6 is NaN; the four steps of an epoch are followed by diagnostics."""
    training = lab.new(LINEAR)
    nan = {"at": "g2netpl.core.methods.g2netpl:soft_bce", "action": "nan", "number": 7}
    stop = {"at": f"{CHECKPOINTS}:Checkpointing.on_step_end", "number": 6, "action": "term"}
    assert training.run(nan, stop).code == 75
    (line,) = (training.folder / "non_finite.jsonl").read_text().splitlines()
    record = json.loads(line)
    assert (record["epoch"], record["step"]) == (2, 1)
    assert len(record["images"]) in (6, 7)
    newest, before = sorted((training.folder / "checkpoints").glob("*.pt"), reverse=True)[:2]
    weights, earlier = (torch.load(path)["model"] for path in (newest, before))
    assert all(earlier[key].equal(value) for key, value in weights.items())


def test_a_second_run_in_the_same_folder_is_rejected_at_once(lab):
    training = lab.new(LINEAR)
    stop = {"at": f"{CHECKPOINTS}:Checkpointing.on_step_end", "number": 5, "action": "term"}
    assert training.run(stop).code == 75
    before = everything(training.folder)
    for more in ((), ("--resume",), ("--overwrite",)):
        with locked(training.folder):
            outcome = lab.driver.run(training.arguments(*more), {**READING, "action": "kill"})
        assert (outcome.code, outcome.is_one_line) == (2, True), outcome
        assert everything(training.folder) == before
    training.finish()
