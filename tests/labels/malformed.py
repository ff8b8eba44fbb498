"""Malformed label files, each with a cause of its own, and what must be said of it.

CASES   name → `Case`: how to put it into a folder (gives the path to read), what the line on
        stderr must contain (file, place, what is wrong), and more flags of the command
"""

import gzip
import io
import json
import os
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import packed


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
EXTERNAL = '<!DOCTYPE a [<!ENTITY x SYSTEM "file:///etc/passwd">]>\n<annotation>&x;</annotation>'

# .npy


def saved(array, pickled=False):
    buffer = io.BytesIO()
    np.save(buffer, array, allow_pickle=pickled)
    return buffer.getvalue()


def header(text, version=b"\x01\x00"):
    text = text.ljust(117) + "\n"
    return b"\x93NUMPY" + version + len(text).to_bytes(2, "little") + text.encode()


def zipped():
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("labels.npy", saved(np.ones((2, 2))))
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


def a_folder(folder):
    (folder / "labels.csv").mkdir()
    return folder / "labels.csv"


def odd_file_name(folder):
    put(Path(os.fsdecode(os.fsencode(folder) + b"/photos/cat/\xff.jpg")), "")
    return folder / "photos"


def line(content):
    return files("metadata.jsonl", f'{{"file_name": "a.jpg", "labels": ["cat"]}}\n{content}\n')


# Hugging Face


def packed_labels(labels):
    return lambda folder: packed.pictures(folder / "data.parquet", labels)


def packed_columns(**columns):
    images = ["a.png", "b.png"]
    return lambda folder: packed.write(
        folder / "data.parquet", {"image": packed.images(images), **columns}
    )


def saved_state(state, content=b""):
    def make(folder):
        put(folder / "saved/data.arrow", content)
        return put(folder / "saved/state.json", json.dumps(state)).parent

    return make


captions = "".join(f"{number}.jpg,caption {number}\n" for number in range(70_000))

# Photos

