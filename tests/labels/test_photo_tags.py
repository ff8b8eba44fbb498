"""Keywords of photos: dialects written by hand, and photo programs as readers and writers."""

import io
import os
import shlex
import shutil
import struct
import subprocess
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from malformed import put
from PIL import Image, TiffImagePlugin
from PIL.PngImagePlugin import PngInfo

from g2netpl.labels import paths
from g2netpl.labels.io import LabelFileError, ReadOptions, photo_tags, read_labels, write_labels
from g2netpl.labels.io import photos as xmp
from g2netpl.labels.table import LabelTable
from g2netpl.utils.errors import InputError
from g2netpl.utils.locks import locked_without_file

RDF = "http://www.w3.org/1999/02/22-rdf-syntax-ns#"
DC, LR = "http://purl.org/dc/elements/1.1/", "http://ns.adobe.com/lightroom/1.0/"
DIGIKAM = "http://www.digikam.org/ns/1.0/"
MICROSOFT = "http://ns.microsoft.com/photo/1.0/"


def keyword_list(name, *keywords, kind="Bag"):
    items = "".join(f"<rdf:li>{keyword}</rdf:li>" for keyword in keywords)
    return f"<{name}><rdf:{kind}>{items}</rdf:{kind}></{name}>"


def packet(*properties):
    spaces = f'xmlns:rdf="{RDF}" xmlns:dc="{DC}" xmlns:lr="{LR}" xmlns:digiKam="{DIGIKAM}"'
    spaces += f' xmlns:MicrosoftPhoto="{MICROSOFT}"'
    return (
        f'<x:xmpmeta xmlns:x="adobe:ns:meta/"><rdf:RDF {spaces}><rdf:Description rdf:about="">'
        f"{''.join(properties)}</rdf:Description></rdf:RDF></x:xmpmeta>"
    )


CAT = packet(keyword_list("dc:subject", "cat"))


def picture(kind="JPEG", **how):
    """A small image file."""
    stream = io.BytesIO()
    Image.new("RGB", (8, 8), "red").save(stream, kind, **how)
    return stream.getvalue()


def with_xmp(text, kind="JPEG"):
    content = text if isinstance(text, bytes) else text.encode()
    if kind != "PNG":
        return picture(kind, xmp=content)
    info = PngInfo()
    info.add_itxt("XML:com.adobe.xmp", content.decode(), zip=True)
    return picture(kind, pnginfo=info)


def iptc(*keywords):
    return b"".join(b"\x1c\x02\x19" + struct.pack(">H", len(word)) + word for word in keywords)


def with_iptc(*keywords, more=b""):
    """A JPEG with the block in which Photoshop keeps IPTC."""
    records = iptc(*keywords)
    padding = b"\0" if len(records) % 2 else b""
    block = b"8BIM\x04\x04\0\0" + struct.pack(">I", len(records)) + records + padding
    content = b"Photoshop 3.0\0" + block
    segment = b"\xff\xed" + struct.pack(">H", len(content) + 2) + content
    return b"\xff\xd8" + segment + more + picture()[2:]


def xmp_segment(text):
    content = b"http://ns.adobe.com/xap/1.0/\0" + text.encode()
    return b"\xff\xe1" + struct.pack(">H", len(content) + 2) + content


def tags(folder, name="a.jpg", **how):
    table = read_labels(folder, "photo-tags", ReadOptions(**how))
    row = table.values[table.images.index(name)]
    assert set(row.tolist()) <= {1, -1}
    return {label for label, value in zip(table.classes, row, strict=True) if value == 1}


# Inside photos


def late_png():
    """A PNG with keywords behind the pixels, as exiftool writes them."""
    end = picture("PNG")[-12:]
    chunk = with_xmp(CAT, "PNG")
    start = chunk.index(b"iTXt") - 4
    (size,) = struct.unpack(">I", chunk[start : start + 4])
    return picture("PNG")[:-12] + chunk[start : start + size + 12] + end


def tiff_with(tag, kind, content):
    tags = TiffImagePlugin.ImageFileDirectory_v2()
    tags.tagtype[tag] = kind
    tags[tag] = content
    return picture("TIFF", tiffinfo=tags)


