"""Files in object stores such as s3://, gs:// and hf://, through fsspec (the extra `remote`).

A file is copied into the user's cache folder when it is first read. The copy is keyed by address,
size and version. The files that were not used for longest are removed when the folder grows beyond
the environment variable G2NETPL_REMOTE_CACHE (default 10GB). fsspec's own simplecache is not used:
it leaves half a file after a kill, does not notice a changed object, and never removes anything.

Credentials come from the environment only: an address with credentials is rejected.
"""

import hashlib
import os
import re
import secrets
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from g2netpl.utils.cache import limit_cache, size_limit, user_cache
from g2netpl.utils.errors import InputError
from g2netpl.utils.image_refs import ImageRef, Opened, Stamp, Unreachable
from g2netpl.utils.locks import held

SCHEMES = ("s3", "gs", "gcs", "hf", "az", "abfs", "memory")
_VERSIONS = ("ETag", "etag", "md5Hash", "blob_id", "LastModified", "updated", "created")
_CREDENTIALS = re.compile(r"://[^/]*[@:]|://.*\?.*=")  # before the host, or in a signed address
_COPY = re.compile(r"[0-9a-f]{64}(\.[0-9a-f]{16})?")  # the latter while it is downloaded
_written = 0  # bytes by this process since the size of the cache was checked

Result = TypeVar("Result")


class Remote(ImageRef):
    """A file of a store, as it was listed."""

    listed: Stamp

    def stamp(self) -> Stamp:
        """As it was listed."""
        return self.listed

    def open(self) -> Opened:
        """Open the local copy, which is downloaded if it is not there."""
        key = hashlib.sha256(f"{self}\0{self.listed}".encode()).hexdigest()
        path = user_cache("remote") / key
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            with held(path.with_suffix(".lock"), lambda: None):  # others may want the same shard
                if not path.exists():
                    self._download(path)
        os.utime(path)  # used now
        return open(path, "rb")

    def _download(self, path: Path) -> None:
        global _written
        limit, expected = size_limit("G2NETPL_REMOTE_CACHE", "10GB"), self.listed[0]
        part = path.with_suffix(f".{secrets.token_hex(8)}")  # there may be no locks
        try:
            _ask(self, lambda store: store.get_file(str(self), str(part)))
            size = part.stat().st_size
            if size != expected:
                arrived = f"received {size:,} of {expected:,} bytes"
                raise Unreachable(f"{self}: {arrived}; run the command again")
            os.replace(part, path)
        except FileNotFoundError:
            raise Unreachable(f"{self}: was listed, but is not there any more") from None
        finally:
            part.unlink(missing_ok=True)
        _written += size
        if _written >= limit // 20:
            _written = 0
            limit_cache(path.parent, _COPY, limit * 9 // 10, keep=path.name)


def check_secrets(address: str) -> None:
    """Reject an address with credentials, without repeating it."""
    if _CREDENTIALS.search(address):
        raise InputError(
            "an address with credentials is rejected, since the run folder would contain it; set "
            "them in the environment, as AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
        )


def object_at(address: str) -> Remote:
    """One file, as the store lists it."""
    (first, *_) = objects_at(address)
    if first.partition("://")[2] != address.partition("://")[2].lstrip("/"):
        raise InputError(f"{address}: a folder, not a file")
    return first


def objects_at(address: str) -> list[Remote]:
    """A file, all files below a folder, or those that a pattern names."""
    check_secrets(address)
    scheme, _, rest = address.partition("://")
    if scheme not in SCHEMES or not rest.strip("/"):
        known = ", ".join(f"{name}://" for name in SCHEMES if name != "memory")
        raise InputError(f"{address}: expected an address that begins with {known}")
    is_pattern = bool(set(address) & set("*?["))
    try:
        files: dict[str, Any] = _ask(
            address, lambda store: (store.glob if is_pattern else store.find)(address, detail=True)
        )
    except FileNotFoundError:
        files = {}
    found = [_listed(about, scheme) for about in files.values() if about["type"] == "file"]
    if not found:
        raise InputError(f"{address}: nothing there")
    return found


def _listed(about: dict[str, Any], scheme: str) -> Remote:
    name = str(about["name"]).removeprefix(f"{scheme}://").lstrip("/")
    version = next((str(about[key]) for key in _VERSIONS if about.get(key)), "")
    number = int.from_bytes(hashlib.sha256(version.encode()).digest()[:8]) >> 1
    return Remote(f"{scheme}://{name}", listed=(int(about["size"]), number))


def _ask(address: str, action: Callable[[Any], Result]) -> Result:
    """Ask the store; its library retries. Errors are one line."""
    try:
        import fsspec

        store = fsspec.filesystem(address.partition("://")[0])
    except (ImportError, ValueError) as problem:
        raise InputError(f"{address}: {problem}; pip install 'g2netpl[remote]'") from None
    try:
        store.invalidate_cache()
        return action(store)
    except FileNotFoundError:
        raise
    except Exception as problem:  # of any store, any library, any network
        why = " ".join(str(problem).split())[:200] or type(problem).__name__
        raise Unreachable(f"{address}: cannot be read ({why})") from None
