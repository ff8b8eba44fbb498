"""Damaged files: whatever the bytes are, a reader gives a valid table or one of our own errors."""

import io
import random
import warnings
import zipfile

import label_samples
import numpy as np
import pytest
from malformed import put
from packed import pictures
from PIL import Image

from g2netpl.labels.io import FORMATS, ReadOptions, read_labels, write_labels
from g2netpl.labels.names import name_problem
from g2netpl.labels.table import LabelTable
from g2netpl.utils.errors import InputError

MUTANTS = 60
TABLE = LabelTable(("a.jpg", "ü,1.jpg"), ("cat", "dog"), np.array([[1, 0], [-1, 1]]))
XMP = b"""<rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#"><rdf:Description>
<dc:subject xmlns:dc="http://purl.org/dc/elements/1.1/"><rdf:Bag><rdf:li>cat</rdf:li></rdf:Bag>
</dc:subject></rdf:Description></rdf:RDF>"""


def written(name):
    def make(folder):
        write_labels(TABLE, folder / name)
        return folder / name

    return make


def photos(folder):
    for ending in ("JPEG", "PNG"):
        Image.new("RGB", (4, 4)).save(folder / f"a.{ending}", ending, xmp=XMP)
    put(folder / "a.JPEG.xmp", XMP)
    return folder


SAMPLES = {
    "openimages": label_samples.openimages,
    "tags": label_samples.tag_file,
    "csv": label_samples.wide,
    "xlsx": written("x.xlsx"),
    "parquet": written("x.parquet"),
    "coco": label_samples.lvis,
    "label-studio": label_samples.tasks,
    "voc": label_samples.voc_lists,
    "voc, XML": label_samples.voc_xml,
    "nuswide": label_samples.nuswide,
    "spml": label_samples.spml_observed,
    "imagefolder": label_samples.metadata,
    "huggingface": lambda folder: pictures(folder / "data.parquet"),
    "photo-tags": photos,
    "classes": lambda folder: put(folder / "classes.txt", "cat\ndog\nowl\n"),
}
TOKENS = [
    *(b'"', b"\n", b"\r", b"\0", b",", b";", b"-", b"9" * 20, b"1e999", b"..", b"/", b"\\", b" "),
    *(b"\xff\xfe", b"\xed\xa0\x80", b"{", b"}", b"[", b"]", b"[" * 3000, b"null", b"NaN"),
    *(b"<!DOCTYPE a>", b"&lt;", b"<a>", b"]]>", b"\xff\xff\xff\x7f", b"encoding='utf-7'"),
]


def mutated(data, chance):
    data = bytearray(data)
    for _ in range(chance.choice((1, 1, 2, 5))):
        at, length = chance.randrange(len(data) + 1), chance.choice((1, 4, 64))
        part = chance.choice([b"", chance.randbytes(length), chance.choice(TOKENS), data[:length]])
        data[at : at + chance.choice((0, length))] = part
    return bytes(data)


def mutated_within(data, chance):
    """One part of a workbook damaged, which is then packed again with a valid checksum."""
    packed = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as before, zipfile.ZipFile(packed, "w") as after:
        chosen = chance.choice([name for name in before.namelist() if name.startswith("xl/")])
        for name in before.namelist():
            content = before.read(name)
            after.writestr(name, mutated(content, chance) if name == chosen else content)
    return packed.getvalue()


def test_every_format_is_damaged():
    assert {name.partition(",")[0] for name in SAMPLES} == set(FORMATS)


@pytest.mark.parametrize("sample", SAMPLES)
def test_a_damaged_file_is_an_error_of_ours_or_a_table(tmp_path, sample):
    path, format = SAMPLES[sample](tmp_path), sample.partition(",")[0]
    files = {file: file.read_bytes() for file in sorted(tmp_path.rglob("*")) if file.is_file()}
    chance = random.Random(sample)
    readings = [ReadOptions(), ReadOptions(absent="negative"), ReadOptions(classes=("cat", "dog"))]
    for number in range(MUTANTS):
        file = chance.choice(list(files))
        damage = mutated_within if file.suffix == ".xlsx" and number % 2 else mutated
        file.write_bytes(damaged := damage(files[file], chance))
        says, images = str(tmp_path), ()
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            try:
                images = read_labels(path, format, readings[number % len(readings)]).images
            except InputError as problem:
                says = str(problem)
        assert says.startswith(str(tmp_path)), damaged
        assert not any(map(name_problem, images)), damaged
        file.write_bytes(files[file])
