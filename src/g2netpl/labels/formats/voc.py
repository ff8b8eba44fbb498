"""PASCAL VOC: name a list, `VOC2012/ImageSets/Main/train.txt`; the classes' lists lie beside it.

`<class>_train.txt` says 1, −1 or 0 (difficult) for each image. A pair counts as positive only where
the list says 1; difficult is negative, as in SPML. Without such lists `Annotations/<id>.xml` is
read by the same rule: a class whose objects are all difficult is negative.
"""

from collections.abc import Iterator
from pathlib import Path

from g2netpl.base.disk import check_free, write_text_whole
from g2netpl.base.errors import InputError
from g2netpl.labels.formats.collector import Collector
from g2netpl.labels.formats.problems import Problems
from g2netpl.labels.formats.reading import Reading, class_problem, in_class_order, positives_only
from g2netpl.labels.formats.text import BOM, numbered_lines, read_bytes
from g2netpl.labels.formats.xml_file import XML_ERRORS, Walk
from g2netpl.labels.table import POSITIVE, LabelTable


def recognises(path: Path) -> bool:
    """A .txt file in ImageSets/Main, or a folder that has one."""
    if path.is_dir():
        return (path / "ImageSets" / "Main").is_dir()
    return path.suffix == ".txt" and path.parent.name == "Main"


def image_folder(path: Path) -> Path:
    """JPEGImages of the same year."""
    return _root(path) / "JPEGImages"


def read(path: Path, reading: Reading) -> LabelTable:
    """Read the images of a list; every mistake is named by file and line."""
    if path.is_dir():
        files = sorted((path / "ImageSets" / "Main").glob("*.txt"))
        plain = [file.name for file in files if "_" not in file.stem]
        raise InputError(
            f"{path}: name a list in {path.name}/ImageSets/Main as the label file "
            f"(there: {', '.join(plain) or 'none'})"
        )
    problems = Problems()
    ids = _identities(path, problems)
    lists = _class_lists(path, problems)
    absent = reading.absent_value("negative")
    if lists:
        table = _read_lists(path, ids, lists, absent, problems)
    else:
        table = _read_xml(path, ids, absent, problems)
    return in_class_order(table, reading, str(path))


def names_classes(path: Path, reading: Reading) -> bool:
    """The classes' lists do, XML does not."""
    return path.is_dir() or bool(_class_lists(path, Problems()))


def write(table: LabelTable, path: Path) -> list[str]:
    """Write a list and the classes' lists; path like VOC2012/ImageSets/Main/train.txt."""
    if path.suffix != ".txt" or path.parent.name != "Main":
        raise InputError(f"{path}: expected a path like VOC2012/ImageSets/Main/train.txt")
    positives_only(table, path, "VOC")
    stems = [name.removesuffix(".jpg") for name in table.images]
    for name, stem in zip(table.images, stems, strict=True):
        if name == stem or "/" in stem or stem.lstrip(BOM).split() != [stem]:
            raise InputError(f"{path}: image {name!r}: VOC knows plain names ending in .jpg only")
    for name in table.classes:
        if "/" in name or name.startswith(".") or name != name.strip():
            raise InputError(f"{path}: class {name!r} cannot be a part of a file name")
    stale = sorted(_class_lists(path, Problems()).keys() - set(table.classes))
    if stale:
        raise InputError(f"{path}: beside it is a list of another class, {stale[0]!r}; remove it")
    check_free(path, [path.with_name(f"{name}_{path.name}") for name in table.classes])
    path.parent.mkdir(parents=True, exist_ok=True)
    write_text_whole(path, "".join(f"{stem}\n" for stem in stems))
    for column, name in enumerate(table.classes):
        lines = [
            f"{stem} {' 1' if value == POSITIVE else '-1'}\n"
            for stem, value in zip(stems, table.values[:, column], strict=True)
        ]
        write_text_whole(path.with_name(f"{name}_{path.name}"), "".join(lines))
    return ["VOC looks for the images in JPEGImages; they were not copied"]


def _root(path: Path) -> Path:
    return path if path.is_dir() else path.parent.parent.parent


def _class_lists(path: Path, problems: Problems) -> dict[str, Path]:
    """The lists `<class>_train.txt` beside `train.txt`, by class."""
    lists = {}
    suffix = f"_{path.name}"
    for file in sorted(path.parent.iterdir()) if path.parent.is_dir() else ():
        if file.name.endswith(suffix) and not file.name.startswith("."):
            name = file.name.removesuffix(suffix)
            problem = class_problem(name)
            if problem is not None:
                problems.add(str(path), "class name", f"beside it, {file.name!r}: {problem}")
            lists[name] = file
    return dict(sorted(lists.items()))


