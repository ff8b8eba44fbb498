"""The command line. Each command lives in `commands/`; nothing heavy is imported before it runs."""

import argparse
import errno
import os
import sys
import traceback
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from types import ModuleType
from typing import Any, NoReturn

from g2netpl import __version__
from g2netpl.base import launch as launched
from g2netpl.base.disk import NO_PATH, is_full
from g2netpl.base.errors import InputError, UserError, closest, did_you_mean, what_lacks
from g2netpl.base.signals import Stopped
from g2netpl.base.terminal import EXIT_DISK, flush_output, output_may_close, say
from g2netpl.commands import (
    check,
    compare,
    complete,
    convert,
    demo,
    export,
    features,
    methods,
    predict,
    report,
    reproduce,
    review,
    train,
)

EXIT_BUG, EXIT_INTERRUPTED = 70, 130
_DISK = (errno.EROFS, errno.EIO, errno.EACCES, errno.EPERM)
COMMANDS = (
    *(demo, check, train, report, predict, complete, review, export),
    *(convert, compare, reproduce, features, methods),
)
_TAKE_METHODS = (train, compare, reproduce, methods)


class _Parser(argparse.ArgumentParser):
    """A parser that tells a mistake in one line; a command's makes its flags when it is asked."""

    add_flags: Callable[[argparse.ArgumentParser], None] | None = None

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """As usual; of all commands, this is the one that is meant, and it knows its flags."""
        add_flags, self.add_flags = self.add_flags, None
        if add_flags is None:
            return super().parse_known_args(args, namespace)
        add_flags(self)
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
    for command in COMMANDS:
        name = name_of(command)
        summary, _, examples = (command.__doc__ or "").strip().partition("\n\n")
        sub = commands.add_parser(
            name,
            help=summary[0].lower() + summary[1:].rstrip("."),
            description=summary,
            epilog=examples,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        sub.add_flags = partial(_add_flags, command)
        sub.set_defaults(execute=command.run, command=name)
    return parser


def _add_flags(command: ModuleType, parser: argparse.ArgumentParser) -> None:
    command.add_flags(parser)
    if command in _TAKE_METHODS:
        parser.add_argument(
            "--plugin",
            action="append",
            default=[],
            metavar="FILE",
            help="Python file that adds methods of your own; it is run",
        )


def name_of(command: ModuleType) -> str:
    """`train.py` is `g2netpl train`."""
    return command.__name__.rpartition(".")[2]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; returns the exit code."""
    with output_may_close():
        return _run(arguments)


def _run(arguments: Sequence[str] | None) -> int:
    try:
        parser, given = build_parser(), sys.argv[1:] if arguments is None else [*arguments]
        _check_command(given[:1])
        parsed = parser.parse_args(given)
        with launched.said_once():
            _check_launch(parsed.execute)
            _load_plugins(parsed)
        with _own_mistakes():
            parsed.execute(parsed)
        flush_output()
    except (UserError, Stopped) as problem:
        launched.ignore_signals()
        if not problem.said:
            say(f"g2netpl: {' '.join(str(problem).split())}")
        return problem.exit_code
    except UnicodeEncodeError as problem:
        say(f"g2netpl: {problem.object[:100]!a}: a name is not valid Unicode text; rename it")
        return InputError.exit_code
    except KeyboardInterrupt:
        say("g2netpl: interrupted")
        return EXIT_INTERRUPTED
    except OSError as trouble:
        if trouble.errno == errno.ENOENT and _is_lost():
            say("g2netpl: the working folder is gone; go to one that is there")
            return InputError.exit_code
        is_disk = is_full(trouble) or trouble.errno in _DISK
        if not is_disk and trouble.errno not in NO_PATH:
            return _bug()
        where = os.fsdecode(trouble.filename) if trouble.filename else "disk"
        say(f"g2netpl: {where}: {trouble.strerror}")
        return EXIT_DISK if is_disk else InputError.exit_code
    except Exception as problem:
        lacking = what_lacks(problem)
        if lacking is None:
            return _bug()
        say(f"g2netpl {parsed.command}: {' '.join(lacking.split())}")
        return UserError.exit_code
    return 0


def _check_command(first: Sequence[str]) -> None:
    names = [name_of(command) for command in COMMANDS]
    for word in first:
        if not word.startswith("-") and word not in names:
            hint = did_you_mean(word, names)
            raise InputError(f"no command {word!r:.100}: {hint} (see g2netpl --help)")


def _load_plugins(parsed: argparse.Namespace) -> None:
    """Methods that the command line brings along; nobody else hears of the files."""
    paths = vars(parsed).pop("plugin", [])
    if paths:
        from g2netpl.game.plugins import load_plugins

        load_plugins(paths)


def _own_mistakes() -> AbstractContextManager[None]:
    """Inside, a mistake in a plugin is told as one; without plugins there is none."""
    plugins = sys.modules.get("g2netpl.game.plugins")
    return nullcontext() if plugins is None else plugins.own_mistakes()


def _is_lost() -> bool:
    """Whether somebody removed the folder that we work in."""
    try:
        os.getcwd()
    except FileNotFoundError:
        return True
    return False


def _check_launch(execute: object) -> None:
    several = (train.run, predict.run, complete.run, features.run)
    if launched.size() > 1 and execute not in several:
        raise InputError(
            "only train, predict, complete and features work in several processes; start this "
            "without them"
        )


def _bug() -> int:
    say(traceback.format_exc().rstrip())
    say("g2netpl: this is a bug in g2netpl; please report the lines above")
    return EXIT_BUG
