"""PASCAL VOC: name a list, `VOC2012/ImageSets/Main/train.txt`; the classes' lists are next to it.

`<class>_train.txt` says 1, −1 or 0 (difficult) for each image. Only 1 is positive; difficult is
negative, as in SPML. Without such lists `Annotations/<id>.xml` is read by the same rule: a class
whose objects are all difficult is negative.
"""

from pathlib import Path

from lxml import etree

from g2netpl.labels.io.build import long_table
from g2netpl.labels.io.issues import Issues, numbered_lines, read_bytes
from g2netpl.labels.io.options import ReadOptions, check_classes
from g2netpl.labels.names import plain_names
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
    issues, lines = Issues(), dict[str, int]()
    for line, text in numbered_lines(path, issues):
        if len(text.split()) > 1:
            message = f"expected an image id, got {text[:60]!r}; name the list of all classes"
            issues.add(f"{path}:{line}", "list", f"{message}, such as train.txt")
        elif lines.setdefault(text, line) != line:
            message = f"image {text!r} is listed already on line {lines[text]}"
            issues.add(f"{path}:{line}", "image listed twice", message)
    issues.raise_any()
    if not lines:
        raise InputError(f"{path}: expected image ids, one per line; the list is empty")
    lists = {  # `<class>_train.txt`, next to `train.txt`
        file.name.removesuffix(f"_{path.name}"): file
        for file in sorted(path.parent.glob(f"[!.]*_{path.name}"))
    }
    check_classes(list(lists), str(path), issues)
    if lists:
        present = {name: _read_list(file, lines, issues) for name, file in lists.items()}
    else:
        present = _read_xml(path, list(lines), issues)
    row = {identity: number for number, identity in enumerate(lines)}
    places = [f"{path}:{line}" for line in lines.values()]
    found = [(row[image], name, POSITIVE) for name, images in present.items() for image in images]
    return long_table(
        plain_names([f"{identity}.jpg" for identity in lines]),
        found,
        places.__getitem__,
        issues,
        list(present),
        options.absent_value("negative"),
    )


def _read_list(file: Path, known: dict[str, int], issues: Issues) -> list[str]:
    """The images with 1 in the list of a class, which must have all images."""
    signs: dict[str, str] = {}
    for line, text in numbered_lines(file, issues):
        identity, _, sign = text.partition(" ")
        signs[identity] = sign.strip()
        if signs[identity] not in ("1", "-1", "0") or identity not in known:
            message = f"expected an id of the list of all classes and 1, -1 or 0, got {text[:60]!r}"
            issues.add(f"{file}:{line}", "list", message)
    for identity in [identity for identity in known if identity not in signs][:1]:
        issues.add(str(file), "list", f"image {identity!r} of the list of all classes is not in it")
    return [identity for identity, sign in signs.items() if sign == "1" and identity in known]


def _read_xml(path: Path, known: list[str], issues: Issues) -> dict[str, list[str]]:
    """The images with an object of each class that is not difficult, by class."""
    folder = path.parent.parent.parent / "Annotations"
    if not folder.is_dir():
        raise InputError(
            f"{path}: neither <class>_{path.stem}.txt next to it nor {folder} with XML files"
        )
    present: dict[str, list[str]] = {}
    for identity in known:
        file = folder / f"{identity}.xml"
        if "/" in identity or identity.startswith("."):
            issues.add(str(path), "image name", f"image {identity!r}: not a plain name")
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
        for item in root.findall("object"):
            name, difficult = (item.findtext(tag, "").strip() for tag in ("name", "difficult"))
            if not name or difficult not in ("", "0", "1"):
                message = "an object has no name, or its difficult is not 0 or 1"
                issues.add(f"{file}:{item.sourceline}", "XML", message)
            images = present.setdefault(name, [])
            if difficult != "1":
                images.append(identity)
    issues.raise_any()
    return dict(sorted(present.items()))
