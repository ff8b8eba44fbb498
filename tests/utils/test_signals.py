"""Signals: noted where a step is in the balance, at once elsewhere, and never lost."""

import os
import re
import signal
import subprocess
import sys
import threading
import time
from importlib import import_module
from pathlib import Path

import pytest

import g2netpl
from g2netpl.cli import main
from g2netpl.training.checkpoints import Checkpointing
from g2netpl.utils.signals import AGAIN, NOTHING_KEPT, Interrupts, Stopped, leave_terminal_to_parent


def send(*numbers):
    for number in numbers:
        os.kill(os.getpid(), number)


def test_a_signal_stops_at_once_outside_the_steps():
    with pytest.raises(Stopped, match="same command again"), Interrupts():
        send(signal.SIGTERM)
    assert Stopped.exit_code == 75


def test_inside_the_steps_it_is_noted_and_takes_effect_at_their_end():
    reached = []

    def work(interrupts):
        with interrupts.noted():
            send(signal.SIGTERM, signal.SIGTERM)
            assert interrupts.wanted
            with interrupts.noted():
                send(signal.SIGINT)
            reached.append("the end of the steps")
        reached.append("what comes after")

    with Interrupts() as interrupts, pytest.raises(Stopped):
        work(interrupts)
    assert reached == ["the end of the steps"]


def test_a_second_ctrl_c_ends_everything():
    with Interrupts():
        with pytest.raises(Stopped):
            send(signal.SIGINT)
        with pytest.raises(KeyboardInterrupt):
            send(signal.SIGINT)


def test_handlers_are_put_back():
    before = [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)]
    with pytest.raises(Stopped), Interrupts(), Interrupts():
        send(signal.SIGTERM)
    after = [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)]
    assert after == before
    interrupts = Interrupts()
    interrupts.__enter__()
    interrupts._before[signal.SIGTERM] = None  # as Python tells of one set by a C library
    interrupts.__exit__()
    assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL
    signal.signal(signal.SIGTERM, before[0])


def test_outside_the_main_thread_signals_are_none_of_our_business():
    before, seen = signal.getsignal(signal.SIGTERM), []

    def work():
        with Interrupts() as interrupts, interrupts.noted():
            seen.append(signal.getsignal(signal.SIGTERM))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen == [before]


KEPT, LOST = AGAIN, NOTHING_KEPT


