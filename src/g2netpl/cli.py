"""The command line. Each command lives in `commands/`; nothing heavy is imported before it runs."""

import argparse
import errno
import sys
import traceback
from collections.abc import Sequence
from types import ModuleType
from typing import NoReturn

from g2netpl import __version__, launched
from g2netpl.commands import (
    check,
    compare,
    complete,
    convert,
    demo,
    export,
    features,
    import_weights,
    methods,
    observe,
    plan,
    predict,
    report,
    reproduce,
    review,
    search,
    train,
)
from g2netpl.errors import InputError, UserError, to_install
from g2netpl.interrupts import Stopped

EXIT_BUG, EXIT_DISK, EXIT_INTERRUPTED = 70, 74, 130
_DISK = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO, errno.EACCES, errno.EPERM)
COMMANDS = (
    *(demo, check, train, report, predict, complete, review, export, plan),
    *(observe, convert, search, compare, reproduce, features, methods),
    import_weights,
)


class _Parser(argparse.ArgumentParser):
    """A parser that tells a mistake in one line."""

    def error(self, message: str) -> NoReturn:
        text = f"{self.prog}: {message} (see {self.prog} --help)\n"
        self.exit(2, text if launched.is_first_of_machine() else None)


def build_parser() -> argparse.ArgumentParser:
    """All commands with their flags."""
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
        command.add_flags(sub)
        sub.set_defaults(execute=command.run, command=name)
    return parser


def name_of(command: ModuleType) -> str:
    """`import_weights.py` is `g2netpl import-weights`."""
    return command.__name__.rpartition(".")[2].replace("_", "-")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; returns the exit code."""
    try:
        parsed = build_parser().parse_args(arguments)
        with launched.said_once():
            _check_launch(parsed.execute)
        parsed.execute(parsed)
    except (UserError, Stopped) as problem:
        launched.ignore_signals()
        if not problem.said:
            print(f"g2netpl: {' '.join(str(problem).split())}", file=sys.stderr)
        return problem.exit_code
    except KeyboardInterrupt:
        print("g2netpl: interrupted", file=sys.stderr)
        return EXIT_INTERRUPTED
    except OSError as trouble:
        if trouble.errno not in _DISK:
            return _bug()
        print(f"g2netpl: {trouble.filename or 'disk'}: {trouble.strerror}", file=sys.stderr)
        return EXIT_DISK
    except Exception as problem:
        missing = to_install(problem)
        if missing is None:
            return _bug()
        print(f"g2netpl {parsed.command}: {missing}", file=sys.stderr)
        return UserError.exit_code
    return 0


def _check_launch(execute: object) -> None:
    if launched.size() > 1 and execute is not train.run:
        raise InputError("only g2netpl train works in several processes; start this without them")


def _bug() -> int:
    traceback.print_exc()
    print("g2netpl: this is a bug in g2netpl; please report the lines above", file=sys.stderr)
    return EXIT_BUG
