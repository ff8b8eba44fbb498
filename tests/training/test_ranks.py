"""Several processes against one: the same images, weights, labels and figures; and the same end."""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys

import numpy as np
import pytest
import torch
from ranks import Group
from safetensors.torch import load_file
from test_epochs import INPUTS, TRUTH, VISIBLE
from torch import nn

from g2netpl import RunConfig, load_run, train
from g2netpl.base.errors import InputError
from g2netpl.base.processes import connect
from g2netpl.base.signals import Interrupts
from g2netpl.game.methods import make_player
from g2netpl.game.network.network import build_network
from g2netpl.game.player import Setup
from g2netpl.images.loader import ArraySource
from g2netpl.training import agreement
from g2netpl.training import epochs as fitting
from g2netpl.training import saving as keeping
from g2netpl.training.epochs import Loop, Schedule, Validation, fit


@pytest.fixture(scope="module")
def pair():
    group = Group(2)
    yield group
    group.close()


@pytest.fixture(scope="module")
def trio():
    group = Group(3)
    yield group
    group.close()


def the_processes():
    return connect(True, Interrupts())


@pytest.fixture
def values(small_training):
    """A training of 48 images in 7 batches, as flags would give it."""

    def make(output, **changes):
        usual = {"backbone": "plain", "epochs": 3, "batch_size": 7}
        return small_training(output, **{**usual, **changes})

    return make


def training(values, resume=False):
    """Train, as a job of a rank; every rank must come to the same."""
    run = train(RunConfig.read(values, "test"), resume=resume)
    return run.result["test_map"], float(
        sum(value.detach().sum() for value in run.network.parameters())
    )


def weights(run):
    return load_file(run.folder / "model.safetensors")


def history(run):
    lines = (run.folder / "history.jsonl").read_text().splitlines()
    timed = ("seconds", "images_per_second")
    return [{k: v for k, v in json.loads(line).items() if k not in timed} for line in lines]


def assert_equal(one, two):
    """To the last bit."""
    first, second = weights(one), weights(two)
    assert all(torch.equal(value, second[name]) for name, value in first.items())
    assert (one.soft_labels() == two.soft_labels()).all()
    assert history(one) == history(two)


def assert_close(one, two):
    """Within rounding, in all that a run leaves behind."""
    first, second = weights(one), weights(two)
    for name, value in first.items():
        torch.testing.assert_close(value, second[name], atol=1e-5, rtol=0)
    np.testing.assert_allclose(one.soft_labels(), two.soft_labels(), atol=1e-5, rtol=0)
    assert one.result["best_epoch"] == two.result["best_epoch"]
    for key in ("validation_map", "test_map", "last_test_map", "pseudo_label_map"):
        assert one.result[key] == pytest.approx(two.result[key], abs=1e-7)
    for before, after in zip(history(one), history(two), strict=True):
        known = {key: value for key, value in after.items() if isinstance(value, int | float)}
        assert set(before) == set(after)
        assert {key: before[key] for key in known} == pytest.approx(known, rel=1e-3, abs=1e-5)


# --- who sees what -------------------------------------------------------------------------------


# --- the game ------------------------------------------------------------------------------------

GAMES = {
    "g2netpl end to end": ("g2netpl", "end-to-end", {}),
    "g2netpl upper blocks": ("g2netpl", "top", {}),
    "role": ("role", "linear", {}),
    "fixmatch": ("fixmatch", "end-to-end", {"threshold": 0.55}),
    "ups": ("ups", "linear", {"rounds": 2, "positive_mean": 0.51, "positive_deviation": 0.2}),
}


@pytest.mark.parametrize(("method", "mode", "options"), GAMES.values(), ids=GAMES)
def test_two_ranks_come_to_what_one_process_comes_to(pair, values, method, mode, options):
    common = {"method": method, "mode": mode, "options": options, "learning_rate": 0.02}
    alone = train(RunConfig.read(values("alone", **common), "test"))
    both = pair.run(training, values("both", **common))
    assert both[0] == both[1]
    assert_close(alone, load_run(values("both")["output"]))
    start = build_network("plain", 10).state_dict()
    found = {name.replace(".shares", ""): value for name, value in weights(alone).items()}
    moved = max(float((found[name] - value).abs().max()) for name, value in start.items())
    assert moved > 0.02  # so that 1e-5 says something