def _identities(path: Path, problems: Problems) -> dict[str, int]:
    """Image ids, and the line of each."""
    ids: dict[str, int] = {}
    for line, text in numbered_lines(path, problems):
        where, identity = f"{path}:{line}", text.split()[0]
        if identity != text:
            what = f"expected an image id, got {text[:60]!r}; name the list of all classes, such as"
            problems.add(where, "list", f"{what} train.txt")
        elif identity in ids:
            what = f"image {identity!r} is listed already on line {ids[identity]}"
            problems.add(where, "image listed twice", what)
        ids.setdefault(identity, line)
    problems.raise_any()
    if not ids:
        raise InputError(f"{path}: expected image ids, one per line; the list is empty")
    return ids


def _read_lists(
    path: Path, ids: dict[str, int], lists: dict[str, Path], absent: int, problems: Problems
) -> LabelTable:
    collector = Collector(lambda place: f"{path}:{place}", lists, problems)
    row_of = {identity: collector.image(line, f"{identity}.jpg") for identity, line in ids.items()}
    for name, file in lists.items():
        seen: set[str] = set()
        for line, text in numbered_lines(file, problems):
            identity, *sign = text.split()
            where = f"{file}:{line}"
            if sign not in (["1"], ["-1"], ["0"]):
                what = f"expected an id and 1, -1 or 0, got {text[:60]!r}"
                problems.add(where, "list", what)
            elif identity in seen:
                problems.add(where, "image listed twice", f"image {identity!r} is there twice")
            elif identity not in row_of:
                problems.add(where, "unknown image", f"image {identity!r} is not in {path.name}")
            elif sign == ["1"]:
                collector.label(line, row_of[identity], name, POSITIVE)
            seen.add(identity)
        lacking = [identity for identity in ids if identity not in seen]
        if lacking:
            more = f" (nor are {len(lacking) - 1:,} more)" if len(lacking) > 1 else ""
            what = f"image {lacking[0]!r} of {path.name} is not in it{more}"
            problems.add(str(file), "list", what)
    return collector.table(absent)


def _read_xml(path: Path, ids: dict[str, int], absent: int, problems: Problems) -> LabelTable:
    folder = _root(path) / "Annotations"
    if not folder.is_dir():
        raise InputError(
            f"{path}: neither <class>_{path.stem}.txt beside it nor {folder} with XML files"
        )
    objects: list[tuple[str, set[str]]] = []
    classes: set[str] = set()
    for identity, line in ids.items():
        if "/" in identity or identity.startswith("."):
            problems.add(f"{path}:{line}", "image name", f"image {identity!r}: not a plain name")
            continue
        found = list(_objects(folder / f"{identity}.xml", problems))
        classes |= {name for name, _ in found}
        objects.append((identity, {name for name, difficult in found if not difficult}))
    problems.raise_any()
    collector = Collector(lambda place: f"{path}:{place}", sorted(classes), problems)
    for identity, present in objects:
        row = collector.new_image(ids[identity], f"{identity}.jpg")
        for name in present:
            collector.label(ids[identity], row, name, POSITIVE)
    return collector.table(absent)


class _Annotation(Walk):
    """The objects of an annotation, each with its name and difficulty, and their lines."""

    def __init__(self) -> None:
        super().__init__()
        self.objects: list[dict[str, str]] = []
        self.lines: list[int] = []

    def begin(self, name: str, attributes: dict[str, str]) -> None:
        """Refuse what is none, and take up an object."""
        if self.place[0] != "annotation":
            raise ValueError(f"expected <annotation>, got <{name[:40]}>")
        if self.place == ["annotation", "object"]:
            self.objects.append({"name": "", "difficult": ""})
            self.lines.append(self.parser.CurrentLineNumber)

    def text(self, content: str) -> None:
        """Keep what is said of an object."""
        outer, inner = self.place[:2], self.place[2:]
        if outer == ["annotation", "object"] and len(inner) == 1 and inner[0] in self.objects[-1]:
            self.objects[-1][inner[0]] += content


def _objects(path: Path, problems: Problems) -> Iterator[tuple[str, bool]]:
    """Class and difficulty of each object."""
    walk = _Annotation()
    try:
        walk.parser.Parse(read_bytes(path), True)
    except XML_ERRORS as problem:
        where = f"{path}:{walk.parser.CurrentLineNumber}"
        problems.add(where, "XML", f"not a readable annotation ({problem})")
        return
    except InputError as problem:
        problems.add(str(path), "XML", str(problem).removeprefix(f"{path}: "))
        return
    for line, each in zip(walk.lines, walk.objects, strict=True):
        name, difficult = each["name"].strip(), each["difficult"].strip()
        if not name:
            problems.add(f"{path}:{line}", "XML", "an object has no name")
        elif difficult not in ("", "0", "1"):
            what = f"difficult: expected 0 or 1, got {difficult[:40]!r}"
            problems.add(f"{path}:{line}", "XML", what)
        else:
            yield name, difficult == "1"
