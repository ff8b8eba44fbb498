"""Signals: noted where a step is in the balance, at once elsewhere, and never lost."""

import contextlib
import os
import signal
import threading
from importlib import import_module

import pytest
from PIL import Image

from g2netpl.base.signals import Interrupts, Stopped
from g2netpl.cli import main
from g2netpl.images.loader import ImageSource


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


def test_a_launcher_that_says_it_twice_does_not_stop_the_saving():
    with Interrupts() as interrupts:
        with pytest.raises(Stopped):
            send(signal.SIGTERM)
        send(signal.SIGTERM, signal.SIGINT)  # while it saves
        assert interrupts.wanted


def test_a_second_ctrl_c_ends_everything():
    with Interrupts():
        with pytest.raises(Stopped):
            send(signal.SIGINT)
        with pytest.raises(KeyboardInterrupt):
            send(signal.SIGINT)


def test_nobody_takes_it_for_a_mistake_of_theirs(tmp_path, monkeypatch):
    """In the middle of a picture: it is not an unreadable one."""
    Image.new("RGB", (8, 8)).save(tmp_path / "a.png")
    source = ImageSource([str(tmp_path / "a.png")], 8, (0, 0, 0), (1, 1, 1), max_bad=1)

    def interrupted(*_, **__):
        send(signal.SIGTERM)

    monkeypatch.setattr(Image, "open", interrupted)
    with pytest.raises(Stopped), Interrupts():
        list(source.load([[0]], None))
    assert not source.bad


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


def test_a_signal_that_a_library_swallowed_is_known_to_the_next():
    with Interrupts() as outer:
        with contextlib.suppress(BaseException):
            send(signal.SIGTERM)
        with Interrupts() as inner:
            assert outer.wanted
            with pytest.raises(Stopped):
                inner.check()


def test_a_child_that_has_not_settled_yet_takes_no_notice():
    with Interrupts() as interrupts:
        interrupts._process += 1
        send(signal.SIGTERM, signal.SIGINT, signal.SIGINT)
        assert not interrupts.wanted


def test_outside_the_main_thread_signals_are_none_of_our_business():
    before = signal.getsignal(signal.SIGTERM)
    seen = []

    def work():
        with Interrupts() as interrupts, interrupts.noted():
            seen.append(signal.getsignal(signal.SIGTERM))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen == [before]


KEPT, LOST = "go on with the same command", "nothing is kept; run the same command again"


@pytest.mark.parametrize(
    ("command", "step", "advice"),
    [
        ("features --labels train.csv --images photos --output out", "_features", KEPT),
        ("predict run --images photos --output out/", "_predict", KEPT),
        ("predict run --images photos --output out.csv", "_predict", LOST),
        ("export run --output out.onnx", "check_target", LOST),
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
