"""The command line. Each command is a module of `commands/`, imported only when it is chosen."""

import argparse
import os
import sys
import traceback
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from importlib import import_module
from shlex import quote
from typing import NoReturn

from g2netpl import __version__
from g2netpl.utils import launch as launched
from g2netpl.utils.console import Console, say
from g2netpl.utils.errors import InputError, UserError, closest, did_you_mean, missing_extra
from g2netpl.utils.files import is_full, os_error_text
from g2netpl.utils.signals import Stopped

EXIT_BUG, EXIT_INTERRUPTED = 1, 130
COMMANDS = {
    "demo": "compare methods on built-in data, in a few minutes",
    "check": "check a label file and its images before training",
    "train": "train a classifier from a label file and a folder of images",
    "report": "write the report of a run or a comparison as one HTML page",
    "predict": "score images with a trained classifier and decide their labels",
    "complete": "fill in the unknown labels of a label file",
    "review": "confirm or reject labels on a local page",
    "export": "write a trained classifier as one ONNX file with its model card",
    "convert": "convert label files, join several, or hide labels",
    "compare": "compare methods on features, images or built-in scenes",
    "reproduce": "reproduce an experiment of the paper on your data",
    "features": "compute a folder of frozen features from images",
    "methods": "list the methods, or the options of one of them",
}
HELP = """usage: g2netpl COMMAND [options]

Train a multi-label image classifier when most labels are missing.

commands (each has --help):
{}

examples:
  g2netpl demo --output runs/demo
  g2netpl train --labels labels.csv --images photos --output runs/first
  g2netpl --version""".format("\n".join(f"  {name:10} {COMMANDS[name]}" for name in COMMANDS))
_IN_SEVERAL_PROCESSES = ("train", "predict", "complete")


class CommandParser(argparse.ArgumentParser):
    """The flags of a command; a mistake in them is one line."""

    def __init__(self, name: str) -> None:
        command = import_module(f"g2netpl.commands.{name}")
        description, _, epilog = (command.__doc__ or "").strip().partition("\n\n")
        super().__init__(
            prog=f"g2netpl {name}",
            description=description,
            epilog=epilog,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        command.add_flags(self)
        self.set_defaults(execute=command.run, command=name)
        positional, needed = [], []
        for action in self._actions:
            if not action.option_strings:
                shape = {"?": "[{}]", "+": "{}..."}.get(str(action.nargs), "{}")
                positional.append(shape.format(action.metavar))
            elif action.required:
                needed.append(f"{action.option_strings[0]} {action.metavar or action.dest.upper()}")
        self.usage = " ".join([self.prog, *positional, *needed, "[options]"])

    def read(self, words: Sequence[str]) -> argparse.Namespace:
        """Parse the words behind the command; a flag that does not exist gets a hint."""
        for word, behind in zip(words, (*words[1:], ""), strict=False):
            flag, _, value = word.partition("=")
            if flag.startswith("--") and not any(
                known.startswith(flag) for known in self._option_string_actions
            ):
                self.error(f"unrecognized arguments: {word}{self._hint(flag, value or behind)}")
        return self.parse_args(words)

    def _hint(self, flag: str, value: str) -> str:
        """The flag or the key of the configuration that was probably meant."""
        key = flag.removeprefix("--").replace("-", "_")
        keys = import_module("g2netpl.commands.flags").KEYS
        if key in keys and "--set" in self._option_string_actions:
            value = "VALUE" if not value or value.startswith("-") else value
            return f"; use --set {quote(f'{key}={value}')}"
        close = closest(flag, self._option_string_actions)
        return "" if close is None else f"; did you mean {close}?"

    def error(self, message: str) -> NoReturn:
        """Exit with one line."""
        if launched.is_first_of_machine():
            say(f"{self.prog}: {message} (see {self.prog} --help)")
        self.exit(InputError.exit_code)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; returns the exit code."""
    try:
        _run(*(sys.argv[1:] if arguments is None else arguments))
    except (UserError, Stopped) as problem:
        launched.ignore_signals()
        if launched.is_first_of_machine():
            say(f"g2netpl: {' '.join(str(problem).split())}")
        return problem.exit_code
    except UnicodeEncodeError as problem:
        say(f"g2netpl: {problem.object[:100]!a}: a name is not valid Unicode text; rename it")
        return InputError.exit_code
    except MemoryError:
        say("g2netpl: not enough memory; use fewer images, or a smaller image_size")
        return InputError.exit_code
    except KeyboardInterrupt:
        say("g2netpl: interrupted")
        return EXIT_INTERRUPTED
    except BrokenPipeError:  # the reader has gone, as `head` does
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # for the flush at exit
        return EXIT_BUG
    except Exception as problem:
        if isinstance(problem.__context__, KeyboardInterrupt):  # torch fails in what it cleans up
            say("g2netpl: interrupted")
            return EXIT_INTERRUPTED
        line = missing_extra(problem) or _os_error(problem)
        if line is None:
            say(traceback.format_exc().rstrip())
            say("g2netpl: this is a bug in g2netpl; please report the lines above")
            return EXIT_BUG
        say(f"g2netpl: {line}")
        return UserError.exit_code
    return 0


def _run(name: str = "", *words: str) -> None:
    """Run the command of this name."""
    if name in ("-h", "--help"):
        Console().print(HELP)
    elif name == "--version":
        Console().print(f"g2netpl {__version__}")
    elif name not in COMMANDS:
        hint = f"no command {name!r:.100}: {did_you_mean(name, COMMANDS)}"
        raise InputError(f"{hint if name else 'expected a command'} (see g2netpl --help)")
    else:
        flags = CommandParser(name).read(words)
        if launched.size() > 1 and name not in _IN_SEVERAL_PROCESSES:
            raise InputError(
                f"{name}: works in one process; only {', '.join(_IN_SEVERAL_PROCESSES)} in several"
            )
        with _plugin_errors():
            flags.execute(flags)


def _plugin_errors() -> AbstractContextManager[None]:
    """Inside, a mistake in a plugin is reported as one."""
    plugins = sys.modules.get("g2netpl.core.plugins")
    return nullcontext() if plugins is None else plugins.plugin_errors()


def _os_error(problem: Exception) -> str | None:
    """The line for a file that cannot be used; None for any other problem."""
    if not isinstance(problem, OSError) or problem.errno is None:
        return None
    if not problem.filename and not is_full(problem):
        return None
    path = os.fsdecode(problem.filename or os.curdir)
    return f"{path}: {os_error_text(problem)}"
