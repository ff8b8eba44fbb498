"""What an experiment runs on: features, the built-in scenes, or images with a label file."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from g2netpl.base.errors import InputError
from g2netpl.labels.formats import image_folder, read_labels, write_labels
from g2netpl.labels.formats.layouts import OFFICIAL, official
from g2netpl.labels.settings import IndexArray, split_indices
from g2netpl.labels.table import LabelTable

Kind = Literal["scenes", "features", "images"]


@dataclass(frozen=True)
class Subject:
    """Where the data are; label files for images alone."""

    kind: Kind
    root: str | None
    labels: str | None = None
    test_labels: str | None = None
    images: str | None = None

    @property
    def name(self) -> str:
        """For people."""
        return "the built-in scenes" if self.root is None else Path(self.root).resolve().name


def find_subject(
    root: str | None, test_labels: str | None = None, images: str | None = None
) -> Subject:
    """Recognise a features folder, an official layout or a label file; nothing: the scenes."""
    if root is None:
        return Subject("scenes", None)
    path = Path(root)
    if not path.exists():
        raise InputError(f"{root}: no such file or folder")
    if (path / "meta.npz").is_file():
        return Subject("features", root)
    if path.is_file() or test_labels is not None:
        return Subject("images", root, root, test_labels, images)
    found = official(path)
    if found is not None:
        return Subject("images", root, str(found[0]), str(found[1]), images)
    raise InputError(
        f"{root}: no data found; expected a label file, a features folder (meta.npz), or one of "
        + ", ".join(train for train, _ in OFFICIAL)
    )


def with_test_part(
    subject: Subject, folder: Path, table: LabelTable | None = None, format: str | None = None
) -> Subject:
    """A label file without a test file is split once: a fifth of its images become the test.

    `table` is what the file says, and said when it was split: a part that says something else was
    broken off or damaged, and is written again.
    """
    if subject.labels is None or subject.test_labels is not None:
        return subject
    images = subject.images or str(image_folder(subject.labels, format))
    parts = [folder / f"{part}.csv" for part in ("train", "test")]
    if table is None and not all(part.is_file() for part in parts):
        table = read_labels(subject.labels, format)
    if table is not None:
        folder.mkdir(parents=True, exist_ok=True)
        for part, rows in zip(parts, split_rows(len(table)), strict=True):
            if not _says(part, table.take(rows)):
                write_labels(table.take(rows), part)
    return Subject("images", subject.root, str(parts[0]), str(parts[1]), images)


def _says(path: Path, table: LabelTable) -> bool:
    """Whether a file is there and holds this table."""
    try:
        return path.is_file() and read_labels(path).fingerprint() == table.fingerprint()
    except InputError:
        return False


def split_rows(images: int) -> tuple[IndexArray, IndexArray]:
    """Four fifths to train on, and those of the test; always the same."""
    return split_indices(images, 0.2, 0)