EMBEDDED = {
    **{kind: lambda kind=kind: with_xmp(CAT, kind) for kind in ("JPEG", "PNG", "WEBP")},
    **{kind: lambda kind=kind: with_xmp(CAT, kind) for kind in ("AVIF", "HEIF")},
    "TIFF": lambda: tiff_with(700, 1, CAT.encode()),
    "JPEG, IPTC": lambda: with_iptc(b"cat"),
    "TIFF, IPTC": lambda: tiff_with(33723, 7, iptc(b"cat")),
    "PNG, behind the pixels": late_png,
}


@pytest.mark.parametrize("kind", EMBEDDED)
def test_keywords_in_the_file(tmp_path, kind):
    put(tmp_path / "a.jpg", EMBEDDED[kind]())  # the name may be wrong
    assert tags(tmp_path) == {"cat"}


@pytest.mark.parametrize("encoding", ["utf-8", "latin-1"])
def test_iptc_keywords_in_utf_8_and_latin_1(tmp_path, encoding):
    put(tmp_path / "a.jpg", with_iptc("große Möwe".encode(encoding), b"cat"))
    assert tags(tmp_path) == {"große Möwe", "cat"}


BROKEN = {
    "a DOCTYPE": "<!DOCTYPE a [<!ENTITY b 'cat'>]><a>&b;</a>",
    "an entity": f"<!DOCTYPE a [<!ENTITY b SYSTEM 'file:///etc/passwd'>]>{CAT}",
    "not XMP": "<a/>",
    "not XML": "cat",
    "not text": b"<a>\xff</a>",
}


@pytest.mark.parametrize("kind", BROKEN)
def test_a_broken_packet_is_reported_and_other_photos_are_read(tmp_path, kind):
    put(tmp_path / "a.jpg", with_xmp(BROKEN[kind]))
    put(tmp_path / "b.jpg", with_xmp(CAT))
    put(tmp_path / "c.jpg", b"not an image")
    table = read_labels(tmp_path, "photo-tags")
    assert table.values.tolist() == [[-1], [1], [-1]]
    assert table.notes[0] == "keywords: 1 of 3 photos in the file, 0 in sidecars, 0 in both"
    first = f"keywords of 1 file cannot be read, the first: {tmp_path / 'a.jpg'}: "
    assert table.notes[1].startswith(first)


def test_a_packet_that_expands_is_rejected_at_once():
    entities = "".join(f'<!ENTITY a{n} "{f"&a{n - 1};" * 10}">' for n in range(1, 20))
    bomb = f'<!DOCTYPE x [<!ENTITY a0 "cat">{entities}]><x>&a19;</x>'
    with pytest.raises(ValueError, match=r"DOCTYPE|not valid XML"):
        xmp.Packet(bomb.encode())
    with pytest.raises(ValueError, match="more than"):
        xmp.Packet(bytes(xmp.MAX_BYTES + 1))


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
XNVIEW = f"""<?xpacket begin='\ufeff' id='W5M0MpCehiHzreSzNTczkc9d'?>
<x:xmpmeta xmlns:x='adobe:ns:meta/' x:xmptk='XnView'>
<rdf:RDF xmlns:rdf='{RDF}'>
 <rdf:Description rdf:about='' xmlns:lr='{LR}'>
  <lr:hierarchicalSubject><rdf:Bag><rdf:li>animal|bird|kestrel</rdf:li><rdf:li>winter</rdf:li>
  </rdf:Bag></lr:hierarchicalSubject>
 </rdf:Description>
 <rdf:Description rdf:about='' xmlns:MicrosoftPhoto='{MICROSOFT}'>
  <MicrosoftPhoto:LastKeywordXMP><rdf:Bag><rdf:li>animal/bird/kestrel</rdf:li>
  <rdf:li>winter</rdf:li></rdf:Bag></MicrosoftPhoto:LastKeywordXMP>
 </rdf:Description>
</rdf:RDF>
</x:xmpmeta>
<?xpacket end='w'?>"""
SIDECARS = {
    "darktable": DARKTABLE,
    "digiKam": DIGIKAM_SIDECAR,
    "Lightroom": LIGHTROOM,
    "XnView": XNVIEW,
    "other prefixes": OTHER_PREFIX,
    "UTF-8 with a mark": "\ufeff" + LIGHTROOM,
    "UTF-16 with a mark": ("\ufeff" + LIGHTROOM).encode("utf-16-le"),
    "UTF-16, big end, without": LIGHTROOM.encode("utf-16-be"),
    "padded": LIGHTROOM + " " * 2000 + "\n\0",
}


