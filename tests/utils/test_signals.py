"""Signals: noted where a step is in the balance, at once elsewhere, and never lost."""

import os
import signal
import threading
from importlib import import_module

import pytest

from g2netpl.cli import main
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


def test_outside_the_main_thread_signals_are_none_of_our_business():
    before, seen = signal.getsignal(signal.SIGTERM), []

    def work():
        with Interrupts() as interrupts, interrupts.noted():
            seen.append(signal.getsignal(signal.SIGTERM))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen == [before]


@pytest.mark.parametrize(
    ("command", "step", "advice"),
    [
        ("features --labels train.csv --images photos --output out", "_splits", AGAIN),
        ("predict run --images photos --output out/", "_predict", AGAIN),
        ("predict run --images photos --output out.csv", "_predict", NOTHING_KEPT),
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
