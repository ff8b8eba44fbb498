"""Images next to those of the label files that no label file lists."""

from pathlib import Path

from g2netpl.images.sources import list_images, unread_note
from g2netpl.labels.files import Files, each_file, ensure_local
from g2netpl.labels.io import find_format, image_folders


def find_unlisted_images(
    files: Files, format: str | None, images: str | None, every: bool = False
) -> list[str]:
    """Names of the images that a training would use, listed or not, below their folder.

    These are all images in a folder that the user named, or else those around a label file that
    stands for the folder it is in, or with `every` around each file.
    """
    folders = _folders(files, format, images, every)
    names = (f"{way}{name}" for way, folder in folders.items() for name in list_images(folder))
    return list(dict.fromkeys(names))


def unread_around(files: Files, format: str | None, images: str | None) -> list[str]:
    """Notes on photos there that cannot be read."""
    folders = _folders(files, format, images)
    return [note for folder in folders.values() for note in unread_note(folder)]


def _folders(
    files: Files, format: str | None, images: str | None, every: bool = False
) -> dict[str, str]:
    """Where images are looked for, by the path from the folder of all."""
    if images is not None:
        return {"": images}
    root, ways = image_folders(files, format)
    searched = zip(each_file(files), ways, strict=True)
    return {way: str(root / way) for file, way in searched if every or is_own_folder(file)}


def others_left_out(files: Files, format: str | None) -> bool:
    """Whether images that no file lists belong to other splits of a data set."""
    return any(find_format(ensure_local(file), format).lists_all for file in each_file(files))


def is_own_folder(file: str) -> bool:
    """Whether a label file is the folder of its images, or the metadata file in it."""
    path = Path(file)
    return path.is_dir() or path.stem == "metadata"