@pytest.mark.parametrize("name", ["a.jpg.xmp", "a.JPG.XMP", "a.xmp", "A.XMP"])
@pytest.mark.parametrize("dialect", SIDECARS)
def test_sidecars_in_every_dialect(tmp_path, dialect, name):
    put(tmp_path / "sub/a.jpg")
    put(tmp_path / "sub" / name, SIDECARS[dialect])
    assert tags(tmp_path, "sub/a.jpg") == {"kestrel", "winter"}
    assert tags(tmp_path, "sub/a.jpg", tag_level="all") == {"animal", "bird", "kestrel", "winter"}
    assert tags(tmp_path, "sub/a.jpg", tag_level=1) == {"animal", "winter"}
    assert tags(tmp_path, "sub/a.jpg", tag_level=2) == {"bird"}
    with pytest.raises(InputError, match="1 photo with keywords, but none of level 4"):
        tags(tmp_path, "sub/a.jpg", tag_level=4)


def test_tags_of_the_photo_and_of_its_sidecars_count_together(tmp_path):
    put(tmp_path / "a.jpg", with_iptc(b"owl", more=xmp_segment(CAT)))
    put(tmp_path / "a.jpg.xmp", packet(keyword_list("dc:subject", "dog", "cat")))
    put(tmp_path / "a.xmp", packet(keyword_list("dc:subject", "fox")))
    put(tmp_path / "b.jpg", with_xmp(CAT))
    put(tmp_path / "c.png")
    put(tmp_path / "d/c.png")
    table = read_labels(tmp_path, "photo-tags")
    assert table.images == ("a.jpg", "b.jpg", "c.png", "d/c.png")
    assert table.classes == ("cat", "dog", "fox", "owl")
    assert table.values.tolist() == [[1, 1, 1, 1], [1, -1, -1, -1], [-1] * 4, [-1] * 4]
    assert table.notes == ("keywords: 2 of 4 photos in the file, 1 in sidecars, 1 in both",)
    complete = read_labels(tmp_path, "photo-tags", ReadOptions(absent="negative"))
    assert complete.values[1:].tolist() == [[1, 0, 0, 0], [0] * 4, [0] * 4]


@pytest.mark.parametrize(
    ("files", "rawpy", "says"),
    [
        (["a.jpg"], True, "no keywords found in 1 photo; in Lightroom Classic select all photos"),
        (["a.nef", "b.nef", "c.cr2"], False, "no photos found; "),
        (
            ["a.nef", "b.nef", "c.cr2"],
            False,
            r"skipped 3 unsupported photos in .* \(.nef 2, .cr2 1",
        ),
        (["a.nef"], False, r"pip install 'g2netpl\[raw\]', or convert them to JPEG"),
        (["a.nef"], True, "no keywords found in 1 photo; "),
        (["a.psd"], True, r"skipped 1 unsupported photo in .* \(.psd 1\): convert to JPEG"),
    ],
)
def test_photos_without_keywords_are_counted(tmp_path, monkeypatch, files, rawpy, says):
    monkeypatch.setattr(paths, "can_read_raw", lambda: rawpy)
    for name in files:
        put(tmp_path / name)
    with pytest.raises(InputError, match=says):
        read_labels(tmp_path, "photo-tags")


def test_raw_files_have_keywords_in_sidecars_and_pairs_are_one_photo(tmp_path, monkeypatch):
    monkeypatch.setattr(paths, "can_read_raw", lambda: True)
    for name in ("a.NEF", "a.jpg", "b.nef"):
        put(tmp_path / name)
    put(tmp_path / "b.xmp", CAT)
    table = read_labels(tmp_path, "photo-tags")
    assert table.images == ("a.jpg", "b.nef")
    assert table.values.tolist() == [[-1], [1]]
    write_labels(LabelTable(("b.nef",), ("owl",), [[1]]), tmp_path, "photo-tags")
    assert keywords(tmp_path / "b.xmp") == ["cat", "owl"]


