"""A photographer: tags in photos, a training, and more tags in sidecars; no photo is touched."""

import csv
import hashlib
import json

import pytest
from PIL import Image
from PIL.PngImagePlugin import PngInfo

from g2netpl import read_labels
from g2netpl.cli import main
from g2netpl.labels.io import ReadOptions
from g2netpl.labels.io import photos as xmp
from g2netpl.labels.settings import Setting, observe
from g2netpl.runs.records import REVIEW

TRAINED = ["--backbone", "tiny", "--image-size", "32", "--epochs", "3", "--workers", "0"]
TRAINED += ["--device", "cpu", "--expected-positives", "2.3", "--validation", "0.2"]


def digests(folder):
    files = (path for path in folder.rglob("*") if path.suffix in (".jpg", ".png"))
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def as_xmp(*keywords):
    packet = xmp.Packet(xmp.EMPTY)
    packet.edit(xmp.HIERARCHY, [f"digit|{each}" for each in keywords], set())
    return packet.to_bytes()


@pytest.fixture
def album(photos, tmp_path):
    """60 photos, half with one tag: in JPEG, in PNG, or in a sidecar; Pillow puts them there."""
    table = observe(read_labels(photos / "train.csv"), Setting.parse("sspl:0.5"), 0)
    folder = tmp_path / "album"
    (folder / "2026").mkdir(parents=True)
    for number, (name, values) in enumerate(zip(table.images, table.values, strict=True)):
        tags = [each for each, value in zip(table.classes, values, strict=True) if value == 1]
        packet = as_xmp(*tags) if tags else None
        with Image.open(photos / name) as image:
            if number % 3 == 0:
                how = {} if packet is None else {"xmp": packet}
                image.save(folder / f"{number}.jpg", quality=95, **how)
                continue
            text = PngInfo()
            if packet is not None and number % 3 == 1:
                text.add_itxt("XML:com.adobe.xmp", packet.decode())
            image.save(folder / "2026" / f"{number}.png", pnginfo=text)
        if packet is not None and number % 3 == 2:
            (folder / "2026" / f"{number}.png.xmp").write_bytes(packet)
    return folder


def test_from_tags_in_photos_to_tags_in_sidecars(album, tmp_path, capsys):
    before, run = digests(album), tmp_path / "run"
    sidecars = set(album.rglob("*.xmp"))
    read = ["--labels", str(album), "--format", "photo-tags"]
    assert main(["check", *read, "--workers", "0"]) == 0
    said = capsys.readouterr().out
    assert "30 positive and 0 negative, on 30 images (30 have none)" in said
    assert 0 < len(sidecars) < 30
    assert f"keywords: {30 - len(sidecars)} of 60 photos in the file, {len(sidecars)} in" in said
    assert main(["train", *read, *TRAINED, "--output", str(run)]) == 0
    known = read_labels(album, "photo-tags")
    table = [str(run), "--output", str(album), "--to", "photo-tags"]
    capsys.readouterr()
    assert main(["complete", *table, "--dry-run"]) == 0
    foreseen = capsys.readouterr().out.splitlines()
    assert set(album.rglob("*.xmp")) == sidecars
    assert foreseen[-1] == f"nothing is written to {album} (--dry-run)"
    assert main(["complete", *table, "--details", str(tmp_path / "all.csv")]) == 0
    done = capsys.readouterr().out.splitlines()
    (told,) = (line for line in done if " sidecars (" in line)
    assert told in foreseen
    assert digests(album) == before
    with open(tmp_path / "all.csv", newline="") as file:
        new = {
            (row["image"], row["class"])
            for row in csv.DictReader(file)
            if row["value"] == "1" and row["source"] != "observed"
        }
    assert f": {len(new)} keywords added, 0 removed" in told
    written = {
        (str(path.relative_to(album)).removesuffix(".xmp"), name)
        for path in album.rglob("*.xmp")
        for name in xmp.Packet(path.read_bytes()).keywords(xmp.ADDED)
    }
    assert written == new
    # what nobody gave is no known label: a second training begins where the first did
    again = read_labels(album, "photo-tags")
    assert again.images == known.images
    assert again.values.tolist() == known.values.tolist()
    assert again.notes[-1] == f"{len(new)} keywords predicted by g2netpl: not taken as known labels"
    answer_and_write_again(album, run, table, sorted(new)[0], sorted(new)[-1], capsys)
    assert main(["review", str(run), "--export", str(tmp_path / "all-tags.csv")]) == 0
    assert f" --images {album}\n" in capsys.readouterr().out
    assert digests(album) == before


def answer_and_write_again(album, run, table, yes, no, capsys):
    """A person confirms one of the new tags and refuses another."""
    lines = (
        {"id": str(number), "time": "now", "action": action, "image": image, "class": name}
        | {"old": -1, "new": int(action == "yes"), "order": "useful"}
        for number, (action, (image, name)) in enumerate((("yes", yes), ("no", no)))
    )
    (run / REVIEW).write_text("".join(json.dumps(line) + "\n" for line in lines))
    capsys.readouterr()
    assert main(["complete", *table]) == 0
    told = "2 sidecars (0 new): 0 keywords added, 1 removed, 1 confirmed by people"
    assert told in capsys.readouterr().out
    now = read_labels(album, "photo-tags", ReadOptions(classes=(yes[1], no[1])))
    assert now.values[now.images.index(yes[0]), 0] == 1
    packet = xmp.Packet((album / f"{no[0]}.xmp").read_bytes())
    assert no[1] not in packet.keywords(xmp.SUBJECT)
    assert f"digit|{no[1]}" not in packet.keywords(xmp.HIERARCHY)
