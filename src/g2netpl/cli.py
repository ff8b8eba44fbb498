"""The command line. Each command is a module of `commands/`, imported only when it is chosen."""

import argparse
import os
import sys
import traceback
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any, NoReturn

from g2netpl import __version__
from g2netpl.utils import launch as launched
from g2netpl.utils.console import say
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
_IN_SEVERAL_PROCESSES = ("train", "predict", "complete", "features")


class _Parser(argparse.ArgumentParser):
    """A parser whose mistakes are one line; that of a command makes its flags when it is chosen."""

    add_flags: Callable[[argparse.ArgumentParser], None] | None = None
    _given: Sequence[str] = ()  # flags on the command line

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Parse as usual; unknown flags get a hint."""
        add_flags, self.add_flags = self.add_flags, None
        if add_flags is None:
            return super().parse_known_args(args, namespace)
        add_flags(self)
        self._given = [word for word in args if word.startswith("--")]
        parsed, unknown = super().parse_known_args(args, namespace)
        if unknown:
            hint = self._hint(unknown[0]) or self._one_too_many(unknown[0], args)
            self.error(f"unrecognized arguments: {' '.join(unknown)}{hint}")
        return parsed, unknown

    def _hint(self, word: str) -> str:
        """The flag or the key of the configuration that was probably meant."""
        flag = word.partition("=")[0]
        if not flag.startswith("-"):
            return ""
        if "--set" in self._option_string_actions:
            from g2netpl.commands.flags import KEYS

            key = flag.removeprefix("--").replace("-", "_")
            if key in KEYS:
                return f"; use --set {key}=VALUE"
        close = closest(flag, self._option_string_actions)
        return "" if close is None else f"; did you mean {close}?"

    def _one_too_many(self, word: str, given: Sequence[str]) -> str:
        """The help of a flag that takes one value, if two follow it."""
        flag = given[max(given.index(word) - 2, 0)] if word in given else ""
        action = self._option_string_actions.get(flag)
        if action is None or action.nargs is not None or not isinstance(action.help, str):
            return ""
        again = "" if type(action) is argparse._StoreAction else " each time"
        return f"; {flag} takes one value{again}: {action.help.replace('%%', '%')}"

    def error(self, message: str) -> NoReturn:
        """Exit with one line; a misspelt flag explains a missing one."""
        flags = [word.partition("=")[0] for word in self._given]
        for flag in flags if "are required" in message else ():
            if not any(known.startswith(flag) for known in self._option_string_actions):
                message = f"unrecognized arguments: {flag}{self._hint(flag)}"
                break
        if launched.is_first_of_machine():
            say(f"{self.prog}: {message} (see {self.prog} --help)")
        self.exit(2)


def build_parser() -> argparse.ArgumentParser:
    """All commands."""
    parser = _Parser(
        prog="g2netpl",
        description="Train a multi-label image classifier when most labels are missing.",
        epilog="examples:\n"
        "  g2netpl demo --output runs/demo\n"
        "  g2netpl train --labels labels.csv --images photos --output runs/first\n"
        "  g2netpl methods",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"g2netpl {__version__}")
    commands = parser.add_subparsers(metavar="command", required=True, parser_class=_Parser)
    for name, summary in COMMANDS.items():
        sub = commands.add_parser(
            name, help=summary, formatter_class=argparse.RawDescriptionHelpFormatter
        )
        sub.add_flags = partial(_add_flags, name)
    return parser


def _add_flags(name: str, parser: argparse.ArgumentParser) -> None:
    """Import the chosen command and add its flags."""
    command = import_module(f"g2netpl.commands.{name}")
    parser.description, _, parser.epilog = (command.__doc__ or "").strip().partition("\n\n")
    parser.set_defaults(execute=command.run, command=name)
    command.add_flags(parser)
    places = [action for action in parser._actions if not action.option_strings]
    needed = [action for action in parser._actions if action.required and action not in places]
    words = [f"{action.option_strings[0]} {action.metavar or action.dest}" for action in needed]
    words += [str(action.metavar or f"[{action.dest}]") for action in places]
    parser.usage = " ".join([parser.prog, *words, "[options]"])


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; returns the exit code."""
    given = sys.argv[1:] if arguments is None else [*arguments]
    try:
        _check_command(given[:1])
        parsed = build_parser().parse_args(given)
        _check_launch(parsed.command)
        _load_plugins(parsed)
        with _plugin_errors():
            parsed.execute(parsed)
    except (UserError, Stopped) as problem:
        launched.ignore_signals()
        if launched.is_first_of_machine():
            say(f"g2netpl: {' '.join(str(problem).split())}")
        return problem.exit_code
    except UnicodeEncodeError as problem:
        say(f"g2netpl: {problem.object[:100]!a}: a name is not valid Unicode text; rename it")
        return InputError.exit_code
    except KeyboardInterrupt:
        say("g2netpl: interrupted")
        return EXIT_INTERRUPTED
    except BrokenPipeError:  # the reader has gone, as `head` does
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # for the flush at exit
        return EXIT_BUG
    except OSError as problem:
        if problem.errno is None or not (problem.filename or is_full(problem)):
            return _bug()
        path = os.fsdecode(problem.filename or os.curdir)
        say(f"g2netpl: {path}: {os_error_text(problem, Path(path))}")
        return InputError.exit_code
    except Exception as problem:
        lacking = missing_extra(problem)
        if lacking is None:
            return _bug()
        say(f"g2netpl {given[0]}: {' '.join(lacking.split())}")
        return UserError.exit_code
    return 0


def _check_command(first: Sequence[str]) -> None:
    for word in first:
        if not word.startswith("-") and word not in COMMANDS:
            hint = did_you_mean(word, COMMANDS)
            raise InputError(f"no command {word!r:.100}: {hint} (see g2netpl --help)")


def _load_plugins(parsed: argparse.Namespace) -> None:
    """Methods from the files of --plugin."""
    paths = vars(parsed).pop("plugin", [])
    if paths:
        from g2netpl.core.plugins import load_plugins

        load_plugins(paths)


def _plugin_errors() -> AbstractContextManager[None]:
    """Inside, a mistake in a plugin is reported as one."""
    plugins = sys.modules.get("g2netpl.core.plugins")
    return nullcontext() if plugins is None else plugins.plugin_errors()


def _check_launch(command: str) -> None:
    if launched.size() > 1 and command not in _IN_SEVERAL_PROCESSES:
        raise InputError(
            "only train, predict, complete and features work in several processes; start this "
            "without them"
        )


def _bug() -> int:
    say(traceback.format_exc().rstrip())
    say("g2netpl: this is a bug in g2netpl; please report the lines above")
    return EXIT_BUG
