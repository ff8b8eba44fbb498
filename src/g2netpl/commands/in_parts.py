"""Results for any number of images: one table, or a folder of parts that several processes make."""

import argparse
import os
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from g2netpl.base.errors import InputError

if TYPE_CHECKING:
    from g2netpl.base.console import Console
    from g2netpl.base.progress import Work
    from g2netpl.runs.parts import Blocks, Maker, Parts, Tally


def add_part_flags(parser: argparse.ArgumentParser) -> None:
    """How the work is shared out."""
    parser.add_argument(
        "--part",
        metavar="I/N",
        help="with a folder as --output: make every N-th block of images, from the I-th on "
        "(default: all, and under torchrun those of the rank)",
    )
    parser.add_argument(
        "--engine",
        choices=("here", "ray"),
        default="here",
        help="with a folder as --output: in this process, or on a cluster of Ray (default: here)",
    )


def is_folder(output: str) -> bool:
    """Whether results go into a folder: it is one, ends in /, or has no ending."""
    return os.path.isdir(output) or output.endswith(("/", os.sep)) or not Path(output).suffix


def check_output(flags: argparse.Namespace) -> None:
    """See that the results may be written."""
    from g2netpl.base import launch as launched
    from g2netpl.commands.labelling import ENDINGS, check_target
    from g2netpl.runs.parts import Part

    alone = flags.engine == "here" and Part.parse(flags.part).of == 1
    if not is_folder(flags.output):
        check_target(flags.output, ENDINGS, flags.overwrite)
        if not alone:
            what = "--engine" if flags.engine != "here" else "--part"
            raise InputError(
                f"{what if launched.size() == 1 else 'several processes'}: needs a folder as "
                f"--output, such as {Path(flags.output).with_suffix('')}/"
            )
    elif flags.overwrite and Part.parse(flags.part).of > 1:
        raise InputError(
            "--overwrite: would remove what the other parts have made; remove the folder yourself"
        )
    elif os.path.lexists(flags.output) and not os.path.isdir(flags.output):
        raise InputError(f"{flags.output}: not a folder")


def share(flags: argparse.Namespace) -> tuple[int, str]:
    """Loader processes and device of each that works; a worker of Ray has one core, and reads."""
    from g2netpl.commands.training_flags import checked

    config = checked(flags)
    alone = flags.engine == "ray" and flags.workers is None
    return 0 if alone else config.workers, config.device


def _tell_unread(tally: "Tally", console: "Console") -> None:
    """The first images that could not be read, and how many more there are."""
    from g2netpl.base.terminal import shown

    for path in tally.unread:
        console.print(f"not readable, left empty: {shown(path)}")
    more = tally.counts["unread"] - len(tally.unread)
    if more:
        console.print(f"… and {more:,} more")


def make_all(
    flags: argparse.Namespace,
    console: "Console",
    what: str,
    blocks: "Blocks",
    build: "Callable[[], Maker]",
    maker: "Maker",
) -> "Tally":
    """Make the results of all blocks, or of those that are ours; `build` makes another maker.

    Gives what came of them, and tells what could not be read.
    """
    from g2netpl.base.progress import Work
    from g2netpl.runs.completion import write_columns
    from g2netpl.runs.parts import Tally

    tally = Tally()
    if is_folder(flags.output):
        tally = _into_folder(flags, console, what, blocks, build, maker)
    else:
        with Work(console, what, len(blocks.images)) as work:
            parts = _columns(maker, blocks, work, tally, flags.images)
            write_columns(Path(flags.output), maker.kinds, parts)
    _tell_unread(tally, console)
    return tally


def _columns(
    maker: "Maker", blocks: "Blocks", work: "Work", tally: "Tally", place: str
) -> Iterator[Mapping[str, object]]:
    for made in maker.make(iter(blocks), work.advance):
        yield tally.add(made).columns
    if not tally.read:
        raise InputError(f"{place}: none of the {len(blocks.images):,} images can be read")


def _into_folder(
    flags: argparse.Namespace,
    console: "Console",
    what: str,
    blocks: "Blocks",
    build: "Callable[[], Maker]",
    maker: "Maker",
) -> "Tally":
    """Make the blocks that are ours and not there yet; tells of all that are there in the end."""
    from g2netpl.base.progress import Work
    from g2netpl.runs.on_ray import make_on_ray
    from g2netpl.runs.parts import Part, Parts, Tally, remove

    folder, part, tally = Path(flags.output), Part.parse(flags.part), Tally()
    if flags.overwrite:
        remove(folder, flags.command)
    parts = Parts.begin(folder, flags.command, {**maker.depends, "list of images": blocks.digest()})
    mine = part.among(len(blocks))
    left = [number for number in mine if parts.finished(number) is None]
    if len(left) < len(mine):
        done = f"{len(mine) - len(left):,} of {len(mine):,} blocks"
        console.print(f"{done} are there already; going on")
    before = blocks.count(mine) - blocks.count(left)
    with Work(console, what, blocks.count(mine), before=before) as work:
        if left and flags.engine == "ray":
            for made in make_on_ray(parts, build, blocks, left):
                work.advance(tally.add(made).counts["images"])
        elif left:
            for made in maker.make((blocks[number] for number in left), work.advance):
                parts.write(made, maker.kinds)
                tally.add(made)
    return _summed(parts, blocks, tally.unread, console)


def _summed(parts: "Parts", blocks: "Blocks", unread: list[str], console: "Console") -> "Tally":
    """All blocks that are there, whoever made them."""
    from g2netpl.runs.parts import Tally

    there = [counts for number in range(len(blocks)) if (counts := parts.finished(number))]
    if len(there) == len(blocks):
        parts.clear_up()
    else:
        told = f"{len(there):,} of {len(blocks):,} blocks are there"
        console.print(f"{told}, the others are for other parts")
    return Tally(sum(there, Counter()), unread)
