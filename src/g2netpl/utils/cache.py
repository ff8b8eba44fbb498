"""Files that can be made again: in the user's cache folder, with a size limit."""

import os
import re
import stat
import time
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
) -> None:
    """Remove the files with such names that were not used for longest, down to `limit` bytes.

    Those whose names start with `keep` stay, and those used in the last `spare` seconds.
    """
    files = []
    for path in folder.iterdir():
        with suppress(FileNotFoundError):  # another process has just removed it
            status = path.lstat()
            if names.fullmatch(path.name) and stat.S_ISREG(status.st_mode):
                files.append((status.st_mtime, status.st_size, path))
    total, last = sum(size for _, size, _ in files), time.time() - spare
    for used, size, path in sorted(files):
        if total <= limit or used > last:
            break
        if not path.name.startswith(keep):
            with suppress(OSError):  # in use, on Windows
                path.unlink()
            total -= size
