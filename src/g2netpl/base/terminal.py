"""What a person sees: text that cannot command a terminal, streams that cannot stop the work.

Every line goes through `say` or a `g2netpl.base.console.Console`. Nothing heavy here.
"""

import contextlib
import errno
import os
import re
import shlex
import sys
from collections.abc import Callable, Iterator
from typing import Any, TextIO

EXIT_DISK = 74
_COMMANDS = re.compile(  # control characters, turned or hidden writing, halves of characters
    "[\x00-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"
    "\ud800-\udfff\U000e0000-\U000e007f]"
)
_PLAIN = {  # for narrow encodings
    **{"·": "-", "–": "-", "−": "-", "…": "...", "×": "x", "±": "+-", "²": "2"},
    **{"≤": "<=", "≥": ">=", "→": "->", "“": '"', "”": '"'},
}
_NOBODY = {  # whoever read has gone, as `head` does
    *(errno.EPIPE, errno.EBADF, *([errno.EINVAL] if sys.platform == "win32" else []))
}


def shown(text: object) -> str:
    """Text in one line, with what a terminal would obey or hide spelt out: `\\x1b`, `\\u202e`."""
    return _COMMANDS.sub(_spelt, str(text))


def _spelt(found: re.Match[str]) -> str:
    character = found[0]
    if "\udc80" <= character <= "\udcff":  # a byte of a file name that is not UTF-8
        return f"\\x{ord(character) - 0xDC00:02x}"
    return repr(character)[1:-1]


def quoted(path: object) -> str:
    """A path as a word for a shell, which reads it back as it is."""
    text = str(path)
    if shown(text) == text:
        return shlex.quote(text)
    return "$'" + shown(text.replace("\\", "\\\\").replace("'", "\\'")) + "'"


def shown_lines(text: str, encoding: str = "utf-8") -> str:
    """The same line by line, in characters that the encoding has."""
    return encodable("\n".join(map(shown, text.split("\n"))), encoding)


def encodable(text: str, encoding: str) -> str:
    """The text with what the encoding does not have written in plain letters."""
    try:
        text.encode(encoding)
        return text
    except UnicodeEncodeError:
        plain = "".join(_PLAIN.get(character, character) for character in text)
        return plain.encode(encoding, "backslashreplace").decode(encoding)


def say(text: str) -> None:
    """Write for a person, on standard error."""
    print(shown_lines(text), file=sys.stderr)


def on_one_screen() -> bool:
    """Whether standard output and standard error come to the same place."""
    try:
        return os.path.sameopenfile(sys.stdout.fileno(), sys.stderr.fileno())
    except (OSError, ValueError):
        return False


@contextlib.contextmanager
def guarded() -> Iterator[Callable[[int], int]]:
    """Inside, standard streams that are closed, full or without a reader stop nothing.

    Gives a function for the end: it takes the exit code, and where a disk was too full for standard
    output it says so and gives that of a disk.
    """
    _open_closed()
    before = sys.stdout, sys.stderr
    output, errors = _Stream(before[0], 1), _Stream(before[1], 2)

    def ended(code: int) -> int:
        output.flush()
        if output.lost is not None:
            say(f"g2netpl: {output.lost}; what it holds is not complete")
        errors.flush()
        return code or (EXIT_DISK if output.lost is not None else 0)

    sys.stdout, sys.stderr = output, errors
    try:
        yield ended
    finally:
        sys.stdout, sys.stderr = before


def _open_closed() -> None:
    """A file of ours must not get the number of a standard stream: others write there."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)


class _Stream:
    """A standard stream; what it cannot take is dropped, and `lost` says why if a disk did it."""

    def __init__(self, stream: TextIO | None, number: int) -> None:
        self._stream = stream or open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115
        self._name = _name_of(self._stream, number)
        self._may_go = self._stream.isatty()
        self.lost: str | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        """Write, in plainer letters where there is no other way."""
        with self._dropping():
            self._stream.write(encodable(text, self._stream.encoding or "utf-8"))
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
            if not self._may_go and problem.errno not in _NOBODY:
                self.lost = f"{self._name}: {problem.strerror}"
            with contextlib.suppress(OSError), open(os.devnull, "wb") as nothing:
                os.dup2(nothing.fileno(), self._stream.fileno())


def _name_of(stream: TextIO, number: int) -> str:
    """`standard output (run.log)`, where the system can tell the file."""
    name = "standard output" if number == 1 else "standard error"
    with contextlib.suppress(OSError):
        path = os.readlink(f"/proc/self/fd/{stream.fileno()}")
        return f"{name} ({path})" if path.startswith("/") else name
    return name
