"""Malformed label files, each with a cause of its own, and what must be said of it.

CASES   name → `Case`: how to put it into a folder (gives the path to read), what the line on
        stderr must contain (file, place, what is wrong), and more flags of the command
"""

import io
import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np


@dataclass(frozen=True)
class Case:
    put: Callable[[Path], Path]
    says: str
    flags: tuple[str, ...] = ()


def put(path, content=b""):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def files(name, content, **more):
    """A label file, and others beside it."""

    def make(folder):
        for other, text in more.items():
            put(folder / other.replace("__", "/").replace("_txt", ".txt"), text)
        return put(folder / name, content)

    return make


def csv(content, name="labels.csv"):
    return files(name, content)


# JSON

COCO = {
    "images": [{"id": 1, "file_name": "a.jpg"}, {"id": 2, "file_name": "b.jpg"}],
    "annotations": [{"image_id": 1, "category_id": 1}, {"image_id": 2, "category_id": 2}],
    "categories": [{"id": 1, "name": "cat"}, {"id": 2, "name": "dog"}],
}


def coco(**changes):
    return files("instances.json", json.dumps(COCO | changes))


def raw(text):
    return files("instances.json", text)


def entry(key, **changes):
    """The second entry of a list changed; a value of None leaves the key out."""
    changed = COCO[key][1] | changes
    changed = {name: value for name, value in changed.items() if value is not None}
    return coco(**{key: [COCO[key][0], changed]})


def tasks(*content):
    return files("tasks.json", json.dumps(content))


def task(*results, image="b.jpg"):
    good = {"data": {"image": "a.jpg"}, "annotations": [{"result": [choice(["cat"])]}]}
    return tasks(good, {"data": {"image": image}, "annotations": [{"result": list(results)}]})


def choice(names, control="label"):
    return {"type": "choices", "from_name": control, "value": {"choices": names}}


# PASCAL VOC and NUS-WIDE


def voc(train="a\nb\n", cat="a  1\nb -1\n", name="train.txt"):
    def make(folder):
        main = folder / "VOC2012/ImageSets/Main"
        put(main / "cat_train.txt", cat)
        put(main / "train.txt", train)
        return main / name

    return make


def xml(content, train="a\n", name="a"):
    def make(folder):
        put(folder / f"VOC2012/Annotations/{name}.xml", content)
        return put(folder / "VOC2012/ImageSets/Main/train.txt", train)

    return make


def annotation(inside):
    return f"<annotation>\n<object>{inside}</object>\n</annotation>\n"


def nus(images="a.jpg\nb.jpg\n", cat="1\n0\n", name="TrainImagelist.txt", concepts=None):
    def make(folder):
        if cat is not None:
            put(folder / "TrainTestLabels/Labels_cat_Train.txt", cat)
        if concepts is not None:
            put(folder / "Concepts81.txt", concepts)
        return put(folder / "ImageList" / name, images)

    return make


LAUGHS = "".join(f'<!ENTITY l{n} "{f"&l{n - 1};" * 10}">\n' for n in range(1, 10))
BILLION_LAUGHS = (
    f'<?xml version="1.0"?>\n<!DOCTYPE a [\n<!ENTITY l0 "lol">\n{LAUGHS}]>\n<a>&l9;</a>'
)

# .npy


def saved(array, pickled=False):
    buffer = io.BytesIO()
    np.save(buffer, array, allow_pickle=pickled)
    return buffer.getvalue()


LABELS = np.array([[1.0, 0.0], [0.0, 1.0]])


def spml(labels=LABELS, images=("a.jpg", "b.jpg"), classes=None):
    def make(folder):
        for what, content in (("labels", labels), ("images", images), ("classes", classes)):
            if content is not None:
                content = content if isinstance(content, bytes) else saved(np.array(content))
                put(folder / f"formatted_val_{what}.npy", content)
        return folder / "formatted_val_labels.npy"

    return make


# Parquet


def parquet(names, *columns, damage=lambda data: data):
    def make(folder):
        import pyarrow
        from pyarrow.parquet import write_table

        write_table(pyarrow.table(list(columns), names=names), folder / "labels.parquet")
        path = folder / "labels.parquet"
        return put(path, damage(path.read_bytes()))

    return make


# What is no file


def fifo(folder):
    os.mkfifo(folder / "labels.csv")
    return folder / "labels.csv"


def odd_file_name(folder):
    put(Path(os.fsdecode(os.fsencode(folder) + b"/photos/cat/\xff.jpg")), "")
    return folder / "photos"


def line(content):
    return files("metadata.jsonl", f'{{"file_name": "a.jpg", "labels": ["cat"]}}\n{content}\n')


# Hugging Face


def saved_state(state, content=b""):
    def make(folder):
        put(folder / "saved/data.arrow", content)
        return put(folder / "saved/state.json", json.dumps(state)).parent

    return make


captions = "".join(f"{number}.jpg,caption {number}\n" for number in range(70_000))

# Photos

LAUGHS_OF_RDF = "<!DOCTYPE a [<!ENTITY a0 'ha'>" + "".join(
    f"<!ENTITY a{level + 1} '{f'&a{level};' * 10}'>" for level in range(9)
)
LAUGHS_OF_RDF += "]><rdf:RDF>&a9;</rdf:RDF>"


def sidecar(content):
    """A photo without anything in it, and tags beside it."""

    def make(folder):
        put(folder / "photos/a.jpg.xmp", content)
        return put(folder / "photos/a.jpg", "").parent

    return make


