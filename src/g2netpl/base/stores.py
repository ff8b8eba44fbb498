"""Objects in stores such as s3://, gs:// and hf://, through fsspec (the extra `remote`).

What was read is kept in the user's cache folder, a block at a time and up to a bound, which is that
of the environment variable G2NETPL_REMOTE_CACHE, as in 50GB. A store that does not answer is asked
again after growing waits; then the work ends, since nothing is known about the object. Credentials
come from the environment alone: an address with some in it is refused, and not repeated.
"""

import hashlib
import io
import os
import re
import time
import zlib
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import Any, Self, TypeVar

from g2netpl.base.disk import user_cache
from g2netpl.base.errors import InputError
from g2netpl.base.files import atomic_write
from g2netpl.base.inside import Unfit
from g2netpl.base.memory import parse_size
from g2netpl.base.places import LARGEST, Opened, Place, Stamp, Unreachable

SCHEMES = ("s3", "gs", "gcs", "hf", "az", "abfs", "memory")
BLOCK = 1 << 20  # bytes of an object that are kept as one file
WAITS = (0.5, 1.0, 2.0, 4.0, 8.0)  # seconds before the store is asked again
PATIENCE = 30.0  # seconds for an answer
_AWHILE = 60.0  # seconds until one that was given up is asked again
_PATIENCE_LISTING = 1200.0  # for a list, which has a thousand objects to an answer
_SIZE, _USUAL_SIZE = "G2NETPL_REMOTE_CACHE", "10GB"
_MARKS = ("ETag", "etag", "md5Hash", "blob_id", "LastModified", "updated", "created")
_SECRET = re.compile(r"KEY|SECRET|TOKEN|PASSWORD|CREDENTIAL", re.IGNORECASE)
_CREDENTIALS = re.compile(r"://[^/]*[@:]|://.*\?.*=")  # before the host, or as of a signed address
_SUM = 4  # bytes

Result = TypeVar("Result")


class Remote(Place):
    """An object of a store, as it was listed."""

    __slots__ = ("seen", "sum")
    seen: Stamp
    sum: str  # its MD5, where the store says so

    def __new__(cls, address: str, seen: Stamp, sum: str = "") -> Self:
        """Shown as its address."""
        made = super().__new__(cls, address)
        made.seen, made.sum = seen, sum
        return made

    @classmethod
    def listed(cls, about: dict[str, Any], scheme: str) -> Self:
        """From what a store says about it."""
        mark = next((str(about[name]) for name in _MARKS if about.get(name)), "")
        number = int.from_bytes(hashlib.sha256(mark.encode()).digest()[:8]) >> 1
        tag = str(about.get("ETag", "")).strip('"')
        name = str(about["name"]).removeprefix(f"{scheme}://").lstrip("/")
        is_sum = re.fullmatch("[0-9a-f]{32}", tag) is not None
        return cls(f"{scheme}://{name}", (int(about["size"]), number, 0), tag if is_sum else "")

    @property
    def whole(self) -> str:
        """The address."""
        return str(self)

    def stamp(self) -> Stamp:
        """As it was listed: nobody is asked again."""
        return self.seen

    def open(self) -> Opened:
        """All of it."""
        if self.seen[0] > LARGEST:
            raise Unfit(f"{self.seen[0]:,} bytes are too many for an image")
        return io.BytesIO(self.read(0, self.seen[0]))

    def read(self, start: int, end: int) -> bytes:
        """Some bytes, from what was kept or from the store."""
        end = min(end, self.seen[0])
        first, last = start // BLOCK, -(-end // BLOCK)
        blocks = [_cache.get(self._key(number)) for number in range(first, last)]
        for begin, stop in _gaps(blocks):
            blocks[begin:stop] = self._fetched(first + begin, first + stop)
        return b"".join(each or b"" for each in blocks)[start - first * BLOCK :][: end - start]

    def _fetched(self, first: int, last: int) -> list[bytes | None]:
        """Blocks that the store was asked for, in one request."""
        start, end = first * BLOCK, min(last * BLOCK, self.seen[0])
        content = _asked(self, partial(self._range, start, end))
        parts = [content[place : place + BLOCK] for place in range(0, len(content), BLOCK)]
        for number, part in enumerate(parts, start=first):
            _cache.put(self._key(number), part)
        return [*parts]

    def _range(self, start: int, end: int) -> bytes:
        """What the store sends: as much as was asked for, and of the object that was listed."""
        content = self._sent(start, end)
        if (start, end) != (0, self.seen[0]) or not self.sum or self._is_right(content):
            return content
        if Remote.listed(_call(self, "info"), _scheme(self)).seen != self.seen:
            raise Unreachable(f"{self}: changed since it was listed; start the command again")
        if self._sent(start, end) != content:
            raise OSError("another content every time")
        return content  # the store has sums of its own, as for objects it encrypts

    def _sent(self, start: int, end: int) -> bytes:
        try:
            content: bytes = _call(self, "cat_file", start=start, end=end) if end > start else b""
        except FileNotFoundError:  # it was listed: a store that starts may know it a little later
            raise OSError("not there any more") from None
        if len(content) != end - start:
            raise OSError(f"{len(content):,} bytes came of {end - start:,}")
        return content

    def _is_right(self, content: bytes) -> bool:
        return hashlib.md5(content, usedforsecurity=False).hexdigest() == self.sum

    def _key(self, block: int) -> str:
        return hashlib.sha256(f"{self}\0{self.seen}\0{BLOCK}\0{block}".encode()).hexdigest()

    def __getnewargs__(self) -> tuple[str, Stamp, str]:  # type: ignore[override]
        return str(self), self.seen, self.sum


