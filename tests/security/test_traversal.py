"""Hostile image names in every format: refused, and nothing they lead to is ever opened."""

import json
import os
import sys
from urllib.parse import quote

import numpy as np
import pytest

from g2netpl.images.sources import locate
from g2netpl.labels.io import read_labels
from g2netpl.utils.errors import InputError

OPENED: list[str] | None = None


def _note_opened(event, arguments):
    if OPENED is not None and event in ("open", "os.listdir", "os.scandir"):
        OPENED.append(os.fsdecode(arguments[0]) if isinstance(arguments[0], str | bytes) else "")


sys.addaudithook(_note_opened)


pytestmark = pytest.mark.timeout(120)


@pytest.fixture
def photos(tmp_path):
    """A folder with one good image and many traps; what they lead to is outside."""
    root = tmp_path / "photos"
    outside = tmp_path / "outside"
    for folder in (root / "sub", root / "folder.jpg", outside):
        folder.mkdir(parents=True)
    for file in (root / "inside.jpg", tmp_path / "secret.jpg", outside / "secret.jpg"):
        file.write_bytes(b"")
    (root / "link.jpg").symlink_to(tmp_path / "secret.jpg")
    (root / "linked").symlink_to(outside)
    (root / "upwards").symlink_to("..")
    (root / "dangling.jpg").symlink_to("nowhere.jpg")
    (root / "loop.jpg").symlink_to("loop.jpg")
    (root / "zero.jpg").symlink_to("/dev/zero")
    os.mkfifo(root / "fifo.jpg")
    (root / "pipe.jpg").symlink_to("fifo.jpg")
    return root


BY_NAME = {  # refused whatever lies there
    "upwards": "../secret.jpg",
    "down and upwards": "sub/../../secret.jpg",
    "upwards from within": "sub/../inside.jpg",
    "two dots": "..",
    "absolute": "/etc/hostname",
    "absolute, of a device": "/dev/zero",
    "a drive": "C:\\Windows\\win.ini",
    "a drive and a relative path": "c:secret.jpg",
    "a share": "\\\\server\\share\\secret.jpg",
    "a share with slashes": "//server/share/secret.jpg",
    "upwards with backslashes": "..\\secret.jpg",
    "down and upwards with backslashes": "sub\\..\\..\\secret.jpg",
    "NUL": "inside.jpg\0.png",
    "an address": "http://example.org/secret.jpg",
    "an address of a file": "file:///etc/hostname",
    "empty": "",
    "blank": "  ",
}
HOSTILE = BY_NAME | {
    "percent-encoded": "..%2Fsecret.jpg",
    "percent-encoded dots": "%2e%2e/secret.jpg",
    "home": "~/secret.jpg",
    "a link to a file outside": "link.jpg",
    "a link to a folder outside": "linked/secret.jpg",
    "a link to the folder above": "upwards/secret.jpg",
    "a dangling link": "dangling.jpg",
    "a loop of links": "loop.jpg",
    "a link to a device": "zero.jpg",
    "a pipe": "fifo.jpg",
    "a link to a pipe": "pipe.jpg",
    "a folder": "folder.jpg",
    "too long": "x" * 300 + ".jpg",
    "too deep": "sub/" * 2000 + "a.jpg",
    "a dot": ".",
    "a slash at the end": "inside.jpg/",
    "below a file": "inside.jpg/secret.jpg",
    "half a character": "\udcff.jpg",
}


def put(path, content):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content.encode("utf-8", "surrogateescape"))
    return path


def cell(name):
    return '"' + name.replace('"', '""') + '"'


def parquet(folder, name, columns):
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow.parquet import write_table

    try:
        images = pyarrow.array([name], type=pyarrow.string())
    except UnicodeEncodeError:  # text only: nothing that Parquet could carry
        images = pyarrow.array([""])
    write_table(pyarrow.table({"image": images} | columns), folder / "labels.parquet")
    return folder / "labels.parquet"


def coco(folder, image):
    content = {
        "images": [{"id": 1} | image],
        "annotations": [{"image_id": 1, "category_id": 1}],
        "categories": [{"id": 1, "name": "cat"}],
    }
    return put(folder / "instances.json", json.dumps(content))


def tasks(folder, address):
    result = [{"type": "choices", "value": {"choices": ["cat"]}}]
    content = [{"data": {"image": address}, "annotations": [{"result": result}]}]
    return put(folder / "tasks.json", json.dumps(content))


def voc(folder, name):
    main = folder / "VOC2012/ImageSets/Main"
    put(main / "cat_train.txt", f"{name.removesuffix('.jpg')}  1\n")
    return put(main / "train.txt", f"{name.removesuffix('.jpg')}\n")


def voc_xml(folder, name):
    xml = "<annotation><object><name>cat</name></object></annotation>"
    put(folder / "VOC2012/Annotations/inside.xml", xml)
    put(folder / "VOC2012/secret.xml", xml)
    return put(folder / "VOC2012/ImageSets/Main/train.txt", f"{name.removesuffix('.jpg')}\n")


