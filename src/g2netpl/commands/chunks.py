"""Results for any number of images: one table, or a folder of chunks."""

import argparse
import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from g2netpl.commands.flags import checked, given_keys
from g2netpl.commands.writing import ENDINGS, check_target
from g2netpl.labels.io.writing import write_columns
from g2netpl.runs.on_ray import make_on_ray
from g2netpl.runs.parts import Blocks, Maker, Parts, Tally, remove
from g2netpl.utils import launch as launched
from g2netpl.utils.console import Console, shown
from g2netpl.utils.errors import InputError
from g2netpl.utils.files import remove_temporary
from g2netpl.utils.progress import Work
from g2netpl.utils.signals import AGAIN, NOTHING_KEPT, Interrupts


def add_engine_flag(parser: argparse._ActionsContainer) -> None:
    """Where the work is done."""
    help = "where chunks are made; needs a folder as --output (here, ray; default: here)"
    parser.add_argument("--engine", choices=("here", "ray"), default="here", help=help)


def is_folder(output: str) -> bool:
    """Whether results go into a folder: it is one, ends in /, or has no ending."""
    return os.path.isdir(output) or output.endswith(("/", os.sep)) or not Path(output).suffix


def check_output(flags: argparse.Namespace) -> None:
    """See that the results may be written."""
    several = launched.size() > 1
    if not is_folder(flags.output):
        check_target(flags.output, ENDINGS, flags.overwrite)
        if several or flags.engine == "ray":
            raise InputError(
                f"{'several processes' if several else '--engine'}: needs a folder as --output, "
                f"such as {Path(flags.output).with_suffix('')}/"
            )
    elif flags.overwrite and several:
        raise InputError(
            "--overwrite: would remove what other processes have made; remove the folder yourself"
        )
    elif os.path.lexists(flags.output) and not os.path.isdir(flags.output):
        raise InputError(f"{flags.output}: not a folder")


def interrupts(flags: argparse.Namespace) -> Interrupts:
    """What a signal ends; a folder is resumed."""
    return Interrupts(AGAIN if is_folder(flags.output) else NOTHING_KEPT)


def share(flags: argparse.Namespace) -> tuple[int, str]:
    """Loader processes and device of each process; a worker of Ray has one core, and reads."""
    config = checked(flags)
    is_alone = flags.engine == "ray" and "workers" not in given_keys(flags)
    return 0 if is_alone else config.workers, config.device


def own_blocks(blocks: Blocks) -> range:
    """The numbers of the blocks that this process makes; under a launcher every n-th."""
    return range(launched.rank(), len(blocks), launched.size())


def make_all(
    flags: argparse.Namespace,
    console: Console,
    what: str,
    blocks: Blocks,
    build: Callable[[], Maker],
    maker: Maker,
) -> Tally:
    """Make the results of all blocks, or of those of this process; print what is unreadable.

    `build` makes another maker, for a worker of Ray.
    """
    tally = Tally()
    if is_folder(flags.output):
        _into_folder(flags, console, what, blocks, build, maker, tally)
    else:
        with Work(console, what, len(blocks.images)) as work:
            columns = _columns(maker, blocks, work, tally, flags.images)
            write_columns(Path(flags.output), maker.kinds, columns)
    for path in tally.unread:
        console.print(f"not readable, left empty: {shown(path)}")
    more = tally.counts["unread"] - len(tally.unread)
    if more:
        console.print(f"… and {more:,} more")
    return tally


def _columns(
    maker: Maker, blocks: Blocks, work: Work, tally: Tally, place: str
) -> Iterator[Mapping[str, object]]:
    for made in maker.make(iter(blocks), work.advance):
        yield tally.add(made).columns
    if not tally.read:
        raise InputError(f"{place}: none of the {len(blocks.images):,} images can be read")


def _into_folder(
    flags: argparse.Namespace,
    console: Console,
    what: str,
    blocks: Blocks,
    build: Callable[[], Maker],
    maker: Maker,
    tally: Tally,
) -> None:
    """Make the blocks that are not there yet."""
    folder = Path(flags.output)
    if flags.overwrite:
        remove(folder, flags.command)
    parts = Parts.begin(folder, flags.command, {**maker.depends, "list of images": blocks.digest()})
    mine = own_blocks(blocks)
    left = [number for number in mine if not parts.has(number)]
    if len(left) < len(mine):
        done = f"{len(mine) - len(left):,} of {len(mine):,} chunks"
        console.print(f"resuming: {done} are there already")
    before = blocks.count(mine) - blocks.count(left)
    with Work(console, what, blocks.count(mine), before=before) as work:
        if left and flags.engine == "ray":
            for made in make_on_ray(parts, build, blocks, left):
                work.advance(tally.add(made).counts["images"])
        elif left:
            for made in maker.make((blocks[number] for number in left), work.advance):
                parts.write(made, maker.kinds)
                tally.add(made)
    if all(map(parts.has, range(len(blocks)))):
        remove_temporary(folder, ".parquet")
