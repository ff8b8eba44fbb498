"""Tar shards in WebDataset's layout, as Python's own module writes them."""

import io
import tarfile

from g2netpl.images.sources import list_images
from g2netpl.labels.io import read_labels


def tar(path, members):
    """Names with content, or entries of any kind; `path` may be a stream."""
    target = {"fileobj": path} if isinstance(path, io.BytesIO) else {"name": path}
    with tarfile.open(mode="w", **target) as file:
        for name, content in members:
            if isinstance(content, bytes):
                info = tarfile.TarInfo(name)
                info.size = len(content)
                file.addfile(info, io.BytesIO(content))
            else:
                file.addfile(content)
    return path


def write_shards(names, images, folder, in_each=20):
    """Images below a folder, each followed by a text of the same stem."""
    folder.mkdir(parents=True)
    for number, first in enumerate(range(0, len(names), in_each)):
        members = []
        for name in names[first : first + in_each]:
            stem = name.rpartition(".")[0]
            members += [(name, (images / name).read_bytes()), (f"{stem}.json", b"{}")]
        tar(folder / f"images-{number:06}.tar", members)
    return folder


def all_of(photos):
    """The images of train.csv, and the others of the folder."""
    listed = read_labels(photos / "train.csv").images
    return [*listed, *(name for name in list_images(photos) if name not in set(listed))]
