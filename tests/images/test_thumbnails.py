"""Pictures for pages: small, upright, found below the image folder alone, bounded in memory."""

import io

import pytest
from PIL import Image
from review_runs import write_photos

from g2netpl.images.thumbnails import Pictures, Roots
from g2netpl.utils.errors import InputError


def test_pictures_are_small_upright_and_carry_nothing_but_pixels(tmp_path):
    picture = Image.new("RGB", (3000, 1500), "red")
    exif = picture.getexif()
    exif[0x0112] = 6  # to be turned
    exif[0x010E] = "a secret place"
    picture.save(tmp_path / "turned.jpg", exif=exif, comment=b"a secret comment", dpi=(300, 300))
    (tmp_path / "broken.jpg").write_bytes(b"no picture")
    names = ["turned.jpg", "broken.jpg", "missing.jpg", "../outside.jpg"]
    Image.new("RGB", (8, 8)).save(tmp_path.parent / "outside.jpg")
    pictures = Pictures(names, Roots({"images": tmp_path}))
    for size in (256, 1024):
        content = pictures.jpeg(0, size)
        with Image.open(io.BytesIO(content)) as small:
            assert (small.format, small.size) == ("JPEG", (size // 2, size))
            assert dict(small.getexif()) == {}
        assert b"secret" not in content
    for row, why in ((1, "not a readable image"), (2, "not in"), (3, "leads out")):
        with pytest.raises(InputError, match=why):
            pictures.jpeg(row, 256)


def test_images_of_an_unlabelled_folder_are_found(tmp_path):
    write_photos(tmp_path / "more", ["sub/a.png"])
    (tmp_path / "photos").mkdir()
    config = {"images": str(tmp_path / "photos"), "unlabelled": str(tmp_path / "more")}
    config |= {"labels": "x.csv", "format": None}
    roots = Roots(config)
    assert roots.path("more/sub/a.png") == str(tmp_path / "more" / "sub" / "a.png")
    with pytest.raises(InputError, match="is --images the right folder"):
        roots.check(["b.png"])