@pytest.mark.parametrize(
    ("command", "step", "advice"),
    [
        ("features --labels train.csv --images photos --output out", "_tables", KEPT),
        ("predict run --images photos --output out/", "_predict", KEPT),
        ("predict run --images photos --output out.csv", "_predict", LOST),
        ("export run --output out.onnx", "load_run", LOST),
    ],
)
def test_a_command_that_is_stopped_says_what_is_kept(
    command, step, advice, tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    name, *flags = command.split()
    module = import_module(f"g2netpl.commands.{name}")
    monkeypatch.setattr(module, step, lambda *_: send(signal.SIGTERM))
    assert main([name, *flags]) == Stopped.exit_code
    assert capsys.readouterr().err == f"g2netpl: stopped; {advice}\n"
    assert list(tmp_path.iterdir()) == []


def test_a_signal_that_is_ignored_at_the_start_stays_ignored():
    """As under nohup, or in the background of a script."""
    for number in (signal.SIGINT, signal.SIGHUP):
        before = signal.signal(number, signal.SIG_IGN)
        try:
            with Interrupts() as outer, Interrupts() as inner:
                assert signal.getsignal(number) == signal.SIG_IGN
                send(number)
                assert not outer.wanted
                assert not inner.wanted
                with pytest.raises(Stopped):
                    send(signal.SIGTERM)
            assert signal.getsignal(number) == signal.SIG_IGN
        finally:
            signal.signal(number, before)


@pytest.fixture
def heard():
    """SIGHUP is not ignored, here or in processes that are started here, even under nohup."""
    before = signal.signal(signal.SIGHUP, lambda *_: pytest.fail("nobody caught SIGHUP"))
    yield
    signal.signal(signal.SIGHUP, before)


def test_a_worker_leaves_ctrl_c_and_sighup_to_its_parent():
    numbers = (signal.SIGINT, signal.SIGHUP, signal.SIGTERM)
    before = [signal.getsignal(number) for number in numbers]
    try:
        leave_terminal_to_parent()
        after = [signal.getsignal(number) for number in numbers]
    finally:
        for number, handler in zip(numbers, before, strict=True):
            signal.signal(number, handler)
    assert after == [signal.SIG_IGN, signal.SIG_IGN, before[2]]


def words_of(keys, *more):
    """The command line of a training; it has far more epochs than any test waits for."""
    words = ["train", *more, "--output", keys.pop("output")]
    for key, value in {**keys, "epochs": 10**6, "patience": 0}.items():
        words += ["--set", f"{key}={value}"]
    return words


@pytest.fixture
def train_apart(small_training):
    """Starts `g2netpl train` as a process; it is killed at the end if it still runs."""
    started = []

    def start(*more):
        source = str(Path(g2netpl.__file__).parents[1])
        process = subprocess.Popen(
            [sys.executable, "-m", "g2netpl", *words_of(small_training(), *more)],
            env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": source},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.wait()
        process.stderr.close()


def wait_until(reached, process):
    """Poll; a process that ends, or takes two minutes, fails the test."""
    end = time.monotonic() + 120
    while not reached():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < end
        time.sleep(0.02)


def last_epoch(folder):
    names = (path.name for path in (folder / "checkpoints").glob("0-*"))
    return max((int(name.split("-")[1]) for name in names), default=0)


def catches(process, number):
    """Whether a process has a handler for a signal; proc(5) describes the mask."""
    found = re.search(r"SigCgt:\s*(\w+)", Path(f"/proc/{process.pid}/status").read_text())
    return bool(int(found[1], 16) >> (number - 1) & 1)


def resumes(folder):
    return f"g2netpl: stopped and saved; resume with: g2netpl train --resume --output {folder}\n"


@pytest.mark.usefixtures("heard")
def test_sighup_saves_and_a_resume_that_is_stopped_says_how_to_resume(train_apart, tmp_path):
    folder = tmp_path / "run"
    process = train_apart()
    wait_until(lambda: last_epoch(folder), process)
    process.send_signal(signal.SIGHUP)
    assert process.communicate(timeout=120)[1] == resumes(folder)
    assert process.returncode == 75
    if not Path("/proc/self/status").exists():
        return  # nothing shows when the next process can be stopped
    process = train_apart("--resume")
    wait_until(lambda: catches(process, signal.SIGTERM), process)
    process.send_signal(signal.SIGTERM)
    said = process.communicate(timeout=120)[1]
    assert process.returncode == 75
    assert re.search("resume", said)
    assert NOTHING_KEPT not in said


@pytest.mark.parametrize(
    ("place", "full"),
    [
        ("g2netpl.commands.train.read_config", False),
        ("g2netpl.training.train.read_training_data", True),
    ],
)
def test_a_resume_that_is_stopped_while_it_starts_says_how_to_resume(
    place, full, small_training, sigterm, monkeypatch, capsys, tmp_path
):
    import_module("g2netpl.training.train")
    saved = Checkpointing.on_epoch_end
    monkeypatch.setattr(Checkpointing, "on_epoch_end", lambda *given: (saved(*given), sigterm()))
    assert main(words_of(small_training())) == 75
    capsys.readouterr()
    monkeypatch.setattr(place, lambda *_, **__: sigterm())
    assert main(words_of(small_training(), "--resume")) == 75
    command = f"resume with: g2netpl train --resume --output {tmp_path / 'run'}" if full else AGAIN
    assert capsys.readouterr().err == f"g2netpl: stopped; {command}\n"


def test_a_comparison_says_so_too(monkeypatch, capsys, sigterm):
    compare = import_module("g2netpl.commands.compare")
    monkeypatch.setattr(compare, "grid_settings", lambda *_: sigterm())
    flags = ["--methods", "an", "--settings", "fspl", "--output", "out"]
    for more, advice in (
        ([], NOTHING_KEPT),
        (["--resume"], "run the same command with --resume"),
    ):
        assert main(["compare", *flags, *more]) == 75
        assert capsys.readouterr().err == f"g2netpl: stopped; {advice}\n"
