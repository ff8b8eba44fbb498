"""Damaged files: whatever the bytes are, a reader gives a valid table or one of our own errors."""

import io
import json
import random
import resource
import signal
import struct
import warnings
import zipfile
import zlib

import numpy as np
import pytest
from malformed import put
from packed import pictures

from g2netpl.labels.io import FORMATS, ReadOptions, find_format, read_labels, write_labels
from g2netpl.labels.io.options import class_problem
from g2netpl.labels.names import name_problem
from g2netpl.labels.table import LabelTable
from g2netpl.utils.errors import InputError

MUTANTS = 400
SECONDS, BYTES = 120, 1 << 30

PARTIAL = LabelTable(
    ("a.jpg", "sub/ü,1.jpg", "c.png", "d.jpg"),
    ("cat", "dog", "señal"),
    np.array([[1, 0, -1], [-1, 1, 0], [-1, -1, 1], [0, 0, 0]]),
)


def written(name, path):
    def make(folder):
        write_labels(PARTIAL, folder / path, name)
        return folder / path

    return make


def voc_lists(folder):
    main = folder / "VOC2012/ImageSets/Main"
    put(main / "cat_train.txt", "2008_000001  1\n2008_000002 -1\n2008_000003  0\n")
    put(main / "dog_train.txt", "2008_000001 -1\n2008_000002  1\n2008_000003 -1\n")
    return put(main / "train.txt", "2008_000001\n2008_000002\n2008_000003\n")


def nuswide(folder):
    put(folder / "NUS/Concepts81.txt", "cat\ndog\n")
    put(folder / "NUS/TrainTestLabels/Labels_cat_Test.txt", "1\n0\n0\n")
    put(folder / "NUS/TrainTestLabels/Labels_dog_Test.txt", "0\n1\n0\n")
    return put(folder / "NUS/ImageList/TestImagelist.txt", "a\\1.jpg\nb\\2.jpg\nc.jpg\n")


def spml(folder):
    values = np.where(PARTIAL.values == -1, 0, np.where(PARTIAL.values == 0, -1, 1))
    names = {"labels_obs": values.astype(float), "images": PARTIAL.images}
    for name, content in {**names, "classes": PARTIAL.classes}.items():
        np.save(folder / f"formatted_train_{name}.npy", np.array(content))
    return folder / "formatted_train_labels_obs.npy"


def openimages(folder):
    put(folder / "class-descriptions.csv", "/m/01,Cat\n/m/02,Dog\n")
    text = "ImageID,Source,LabelName,Confidence\na1,v,/m/01,1\na1,v,/m/02,0\nb2,v,/m/02,1\n"
    return put(folder / "labels.csv", text)


def coco(folder):
    content = {
        "info": {"year": 2014},
        "images": [
            {"id": 9, "file_name": "a.jpg", "height": 480, "width": 640},
            {"id": 25, "coco_url": "http://x/y/b.jpg", "neg_category_ids": [1, 3]},
        ],
        "annotations": [
            {"image_id": 9, "category_id": 3, "iscrowd": 1, "area": 12.5, "segmentation": [[1, 2]]},
            {"image_id": 9, "category_id": 1, "bbox": [1, 2, 3, 4], "area": 1e3},
        ],
        "categories": [{"id": 1, "name": "cat"}, {"id": 3, "name": "d\u00f6g \U0001f600"}],
    }
    text = json.dumps(content, ensure_ascii=False)
    return put(folder / "instances_val2014.json", text)


def tasks(folder):
    result = [
        {"type": "choices", "from_name": "c", "value": {"choices": ["cat", "dog"]}},
        {"type": "rectanglelabels", "value": {"rectanglelabels": ["owl"], "x": 1}},
    ]
    content = [
        {"data": {"image": "/data/local-files/?d=a%20b.jpg"}, "annotations": [{"result": result}]},
        {"data": {"image": "/data/upload/1/c.jpg"}, "annotations": [{"was_cancelled": True}]},
        {"data": {"image": "http://x/d.jpg"}, "predictions": [{"result": result}]},
    ]
    return put(folder / "tasks.json", json.dumps(content))


