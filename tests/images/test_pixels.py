import io
import os
import struct

import numpy as np
import pytest
from odd_images import EPS, READABLE, UNREADABLE
from PIL import Image, ImageFile

from g2netpl.images.pixels import header_problem, open_image, resize
from g2netpl.images.sources import find, list_images, locate, unread_note
from g2netpl.labels import paths
from g2netpl.utils.errors import InputError
from g2netpl.utils.image_refs import MAX_PIXELS

pytestmark = pytest.mark.timeout(120)


@pytest.fixture(autouse=True)
def _nothing_huge_is_decoded(monkeypatch):
    prepare = ImageFile.ImageFile.load_prepare

    def checked(file):
        if file.width * file.height > MAX_PIXELS:
            pytest.fail(f"{file.size} pixels are decoded")
        prepare(file)

    monkeypatch.setattr(ImageFile.ImageFile, "load_prepare", checked)


@pytest.mark.parametrize("name", READABLE)
def test_readable_images_give_their_pixels(tmp_path, name):
    data, expected, tolerance = READABLE[name]
    path = tmp_path / "image"
    path.write_bytes(data)
    assert header_problem(path) is None
    image = open_image(path)
    assert image.mode == "RGB"
    pixels = np.asarray(image)
    assert pixels.shape == expected.shape
    assert np.abs(pixels - expected.astype(float)).max() <= tolerance


@pytest.mark.parametrize("name", UNREADABLE)
def test_unreadable_images_are_named_in_one_line(tmp_path, name):
    case = UNREADABLE[name]
    path = tmp_path / "image.jpg"
    case.put(path)
    with pytest.raises(InputError, match=case.says) as caught:
        open_image(path)
    said = str(caught.value)
    assert said.startswith(f"{path}: ")
    assert said.isprintable()
    assert header_problem(path) == (None if case.whole_header else said)


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("two\nlines\x1b.png", r"/two\nlines\x1b.png: no such image"),
        ("\udcff.png", r"/\udcff.png: no such image"),
        ("n" * 256, "cannot be read (File name too long)"),
        ("nul\0.png", "not a readable image"),
    ],
)
def test_names_that_cannot_be_are_reported_in_one_line(tmp_path, name, says):
    with pytest.raises(InputError) as caught:
        open_image(f"{tmp_path}/{name}")
    assert str(caught.value).startswith(str(tmp_path))
    assert says in str(caught.value)
    assert str(caught.value).isprintable()


def test_no_program_is_started_for_postscript(tmp_path, monkeypatch):
    monkeypatch.setattr("subprocess.Popen", lambda *_, **__: pytest.fail("a program is started"))
    (tmp_path / "picture.png").write_bytes(EPS)
    with pytest.raises(InputError):
        open_image(tmp_path / "picture.png")


def test_just_64_megapixels_are_read(tmp_path):
    Image.new("1", (8000, 8000), 1).save(tmp_path / "a.png")
    assert open_image(tmp_path / "a.png").size == (8000, 8000)


def smooth_photo(width, height):
    down, across = np.mgrid[0:height, 0:width]
    waves = [np.sin(across / 90), np.cos(down / 70), np.sin((across + 2 * down) / 200)]
    return (127.5 + 120 * np.stack(waves, axis=-1)).astype(np.uint8)


@pytest.mark.parametrize(
    ("width", "height", "size", "decoded"),
    [
        (1600, 1200, 64, (200, 150)),  # an eighth is enough
        (1600, 1000, 64, (400, 250)),  # an eighth would be 125 pixels high
        (1600, 1200, 300, (800, 600)),  # a half is just enough
        (1600, 1198, 300, (1600, 1198)),
        (100, 90, 64, (100, 90)),
    ],
)
def test_a_large_jpeg_is_decoded_smaller(tmp_path, width, height, size, decoded):
    Image.fromarray(smooth_photo(width, height)).save(tmp_path / "a.jpg", quality=95)
    small, full = open_image(tmp_path / "a.jpg", size), open_image(tmp_path / "a.jpg")
    assert full.size == (width, height)
    assert small.size == decoded
    assert np.abs(resize(small, size) - resize(full, size).astype(float)).max() <= 6


