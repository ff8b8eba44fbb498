"""Faults inside a process: at the n-th call of a function it is killed, signalled, or fails.

A fault is a dictionary:

    at        "module:name" or "module:Class.name"; "*" is any function of g2netpl
    number    which call, from 1
    matching  count only calls whose first arguments contain this text
    action    kill, term, int: that signal to ourselves; worker: kill to a loader process
              nan: the result is no number
    after     the action comes after the call, not before
"""

import importlib
import multiprocessing
import os
import signal
import sys
import threading

PACKAGE = "g2netpl"


def install(faults):
    """Make the faults happen in this process."""
    counters = []
    for fault in faults:
        counters.append(_Counter(fault))
        watch = _watch_calls if fault["at"] == "*" else _watch_function
        watch(fault, counters[-1])
    return counters


class _Counter:
    def __init__(self, fault):
        self.number, self.matching = fault.get("number", 1), fault.get("matching", "")
        self.calls = 0
        self.lock = threading.Lock()

    def is_due(self, *arguments):
        if not any(self.matching in str(argument) for argument in arguments or ("",)):
            return False
        with self.lock:
            self.calls += 1
            return self.calls == self.number


def _act(action):
    if action in ("kill", "term", "int"):
        os.kill(os.getpid(), getattr(signal, f"SIG{action.upper()}"))
    elif action == "worker":
        os.kill(multiprocessing.active_children()[0].pid, signal.SIGKILL)


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
