"""What a frozen network makes of each image, kept for the next time: a file for each list of them.

Features are kept as float32, activations as float16: all rows, then of every image its size and
time. A row whose image has others by now is computed anew, and so is one that could not be
computed. Who was stopped goes on where it stood (`table_in_making`). Tables that were not used for
longest make room for new ones.
"""

import hashlib
import math
import os
import re
import time
from collections.abc import Callable
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from torch import nn

from g2netpl.base import launch as launched
from g2netpl.base.arrays import in_short
from g2netpl.base.disk import DiskTrouble
from g2netpl.base.inside import open_file
from g2netpl.base.memory import show_size
from g2netpl.base.processes import ALONE, Processes
from g2netpl.images.kept_rows import default_cache, lacking, of_any, stamps_of
from g2netpl.images.loader import Rows
from g2netpl.images.table_in_making import Computed, Kind, Table, TableInMaking, file_bytes, is_nan

MOST = 20_000_000_000  # bytes of other tables that stay when a new one was made
_DAY = 24 * 3600.0  # seconds
_BLOCK = 1 << 23  # numbers that are computed before they are written
_TABLE = re.compile(r"[0-9a-f]{32}\.f(16|32)(\.([0-9a-f]{32}\.)?part)?")  # as `kept` names them
_ENDINGS: dict[Kind, str] = {np.float16: "f16", np.float32: "f32"}


def kept(
    folder: Path | None,
    key: str,
    paths: list[str],
    shape: tuple[int, ...],
    compute: Callable[[Rows], Computed],
    kind: Kind = np.float16,
    processes: Processes = ALONE,
    say: Callable[[str], None] = lambda line: None,
) -> npt.NDArray[Any]:
    """A row of this shape for each image at `paths`: stored under `key`, or computed and stored.

    `compute` is asked for some rows at a time; of what cannot be read it gives NaN. The ranks
    compute together, and of those of a machine the first writes, and each whose images lie
    elsewhere. What is given stays in the file.
    """
    path = (folder or default_cache()) / f"{key}.{_ENDINGS[kind]}"
    stored = _open(path, len(paths), shape, kind, say)
    stamps = stamps_of(paths)
    mine = np.arange(len(paths)) if stored is None else lacking(stored.stamps, stamps)
    rows = of_any(processes, mine)
    are_few = 0 < len(rows) * math.prod(shape) <= _BLOCK
    if are_few and not processes.all_max(int(stored is None)) and stored is not None:
        found = compute(rows)
        unknown = is_nan(found) & is_nan(stored.rows[rows])  # as before
        if not processes.all_max(int(not unknown.all())):
            return stored.rows
        compute = _again(rows, found)
    if len(rows):
        above = processes.gather_text(str(path))[: processes.rank][-launched.local_rank() :]
        writes = launched.is_first_of_machine() or str(path) not in above
        making = TableInMaking(path, paths, stamps, shape, kind) if writes else None
        with nullcontext() if making is None else making:
            left = rows[:0] if making is None else making.go_on(rows, stored, say)
            stored = None  # Windows replaces no file that is mapped
            for block in _blocks(of_any(processes, left), shape):
                found = compute(block)
                if making is not None:
                    making.write(block, found)
        processes.barrier()
        stored = _open(path, len(paths), shape, kind, say)
        if writes:
            make_room(path, say)
    if stored is None:
        raise DiskTrouble(f"{path}: what was written there cannot be read; run the command again")
    with suppress(OSError):
        os.utime(path)  # used just now
    return stored.rows


def _again(rows: Rows, found: Computed) -> Callable[[Rows], Computed]:
    """What was computed of some rows, without computing it again."""
    return lambda some: found[np.searchsorted(rows, some)]


def _blocks(rows: Rows, shape: tuple[int, ...]) -> list[Rows]:
    """The rows, some at a time."""
    count = -(-len(rows) * math.prod(shape) // _BLOCK)
    return np.array_split(rows, count) if count else []


def make_room(path: Path, say: Callable[[str], None]) -> None:
    """Remove what was not used for longest beside a new table, as far as there is too much of it.

    What was used in the last day stays, since somebody may be at work with it; and so do files
    that are not ours.
    """
    there = (each for each in path.parent.iterdir() if _TABLE.fullmatch(each.name))
    found = {each: each.lstat() for each in there if each != path and not each.is_dir()}
    taken, now = sum(status.st_size for status in found.values()), time.time()
    for each, status in sorted(found.items(), key=lambda item: item[1].st_mtime):
        if taken <= MOST or now - status.st_mtime < _DAY:
            break
        with suppress(PermissionError):  # in use, on Windows
            each.unlink(missing_ok=True)
        if each.exists():
            continue
        taken -= status.st_size
        days = (now - status.st_mtime) / _DAY
        say(
            f"{each}: removed, {show_size(status.st_size)} that were not used for {days:.0f} days; "
            f"others beside a new table may take {show_size(MOST)}"
        )


def _open(
    path: Path, count: int, shape: tuple[int, ...], kind: Kind, say: Callable[[str], None]
) -> Table | None:
    """What is stored, its rows not read yet; None for a file of another size or not there."""
    try:
        with open_file(path) as file:
            size, expected = os.fstat(file.fileno()).st_size, file_bytes(count, shape, kind)
            if size != expected:
                raise ValueError(f"expected {expected:,} bytes, got {size:,}")
            return Table.of(np.memmap(file, np.uint8, "r"), (count, *shape), kind)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except Exception as problem:  # whatever is wrong with it, it can be made anew
        say(f"{path}: {in_short(problem)}; what it held is computed anew")
        return None


def cache_key(backbone: nn.Module, paths: list[str], view: str) -> str:
    """Changes with the weights, the names of the files and the view of the images."""
    digest = hashlib.sha256(f"3\0{view}".encode())
    for name, tensor in backbone.state_dict().items():
        digest.update(name.encode())
        digest.update(tensor.cpu().numpy().tobytes())
    for path in paths:
        digest.update(os.fsencode(path) + b"\0")
    return digest.hexdigest()[:32]