@pytest.fixture
def folder(tmp_path):
    """`in` is the image folder; it has a file, a subfolder and links to both sides."""
    for place in ("in/sub/deep", "in/.git", "inside", "out"):
        (tmp_path / place).mkdir(parents=True)
    for name in ("in/a.jpg", "in/sub/b.PNG", "in/sub/deep/c.tiff", "in/note.txt", "in/.d.jpg"):
        (tmp_path / name).touch()
    for name in ("in/.git/e.jpg", "inside/f.jpg", "out/g.jpg", "h.jpg"):
        (tmp_path / name).touch()
    root = tmp_path / "in"
    (root / "near.jpg").symlink_to("sub/b.PNG")
    (root / "near").symlink_to("sub")
    (root / "far.jpg").symlink_to(tmp_path / "out" / "g.jpg")
    (root / "far").symlink_to("../out")
    (root / "beside").symlink_to("../inside")
    (root / "gone.jpg").symlink_to("nothing")
    (root / "loop.jpg").symlink_to("loop.jpg")
    (root / "zero.jpg").symlink_to("/dev/zero")
    (root / "folder.jpg").mkdir()
    os.mkfifo(root / "fifo.jpg")
    return root


def test_images_are_found_below_the_folder(folder):
    names = ["a.jpg", "sub/b.PNG", "near.jpg", "near/deep/c.tiff", "./a.jpg", ".d.jpg"]
    located = find(names, folder)
    assert located.paths == [f"{folder}/{name}" for name in names]
    assert located.missing == []
    assert locate(names, str(folder)) == located.paths
    assert locate(["sub\\b.PNG"], folder) == [f"{folder}/sub/b.PNG"]  # as on Windows
    (folder.parent / "link").symlink_to(folder)
    assert find(["sub/b.PNG", "near.jpg"], folder.parent / "link").missing == []


@pytest.mark.parametrize("name", ["far.jpg", "far/g.jpg", "beside/f.jpg", "zero.jpg"])
def test_links_that_leave_the_folder_are_refused(folder, name):
    with pytest.raises(InputError, match=f"image '{name}': leads out of the image folder"):
        find(["a.jpg", name], folder)


@pytest.mark.parametrize("name", ["fifo.jpg", "folder.jpg", "."])
def test_what_is_no_file_is_refused(folder, name):
    with pytest.raises(InputError, match=f"image '{name}': not a regular file in {folder}"):
        find([name], folder)


def test_missing_images_are_counted_by_row(folder):
    names = ["a.jpg", "x.jpg", "sub/b.PNG", "no/x.jpg", "a.jpg/x.jpg", "gone.jpg", "loop.jpg"]
    names += ["n" * 256 + ".jpg", "d/" * 3000 + "x.jpg", "\ud800.jpg"]
    assert find(names, folder).missing == [1, 3, 4, 5, 6, 7, 8, 9]
    with pytest.raises(InputError, match="8 of 10 images of the label file are not there") as said:
        locate(names, folder)
    assert "the first is 'x.jpg'; is --images the right folder?" in str(said.value)
    with pytest.raises(InputError, match=f"'h.jpg'; try --images {folder.parent}$"):
        locate(["h.jpg"], folder)  # one folder higher


def test_an_image_folder_must_be_a_folder(folder):
    for root in (folder / "none", folder / "a.jpg"):
        for look in (list_images, lambda root: find([], root)):
            with pytest.raises(InputError, match=f"{root}: no such image folder"):
                look(root)


def test_all_images_are_listed_but_hidden_ones_and_links_out(folder):
    expected = ["a.jpg", "near.jpg", "sub/b.PNG", "sub/deep/c.tiff"]
    assert list_images(folder) == expected
    assert find(list_images(folder), folder).missing == []


@pytest.mark.parametrize("has_rawpy", [True, False])
def test_raw_files_are_photos_if_rawpy_is_there_and_else_counted(folder, monkeypatch, has_rawpy):
    monkeypatch.setattr(paths, "can_read_raw", lambda: has_rawpy)
    assert unread_note(folder) == []
    for name in ("IMG_1.HEIC", "sub/3.CR2", "4.nef", "a.nef", ".5.nef", "6.psd", "7.txt"):
        (folder / name).touch()  # there is an a.jpg
    listed = set(list_images(folder)) - {"a.jpg", "near.jpg", "sub/b.PNG", "sub/deep/c.tiff"}
    (note,) = unread_note(folder)
    if has_rawpy:
        assert listed == {"IMG_1.HEIC", "sub/3.CR2", "4.nef"}
        assert note == f"skipped 1 unsupported photo in {folder} (.psd 1): convert to JPEG"
    else:
        assert listed == {"IMG_1.HEIC"}
        assert note.startswith(f"skipped 3 unsupported photos in {folder} (")
        assert note.endswith("): pip install 'g2netpl[raw]', or convert them to JPEG")