@pytest.mark.parametrize("changes", [{"ema": 0.8}, {"view": "pair"}], ids=["average", "views"])
def test_two_ranks_average_and_look_at_views_like_one_process(pair, values, changes):
    common = {"mode": "end-to-end", "learning_rate": 0.02, **changes}
    alone = train(RunConfig.read(values("alone", **common), "test"))
    one, two = pair.run(training, values("both", **common))
    assert one == two
    assert_close(alone, load_run(values("both")["output"]))


def small_game(count, batch_size, options):
    """A game on features of few images; on several ranks if there are."""
    processes = the_processes()
    observed = torch.from_numpy(VISIBLE[:count])
    network = build_network("features", 4, width=6, seed=0)
    player = make_player("g2netpl", options, Setup(observed, 1.4, 0.05, 0))
    free = nn.parallel.DistributedDataParallel(network) if processes.size > 1 else network
    snapshot = fit(
        free,
        player,
        ArraySource(INPUTS[:count]),
        observed,
        1.4,
        torch.optim.Adam(network.parameters(), lr=0.05),
        Schedule(3, batch_size, 0),
        Validation(ArraySource(INPUTS[60:]), TRUTH[60:]),
        loop=Loop(processes=processes),
    )
    return snapshot.network, player.soft_labels(), snapshot.best_map


@pytest.mark.parametrize(("count", "batch_size"), [(2, 4), (7, 2)], ids=["few images", "pairs"])
@pytest.mark.parametrize("options", [{}, {"prediction": "fresh"}], ids=["reuse", "fresh"])
def test_ranks_without_an_image_take_part(trio, count, batch_size, options):
    network, labels, score = small_game(count, batch_size, options)
    for other, other_labels, other_score in trio.run(small_game, count, batch_size, options):
        for name, value in network.items():
            torch.testing.assert_close(value, other[name], atol=1e-5, rtol=0)
        torch.testing.assert_close(labels, other_labels, atol=1e-5, rtol=0)
        assert score == pytest.approx(other_score, abs=1e-7)


def a_step_with_batch_norm():
    """One step with hardly any learning, by four images; returns the statistics of batch norm."""
    processes = the_processes()
    network = build_network("tiny", 2)
    free = nn.parallel.DistributedDataParallel(network) if processes.size > 1 else network
    images = torch.randn(4, 3, 32, 32, generator=torch.Generator().manual_seed(0))
    observed = torch.tensor([[1, -1]] * 4, dtype=torch.int8)
    optimizer = torch.optim.SGD(network.parameters(), lr=1e-9)
    player = make_player("an", {}, Setup(observed, 1.0, 1e-9, 0))
    schedule = Schedule(1, 4, 0)
    fit(
        free,
        player,
        ArraySource(images),
        observed,
        1.0,
        optimizer,
        schedule,
        loop=Loop(processes=processes),
    )
    return {name: value.clone() for name, value in network.named_buffers()}


def test_statistics_of_batch_norm_are_the_mean_over_the_ranks(pair):
    alone, (one, two) = a_step_with_batch_norm(), pair.run(a_step_with_batch_norm)
    assert all(torch.equal(value, two[name]) for name, value in one.items())
    # before the first layer there is no other: the mean over halves is the mean over all
    first = next(name for name in alone if name.endswith("running_mean"))
    torch.testing.assert_close(one[first], alone[first], atol=1e-6, rtol=0)
    assert (one[first] != 0).any()


# --- bad images, mistakes, bugs ------------------------------------------------------------------


# --- ranks that were not started alike -----------------------------------------------------------


def unlike(values, changes, resume, patches):
    """Train; the last rank with other keys, and with other objects in place of some."""
    agreement._PATIENCE = 0.5
    with pytest.MonkeyPatch.context() as patch:
        if int(os.environ["RANK"]) == int(os.environ["WORLD_SIZE"]) - 1:
            values = {**values, **changes}
            for name, value in patches.items():
                patch.setattr(name, value)
            resume = changes.get("resume", resume)
        train(
            RunConfig.read({k: v for k, v in values.items() if k != "resume"}, "test"),
            resume=resume,
        )


