"""List the methods, or the options of one of them.

examples:
  g2netpl methods
  g2netpl methods g2netpl        its options, their defaults and meaning
"""

import argparse

from rich.table import Table

from g2netpl.commands.flags import add_plugin_flag
from g2netpl.core.methods import METHODS, find_method
from g2netpl.utils.console import Console

_OF_THE_PAPER = ("g2netpl", "g2netpl-paper", "plmcl")  # listed first


def add_flags(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "method", metavar="METHOD", nargs="?", help="method whose options are listed"
    )
    add_plugin_flag(parser)


def run(flags: argparse.Namespace) -> None:
    """Print the catalogue."""
    console, rows = Console(), list[tuple[object, ...]]()
    if flags.method is None:
        head = ("method", "what it does", "source")
        order = sorted(METHODS, key=lambda name: (name not in _OF_THE_PAPER, name))
        rows = [(name, METHODS[name].summary, METHODS[name].source) for name in order]
    else:
        options = find_method(flags.method).options({})
        console.print(f"{flags.method}: {METHODS[flags.method].summary}")
        head = ("option", "default", "meaning")
        fields = type(options).model_fields
        rows = [(name, getattr(options, name), fields[name].description) for name in fields]
    table = Table(*head, box=None, pad_edge=False)
    for row in rows:
        table.add_row(*map(str, row))
    console.print(table)
