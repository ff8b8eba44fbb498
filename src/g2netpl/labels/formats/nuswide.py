"""NUS-WIDE as it is on disk: name a list, `ImageList/TrainImagelist.txt` or `TestImagelist.txt`.

`Labels_<concept>_Train.txt` in `TrainTestLabels` (or `Groundtruth/TrainTestLabels`; for the whole
list `AllLabels`) holds 0 or 1 per image. `Concepts81.txt` gives the order of the classes. Images
without any positive, a fifth of the set, stay: everything about them is known to be absent.
"""

from pathlib import Path

import numpy as np
import numpy.typing as npt

from g2netpl.base.disk import check_free, write_text_whole
from g2netpl.base.errors import InputError
from g2netpl.labels.formats.problems import Problems
from g2netpl.labels.formats.reading import (
    Reading,
    class_problem,
    in_class_order,
    positives_only,
    read_classes,
)
from g2netpl.labels.formats.text import BOM, numbered_lines, read_text
from g2netpl.labels.table import NEGATIVE, POSITIVE, LabelTable, plain_name

_LISTS = {
    "TrainImagelist": ("TrainTestLabels", "_Train"),
    "TestImagelist": ("TrainTestLabels", "_Test"),
    "Imagelist": ("AllLabels", ""),
}


def recognises(path: Path) -> bool:
    """A .txt file in ImageList, or a folder that has one."""
    if path.is_dir():
        return (path / "ImageList").is_dir()
    return path.suffix == ".txt" and path.parent.name == "ImageList"


def image_folder(path: Path) -> Path:
    """`Flickr`, as the images are given out, or else `images`."""
    root = path if path.is_dir() else path.parent.parent
    return root / "Flickr" if (root / "Flickr").is_dir() else root / "images"


def read(path: Path, reading: Reading) -> LabelTable:
    """Read the images of a list with all their concepts; mistakes are named by file and line."""
    if path.is_dir() or path.stem not in _LISTS:
        raise InputError(
            f"{path}: name a list as the label file: "
            f"{', '.join(f'ImageList/{name}.txt' for name in _LISTS)}"
        )
    problems = Problems()
    images = _images(path, problems)
    folder, suffix = _label_folder(path)
    classes = _concepts(path, folder, suffix, problems)
    values = np.zeros((len(images), len(classes)), dtype=np.int8)
    for column, name in enumerate(classes):
        values[:, column] = _column(folder / f"Labels_{name}{suffix}.txt", len(images), problems)
    problems.raise_any()
    if reading.absent == "unobserved":
        values[values == NEGATIVE] = -1
    return in_class_order(LabelTable(images, classes, values), reading, str(path))


def write(table: LabelTable, path: Path) -> list[str]:
    """Write list, labels and concepts; path like NUS-WIDE/ImageList/TrainImagelist.txt."""
    if path.stem not in _LISTS or path.suffix != ".txt" or path.parent.name != "ImageList":
        raise InputError(f"{path}: expected a path like NUS-WIDE/ImageList/TrainImagelist.txt")
    positives_only(table, path, "NUS-WIDE")
    for name in table.classes:
        if "/" in name or "\n" in name or name != name.lstrip(BOM).strip():
            raise InputError(f"{path}: class {name!r} cannot be a part of a file name")
    plain = [name.lstrip(BOM).strip() for name in table.images]
    if plain != list(table.images) or any("\n" in name or "\\" in name for name in plain):
        raise InputError(f"{path}: an image name with a line break, a space at its ends or '\\'")
    folder, suffix = _LISTS[path.stem]
    labels = path.parent.parent / folder
    concepts = "".join(f"{name}\n" for name in table.classes)
    about = path.parent.parent / "Concepts81.txt"
    check_free(path, [labels / f"Labels_{name}{suffix}.txt" for name in table.classes])
    if not (about.is_file() and about.read_bytes() == concepts.encode()):  # as of the other list
        check_free(path, [about])
    for each in (path.parent, labels):
        each.mkdir(parents=True, exist_ok=True)
    lines = [name.replace("/", "\\") + "\n" for name in table.images]
    write_text_whole(path, "".join(lines))
    write_text_whole(about, concepts)
    for column, name in enumerate(table.classes):
        text = "".join("1\n" if value == POSITIVE else "0\n" for value in table.values[:, column])
        write_text_whole(labels / f"Labels_{name}{suffix}.txt", text)
    return ["NUS-WIDE looks for the images in Flickr; they were not copied"]


def _images(path: Path, problems: Problems) -> list[str]:
    names: dict[str, int] = {}
    for line, text in numbered_lines(path, problems):
        name, where = plain_name(text.replace("\\", "/")), f"{path}:{line}"
        if not name:
            continue
        if not problems.add_name(where, name) and name in names:
            what = f"image {name!r} is listed already on line {names[name]}"
            problems.add(where, "image listed twice", what)
        names.setdefault(name, line)
    problems.raise_any()
    if not names:
        raise InputError(f"{path}: expected image names, one per line; the list is empty")
    return list(names)


def _label_folder(path: Path) -> tuple[Path, str]:
    folder, suffix = _LISTS[path.stem]
    root = path.parent.parent
    for candidate in (root / folder, root / "Groundtruth" / folder, root / "GroundTruth" / folder):
        if candidate.is_dir():
            return candidate, suffix
    raise InputError(f"{path}: no folder {folder} with the labels beside it, nor in Groundtruth")


def _concepts(path: Path, folder: Path, suffix: str, problems: Problems) -> list[str]:
    root = path.parent.parent
    for candidate in (root / "Concepts81.txt", root / "ConceptsList" / "Concepts81.txt"):
        if candidate.is_file():
            names = list(read_classes(candidate))
            odd = [name for name in names if "/" in name]
            if odd:
                raise InputError(f"{candidate}: concept {odd[0]!r} cannot be part of a file name")
            return names
    files = [file.name for file in folder.glob(f"Labels_*{suffix}.txt")]
    if not files:
        raise InputError(f"{folder}: no Labels_<concept>{suffix}.txt")
    names = sorted(file[len("Labels_") : -len(f"{suffix}.txt")] for file in files)
    for name in names:
        problem = class_problem(name)
        if problem is not None:
            problems.stop(str(folder), "class name", f"Labels_<concept>{suffix}.txt: {problem}")
    return names


def _column(path: Path, count: int, problems: Problems) -> npt.NDArray[np.int8]:
    text = read_text(path, problems)
    cells = text.split()
    if len(cells) != count:
        what = f"expected {count:,} labels, one per image, got {len(cells):,}"
        problems.add(str(path), "number of labels", what)
    if not {"0", "1"}.issuperset(cells):
        for line, row in enumerate(text.split("\n"), start=1):
            if not {"0", "1"}.issuperset(row.split()):
                problems.add(f"{path}:{line}", "cell", f"expected 0 or 1, got {row.strip()[:40]!r}")
    elif len(cells) == count:
        return np.frombuffer("".join(cells).encode(), dtype=np.int8) - ord("0")
    return np.zeros(count, dtype=np.int8)