def assert_refused(group, values, words, changes=None, resume=False, patches=None):
    group.start(unlike, values, changes or {}, resume, patches or {})
    outcomes = group.outcomes()
    for outcome in outcomes:
        assert outcome.code == 3, outcome
        assert outcome.text.startswith(f"rank {group.size - 1} differs from rank 0 in {words}")
        assert outcome.text.count("\n") == 0
    assert group.run(os.getpid)  # nobody hangs


FLAGS = {
    "learning rate": ({"learning_rate": 0.5}, "--learning-rate (0.5, not none); start every rank"),
    "several": ({"epochs": 9, "view": "plain"}, "--view (plain, not paper), --epochs (9, not 3);"),
    "resume": ({"resume": True}, "--resume (true, not false);"),
}


@pytest.mark.parametrize(("changes", "words"), FLAGS.values(), ids=FLAGS)
def test_ranks_with_other_flags_are_refused(pair, values, changes, words):
    assert_refused(pair, values("run"), words, changes)
    assert not os.path.exists(values("run")["output"] + "/run.json")


def test_ranks_with_other_labels_are_refused(pair, values, photos, tmp_path):
    elsewhere = shutil.copytree(photos, tmp_path / "elsewhere")
    lines = (elsewhere / "train.csv").read_text().splitlines()
    name, value, rest = lines[3].split(",", 2)
    lines[3] = f"{name},{1 - int(value)},{rest}"
    (elsewhere / "train.csv").write_text("\n".join(lines) + "\n")
    there = {"labels": "train.csv", "test_labels": "test.csv", "images": ""}
    there = {key: str(elsewhere / name) for key, name in there.items()}
    usual = {"only_listed": True, "mode": "linear", "setting": "known:0.7"}
    words = "the training labels, the labels that are seen;"
    assert_refused(pair, values("run", **usual), words, there)


# --- signals, crashes, going on ------------------------------------------------------------------


def stopped_at(values, rank, step, resume=False, where="step", number=signal.SIGTERM):
    """Train until this rank, at some step, gets a signal."""
    owner, name = {
        "step": (keeping.CheckpointSaver, "step"),
        "measuring": (fitting, "mean_average_precision"),
    }[where]
    original = getattr(owner, name)
    calls = []

    def count(*arguments, **named):
        calls.append(1)
        if len(calls) == step and int(os.environ["RANK"]) in rank:
            os.kill(os.getpid(), number)
        return original(*arguments, **named)

    setattr(owner, name, count)
    try:
        training(values, resume)
    finally:
        setattr(owner, name, original)


def assert_stopped(group, values, *arguments):
    group.start(stopped_at, values, *arguments)
    for outcome in group.outcomes():
        assert outcome.code == 75, outcome
        assert "stopped" in outcome.text
        assert "--resume" in outcome.text


@pytest.mark.parametrize(
    ("ranks", "step", "where"),
    [((0, 1), 9, "step"), ((1,), 2, "measuring")],
    ids=["all at a step", "one rank measuring"],
)
def test_a_signal_stops_all_ranks_and_going_on_is_exact(pair, values, ranks, step, where):
    common = {"learning_rate": 0.02}
    pair.run(training, values("whole", **common))
    assert_stopped(pair, values("stopped", **common), ranks, step, False, where)
    folder = values("stopped")["output"]
    saved = sorted(path.name for path in os.scandir(f"{folder}/checkpoints"))
    assert saved[-1] == ("0-000001-00000002" if where == "step" else "0-000001-00000007")
    assert len(saved) == 2  # after the first epoch, and this one, once
    pair.run(training, values("stopped", **common), True)
    assert_equal(load_run(values("whole")["output"]), load_run(folder))