CASES = {
    # wide CSV
    "csv: a quote is never closed": Case(
        csv('image,a\nx,1\n"y,1\nz,1\n'), "labels.csv:3: a quote is opened in this row and never"
    ),
    "csv: NUL": Case(csv("image,a\nx,1\ny\0,1\n"), "labels.csv:3: a NUL character"),
    "csv: not in the encoding that was told": Case(
        csv("image,a\nx\x81,1\n".encode("latin-1")),
        "labels.csv:2: expected text in the encoding cp1252, which it is not (byte 9)",
        ("--encoding", "cp1252"),
    ),
    "csv: other columns": Case(
        csv("image,Date,cat,Lens Model\nx,2019-05-01,1,EF 50\ny,2019-05-02,0,\nz,,1,\n"),
        "labels.csv:1: no labels (1, 0 or nothing) in the columns 'Date' (as '2019-05-01'), "
        "'Lens Model' (as 'EF 50'); leave them out: --set ignore_columns='Date,Lens Model'",
    ),
    "csv: a pipe": Case(fifo, "labels.csv: not a regular file"),
    # tags
    "tags: none at all": Case(
        csv("image,labels\na,\nb,;\n", "tags.csv"), "tags.csv: no image has a tag"
    ),
    "tags: there and not there": Case(
        csv("image,labels,absent\na,cat,dog\nb,cat;dog,cat\n", "tags.csv"),
        "tags.csv:3: image 'b', class 'cat': negative here, positive elsewhere",
    ),
    "tags: captions": Case(
        csv(f"image,labels\n{captions}", "tags.csv"), "tags.csv: 70,000 images × 70,000 classes"
    ),
    "tags: a column that is not there": Case(
        csv("image,labels\na,cat\n", "tags.csv"),
        "tags.csv:1: --set tags_column=label: no column 'label' (did you mean 'labels'?)",
        ("--tags-column", "label"),
    ),
    # OpenImages
    "openimages: a column is missing": Case(
        csv("ImageID,LabelName\na,cat\n", "oi.csv"),
        "oi.csv:1: expected the columns ImageID, LabelName, Confidence; got 'ImageID,LabelName'",
    ),
    "openimages: labels by machines": Case(
        csv("ImageID,LabelName,Confidence\na,cat,0.7\n", "oi.csv"),
        "oi.csv:2: Confidence: expected 1 or 0, got '0.7'; machine-made labels are not",
    ),
    # COCO
    "json: cut off": Case(
        raw(json.dumps(COCO, indent=1)[:-20]), "instances.json: Invalid JSON: EOF while parsing"
    ),
    "coco: an image id twice": Case(entry("images", id=1), "instances.json: id 1 occurs twice"),
    # Label Studio
    "label studio: data without image": Case(
        tasks({"data": {"x": "a", "y": "b"}}), "[0]: expected the image's name in 'data'"
    ),
    # PASCAL VOC
    "voc: an image is missing in a class list": Case(
        voc(cat="a  1\n"), "cat_train.txt: image 'b' of the list of all classes is not in it"
    ),
    "voc: a class list as label file": Case(
        voc(name="cat_train.txt"), "cat_train.txt:1: expected an image id, got 'a 1'"
    ),
    "voc: its folder": Case(
        lambda folder: put(voc()(folder).parents[2] / "JPEGImages/a.jpg").parents[1],
        "VOC2012: images are in folders called JPEGImages, which are not names of classes; read ",
    ),
    "xml: billion laughs": Case(xml(BILLION_LAUGHS), "a.xml:1: not a readable annotation ("),
    "xml: no name": Case(xml(annotation("<pose>Left</pose>")), "a.xml:2: an object has no name"),
    "xml: an id that is a path": Case(
        xml("<annotation/>", "a\nx/b\n"),
        "train.txt: image 'x/b': not a plain name",
    ),
    # NUS-WIDE
    "nuswide: a label too few": Case(
        nus(cat="1\n"), "Labels_cat_Train.txt: expected 2 labels, one per image, got 1"
    ),
    "nuswide: a concept that is a path": Case(
        nus(concepts="../cat\n"), "concept '../cat' cannot be part of a file name"
    ),
    # SPML
    "npy: pickled objects": Case(
        spml(saved(np.array([[{}]], dtype=object), pickled=True)),
        "formatted_val_labels.npy: not a readable .npy file (Object arrays cannot be loaded",
    ),
    "npy: a name that leads out": Case(
        spml(images=("a.jpg", "../b.jpg")), "formatted_val_images.npy: row 1: image '../b.jpg': le"
    ),
    # Parquet
    "parquet: cut off": Case(
        parquet(["image", "cat"], ["a"], [1], damage=lambda data: data[: len(data) // 2]),
        "labels.parquet: not a readable Parquet file (",
    ),
    # folders
    "folder: a file name that is no text": Case(odd_file_name, "the file name is not valid UTF-8"),
    "folder: a line of broken JSON": Case(
        line("{"), "metadata.jsonl:2: expected a JSON object, got Expecting property name"
    ),
    "photos: a sidecar of a billion laughs": Case(
        sidecar(LAUGHS_OF_RDF), "keywords of 1 file cannot be read", ("--format", "photo-tags")
    ),
    # Hugging Face
    "huggingface: the state names a file elsewhere": Case(
        saved_state({"_data_files": [{"filename": "../data.arrow"}]}),
        "state.json: leads out of the folder: '../data.arrow'",
    ),
}