XMP = """<rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#"><rdf:Description>
<dc:subject xmlns:dc="http://purl.org/dc/elements/1.1/"><rdf:Bag><rdf:li>cat</rdf:li></rdf:Bag>
</dc:subject></rdf:Description></rdf:RDF>"""
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
    "csv: a row is too short": Case(
        csv("image,a,b\nx,1,0\ny,1\n"), "labels.csv:3: expected 3 cells as in the header, got 2"
    ),
    "csv: a quote is never closed": Case(
        csv('image,a\nx,1\n"y,1\nz,1\n'), "labels.csv:3: a quote is opened in this row and never"
    ),
    "csv: text follows a quote": Case(csv('image,a\n"x"y,1\n'), "labels.csv:2: ',' expected after"),
    "csv: NUL": Case(csv("image,a\nx,1\ny\0,1\n"), "labels.csv:3: a NUL character"),
    "csv: latin-1": Case(
        csv("image,a\né,1\n".encode("latin-1")),
        "labels.csv:2: expected UTF-8 text, byte 8 is 0xe9; save the file as UTF-8, or for CSV "
        "name its encoding, as --encoding cp1252",
    ),
    "csv: half of UTF-16": Case(
        csv("image,a\nx,1\n".encode("utf-16")[:-1]), "labels.csv:1: expected text in the encoding"
    ),
    "csv: not in the encoding that was told": Case(
        csv("image,a\nx\x81,1\n".encode("latin-1")),
        "labels.csv:1: expected text in the encoding cp1252, which it is not (byte 9)",
        ("--encoding", "cp1252"),
    ),
    "csv: compressed": Case(
        csv(gzip.compress(b"image,a\n", mtime=0)), "labels.csv:1: expected UTF-8 text, byte 1 is"
    ),
    "csv: a class twice": Case(csv("image,a,b,a\n"), "labels.csv:1: class 'a' is listed twice"),
    "csv: a class without name": Case(
        csv("image,a,,b\n"), "labels.csv:1: column 3 has no class name"
    ),
    "csv: a word as label": Case(
        csv("image,a,b\nx,1,0\ny,0,perhaps\n"),
        "labels.csv:3: class 'b': expected 1, 0 or an empty cell (unobserved), got 'perhaps'",
    ),
    "csv: a score as label": Case(
        csv("image,a\nx,0.5\ny,1\n"), "labels.csv:2: class 'a': expected 1, 0"
    ),
    "csv: an image with two answers": Case(
        csv("image,a\nx,1\ny,1\nx,0\n"), "labels.csv:4: image 'x' is listed already ("
    ),
    "csv: other columns": Case(
        csv("image,Date,cat,Lens Model\nx,2019-05-01,1,EF 50\ny,2019-05-02,0,\nz,,1,\n"),
        "labels.csv:1: no labels (1, 0 or nothing) in the columns 'Date' (as '2019-05-01'), "
        "'Lens Model' (as 'EF 50'); leave them out: --ignore-columns 'Date,Lens Model'",
    ),
    "csv: captions": Case(
        csv("image,caption\nx,a cat\ny,a dog\n"),
        "labels.csv:1: no column holds labels: 'caption' (as 'a cat'); tags are read with "
        "--tags-column caption",
    ),
    "csv: captions in German": Case(
        csv("image,Was zu sehen ist\nx,Hund\ny,Katze\n"),
        "tags are read with --tags-column 'Was zu sehen ist'",
    ),
    "csv: a header of letters that are not plain": Case(
        csv("image,Hürden\nx,Hund\ny,Katze\n"), "tags are read with --tags-column Hürden"
    ),
    "csv: rows that contradict": Case(
        csv("image,a,b\nx,1,\ny,1,0\nx,0,1\n"),
        "labels.csv:4: image 'x', class 'a': another row says the opposite",
        ("--duplicates", "unite"),
    ),
    "csv: no header": Case(
        csv("x.jpg,1,0\ny.jpg,0,1\n"),
        "labels.csv:1: expected a header 'image,<class>,…', 'image,la",
    ),
    "csv: semicolons in the header alone": Case(
        csv("image;a;b;c\nx,1,0,1\n"), "labels.csv:2: expected 4 cells as in the header, got 1"
    ),
    "csv: tabs in a row alone": Case(
        csv("image,b\nx\t1\n"), "labels.csv:2: expected 2 cells as in the header, got 1"
    ),
    "csv: semicolons after another word": Case(csv("id;a;b\nx;1;0\n"), "got 'id;a;b'"),
    "csv: nothing in it": Case(csv(""), "labels.csv:1: expected a header 'image,<class>,…', "),
    "csv: a header without class": Case(csv("image\nx\n"), "labels.csv:1: expected a header"),
    "csv: another first column": Case(
        csv("id,a,b\n1,1,0\n"), "'image,labels' or 'image,tags', got 'id,a,b'"
    ),
    "csv: a row without image": Case(
        csv("image,a\n,1\n"), "labels.csv:2: image '': the name is em"
    ),
    "csv: an absolute name": Case(
        csv("image,a\nx,1\n/etc/passwd,1\n"), "labels.csv:3: image '/etc/passwd': leads out"
    ),
    "csv: a name that leads out": Case(
        csv("image,a\nx/../../y,1\n"), "labels.csv:2: image 'x/../../y': leads out of the image"
    ),
    "csv: an address": Case(
        csv("image,a\nhttp://x/y.jpg,1\n"), "labels.csv:2: image 'http://x/y.jpg': expected a file"
    ),
    "csv: an endless cell": Case(
        csv(f'image,a\n"{"x" * 200_000}",1\n'), "labels.csv:2: field larger than field limit"
    ),
    "csv: an endless header": Case(
        csv(f"image,{'x' * 200_000}\nx,1\n"), "labels.csv:1: field larger than field limit"
    ),
    "csv: a folder": Case(a_folder, "labels.csv: expected a folder per class with images in it"),
    "csv: a pipe": Case(fifo, "labels.csv: not a regular file"),
    "csv: not there": Case(lambda folder: folder / "labels.csv", "labels.csv: no such label file"),
    "csv: a name too long": Case(
        lambda folder: folder / f"{'x' * 300}.csv", ".csv: cannot be read (File name too long)"
    ),
    "csv: read as JSON": Case(
        csv("image,a\nx,1\n"),
        "labels.csv:1: not valid JSON (Expecting value, column 1)",
        ("--format", "coco"),
    ),
    "csv: a class not in the list": Case(
        files("labels.csv", "image,cat,dgo\nx,1,1\n", classes_txt="cat\ndog\n"),
        "labels.csv:1: unknown class 'dgo' (did you mean 'dog'?)",
        ("--classes", "classes.txt"),
    ),
    "csv: a list of classes with one twice": Case(
        files("labels.csv", "image,cat\nx,1\n", classes_txt="cat\ndog\ncat\n"),
        "classes.txt:3: class 'cat' is listed twice",
        ("--classes", "classes.txt"),
    ),
    "csv: a list of no classes": Case(
        files("labels.csv", "image,cat\nx,1\n", classes_txt="\n"),
        "classes.txt: expected class names, one per line; the file is empty",
        ("--classes", "classes.txt"),
    ),
    "some other file": Case(
        csv("a\tb\n", "labels.dat"), "labels.dat: not a known label file; --format is one of"
    ),
    # tags
    "tags: separated by commas": Case(
        csv("image,labels\na,cat,dog\n", "tags.csv"),
        "tags.csv:2: expected 2 cells as in the header, got 3; separate tags by ';' or '|'",
    ),
    "tags: separated as the columns are": Case(
        csv("image;labels\na;cat;dog\n", "tags.csv"),
        "tags.csv:2: expected 2 cells as in the header, got 3; separate tags by ',' or '|'",
    ),
    "tags: none at all": Case(
        csv("image,labels\na,\nb,;\n", "tags.csv"), "tags.csv: no image has a tag"
    ),
    "tags: none at all, in a column of another name": Case(
        csv("image,tags\na,\n", "tags.csv"), "no image has a tag; expected tags in 'tags'"
    ),
    "tags: a header alone": Case(
        csv("image,tags\n", "tags.csv"), "tags.csv: no rows, and so no images; expected tags in"
    ),
    "tags: there and not there": Case(
        csv("image,labels,absent\na,cat,dog\nb,cat;dog,cat\n", "tags.csv"),
        "tags.csv:3: image 'b', class 'cat': negative here, positive elsewhere",
    ),
    "tags: an image with two answers": Case(
        csv("image,labels\na,cat\na,dog\n", "tags.csv"), "tags.csv:3: image 'a' is listed already"
    ),
    "tags: captions": Case(
        csv(f"image,labels\n{captions}", "tags.csv"), "tags.csv: 70,000 images × 70,000 classes"
    ),
    "tags: commas between them": Case(
        csv('image,labels\na,"cat, dog"\nb,cat\nc,dog\n', "tags.csv"),
        "tags.csv: 'cat, dog' looks like several tags, since 'cat' and 'dog' are found elsewhere; "
        "give --separator ',' if so (';,' where both are), or ';' if the comma is a part of it",
    ),
    "tags: slashes between them": Case(
        csv("image,labels\na,cat/dog\nb,cat\nc,dog\n", "tags.csv"),
        "tags.csv: 'cat/dog' looks like several tags, since 'cat' and 'dog' are found elsewhere; "
        "give --separator '/' if so (';/' where both are), or ';' if the slash is a part of it",
    ),
    "tags: spaces between them": Case(
        csv("image;labels\na;cat dog\nb;cat\nc;dog\nd;dog cat\n", "tags.csv"),
        "tags.csv: 'cat dog' looks like several tags, since 'cat' and 'dog' are found elsewhere; "
        "give --separator ' ' if so, or ',' if the space is a part of it",
    ),
    "tags: a column that is not there": Case(
        csv("image,labels\na,cat\n", "tags.csv"),
        "tags.csv:1: --tags-column: no column 'label' (did you mean 'labels'?); the columns are "
        "'image', 'labels'",
        ("--tags-column", "label"),
    ),
    "tags: rows that contradict": Case(
        csv("image,labels,absent\na,cat,\na,dog,cat\n", "tags.csv"),
        "tags.csv:3: image 'a', class 'cat': negative here, positive elsewhere in the file",
        ("--duplicates", "unite"),
    ),
    # OpenImages
    "openimages: a column is missing": Case(
        csv("ImageID,LabelName\na,cat\n", "oi.csv"),
        "oi.csv:1: expected the columns ImageID, LabelName, Confidence; got 'ImageID,LabelName'",
    ),
    "openimages: a column twice": Case(
        csv("ImageID,LabelName,Confidence,LabelName\na,b,1,b\n", "oi.csv"), "Confidence,LabelName'"
    ),
    "openimages: labels by machines": Case(
        csv("ImageID,LabelName,Confidence\na,cat,0.7\n", "oi.csv"),
        "oi.csv:2: Confidence: expected 1 or 0, got '0.7'; labels by machines are no observations",
    ),
    "openimages: a row is too long": Case(
        csv("ImageID,LabelName,Confidence\na,b,1,c\n", "oi.csv"), "oi.csv:2: expected 3 cells as in"
    ),
    "openimages: a contradiction": Case(
        csv("ImageID,LabelName,Confidence\na,cat,0\na,cat,1\n", "oi.csv"),
        "oi.csv:2: image 'a.jpg', class 'cat': negative here, positive elsewhere in the file",
    ),
    "openimages: only a header": Case(
        csv("ImageID,LabelName,Confidence\n", "oi.csv"), "oi.csv: no label at all"
    ),
    "openimages: a label without name": Case(
        csv("ImageID,LabelName,Confidence\na,,1\n", "oi.csv"), "oi.csv:2: the class name is empty"
    ),
    "openimages: a description of three cells": Case(
        files(
            "oi.csv",
            "ImageID,LabelName,Confidence\na,b,1\n",
            **{"class-descriptions.csv": "/m/1,a\n/m/2,b,c\n"},
        ),
        "class-descriptions.csv:2: expected 2, got 3",
    ),
    # COCO
    "json: cut off": Case(
        raw(json.dumps(COCO, indent=1)[:-20]), "instances.json:29: not valid JSON ("
    ),
    "json: more after the end": Case(
        raw(json.dumps(COCO) + "{}"), "instances.json: not valid JSON (Extra data, column"
    ),
    "json: nested a hundred thousand deep": Case(
        raw('{"a":' * 100_000), "instances.json: maximum recursion depth exceeded"
    ),
    "json: a number of 5,000 digits": Case(
        raw(f'{{"images": {"9" * 5000}}}'), "instances.json: Exceeds the limit (4300 digits)"
    ),
    "json: UTF-16": Case(
        raw(json.dumps(COCO).encode("utf-16")), "instances.json:1: expected UTF-8 text, byte 0 is"
    ),
    "json: latin-1": Case(
        raw(b'{"a":\n"\xe9"}'), "instances.json:2: expected UTF-8 text, byte 7 is 0xe9"
    ),
    "coco: no images": Case(
        raw('{"annotations": []}'), "instances.json: expected 'images', a list, got nothing"
    ),
    "coco: images by name": Case(
        coco(images={"a": 1}), "instances.json: expected 'images', a list, got {'a': 1}"
    ),
    "coco: annotations are null": Case(
        coco(annotations=None), "instances.json: expected 'annotations', a list, got None"
    ),
    "coco: no category": Case(coco(categories=[]), "instances.json: categories: expected at least"),
    "coco: an image that is a name": Case(
        coco(images=["a.jpg"]), "images[0]: expected an object with 'id', got 'a.jpg'"
    ),
    "coco: an image without id": Case(
        entry("images", id=None), "images[1]: expected 'id', a whole number, got nothing"
    ),
    "coco: an image with a fraction as id": Case(
        entry("images", id=1.5), "images[1]: expected 'id', a whole number, got 1.5"
    ),
    "coco: an image id twice": Case(entry("images", id=1), "images[1]: id 1 is there twice"),
    "coco: an image without name": Case(
        entry("images", file_name=None), "images[1]: expected 'file_name', a text, got nothing"
    ),
    "coco: an image with a number as name": Case(
        entry("images", file_name=7), "images[1]: expected 'file_name', a text, got 7"
    ),
    "coco: two images in one file": Case(
        entry("images", file_name="a.jpg"), "images[1]: image 'a.jpg' is listed already ("
    ),
    "coco: a category id twice": Case(entry("categories", id=1), "categories[1]: id 1 is there tw"),
    "coco: a category name twice": Case(
        entry("categories", name="cat"), "categories[1]: the name 'cat' is there twice"
    ),
    "coco: a category without name": Case(
        entry("categories", name=" "), "categories[1]: the class name is empty"
    ),
    "coco: a category with text as id": Case(
        entry("categories", id="2"), "categories[1]: expected 'id', a whole number, got '2'"
    ),
    "coco: a category that is no object": Case(
        coco(categories=["cat"]), "categories[0]: expected an object with 'id', got 'cat'"
    ),
    "coco: an unknown image": Case(
        entry("annotations", image_id=3), "annotations[1]: image_id 3 is not in 'images'"
    ),
    "coco: an unknown category": Case(
        entry("annotations", category_id=10**30), f"annotations[1]: category_id {10**30} is not"
    ),
    "coco: an annotation without category": Case(
        entry("annotations", category_id=None), "annotations[1]: expected 'category_id', a whole"
    ),
    "coco: true as category": Case(
        entry("annotations", category_id=True), "a whole number, got True"
    ),
    "coco: an annotation that is a list": Case(
        coco(annotations=[[1, 2]]), "annotations[0]: expected an object with 'image_id', got [1, 2]"
    ),
    "lvis: negatives that are no list": Case(
        entry("images", neg_category_ids=1), "images[1]: expected 'neg_category_ids', a list, got 1"
    ),
    "lvis: an unknown negative": Case(
        entry("images", neg_category_ids=[9]), "images[1]: neg_category_ids: 9 is not in 'categor"
    ),
    "lvis: a contradiction": Case(
        entry("images", neg_category_ids=[2]), "images[1]: image 'b.jpg', class 'dog': negative"
    ),
    "coco: a list": Case(
        raw("[]"), "instances.json: expected an object with images, ann", ("--format", "coco")
    ),
    # Label Studio
    "label studio: a task without data": Case(
        tasks({"id": 1}), "tasks.json: task 0: expected 'data', an object, got nothing"
    ),
    "label studio: a task that is a name": Case(
        tasks("a.jpg"), "tasks.json: task 0: expected an object with 'data', got 'a.jpg'"
    ),
    "label studio: data without image": Case(
        tasks({"data": {"x": "a", "y": "b"}}), "task 0: expected the image's name in 'data'"
    ),
    "label studio: annotations that are a number": Case(
        tasks({"data": {"image": "a"}, "annotations": 5}), "task 0: expected 'annotations', a list"
    ),
    "label studio: an annotation without result": Case(
        tasks({"data": {"image": "a"}, "annotations": [{}]}),
        "task 0: annotations: expected 'result', a list, got nothing",
    ),
    "label studio: a result that is text": Case(
        task("cat"), "task 1: result: expected an object with 'type', got 'cat'"
    ),
    "label studio: a result without value": Case(
        task({"type": "choices"}), "task 1: result: expected 'value', an object, got nothing"
    ),
    "label studio: choices that are text": Case(
        task(choice("cat")), "task 1: result: expected 'choices', a list, got 'cat'"
    ),
    "label studio: a choice that is a number": Case(
        task(choice([3])), "task 1: result: expected names of classes, got 3"
    ),
    "label studio: a choice without name": Case(
        task(choice([""])), "tasks.json: task 1: the class name is empty"
    ),
    "label studio: an image twice": Case(
        task(image="a.jpg"), "tasks.json: task 1: image 'a.jpg' is listed already ("
    ),
    "label studio: people who disagree": Case(
        task(choice(["dog"]), choice(["dog"], "absent")), "task 1: image 'b.jpg', class 'dog': neg"
    ),
    "label studio: an address that is none": Case(
        task(image="//["), "task 1: image '//[': Invalid IPv6 URL"
    ),
    "label studio: no task": Case(tasks(), "tasks.json: no label at all"),
    "label studio: an object": Case(
        files("tasks.json", "{}"), "tasks.json: expected a list", ("--format", "label-studio")
    ),
    # PASCAL VOC
    "voc: an image is missing in a class list": Case(
        voc(cat="a  1\n"), "cat_train.txt: image 'b' of train.txt is not in it"
    ),
    "voc: a value of 3": Case(
        voc(cat="a  1\n\nb  3\n"), "cat_train.txt:3: expected an id and 1, -1 or 0, got 'b 3'"
    ),
    "voc: an image of another part": Case(
        voc(cat="a  1\nb  1\nc -1\n"), "cat_train.txt:3: image 'c' is not in train.txt"
    ),
    "voc: an image twice in a class list": Case(
        voc(cat="a  1\nb  1\na  1\n"), "cat_train.txt:3: image 'a' is there twice"
    ),
    "voc: an image twice": Case(
        voc("a\n\nb\na\n"), "train.txt:4: image 'a' is listed already on line 1"
    ),
    "voc: a class list as label file": Case(
        voc(name="cat_train.txt"), "cat_train.txt:1: expected an image id, got 'a 1'"
    ),
    "voc: an empty list": Case(voc("\n"), "train.txt: expected image ids, one per line"),
    "voc: neither lists nor annotations": Case(
        files("VOC2012/ImageSets/Main/train.txt", "a\n"), "train.txt: neither <class>_train.txt"
    ),
    "voc: a name that leads out": Case(
        voc("a\n\n../b\n", "a  1\n../b 1\n"), "train.txt:3: image '../b.jpg': leads out of the im"
    ),
    "voc: its folder": Case(
        lambda folder: voc()(folder).parents[2], "VOC2012: name a label file, as --labels "
    ),
    "xml: DOCTYPE": Case(xml("<!DOCTYPE annotation>\n<annotation/>"), "a.xml:1: not a readable"),
    "xml: billion laughs": Case(
        xml(BILLION_LAUGHS), "a.xml:2: not a readable annotation (a DOCTYPE is refused; remove it)"
    ),
    "xml: an external entity": Case(
        xml(f"<?xml version='1.0'?>\n<!-- -->\n{EXTERNAL}"), "a.xml:3: not a readable annotation"
    ),
    "xml: an unknown entity": Case(
        xml("<annotation>&x;</annotation>"), "(undefined entity: line 1"
    ),
    "xml: cut off": Case(xml(annotation("<name>cat</name>")[:-15]), "a.xml:2: not a readable"),
    "xml: no name": Case(xml(annotation("<pose>Left</pose>")), "a.xml:2: an object has no name"),
    "xml: a difficulty in words": Case(
        xml(annotation("<name>cat</name><difficult>yes</difficult>")),
        "a.xml:2: difficult: expected 0 or 1, got 'yes'",
    ),
    "xml: another root": Case(xml("<html/>"), "(expected <annotation>, got <html>)"),
    "xml: an unknown encoding": Case(
        xml("<?xml version='1.0' encoding='klingon'?><annotation/>"), "a.xml:1: not a readable ann"
    ),
    "xml: an encoding of several bytes": Case(
        xml("<?xml version='1.0' encoding='shift_jis'?><annotation/>"), "(multi-byte encodings are"
    ),
    "xml: not there": Case(xml("<annotation/>", "b\n"), "b.xml: no such file"),
    "xml: no object anywhere": Case(xml("<annotation/>"), "train.txt: no label at all"),
    "xml: an id that is a path": Case(
        xml("<annotation/>", "a\nx/b\n"), "train.txt:2: image 'x/b': not a plain name"
    ),
    "xml: an id too long": Case(
        xml("<annotation/>", f"{'x' * 300}\n"), ".xml: cannot be read (File name too long)"
    ),
    # NUS-WIDE
    "nuswide: a label too few": Case(
        nus(cat="1\n"), "Labels_cat_Train.txt: expected 2 labels, one per image, got 1"
    ),
    "nuswide: a value of 2": Case(
        nus(cat="1\n\n2\n"), "Labels_cat_Train.txt:3: expected 0 or 1, got '2'"
    ),
    "nuswide: an image twice": Case(
        nus("a\\b.jpg\n\na/b.jpg\n"), "TrainImagelist.txt:3: image 'a/b.jpg' is listed already on"
    ),
    "nuswide: a name that leads out": Case(
        nus("a.jpg\n..\\b.jpg\n"), "TrainImagelist.txt:2: image '../b.jpg': leads out"
    ),
    "nuswide: an empty list": Case(nus(""), "TrainImagelist.txt: expected image names, one per"),
    "nuswide: another list": Case(
        nus(name="mine.txt"), "mine.txt: name a list as the label file: ImageList/TrainImagelist"
    ),
    "nuswide: no labels": Case(
        nus(cat=None), "TrainImagelist.txt: no folder TrainTestLabels with the labels beside it"
    ),
    "nuswide: labels of the other part": Case(
        nus(name="TestImagelist.txt"), "TrainTestLabels: no Labels_<concept>_Test.txt"
    ),
    "nuswide: a concept without labels": Case(
        nus(concepts="cat\ndog\n"), "Labels_dog_Train.txt: no such file"
    ),
    "nuswide: a concept twice": Case(
        nus(concepts="cat\ncat\n"), "Concepts81.txt:2: class 'cat' is listed twice"
    ),
    "nuswide: a concept that is a path": Case(
        nus(concepts="../cat\n"), "Concepts81.txt: concept '../cat' cannot be part of a file name"
    ),
    # SPML
    "npy: pickled objects": Case(
        spml(saved(np.array([[{}]], dtype=object), pickled=True)),
        "formatted_val_labels.npy: not a readable .npy file (Object arrays cannot be loaded",
    ),
    "npy: a header that claims too much": Case(
        spml(
            header("{'descr': '<f8', 'fortran_order': False, 'shape': (1000000000, 1000000000), }")
        ),
        "formatted_val_labels.npy: not a readable .npy file (",
    ),
    "npy: cut off": Case(
        spml(saved(LABELS)[:-1]), "formatted_val_labels.npy: not a readable .npy file ("
    ),
    "npy: a negative shape": Case(
        spml(header("{'descr': '<f8', 'fortran_order': False, 'shape': (-1, -1), }") + bytes(8)),
        "formatted_val_labels.npy: not a readable .npy file (",
    ),
    "npy: version 9": Case(
        spml(header("{}", b"\x09\x00")), "formatted_val_labels.npy: not a readable .npy file ("
    ),
    "npy: a header that is a list": Case(spml(header("[]")), "(Header is not a dictionary: []"),
    "npy: text": Case(spml(b"image,cat\n"), "(the magic string is not correct"),
    "npy: an archive": Case(
        spml(zipped()), "formatted_val_labels.npy: not a readable .npy file (t"
    ),
    "npy: nothing in it": Case(
        spml(b""), "formatted_val_labels.npy: not a readable .npy file (EOF"
    ),
    "npy: words as labels": Case(
        spml(["yes", "no"]),
        "formatted_val_labels.npy: expected a matrix of numbers (N, L), got <U3",
    ),
    "npy: one column": Case(
        spml([1.0, 0.0]), "expected a matrix of numbers (N, L), got float64 (2,"
    ),
    "npy: no class": Case(
        spml(np.zeros((2, 0))), "formatted_val_labels.npy: expected at least one class"
    ),
    "npy: unknown in full labels": Case(
        spml([[1, 0], [0, -1]]), "labels.npy: row 1, column 1: expected one of (0, 1), got -1"
    ),
    "npy: not a number": Case(
        spml([[1, np.nan], [0, 0]]), "labels.npy: row 0, column 1: expected one of (0, 1), got nan"
    ),
    "npy: no images": Case(spml(images=None), "formatted_val_images.npy: no such file"),
    "npy: an image too few": Case(
        spml(images=("a.jpg",)), "formatted_val_images.npy: expected 2 image names, got <U5 (1,)"
    ),
    "npy: numbers as images": Case(
        spml(images=(1, 2)), "formatted_val_images.npy: expected 2 image names, got int64 (2,)"
    ),
    "npy: names that are no text": Case(
        spml(images=saved(np.array([0x110000, 0x61], dtype="<u4").view("<U1"))),
        "formatted_val_images.npy: the image names are not text",
    ),
    "npy: a name that leads out": Case(
        spml(images=("a.jpg", "../b.jpg")), "formatted_val_images.npy: row 1: image '../b.jpg': le"
    ),
    "npy: an image with two answers": Case(
        spml(images=("a.jpg", "a.jpg")), "formatted_val_labels.npy: row 1: image 'a.jpg' is listed"
    ),
    "npy: a class twice": Case(
        spml(classes=("cat", "cat")), "formatted_val_classes.npy: row 1: class 'cat' is there twice"
    ),
    # Parquet
    "parquet: cut off": Case(
        parquet(["image", "cat"], ["a"], [1], damage=lambda data: data[: len(data) // 2]),
        "labels.parquet: not a readable Parquet file (",
    ),
    "parquet: a footer of noise": Case(
        parquet(
            ["image", "cat"],
            ["a"],
            [1],
            damage=lambda data: data[:-400] + b"\xa5" * 392 + data[-8:],
        ),
        "labels.parquet: not a readable Parquet file (",
    ),
    "parquet: words as labels": Case(
        parquet(["image", "cat"], ["a"], ["yes"]), "class 'cat': expected numbers 1, 0 or null"
    ),
    "parquet: a value of 2": Case(
        parquet(["image", "cat"], ["a", "b"], [1, 2]), "labels.parquet: row 1: class 'cat': expect"
    ),
    "parquet: a column twice": Case(
        parquet(["image", "cat", "cat"], ["a"], [1], [0]), "column 'cat' is there twice"
    ),
    "parquet: a column without name": Case(
        parquet(["image", ""], ["a"], [1]), "labels.parquet: column 2: the class name is empty"
    ),
    "parquet: no image column": Case(
        parquet(["who", "cat"], ["a"], [1]), "labels.parquet: expected a header 'image,<class>,…'"
    ),
    "parquet: numbers as images": Case(
        parquet(["image", "cat"], [1], [1]), "column 'image': expected text, got int64"
    ),
    "parquet: numbers as tags": Case(
        parquet(["image", "labels"], ["a"], [1]), "column 'labels': expected text or lists of it"
    ),
    "parquet: null among tags": Case(
        parquet(["image", "labels"], ["a", "b"], [["x"], ["x", None]]),
        "labels.parquet: row 1: column 'labels': expected text or a list of it, got [",
    ),
    "parquet: an image with two answers": Case(
        parquet(["image", "cat"], ["a", "a"], [1, None]), "labels.parquet: row 1: image 'a' is list"
    ),
    "parquet: an image without name": Case(
        parquet(["image", "cat"], ["a", None], [1, 0]), "labels.parquet: row 1: image '': the name"
    ),
    # folders
    "folder: nothing in it": Case(
        lambda folder: put(folder / "photos/x.jpg", "").parent,
        "found 1 images in the folder itself",
    ),
    "folder: two metadata files": Case(
        lambda folder: files("p/metadata.csv", "", **{"p/metadata.jsonl": ""})(folder).parent,
        "p: metadata.csv and metadata.jsonl: expected one of them only",
    ),
    "folder: a file name that is no text": Case(odd_file_name, "the file name is not valid UTF-8"),
    "folder: a line of broken JSON": Case(
        line("{"), "metadata.jsonl:2: not valid JSON (Expecting property name"
    ),
    "folder: a line that is a list": Case(
        line("[]"), "metadata.jsonl:2: expected an object with 'file_name', a text"
    ),
    "folder: a number as file name": Case(
        line('\n{"file_name": 3}'), "metadata.jsonl:3: expected an object with 'file_name', a text"
    ),
    "folder: a number as labels": Case(
        line('{"file_name": "b", "labels": 3}'), "metadata.jsonl:2: labels: expected text or a list"
    ),
    "folder: an image with two answers": Case(
        line('{"file_name": "a.jpg", "labels": []}'), "metadata.jsonl:2: image 'a.jpg' is listed al"
    ),
    "photos: without any tag": Case(
        lambda folder: put(folder / "photos/x.jpg", "").parent,
        "photos: no photo has a tag to learn from: 0 of 1 photos have tags in themselves, 0 in",
        ("--format", "photo-tags"),
    ),
    "photos: a file and no folder": Case(
        csv("image,cat\na,1\n"),
        "labels.csv: expected a folder of photos",
        ("--format", "photo-tags"),
    ),
    "photos: a sidecar of a billion laughs": Case(
        sidecar(LAUGHS_OF_RDF), "a DOCTYPE is refused", ("--format", "photo-tags")
    ),
    "photos: a sidecar of twenty million spaces": Case(
        sidecar(" " * 20_000_000),
        "a part of 20,000,000 bytes; 16,777,216 at most are read",
        ("--format", "photo-tags"),
    ),
    "photos: a level that no tag has": Case(
        sidecar(XMP),
        "1 tagged photo without a tag of level 2",
        ("--format", "photo-tags", "--tag-level", "2"),
    ),
    "folder: metadata in Parquet that is none": Case(
        lambda folder: put(folder / "p/metadata.parquet", "x").parent,
        "metadata.parquet: not a readable Parquet file",
    ),
    # Hugging Face
    "huggingface: a class that has no name": Case(
        packed_labels([[0], [7], [], None, [-1]]),
        "data.parquet: row 1: column 'labels': expected a class below 3, got 7",
    ),
    "huggingface: numbers without names": Case(
        packed_columns(label=[1, 2]), "column 'label': expected text or lists of it, got int64"
    ),
    "huggingface: two columns of labels": Case(
        packed_columns(label=["x", "y"], tags=["x", "y"]),
        "data.parquet: expected one column of labels, got label, tags; call it 'labels'",
    ),
    "huggingface: no column of labels": Case(
        packed_columns(caption=["x", "y"]), "expected a column 'labels', or one of 1 and 0 per"
    ),
    "huggingface: a column of numbers that is no class": Case(
        packed_columns(width=[640, 1]), "row 0: class 'width': expected 1, 0 or null (unobserved)"
    ),
    "huggingface: the state names a file elsewhere": Case(
        saved_state({"_data_files": [{"filename": "../data.arrow"}]}),
        "state.json: leads out of the folder: '../data.arrow'",
    ),
}
