# ruff: noqa: E501
"""Record what `convert` and `check` make of about 130 label files, to compare a later version with.

    python dev/golden_labels.py before.json
    python dev/golden_labels.py after.json before.json

Each case is a folder of small files and one or more commands. Recorded: the exit code and every
file that the command made. Workbooks and Parquet files are recorded by their cells, others byte by
byte. The messages are kept for reading; their wording may change.
"""

import contextlib
import hashlib
import io
import json
import os
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

WIDE = "image,cat,dog,owl\na.png,1,0,\nb.png,,1,0\nc.png,0,0,1\nd.png,1,,1\n"
FULL = "image,cat,dog,owl\na.png,1,0,0\nb.png,0,1,0\nc.png,0,1,1\nd.png,1,0,1\ne.png,1,1,1\nf.png,0,0,0\n"
TAGS = "image,tags\na.png,cat;dog\nb.png,owl\nc.png,\nd.png,dog|owl\n"
COCO = {
    "images": [
        {"id": 9, "file_name": "a.png"},
        {"id": 10, "file_name": "b.png"},
        {"id": 1, "file_name": "c.png"},
    ],
    "annotations": [
        {"image_id": 9, "category_id": 3},
        {"image_id": 10, "category_id": 1},
        {"image_id": 10, "category_id": 3},
    ],
    "categories": [{"id": 3, "name": "dog"}, {"id": 1, "name": "cat"}],
}
LVIS = {
    "images": [
        {"id": 1, "coco_url": "http://x/a.png", "neg_category_ids": [2]},
        {"id": 2, "file_name": "b.png", "neg_category_ids": []},
    ],
    "annotations": [{"image_id": 1, "category_id": 1}, {"image_id": 2, "category_id": 2}],
    "categories": [{"id": 1, "name": "cat"}, {"id": 2, "name": "dog"}],
}
CHOICE = {
    "type": "choices",
    "from_name": "label",
    "to_name": "image",
    "value": {"choices": ["cat", "dog"]},
}
ABSENT = {
    "type": "choices",
    "from_name": "absent",
    "to_name": "image",
    "value": {"choices": ["owl"]},
}
TASKS = [
    {
        "id": 1,
        "data": {"image": "/data/local-files/?d=a.png"},
        "annotations": [{"result": [CHOICE, ABSENT]}],
    },
    {
        "id": 2,
        "data": {"image": "/data/upload/1/1a2b3c4d-b.png"},
        "annotations": [{"was_cancelled": True, "result": []}],
    },
    {"id": 3, "data": {"image": "s3://bucket/c.png"}, "annotations": []},
    {
        "id": 4,
        "data": {"image": "d.png"},
        "annotations": [
            {"result": [{"type": "rectanglelabels", "value": {"rectanglelabels": ["owl"]}}]}
        ],
    },
]
XML = "<annotation>{}</annotation>"
OBJECT = "<object><name>{}</name><difficult>{}</difficult></object>"
Files = dict[str, Any]
Case = tuple[Files, list[str]]


def npy(content: Any) -> bytes:
    """The bytes of a .npy file."""
    buffer = io.BytesIO()
    np.save(buffer, np.array(content))
    return buffer.getvalue()


def book(*rows: list[Any], merge: str = "", sheets: int = 1) -> bytes:
    """The bytes of a workbook."""
    import openpyxl

    made = openpyxl.Workbook()
    sheet = made.active
    for row in rows:
        sheet.append(row)
    if merge:
        sheet.merge_cells(merge)
    for number in range(1, sheets):
        made.create_sheet(f"other{number}").append(["nothing", "here"])
    buffer = io.BytesIO()
    made.save(buffer)
    return buffer.getvalue()


def parquet(**columns: Any) -> bytes:
    """The bytes of a Parquet file."""
    import pyarrow as pa
    from pyarrow.parquet import write_table

    buffer = io.BytesIO()
    write_table(pa.table(columns), buffer)
    return buffer.getvalue()


