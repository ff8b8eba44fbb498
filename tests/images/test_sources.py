"""Where images are makes no difference: folder, shards and a store give the same bits."""

import io
import os
import pickle
import tarfile
from pathlib import Path

import numpy as np
import pytest
from packed import pictures
from PIL import Image
from tar_shards import all_of, tar, write_shards

from g2netpl.images.loader import TOGETHER, epoch_groups
from g2netpl.images.sources import find, images_at, list_images, locate, shards_of
from g2netpl.labels.io import read_labels
from g2netpl.runs.config import RunConfig
from g2netpl.training.train import train
from g2netpl.utils.errors import InputError
from g2netpl.utils.image_refs import open_file

fsspec = pytest.importorskip("fsspec")


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "user-cache"))


@pytest.fixture
def packed(photos, tmp_path):
    """The photos of the tests in shards of a quarter each, with their labels."""
    return write_shards(all_of(photos), photos, tmp_path / "shards")


def png(shade=0):
    stream = io.BytesIO()
    Image.new("RGB", (8, 8), (shade, 0, 0)).save(stream, "PNG")
    return stream.getvalue()


def content_of(place):
    with open_file(place) as file:
        return file.read()


def in_memory_store(folder, bucket):
    store = fsspec.filesystem("memory")
    for path in folder.rglob("*"):
        if path.is_file():
            store.pipe_file(f"/{bucket}/{path.relative_to(folder).as_posix()}", path.read_bytes())
    return f"memory://{bucket}"


def outcome(run):
    """Everything that a training has learnt: weights, soft labels, predictions."""
    weights = (run.folder / "model.safetensors").read_bytes()
    return weights, run.soft_labels().tobytes(), run.predictions().tobytes()


@pytest.mark.parametrize("mode", ["full", "linear"])
def test_every_source_trains_to_the_same_bits(photos, packed, small_training, mode):
    """Weights and soft labels, on the same rows in the same order."""
    sources = {
        "folder": str(photos),
        "shards": str(packed),
        "memory": in_memory_store(photos, f"photos-{mode}"),
        "memory-shards": in_memory_store(packed, f"shards-{mode}"),
    }
    found = {}
    for name, images in sources.items():
        workers = 2 if mode == "full" and name in ("shards", "memory") else 0
        keys = small_training(
            f"run-{name}", images=images, mode=mode, shuffle="images", workers=workers
        )
        if name == "memory":
            keys |= {key: f"{images}/{Path(keys[key]).name}" for key in ("labels", "test_labels")}
        found[name] = outcome(train(RunConfig(**keys, pretrained=False)))
    for name, each in found.items():
        assert each == found["folder"], name


def test_shards_are_mixed_in_blocks_every_image_once():
    numbers = np.repeat(np.arange(100), 100)
    groups = epoch_groups(10_000, 16, 3, 5, numbers)
    order = np.concatenate(groups)
    assert sorted(order) == list(range(10_000))
    assert order.tolist() == np.concatenate(epoch_groups(10_000, 16, 3, 5, numbers)).tolist()
    assert order.tolist() != np.concatenate(epoch_groups(10_000, 16, 3, 6, numbers)).tolist()
    seen = numbers[order]
    for shard in range(100):  # near each other, and not one after the other
        where = np.flatnonzero(seen == shard)
        assert np.ptp(where) < TOGETHER + 100
        assert np.ptp(where) > 200
    assert len(set(seen[:TOGETHER].tolist())) <= TOGETHER // 100 + 1
    assert shards_of(["a", "b"]) is None


# Tar files of others


