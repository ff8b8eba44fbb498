"""PASCAL VOC: name a list, `VOC2012/ImageSets/Main/train.txt`; the classes' lists are next to it.

`<class>_train.txt` says 1, −1 or 0 (difficult) for each image. Only 1 is positive; difficult is
negative, as in SPML. Without such lists `Annotations/<id>.xml` is read by the same rule: a class
whose objects are all difficult is negative.
"""

from collections.abc import Iterator
from pathlib import Path

from lxml import etree

from g2netpl.labels.io.builder import TableBuilder
from g2netpl.labels.io.issues import Issues
from g2netpl.labels.io.options import ReadOptions, class_problem, in_class_order
from g2netpl.labels.io.text import numbered_lines, read_bytes
from g2netpl.labels.table import POSITIVE, LabelTable
from g2netpl.utils.errors import InputError


def can_read(path: Path) -> bool:
    """A .txt file in ImageSets/Main."""
    return path.suffix == ".txt" and path.parent.name == "Main"


def image_folder(path: Path) -> Path:
    """JPEGImages of the same year."""
    return path.parent.parent.parent / "JPEGImages"


def read(path: Path, options: ReadOptions) -> LabelTable:
    """Read the images of a list; every issue names file and line."""
    issues = Issues()
    ids = _identities(path, issues)
    lists = _class_lists(path, issues)
    builder = _read_lists(path, ids, lists, issues) if lists else _read_xml(path, ids, issues)
    return in_class_order(builder.table(options.absent_value("negative")), options, str(path))


def _class_lists(path: Path, issues: Issues) -> dict[str, Path]:
    """The lists `<class>_train.txt` next to `train.txt`, by class."""
    lists = {}
    for file in path.parent.glob(f"*_{path.name}"):
        name = file.name.removesuffix(f"_{path.name}")
        if not file.name.startswith("."):
            problem = class_problem(name)
            if problem is not None:
                issues.add(str(path), "class name", f"next to it, {file.name!r}: {problem}")
            lists[name] = file
    return dict(sorted(lists.items()))


def _identities(path: Path, issues: Issues) -> dict[str, int]:
    """Image ids, and the line of each."""
    ids: dict[str, int] = {}
    for line, text in numbered_lines(path, issues):
        where, identity = f"{path}:{line}", text.split()[0]
        if identity != text:
            message = f"expected an image id, got {text[:60]!r}; name the list of all classes"
            issues.add(where, "list", f"{message}, such as train.txt")
        elif identity in ids:
            message = f"image {identity!r} is listed already on line {ids[identity]}"
            issues.add(where, "image listed twice", message)
        ids.setdefault(identity, line)
    issues.raise_any()
    if not ids:
        raise InputError(f"{path}: expected image ids, one per line; the list is empty")
    return ids


def _read_lists(
    path: Path, ids: dict[str, int], lists: dict[str, Path], issues: Issues
) -> TableBuilder:
    builder = TableBuilder(lambda place: f"{path}:{place}", lists, issues)
    row_of = {identity: builder.image(line, f"{identity}.jpg") for identity, line in ids.items()}
    for name, file in lists.items():
        seen: set[str] = set()
        for line, text in numbered_lines(file, issues):
            identity, *sign = text.split()
            where = f"{file}:{line}"
            if sign not in (["1"], ["-1"], ["0"]):
                message = f"expected an id and 1, -1 or 0, got {text[:60]!r}"
                issues.add(where, "list", message)
            elif identity in seen:
                issues.add(where, "image listed twice", f"image {identity!r} is there twice")
            elif identity not in row_of:
                issues.add(where, "unknown image", f"image {identity!r} is not in {path.name}")
            elif sign == ["1"]:
                builder.label(line, row_of[identity], name, POSITIVE)
            seen.add(identity)
        lacking = [identity for identity in ids if identity not in seen]
        if lacking:
            more = f" (nor are {len(lacking) - 1:,} more)" if len(lacking) > 1 else ""
            message = f"image {lacking[0]!r} of {path.name} is not in it{more}"
            issues.add(str(file), "list", message)
    return builder


def _read_xml(path: Path, ids: dict[str, int], issues: Issues) -> TableBuilder:
    folder = path.parent.parent.parent / "Annotations"
    if not folder.is_dir():
        raise InputError(
            f"{path}: neither <class>_{path.stem}.txt next to it nor {folder} with XML files"
        )
    objects: list[tuple[str, list[tuple[str, bool]]]] = []
    for identity, line in ids.items():
        if "/" in identity or identity.startswith("."):
            message = f"image {identity!r}: not a plain name"
            issues.add(f"{path}:{line}", "image name", message)
        else:
            objects.append((identity, list(_objects(folder / f"{identity}.xml", issues))))
    issues.raise_any()
    classes = sorted({name for _, found in objects for name, _ in found})
    builder = TableBuilder(lambda place: f"{path}:{place}", classes, issues)
    for identity, found in objects:
        row = builder.image(ids[identity], f"{identity}.jpg")
        for name in {name for name, difficult in found if not difficult}:
            builder.label(ids[identity], row, name, POSITIVE)
    return builder


def _objects(path: Path, issues: Issues) -> Iterator[tuple[str, bool]]:
    """Class and difficulty of each object."""
    try:
        content = read_bytes(path)
        root = etree.fromstring(content, etree.XMLParser(resolve_entities=False, no_network=True))
        if root.getroottree().docinfo.internalDTD is not None:
            raise ValueError("a DOCTYPE is refused; remove it")
        if root.tag != "annotation":
            raise ValueError(f"expected <annotation>, got <{root.tag!s:.40}>")
    except InputError as problem:
        issues.add(str(path), "XML", str(problem).removeprefix(f"{path}: "))
        return
    except (etree.XMLSyntaxError, ValueError) as problem:
        line = getattr(problem, "lineno", None) or 1
        issues.add(f"{path}:{line}", "XML", f"not a readable annotation ({problem})")
        return
    for each in root.findall("object"):
        where = f"{path}:{each.sourceline}"
        name, difficult = (each.findtext(tag, "").strip() for tag in ("name", "difficult"))
        if not name:
            issues.add(where, "XML", "an object has no name")
        elif difficult not in ("", "0", "1"):
            issues.add(where, "XML", f"difficult: expected 0 or 1, got {difficult[:40]!r}")
        else:
            yield name, difficult == "1"
