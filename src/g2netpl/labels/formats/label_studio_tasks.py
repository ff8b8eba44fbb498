"""Tasks of Label Studio: which image is shown, and what people said about it.

An image is named by an address: an upload, a file below the root of its local files, an object in
a bucket or on a web server, or a plain name. Nothing is ever fetched from there: an address tells
the name of a file of ours.
"""

import posixpath
from collections.abc import Iterator, Sequence
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.parse import SplitResult, parse_qs, quote, unquote, urlsplit

from g2netpl.labels.formats.json_file import member, mistake
from g2netpl.labels.paths import SUFFIXES
from g2netpl.labels.spelling import before_upload, stored
from g2netpl.labels.table import NEGATIVE, POSITIVE, plain_name

ABSENT = "absent"  # a control of this name says what is not in the picture
KINDS = (
    "choices",
    "labels",
    "rectanglelabels",
    "polygonlabels",
    "ellipselabels",
    "keypointlabels",
    "brushlabels",
)
_LOCAL_FILES = "/data/local-files/"
_REMOTE = ("http", "https", "s3", "gs", "azure-blob")


def local_address(name: str) -> str:
    """The address of a file below the root of Label Studio's local files."""
    return f"{_LOCAL_FILES}?d={quote(name)}"


def address_in(data: dict[str, Any], where: str) -> str:
    """The address of the image in the data of a task: under `image`, or else the only one."""
    texts = [value for name, value in data.items() if isinstance(value, str) and name != "text"]
    if len(texts) > 1:
        texts = [text for text in texts if _looks_like_image(text.lower())]
    address = data.get("image", texts[0] if len(texts) == 1 else None)
    if not isinstance(address, str) or not address.strip():
        raise mistake(where, "expected the image's name in 'data', as {'image': name}")
    return address


def image_name(address: str, where: str) -> str:
    """The name of the image at an address; of those elsewhere and of uploads, the last part."""
    parts = _split(address, where)
    if _is_local(parts):
        return parse_qs(parts.query)["d"][0]
    if parts.scheme in _REMOTE or parts.path.startswith("/data/upload/"):
        return unquote(parts.path.rpartition("/")[2])
    return address


def told_apart(names: Sequence[str], addresses: Sequence[str]) -> list[str]:
    """The names; where images elsewhere share a last part, their paths below a common folder."""
    paths = {address: _remote_path(address) for address in addresses}
    elsewhere = [path for path in paths.values() if path is not None]
    if len({path.name for path in elsewhere}) == len(set(elsewhere)):
        return list(names)
    common = posixpath.commonpath([path.parent for path in elsewhere])
    found = []
    for name, address in zip(names, addresses, strict=True):
        path = paths[address]
        found.append(name if path is None else str(path.relative_to(common)))
    return found


class ImagesByAddress:
    """The images of a run, to be found by the addresses that Label Studio has for them."""

    def __init__(self, images: Sequence[str], folder: str | Path) -> None:
        self._rows = {name: row for row, name in enumerate(images)}
        self._stored = {stored(name): name for name in reversed(images) if "/" not in name}
        self._folder = Path(folder).resolve().parts

    def _names(self, address: str, where: str) -> Iterator[str]:
        """What the image can be called here, the surest first."""
        name = plain_name(image_name(address, where))
        yield name
        uploaded = before_upload(name)
        if uploaded in self._stored:
            yield self._stored[uploaded]
        remote = _remote_path(address)
        if remote is not None:
            yield from ("/".join(remote.parts[start:]) for start in range(1, len(remote.parts)))
        elif "/" in name:  # the root of the local files may lie above our folder
            longer = PurePosixPath(name).parts
            for count in range(1, len(longer)):
                if longer[:count] == self._folder[-count:]:
                    yield "/".join(longer[count:])

    def row(self, address: str, where: str) -> int | None:
        """The row of the image at an address; None of one that the run does not know."""
        found = (self._rows[name] for name in self._names(address, where) if name in self._rows)
        return next(found, None)


def labels_in(annotation: Any, where: str) -> Iterator[tuple[str, int]]:
    """The classes that a person named, each positive or negative; none of a skipped task."""
    if isinstance(annotation, dict) and annotation.get("was_cancelled") is True:
        return
    results = member(annotation, "result", list, f"{where}: annotations")
    where = f"{where}: result"
    for item in results:
        kind = member(item, "type", str, where)
        if kind not in KINDS:  # ratings, text, relations: not labels
            continue
        value = NEGATIVE if item.get("from_name") == ABSENT else POSITIVE
        for name in member(member(item, "value", dict, where), kind, list, where):
            if not isinstance(name, str):
                raise mistake(where, f"expected names of classes, got {name!r:.60}")
            yield name, value


def _looks_like_image(address: str) -> bool:
    return address.endswith(SUFFIXES) or address.partition("?")[0].endswith(SUFFIXES)


def _remote_path(address: str) -> PurePosixPath | None:
    """Host or bucket and path of an image elsewhere."""
    parts = urlsplit(address)
    return PurePosixPath(parts.netloc + unquote(parts.path)) if parts.scheme in _REMOTE else None


def _split(address: str, where: str) -> SplitResult:
    try:
        return urlsplit(address)
    except ValueError as problem:
        raise mistake(where, f"image {address[:60]!r}: {problem}") from None


def _is_local(parts: SplitResult) -> bool:
    return parts.path.endswith("local-files/") and "d" in parse_qs(parts.query)