def hanging(path):
    path.symlink_to("nowhere")


def outwards(path):
    path.symlink_to(put(path.parent.parent / "secret.xmp", CAT))


@pytest.mark.parametrize("make", [hanging, outwards, Path.mkdir, os.mkfifo])
def test_a_sidecar_that_is_no_file_of_the_folder_is_told(tmp_path, make):
    folder = tmp_path / "photos"
    put(folder / "a.jpg", with_xmp(packet(keyword_list("dc:subject", "dog"))))
    make(folder / "a.jpg.xmp")
    table = read_labels(folder, "photo-tags")
    assert table.classes == ("dog",)
    assert f"the first: {folder / 'a.jpg.xmp'}: " in table.notes[1]
    new = LabelTable(("a.jpg",), ("owl",), np.array([[1]]))
    with pytest.raises(LabelFileError, match=r"a\.jpg\.xmp: nothing is written: .* move it away"):
        write_labels(new, folder, "photo-tags")


def test_a_folder_of_photos_is_named_the_format_to_ask_for(tmp_path):
    put(tmp_path / "a.jpg", with_xmp(CAT))
    with pytest.raises(InputError, match="in the folder itself, whose keywords are read with --fo"):
        read_labels(tmp_path)


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


def without_lightroom(notes):
    return [note for note in notes if "Lightroom" not in note]


def keywords(path, property=xmp.SUBJECT):
    return xmp.Packet(path.read_bytes()).keywords(property)


def content_without(content, *words):
    """All elements with their attributes and texts, but for some keywords; comments and PIs too."""
    builder = ElementTree.TreeBuilder(insert_comments=True, insert_pis=True)
    root = ElementTree.XML(content, ElementTree.XMLParser(target=builder))
    nodes = [(node.tag, node.attrib, (node.text or "").strip()) for node in root.iter()]
    return [node for node in nodes if node[2] not in words]


@pytest.mark.parametrize("dialect", [name for name in SIDECARS if name != "padded"])
def test_all_but_the_keywords_of_a_sidecar_is_kept(tmp_path, dialect):
    put(tmp_path / "a.jpg")
    before = SIDECARS[dialect]
    before = before if isinstance(before, bytes) else before.encode()
    path = put(tmp_path / "a.jpg.xmp", before)
    os.chmod(path, 0o640)
    write_labels(table_of(a="+owl -winter"), tmp_path, "photo-tags")
    assert tags(tmp_path) == {"kestrel", "owl"}
    assert path.stat().st_mode & 0o777 == 0o640
    assert (tmp_path / "a.jpg").read_bytes() == b""
    old, after = content_without(before, "winter"), path.read_bytes()
    rest = iter(content_without(after, "owl"))
    assert all(node in rest for node in old)  # in the same order
    is_packet = "<?xpacket begin" in before.decode(ENCODING.get(dialect, "utf-8"))
    assert after.startswith(b"<?xpacket begin") == is_packet
    write_labels(table_of(a="-owl"), tmp_path, "photo-tags")
    assert tags(tmp_path) == {"kestrel"}


ENCODING = {"UTF-16 with a mark": "utf-16-le", "UTF-16, big end, without": "utf-16-be"}