def test_a_shard_of_others_is_read_as_it_is(tmp_path):
    """GNU and pax names, `./`, folders, endings, hidden files and several images of a key."""
    long = "x" * 150 + "/" + "y" * 120 + ".png"
    with tarfile.open(tmp_path / "gnu.tar", "w", format=tarfile.GNU_FORMAT) as file:
        for name in ("./a.png", long, "._a.png", "a.json", "b.left.png", "b.right.png", "ü.PNG"):
            info = tarfile.TarInfo(name)
            info.size = len(png())
            file.addfile(info, io.BytesIO(png()))
        info = tarfile.TarInfo("folder")
        info.type = tarfile.DIRTYPE
        file.addfile(info)
    tar(tmp_path / "pax.tar", [(f"ö/{long}", png(1)), ("c.json", b'{"labels": ["cat"]}')])
    names = ["a.png", long, "b.left.png", "b.right.png", "ü.PNG", f"ö/{long}"]
    assert list_images(tmp_path) == names
    assert content_of(locate([f"ö/{long}"], tmp_path)[0]) == png(1)
    assert images_at(tmp_path).find(["A.PNG"]).names == ["a.png"]  # as people write it
    assert list_images(tmp_path / "*.tar") == names


def test_links_devices_and_names_that_lead_out_are_skipped(tmp_path):
    odd = []
    for kind in (tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE, tarfile.FIFOTYPE):
        info = tarfile.TarInfo(f"odd{kind.decode()}.png")
        info.type, info.linkname = kind, "/etc/passwd"
        odd.append((info.name, info))
    leading = [(name, png()) for name in ("../up.png", "/etc/x.png", "a/../../b.png", "C:\\d.png")]
    shard = tar(tmp_path / "odd.tar", [*odd, *leading, ("good.png", png(7))])
    images = images_at(shard)
    assert images.names() == ["good.png"]
    notes = " ".join(images.find([]).notes)
    for name in ("'../up.png'", "'/etc/x.png'", "'a/../../b.png'"):
        assert name in notes


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("twice", "image 'a.png' is there twice"),
        ("two", "t.tar: image 'a.png' is there twice"),
        ("cut", "damaged (a header is broken or cut off)"),
        ("no tar", "damaged"),
        ("gz", "decompress it"),
        ("size", "damaged"),
    ],
)
def test_a_damaged_shard_is_refused_in_one_line(tmp_path, capfd, name, says):
    shard = tar(tmp_path / "s.tar", [("a.png", png()), ("b.png", png(1))])
    content = shard.read_bytes()
    if name == "twice":
        tar(shard, [("a.png", png()), ("a.png", png(1))])
    elif name == "two":
        tar(tmp_path / "t.tar", [("a.png", png())])
    elif name == "cut":
        shard.write_bytes(content[:1100])
    elif name == "no tar":
        shard.write_bytes(os.urandom(5000))
    elif name == "gz":
        shard.rename(tmp_path / "s.tar.gz")
    elif name == "size":  # more bytes than there are
        info = tarfile.TarInfo("a.png")
        info.size = 1 << 40
        shard.write_bytes(info.tobuf() + bytes(2048))
    with pytest.raises(InputError) as told:
        images_at(tmp_path)
    assert says in str(told.value)
    assert "\n" not in str(told.value)
    assert str(tmp_path) in str(told.value)


def test_an_image_in_a_shard_can_be_sent_to_another_process(tmp_path):
    shard = tar(tmp_path / "s.tar", [("x/a.png", png(1))])
    place = pickle.loads(pickle.dumps(locate(["x/a.png"], shard)[0]))
    assert content_of(place) == png(1)
    assert place == f"{shard}/x/a.png"
    assert (place.shard, place.stamp()[0]) == (str(shard), len(png(1)))


def test_pictures_inside_a_data_set_of_hugging_face(tmp_path):
    pytest.importorskip("datasets", reason="the extra 'datasets' is not installed")
    data = pictures(tmp_path / "data.parquet")
    table = read_labels(data)
    places = locate(table.images, data)
    assert list_images(data) == list(table.images)
    for row, place in enumerate(places):
        assert Image.open(io.BytesIO(content_of(place))).size == (8, 8), row
    assert content_of(pickle.loads(pickle.dumps(places[1]))) == content_of(places[1])
    assert find(["none.png"], data).missing == [0]