def packed(labels: Any, names: list[str] | None = None) -> bytes:
    """A Parquet file of Hugging Face with pictures inside."""
    import pyarrow as pa
    from pyarrow.parquet import write_table

    pictures = [picture(shade) for shade in range(len(labels))]
    paths = [f"p{number}.png" for number in range(len(labels))]
    images = pa.StructArray.from_arrays(
        [pa.array(pictures), pa.array(paths)], names=["bytes", "path"]
    )
    table = pa.table({"image": images, "labels": labels})
    if names:
        feature = {"feature": {"names": names, "_type": "ClassLabel"}, "_type": "List"}
        about = {"info": {"features": {"image": {"_type": "Image"}, "labels": feature}}}
        table = table.replace_schema_metadata({"huggingface": json.dumps(about)})
    buffer = io.BytesIO()
    write_table(table, buffer)
    return buffer.getvalue()


def picture(shade: int) -> bytes:
    """A small picture with a pattern of its own."""
    from PIL import Image

    buffer = io.BytesIO()
    noise = np.random.default_rng(shade).integers(0, 256, (12, 12, 3), dtype=np.uint8)
    Image.fromarray(noise).save(buffer, "PNG")
    return buffer.getvalue()


PHOTOS = {f"photos/{name}.png": picture(number) for number, name in enumerate("abcdef")}
VOC = {
    "VOC2012/ImageSets/Main/train.txt": "2008_1\n2008_2\n2008_3\n",
    "VOC2012/ImageSets/Main/cat_train.txt": "2008_1  1\n2008_2 -1\n2008_3  0\n",
    "VOC2012/ImageSets/Main/dog_train.txt": "2008_1 -1\n2008_2  1\n2008_3 -1\n",
}
VOC_XML = {
    "VOC2012/ImageSets/Main/val.txt": "a\nb\n",
    "VOC2012/Annotations/a.xml": XML.format(OBJECT.format("cat", 0) + OBJECT.format("dog", 1)),
    "VOC2012/Annotations/b.xml": XML.format(OBJECT.format("dog", 1)),
}
NUS = {
    "N/ImageList/TrainImagelist.txt": "x\\1.jpg\ny\\2.jpg\nz\\3.jpg\n",
    "N/Concepts81.txt": "sky\ncat\n",
    "N/TrainTestLabels/Labels_sky_Train.txt": "1\n0\n0\n",
    "N/TrainTestLabels/Labels_cat_Train.txt": "1\n1\n0\n",
}
SPML = {
    "S/formatted_train_labels.npy": npy([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]]),
    "S/formatted_train_labels_obs.npy": npy([[1.0, 0.0], [0.0, -1.0], [0.0, 1.0]]),
    "S/formatted_train_images.npy": npy(["a.jpg", "b.jpg", "c.jpg"]),
}
OPEN = {
    "oi.csv": "ImageID,Source,LabelName,Confidence\na1,v,/m/01,1\na1,v,/m/02,0\nb2,v,/m/02,1\n",
    "class-descriptions-boxable.csv": "/m/01,Cat\n/m/02,Dog\n",
}


def csv(
    text: str, flags: str = "", name: str = "x.csv", encoding: str = "utf-8", **more: Any
) -> Case:
    """A file that is converted to a wide table."""
    return {name: text.encode(encoding), **more}, [f"convert {name} out.csv {flags}"]


def both(files: Files, source: str, flags: str = "") -> Case:
    """A file that is converted to a wide table, which keeps all, and to tags."""
    return files, [
        f"convert {source} out.csv {flags}",
        f"convert {source} tags.csv --to tags {flags}",
    ]