class _Cache:
    """Blocks in files, each with a sum at its end; the ones that nobody read for long go first."""

    def __init__(self) -> None:
        self._written = 0

    def get(self, key: str) -> bytes | None:
        """A block that was kept; None where there is none, or a damaged one."""
        path = self._path(key)
        try:
            content = path.read_bytes()
            os.utime(path)
        except OSError:
            return None
        content, sum = content[:-_SUM], content[-_SUM:]
        return content if zlib.crc32(content).to_bytes(_SUM) == sum else None

    def put(self, key: str, content: bytes) -> None:
        """Keep a block, where there is room."""
        path, bound = self._path(key), _bound()
        with suppress(OSError):
            path.parent.mkdir(parents=True, exist_ok=True)
            with atomic_write(path) as file:
                file.write(content + zlib.crc32(content).to_bytes(_SUM))
        self._written += len(content)
        if self._written > bound // 50:  # each of some processes may write as much unseen
            self._written = 0
            self._make_room(path.parent.parent, bound * 4 // 5)

    def _make_room(self, folder: Path, most: int) -> None:
        files = []
        for each in folder.glob("*/*"):
            with suppress(OSError):
                status = each.stat()
                files.append((status.st_mtime_ns, status.st_size, each))
        total = sum(size for _, size, _ in files)
        for _, size, path in sorted(files):
            if total <= most:
                return
            path.unlink(missing_ok=True)
            total -= size

    def _path(self, key: str) -> Path:
        folder = user_cache("remote", "set XDG_CACHE_HOME")
        return folder / key[:2] / key


_cache = _Cache()


def check_secrets(address: str) -> None:
    """Refuse an address with credentials, which is not repeated."""
    if _CREDENTIALS.search(address):
        raise InputError(
            "an address with credentials in it is refused, since it would be written into the "
            "run folder; they are taken from the environment, as AWS_ACCESS_KEY_ID and "
            "AWS_SECRET_ACCESS_KEY"
        )


def check_address(address: str) -> None:
    """Refuse what is no address of a store."""
    check_secrets(address)
    scheme, _, rest = address.partition("://")
    if scheme not in SCHEMES or not rest.strip("/"):
        known = ", ".join(f"{word}://" for word in SCHEMES if word != "memory")
        raise InputError(f"{address}: expected an address that begins with {known}")


def object_at(address: str) -> Remote:
    """One object, as the store lists it."""
    check_address(address)
    try:
        about = _asked(address, partial(_call, address, "info"))
    except FileNotFoundError:
        about = {}
    if about.get("type") != "file":
        raise InputError(f"{address}: {'a folder, not a file' if about else 'nothing there'}")
    return Remote.listed(about, _scheme(address))


def objects_at(address: str) -> list[Remote]:
    """All objects below an address, or that a pattern names."""
    how = "glob" if set(address) & set("*?[") else "find"
    try:
        about = [*_asked(address, partial(_call, address, how, detail=True)).values()]
    except FileNotFoundError:
        about = []
    found = [each for each in about if each.get("type") == "file"]
    if not found:
        raise InputError(f"{address}: nothing there")
    return [Remote.listed(each, _scheme(address)) for each in found]


def _asked(where: str, ask: Callable[[], Result]) -> Result:
    """What the store answers, which is asked again after growing waits.

    One that was given up is not asked about other images for a while: a batch of them ends at once.
    """
    store = "/".join(where.split("/", 3)[:3])
    if time.monotonic() < _given_up.get(store, 0.0):
        raise Unreachable(f"{where}: {store} could not be reached a moment ago")
    for wait in (*WAITS, None):
        try:
            return ask()
        except (InputError, Unreachable, FileNotFoundError):
            raise
        except Exception as problem:  # of any store, any library, any network
            last = _told(problem)
            if wait is None or isinstance(problem, PermissionError):
                break
            time.sleep(wait)
    _given_up[store] = time.monotonic() + _AWHILE
    raise Unreachable(f"{where}: cannot be reached ({last})") from None


_given_up: dict[str, float] = {}


def _call(address: str, name: str, **how: Any) -> Any:
    """Ask the store, within a limit of time; each process has connections of its own."""
    try:
        import fsspec
        from fsspec.asyn import AsyncFileSystem, sync
    except ImportError:
        raise InputError(f"{address}: needs fsspec; pip install 'g2netpl[remote]'") from None
    try:
        store = fsspec.filesystem(_scheme(address))
    except (ImportError, ValueError) as problem:
        raise InputError(f"{address}: {_told(problem)}; pip install 'g2netpl[remote]'") from None
    if name in ("info", "find", "glob"):
        store.invalidate_cache()
    if isinstance(store, AsyncFileSystem):
        patience = _PATIENCE_LISTING if "detail" in how else PATIENCE
        return sync(store.loop, getattr(store, f"_{name}"), address, timeout=patience, **how)
    return getattr(store, name)(address, **how)


def _told(problem: BaseException) -> str:
    """What went wrong, in one short line, without anything that the environment keeps secret."""
    text = " ".join(str(problem).split()) or type(problem).__name__
    for name, value in os.environ.items():
        if len(value) >= 8 and _SECRET.search(name):
            text = text.replace(value, "***")
    return text[:200]


def _gaps(blocks: list[bytes | None]) -> Iterator[tuple[int, int]]:
    """Runs of blocks that are not there."""
    for is_missing, run in groupby(range(len(blocks)), lambda place: blocks[place] is None):
        if is_missing:
            places = [*run]
            yield places[0], places[-1] + 1


def _scheme(address: str) -> str:
    return address.partition("://")[0]


def _bound() -> int:
    text = os.environ.get(_SIZE) or _USUAL_SIZE
    try:
        return parse_size(text)
    except ValueError as problem:
        raise InputError(f"{_SIZE}={text}: {problem}") from None
