"""Results for any number of images: one table, or a folder of chunks."""

import argparse
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from g2netpl.commands.flags import checked, given_keys
from g2netpl.commands.writing import ENDINGS, check_target
from g2netpl.labels.io.writing import write_columns
from g2netpl.runs.chunks import Chunk, ChunkMaker, ChunkWriter, Totals, digest, make_on_ray
from g2netpl.utils import launch as launched
from g2netpl.utils.console import Console, shown
from g2netpl.utils.errors import InputError
from g2netpl.utils.files import remove_temporary
from g2netpl.utils.progress import Work
from g2netpl.utils.signals import AGAIN, NOTHING_KEPT, Interrupts


def add_engine_flag(parser: argparse._ActionsContainer) -> None:
    """Where the work is done."""
    text = "here, or as tasks of Ray, which needs a folder as --output (default: here)"
    parser.add_argument("--engine", choices=("here", "ray"), default="here", help=text)


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
        raise InputError("--overwrite: other processes may work there; rename the folder yourself")


def interrupts(flags: argparse.Namespace) -> Interrupts:
    """What a signal ends; a folder is resumed."""
    return Interrupts(AGAIN if is_folder(flags.output) else NOTHING_KEPT)


def share(flags: argparse.Namespace) -> dict[str, Any]:
    """Loader processes and device of each process; a worker of Ray has one core, and reads."""
    config = checked(flags)
    is_alone = flags.engine == "ray" and "workers" not in given_keys(flags)
    return {"workers": 0 if is_alone else config.workers, "device": config.device}


def make_all(
    flags: argparse.Namespace,
    console: Console,
    what: str,
    chunks: Sequence[Chunk],
    maker: ChunkMaker,
) -> Totals:
    """Make the results of all chunks, or of those of this process; print what is unreadable."""
    totals, folder, writer = Totals(), Path(flags.output), None
    mine = left = chunks
    if is_folder(flags.output):
        depends = {**maker.depends, "list of images": digest(chunks)}
        writer = ChunkWriter.begin(folder, flags.command, depends, flags.overwrite)
        mine = chunks[launched.rank() :: launched.size()]  # under a launcher
        left = [chunk for chunk in mine if not writer.has(chunk.number)]
        if len(left) < len(mine):
            done = f"{len(mine) - len(left):,} of {len(mine):,} chunks"
            console.print(f"resuming: {done} are there already")
    total = _count(mine)
    with Work(console, what, total, before=total - _count(left)) as work:
        if writer is None:
            columns = _columns(maker, chunks, work, totals, flags.images)
            write_columns(folder, maker.kinds, columns)
        elif left and flags.engine == "ray":
            for result in make_on_ray(writer, maker, left):
                totals.add(result)
                work.advance(result.counts["images"])
        else:
            for chunk in left:
                result = maker.make(chunk, work.advance)
                writer.write(result, maker.kinds)
                totals.add(result)
    if writer is not None and all(writer.has(chunk.number) for chunk in chunks):
        remove_temporary(folder, ".parquet")
    for path in totals.unreadable:
        console.print(f"not readable, left empty: {shown(path)}")
    more = totals.counts["unread"] - len(totals.unreadable)
    if more:
        console.print(f"… and {more:,} more")
    return totals


def _count(chunks: Iterable[Chunk]) -> int:
    return sum(len(chunk.images) for chunk in chunks)


def _columns(
    maker: ChunkMaker, chunks: Sequence[Chunk], work: Work, totals: Totals, place: str
) -> Iterator[Mapping[str, object]]:
    for chunk in chunks:
        result = maker.make(chunk, work.advance)
        totals.add(result)
        yield result.columns
    if not totals.readable:
        raise InputError(f"{place}: none of the {_count(chunks):,} images can be read")
