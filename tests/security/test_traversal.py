"""Hostile image names in every format: refused, and nothing they lead to is ever opened."""

import json
import os
import pickle
import sys
from urllib.parse import quote

import numpy as np
import pytest
from PIL import Image

from g2netpl.base.errors import InputError
from g2netpl.images.pixels import header_problem, open_image, squashed
from g2netpl.images.sources import find, list_images, locate
from g2netpl.labels.formats import FORMATS, find_format, read_labels

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
PAIRS = [(carrier, trap) for trap in HOSTILE for carrier in CARRIERS]


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


ONE_NAME = {
    "a dot": "./sub/a.jpg",
    "two slashes": "sub//a.jpg",
    "a dot within": "sub/./a.jpg",
    "many": ".//./sub///.//a.jpg",
}
MADE_OTHERWISE = ("lvis", "label-studio, upload", "voc by xml")  # only a last part, or a file


@pytest.mark.parametrize("spelt", ONE_NAME)
@pytest.mark.parametrize("carrier", [each for each in CARRIERS if each not in MADE_OTHERWISE])
def test_a_name_with_idle_parts_is_the_plain_one(photos, labels, carrier, spelt):
    (photos / "sub" / "a.jpg").write_bytes(b"")
    (name,) = read_labels(CARRIERS[carrier](labels, ONE_NAME[spelt])).images
    assert name == "sub/a.jpg"
    assert locate([name], photos) == [str(photos / "sub/a.jpg")]


@pytest.mark.parametrize("name", ["a./b.jpg", ".a/b.jpg", "a.jpg", "a.b/.c"])
def test_a_dot_that_belongs_to_a_name_stays(labels, name):
    assert read_labels(CARRIERS["csv"](labels, name)).images == (name,)


@pytest.mark.parametrize("carrier", CARRIERS)
def test_a_good_name_is_found(photos, labels, carrier):
    path = CARRIERS[carrier](labels, "inside.jpg")
    assert locate(read_labels(path).images, photos) == [str(photos / "inside.jpg")]


def test_every_format_carries_names(tmp_path):
    found = []
    for number, make in enumerate(CARRIERS.values()):
        folder = tmp_path / str(number)
        folder.mkdir()
        found.append(find_format(make(folder, "inside.jpg")))
    # photo-tags finds photos and takes no names; pictures of huggingface are unpacked first
    names = FORMATS.keys() - {"photo-tags", "huggingface"}
    assert {id(row) for row in found} == {id(FORMATS[name]) for name in names}


# Links that are made after the names were checked

INSIDE, SECRET = (200, 30, 10), (10, 60, 220)


@pytest.fixture
def album(tmp_path):
    """A folder `in` with sub/a.png; `out` has a file of that name in another colour."""
    for folder, colour in (("in", INSIDE), ("out", SECRET)):
        (tmp_path / folder / "sub").mkdir(parents=True)
        Image.new("RGB", (8, 8), colour).save(tmp_path / folder / "sub" / "a.png")
    return tmp_path / "in"


def swap_file(album):
    (album / "sub" / "a.png").unlink()
    (album / "sub" / "a.png").symlink_to(album.parent / "out" / "sub" / "a.png")


def swap_folder(album):
    (album / "sub").rename(album / "was")
    (album / "sub").symlink_to("../out/sub")


def swap_upwards(album):
    (album / "sub").rename(album / "was")
    (album / "sub").symlink_to("../in/../out/sub")


SWAPS = [swap_file, swap_folder, swap_upwards]


def read_by_check(path):
    from g2netpl.images.inspection import look_at_files

    (facts,) = look_at_files([path], workers=0)
    if facts.problem is not None:
        raise InputError(facts.problem)


def read_by_training(path):
    from g2netpl.images.loader import ImageSource

    list(ImageSource([path], 8, (0, 0, 0), (1, 1, 1)).load([[0]], None))


def read_by_bundle(path):
    from g2netpl.runs.bundle import _read

    problems = _read(pickle.loads(pickle.dumps([path])), 8).problems  # as for another process
    if problems:
        raise InputError(problems[0])