def nuswide(folder, name):
    put(folder / "TrainTestLabels/Labels_cat_Train.txt", "1\n")
    return put(folder / "ImageList/TrainImagelist.txt", f"{name}\n")


def spml(folder, name):
    np.save(folder / "formatted_train_labels.npy", np.ones((1, 1)))
    np.save(folder / "formatted_train_images.npy", np.array([name]))
    return folder / "formatted_train_labels.npy"


def workbook(folder, name):
    from openpyxl import Workbook
    from openpyxl.utils.exceptions import IllegalCharacterError

    book = Workbook()
    book.active.append(["image", "cat"])
    try:
        book.active.append([name, 1])
    except IllegalCharacterError:  # nothing that a workbook could carry
        book.active.append(["", 1])
    try:
        book.save(folder / "x.xlsx")
    except UnicodeEncodeError:
        return workbook(folder, "")
    return folder / "x.xlsx"


CARRIERS = {
    "xlsx": workbook,
    "csv": lambda folder, name: put(folder / "x.csv", f"image,cat\n{name},1\n"),
    "csv in quotes": lambda folder, name: put(folder / "x.csv", f"image,cat\n{cell(name)},1\n"),
    "tags": lambda folder, name: put(folder / "x.csv", f"image,labels\n{cell(name)},cat\n"),
    "openimages": lambda folder, name: put(
        folder / "x.csv", f"ImageID,LabelName,Confidence\n{cell(name)},cat,1\n"
    ),
    "parquet": lambda folder, name: parquet(folder, name, {"cat": [1]}),
    "parquet with tags": lambda folder, name: parquet(folder, name, {"labels": [["cat"]]}),
    "coco": lambda folder, name: coco(folder, {"file_name": name}),
    "lvis": lambda folder, name: coco(folder, {"coco_url": name, "neg_category_ids": []}),
    "label-studio": tasks,
    "label-studio, local": lambda folder, name: tasks(
        folder, f"/data/local-files/?d={quote(name, errors='surrogateescape')}"
    ),
    "label-studio, upload": lambda folder, name: tasks(
        folder, f"/data/upload/1/{quote(name, safe='', errors='surrogateescape')}"
    ),
    "voc": voc,
    "voc by xml": voc_xml,
    "nuswide": nuswide,
    "spml": spml,
    "imagefolder": lambda folder, name: put(
        folder / "metadata.jsonl", json.dumps({"file_name": name, "labels": ["cat"]})
    ),
}


@pytest.fixture
def labels(tmp_path):
    (tmp_path / "labels").mkdir()
    return tmp_path / "labels"


HARMLESS = {("lvis", "upwards from within")}  # of an address only the last part is taken
CHANGED = {("label-studio", "an address"), ("voc", "two dots"), ("openimages", "two dots")}
EVERYWHERE = ("upwards", "absolute", "NUL", "a link to a file outside", "a pipe")
PAIRS = [(carrier, trap) for trap in EVERYWHERE for carrier in CARRIERS]
PAIRS += [
    (carrier, trap)
    for trap in HOSTILE
    for carrier in ("csv in quotes", "label-studio, upload")
    if trap not in EVERYWHERE
]


@pytest.mark.parametrize(("carrier", "trap"), [pair for pair in PAIRS if pair not in HARMLESS])
def test_a_hostile_name_is_refused_and_opens_nothing(photos, labels, carrier, trap, monkeypatch):
    path = CARRIERS[carrier](labels, HOSTILE[trap])
    opened = []
    monkeypatch.setattr(sys.modules[__name__], "OPENED", opened)
    with pytest.raises(InputError):
        locate(read_labels(path).images, photos)
    monkeypatch.undo()
    if not carrier.startswith("parquet"):  # which pyarrow opens by itself, by its name alone
        assert any(name.startswith(str(labels)) for name in opened)
    listed = {str(photos / name) for name in ("", "sub", "folder.jpg")}  # to find what is meant
    for name in {*opened} - listed:
        assert "secret" not in name
        assert not name.startswith((str(photos), "/etc/hostname", "/dev/zero"))


@pytest.mark.parametrize(
    ("carrier", "trap"),
    [
        (carrier, trap)
        for carrier, trap in PAIRS
        if trap in BY_NAME and carrier != "lvis" and (carrier, trap) not in CHANGED
    ],
)
def test_a_name_that_leads_out_by_itself_is_refused_on_reading(labels, carrier, trap):
    with pytest.raises(InputError):
        read_labels(CARRIERS[carrier](labels, HOSTILE[trap]))


@pytest.mark.parametrize("carrier", CARRIERS)
def test_a_good_name_is_found(photos, labels, carrier):
    path = CARRIERS[carrier](labels, "inside.jpg")
    assert locate(read_labels(path).images, photos) == [str(photos / "inside.jpg")]
