"""The command line. Each command lives in `commands/`; nothing heavy is imported before it runs."""

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
    "demo": "show the game on built-in data: scenes of handwritten digits, most labels hidden",
    "check": "look at a label file and its images, and tell everything that is wrong or odd",
    "train": "train a classifier from a label file and a folder of images",
    "report": "show a run or a comparison as one page that can be opened, printed and sent",
    "predict": "score images with a trained classifier; with its thresholds, name their labels",
    "complete": "fill in the unknown labels of a label file, by what a run has learnt",
    "review": "look at images with their labels on a local page, and confirm or refuse",
    "export": "write a trained classifier as one ONNX file, and its model card",
    "convert": "convert label files from one format to another, join several, or hide labels",
    "compare": "compare methods on features, images or built-in scenes",
    "reproduce": "run an experiment of the paper on your data, beside the published numbers",
    "features": "compute a folder of frozen features from images",
    "methods": "list the methods, or the options of one of them",
}
_TAKE_METHODS = ("train", "compare", "reproduce", "methods")
_IN_SEVERAL_PROCESSES = ("train", "predict", "complete", "features")


class _Parser(argparse.ArgumentParser):
    """A parser that tells a mistake in one line; a command's makes its flags when it is asked."""

    add_flags: Callable[[argparse.ArgumentParser], None] | None = None
    _given: Sequence[str] = ()  # flags on the command line

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """As usual; of all commands, this is the one that is meant, and it knows its flags."""
        add_flags, self.add_flags = self.add_flags, None
        if add_flags is None:
            return super().parse_known_args(args, namespace)
        add_flags(self)
        self._given = [word for word in args if word.startswith("--")]
        parsed, unknown = super().parse_known_args(args, namespace)
        if unknown:
            hint = self._meant(unknown[0]) or self._one_too_many(unknown[0], args)
            self.error(f"unrecognized arguments: {' '.join(unknown)}{hint}")
        return parsed, unknown

    def _meant(self, word: str) -> str:
        flag = word.partition("=")[0]
        close = closest(flag, self._option_string_actions) if flag.startswith("-") else None
        return "" if close is None else f"; did you mean {close}?"

    def _one_too_many(self, word: str, given: Sequence[str]) -> str:
        """What a flag takes that has its value already, where a word stands behind that."""
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
                message = f"unrecognized arguments: {flag}{self._meant(flag)}"
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
    """Import a command, which is the only one that is needed, and add its flags."""
    command = import_module(f"g2netpl.commands.{name}")
    parser.description, _, parser.epilog = (command.__doc__ or "").strip().partition("\n\n")
    parser.set_defaults(execute=command.run, command=name)
    command.add_flags(parser)
    if name in _TAKE_METHODS:
        parser.add_argument(
            "--plugin",
            action="append",
            default=[],
            metavar="FILE",
            help="Python file that adds methods of your own; it is run",
        )


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; returns the exit code."""
    try:
        parser, given = build_parser(), sys.argv[1:] if arguments is None else [*arguments]
        _check_command(given[:1])
        parsed = parser.parse_args(given)
        _check_launch(parsed.command)
        _load_plugins(parsed)
        with _own_mistakes():
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
        say(f"g2netpl {parsed.command}: {' '.join(lacking.split())}")
        return UserError.exit_code
    return 0


def _check_command(first: Sequence[str]) -> None:
    for word in first:
        if not word.startswith("-") and word not in COMMANDS:
            hint = did_you_mean(word, COMMANDS)
            raise InputError(f"no command {word!r:.100}: {hint} (see g2netpl --help)")


def _load_plugins(parsed: argparse.Namespace) -> None:
    """Methods that the command line brings along; nobody else hears of the files."""
    paths = vars(parsed).pop("plugin", [])
    if paths:
        from g2netpl.core.plugins import load_plugins

        load_plugins(paths)


def _own_mistakes() -> AbstractContextManager[None]:
    """Inside, a mistake in a plugin is told as one; without plugins there is none."""
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
