"""Mistakes of new users: each is one line with what to do."""

import subprocess
import sys

import pytest
from PIL import Image

from g2netpl.cli import main
from g2netpl.runs.config import RunConfig
from g2netpl.training.data import read_training_data
from g2netpl.utils.errors import InputError


@pytest.fixture
def scans(tmp_path, scenes):
    """Twenty pictures."""
    folder = tmp_path / "scans"
    folder.mkdir()
    for row in range(20):
        Image.fromarray(scenes.train_images[row]).save(folder / f"scan{row:02}.png")
    return folder


def labels(folder, text):
    path = folder.parent / "labels.csv"
    path.write_text(text)
    return ["--labels", str(path), "--images", str(folder)]


def check(arguments, capsys, code=0):
    """What it prints, error or not."""
    assert main(["check", *arguments, "--workers", "0"]) == code
    out, err = capsys.readouterr()
    assert err.count("\n") == (code != 0)
    return out, err


def training(arguments):
    flags = dict(zip(arguments[::2], arguments[1::2], strict=True))
    keys = {key.removeprefix("--"): value for key, value in flags.items()}
    return read_training_data(RunConfig(output="run", **keys))


def rows(tag, count):
    return "".join(f"scan{row:02}.png,{tag}\n" for row in range(count))


def test_photos_of_kinds_that_are_not_read_are_told_once(scans, small_bundle, capsys):
    for name in ("IMG_1.jxl", "IMG_2.psd"):
        (scans / name).write_bytes(b"raw")
    told = f"skipped 2 unsupported photos in {scans} (.jxl 1, .psd 1): convert to JPEG"
    arguments = labels(scans, f"image,tags\n{rows('cat', 2)}scan02.png,dog\nscan03.png,dog\n")
    assert check(arguments, capsys)[0].count(told) == 1
    assert training(arguments).notes.count(told) == 1
    target = scans.parent / "scores.csv"
    predict = ["predict", str(small_bundle), "--output", str(target), "--images"]
    assert main([*predict, str(scans)]) == 0
    out = capsys.readouterr().out
    assert f"note: {told}" in out
    assert "20 images, " in out
    for path in scans.glob("scan*"):
        path.unlink()
    assert main([*predict, str(scans), "--overwrite"]) == 2
    assert f"{scans}: no images there; {told}" in capsys.readouterr().err


def test_one_class_without_negatives_is_told_and_refused_where_all_images_have_it(scans, capsys):
    told = "one class and no negatives: nothing distinguishes 'cat' from the rest; give some "
    arguments = labels(scans, f"image,tags\n{rows('cat', 9)}")
    assert told in check(arguments, capsys)[0]
    assert any(note.startswith(told) for note in training(arguments).notes)
    arguments = labels(scans, f"image,tags\n{rows('cat', 20)}")
    says = "only one class, 'cat', and it is on every image, so there is nothing to learn; give"
    assert says in check(arguments, capsys, 2)[0]
    with pytest.raises(InputError, match=says):
        training(arguments)
    arguments = labels(scans, f"image,tags,absent\n{rows('cat,', 9)}scan09.png,,cat\n")
    assert "no negatives" not in check(arguments, capsys)[0]


def test_an_image_that_is_not_there_is_named(scans, capsys):
    text = 'image,tags\nscan00.png,"cat\ndog"\nscan01.png,dog\nIMG_9999.jpg,cat\n'
    arguments = labels(scans, text)
    out, err = check(arguments, capsys, 2)
    assert f"labels.csv: image 'IMG_9999.jpg' is not in {scans}" in out
    assert err.count("\n") == 1
    assert "labels.csv: 1 error, listed above; " in err


def test_a_mistake_is_shown_once_where_both_streams_come_to_one_screen(scans):
    arguments = labels(scans, "image,cat\nscan00.png,1\nscan01.png,7\n")
    command = [sys.executable, "-m", "g2netpl", "check", *arguments]
    both = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    found = subprocess.run(command, check=False, **both)
    assert found.returncode == 2
    assert found.stdout.count("expected 1, 0 or an empty cell") == 1
    assert found.stdout.splitlines()[-1].endswith(
        "labels.csv: 1 error, listed above; correct the file and check it again"
    )
