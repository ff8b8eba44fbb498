"""List the methods, or the options of one of them.

examples:
  g2netpl methods
  g2netpl methods g2netpl        its options, their defaults and meaning
  g2netpl methods mine --plugin mine.py --check
                                 whether a method of your own keeps to what the training relies on
"""

import argparse
from typing import TYPE_CHECKING

from g2netpl.base.errors import InputError

if TYPE_CHECKING:
    from g2netpl.base.console import Console


def add_flags(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("method", nargs="?", help="show the options of this method")
    parser.add_argument(
        "--check", action="store_true", help="try the method on a few random images instead"
    )


def run(flags: argparse.Namespace) -> None:
    """Print the catalogue."""
    from rich.table import Table

    from g2netpl.base.console import Console
    from g2netpl.game.methods import METHODS, method_options

    console = Console()
    if flags.check:
        _check(flags.method, console)
        return
    if flags.method is not None:
        options = method_options(flags.method, {})
        table = Table("option", "default", "meaning", box=None, pad_edge=False)
        for name, field in type(options).model_fields.items():
            table.add_row(name, str(getattr(options, name)), field.description)
        console.print(f"{flags.method}: {METHODS[flags.method].summary}")
        console.print(table)
    else:
        table = Table("method", "what it does", "source", box=None, pad_edge=False)
        for name, method in METHODS.items():
            table.add_row(name, method.summary, method.source)
        console.print(table)


def _check(method: str | None, console: "Console") -> None:
    """Say what a method keeps to, and what not."""
    from g2netpl.game.trial import Trial, faults

    if method is None:
        raise InputError(
            "--check: expected the name of a method, as in g2netpl methods epr --check"
        )
    found = faults(Trial.of(method))
    for name, problems in found.items():
        console.print(f"{name}: {'; '.join(problems) or 'ok'}")
    failed = [name for name, problems in found.items() if problems]
    if failed:
        count = f"{len(failed)} of {len(found)} checks failed"
        raise InputError(f"method {method}: {count}: {', '.join(failed)}")
