"""Files that can be made again: in the user's cache folder, with a size limit."""

import os
import re
import time
from collections import defaultdict
from contextlib import suppress
from pathlib import Path

import platformdirs
from pydantic import ByteSize, TypeAdapter, ValidationError

from g2netpl.utils.errors import InputError


def user_cache(kind: str) -> Path:
    """A folder in the user's cache folder, which may be deleted at any time."""
    folder = platformdirs.user_cache_path("g2netpl", appauthor=False)
    if not folder.is_absolute():
        raise InputError(f"no home folder to keep {kind} in; set XDG_CACHE_HOME to a folder")
    return folder / kind


def size_limit(variable: str, usual: str) -> int:
    """The bytes that an environment variable allows."""
    text = os.environ.get(variable) or usual
    try:
        return TypeAdapter(ByteSize).validate_python(text)
    except ValidationError:
        raise InputError(f"{variable}={text}: must be a size such as 500MB or 2GB") from None


def limit_cache(
    folder: Path, names: re.Pattern[str], limit: int, keep: str, spare: float = 0.0
) -> list[str]:
    """Remove what was not used for longest, if files with such names take more than `limit` bytes.

    Files with the same first group of the pattern belong together. Those named `keep` stay, and
    those used in the last `spare` seconds. Returns the names that were removed.
    """
    together = defaultdict(list)
    for path in folder.iterdir():
        match = names.fullmatch(path.name)
        with suppress(FileNotFoundError):  # another process has just removed it
            if match and path.is_file() and not path.is_symlink():
                together[match[1]].append((path, path.stat()))
    used = {name: max(status.st_mtime for _, status in files) for name, files in together.items()}
    total = sum(status.st_size for files in together.values() for _, status in files)
    removed, now = [], time.time()
    for name in sorted(used.keys() - {keep}, key=lambda name: used[name]):
        if total <= limit or now - used[name] < spare:
            break
        for path, status in together[name]:
            with suppress(OSError):  # in use, on Windows
                path.unlink()
            total -= status.st_size
        removed.append(name)
    return removed
