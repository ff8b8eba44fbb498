"""What a person sees. Names from files and folders are shown; they cannot command the terminal."""

import re
import shlex
import sys
from collections.abc import Iterable
from typing import Any

from rich.console import Console as RichConsole
from rich.console import ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.text import Text

_CONTROL = re.compile(  # control characters, reversed or hidden text, halves of characters
    "[\x00-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"
    "\ud800-\udfff\U000e0000-\U000e007f]"
)


def shown(text: object) -> str:
    """Text in one line, with control characters spelt out: `\\x1b`, `\\u202e`."""
    return _CONTROL.sub(lambda match: repr(match[0])[1:-1], str(text))


def shown_lines(text: str) -> str:
    """The same for each line of a text."""
    return "\n".join(map(shown, text.split("\n")))


def quoted(path: object) -> str:
    """A path as a word for a shell."""
    return shlex.quote(shown(path))


def say(text: str) -> None:
    """Write for a person, on standard error."""
    print(shown_lines(text), file=sys.stderr)


class Console(RichConsole):
    """Rich's console without markup or emoji codes."""

    def __init__(self, **options: Any) -> None:
        plain = {"markup": False, "emoji": False, "highlight": False, "soft_wrap": True}
        super().__init__(**{**plain, **options})

    def render_str(self, text: str, **options: Any) -> Text:
        """Text as it is shown, so that columns get the right width."""
        return super().render_str(shown_lines(text), **options)

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterable[Segment]:
        """All other text, such as the note next to a bar."""
        for segment in super().render(renderable, options):
            if segment.control:
                yield segment
            else:
                yield segment._replace(text=shown_lines(segment.text))