def cases() -> dict[str, Case]:
    """Every case by its name."""
    made: dict[str, Case] = {
        # tables
        "wide": csv(WIDE),
        "wide, semicolons": csv(WIDE.replace(",", ";")),
        "wide, tabs": csv(WIDE.replace(",", "\t"), name="x.tsv"),
        "wide, tabs in .txt": csv(WIDE.replace(",", "\t"), name="x.txt"),
        "wide, BOM": csv("\ufeff" + WIDE),
        "wide, UTF-16": csv(WIDE, encoding="utf-16"),
        "wide, UTF-16 tabs": csv(WIDE.replace(",", "\t"), encoding="utf-16"),
        "wide, CRLF": csv(WIDE.replace("\n", "\r\n")),
        "wide, old Mac": csv(WIDE.replace("\n", "\r")),
        "wide, sep=": csv("sep=;\n" + WIDE.replace(",", ";")),
        "wide, cp1252": csv(
            "image,Käse\nü.png,1\nb.png,0\n", "--encoding cp1252", encoding="cp1252"
        ),
        "wide, cp1252 not told": csv("image,Käse\nü.png,1\n", encoding="cp1252"),
        "wide, words": csv(
            "image,cat,dog\na,TRUE,FALSE\nb,x,no\nc,yes,\nd,✓,?\ne,wahr,falsch\nf,NA,1.0\ng,oui,non\n"
        ),
        "wide, decimal commas": csv("image;cat\na;1,0\nb;0,0\n"),
        "wide, empty rows and columns": csv("image,cat,dog,,\na,1,,,\n,,,,\nb,0,1,,\n,,,,\n"),
        "wide, index of pandas": csv(",image,cat\n0,a,1\n1,b,0\n"),
        "wide, other words for the image": csv("File Name,cat\na.png,1\nb.png,0\n"),
        "wide, Bild": csv("Bild;cat\na.png;1\nb.png;0\n"),
        "wide, image not first": csv("cat,photo\n1,a.png\n0,b.png\n"),
        "wide, class called tags": csv("image,tags,cat\na,1,0\n"),
        "wide, image told": csv("who,cat\na,1\nb,0\n", "--image-column WHO"),
        "wide, image told, not there": csv("who,cat\na,1\n", "--image-column whom"),
        "wide, ignored": csv(
            'image,date,"a, b",cat\na,2019,z,1\nb,2020,z,0\n',
            '--ignore-columns "a,_b" --ignore-columns date',
        ),
        "wide, dates not ignored": csv("image,date,cat\na,2019-01-01,1\nb,2019-01-02,0\n"),
        "wide, captions": csv("image,caption\na,a cat\nb,a dog\n"),
        "wide, groups": csv("image,group,cat\na,zoo,1\nb,zoo,0\nc,,1\n"),
        "wide, two groups": csv("image,group,cat\na,zoo,1\na,park,1\n"),
        "wide, -1 and 0": csv("image,cat\na,1\nb,-1\nc,0\n"),
        "wide, -1 without 0": csv("image,cat\na,1\nb,-1\n"),
        "wide, -1 negative": csv("image,cat\na,1\nb,-1\n", "--minus-one negative"),
        "wide, -1 unobserved": csv("image,cat\na,1\nb,-1\n", "--minus-one unobserved"),
        "wide, twice the same": csv("image,cat\na,1\nb,0\na,1\n"),
        "wide, twice otherwise": csv("image,cat\na,1\na,0\n"),
        "wide, united": csv("image,cat,dog\na,1,\nb,0,1\na,,0\n"),
        "wide, united clash": csv("image,cat\na,1\na,0\n"),
        "wide, absent negative": csv(WIDE, "--absent negative"),
        "wide, classes": csv(WIDE, "--classes c.txt", **{"c.txt": "owl\ndog\ncat\nbee\n"}),
        "wide, classes missing one": csv(WIDE, "--classes c.txt", **{"c.txt": "owl\ndog\n"}),
        "wide, aliases": csv(WIDE, "--aliases a.txt", **{"a.txt": "# other names\ncat = dog\n"}),
        "wide, aliases of nothing": csv(WIDE, "--aliases a.txt", **{"a.txt": "bird = owl\n"}),
        "wide, aliases in a ring": csv(
            WIDE, "--aliases a.txt", **{"a.txt": "cat = dog\ndog = cat\n"}
        ),
        "wide, single label": csv("image,cat,dog\na,1,\nb,,1\nc,0,\n", "--single-label"),
        "wide, single label, two": csv("image,cat,dog\na,1,1\nb,,1\n", "--single-label"),
        "wide, odd cell": csv("image,cat,dog\na,1,0\nb,0,perhaps\nc,1,1\n"),
        "wide, short row": csv("image,cat,dog\na,1,0\nb,1\n"),
        "wide, long row": csv("image,cat,dog\na,1,0\nb,1,0,1\n"),
        "wide, open quote": csv('image,cat\na,1\n"b,1\n'),
        "wide, NUL": csv("image,cat\na\0,1\n"),
        "wide, class twice": csv("image,cat,cat\na,1,0\n"),
        "wide, no name": csv("image,cat\n,1\n"),
        "wide, leads out": csv("image,cat\n../a,1\n"),
        "wide, absolute": csv("image,cat\n/etc/passwd,1\n"),
        "wide, address": csv("image,cat\nhttp://x/y.png,1\n"),
        "wide, a drive": csv('image,cat\n"C:\\me\\a.png",1\n"c:\\me\\b.png",0\n'),
        "wide, three ways to one name": csv("image,cat\nz/a,1\n./z/a,1\nz//a,1\n"),
        "wide, NFC and NFD classes": csv("image,Kafé,Kafe\u0301\na,1,0\n"),
        "wide, header only": csv("image,cat\n"),
        "wide, nothing": csv(""),
        "wide, no header": csv("x.png,1\ny.png,0\n"),
        "wide, 007 and NA": csv("image,cat\n007,1\nNA,0\nnull,1\n1e5,0\n2019-01-01,1\n"),
        "wide, quoted names": csv('image,"a, b","say ""x"""\n"x,y.png",1,0\n'),
        "wide, line break in a cell": csv('image,cat\n"a\nb",1\nc,0\n'),
        "unknown ending": csv(WIDE, name="x.dat"),
        "not there": ({}, ["convert x.csv out.csv"]),
        "unknown format": csv(WIDE, "--format nothing"),
        "tags": csv(TAGS),
        "tags, labels": csv(TAGS.replace("tags", "Labels")),
        "tags, commas between semicolons": csv("image;labels\na;cat,dog\nb;owl\n"),
        "tags, absent": csv("image,labels,absent\na,cat,dog\nb,dog,\n"),
        "tags, both": csv("image,labels,absent\na,cat,cat\n"),
        "tags, negative": csv(TAGS, "--absent negative"),
        "tags, separator": csv('image,tags\na,"cat, dog"\nb,dog\n', "--separator ,"),
        "tags, commas": csv('image,tags\na,"cat, dog"\nb,cat\nc,dog\n'),
        "tags, commas of names": csv('image,tags\na,"salt, sea"\nb,cat\n'),
        "tags, slashes": csv("image,tags\na,cat/dog\nb,cat\nc,dog\n"),
        "tags, spaces": csv("image;tags\na;cat dog\nb;cat\nc;dog\nd;dog cat\n"),
        "tags, list of Python": csv("image,tags\na,\"['Comedy', 'Drama']\"\nb,['Drama']\n"),
        "tags, list of JSON": csv('image,tags\na,"[""Comedy"", ""Drama""]"\nb,"[""Drama""]"\n'),
        "tags, none": csv("image,labels\na,\nb,;\n"),
        "tags, too many cells": csv("image,labels\na,cat,dog\n"),
        "tags, Keywords": csv("File,Keywords,Camera\na.png,cat;dog,X\nb.png,dog,Y\n"),
        "tags, told": csv("Name,Motif\na,cat\nb,dog;cat\n", "--tags-column Motif"),
        "tags, several columns": csv("Name,T1,T2\na,cat,\nb,dog,cat\n", "--tags-column T1,T2"),
        "tags, species": csv("Path,Date,Species\na.png,2019,cat\nb.png,2020,dog|cat\n"),
        "tags, a row per tag": csv("image,label\na,cat\nb,dog\na,dog\n"),
        "tags, a row per tag refused": csv("image,label\na,cat\nb,dog\na,dog\n"),
        "tags, groups": csv("image,labels,group\na,cat,1\nb,dog,1\n"),
        "tags, added": csv("image,labels,added\na,cat;dog,dog\nb,owl,\n"),
        "tags, classes": csv(TAGS, "--classes c.txt", **{"c.txt": "owl\ncat\ndog\n"}),
        "tags, unknown class": csv(TAGS, "--classes c.txt", **{"c.txt": "owl\ncat\ndgo\n"}),
        "tags, NFD": csv("image,tags\na,Kafé\nb,Kafe\u0301\n"),
        "tags, single label": csv("image,tags\na,cat\nb,dog\n", "--single-label"),
        "tags, aliases": csv(TAGS, "--aliases a.txt", **{"a.txt": "owl = bird\n"}),
        "tags, German": csv("Dateiname;Schlagwörter;Kamera\n18;cat;X\n19;dog,cat;X\n"),
        "Id and Genre": csv(
            "Id,Genre\na,\"['Comedy', 'Drama']\"\nb,['Drama']\n", "--images photos", **PHOTOS
        ),
        # workbooks and Parquet
        "xlsx, wide": both(
            {
                "x.xlsx": book(
                    ["image", "cat", "dog"], ["a", 1, 0], ["b", None, True], ["c", 0.0, "x"]
                )
            },
            "x.xlsx",
        ),
        "xlsx, tags": both(
            {"x.xlsx": book(["image", "tags"], ["a", "cat;dog"], ["b", "dog"], [7, None])}, "x.xlsx"
        ),
        "xlsx, two sheets": both({"x.xlsx": book(["image", "cat"], ["a", 1], sheets=2)}, "x.xlsx"),
        "xlsx, merged": both(
            {"x.xlsx": book(["image", "cat"], ["a", 1], ["b", None], ["c", 0], merge="B2:B3")},
            "x.xlsx",
        ),
        "xlsx, broken": both({"x.xlsx": book(["image", "cat"], ["a", 1])[:300]}, "x.xlsx"),
        "xlsx, no workbook": both({"x.xlsx": b"<html>"}, "x.xlsx"),
        "xlsx, extra cell": both(
            {"x.xlsx": book(["image", "cat"], ["a", 1, None, "blurred"])}, "x.xlsx"
        ),
        "xlsx, empty": both({"x.xlsx": book()}, "x.xlsx"),
        "parquet, wide": both(
            {"x.parquet": parquet(image=["a", "b"], cat=[1, None], dog=[0, 1])}, "x.parquet"
        ),
        "parquet, bools": both(
            {"x.parquet": parquet(image=["a", "b"], cat=[True, False])}, "x.parquet"
        ),
        "parquet, floats": both(
            {"x.parquet": parquet(image=["a", "b"], cat=[1.0, None])}, "x.parquet"
        ),
        "parquet, lists": both(
            {"x.parquet": parquet(image=["a", "b"], labels=[["cat", "dog"], []])}, "x.parquet"
        ),
        "parquet, texts": both(
            {"x.parquet": parquet(image=["a", "b"], labels=["cat;dog", None])}, "x.parquet"
        ),
        "parquet, groups": both(
            {"x.parquet": parquet(image=["a", "b"], group=[3, 3], cat=[1, 0])}, "x.parquet"
        ),
        "parquet, 2": both(
            {"x.parquet": parquet(image=["a", "b"], cat=[1, 2], dog=[1, 0])}, "x.parquet"
        ),
        "parquet, broken": both({"x.parquet": parquet(image=["a"], cat=[1])[:50]}, "x.parquet"),
        # written
        "to every format": (
            {"x.csv": WIDE},
            [
                "convert x.csv o.xlsx",
                "convert o.xlsx from-xlsx.csv",
                "convert x.csv o.parquet",
                "convert o.parquet from-parquet.csv",
                "convert x.csv o.json --to coco",
                "convert o.json from-coco.csv",
                "convert x.csv ls.json --to label-studio",
                "convert ls.json from-ls.csv",
                "convert x.csv folder",
                "convert folder from-folder.csv",
                "convert x.csv t.csv --to tags",
                "convert t.csv from-tags.csv",
                "convert x.csv v.txt --to voc",
                "convert x.csv o.what",
            ],
        ),
        "to every format, groups": (
            {"x.csv": "image,group,cat\na,zoo,1\nb,zoo,0\nc,,1\n"},
            [
                "convert x.csv o.xlsx",
                "convert o.xlsx from-xlsx.csv",
                "convert x.csv o.parquet",
                "convert o.parquet from-parquet.csv",
                "convert x.csv folder",
                "convert folder from-folder.csv",
                "convert x.csv t.csv --to tags",
                "convert t.csv from-tags.csv",
            ],
        ),
        "over what is there": (
            {"x.csv": WIDE, "y.csv": "mine"},
            [
                "convert x.csv y.csv",
                "convert x.csv y.csv --overwrite",
                "convert x.csv x.csv --overwrite",
                "convert x.csv z.csv --dry-run",
            ],
        ),
        # other formats
        "coco": both({"i.json": json.dumps(COCO)}, "i.json"),
        "coco, unobserved": both({"i.json": json.dumps(COCO)}, "i.json", "--absent unobserved"),
        "coco, classes": both(
            {"i.json": json.dumps(COCO), "c.txt": "dog\nowl\ncat\n"}, "i.json", "--classes c.txt"
        ),
        "coco, unknown image": both(
            {"i.json": json.dumps(COCO | {"annotations": [{"image_id": 4, "category_id": 1}]})},
            "i.json",
        ),
        "coco, broken": both({"i.json": json.dumps(COCO)[:-9]}, "i.json"),
        "lvis": both({"i.json": json.dumps(LVIS)}, "i.json"),
        "label studio": both({"t.json": json.dumps(TASKS)}, "t.json"),
        "label studio, negative": both(
            {"t.json": json.dumps(TASKS)}, "t.json", "--absent negative"
        ),
        "label studio, JSON-MIN": both(
            {"t.json": '[{"annotation_id": 1, "image": "a"}]'}, "t.json"
        ),
        "label studio, two folders": both(
            {
                "t.json": json.dumps(
                    [
                        {
                            "data": {"image": f"s3://b/{d}/a.png"},
                            "annotations": [{"result": [CHOICE]}],
                        }
                        for d in "xy"
                    ]
                )
            },
            "t.json",
        ),
        "voc": both(VOC, "VOC2012/ImageSets/Main/train.txt"),
        "voc, unobserved": both(VOC, "VOC2012/ImageSets/Main/train.txt", "--absent unobserved"),
        "voc, xml": both(VOC_XML, "VOC2012/ImageSets/Main/val.txt"),
        "voc, DOCTYPE": both(
            VOC_XML | {"VOC2012/Annotations/a.xml": "<!DOCTYPE a [<!ENTITY x 'y'>]><annotation/>"},
            "VOC2012/ImageSets/Main/val.txt",
        ),
        "voc, its folder": both(VOC, "VOC2012"),
        "nuswide": both(NUS, "N/ImageList/TrainImagelist.txt"),
        "nuswide, short": both(
            NUS | {"N/TrainTestLabels/Labels_cat_Train.txt": "1\n"},
            "N/ImageList/TrainImagelist.txt",
        ),
        "spml": both(SPML, "S/formatted_train_labels.npy"),
        "spml, observed": both(SPML, "S/formatted_train_labels_obs.npy"),
        "spml, names": both(
            SPML | {"S/formatted_train_classes.npy": npy(["cat", "dog"])},
            "S/formatted_train_labels.npy",
        ),
        "spml, pickled": both(
            SPML | {"S/formatted_train_images.npy": b"no array"}, "S/formatted_train_labels.npy"
        ),
        "openimages": both(OPEN, "oi.csv"),
        "openimages, machines": both(
            {"oi.csv": "ImageID,LabelName,Confidence\na,cat,0.7\n"}, "oi.csv"
        ),
        "openimages, clash": both(
            {"oi.csv": "ImageID,LabelName,Confidence\na,cat,0\na,cat,1\n"}, "oi.csv"
        ),
        "folder per class": both(
            {"f/cat/a.png": picture(0), "f/dog/b.png": picture(1), "f/c.png": picture(2)}, "f"
        ),
        "folder per class, splits": both(
            {"f/train/cat/a.png": picture(0), "f/test/dog/b.png": picture(1)}, "f"
        ),
        "folder of images": both({"f/images/a.png": picture(0)}, "f"),
        "metadata.jsonl": both(
            {
                "f/metadata.jsonl": '{"file_name": "a", "labels": ["cat"]}\n{"file_name": "b", "labels": "dog;cat", "absent": ["owl"]}\n'
            },
            "f",
        ),
        "metadata.csv": both({"f/metadata.csv": "file_name,labels\na,cat\nb,dog\n"}, "f"),
        "metadata.parquet": both(
            {"f/metadata.parquet": parquet(file_name=["a", "b"], cat=[1, 0])}, "f"
        ),
        "two metadata files": both({"f/metadata.csv": "", "f/metadata.jsonl": ""}, "f"),
        "huggingface": (
            {"d.parquet": packed([[0], [1, 2], []], ["cat", "dog", "owl"])},
            ["convert d.parquet out.csv", "convert d.parquet unpacked"],
        ),
        "huggingface, texts": (
            {"d.parquet": packed([["cat"], ["dog", "cat"], []])},
            ["convert d.parquet out.csv"],
        ),
        # several files
        "joined": (
            {"a.csv": WIDE, "b.csv": "image,dog,bee\nb.png,1,\ne.png,0,1\n"},
            ["convert a.csv b.csv out.csv"],
        ),
        "joined, formats": (
            {"a.csv": TAGS, "b.json": json.dumps(COCO)},
            ["convert a.csv b.json out.csv --contradictions unknown"],
        ),
        "joined, clash": (
            {"a.csv": WIDE, "b.csv": "image,cat\na.png,0\n"},
            [
                "convert a.csv b.csv out.csv",
                "convert a.csv b.csv o1.csv --contradictions unknown",
                "convert a.csv b.csv o2.csv --contradictions last",
            ],
        ),
        "joined, folders": (
            {"x/a.csv": WIDE, "y/b.csv": WIDE},
            ["convert x/a.csv y/b.csv out.csv"],
        ),
        "joined, aliases": (
            {"a.csv": WIDE, "b.csv": "image,kitty\ne.png,1\n", "al.txt": "kitty = cat\n"},
            ["convert a.csv b.csv out.csv --aliases al.txt"],
        ),
        "joined, groups": (
            {"a.csv": "image,group,cat\na,z,1\n", "b.csv": "image,group,cat\na,y,1\n"},
            ["convert a.csv b.csv out.csv"],
        ),
        "joined, mistakes in both": (
            {"a.csv": "image,cat\na,2\nb,1\nc,1\n", "b.csv": "image,cat\na,3\nb,1\nc,1\n"},
            ["convert a.csv b.csv out.csv"],
        ),
        # check
        "check": (
            {"x.csv": WIDE, **PHOTOS},
            ["check --labels x.csv --images photos --output p.csv"],
        ),
        "check, tags": (
            {"x.csv": TAGS, **PHOTOS},
            ["check --labels x.csv --images photos --no-decode"],
        ),
        "check, missing": (
            {"x.csv": WIDE + "z.png,1,1,1\n", **PHOTOS},
            [
                "check --labels x.csv --images photos",
                "check --labels x.csv --images photos --missing leave-out",
            ],
        ),
        "check, without endings": (
            {"x.csv": WIDE.replace(".png", ""), **PHOTOS},
            ["check --labels x.csv --images photos"],
        ),
        "check, Windows": (
            {"x.csv": WIDE.replace("\n", "\nphotos\\").removesuffix("photos\\"), **PHOTOS},
            ["check --labels x.csv --images photos"],
        ),
        "check, capitals": (
            {"x.csv": WIDE.replace(".png", ".PNG"), **PHOTOS},
            ["check --labels x.csv --images photos"],
        ),
        "check, numbers": (
            {
                "x.csv": "image,cat\n1,1\n2,0\n",
                "photos/0001.png": picture(1),
                "photos/0002.png": picture(2),
            },
            ["check --labels x.csv --images photos"],
        ),
        "check, two files may be meant": (
            {
                "x.csv": "image,cat\na,1\nb,0\n",
                "photos/a.png": picture(1),
                "photos/a.bmp": picture(2),
                "photos/b.png": picture(3),
            },
            ["check --labels x.csv --images photos"],
        ),
        "check, mistakes": (
            {"x.csv": "image,cat,dog\na.png,1,0\nb.png,2,1\n../c.png,0,1\n", **PHOTOS},
            ["check --labels x.csv --images photos --output p.csv"],
        ),
        "check, test file": (
            {"x.csv": FULL, "y.csv": "image,owl,cat,dog\nf.png,1,0,1\n", **PHOTOS},
            ["check --labels x.csv --images photos --test-labels y.csv"],
        ),
        "check, groups": (
            {"x.csv": FULL, "g.csv": "image,group\na.png,1\nb.png,1\n", **PHOTOS},
            [
                "check --labels x.csv --images photos --groups g.csv",
                "check --labels x.csv --images photos --groups folder",
            ],
        ),
        "check, unreadable": (
            {"x.csv": FULL, **PHOTOS, "photos/c.png": b"no picture"},
            [
                "check --labels x.csv --images photos",
                "check --labels x.csv --images photos --max-unreadable 0",
            ],
        ),
        "check, odd classes": (
            {
                "x.csv": "image,tags\n"
                + "".join(f"{n}.png,{'Cow' if n % 2 else 'cow'};none\n" for n in range(6)),
                **{f"photos/{n}.png": picture(n) for n in range(6)},
            },
            ["check --labels x.csv --images photos --output p.csv"],
        ),
    }
    for setting in (
        "full",
        "fspl",
        "sspl:0.5",
        "positives:1+1",
        "known:0.4",
        "biased:frequency",
        "own",
        "fspl@spml",
        "positives:1+1@spml",
        "sspl",
        "nothing",
    ):
        made[f"setting {setting}"] = csv(FULL, f"--setting {setting} --seed 3")
    rows = np.random.default_rng(5).random((120, 12)) < 0.3
    lines = [f"{n}.png," + ",".join(map(str, row.astype(int))) for n, row in enumerate(rows)]
    large = "image," + ",".join(f"c{n}" for n in range(12)) + "\n" + "\n".join(lines) + "\n"
    for setting in (
        "fspl",
        "sspl:0.2",
        "positives:2+1",
        "known:0.1",
        "biased:frequency",
        "fspl@spml",
        "positives:1+1@spml",
    ):
        made[f"setting {setting} of 120 images"] = csv(large, f"--setting {setting} --seed 7")
    return made


