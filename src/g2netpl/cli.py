"""The command line. Each command lives in `commands/`; nothing heavy is imported before it runs."""

import argparse
import sys
import traceback
from collections.abc import Sequence
from typing import NoReturn

from g2netpl import __version__
from g2netpl.commands import (
    check,
    compare,
    complete,
    convert,
    demo,
    features,
    methods,
    observe,
    plan,
    predict,
    reproduce,
    search,
    train,
)
from g2netpl.errors import UserError

EXIT_BUG, EXIT_INTERRUPTED = 70, 130
COMMANDS = (
    *(demo, check, train, predict, complete, plan),
    *(observe, convert, search, compare, reproduce, features, methods),
)


class _Parser(argparse.ArgumentParser):
    """A parser that tells a mistake in one line."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: {message} (see {self.prog} --help)\n")


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
        name = command.__name__.rpartition(".")[2]
        summary, _, examples = (command.__doc__ or "").strip().partition("\n\n")
        sub = commands.add_parser(
            name,
            help=summary[0].lower() + summary[1:].rstrip("."),
            description=summary,
            epilog=examples,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        command.add_flags(sub)
        sub.set_defaults(execute=command.run)
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; returns the exit code."""
    try:
        parsed = build_parser().parse_args(arguments)
        parsed.execute(parsed)
    except UserError as problem:
        print(f"g2netpl: {' '.join(str(problem).split())}", file=sys.stderr)
        return problem.exit_code
    except KeyboardInterrupt:
        print("g2netpl: interrupted", file=sys.stderr)
        return EXIT_INTERRUPTED
    except Exception:
        traceback.print_exc()
        print("g2netpl: this is a bug in g2netpl; please report the lines above", file=sys.stderr)
        return EXIT_BUG
    return 0
