"""Where images are makes no difference: folder, shards and a store give the same bits."""

import hashlib
import io
import os
import pickle
import random
import tarfile
from pathlib import Path

import numpy as np
import pytest
from packed import pictures
from PIL import Image
from tar_shards import all_of, tar, write_shards

from g2netpl.base.disk import file_digest, file_stamp
from g2netpl.base.errors import InputError
from g2netpl.base.inside import open_file
from g2netpl.cli import main
from g2netpl.images.loader import TOGETHER, epoch_groups
from g2netpl.images.sources import (
    find,
    images_at,
    index,
    list_images,
    locate,
    shards,
    shards_of,
)
from g2netpl.runs.config import RunConfig
from g2netpl.training.train import train

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


@pytest.mark.parametrize("mode", ["end-to-end", "linear"])
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
        workers = 2 if mode == "end-to-end" and name in ("shards", "memory") else 0
        keys = small_training(
            f"run-{name}", images=images, mode=mode, order="images", workers=workers
        )
        if name == "memory":
            keys |= {key: f"{images}/{Path(keys[key]).name}" for key in ("labels", "test_labels")}
        found[name] = outcome(train(RunConfig(**keys, pretrained=False)))
    for name, each in found.items():
        assert each == found["folder"], name


def test_places_are_what_the_files_were(photos, packed):
    """Name by name: content, sum and size; also after a journey to another process."""
    names = list_images(photos)
    for address in (packed, in_memory_store(packed, "places")):
        assert sorted(list_images(address)) == names
        for name, place in zip(names, locate(names, address), strict=True):
            content = (photos / name).read_bytes()
            for each in (place, pickle.loads(pickle.dumps(place))):
                assert content_of(each) == content
                assert file_digest(each) == hashlib.sha256(content).digest()
                assert file_stamp(each)[0] == len(content)
            assert len(pickle.dumps(place)) < 600


def test_an_image_is_called_as_its_json_says(tmp_path):
    images = ("sub/ü.v2.png", "sub/ü.png", "a b\n.png")
    (tmp_path / "in/sub").mkdir(parents=True)
    for number, name in enumerate(images):
        (tmp_path / "in" / name).write_bytes(png(number))
    write_shards(images, tmp_path / "in", tmp_path / "out", 2)
    assert list_images(tmp_path / "out") == list(images)
    assert [content_of(path) for path in locate(images, tmp_path / "out")] == [
        png(0),
        png(1),
        png(2),
    ]


def test_unlisted_images_of_shards_train_as_those_of_the_folder(photos, packed, small_training):
    keys = {"only_listed": None, "test_labels": None, "mode": "end-to-end", "order": "images"}
    here = train(RunConfig(**small_training("run-folder", **keys), pretrained=False))
    keys |= {"images": str(packed)}
    there = train(RunConfig(**small_training("run-shards", **keys), pretrained=False))
    assert outcome(here) == outcome(there)


def test_the_order_of_shards_is_another_one_and_resumes_to_the_bit(packed, small_training):
    import g2netpl.training.epochs as epochs

    assert epochs
    keys = {"images": str(packed), "mode": "end-to-end", "pretrained": False}
    by_shards = outcome(train(RunConfig(**small_training("run-a", **keys))))
    by_images = outcome(train(RunConfig(**small_training("run-b", **keys, order="images"))))
    assert by_shards[0] != by_images[0]

    class Enough(Exception):
        pass

    def stop(*_):
        raise Enough

    config = RunConfig(**small_training("run-c", **keys))
    with pytest.raises(Enough):
        train(config, on_epoch=stop)
    assert outcome(train(config, resume=True)) == by_shards


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
    both = tmp_path / "{gnu,pax}.tar"
    assert list_images(both) == names
    assert list_images(tmp_path / "*.tar") == names


def test_links_devices_and_names_that_lead_out_are_passed_over_with_a_line(tmp_path):
    odd = []
    for kind in (
        tarfile.SYMTYPE,
        tarfile.LNKTYPE,
        tarfile.CHRTYPE,
        tarfile.BLKTYPE,
        tarfile.FIFOTYPE,
    ):
        info = tarfile.TarInfo(f"odd{kind.decode()}.png")
        info.type, info.linkname = kind, "/etc/passwd"
        odd.append((info.name, info))
    leading = [(name, png()) for name in ("../up.png", "/etc/x.png", "a/../../b.png", "C:\\d.png")]
    told = [("n.json", b'{"file_name": "../../n.png"}'), ("n.png", png())]
    shard = tar(tmp_path / "odd.tar", [*odd, *leading, *told, ("good.png", png(7))])
    images = images_at(shard)
    assert [*images.names()] == ["good.png"]
    for _ in range(2):  # from the pass, and from the index that is kept
        notes = " ".join(images_at(shard).find([]).notes)
        for what in (
            "2 links",
            "2 devices",
            "1 pipe",
            "'../up.png'",
            "'/etc/x.png'",
            "'../../n.png'",
        ):
            assert what in notes
        shards_cache_clear()