def dng(pixels, preview=None, orientation=1):
    """A raw file by hand: the colours of a Bayer pattern in 16 bits, and a JPEG preview."""
    height, width, _ = pixels.shape
    mosaic = np.empty((height, width), "<u2")
    for down, across, channel in ((0, 0, 0), (0, 1, 1), (1, 0, 1), (1, 1, 2)):
        mosaic[down::2, across::2] = pixels[down::2, across::2, channel].astype("<u2") * 257
    identity = struct.pack(
        "<18i", *(number for one in np.eye(3).ravel() for number in (int(one), 1))
    )
    chunks = [mosaic.tobytes(), identity, b"camera\0\0", preview or b""]
    starts = [8 + sum(map(len, chunks[:number])) for number in range(len(chunks))]
    # tags: number, type (1 byte, 2 text, 3 short, 4 long, 10 fraction), count, value or place
    raw = [
        *((254, 4, 1, 0), (256, 4, 1, width), (257, 4, 1, height), (258, 3, 1, 16)),
        *((259, 3, 1, 1), (262, 3, 1, 32803), (273, 4, 1, starts[0]), (274, 3, 1, orientation)),
        *((277, 3, 1, 1), (278, 4, 1, height), (279, 4, 1, len(chunks[0]))),
        *((33421, 3, 2, 2 + (2 << 16)), (33422, 1, 4, 0x02010100), (50706, 1, 4, 0x0401)),
        *((50708, 2, 7, starts[2]), (50721, 10, 9, starts[1]), (50778, 3, 1, 21)),
    ]
    small = [
        *((254, 4, 1, 1), (256, 4, 1, width), (257, 4, 1, height), (259, 3, 1, 7)),
        *((262, 3, 1, 6), (273, 4, 1, starts[3]), (277, 3, 1, 3), (278, 4, 1, height)),
        (279, 4, 1, len(chunks[3])),
    ]
    folders, place = b"", 8 + sum(map(len, chunks))
    for number, tags in enumerate([raw, small] if preview else [raw]):
        after = place + 2 + 12 * len(tags) + 4
        follows = after if preview and number == 0 else 0
        entries = b"".join(struct.pack("<HHII", *tag) for tag in tags)
        folders += struct.pack("<H", len(tags)) + entries + struct.pack("<I", follows)
        place = after
    return b"II*\0" + struct.pack("<I", 8 + sum(map(len, chunks))) + b"".join(chunks) + folders


def test_a_raw_file_is_read_by_its_preview_or_else_developed(tmp_path):
    pytest.importorskip("rawpy", reason="the extra 'raw' is not installed")
    red = np.zeros((96, 128, 3), np.uint8)
    red[..., 0] = 200
    red[:, :64, 2] = 220  # the left half is violet
    stream = io.BytesIO()
    Image.fromarray(red).save(stream, "JPEG", quality=95, subsampling=0)
    for name, orientation in (("a.dng", 1), ("b.dng", 6)):
        (tmp_path / name).write_bytes(dng(red, stream.getvalue(), orientation))
    (tmp_path / "c.DNG").write_bytes(dng(red))
    shown = [np.asarray(open_image(tmp_path / name)) for name in ("a.dng", "b.dng", "c.DNG")]
    assert [each.shape for each in shown] == [(96, 128, 3), (128, 96, 3), (48, 64, 3)]
    assert np.abs(shown[0] - red.astype(float)).max() < 20
    assert np.abs(shown[1] - np.rot90(red, -1).astype(float)).max() < 20
    middle = shown[2].mean(axis=(0, 1))
    assert middle[0] > 2 * middle[1]
    (tmp_path / "d.nef").write_bytes(b"not a raw file")
    with pytest.raises(InputError, match=r"d.nef: not a readable image \([^b]"):
        open_image(tmp_path / "d.nef")


def test_a_file_name_that_is_no_text_is_named(folder):
    (folder / os.fsdecode(b"\xff.txt")).touch()
    assert len(list_images(folder)) == 4
    (folder / "sub" / os.fsdecode(b"\xff.jpg")).touch()
    with pytest.raises(InputError, match=r"'sub/\\udcff\.jpg': the file name is not valid UTF-8"):
        list_images(folder)


def test_a_raw_file_without_rawpy_is_one_line(tmp_path, monkeypatch):
    monkeypatch.setattr("g2netpl.images.pixels.can_read_raw", lambda: False)
    (tmp_path / "a.arw").write_bytes(b"raw")
    with pytest.raises(InputError, match=r"a.arw: a raw file; pip install 'g2netpl\[raw\]', or"):
        open_image(tmp_path / "a.arw")
