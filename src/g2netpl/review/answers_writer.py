"""Writes review.jsonl: one process at a time, and every line is on the disk before it counts.

The run folder is locked meanwhile. Before a line is written we check that the file of our name is
still the one that we opened, and as long as we left it.
"""

import contextlib
import errno
import os
from pathlib import Path
from threading import Lock

from g2netpl.base.disk import cannot_write
from g2netpl.base.errors import Refused
from g2netpl.base.files import open_in_place, sync_folder
from g2netpl.base.locks import locked
from g2netpl.runs.answers import Decision, parse_decisions
from g2netpl.runs.folder import REVIEW


class DecisionLog:
    """The file of a run, open for writing by us alone; `trouble` is what `close` has found."""

    def __init__(self, folder: str | Path) -> None:
        self.path = Path(folder) / REVIEW
        self.trouble: str | None = None
        self._lock = Lock()
        self._file, self._folder = -1, contextlib.ExitStack()
        try:
            self._folder.enter_context(locked(self.path.parent))
            self._file = open_in_place(self.path, os.O_RDWR | os.O_APPEND | os.O_CREAT)
            sync_folder(self.path.parent)
            with open(self._file, "rb", closefd=False) as file:
                content = file.read()
            self.decisions, self._size = parse_decisions(content, self.path)
            self.is_torn = self._size < len(content)
            if self.is_torn:
                os.ftruncate(self._file, self._size)
                os.fsync(self._file)
            elif content and not content.endswith(b"\n"):
                self._write(b"\n")
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

    def _let_go(self) -> None:
        if self._file >= 0:
            os.close(self._file)
        self._file = -1
        self._folder.close()

    def _check(self) -> None:
        """See that the file of our name is the one that we hold, and as long as we left it."""
        if not self._is_ours() or os.fstat(self._file).st_size != self._size:
            raise OSError(
                errno.ESTALE,
                f"{self.path}: another program has removed, replaced or changed it; put it back, "
                "or start g2netpl review again, which continues with what is there",
            )

    def _is_ours(self) -> bool:
        """Whether the open file is still the one of our name: neither removed nor replaced."""
        try:
            return os.path.samestat(os.fstat(self._file), os.stat(self.path))
        except OSError:
            return False

    def _write(self, lines: bytes) -> None:
        try:
            if os.write(self._file, lines) != len(lines):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            os.fsync(self._file)
        except OSError:
            with contextlib.suppress(OSError):  # half a line would spoil the next one
                os.ftruncate(self._file, self._size)
            raise
        self._size += len(lines)
