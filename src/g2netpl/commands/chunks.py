"""Results for any number of images: one table, or a folder of chunks."""

import argparse
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from g2netpl.commands.flags import checked, given_keys
from g2netpl.commands.writing import ENDINGS, check_target
from g2netpl.labels.io.writing import write_columns
from g2netpl.runs.chunks import Chunk, ChunkMaker, ChunkResult, ChunkWriter, digest, make_on_ray
from g2netpl.utils import launch as launched
from g2netpl.utils.console import Console, shown
from g2netpl.utils.errors import InputError
from g2netpl.utils.files import remove_temporary
from g2netpl.utils.progress import Work
from g2netpl.utils.signals import AGAIN, NOTHING_KEPT, Interrupts

_LISTED = 10  # images that cannot be read


def add_engine_flag(parser: argparse._ActionsContainer) -> None:
    """Where the work is done."""
    text = "here, or as tasks of Ray, which needs a folder as --output (default: here)"
    parser.add_argument("--engine", choices=("here", "ray"), help=text)


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
) -> Counter[str]:
    """Make the results of all chunks, or of those of this process; the sums of their numbers."""
    folder, mine, left = Path(flags.output), chunks, chunks
    writer: ChunkWriter | None = None
    counts, unreadable = Counter[str](), list[str]()

    def noted(results: Iterable[ChunkResult]) -> Iterator[ChunkResult]:
        for result in results:
            counts.update(result.counts)
            unreadable.extend(result.unreadable[: _LISTED - len(unreadable)])
            yield result
        if writer is None and not counts["readable"]:
            raise InputError(f"{flags.images}: none of the {_count(left):,} images can be read")

    if is_folder(flags.output):
        depends = {**maker.depends, "list of images": digest(chunks)}
        writer = ChunkWriter.begin(folder, flags.command, depends, flags.overwrite)
        mine = chunks[launched.rank() :: launched.size()]  # under a launcher
        left = [chunk for chunk in mine if not writer.has(chunk.number)]
        if len(left) < len(mine):
            done = f"{len(mine) - len(left):,} of {len(mine):,} chunks"
            console.print(f"resuming: {done} are finished")
    total = _count(mine)
    with Work(console, what, total, before=total - _count(left)) as work:
        made = noted(maker.make(chunk, work.advance) for chunk in left)
        if writer is None:
            write_columns(folder, maker.kinds, (result.columns for result in made))
        elif left and flags.engine == "ray":
            for result in noted(make_on_ray(writer, maker, left)):
                work.advance(result.counts["images"])
        else:
            for result in made:
                writer.write(result, maker.kinds)
    if writer is not None and all(writer.has(chunk.number) for chunk in chunks):
        remove_temporary(folder, ".parquet")
    for path in unreadable:
        console.print(f"not readable, left empty: {shown(path)}")
    more = counts["images"] - counts["readable"] - len(unreadable)
    if more:
        console.print(f"… and {more:,} more")
    return counts


def _count(chunks: Iterable[Chunk]) -> int:
    return sum(len(chunk.images) for chunk in chunks)
