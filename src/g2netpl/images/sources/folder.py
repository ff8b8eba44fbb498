"""Images that are files below a folder."""

from collections.abc import Sequence
from pathlib import Path

from g2netpl.labels import paths


class Folder:
    """A folder and what is below it; no link leads out of it."""

    def __init__(self, root: str | Path) -> None:
        self.root = root

    def names(self) -> list[str]:
        """Of all image files, sorted."""
        return paths.list_images(self.root)

    def unread(self) -> list[str]:
        """A note on photos of kinds that are not read."""
        return paths.unread_note(self.root)

    def together(self) -> None:
        """Each image lies alone."""

    def find(self, names: Sequence[str], exactly: bool = False) -> paths.Located:
        """The files of these names."""
        return paths.find(names, self.root, exactly)
