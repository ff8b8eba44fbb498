"""The one who writes review.jsonl.

There is one at a time: the folder is locked. Programs that keep folders in step may replace the
file, so we look, before and after a line is written, whether it is still the one we hold. Where it
is not, nothing is called saved until it says again what we have written. What it lacks of that is
kept in review.jsonl.rescued-1 (-2, …). A new start goes by review.jsonl alone.
"""

import contextlib
import errno
import os
from itertools import count
from pathlib import Path
from threading import Lock
from typing import NoReturn

from g2netpl.base.disk import cannot_write
from g2netpl.base.errors import Refused, UserError
from g2netpl.base.files import appending, atomic_write, open_in_place, sync_folder
from g2netpl.base.locks import locked
from g2netpl.runs.answers import Decision, parse_decisions
from g2netpl.runs.folder import REVIEW


class DecisionLog:
    """The file of a run, open for writing by us alone; `trouble` is what `close` has found."""

    def __init__(self, folder: str | Path) -> None:
        self.path = Path(folder) / REVIEW
        self.trouble: str | None = None
        self._lock = Lock()
        self._rescued: Path | None = None
        self._file, self._folder = -1, contextlib.ExitStack()
        try:
            self._folder.enter_context(locked(self.path.parent))
            self._file = self._open(os.O_CREAT)
            sync_folder(self.path.parent)
            content = _content(self._file)
            self.decisions, self._size = parse_decisions(content, self.path)
            self.torn = len(content) - self._size
            if self.torn:
                self._cut_off(content[self._size :])
            elif content and not content.endswith(b"\n"):
                self._write(b"\n")
            self._mark = _mark(self._file)
        except OSError as problem:
            self._let_go()
            raise cannot_write(self.path, problem) from None
        except Refused:
            raise Refused(
                f"{self.path}: another g2netpl review has it open, or a training its folder; end "
                "that one first"
            ) from None
        except BaseException:
            self._let_go()
            raise

    def append(self, *decisions: Decision) -> None:
        """Save some more; all are on the disk when this returns, or OSError says: none is."""
        with self._lock:
            self._check()
            self._write(b"".join(each.to_line() for each in decisions))
            self.decisions += decisions

    def close(self) -> None:
        """Wait for a line that is being written, look a last time, and let go of the file."""
        with self._lock:
            try:
                if self._file >= 0 and self.decisions:
                    self._check()
            except OSError as problem:
                self.trouble = problem.strerror
            self._let_go()

    def _open(self, flags: int = 0) -> int:
        return open_in_place(self.path, flags | os.O_RDWR | os.O_APPEND)

    def _let_go(self) -> None:
        if self._file >= 0:
            os.close(self._file)
        self._file = -1
        self._folder.close()

    def _check(self) -> None:
        """See that the file of our name is the one we know, or says the same; else OSError."""
        is_ours = self._is_ours()
        if is_ours and _mark(self._file) == self._mark and self._rescued is None:
            return
        found: list[Decision] = []
        with contextlib.suppress(OSError, UserError):  # whatever is there now
            file = self._file if is_ours else self._open()
            try:
                content = _content(file)
                found, size = parse_decisions(content, self.path)
                if found == self.decisions and content[size - 1 :] == (b"\n" if size else b""):
                    os.fsync(file)
                    sync_folder(self.path.parent)
                    file, self._file = self._file, file
                    self._size, self._mark = size, _mark(self._file)
                    self._forget_rescue()
                    return
            finally:
                if file != self._file:
                    os.close(file)
        self._refuse(found)

    def _is_ours(self) -> bool:
        """Whether the open file is still the one of our name: neither removed nor replaced."""
        try:
            return os.path.samestat(os.fstat(self._file), os.stat(self.path))
        except OSError:
            return False

    def _refuse(self, found: list[Decision]) -> NoReturn:
        if found[: len(self.decisions)] != self.decisions and self._rescued is None:
            with contextlib.suppress(OSError):
                self._rescued = self._rescue()
        kept = "" if self._rescued is None else f" (what it held is in {self._rescued.name})"
        raise OSError(
            errno.ESTALE,
            f"{self.path}: another program has removed, replaced or changed it{kept}; put it back, "
            "or start g2netpl review again, which goes on with what is there",
        )

    def _rescue(self) -> Path:
        """Write down what the file has lost."""
        names = (self.path.with_name(f"{REVIEW}.rescued-{number}") for number in count(1))
        path = next(path for path in names if not path.exists())
        with atomic_write(path) as file:
            file.writelines(decision.to_line() for decision in self.decisions)
        return path

    def _forget_rescue(self) -> None:
        """All of it is back in its place."""
        if self._rescued is not None:
            self._rescued.unlink(missing_ok=True)
        self._rescued = None

    def _write(self, lines: bytes) -> None:
        try:
            written = os.write(self._file, lines)
            if written != len(lines):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            os.fsync(self._file)
            mark = _mark(self._file)
            if not self._is_ours() or mark[0] != self._size + len(lines):
                self._refuse(self.decisions)  # it happened just now
        except OSError:
            if self._file >= 0:
                self._take_back(lines)
            raise
        self._size, self._mark = mark[0], mark

    def _take_back(self, lines: bytes) -> None:
        """Half a line would spoil the next one; but nothing of others is cut off."""
        with contextlib.suppress(OSError):
            if lines.startswith(_content(self._file, self._size)):
                os.ftruncate(self._file, self._size)
                self._mark = _mark(self._file)  # we changed it, nobody else

    def _cut_off(self, rest: bytes) -> None:
        with appending(self.path.with_name(REVIEW + ".torn")) as file:
            file.write(rest.rstrip(b"\n") + b"\n")
            file.flush()
            os.fsync(file.fileno())
        os.ftruncate(self._file, self._size)
        os.fsync(self._file)


def _content(descriptor: int, start: int = 0) -> bytes:
    with open(descriptor, "rb", closefd=False) as file:
        file.seek(start)
        return file.read()


def _mark(descriptor: int) -> tuple[int, int]:
    """Size and time of a file: another one where somebody has written."""
    status = os.fstat(descriptor)
    return status.st_size, status.st_mtime_ns
