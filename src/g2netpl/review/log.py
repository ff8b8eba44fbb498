"""Appends answers to review.jsonl: one process at a time, each line fsynced before it counts."""

import contextlib
import errno
import os
from pathlib import Path
from threading import Lock

from g2netpl.runs.answers import Decision, parse_decisions
from g2netpl.runs.records import REVIEW
from g2netpl.utils.files import friendly_os_errors, open_in_place, sync_folder
from g2netpl.utils.locks import locked


class AnswerLog:
    """The answer file of a run, locked and open for appending."""

    def __init__(self, folder: str | Path) -> None:
        self.path = Path(folder) / REVIEW
        self._lock = Lock()
        with contextlib.ExitStack() as opened:
            opened.enter_context(friendly_os_errors(self.path))
            opened.enter_context(locked(self.path.parent))
            self._file = open_in_place(self.path, os.O_RDWR | os.O_APPEND | os.O_CREAT)
            opened.callback(os.close, self._file)
            sync_folder(self.path.parent)
            self._read()
            self._opened = opened.pop_all()

    def _read(self) -> None:
        """Read all answers; an incomplete last line, left by a crash, is cut off."""
        with open(self._file, "rb", closefd=False) as file:
            content = file.read()
        self.decisions, self._size = parse_decisions(content, self.path)
        self.is_torn = self._size < len(content)
        if self.is_torn:
            os.ftruncate(self._file, self._size)
            os.fsync(self._file)

    def append(self, *decisions: Decision) -> None:
        """Save decisions: all are on the disk when this returns, none if it raises OSError."""
        with self._lock:
            self._check()
            self._write(b"".join(decision.to_line() for decision in decisions))
            self.decisions += decisions

    def close(self) -> None:
        """Wait for a running `append`, and release the folder."""
        with self._lock:
            self._opened.close()

    def _check(self) -> None:
        """Raise OSError if our open file is no longer review.jsonl, or has been changed."""
        status = os.fstat(self._file)
        try:
            is_ours = os.path.samestat(status, os.stat(self.path))
        except OSError:
            is_ours = False
        if not is_ours or status.st_size != self._size:
            raise OSError(
                errno.ESTALE,
                f"{self.path}: another program has removed, replaced or changed it; put it back, "
                "or restart g2netpl review",
            )

    def _write(self, lines: bytes) -> None:
        try:
            if os.write(self._file, lines) != len(lines):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            os.fsync(self._file)
        except OSError:
            with contextlib.suppress(OSError):  # an incomplete line would spoil the next one
                os.ftruncate(self._file, self._size)
            raise
        self._size += len(lines)
