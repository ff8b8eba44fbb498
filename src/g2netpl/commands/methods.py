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


def add_flags(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("method", nargs="?", help="method whose options are listed")
    add_plugin_flag(parser)


def run(flags: argparse.Namespace) -> None:
    """Print the catalogue."""
    console = Console()
    if flags.method is not None:
        options = find_method(flags.method).options({})
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