def test_every_list_of_a_sidecar_gets_the_tag_in_its_own_way(tmp_path):
    for name, sidecar in (("a", DARKTABLE), ("b", DIGIKAM_SIDECAR), ("c", LIGHTROOM), ("d", CAT)):
        put(tmp_path / f"{name}.jpg")
        put(tmp_path / f"{name}.xmp", sidecar)
    put(tmp_path / "e.jpg", with_xmp(packet(keyword_list("dc:subject", "old"))))
    put(tmp_path / "f.jpg", with_xmp(packet(keyword_list("lr:hierarchicalSubject", "place|sea"))))
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
    put(tmp_path / "a.jpg", with_xmp(CAT))
    put(tmp_path / "a.jpg.xmp", packet(keyword_list("dc:subject", "dog", "cat", "aunt")))
    put(tmp_path / "b.jpg", with_xmp(CAT))
    put(tmp_path / "c.jpg.xmp", DARKTABLE)
    put(tmp_path / "c.jpg")
    labels = table_of(a="-dog -cat", b="-cat +dog", c="-bird -winter")
    notes = without_lightroom(write_labels(labels, tmp_path, "photo-tags"))
    assert keywords(tmp_path / "a.jpg.xmp") == ["aunt"]
    assert keywords(tmp_path / "b.jpg.xmp") == ["dog"]
    assert "bird" in keywords(tmp_path / "c.jpg.xmp")  # a level of kestrel
    assert keywords(tmp_path / "c.jpg.xmp", xmp.HIERARCHY)[-1] == "darktable|exported"
    assert notes == [
        "3 sidecars (1 new): 1 keyword added, 3 removed",
        "5 negative labels not written: a keyword can only be a positive",
    ]


