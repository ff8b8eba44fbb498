"""A training goes on with the pictures it began with: their content decides."""

import os
import shutil

import pytest
from PIL import Image

from g2netpl.base.errors import Refused
from g2netpl.cli import main
from g2netpl.images import identity as picture_prints
from g2netpl.images.identity import content_of, same_files, stamps_of
from g2netpl.runs.config import RunConfig
from g2netpl.training.train import train


@pytest.fixture
def own(photos, tmp_path):
    """A copy of the photos, uncompressed: any two of them have the same size."""
    folder = tmp_path / "photos"
    shutil.copytree(photos, folder)
    for path in folder.glob("*.png"):
        with Image.open(path) as picture:
            picture.save(path, format="BMP")
    assert len({path.stat().st_size for path in folder.glob("*.png")}) == 1
    return folder


@pytest.fixture
def keys(own, small_training):
    def changed(name="run", **changes):
        files = {"labels": str(own / "train.csv"), "test_labels": str(own / "test.csv")}
        return RunConfig(**small_training(name, **files, images=str(own), **changes))

    return changed


class Enough(Exception):
    """Stops a training after its first epoch."""


def begun(config):
    """A training that was broken off."""

    def stop(*_):
        raise Enough

    with pytest.raises(Enough):
        train(config, on_epoch=stop)
    return config


def replace(folder, times=None):
    """Put one picture in the place of another, with the size and the time that this one had."""
    there, other = folder / "train-00003.png", folder / "train-00001.png"
    before = there.stat()
    there.write_bytes(other.read_bytes())
    if times:
        os.utime(there, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert there.stat().st_size == before.st_size


@pytest.mark.parametrize("same_time", [False, True])
def test_another_picture_of_the_same_size_is_noticed(own, keys, same_time):
    config = begun(keys())
    replace(own, same_time)
    with pytest.raises(Refused, match="changed since the run began: the image files"):
        train(config, resume=True)


def test_so_is_one_of_the_test(own, keys):
    config = begun(keys(mode="linear"))
    (own / "test-00003.png").write_bytes((own / "test-00001.png").read_bytes())
    with pytest.raises(Refused, match="the image files"):
        train(config, resume=True)


def test_a_copied_folder_is_the_same_one(own, keys):
    config = begun(keys())
    shutil.move(own, own.with_name("away"))
    shutil.copytree(own.with_name("away"), own, copy_function=shutil.copyfile)
    for path in own.iterdir():
        os.utime(path, (1e9, 1e9))
    assert train(config, resume=True).result["best_epoch"] > 0


def test_nothing_is_read_again_where_nothing_was_touched(own, keys, monkeypatch):
    config = begun(keys())

    def fail(*_):
        pytest.fail("read")

    monkeypatch.setattr(picture_prints, "file_digest", fail)
    monkeypatch.setattr(picture_prints, "_read", {})
    assert train(config, resume=True).result["best_epoch"] > 0


def test_a_comparison_is_not_grown_on_other_pictures(own, tmp_path, capsys):
    arguments = ["compare", "--labels", own / "train.csv", "--images", own, "--methods", "an"]
    arguments += ["--settings", "fspl", "--epochs", "1", "--backbone", "tiny", "--mode", "linear"]
    arguments += ["--workers", "0", "--device", "cpu", "--image-size", "32", "--learning-rates"]
    arguments = [str(word) for word in (*arguments, "1e-3", "--output", tmp_path / "out")]
    assert main([*arguments, "--seeds", "0"]) == 0
    assert main([*arguments, "--seeds", "0", "--resume"]) == 0
    replace(own)
    assert main([*arguments, "--seeds", "0,1", "--resume"]) == 3
    assert "content of the data" in capsys.readouterr().err


def test_sums_depend_on_content_and_order_alone(tmp_path):
    for number in range(600):  # more than one thread
        (tmp_path / f"{number}").write_bytes(b"%03d" % number)
    paths = [str(tmp_path / f"{number}") for number in range(600)]
    first, _ = content_of(paths)
    for path in paths:
        os.utime(path, (1e9, 1e9))
    assert content_of(paths)[0] == first
    assert content_of(paths[::-1])[0] != first
    (tmp_path / "599").write_bytes(b"600")
    assert content_of(paths)[0] != first
    stamps = stamps_of(paths)
    (tmp_path / "599").unlink()
    os.mkfifo(tmp_path / "599")  # is never opened
    assert stamps_of(paths) != stamps
    assert content_of(paths)[0] != first


def test_the_same_file_is_known_by_place_and_by_content(tmp_path):
    content = {"a": b"one", "b": b"two", "c": b"three", "e": b"", "copy": b"two", "new": b"six"}
    for name, text in content.items():
        (tmp_path / name).write_bytes(text)
    (tmp_path / "link").symlink_to("c")
    (tmp_path / "empty").write_bytes(b"")
    mine = [str(tmp_path / name) for name in ("a", "b", "c", "e", "gone")]
    names = ("new", "copy", "link", "empty", "also-gone", "a")
    others = [str(tmp_path / name) for name in names]
    assert same_files(mine, others) == [(1, 1), (2, 2), (0, 5)]
    (tmp_path / "copy").write_bytes(b"2wo")
    assert same_files(mine, others) == [(2, 2), (0, 5)]