def voc_xml(folder):
    for name in ("a", "b"):
        put(
            folder / f"VOC2012/Annotations/{name}.xml",
            '<?xml version="1.0" encoding="utf-8"?>\n<annotation>\n<filename>a.jpg</filename>\n'
            "<object><name>cat</name><difficult>1</difficult></object>\n"
            "<object><name>dog</name><part><name>head</name></part></object></annotation>\n",
        )
    return put(folder / "VOC2012/ImageSets/Main/val.txt", "a\nb\n")


def lines(folder):
    text = '{"file_name": "a.jpg", "labels": ["cat", "dog"]}\n{"file_name": "b", "labels": "x;y"}\n'
    return put(folder / "metadata.jsonl", text)


def photo_tags(folder):
    """A JPEG header with XMP and IPTC, a PNG with XMP, and a sidecar; no pixels."""
    packet = (
        b"<x:xmpmeta xmlns:x='adobe:ns:meta/'><rdf:RDF xmlns:rdf='http://www.w3.org/1999/02/22-rdf-"
        b"syntax-ns#'><rdf:Description><dc:subject xmlns:dc='http://purl.org/dc/elements/1.1/'>"
        b"<rdf:Bag><rdf:li>cat</rdf:li></rdf:Bag></dc:subject></rdf:Description></rdf:RDF>"
        b"</x:xmpmeta>"
    )
    iptc = b"\x1c\x02\x19\x00\x03dog"
    photoshop = b"Photoshop 3.0\x008BIM\x04\x04\0\0" + struct.pack(">I", len(iptc)) + iptc
    segments = b"http://ns.adobe.com/xap/1.0/\0" + packet, photoshop
    jpeg = b"".join(
        b"\xff" + mark + struct.pack(">H", len(segment) + 2) + segment
        for mark, segment in zip((b"\xe1", b"\xed"), segments, strict=True)
    )
    (folder / "a.jpg").write_bytes(b"\xff\xd8" + jpeg + b"\xff\xda")
    text = b"XML:com.adobe.xmp\0\x01\0\0\0" + zlib.compress(packet)
    chunks = struct.pack(">I4s", len(text), b"iTXt") + text + bytes(8) + b"IEND" + bytes(4)
    (folder / "b.png").write_bytes(b"\x89PNG\r\n\x1a\n" + chunks)
    (folder / "b.xmp").write_bytes(packet)
    return folder


BASES = {
    "openimages": ("openimages", openimages),
    "tags": ("tags", written("tags", "tags.csv")),
    "csv": ("csv", written("csv", "labels.csv")),
    "xlsx": ("xlsx", written("xlsx", "labels.xlsx")),
    "parquet": ("parquet", written("parquet", "labels.parquet")),
    "coco": ("coco", coco),
    "label-studio": ("label-studio", tasks),
    "voc": ("voc", voc_lists),
    "voc by xml": ("voc", voc_xml),
    "nuswide": ("nuswide", nuswide),
    "spml": ("spml", spml),
    "imagefolder": ("imagefolder", lines),
    "huggingface": ("huggingface", lambda folder: pictures(folder / "data.parquet")),
    "photo-tags": ("photo-tags", photo_tags),
    "classes": ("classes", lambda folder: put(folder / "classes.txt", "cat\ndog\nowl\n")),
}
BY_NAME = ("photo-tags", "classes")  # which no looks tell
TOKENS = [
    *(b'"', b"\n", b"\r", b"\0", b",", b";", b"-", b"9" * 20, b"1e999", b"..", b"/", b"\\", b" "),
    *(b"\xff\xfe", b"\xef\xbb\xbf", b"\xed\xa0\x80", b"{", b"}", b"[", b"]", b"[" * 3000, b"null"),
    *(b"NaN", b"true", b"<!DOCTYPE a>", b"&lt;", b"<a>", b"]]>", b"\xff\xff\xff\x7f"),
    *(b"encoding='utf-7'", b"<?xml version='1.0' encoding='shift_jis'?>", b"(", b"L", b"'O'"),
]


