"""Turn a .pth file of PyTorch into safetensors, without running what it may contain.

examples:
  g2netpl import-weights resnet50.pth --output resnet50.safetensors --drop fc.
  g2netpl import-weights checkpoint.pth --output mine.safetensors --key state_dict --strip module.
  g2netpl train --backbone resnet50 --weights mine.safetensors --labels labels.csv --output runs/a

A .pth file can hold a program that runs when it is read. Only tensors are taken from it; a file
with anything that could run is refused. --strip comes before --drop; `train --weights` wants the
tensors of the backbone alone, under timm's names.
"""

import argparse

from g2netpl.base.errors import InputError, counted
from g2netpl.commands.labelling import check_target


def add_flags(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", metavar="FILE", help="a .pth, .pt, .bin or .ckpt file")
    parser.add_argument("--output", required=True, help="file to write, .safetensors")
    parser.add_argument("--key", help="part of the file that has the tensors, such as state_dict")
    parser.add_argument(
        "--strip",
        action="append",
        default=[],
        metavar="PREFIX",
        help="take this off the names that begin with it, such as module.; may be repeated",
    )
    parser.add_argument(
        "--drop",
        action="append",
        default=[],
        metavar="PREFIX",
        help="leave out tensors whose names begin with it, such as fc.; may be repeated",
    )
    parser.add_argument("--overwrite", action="store_true", help="replace the output")


def run(flags: argparse.Namespace) -> None:
    """Read, rename, write."""
    from g2netpl.base.console import Console
    from g2netpl.game.network.foreign_weights import read_weights, renamed, write_weights

    console = Console()
    check_target(flags.output, (".safetensors",), flags.overwrite)
    if flags.file.lower().endswith(".safetensors"):
        raise InputError(f"{flags.file}: is safetensors already; give it to train --weights")
    weights = read_weights(flags.file, flags.key)
    console.print(f"read {flags.file}\nSHA-256 {weights.sha256}")
    state = renamed(weights.state, flags.strip, flags.drop)
    written = write_weights(state, flags.output)
    console.print(
        f"{counted(len(state), 'tensor')} of {len(weights.state):,}, "
        f"{sum(each.numel() for each in state.values()):,} numbers\n"
        f"written to {flags.output}\nSHA-256 {written}"
    )