def read_by_header(path):
    problem = header_problem(path)
    if problem is not None:
        raise InputError(problem)


def read_by_review(path):
    from g2netpl.images.thumbnails import small_jpeg

    small_jpeg(path, 256)


def read_by_report(path):
    from g2netpl.reports.gallery import small_photo

    small_photo(path)


READERS = {
    "open_image": open_image,
    "squashed": lambda path: squashed(path, 8),
    "header": read_by_header,
    "check": read_by_check,
    "training": read_by_training,
    "bundle": read_by_bundle,
    "review": read_by_review,
    "report": read_by_report,
}


@pytest.mark.parametrize("swap", SWAPS)
@pytest.mark.parametrize("reader", READERS)
def test_a_link_made_after_the_check_is_not_followed_out(album, reader, swap):
    (path,) = locate(["sub/a.png"], album)
    READERS[reader](path)
    swap(album)
    with pytest.raises(InputError, match="leads out of the image folder"):
        READERS[reader](path)


def test_links_that_stay_inside_are_followed(album):
    (album / "near.png").symlink_to("sub/a.png")
    (album / "near").symlink_to(album / "sub")
    (album.parent / "link").symlink_to(album)
    for root in (album, album.parent / "link", f"{album}/"):
        for path in locate(["near.png", "near/a.png", "sub/a.png"], root):
            again = pickle.loads(pickle.dumps(path))
            assert again == path
            assert open_image(again).getpixel((0, 0)) == INSIDE


def test_a_folder_that_may_only_be_passed_through_is(album):
    (path,) = locate(["sub/a.png"], album)
    (album / "sub").chmod(0o111)
    try:
        assert open_image(path).getpixel((0, 0)) == INSIDE
    finally:
        (album / "sub").chmod(0o755)


def test_a_pipe_swapped_in_does_not_hang(album):
    (path,) = locate(["sub/a.png"], album)
    (album / "sub" / "a.png").unlink()
    os.mkfifo(album / "sub" / "a.png")
    with pytest.raises(InputError, match="not a regular file"):
        open_image(path)
    (album / "sub" / "a.png").unlink()
    with pytest.raises(InputError, match="no such image"):
        open_image(path)


def test_every_path_of_a_training_knows_its_folder(tmp_path):
    """Listed, found in the folder, and of --unlabelled: all are checked as they are opened."""
    from g2netpl.runs.config import RunConfig
    from g2netpl.training.data import read_training_data

    names = [f"{number}.png" for number in range(8)]
    for folder in ("photos", "more", "out"):
        (tmp_path / folder).mkdir()
        for number, name in enumerate(names):
            Image.new("RGB", (8, 8), (20 * number, 0, 0)).save(tmp_path / folder / name)
    listed = "".join(f"{name},{number % 2}\n" for number, name in enumerate(names[:6]))
    (tmp_path / "labels.csv").write_text(f"image,cat\n{listed}")
    data = read_training_data(
        RunConfig(
            labels=str(tmp_path / "labels.csv"),
            images=str(tmp_path / "photos"),
            unlabelled=str(tmp_path / "more"),
            output=str(tmp_path / "run"),
        )
    )
    assert len(data.paths) == 16
    for path in data.paths:
        os.unlink(path)
        os.symlink(tmp_path / "out" / "0.png", path)
    for path in data.paths:
        assert "leads out of the image folder" in str(header_problem(path))


def test_every_path_of_predict_knows_its_folder(album, monkeypatch):
    """What a run is given, its loader processes are given too."""
    from g2netpl.images import loader as data
    from g2netpl.runs.run import Run

    (path,) = locate(list_images(album), album)
    assert find(["sub/a.png"], album).paths == [path]

    class Seen(Exception):
        pass

    def source(paths, *_, **__):
        swap_file(album)
        raise Seen(header_problem(paths[0]))

    monkeypatch.setattr(data, "ImageSource", source)
    run = Run(album, {"mean": [0, 0, 0], "std": [1, 1, 1], "classes": ["cat"]})
    run.__dict__["config"] = type("Config", (), {"image_size": 8})
    with pytest.raises(Seen, match="leads out"):
        run.predict([path])