def shards_cache_clear():
    from g2netpl.images import sources

    sources._here.cache_clear()


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("twice", "'a.png' is in it twice"),
        ("two", "both have an image 'a.png'"),
        ("cut", "damaged (it ends too early)"),
        ("no end", "damaged (it ends too early)"),
        ("header", "damaged (bad checksum)"),
        ("no tar", "damaged"),
        ("gz", "decompress it"),
        ("size", "damaged"),
        ("pax", "damaged"),
    ],
)
def test_a_damaged_shard_is_refused_in_one_line(tmp_path, capfd, name, says):
    shard = tar(tmp_path / "s.tar", [("a.png", png()), ("b.png", png(1))])
    content = bytearray(shard.read_bytes())
    if name == "twice":
        tar(shard, [("a.png", png()), ("a.png", png(1))])
    elif name == "two":
        tar(tmp_path / "t.tar", [("a.png", png())])
    elif name == "cut":
        shard.write_bytes(content[:1100])
    elif name == "no end":
        shard.write_bytes(content[:2048])
    elif name == "header":
        content[1024] ^= 1
        shard.write_bytes(content)
    elif name == "no tar":
        shard.write_bytes(os.urandom(5000))
    elif name == "gz":
        shard.rename(tmp_path / "s.tar.gz")
    elif name == "size":  # more bytes than there are
        info = tarfile.TarInfo("a.png")
        info.size = 1 << 40
        shard.write_bytes(info.tobuf() + bytes(2048))
    elif name == "pax":
        info = tarfile.TarInfo("x" * 200 + "/a.png")
        packed = bytearray(info.tobuf(tarfile.PAX_FORMAT))
        packed[512:515] = b"999"
        shard.write_bytes(bytes(packed) + bytes(1024))
    with pytest.raises(InputError) as told:
        images_at(tmp_path)
    assert says in str(told.value)
    assert "\n" not in str(told.value)
    assert str(tmp_path) in str(told.value)


def index_file(tmp_path):
    (found,) = (tmp_path / "user-cache/g2netpl/indexes").iterdir()
    return found


def test_a_lying_index_is_found_out(tmp_path):
    """One of the right stamp that sends us to the wrong places."""
    shard = tar(tmp_path / "s.tar", [("a.png", png(1)), ("b.png", png(2)), ("c.png", png(3))])
    right = locate(["a.png", "b.png"], shard)
    with np.load(index_file(tmp_path)) as file:
        kept = dict(file)
    rows = kept["rows"]

    def lie(field, value):
        lying = rows.copy()
        lying[field][0] = value
        np.savez(index_file(tmp_path), **{**kept, "rows": lying})
        shards_cache_clear()
        return locate(["a.png"], shard)[0]

    for field, value in (
        ("start", rows["start"][1]),
        ("start", -512),
        ("start", 1 << 62),
        ("size", 10**12),
        ("size", 10),
        ("sum", rows["sum"][1]),
    ):
        place = lie(field, value)
        with pytest.raises(OSError, match="was the shard changed"):
            content_of(place)
    np.savez(index_file(tmp_path), **{**kept, "rows": rows[:2]})  # fewer rows than names
    shards_cache_clear()
    assert [content_of(each) for each in locate(["a.png", "b.png"], shard)] == [png(1), png(2)]
    assert [content_of(each) for each in right] == [png(1), png(2)]


def test_a_damaged_or_old_index_is_made_anew(tmp_path):
    shard = tar(tmp_path / "s.tar", [("a.png", png(1))])
    assert list_images(shard) == ["a.png"]
    for content in (b"", b"x" * 100, index_file(tmp_path).read_bytes()[:-1]):
        index_file(tmp_path).write_bytes(content)
        shards_cache_clear()
        assert content_of(locate(["a.png"], shard)[0]) == png(1)
    tar(shard, [("b.png", png(2))])  # another shard of the same name
    assert list_images(shard) == ["b.png"]


def test_a_shard_that_is_replaced_in_between_is_noticed(tmp_path):
    """By other members, by another content of the same size, and by its end."""
    shard = tar(tmp_path / "s.tar", [("a.png", png(1)), ("b.png", png(2))])
    a, b = locate(["a.png", "b.png"], shard)
    before = file_stamp(a)
    assert len(png(1)) == len(png(3))
    for members in ([("a.png", png(3)), ("b.png", png(2))], [("z.png", png(3) * 9)], []):
        tar(shard, members)
        with pytest.raises(OSError, match="was the shard changed"):
            content_of(a)
        assert file_stamp(a) != before
        assert file_digest(a) is None
    shard.unlink()
    assert file_stamp(b) == (-1, -1, -1)
    with pytest.raises(FileNotFoundError):
        content_of(b)


def many_shards(folder, count=7, each=5):
    """Shards of a few images, and the content of each by its name."""
    folder.mkdir()
    contents = {f"{number}/{row}.png": png(9 * number + row)
                for number in range(count) for row in range(each)}  # fmt: skip
    for number in range(count):
        mine = [item for item in contents.items() if item[0].startswith(f"{number}/")]
        tar(folder / f"{number}.tar", mine)
    return contents


