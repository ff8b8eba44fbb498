"""The console of every command: names and messages are shown, never obeyed."""

from collections.abc import Callable, Iterable
from typing import Any

from rich.console import Console as RichConsole
from rich.console import ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.text import Text

from g2netpl.utils.terminal import shown_lines


class Console(RichConsole):
    """Rich's, without markup or emoji codes; no text in it can command the terminal.

    `beat` is told how far work on it is, where that is a part of other work (`progress`).
    """

    def __init__(self, beat: Callable[[str], None] | None = None, **given: Any) -> None:
        self.beat = beat
        plain = {"markup": False, "emoji": False, "highlight": False, "soft_wrap": True}
        super().__init__(**{**plain, **given})

    def render_str(self, text: str, **how: Any) -> Text:
        """Text as it is shown, so that columns are as wide as they will be."""
        return super().render_str(shown_lines(text), **how)

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterable[Segment]:
        """Whatever else comes as text, such as the note beside a bar."""
        for segment in super().render(renderable, options):
            if segment.control:
                yield segment
            else:
                yield segment._replace(text=shown_lines(segment.text))