def cells(path: Path) -> object:
    """What must not change in a file."""
    if path.suffix == ".xlsx":
        import openpyxl

        rows = openpyxl.load_workbook(path).worksheets[0].iter_rows(values_only=True)
        return [list(row) for row in rows]
    if path.suffix == ".parquet":
        import pyarrow.parquet

        table = pyarrow.parquet.read_table(path)
        return [str(table.schema.remove_metadata()), table.to_pydict()]
    content = path.read_bytes()
    try:
        return content.decode() if len(content) < 600 else hashlib.sha256(content).hexdigest()
    except UnicodeDecodeError:
        return hashlib.sha256(content).hexdigest()


def run(words: str, main: Callable[[list[str]], int]) -> tuple[int, str]:
    """Run g2netpl here: its exit code, and what it printed."""
    arguments = [
        word.replace("_", " ").strip('"') if '"' in word else word for word in words.split()
    ]
    said = io.StringIO()
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
        try:
            code = main(arguments)
        except SystemExit as left:
            code = int(left.code or 0)
    return code, said.getvalue()


def record() -> dict[str, object]:
    """Run all cases."""
    from g2netpl.cli import main

    found: dict[str, object] = {}
    here = os.getcwd()
    for name, (files, commands) in cases().items():
        with tempfile.TemporaryDirectory() as folder:
            os.chdir(folder)
            for file, content in files.items():
                Path(file).parent.mkdir(parents=True, exist_ok=True)
                Path(file).write_bytes(content if isinstance(content, bytes) else content.encode())
            for words in commands:
                before = {path: path.stat().st_mtime_ns for path in Path().rglob("*")}
                code, said = run(words, main)
                made = [
                    p
                    for p in sorted(Path().rglob("*"))
                    if p.is_file() and before.get(p) != p.stat().st_mtime_ns
                ]
                found[f"{name} | {words}"] = {
                    "exit": code,
                    "files": {str(p): cells(p) for p in made},
                    "said": said.splitlines(),
                }
            os.chdir(here)
    return found


def main() -> int:
    """Record, and compare with an earlier record if there is one."""
    after = json.loads(json.dumps(record()))
    Path(sys.argv[1]).write_text(json.dumps(after, indent=1, ensure_ascii=False))
    print(f"{len(after)} commands")
    differ = 0
    if len(sys.argv) > 2:
        before = json.loads(Path(sys.argv[2]).read_text())
        for key in dict.fromkeys([*before, *after]):
            old, new = before.get(key), after.get(key)
            if (
                old is None
                or new is None
                or any(old[part] != new[part] for part in ("exit", "files"))
            ):
                differ += 1
                print(
                    f"\n== {key}\n  before: {json.dumps(old, ensure_ascii=False)[:900]}\n  after:  {json.dumps(new, ensure_ascii=False)[:900]}"
                )
        print(f"{differ} differ")
    return min(differ, 1)


if __name__ == "__main__":
    sys.exit(main())
