"""Tar shards in WebDataset's layout, as Python's own module writes them."""

import io
import json
import tarfile

from g2netpl.images.sources import list_images
from g2netpl.labels.formats import read_labels


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
    """Images below a folder as `0.png`, with their names in `0.json`."""
    folder.mkdir(parents=True)
    members = []
    for row, name in enumerate(names):
        about = json.dumps({"file_name": name}).encode()
        members += [(f"{row:09}.png", (images / name).read_bytes()), (f"{row:09}.json", about)]
    for number, first in enumerate(range(0, len(members), 2 * in_each)):
        tar(folder / f"images-{number:06}.tar", members[first : first + 2 * in_each])
    return folder


def all_of(photos):
    """The images of train.csv, and the others of the folder."""
    listed = read_labels(photos / "train.csv").images
    return [*listed, *(name for name in list_images(photos) if name not in set(listed))]
