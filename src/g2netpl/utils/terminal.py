"""What a person sees: names are escaped, and a reader who leaves does not stop the work.

Every line goes through `say` or a `g2netpl.utils.console.Console`. Nothing heavy here.
"""

import contextlib
import errno
import os
import re
import shlex
import sys
from collections.abc import Iterator
from typing import Any, TextIO

EXIT_DISK = 74
_COMMANDS = re.compile(  # control characters, turned or hidden writing, halves of characters
    "[\x00-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"
    "\ud800-\udfff\U000e0000-\U000e007f]"
)
_NOBODY = {  # whoever read has gone, as `head` does, or the terminal
    *(errno.EPIPE, errno.EIO, *([errno.EINVAL] if sys.platform == "win32" else []))
}


def shown(text: object) -> str:
    """Text in one line, with what a terminal would obey or hide spelt out: `\\x1b`, `\\u202e`."""
    return _COMMANDS.sub(lambda found: repr(found[0])[1:-1], str(text))


def quoted(path: object) -> str:
    """A path as a word for a shell."""
    return shlex.quote(shown(path))


def shown_lines(text: str) -> str:
    """The same line by line."""
    return "\n".join(map(shown, text.split("\n")))


def say(text: str) -> None:
    """Write for a person, on standard error."""
    print(shown_lines(text), file=sys.stderr)


def on_one_screen() -> bool:
    """Whether standard output and standard error come to the same place."""
    try:
        return os.path.sameopenfile(sys.stdout.fileno(), sys.stderr.fileno())
    except (OSError, ValueError, AttributeError):
        return False


def flush_output() -> None:
    """Hand over what was written to standard output; OSError if a disk is full."""
    if sys.stdout is not None:
        sys.stdout.flush()


@contextlib.contextmanager
def output_may_close() -> Iterator[None]:
    """Inside, nothing stops if a pipe or terminal for standard output or error is closed."""
    before = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = (stream and _Stream(stream) for stream in before)
    try:
        yield
    finally:
        with contextlib.suppress(OSError):
            flush_output()
        sys.stdout, sys.stderr = before


class _Stream:
    """A standard stream; what nobody reads any more is dropped."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        reconfigure = getattr(stream, "reconfigure", lambda **_: None)
        reconfigure(errors="backslashreplace")  # for narrow encodings

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        """Write, if somebody reads."""
        with self._dropping():
            self._stream.write(text)
        return len(text)

    def flush(self) -> None:
        """Hand over what was written."""
        with self._dropping():
            self._stream.flush()

    @contextlib.contextmanager
    def _dropping(self) -> Iterator[None]:
        try:
            yield
        except OSError as problem:
            with contextlib.suppress(OSError), open(os.devnull, "wb") as nothing:
                os.dup2(nothing.fileno(), self._stream.fileno())
            if problem.errno not in _NOBODY:
                problem.filename = self._stream.name
                raise
