"""Tags in photos: dialects written by hand, and programs of photographers as reader and writer."""

import json
import os
import re
import shutil
import struct
import subprocess
import sys
import zlib
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from malformed import put
from PIL import Image

from g2netpl.base.errors import InputError
from g2netpl.cli import main
from g2netpl.labels.formats import LabelFileError, Reading, photo_tags, read_labels, write_labels
from g2netpl.labels.formats.photos import headers, xmp
from g2netpl.labels.formats.photos.library import at_level
from g2netpl.labels.table import LabelTable

RDF = "http://www.w3.org/1999/02/22-rdf-syntax-ns#"
DC, LR = "http://purl.org/dc/elements/1.1/", "http://ns.adobe.com/lightroom/1.0/"
DIGIKAM = "http://www.digikam.org/ns/1.0/"


def listed(name, *keywords, kind="Bag"):
    items = "".join(f"<rdf:li>{each}</rdf:li>" for each in keywords)
    return f"<{name}><rdf:{kind}>{items}</rdf:{kind}></{name}>"


def packet(*properties):
    spaces = f'xmlns:rdf="{RDF}" xmlns:dc="{DC}" xmlns:lr="{LR}" xmlns:digiKam="{DIGIKAM}"'
    return (
        f'<x:xmpmeta xmlns:x="adobe:ns:meta/"><rdf:RDF {spaces}><rdf:Description rdf:about="">'
        f"{''.join(properties)}</rdf:Description></rdf:RDF></x:xmpmeta>"
    )


def segment(marker, content):
    return b"\xff" + bytes([marker]) + struct.pack(">H", len(content) + 2) + content


def jpeg(*segments):
    return b"\xff\xd8" + b"".join(segments) + b"\xff\xda"


def xmp_segment(text):
    content = text if isinstance(text, bytes) else text.encode()
    return segment(0xE1, b"http://ns.adobe.com/xap/1.0/\0" + content)


def iim(*keywords, utf8=False):
    marked = b"\x1c\x01\x5a\x00\x03\x1b%G" if utf8 else b""
    sets = (b"\x1c\x02\x19" + struct.pack(">H", len(each)) + each for each in keywords)
    return marked + b"".join(sets)


def photoshop(records, name=b""):
    padded = bytes([len(name)]) + name + (b"" if len(name) % 2 else b"\0")
    block = b"8BIM\x04\x04" + padded + struct.pack(">I", len(records)) + records
    other = b"8BIM\x04\x25\0\0\0\0\0\x03abc\0"  # of another kind, with an odd length
    return b"Photoshop 3.0\0" + other + block


def png(*chunks):
    made = (struct.pack(">I4s", len(data), kind) + data + bytes(4) for kind, data in chunks)
    return b"\x89PNG\r\n\x1a\n" + b"".join(made)


def itxt(text, compressed=False):
    content = zlib.compress(text) if compressed else text
    return b"iTXt", b"XML:com.adobe.xmp\0" + bytes([compressed, 0]) + b"en\0x\0" + content


