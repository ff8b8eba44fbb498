"""PASCAL VOC: name a list, `VOC2012/ImageSets/Main/train.txt`; the classes' lists are next to it.

`<class>_train.txt` says 1, −1 or 0 (difficult) for each image. Only 1 is positive; difficult is
negative, as in SPML. Without such lists `Annotations/<id>.xml` is read by the same rule: a class
whose objects are all difficult is negative.
"""

from pathlib import Path

from lxml import etree

from g2netpl.labels.io.builder import TableBuilder
from g2netpl.labels.io.issues import Issues
from g2netpl.labels.io.options import ReadOptions, check_classes, in_class_order
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
    issues, line_of = Issues(), dict[str, int]()
    for line, text in numbered_lines(path, issues):
        if len(text.split()) > 1:
            message = f"expected an image id, got {text[:60]!r}; name the list of all classes"
            issues.add(f"{path}:{line}", "list", f"{message}, such as train.txt")
        elif line_of.setdefault(text, line) != line:
            message = f"image {text!r} is listed already on line {line_of[text]}"
            issues.add(f"{path}:{line}", "image listed twice", message)
    issues.raise_any()
    if not line_of:
        raise InputError(f"{path}: expected image ids, one per line; the list is empty")
    lists = _class_lists(path)
    check_classes(list(lists), str(path), issues)
    if lists:
        present = {name: _read_list(file, line_of, issues) for name, file in lists.items()}
    else:
        present = _read_xml(path, line_of, issues)
    builder = TableBuilder(lambda line: f"{path}:{line}", present, issues)
    row_of = {name: builder.image(line, f"{name}.jpg") for name, line in line_of.items()}
    for name, identities in present.items():
        for identity in identities:
            builder.label(line_of[identity], row_of[identity], name, POSITIVE)
    return in_class_order(builder.table(options.absent_value("negative")), options, str(path))


def _class_lists(path: Path) -> dict[str, Path]:
    """The lists `<class>_train.txt` next to `train.txt`, by class."""
    files = sorted(path.parent.glob(f"[!.]*_{path.name}"))
    return {file.name.removesuffix(f"_{path.name}"): file for file in files}


def _read_list(file: Path, known: dict[str, int], issues: Issues) -> list[str]:
    """The images with 1 in the list of a class, which must have all images."""
    signs: dict[str, str] = {}
    for line, text in numbered_lines(file, issues):
        identity, _, sign = text.partition(" ")
        if sign.strip() not in ("1", "-1", "0"):
            message = f"expected an id and 1, -1 or 0, got {text[:60]!r}"
            issues.add(f"{file}:{line}", "list", message)
        elif identity not in known:
            message = f"image {identity!r} is not in the list of all classes"
            issues.add(f"{file}:{line}", "unknown image", message)
        signs[identity] = sign.strip()
    for identity in [identity for identity in known if identity not in signs][:1]:
        issues.add(str(file), "list", f"image {identity!r} of the list of all classes is not in it")
    return [identity for identity in known if signs.get(identity) == "1"]


def _read_xml(path: Path, known: dict[str, int], issues: Issues) -> dict[str, list[str]]:
    """The images with an object of each class that is not difficult, by class."""
    folder = path.parent.parent.parent / "Annotations"
    if not folder.is_dir():
        raise InputError(
            f"{path}: neither <class>_{path.stem}.txt next to it nor {folder} with XML files"
        )
    present: dict[str, list[str]] = {}
    for identity, line in known.items():
        file = folder / f"{identity}.xml"
        if "/" in identity or identity.startswith("."):
            issues.add(f"{path}:{line}", "image name", f"image {identity!r}: not a plain name")
            continue
        try:
            parser = etree.XMLParser(resolve_entities=False, no_network=True)
            root = etree.fromstring(read_bytes(file), parser)
            if root.tag != "annotation" or root.getroottree().docinfo.doctype:
                raise ValueError("expected <annotation>, and no DOCTYPE")
        except InputError as problem:
            issues.add(str(file), "XML", str(problem).removeprefix(f"{file}: "))
            continue
        except (etree.XMLSyntaxError, ValueError) as problem:
            place = f"{file}:{getattr(problem, 'lineno', None) or 1}"
            issues.add(place, "XML", f"not a readable annotation ({problem})")
            continue
        for each in root.findall("object"):
            name, difficult = (each.findtext(tag, "").strip() for tag in ("name", "difficult"))
            if not name or difficult not in ("", "0", "1"):
                message = "an object has no name" if not name else "difficult: expected 0 or 1"
                issues.add(f"{file}:{each.sourceline}", "XML", message)
            images = present.setdefault(name, [])
            if difficult != "1":
                images.append(identity)
    issues.raise_any()
    return dict(sorted(present.items()))
