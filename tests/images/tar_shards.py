"""Tar shards in WebDataset's layout, as Python's own module writes them."""

import io
import json
import tarfile

import numpy as np

from g2netpl.images.sources import list_images
from g2netpl.labels.formats import read_labels
from g2netpl.labels.table import NEGATIVE, POSITIVE, UNOBSERVED, LabelTable


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


def write_shards(table, images, folder, in_each=20):
    """The images of a table below a folder, and what it knows: `0.png` and `0.json`."""
    classes = np.array(table.classes, dtype=object)
    folder.mkdir(parents=True)
    members = []
    for row, name in enumerate(table.images):
        about = {"file_name": name}
        about["labels"] = classes[table.values[row] == POSITIVE].tolist()
        about["absent"] = classes[table.values[row] == NEGATIVE].tolist()
        if table.groups is not None:
            about["group"] = table.groups[row]
        content = (images / name).read_bytes()
        members += [(f"{row:09}.png", content), (f"{row:09}.json", json.dumps(about).encode())]
    for number, first in enumerate(range(0, len(members), 2 * in_each)):
        tar(folder / f"images-{number:06}.tar", members[first : first + 2 * in_each])
    (folder / "classes.json").write_text(json.dumps(table.classes))
    return folder


def all_of(photos):
    """The labels of train.csv, and the other images of the folder without any."""
    table = read_labels(photos / "train.csv")
    others = [name for name in list_images(photos) if name not in set(table.images)]
    unknown = np.full((len(others), len(table.classes)), UNOBSERVED, dtype=np.int8)
    return LabelTable(
        (*table.images, *others), table.classes, np.concatenate([table.values, unknown])
    )