@pytest.mark.parametrize("kept", [True, False], ids=["kept", "nowhere to keep it"])
def test_an_index_is_opened_when_its_shard_is(tmp_path, monkeypatch, kept):
    """Names and places of all images, by any of them, with two indexes in memory at most."""
    contents = many_shards(tmp_path / "many")
    if not kept:
        (tmp_path / "user-cache").write_text("no folder")
    images = images_at(tmp_path / "many")
    names = images.names()
    assert (len(names), [*names], names[-1], names[3:13:2]) == (
        35, [*contents], "6/4.png", [*contents][3:13:2])  # fmt: skip
    assert images.together() == [5] * 7
    with pytest.raises(IndexError):
        names[35]
    mixed = random.Random(0).sample([*contents, "none.png", "7/0.png"], 37)
    found = images.find(mixed, exactly=True)
    assert sorted(mixed[row] for row in found.missing) == ["7/0.png", "none.png"]
    for name, place in zip(mixed, found.paths, strict=True):
        assert name not in contents or content_of(place) == contents[name]
    assert index._opened.cache_info().currsize <= 2
    monkeypatch.setattr(
        "g2netpl.images.sources.catalogue.hashes_of", lambda names: np.zeros(len(names), int)
    )
    same = images_at(tmp_path / "many" / "*.tar")  # where all names have the same hash
    assert [content_of(path) for path in same.find([*contents]).paths] == [*contents.values()]
    assert same.find(["none.png"]).missing == [0]


def test_an_index_that_is_gone_meanwhile_is_made_anew_unless_the_shard_is_another(tmp_path):
    contents = many_shards(tmp_path / "many")
    images = images_at(tmp_path / "many")
    for path in (tmp_path / "user-cache/g2netpl/indexes").iterdir():
        path.unlink()
    places = images.find([*contents]).paths
    assert [content_of(path) for path in places] == [*contents.values()]
    tar(tmp_path / "many" / "0.tar", [("x.png", png()), ("y.png", png())])
    assert list_images(tmp_path / "many")[:2] == ["x.png", "y.png"]  # keeps another index
    with pytest.raises(InputError, match=r"0.tar: changed since it was listed"):
        images.find(["0/1.png"])


def test_what_is_no_image_is_found_while_indexing_and_not_looked_at_twice(tmp_path, monkeypatch):
    from g2netpl.images import pixels

    shard = tar(tmp_path / "s.tar", [("a.png", png()), ("bad.png", b"no image")])
    good, bad = locate(["a.png", "bad.png"], shard)
    assert good.looked_at
    assert not bad.looked_at
    assert "not a readable image" in pixels.header_problem(bad)
    monkeypatch.setattr(pixels, "open_file", None)
    assert pixels.header_problem(good) is None


def test_a_large_header_does_not_fill_memory(tmp_path):
    info = tarfile.TarInfo("a.png")
    info.type, info.size = tarfile.XHDTYPE, 1 << 33
    (tmp_path / "s.tar").write_bytes(info.tobuf(tarfile.GNU_FORMAT) + bytes(4096))
    with pytest.raises(InputError, match=r"a header of 8,589,934,592 bytes"):
        images_at(tmp_path)


def test_a_pattern_is_written_out():
    assert shards.in_full("a-{08..11}.tar") == ["a-08.tar", "a-09.tar", "a-10.tar", "a-11.tar"]
    assert shards.in_full("{x,y}-{0..1}.tar") == ["x-0.tar", "x-1.tar", "y-0.tar", "y-1.tar"]
    with pytest.raises(InputError, match="more than a million"):
        shards.in_full("a-{0..99999999}.tar")


@pytest.mark.parametrize("name", ["data.parquet", "saved/data-00000-of-00001.arrow"])
def test_pictures_inside_columns_are_to_be_written_out_first(tmp_path, name, small_training):
    path = pictures(tmp_path / name)
    data = path if path.suffix == ".parquet" else path.parent
    keys = small_training("run", labels=str(data), images=None, test_labels=None)
    with pytest.raises(InputError, match=f"write them out with: g2netpl convert {data} FOLDER"):
        train(RunConfig(**keys))


def test_commands_take_shards(packed, photos, tmp_path, capfd, small_training):
    """check, predict and find, as they take a folder."""
    command = ["check", "--labels", str(photos / "train.csv"), "--images", str(packed)]
    assert main([*command, "--workers", "0"]) == 0
    assert "readable images" in capfd.readouterr().out
    train(RunConfig(**small_training("run", mode="linear", pretrained=False)))
    for name, images in (("a", photos), ("b", packed)):
        command = ["predict", str(tmp_path / "run"), "--images", str(images), "--workers", "0"]
        assert main([*command, "--output", str(tmp_path / f"{name}.csv")]) == 0
    lines = [sorted((tmp_path / f"{name}.csv").read_text().split("\n")) for name in "ab"]
    assert lines[0] == lines[1]
    assert find(["none.png"], packed).missing == [0]
