"""What picture files hold, in short, so that a training goes on with the ones it began with.

The content decides. All of it is read when a training begins, in about a hundredth of the time that
an epoch takes to decode it; afterwards it is believed for as long as no file has another size,
another time of its content or of its entry. The time of the entry cannot be set, so nobody replaces
a picture unseen; where any of these differ, as in a folder that was copied, the content is read
again.
"""

import hashlib
import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from g2netpl.base.disk import file_digest, file_stamp

_CONTENT = "content "  # what a sum is of
_TOGETHER = 256  # files that a thread reads before it looks up
_same: dict[str, list[tuple[int, int]]] = {}  # what `same_files` found, by stamps
_read: dict[str, str] = {}  # content by stamps: a comparison has many trainings on the same files


def stamps_of(paths: Sequence[str]) -> str:
    """A sum that changes when a file is written to, replaced or copied elsewhere."""
    digest = hashlib.sha256()
    for path in paths:
        digest.update(os.fsencode(path) + f"\0{file_stamp(path)}\n".encode())
    return digest.hexdigest()


def content_of(
    paths: Sequence[str], before: str | None = None, stamps_before: str | None = None
) -> tuple[str, str]:
    """A sum over the content of all files in their order, and their stamps now.

    What was found `before` is believed where the stamps are the same.
    """
    stamps = stamps_of(paths)
    if before is not None and stamps == stamps_before:
        return before, stamps
    if stamps not in _read:
        _read[stamps] = _CONTENT + hashlib.sha256(digests_of(paths)).hexdigest()
    return _read[stamps], stamps


def same_files(paths: Sequence[str], others: Sequence[str]) -> list[tuple[int, int]]:
    """Which of the others are among `paths`, as the same file or with the same content.

    Gives the place of a path and of another, for every other once. Only files of equal size are
    read.
    """
    key = f"{stamps_of(paths)} {stamps_of(others)}"
    if key not in _same:
        _same[key] = _find_same(paths, others)
    return _same[key]


def _find_same(paths: Sequence[str], others: Sequence[str]) -> list[tuple[int, int]]:
    place = {os.path.realpath(path): row for row, path in reversed(list(enumerate(paths)))}
    found = {row: place.get(os.path.realpath(path)) for row, path in enumerate(others)}
    sizes, of_others = ([file_stamp(path)[0] for path in part] for part in (paths, others))
    common = {size for row, size in enumerate(of_others) if found[row] is None} & set(sizes) - {0}
    mine = [row for row, size in enumerate(sizes) if size in common and size > 0]
    digests = _by_digest([paths[row] for row in mine])
    content = {digest: mine[row] for row, digest in reversed(digests)}
    asked = [row for row, size in enumerate(of_others) if found[row] is None and size in common]
    for row, digest in _by_digest([others[row] for row in asked]):
        found[asked[row]] = content.get(digest)
    return [(there, row) for row, there in found.items() if there is not None]


def _by_digest(paths: Sequence[str]) -> list[tuple[int, bytes]]:
    """The place and the content of every file that can be read."""
    digests = digests_of(paths)
    parts = [(row, digests[32 * row : 32 * row + 32]) for row in range(len(paths))]
    return [(row, digest) for row, digest in parts if any(digest)]


def digests_of(paths: Sequence[str]) -> bytes:
    """SHA-256 of every file, 32 bytes each; zeros where there is nothing to read.

    Enough threads to keep a disk busy; what interrupts us need not wait for the rest.
    """
    parts = [paths[start : start + _TOGETHER] for start in range(0, len(paths), _TOGETHER)]
    if len(parts) < 2:
        return _digests(paths)
    pool = ThreadPoolExecutor(min(8, 2 * (os.cpu_count() or 1)))
    try:
        return b"".join(pool.map(_digests, parts))
    finally:
        pool.shutdown(cancel_futures=True)


def _digests(paths: Sequence[str]) -> bytes:
    return b"".join(file_digest(path) or bytes(32) for path in paths)