def test_going_on_with_another_number_of_ranks(pair, trio, values):
    common = {"mode": "linear-init", "linear_epochs": 2, "epochs": 2, "learning_rate": 0.005}
    alone = train(RunConfig.read(values("alone", **common), "test"))
    assert_stopped(pair, values("moving", **common), (1,), 3)
    assert_stopped(trio, values("moving", **common), (0,), 6, True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RANK", "0")
        with pytest.raises(BaseException, match="stopped") as caught:
            stopped_at(values("moving", **common), (0,), 5, True)
    assert caught.value.exit_code == 75
    pair.run(training, values("moving", **common), True)
    assert_close(alone, load_run(values("moving")["output"]))


def test_a_killed_rank_ends_the_others_and_nothing_is_torn(values):
    group = Group(3)
    try:
        common = {"learning_rate": 0.02, "checkpoint_steps": 1}
        group.start(stopped_at, values("run", **common), (1,), 10, False, "step", signal.SIGKILL)
        outcomes = group.outcomes()
        assert outcomes[1] is None
        for outcome in (outcomes[0], outcomes[2]):
            assert outcome.error == "RankLost"
            assert outcome.code == 6
            assert "--resume" in outcome.text
    finally:
        group.close()
    alone = train(RunConfig.read(values("alone", **common), "test"))
    resumed = train(RunConfig.read(values("run", **common), "test"), resume=True)
    assert_close(alone, resumed)


# --- starting ------------------------------------------------------------------------------------


def flags(values):
    """The same training on a command line."""
    for key, value in values.items():
        if isinstance(value, bool):
            yield f"--{key.replace('_', '-')}"
        else:
            yield from (f"--{key.replace('_', '-')}", str(value))


def test_the_command_line_on_two_ranks(pair, values):
    """As srun starts it: the environment tells each process its place. One of them speaks."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    common = {"backbone": "tiny", "method": "an", "epochs": 1}
    command = [sys.executable, "-m", "g2netpl", "train", *flags(values("run", **common, workers=1))]
    place = {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    ranks = [
        subprocess.Popen(
            command,
            env={**os.environ, **place, "RANK": rank, "LOCAL_RANK": rank, "OMP_NUM_THREADS": "1"},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for rank in ("0", "1")
    ]
    said = [rank.communicate(timeout=120)[0] for rank in ranks]
    assert [rank.returncode for rank in ranks] == [0, 0], said
    assert said[1] == ""
    assert "epoch 1 of " in said[0]
    assert said[0].count("written to") == 1
    pair.run(training, values("other", **common))
    assert_equal(load_run(values("run")["output"]), load_run(values("other")["output"]))


@pytest.mark.parametrize(
    ("known", "missing"),
    [
        ({"WORLD_SIZE": "2", "RANK": "0"}, "LOCAL_RANK, MASTER_ADDR, MASTER_PORT not set"),
        ({"OMPI_COMM_WORLD_SIZE": "2"}, "2 processes were started, but RANK, LOCAL_RANK, WORLD"),
    ],
    ids=["torchrun", "mpirun"],
)
def test_half_a_launch_is_refused(monkeypatch, known, missing):
    for name in ("RANK", "LOCAL_RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"):
        monkeypatch.delenv(name, raising=False)
    for name, value in known.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(InputError, match=missing):
        the_processes()


def test_others_do_not_work_in_several_processes(monkeypatch, capsys):
    from g2netpl.cli import main

    monkeypatch.setattr(signal, "signal", lambda *_: None)
    for rank, said in (("0", 1), ("1", 0)):
        for name, value in (("WORLD_SIZE", "2"), ("RANK", rank), ("LOCAL_RANK", rank)):
            monkeypatch.setenv(name, value)
        assert main(["methods"]) == 2
        told = "only train, predict, complete and features work in several processes"
        assert capsys.readouterr().err.count(told) == said
        with pytest.raises(SystemExit) as ended:
            main(["train", "--bogus"])
        assert ended.value.code == 2
        assert capsys.readouterr().err.count("--bogus") == said


def test_loader_processes_end_with_the_process_wherever_it_is(photos):
    """They ignore signals, so that nobody else may end them."""
    code = (
        "import sys\nfrom g2netpl.images.loader import ImageSource, plain_groups\n"
        "source = ImageSource(sys.argv[1:], 16, (0.5,) * 3, (0.25,) * 3, workers=1)\n"
        "begun = source.load(plain_groups(8, 1), None)\nnext(begun)\n"
    )
    paths = sorted(str(path) for path in photos.glob("train-*.png"))[:8]
    ended = subprocess.run([sys.executable, "-c", code, *paths], timeout=120, capture_output=True)
    assert (ended.returncode, ended.stderr) == (0, b"")