def mutated(data, chance):
    data = bytearray(data)
    for _ in range(chance.choice((1, 1, 1, 2, 3, 6))):
        at = chance.randrange(len(data) + 1)
        length = chance.choice((1, 1, 2, 4, 16, 64))
        kind = chance.randrange(8)
        if kind == 0 and at < len(data):
            data[at] ^= 1 << chance.randrange(8)
        elif kind == 1 and at < len(data):
            data[at] = chance.randrange(256)
        elif kind == 2:
            del data[at : at + length]
        elif kind == 3:
            data[at:at] = chance.randbytes(length)
        elif kind == 4:
            data[at:at] = chance.choice(TOKENS)
        elif kind == 5 and chance.random() < 0.3:
            del data[at:]
        elif kind == 6:
            data[at:at] = data[at : at + length]
        else:
            other = chance.randrange(len(data) + 1)
            one, two = data[at : at + length], data[other : other + length]
            data[at : at + length] = two
            data[other : other + length] = one
    return bytes(data)


def mutated_within(data, chance):
    """One part of a workbook damaged, which is then packed anew: no checksum tells of it."""
    packed = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as before, zipfile.ZipFile(packed, "w") as after:
        chosen = chance.choice([name for name in before.namelist() if name.startswith("xl/")])
        for name in before.namelist():
            content = before.read(name)
            after.writestr(name, mutated(content, chance) if name == chosen else content)
    return packed.getvalue()


def is_valid(table):
    return (
        isinstance(table, LabelTable)
        and table.values.dtype == np.int8
        and np.isin(table.values, (-1, 0, 1)).all()
        and not any(map(name_problem, table.images))
        and not any(map(class_problem, table.classes))
        and len(table.fingerprint()) == 64
    )


def hangs(*_):
    pytest.fail(f"a damaged file is read for more than {SECONDS} s")


def test_every_format_is_damaged():
    assert {name for name, _ in BASES.values()} == set(FORMATS)


@pytest.mark.parametrize("base", BASES)
def test_a_damaged_file_is_an_error_of_ours_or_a_table(tmp_path, base):
    name, make = BASES[base]
    path = make(tmp_path)
    asked = name if name in BY_NAME else None
    assert find_format(path, asked) is FORMATS[name]
    assert is_valid(read_labels(path, asked))
    files = {file: file.read_bytes() for file in sorted(tmp_path.rglob("*")) if file.is_file()}
    chance = random.Random(base)
    readings = [ReadOptions(), ReadOptions(absent="negative"), ReadOptions(classes=("cat", "dog"))]
    outcomes = {"table": 0, "error": 0}
    escaped = []
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    before = signal.signal(signal.SIGALRM, hangs)
    try:
        for number in range(MUTANTS):
            file = chance.choice(list(files))
            within = file.suffix == ".xlsx" and number % 2
            damage = mutated_within if within else mutated
            file.write_bytes(damaged := damage(files[file], chance))
            signal.alarm(SECONDS)
            with warnings.catch_warnings(record=True) as warned:
                warnings.simplefilter("always")
                try:
                    table = read_labels(path, name, readings[number % len(readings)])
                    outcomes["table"] += 1
                    if not is_valid(table):
                        escaped.append((number, "not a valid table", damaged))
                except InputError as problem:
                    outcomes["error"] += 1
                    if not str(problem).startswith(str(tmp_path)):
                        escaped.append((number, f"no file is named: {problem}", damaged))
                except Exception as problem:
                    escaped.append((number, repr(problem), damaged))
            escaped += [(number, str(warning.message), damaged) for warning in warned]
            file.write_bytes(files[file])
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
    assert not escaped, f"{len(escaped)} of {MUTANTS}, the first: {escaped[0]}"
    assert outcomes["table"] > MUTANTS / 100, outcomes
    assert outcomes["error"] > MUTANTS / 100 or base == "photo-tags", outcomes
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - peak) * 1024
    if base != "xlsx":  # calamine makes room for a damaged row number of a million
        assert grown < BYTES, f"{grown:,} bytes"