def tiff(order, *entries):
    """A first folder behind the values; each is tag, type, size of its values, bytes."""
    values, folder = b"", struct.pack(f"{order}H", len(entries))
    for tag, kind, size, content in entries:
        place = 8 + len(values)
        folder += struct.pack(f"{order}HHII", tag, kind, len(content) // size, place)
        values += content
    start = b"II*\0" if order == "<" else b"MM\0*"
    return start + struct.pack(f"{order}I", 8 + len(values)) + values + folder + bytes(4)


def tags(folder, name="a.jpg", **how):
    table = read_labels(folder, "photo-tags", Reading(**how))
    row = table.values[table.images.index(name)]
    assert set(row.tolist()) <= {1, -1}
    return {each for each, value in zip(table.classes, row, strict=True) if value == 1}


CAT = packet(listed("dc:subject", "cat"))

# In the files


FILES = {
    "JPEG with XMP": jpeg(segment(0xE0, b"JFIF\0"), segment(0xE1, b"Exif\0\0"), xmp_segment(CAT)),
    "JPEG with IPTC": jpeg(segment(0xED, photoshop(iim(b"cat")))),
    "JPEG with a named block": jpeg(segment(0xED, photoshop(iim(b"cat"), b"name"))),
    "JPEG with IPTC in two segments": jpeg(
        segment(0xED, photoshop(iim(b"cat"))[:45]),
        segment(0xED, b"Photoshop 3.0\0" + photoshop(iim(b"cat"))[45:]),
    ),
    "JPEG with fill bytes": jpeg(b"\xff\xff", segment(0xE0, b""), b"\xff" * 3, xmp_segment(CAT)),
    "PNG": png(itxt(CAT.encode()), (b"IEND", b"")),
    "PNG, behind the pixels, packed": png(
        (b"IDAT", bytes(70_000)), itxt(CAT.encode(), True), (b"IEND", b"")
    ),
    "WebP": b"RIFF\0\0\0\0WEBPVP8 \3\0\0\0abc\0XMP " + struct.pack("<I", len(CAT)) + CAT.encode(),
    "TIFF, small end": tiff("<", (256, 3, 2, b"\1\0"), (700, 1, 1, CAT.encode())),
    "TIFF, big end, IPTC": tiff(">", (33723, 4, 4, iim(b"cat"))),
    "TIFF, Photoshop": tiff(">", (34377, 7, 1, photoshop(iim(b"cat"))[14:])),
}


@pytest.mark.parametrize("kind", FILES)
def test_tags_are_found_in_the_header_of_a_photo(tmp_path, kind):
    put(tmp_path / "a.jpg", FILES[kind])  # whatever it is called
    assert tags(tmp_path) == {"cat"}


@pytest.mark.parametrize(
    ("records", "expected"),
    [
        (iim("große Möwe".encode(), utf8=True), "große Möwe"),
        (iim("große Möwe".encode()), "große Möwe"),
        (iim("große Möwe".encode("latin-1")), "große Möwe"),
        (iim("große Möwe".encode("latin-1"), utf8=True), "große Möwe"),
        (b"\x1c\x02\x19\x80\x02\x00\x03cat", "cat"),  # the length of a length
        (iim(b"cat") + bytes(5), "cat"),
    ],
)
def test_iptc_in_either_alphabet(records, expected):
    assert headers.keywords(records) == [expected]


LYING = {
    "a segment of no length": b"\xff\xd8\xff\xe1\0\1",
    "a segment beyond the end": b"\xff\xd8\xff\xe1\xff\xffhttp://ns.adobe.com/xap/1.0/\0<",
    "no segment at all": b"\xff\xd8cat",
    "a keyword beyond the end": jpeg(segment(0xED, photoshop(b"\x1c\x02\x19\x7f\xffcat"))),
    "a length of 32,767 bytes": jpeg(segment(0xED, photoshop(b"\x1c\x02\x19\xff\xffcat"))),
    "a resource of 4 GB": jpeg(segment(0xED, b"Photoshop 3.0\x008BIM\x04\x04\0\0\xff\xff\xff\xff")),
    "a chunk of 4 GB": b"\x89PNG\r\n\x1a\n\xff\xff\xff\xffiTXt",
    "a packed gigabyte": png(itxt(bytes(1 << 25), True), (b"IEND", b"")),
    "a packed nothing": png((b"iTXt", b"XML:com.adobe.xmp\0\1\0\0\0cat"), (b"IEND", b"")),
    "a folder of TIFF elsewhere": b"II*\0\xff\xff\xff\xff",
    "a value of 4 GB": tiff("<", (700, 1, 1, CAT.encode())).replace(
        struct.pack("<HHI", 700, 1, len(CAT)), struct.pack("<HHI", 700, 1, 0xFFFFFFFF)
    ),
    "WebP of 4 GB": b"RIFF\0\0\0\0WEBPXMP \xff\xff\xff\xff",
    "a DOCTYPE": jpeg(xmp_segment("<!DOCTYPE a [<!ENTITY b 'cat'>]><a>&b;</a>")),
    "no XMP": jpeg(xmp_segment("<a/>")),
    "no XML": jpeg(xmp_segment("cat")),
    "no text": jpeg(xmp_segment(b"<a>\xff</a>")),
}


@pytest.mark.parametrize("lie", LYING)
def test_a_lying_header_is_told_and_other_photos_are_read(tmp_path, lie):
    put(tmp_path / "a.jpg", LYING[lie])
    put(tmp_path / "b.jpg", jpeg(xmp_segment(CAT)))
    table = read_labels(tmp_path, "photo-tags")
    assert table.values.tolist() == [[-1], [1]]
    assert table.notes[0] == "1 of 2 photos have tags in themselves, 0 in sidecars, 0 in both"
    (told,) = table.notes[1:]
    first = f"1 fault in tags, which are not read; the first: {tmp_path / 'a.jpg'}: "
    assert told.startswith(first)


def test_what_stands_before_a_fault_is_read(tmp_path):
    put(tmp_path / "a.jpg", jpeg(xmp_segment(CAT))[:-2] + b"\xff\xe1\xff\xffhttp")
    assert tags(tmp_path) == {"cat"}


# Sidecars, as programs write them

DARKTABLE = f"""<?xml version="1.0" encoding="UTF-8"?>
<x:xmpmeta xmlns:x="adobe:ns:meta/" x:xmptk="XMP Core 4.4.0-Exiv2">
 <rdf:RDF xmlns:rdf="{RDF}">
  <rdf:Description rdf:about=""
    xmlns:xmp="http://ns.adobe.com/xap/1.0/"
    xmlns:darktable="http://darktable.sf.net/"
    xmlns:dc="{DC}"
    xmlns:lr="{LR}"
   xmp:Rating="1"
   darktable:history_end="2">
   <darktable:history>
    <rdf:Seq>
     <rdf:li
      darktable:operation="exposure" darktable:params="0000>00"/>
    </rdf:Seq>
   </darktable:history>
   <dc:subject>
    <rdf:Seq>
     <rdf:li>animal</rdf:li>
     <rdf:li>bird</rdf:li>
     <rdf:li>darktable</rdf:li>
     <rdf:li>exported</rdf:li>
     <rdf:li>kestrel</rdf:li>
     <rdf:li>winter</rdf:li>
    </rdf:Seq>
   </dc:subject>
   <lr:hierarchicalSubject>
    <rdf:Seq>
     <rdf:li>animal|bird|kestrel</rdf:li>
     <rdf:li>darktable|exported</rdf:li>
     <rdf:li>winter</rdf:li>
    </rdf:Seq>
   </lr:hierarchicalSubject>
  </rdf:Description>
 </rdf:RDF>
</x:xmpmeta>
"""
DIGIKAM_SIDECAR = f"""<?xpacket begin="\ufeff" id="W5M0MpCehiHzreSzNTczkc9d"?>
<x:xmpmeta xmlns:x="adobe:ns:meta/" x:xmptk="XMP Core 5.6.0">
 <rdf:RDF xmlns:rdf="{RDF}">
  <rdf:Description rdf:about="" xmlns:digiKam="{DIGIKAM}" xmlns:dc="{DC}"
    digiKam:ColorLabel="0" digiKam:PickLabel="0">
   <digiKam:TagsList><rdf:Seq>
     <rdf:li>animal/bird</rdf:li><rdf:li>animal/bird/kestrel</rdf:li><rdf:li>winter</rdf:li>
   </rdf:Seq></digiKam:TagsList>
   <dc:subject><rdf:Bag>
     <rdf:li>bird</rdf:li><rdf:li>kestrel</rdf:li><rdf:li>winter</rdf:li>
   </rdf:Bag></dc:subject>
  </rdf:Description>
 </rdf:RDF>
</x:xmpmeta>
<?xpacket end="w"?>"""
LIGHTROOM = f"""<?xpacket begin="\ufeff" id="W5M0MpCehiHzreSzNTczkc9d"?>
<x:xmpmeta xmlns:x="adobe:ns:meta/" x:xmptk="Adobe XMP Core 7.0">
 <rdf:RDF xmlns:rdf="{RDF}">
  <rdf:Description rdf:about="" xmlns:crs="http://ns.adobe.com/camera-raw-settings/1.0/"
   crs:Exposure2012="+0.35"/>
  <rdf:Description rdf:about="" xmlns:l="{LR}">
   <l:hierarchicalSubject><rdf:Bag><rdf:li>winter</rdf:li><rdf:li>animal|bird|kestrel</rdf:li>
   </rdf:Bag></l:hierarchicalSubject>
  </rdf:Description>
  <rdf:Description xmlns:purl="{DC}" rdf:about=""><purl:subject><rdf:Bag>
   <rdf:li>kestrel</rdf:li><rdf:li>winter</rdf:li></rdf:Bag></purl:subject></rdf:Description>
 </rdf:RDF>
</x:xmpmeta>
<?xpacket end="w"?>"""
OTHER_PREFIX = f"""<RDF xmlns="{RDF}" xmlns:rdf="urn:other"><Description xmlns:a="{LR}"
 xmlns:dc="urn:not-dublin-core"><dc:subject>no</dc:subject><a:hierarchicalSubject><Bag>
 <li xml:lang="en"> winter </li><li>animal|bird|kestrel</li></Bag></a:hierarchicalSubject>
</Description></RDF>"""
SIDECARS = {
    "darktable": DARKTABLE,
    "digiKam": DIGIKAM_SIDECAR,
    "Lightroom": LIGHTROOM,
    "other prefixes": OTHER_PREFIX,
    "UTF-8 with a mark": "\ufeff" + LIGHTROOM,
    "UTF-16 with a mark": ("\ufeff" + LIGHTROOM).encode("utf-16-le"),
    "UTF-16, big end, without": LIGHTROOM.encode("utf-16-be"),
    "UTF-32": LIGHTROOM.encode("utf-32-le"),
    "padded": LIGHTROOM + " " * 2000 + "\n\0",
}


@pytest.mark.parametrize("name", ["a.jpg.xmp", "a.JPG.XMP", "a.xmp", "A.XMP"])
@pytest.mark.parametrize("dialect", SIDECARS)
def test_sidecars_in_every_dialect(tmp_path, dialect, name):
    put(tmp_path / "sub/a.jpg")
    put(tmp_path / "sub" / name, SIDECARS[dialect])
    assert tags(tmp_path, "sub/a.jpg") == {"kestrel", "winter"}
    assert tags(tmp_path, "sub/a.jpg", level="all") == {"animal", "bird", "kestrel", "winter"}
    assert tags(tmp_path, "sub/a.jpg", level=1) == {"animal", "winter"}
    assert tags(tmp_path, "sub/a.jpg", level=2) == {"bird"}
    with pytest.raises(InputError, match="1 tagged photo without a tag of level 4"):
        tags(tmp_path, "sub/a.jpg", level=4)


def test_a_keyword_in_no_list_is_one_too(tmp_path):
    put(tmp_path / "a.jpg")
    put(tmp_path / "a.jpg.xmp", packet("<dc:subject>cat</dc:subject>"))
    assert tags(tmp_path) == {"cat"}
    attribute = packet().replace('rdf:about=""', 'rdf:about="" dc:subject="cat"')
    put(tmp_path / "a.jpg.xmp", attribute)
    assert tags(tmp_path) == {"cat"}


def test_levels():
    paths = {("animal", "bird"), ("animal", "bird", "kestrel"), ("bird",), ("winter",)}
    assert at_level(paths, "leaf") == {"kestrel", "winter"}
    assert at_level(paths, "all") == {"animal", "bird", "kestrel", "winter"}
    assert at_level(paths, 1) == {"animal", "winter"}
    assert at_level({("a", "x"), ("b", "x"), ("x",)}, "leaf") == {"x"}
    assert at_level(set(), "leaf") == set()


def test_tags_of_the_photo_and_of_its_sidecars_count_together(tmp_path):
    put(tmp_path / "a.jpg", jpeg(xmp_segment(CAT), segment(0xED, photoshop(iim(b"owl")))))
    put(tmp_path / "a.jpg.xmp", packet(listed("dc:subject", "dog", "cat")))
    put(tmp_path / "a.xmp", packet(listed("dc:subject", "fox")))
    put(tmp_path / "b.jpg", jpeg(xmp_segment(CAT)))
    put(tmp_path / "c.png")
    put(tmp_path / "d/c.png")
    table = read_labels(tmp_path, "photo-tags")
    assert table.images == ("a.jpg", "b.jpg", "c.png", "d/c.png")
    assert table.classes == ("cat", "dog", "fox", "owl")
    assert table.values.tolist() == [[1, 1, 1, 1], [1, -1, -1, -1], [-1] * 4, [-1] * 4]
    assert table.notes == ("2 of 4 photos have tags in themselves, 1 in sidecars, 1 in both",)
    complete = read_labels(tmp_path, "photo-tags", Reading(absent="negative"))
    assert complete.values[1:].tolist() == [[1, 0, 0, 0], [0] * 4, [0] * 4]


def test_a_sidecar_of_another_photo_is_not_read(tmp_path):
    for name in ("a.jpg", "A.jpg", "a.jpg.png"):
        put(tmp_path / name)
    put(tmp_path / "a.jpg.xmp", CAT)
    table = read_labels(tmp_path, "photo-tags")
    assert dict(zip(table.images, table.values[:, 0].tolist(), strict=True)) == {
        "a.jpg": 1,
        "A.jpg": -1,
        "a.jpg.png": -1,
    }


def test_tags_that_are_no_classes_are_left_out_and_told(tmp_path):
    put(tmp_path / "a.jpg", jpeg(xmp_segment(packet(listed("dc:subject", "cat", "aunt", "2019")))))
    table = read_labels(tmp_path, "photo-tags", Reading(classes=("dog", "cat")))
    assert table.classes == ("dog", "cat")
    assert table.values.tolist() == [[-1, 1]]
    assert table.notes[1:] == ("2 tags not among the classes, as '2019': left out",)


def test_one_word_in_two_places_of_the_hierarchy_is_told(tmp_path):
    lists = listed("lr:hierarchicalSubject", "fruit|orange", "colour|orange")
    put(tmp_path / "a.jpg", jpeg(xmp_segment(packet(lists))))
    table = read_labels(tmp_path, "photo-tags")
    assert table.notes[1:] == ("tag 'orange' is one class for colour|orange and fruit|orange",)


def hanging(path):
    path.symlink_to("nowhere")


def outwards(path):
    path.symlink_to(put(path.parent.parent / "secret.xmp", CAT))


@pytest.mark.parametrize("make", [hanging, outwards, Path.mkdir, os.mkfifo])
def test_a_sidecar_that_is_no_file_of_the_folder_is_told(tmp_path, make):
    folder = tmp_path / "photos"
    put(folder / "a.jpg", jpeg(xmp_segment(packet(listed("dc:subject", "dog")))))
    make(folder / "a.jpg.xmp")
    table = read_labels(folder, "photo-tags")
    assert table.classes == ("dog",)
    assert f"the first: {folder / 'a.jpg.xmp'}: " in table.notes[1]
    new = LabelTable(("a.jpg",), ("owl",), np.array([[1]]))
    with pytest.raises(LabelFileError, match=r"a\.jpg\.xmp: nothing is written: .* move it away"):
        write_labels(new, folder, "photo-tags")


def test_a_link_within_the_folder_is_read_and_not_written(tmp_path):
    put(tmp_path / "a.jpg")
    put(tmp_path / "kept/x.txt", CAT)
    (tmp_path / "a.jpg.xmp").symlink_to("kept/x.txt")
    assert tags(tmp_path) == {"cat"}
    with pytest.raises(LabelFileError, match="a link is not written to"):
        write_labels(LabelTable(("a.jpg",), ("owl",), [[1]]), tmp_path, "photo-tags")
    assert (tmp_path / "kept/x.txt").read_text() == CAT


# Folders that were given without a format


def test_a_folder_of_tagged_photos_is_told_which_format_to_ask_for(tmp_path, capsys):
    folder = tmp_path / "photos"
    put(folder / "a.jpg", jpeg(xmp_segment(CAT)))
    hint = "the photos carry tags of their own, which --format photo-tags reads"
    assert main(["check", "--labels", str(folder)]) == 2
    assert f"found 1 images in the folder itself; {hint}\n" in capsys.readouterr().err
    put(folder / "train/b.jpg")
    with pytest.raises(InputError, match=f"no names of classes; .*; {hint}"):
        read_labels(folder)
    put(folder / "2019 holidays/b.jpg")
    assert read_labels(folder).notes[-1] == hint
    put(folder / "a.jpg")
    assert hint not in read_labels(folder).notes


# Written


def table_of(**labels):
    """Photos by name, with + and - before the classes that they have and have not."""
    said = {f"{name}.jpg": text.split() for name, text in labels.items()}
    classes = sorted({word[1:] for words in said.values() for word in words})
    values = np.full((len(said), len(classes)), -1)
    for row, words in enumerate(said.values()):
        for word in words:
            values[row, classes.index(word[1:])] = word[0] == "+"
    return LabelTable(tuple(said), classes, values)


def keywords(path, property=xmp.SUBJECT):
    return xmp.parse(path.read_bytes()).keywords(property)


@pytest.mark.parametrize("dialect", [each for each in SIDECARS if each != "padded"])
def test_all_but_the_keywords_of_a_sidecar_stays_byte_by_byte(tmp_path, dialect):
    put(tmp_path / "a.jpg")
    before = SIDECARS[dialect]
    before = before if isinstance(before, bytes) else before.encode()
    path = put(tmp_path / "a.jpg.xmp", before)
    os.chmod(path, 0o640)
    write_labels(table_of(a="+owl -winter"), tmp_path, "photo-tags")
    assert tags(tmp_path) == {"kestrel", "owl"}
    assert path.stat().st_mode & 0o777 == 0o640
    assert (tmp_path / "a.jpg").read_bytes() == b""
    encoding = {"UTF-16 with a mark": "utf-16-le", "UTF-16, big end, without": "utf-16-be"}
    encoding |= {"UTF-32": "utf-32-le"}
    code = encoding.get(dialect, "utf-8")
    item = r"\s*<(\w+:)?li[^>]*>\s*(owl|winter|{})\s*</(\w+:)?li>"
    old, new = before.decode(code), path.read_bytes().decode(code)
    assert "owl" not in old
    assert "winter" not in new
    old, new = (re.sub(item.format("none"), "", each) for each in (old, new))
    made = r"\n   <(\w+):subject xmlns:\1=.*?</\1:subject>"
    assert re.sub(made, "", new, flags=re.DOTALL) == old


def test_every_list_of_a_sidecar_gets_the_tag_in_its_own_way(tmp_path):
    for name, sidecar in (("a", DARKTABLE), ("b", DIGIKAM_SIDECAR), ("c", LIGHTROOM), ("d", CAT)):
        put(tmp_path / f"{name}.jpg")
        put(tmp_path / f"{name}.xmp", sidecar)
    put(tmp_path / "e.jpg", jpeg(xmp_segment(packet(listed("dc:subject", "old")))))
    put(
        tmp_path / "f.jpg", jpeg(xmp_segment(packet(listed("lr:hierarchicalSubject", "place|sea"))))
    )
    labels = dict.fromkeys("abcdef", "+kestrel +sea +a/b")
    write_labels(table_of(**labels), tmp_path, "photo-tags")
    added = ["a/b", "sea"]
    assert keywords(tmp_path / "a.xmp")[-2:] == added
    assert keywords(tmp_path / "a.xmp", xmp.HIERARCHY)[-2:] == ["a/b", "place|sea"]
    assert keywords(tmp_path / "b.xmp")[-2:] == added
    listed_before = ["animal/bird", "animal/bird/kestrel", "winter"]
    assert keywords(tmp_path / "b.xmp", xmp.TAGS_LIST) == [*listed_before, "place/sea"]
    # the list of tags with levels is new: programs look at no other then, so it holds all
    everything = ["animal|bird", "animal|bird|kestrel", "winter", "a/b", "place|sea"]
    assert keywords(tmp_path / "b.xmp", xmp.HIERARCHY) == everything
    assert keywords(tmp_path / "c.xmp", xmp.HIERARCHY)[-2:] == ["a/b", "place|sea"]
    assert keywords(tmp_path / "d.xmp") == ["cat", "a/b", "kestrel", "sea"]
    assert keywords(tmp_path / "d.xmp", xmp.HIERARCHY)[:2] == ["cat", "a/b"]
    # a new sidecar takes over what the photo says
    assert keywords(tmp_path / "e.jpg.xmp") == ["old", "a/b", "kestrel", "sea"]
    assert keywords(tmp_path / "f.jpg.xmp") == ["sea", "a/b", "kestrel"]
    assert keywords(tmp_path / "f.jpg.xmp", xmp.HIERARCHY)[0] == "place|sea"
    assert not (tmp_path / "d.jpg.xmp").exists()


def test_a_tag_goes_only_where_a_label_is_negative(tmp_path):
    put(tmp_path / "a.jpg", jpeg(xmp_segment(CAT)))
    put(tmp_path / "a.jpg.xmp", packet(listed("dc:subject", "dog", "cat", "aunt")))
    put(tmp_path / "b.jpg", jpeg(xmp_segment(CAT)))
    put(tmp_path / "c.jpg.xmp", DARKTABLE)
    put(tmp_path / "c.jpg")
    labels = table_of(a="-dog -cat", b="-cat +dog", c="-bird -winter")
    notes = write_labels(labels, tmp_path, "photo-tags")
    assert keywords(tmp_path / "a.jpg.xmp") == ["aunt"]
    assert keywords(tmp_path / "b.jpg.xmp") == ["dog"]
    assert "bird" in keywords(tmp_path / "c.jpg.xmp")  # a level of kestrel
    assert keywords(tmp_path / "c.jpg.xmp", xmp.HIERARCHY)[-1] == "darktable|exported"
    assert notes == [
        "3 sidecars, 1 of them new: 1 tag added, 3 taken out",
        "2 negative labels against a tag in the photo itself, or in a second sidecar: it stays "
        "there",
        "5 negative labels not kept: a tag says what is there",
    ]


def test_tags_that_nobody_gave_are_marked_and_not_read_as_known(tmp_path):
    put(tmp_path / "a.jpg", jpeg(xmp_segment(CAT)))
    labels = table_of(a="+cat +dog +owl")
    guessed = np.array([[False, True, True]])
    photo_tags.write(labels, tmp_path, guessed)
    path = tmp_path / "a.jpg.xmp"
    assert keywords(path) == ["cat", "dog", "owl"]
    assert keywords(path, xmp.ADDED) == ["dog", "owl"]
    table = read_labels(tmp_path, "photo-tags")
    assert table.classes == ("cat",)
    assert table.notes[-1] == "2 tags added by g2netpl: not taken as known"
    written = path.read_bytes()
    assert photo_tags.write(labels, tmp_path, guessed)[0].startswith("0 sidecars")
    assert path.read_bytes() == written
    (note,) = photo_tags.write(labels, tmp_path, np.array([[False, False, True]]))
    assert note == "1 sidecar, 0 of them new: 0 tags added, 0 taken out, 1 confirmed by people"
    assert tags(tmp_path) == {"cat", "dog"}
    photo_tags.write(table_of(a="-owl"), tmp_path)
    assert keywords(path) == ["cat", "dog"]
    assert keywords(path, xmp.ADDED) == []


def test_names_of_new_sidecars(tmp_path):
    for name in ("a.jpg", "b.jpg", "b.png", "sub/c.JPG"):
        put(tmp_path / name)
    put(tmp_path / "b.xmp", CAT)
    images = ("a.jpg", "b.jpg", "b.png", "sub/c.JPG")
    labels = LabelTable(images, ("owl",), np.ones((4, 1)))
    photo_tags.write(labels, tmp_path, stem=True)
    made = sorted(str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*.xmp"))
    assert made == ["a.xmp", "b.jpg.xmp", "b.png.xmp", "b.xmp", "sub/c.xmp"]
    assert (tmp_path / "b.xmp").read_text() == CAT  # which would be that of both
    assert (read_labels(tmp_path, "photo-tags", Reading(classes=("owl",))).values == 1).all()


def test_a_fault_in_one_sidecar_and_nothing_is_written_anywhere(tmp_path):
    for name in "abcd":
        put(tmp_path / f"{name}.jpg")
    put(tmp_path / "b.jpg.xmp", "<a>")
    attribute = packet().replace('rdf:about=""', 'rdf:about="" dc:subject="cat"')
    put(tmp_path / "c.jpg.xmp", attribute)
    with pytest.raises(LabelFileError) as caught:
        write_labels(table_of(**dict.fromkeys("abcd", "+owl")), tmp_path, "photo-tags")
    assert [(Path(each.where).name, each.what) for each in caught.value.problems] == [
        (
            "b.jpg.xmp",
            "nothing is written: not valid XML (no element found: line 1, column 3); mend this "
            "sidecar or move it away",
        ),
        (
            "c.jpg.xmp",
            "nothing is written: dc:subject is no list of RDF; mend this sidecar or move it away",
        ),
    ]
    assert sorted(path.name for path in tmp_path.glob("*.xmp")) == ["b.jpg.xmp", "c.jpg.xmp"]


def test_photos_must_be_there_to_be_tagged(tmp_path):
    put(tmp_path / "photos/a.jpg")
    with pytest.raises(InputError, match=r"1 of 2 photos are not there, the first is 'b\.jpg'"):
        write_labels(table_of(a="+owl", b="+owl"), tmp_path / "photos", "photo-tags")
    with pytest.raises(InputError, match="expected a name of a photo, with an ending"):
        write_labels(LabelTable((".a.jpg",), ("x",), [[1]]), tmp_path / "photos", "photo-tags")


@pytest.mark.parametrize(
    "before",
    [
        f'<rdf:RDF xmlns:rdf="{RDF}"/>',
        f'<RDF xmlns="{RDF}"> <Description/> </RDF>',
        f'<r:RDF xmlns:r="{RDF}"><r:Description r:about=">"/></r:RDF>',
        packet("<dc:subject><rdf:Bag/></dc:subject>"),
        packet("<dc:subject><rdf:Bag></rdf:Bag></dc:subject>"),
        packet("<!-- a > b --><dc:subject/>"),
    ],
)
def test_lists_that_are_empty_or_not_there(before):
    after = xmp.edited(before.encode(), {xmp.SUBJECT: ["a<b>&", "c\r\nd"]}, lambda *_: False)
    assert xmp.parse(after).keywords(xmp.SUBJECT) == ["a<b>&", "c\r\nd"]


# By commands


def test_a_dry_run_tells_and_writes_nothing(tmp_path, capsys):
    folder = tmp_path / "photos"
    for number in range(7):
        put(folder / f"{number}.jpg")
    put(folder / "0.jpg.xmp", packet(listed("dc:subject", "dog")))
    rows = "".join(f"{number}.jpg,1,0\n" for number in range(7))
    put(tmp_path / "labels.csv", f"image,cat,dog\n{rows}")
    command = ["convert", str(tmp_path / "labels.csv"), str(folder), "--to", "photo-tags"]
    assert main([*command, "--dry-run"]) == 0
    said = capsys.readouterr().out.splitlines()
    assert said[1:] == [
        "note: 7 sidecars, 6 of them new: 7 tags added, 1 taken out",
        "note: added: cat 7 times",
        "note: 0.jpg.xmp: + cat, − dog",
        *(f"note: {number}.jpg.xmp (new): + cat" for number in range(1, 5)),
        "note: and 2 more",
        "note: 7 negative labels not kept: a tag says what is there",
        f"nothing is written to {folder} (--dry-run)",
    ]
    assert len(list(folder.glob("*.xmp"))) == 1
    assert main([*command, "--sidecar", "IMG.xmp"]) == 0
    assert len(list(folder.glob("?.xmp"))) == 6
    assert capsys.readouterr().out.endswith(f"written to {folder}\n")
    back = ["convert", str(folder), str(tmp_path / "back.csv"), "--format", "photo-tags"]
    assert main([*back, "--dry-run"]) == 0
    assert not (tmp_path / "back.csv").exists()
    assert main(back) == 0
    assert (tmp_path / "back.csv").read_text().startswith("image,cat\n0.jpg,1\n")
    capsys.readouterr()
    assert main([*back, "--tag-level", "0"]) == 2
    assert "tag_level: " in capsys.readouterr().err
    assert main([*back, "--tag-level", "all", "--overwrite"]) == 0


# Encodings


def elements(text):
    """What an independent parser finds, in order; `text` is bytes, or a str without declaration."""
    root = ElementTree.fromstring(text)
    return [(one.tag, one.attrib, (one.text or "").strip()) for one in root.iter()]


ENCODED = {
    "ISO-8859-1": ("ISO-8859-1", "iso-8859-1", "Möwe"),
    "Windows-1252": ("windows-1252", "cp1252", "Möwe – €"),
    "Shift_JIS": ("Shift_JIS", "shift_jis", "鳥"),
    "UTF-8": ("utf-8", "utf-8", "Möwe"),
    "UTF-8 with a mark that declares another": ("ISO-8859-1", "utf-8-sig", "Möwe"),
    "UTF-8 that declares UTF-16": ("utf-16", "utf-8", "Möwe"),
    "UTF-16 with a mark": ("UTF-16", "utf-16", "Möwe"),
    "UTF-16 with a mark that declares UTF-8": ("UTF-8", "utf-16", "Möwe"),
}


@pytest.mark.parametrize("kind", ENCODED)
def test_a_tag_in_a_sidecar_of_another_encoding(tmp_path, kind):
    declared, encoding, old = ENCODED[kind]
    body = packet(f"<dc:title>{old}</dc:title>", listed("dc:subject", old, "cat"))
    declaration = f"<?xml version='1.0' encoding='{declared}' standalone='yes'?>"
    put(tmp_path / "a.jpg")
    path = put(tmp_path / "a.jpg.xmp", (declaration + body).encode(encoding))
    assert tags(tmp_path) == {old, "cat"}
    write_labels(table_of(a="+Käfer +猫"), tmp_path, "photo-tags")
    wanted = packet(f"<dc:title>{old}</dc:title>", listed("dc:subject", old, "cat", "Käfer", "猫"))
    assert elements(path.read_bytes()) == elements(wanted)
    write_labels(table_of(a="-Käfer -猫"), tmp_path, "photo-tags")
    assert elements(path.read_bytes()) == elements(body)


# Sidecars of two photos


@pytest.mark.parametrize("ending", ["nef", "CR3", "dng", "raf", "heic"])
def test_a_sidecar_that_a_raw_file_shares_is_not_changed(tmp_path, ending):
    put(tmp_path / "sub/a.jpg")
    put(tmp_path / f"sub/a.{ending}")
    shared = put(tmp_path / "sub/a.xmp", packet(listed("dc:subject", "cat", "aunt")))
    before = shared.read_bytes()
    labels = LabelTable(("sub/a.jpg",), ("cat", "owl"), [[0, 1]])
    notes = photo_tags.write(labels, tmp_path, stem=True)
    assert shared.read_bytes() == before
    assert keywords(tmp_path / "sub/a.jpg.xmp") == ["aunt", "owl"]
    assert notes[:-1] == [
        "1 sidecar, 1 of them new: 1 tag added, 0 taken out",
        "1 negative label against a tag in the photo itself, or in a second sidecar: it stays "
        "there",
        "1 shared sidecar not changed (a raw file or another photo has the same name): sub/a.xmp",
    ]
    photo_tags.write(LabelTable(("sub/a.jpg",), ("owl",), [[0]]), tmp_path)
    assert keywords(tmp_path / "sub/a.jpg.xmp") == ["aunt"]


def test_the_sidecar_of_a_raw_file_is_not_that_of_a_picture_made_from_it(tmp_path):
    for name in ("a.nef", "a.nef.jpg"):
        put(tmp_path / name)
    put(tmp_path / "a.nef.xmp", CAT)
    write_labels(LabelTable(("a.nef.jpg",), ("owl",), [[1]]), tmp_path, "photo-tags")
    assert keywords(tmp_path / "a.nef.jpg.xmp") == ["owl"]
    assert (tmp_path / "a.nef.xmp").read_text() == CAT


# Several programs at once


@pytest.fixture
def meanwhile(monkeypatch):
    """Do something between reading a sidecar and writing it: at the given edits, 0 is a trial."""
    edited = xmp.edited

    def arrange(action, moments=(1,)):
        moment = iter(range(1000))

        def interrupted(*how):
            content = edited(*how)
            if next(moment) in moments:
                action()
            return content

        monkeypatch.setattr(xmp, "edited", interrupted)

    return arrange


def files_in(folder):
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


@pytest.mark.parametrize("before", [None, CAT])
def test_a_sidecar_that_another_program_writes_meanwhile_keeps_its_content(
    tmp_path, meanwhile, before
):
    put(tmp_path / "a.jpg")
    path = tmp_path / "a.jpg.xmp"
    if before is not None:
        put(path, before)
    theirs = DARKTABLE.replace("kestrel", "owl")  # one of our tags is there already
    meanwhile(lambda: put(path, theirs))
    notes = write_labels(table_of(a="+owl +fox -winter"), tmp_path, "photo-tags")
    assert notes[0] == "1 sidecar, 0 of them new: 1 tag added, 1 taken out"
    assert keywords(path) == ["animal", "bird", "darktable", "exported", "owl", "fox"]
    assert keywords(path, xmp.HIERARCHY) == ["animal|bird|owl", "darktable|exported", "fox"]
    assert "exposure" in path.read_text()
    assert files_in(tmp_path) == ["a.jpg", "a.jpg.xmp"]


def test_two_names_of_one_folder_write_one_sidecar(tmp_path):
    for folder in ("real", "."):
        put(tmp_path / folder / "a.jpg")
    (tmp_path / "link").symlink_to("real")
    (tmp_path / "self").symlink_to(".")
    images = ("link/a.jpg", "real/a.jpg", "a.jpg", "self/a.jpg")
    labels = LabelTable(images, ("cat", "dog"), [[1, -1], [-1, 1], [1, -1], [-1, 1]])
    write_labels(labels, tmp_path, "photo-tags")
    for name in ("real/a.jpg.xmp", "a.jpg.xmp"):
        assert sorted(keywords(tmp_path / name)) == ["cat", "dog"]


@pytest.mark.parametrize("inner", ["photos", "photos/sub"])
def test_a_second_command_on_the_folder_is_rejected(tmp_path, meanwhile, capsys, inner):
    folder = tmp_path / "photos"
    put(folder / "sub/a.jpg")
    put(tmp_path / "one.csv", "image,cat\nsub/a.jpg,1\n")
    name = "sub/a.jpg" if inner == "photos" else "a.jpg"
    put(tmp_path / "two.csv", f"image,dog\n{name},1\n")
    second = ["convert", str(tmp_path / "two.csv"), str(tmp_path / inner), "--to", "photo-tags"]
    codes, lines = [], []

    def run_second():
        codes.append(main(second))
        lines.extend(capsys.readouterr().err.splitlines())
        assert files_in(folder) == ["sub", "sub/a.jpg"]

    meanwhile(run_second)
    assert main(["convert", str(tmp_path / "one.csv"), str(folder), "--to", "photo-tags"]) == 0
    assert codes == [3]
    (line,) = lines
    assert f"{tmp_path / inner}: another g2netpl process writes there; run this command" in line
    assert keywords(folder / "sub/a.jpg.xmp") == ["cat"]
    assert main(second) == 0
    assert keywords(folder / "sub/a.jpg.xmp") == ["cat", "dog"]
    assert files_in(folder) == ["sub", "sub/a.jpg", "sub/a.jpg.xmp"]


def test_what_a_killed_command_left_is_removed_by_the_next(tmp_path):
    folder, long = tmp_path / "photos", f"{'long' * 20}.jpg"
    for name in ("a.jpg", "b.jpg", f"sub/{long}"):
        put(folder / name)
    put(folder / "b.jpg.xmp", CAT)
    in_use = put(folder / ".labels.csv.g2netpl-0123456789abcdef.tmp")  # by another command
    killed = "import os, sys; os.link = os.replace = lambda *_: os._exit(9); "
    killed += "from g2netpl.cli import main; main(sys.argv[1:])"
    for image in ("a.jpg", "b.jpg", f"sub/{long}"):
        labels = put(tmp_path / "labels.csv", f"image,owl\n{image},1\n")
        command = ["convert", str(labels), str(folder), "--to", "photo-tags"]
        done = subprocess.run([sys.executable, "-c", killed, *command], timeout=120)
        assert done.returncode == 9
    left = [path for path in folder.rglob(".*") if path != in_use]
    assert len(left) >= 2
    images = read_labels(folder, "photo-tags").images
    assert images == ("a.jpg", "b.jpg", f"sub/{long}")
    assert tags(folder, "a.jpg", classes=("cat",)) == set()
    table = LabelTable(images, ("owl",), np.ones((3, 1)))
    write_labels(table, folder, "photo-tags")
    photos = [*images, "sub", in_use.name]
    assert files_in(folder) == sorted([*photos, *(f"{image}.xmp" for image in images)])


# Programs of photographers

exiftool = pytest.mark.skipif(shutil.which("exiftool") is None, reason="exiftool is not installed")
exiv2 = pytest.mark.skipif(shutil.which("exiv2") is None, reason="exiv2 is not installed")
WORDS = {"große Möwe", "cat & <dog>", "猫"}


def run(*command):
    return subprocess.run(command, check=True, capture_output=True, timeout=120).stdout.decode()


def picture(path):
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", (8, 8)).save(path)
    return path


def exiftool_reads(path, *names):
    shown = json.loads(run("exiftool", "-j", *(f"-{name}" for name in names), str(path)))[0]
    found = (shown.get(name.rpartition(":")[2], []) for name in names)
    return [each if isinstance(each, list) else [each] for each in found]


@exiftool
@pytest.mark.parametrize("ending", ["jpg", "png", "tif", "webp"])
@pytest.mark.parametrize("place", ["XMP-dc:Subject", "IPTC:Keywords"])
def test_what_exiftool_writes_into_a_photo_is_read(tmp_path, ending, place):
    if place.startswith("IPTC") and ending in ("png", "webp"):
        pytest.skip(f"exiftool writes no IPTC into {ending}")
    path = picture(tmp_path / f"a.{ending}")
    words = [f"-{place}={word}" for word in sorted(WORDS)]
    done = subprocess.run(
        ["exiftool", "-q", "-overwrite_original", "-codedcharacterset=utf8", *words, str(path)],
        capture_output=True,
        timeout=120,
    )
    if done.returncode:
        pytest.skip(f"this exiftool cannot write {ending}: {done.stderr.decode().strip()}")
    assert tags(tmp_path, path.name) == WORDS


@exiftool
def test_what_exiftool_writes_in_latin_1_and_with_levels_is_read(tmp_path):
    path = picture(tmp_path / "a.jpg")
    quiet = ("exiftool", "-q", "-overwrite_original")
    run(*quiet, "-charset", "iptc=latin", "-IPTC:Keywords=große Möwe", str(path))
    run(*quiet, "-XMP-lr:HierarchicalSubject=animal|bird", "-XMP-digiKam:TagsList=a/b", str(path))
    assert b"gro\xdfe M\xf6we" in path.read_bytes()
    assert tags(tmp_path, level="all") == {"große Möwe", "animal", "bird", "a", "b"}
    path.unlink()
    picture(path)
    run("exiftool", "-q", "-XMP-dc:Subject=cat", "-o", f"{path}.xmp")
    assert tags(tmp_path) == {"cat"}


@exiv2
def test_what_exiv2_writes_is_read(tmp_path):
    one, other = (picture(tmp_path / name) for name in ("a.jpg", "b.jpg"))
    for word in sorted(WORDS):
        run("exiv2", "-M", f"set Xmp.dc.subject {word}", str(one))
        run("exiv2", "-M", f"add Iptc.Application2.Keywords String {word}", str(other))
    run("exiv2", "-eX", str(one))  # a sidecar a.xmp
    assert tags(tmp_path) == WORDS
    assert tags(tmp_path, "b.jpg") == WORDS
    shutil.copy(tmp_path / "a.xmp", tmp_path / "c.xmp")
    picture(tmp_path / "c.jpg")
    assert tags(tmp_path, "c.jpg") == WORDS


@pytest.fixture
def written(tmp_path):
    """A sidecar of ours, and one of darktable that we changed."""
    picture(tmp_path / "new.jpg")
    picture(tmp_path / "old.jpg")
    put(tmp_path / "old.jpg.xmp", DARKTABLE)
    words = " ".join(f"+{word.replace(' ', '_')}" for word in WORDS)
    labels = table_of(new=f"+kestrel {words}", old=f"-winter {words}")
    classes = [word.replace("_", " ") for word in labels.classes]
    guessed = np.array([[word == "猫" for word in classes]] * 2)
    table = LabelTable(labels.images, classes, labels.values)
    photo_tags.write(table, tmp_path, guessed)
    return tmp_path


@exiftool
def test_exiftool_reads_what_we_write(written):
    names = ("XMP-dc:Subject", "XMP-lr:HierarchicalSubject", "XMP-xmp:Rating")
    subject, levels, _ = exiftool_reads(written / "new.jpg.xmp", *names)
    assert set(subject) == WORDS | {"kestrel"}
    assert set(levels) == WORDS | {"animal|bird|kestrel"}
    subject, levels, rating = exiftool_reads(written / "old.jpg.xmp", *names)
    assert set(subject) == WORDS | {"animal", "bird", "kestrel", "darktable", "exported"}
    assert set(levels) == WORDS | {"animal|bird|kestrel", "darktable|exported"}
    assert rating == [1]
    assert "[minor]" not in run("exiftool", "-validate", "-warning", str(written / "new.jpg.xmp"))
    assert exiftool_reads(written / "new.jpg.xmp", "XMP:Added") == [["猫"]]


@exiv2
def test_exiv2_reads_what_we_write(written):
    for name in ("new", "old"):
        shown = run("exiv2", "-px", str(written / f"{name}.jpg.xmp"))
        lists = dict(re.findall(r"^(Xmp\.\S+)\s+Xmp\w+\s+\d+  (.*)$", shown, re.MULTILINE))
        assert WORDS | {"kestrel"} <= set(lists["Xmp.dc.subject"].split(", "))
        levels = set(lists["Xmp.lr.hierarchicalSubject"].split(", "))
        assert WORDS | {"animal|bird|kestrel"} <= levels
    assert lists["Xmp.darktable.history_end"] == "2"
    assert "0000>00" in shown