def test_tags_that_nobody_gave_are_marked_and_not_read_as_known(tmp_path):
    put(tmp_path / "a.jpg", with_xmp(CAT))
    labels = table_of(a="+cat +dog +owl")
    guessed = np.array([[False, True, True]])
    photo_tags.write(labels, tmp_path, guessed)
    path = tmp_path / "a.jpg.xmp"
    assert keywords(path) == ["cat", "dog", "owl"]
    assert keywords(path, xmp.ADDED) == ["dog", "owl"]
    table = read_labels(tmp_path, "photo-tags")
    assert table.classes == ("cat",)
    assert table.notes[-1] == "2 keywords predicted by g2netpl: not taken as known labels"
    written = path.read_bytes()
    assert photo_tags.write(labels, tmp_path, guessed)[0].startswith("0 sidecars")
    assert path.read_bytes() == written
    notes = photo_tags.write(labels, tmp_path, np.array([[False, False, True]]))
    (note,) = without_lightroom(notes)
    assert note == "1 sidecar (0 new): 0 keywords added, 0 removed, 1 confirmed by people"
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
    photo_tags.write(labels, tmp_path, by_stem=True)
    made = sorted(str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*.xmp"))
    assert made == ["a.xmp", "b.jpg.xmp", "b.png.xmp", "b.xmp", "sub/c.xmp"]
    assert (tmp_path / "b.xmp").read_text() == CAT  # which would be that of both
    assert (read_labels(tmp_path, "photo-tags", ReadOptions(classes=("owl",))).values == 1).all()


def test_a_fault_in_one_sidecar_and_nothing_is_written_anywhere(tmp_path):
    for name in "abcd":
        put(tmp_path / f"{name}.jpg")
    put(tmp_path / "b.jpg.xmp", "<a>")
    attribute = packet().replace('rdf:about=""', 'rdf:about="" dc:subject="cat"')
    put(tmp_path / "c.jpg.xmp", attribute)
    with pytest.raises(LabelFileError) as caught:
        write_labels(table_of(**dict.fromkeys("abcd", "+owl")), tmp_path, "photo-tags")
    assert [(Path(each.where).name, each.message) for each in caught.value.issues] == [
        (
            "b.jpg.xmp",
            "nothing is written: not valid XML (Premature end of data in tag a line 1, line 1, "
            "column 4); fix this sidecar or move it away",
        ),
        (
            "c.jpg.xmp",
            "nothing is written: dc:subject is not a list of RDF; fix this sidecar or move it away",
        ),
    ]
    assert sorted(path.name for path in tmp_path.glob("*.xmp")) == ["b.jpg.xmp", "c.jpg.xmp"]


def test_a_folder_that_cannot_be_written_to_and_nothing_is_written_anywhere(tmp_path, monkeypatch):
    for name in ("a.jpg", "locked/b.jpg"):
        put(tmp_path / name)
    labels = LabelTable(("a.jpg", "locked/b.jpg"), ("owl",), np.ones((2, 1)))
    monkeypatch.setattr("os.access", lambda path, mode: Path(path).name != "locked")
    with pytest.raises(LabelFileError, match="no permission to write to its folder"):
        write_labels(labels, tmp_path, "photo-tags")
    assert not list(tmp_path.rglob("*.xmp"))


# By commands


# Sidecars of two photos


@pytest.mark.parametrize("ending", ["nef", "CR3", "dng", "raf", "heic"])
def test_a_sidecar_that_a_raw_file_shares_is_not_changed(tmp_path, ending):
    put(tmp_path / "sub/a.jpg")
    put(tmp_path / f"sub/a.{ending}")
    shared = put(tmp_path / "sub/a.xmp", packet(keyword_list("dc:subject", "cat", "aunt")))
    before = shared.read_bytes()
    labels = LabelTable(("sub/a.jpg",), ("cat", "owl"), [[0, 1]])
    notes = without_lightroom(photo_tags.write(labels, tmp_path, by_stem=True))
    assert shared.read_bytes() == before
    assert keywords(tmp_path / "sub/a.jpg.xmp") == ["aunt", "owl"]
    assert notes[:-1] == [
        "1 sidecar (1 new): 1 keyword added, 0 removed",
        "1 shared sidecar not changed (a raw file or another photo has the same name): sub/a.xmp",
    ]
    photo_tags.write(LabelTable(("sub/a.jpg",), ("owl",), [[0]]), tmp_path)
    assert keywords(tmp_path / "sub/a.jpg.xmp") == ["aunt"]


# Programs of photographers

exiftool = pytest.mark.skipif(shutil.which("exiftool") is None, reason="exiftool is not installed")
WORDS = {"große Möwe", "cat & <dog>", "猫"}


def run(*command):
    return subprocess.run(command, check=True, capture_output=True, timeout=120).stdout.decode()


def new_picture(path):
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", (8, 8)).save(path)
    return path


@exiftool
@pytest.mark.parametrize("ending", ["jpg", "png", "tif", "webp"])
@pytest.mark.parametrize("place", ["XMP-dc:Subject", "IPTC:Keywords"])
def test_what_exiftool_writes_into_a_photo_is_read(tmp_path, ending, place):
    if place.startswith("IPTC") and ending in ("png", "webp"):
        pytest.skip(f"exiftool writes no IPTC into {ending}")
    path = new_picture(tmp_path / f"a.{ending}")
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
@pytest.mark.parametrize("stem", [False, True])
def test_the_command_for_lightroom_puts_the_keywords_into_the_photos(tmp_path, stem):
    """Without losing those that are only in the photo, and without any twice."""
    for name in ("a.jpg", "b c.jpg"):
        new_picture(tmp_path / name)
    run("exiftool", "-q", "-overwrite_original", "-XMP-dc:Subject=old", str(tmp_path / "a.jpg"))
    put(tmp_path / ("a.xmp" if stem else "a.jpg.xmp"), packet(keyword_list("dc:subject", "cat")))
    labels = LabelTable(("a.jpg", "b c.jpg"), ("owl",), [[1], [1]])
    (note,) = (n for n in photo_tags.write(labels, tmp_path, by_stem=stem) if "Lightroom" in n)
    subprocess.run(shlex.split(note.partition(" with: ")[2]), check=True, capture_output=True)
    for path in (*tmp_path.glob("*.xmp"), *tmp_path.glob("*.jpg_original")):
        path.unlink()
    assert tags(tmp_path, "a.jpg") == {"old", "cat", "owl"}
    assert tags(tmp_path, "b c.jpg") == {"owl"}


def test_two_commands_do_not_write_sidecars_at_the_same_time(tmp_path):
    Image.new("RGB", (8, 8)).save(tmp_path / "a.jpg")
    labels = LabelTable(("a.jpg",), ("owl",), [[1]])
    with (
        locked_without_file(tmp_path),
        pytest.raises(InputError, match="another g2netpl process writes there"),
    ):
        write_labels(labels, tmp_path, "photo-tags")
    assert not list(tmp_path.glob("*.xmp"))
    write_labels(labels, tmp_path, "photo-tags")
    assert len(list(tmp_path.glob("*.xmp"))) == 1
