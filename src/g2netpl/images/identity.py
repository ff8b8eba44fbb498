"""Which image files are the same, by their place or by their content."""

import os
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor

from g2netpl.utils.image_refs import file_digest, file_stamp


def same_files(paths: Sequence[str], others: Sequence[str]) -> list[tuple[int, int]]:
    """Which of the others are among `paths`, as the same file or with the same content.

    Returns the row of a path and of another, for every other once. Only files of equal size are
    read.
    """
    sizes, other_sizes = ([file_stamp(path)[0] for path in each] for each in (paths, others))
    places = {os.path.realpath(path): row for row, path in reversed([*enumerate(paths)])}
    same = {row: places.get(os.path.realpath(path)) for row, path in enumerate(others)}
    unknown = [row for row, found in same.items() if found is None and other_sizes[row] > 0]
    common = {other_sizes[row] for row in unknown} & set(sizes)
    rows = [row for row, size in enumerate(sizes) if size in common]
    unknown = [row for row in unknown if other_sizes[row] in common]
    digests = [*zip(rows, _digests(paths[row] for row in rows), strict=True)]
    by_content = {digest: row for row, digest in reversed(digests) if digest is not None}
    for row, digest in zip(unknown, _digests(others[row] for row in unknown), strict=True):
        same[row] = None if digest is None else by_content.get(digest)
    return [(found, row) for row, found in same.items() if found is not None]


def _digests(paths: Iterable[str]) -> list[bytes | None]:
    """SHA-256 of every file, with enough threads to keep a disk busy."""
    with ThreadPoolExecutor(min(8, 2 * (os.cpu_count() or 1))) as pool:
        return list(pool.map(file_digest, paths))
