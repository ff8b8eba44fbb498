"""Faults inside a process: at the n-th call of a function it is killed, signalled, or fails.

A fault is a dictionary:

    at        "module:name" or "module:Class.name"; "*" is any function of g2netpl; "open" is a
              file that is opened to be written
    number    which call, from 1; or a list of them
    matching  count only calls whose first arguments contain this text
    action    kill, term, int: that signal to ourselves; worker: kill to a loader process
              full: the disk is full; tear: half of the bytes are written, then we are killed
              nan: the result is no number
    after     the action comes after the call, not before
"""

import builtins
import errno
import importlib
import io
import multiprocessing
import os
import signal
import sys
import threading
import traceback

PACKAGE = "g2netpl"


def install(faults, place):
    """Make the faults happen in this process; where one did is written to `place`."""
    counters = []
    for fault in faults:
        counter = _Counter(fault, place)
        watch = {"*": _watch_calls, "open": _watch_files}.get(fault["at"], _watch_function)
        watch(fault, counter)
        counters.append(counter)
    return counters


class _Counter:
    def __init__(self, fault, place):
        numbers = fault.get("number", 1)
        self.numbers = {numbers} if isinstance(numbers, int) else set(numbers)
        self.matching, self.calls, self.place = fault.get("matching", ""), 0, place
        self.lock = threading.Lock()

    def is_due(self, *arguments):
        if not any(self.matching in str(argument) for argument in arguments or ("",)):
            return False
        with self.lock:
            self.calls += 1
            due = self.calls in self.numbers
        if due:
            _note(self.place)
        return due


def _note(place):
    """The functions we are in, the innermost last."""
    frames = traceback.extract_stack()
    names = [frame.name for frame in frames if f"{os.sep}{PACKAGE}{os.sep}" in frame.filename]
    with open(place, "a", encoding="utf-8") as file:
        file.write(" ".join(names) + "\n")


def _act(action):
    if action in ("kill", "term", "int"):
        os.kill(os.getpid(), getattr(signal, f"SIG{action.upper()}"))
    elif action == "worker":
        os.kill(multiprocessing.active_children()[0].pid, signal.SIGKILL)
    elif action == "full":
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def _watch_function(fault, counter):
    module_name, _, path = fault["at"].partition(":")
    owner = importlib.import_module(module_name)
    *classes, name = path.split(".")
    for each in classes:
        owner = getattr(owner, each)
    original, action = getattr(owner, name), fault["action"]

    def call(*arguments, **named):
        due = counter.is_due(*arguments)
        if due and not fault.get("after"):
            _act(action)
        result = original(*arguments, **named)
        if due and fault.get("after"):
            _act(action)
        return result * float("nan") if due and action == "nan" else result

    setattr(owner, name, call)
    for module in list(sys.modules.values()):  # also where it was imported by name
        if getattr(module, "__name__", "").startswith(PACKAGE):
            for key, value in list(vars(module).items()):
                if value is original:
                    setattr(module, key, call)


def _watch_calls(fault, counter):
    """The n-th call of any function of the package, in any thread."""
    inside = f"{os.sep}{PACKAGE}{os.sep}"

    def watch(frame, event, argument):
        ours = event == "call" and inside in frame.f_code.co_filename
        if ours and counter.is_due():
            _act(fault["action"])

    threading.setprofile(watch)
    sys.setprofile(watch)


def _watch_files(fault, counter):
    """A write to a file whose name matches fails, or is torn, in its middle."""
    real = io.open

    class File:
        def __init__(self, file):
            self._file = file

        def __getattr__(self, name):
            return getattr(self._file, name)

        def __enter__(self):
            self._file.__enter__()
            return self

        def __exit__(self, *problem):
            return self._file.__exit__(*problem)

        def write(self, content):
            self._file.write(content[: len(content) // 2])
            self._file.flush()
            _act("kill" if fault["action"] == "tear" else fault["action"])

    def opened(path, mode="r", *arguments, **named):
        file = real(path, mode, *arguments, **named)
        if isinstance(path, int) and os.path.exists(f"/proc/self/fd/{path}"):
            path = os.readlink(f"/proc/self/fd/{path}")  # a file that was opened exclusively
        writing = set(mode) & set("wax+") and isinstance(path, str | os.PathLike)
        return File(file) if writing and counter.is_due(path) else file

    builtins.open = io.open = opened
