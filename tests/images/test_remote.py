"""A store that is slow, gone, lying or replaced, over a real connection on loopback."""

import hashlib
import io
import itertools
import threading
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, unquote, urlsplit
from xml.sax.saxutils import escape

import pytest
from PIL import Image
from tar_shards import tar

from g2netpl.base import stores
from g2netpl.base.disk import file_digest
from g2netpl.base.errors import InputError
from g2netpl.base.inside import open_file
from g2netpl.base.places import Unreachable
from g2netpl.cli import main
from g2netpl.images import sources
from g2netpl.images.loader import ImageSource, plain_groups
from g2netpl.images.sources import list_images, locate
from g2netpl.labels.formats import LabelFileError, Reading, read_labels, read_matching, write_labels
from g2netpl.runs.completion import read_names
from g2netpl.runs.config import RunConfig

fsspec = pytest.importorskip("fsspec")
s3fs = pytest.importorskip("s3fs", reason="the extra 'remote' is not installed")

OTHERS = itertools.count()
SECRET = "a-secret-that-nobody-may-see"


def png(shade):
    stream = io.BytesIO()
    Image.new("RGB", (8, 8), (shade, 0, 0)).save(stream, "PNG")
    return stream.getvalue()


class Store(ThreadingHTTPServer):
    """As much of S3 as reading takes, with faults."""

    daemon_threads = True

    def __init__(self):
        super().__init__(("127.0.0.1", 0), _Handler)
        self.objects = {}
        self.fault = lambda key, content: content
        self.asked = []
        self.over = threading.Event()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def do_HEAD(self):
        self.do_GET()

    def do_GET(self):
        parts = urlsplit(self.path)
        bucket, _, key = unquote(parts.path).lstrip("/").partition("/")
        self.server.asked.append((self.command, key, self.headers.get("Range")))
        if bucket != "bucket":
            self.send(404, b"<Error><Code>NoSuchBucket</Code></Error>")
        elif not key:
            self.send(200, self.listing(parse_qs(parts.query).get("prefix", [""])[0]))
        elif key not in self.server.objects:
            self.send(404, b"<Error><Code>NoSuchKey</Code></Error>")
        else:
            self.answer(key, self.server.objects[key])

    def listing(self, prefix):
        found = {key: each for key, each in self.server.objects.items() if key.startswith(prefix)}
        items = "".join(
            f"<Contents><Key>{escape(key)}</Key><LastModified>2026-01-01T00:00:00.000Z</LastModified>"
            f'<ETag>"{hashlib.md5(each).hexdigest()}"</ETag><Size>{len(each)}</Size></Contents>'
            for key, each in sorted(found.items())
        )
        head = '<?xml version="1.0"?><ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/">'
        count = f"<KeyCount>{len(found)}</KeyCount><IsTruncated>false</IsTruncated>"
        return f"{head}<Name>bucket</Name>{count}{items}</ListBucketResult>".encode()

    def answer(self, key, content):
        head, total, status = {"ETag": f'"{hashlib.md5(content).hexdigest()}"'}, len(content), 200
        if self.command == "GET":
            content = self.server.fault(key, content)
        wanted = self.headers.get("Range")
        if wanted and content is not None:
            first, last = wanted.removeprefix("bytes=").split("-")
            content = content[int(first) : int(last or total) + 1]
            head["Content-Range"], status = f"bytes {first}-{last}/{total}", 206
        self.send(status, content, head)

    def send(self, status, content, head=()):
        if content is None:  # an answer that never comes
            self.server.over.wait(600)
            return
        self.send_response(status)
        for name, value in dict(head).items():
            self.send_header(name, value)
        moment = datetime(2026, 1, 1, tzinfo=UTC).strftime("%a, %d %b %Y %H:%M:%S GMT")
        self.send_header("Last-Modified", moment)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(content)


@pytest.fixture
def store(tmp_path, monkeypatch):
    made = Store()
    threading.Thread(target=made.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
    for name, value in {
        "XDG_CACHE_HOME": str(tmp_path / "cache"),
        "AWS_ENDPOINT_URL": f"http://127.0.0.1:{made.server_port}",
        "AWS_ACCESS_KEY_ID": "somebody",
        "AWS_SECRET_ACCESS_KEY": SECRET,
        "AWS_DEFAULT_REGION": "us-east-1",
    }.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(stores, "WAITS", (0.05, 0.1))
    monkeypatch.setattr(stores, "PATIENCE", 120.0)
    monkeypatch.setattr(stores, "_AWHILE", 3600.0)
    fsspec.filesystem("s3").clear_instance_cache()
    sources._elsewhere.cache_clear()
    stores._given_up.clear()
    yield made
    made.over.set()
    made.shutdown()
    made.server_close()
    fsspec.filesystem("s3").clear_instance_cache()


@pytest.fixture
def photos(store):
    store.objects |= {f"photos/{name}.png": png(shade) for shade, name in enumerate("abc")}
    return "s3://bucket/photos"


def content_of(place):
    with open_file(place) as file:
        return file.read()


def gets(store):
    return [asked for asked in store.asked if asked[0] == "GET" and asked[1]]


def test_what_was_read_once_is_kept(store, photos, tmp_path):
    assert list_images(photos) == ["a.png", "b.png", "c.png"]
    a, b = locate(["a.png", "b.png"], photos)
    for _ in range(3):
        assert content_of(a) == png(0)
        assert file_digest(b) == hashlib.sha256(png(1)).digest()
    assert len(gets(store)) == 2
    for path in (tmp_path / "cache/g2netpl/remote").glob("*/*"):  # damaged: asked for again
        path.write_bytes(b"x" + path.read_bytes()[1:])
    assert content_of(a) == png(0)
    assert len(gets(store)) == 3


def test_shards_are_read_by_ranges_and_in_blocks(store, monkeypatch):
    shard = tar(io.BytesIO(), [(f"{row}.png", png(row)) for row in range(40)]).getvalue()
    store.objects["shards/x-0.tar"] = shard
    monkeypatch.setattr(stores, "BLOCK", 4096)
    names = [f"{row}.png" for row in range(40)]
    for address in (
        "s3://bucket/shards",
        "s3://bucket/shards/x-{0..0}.tar",
        "s3://bucket/shards/*.tar",
    ):
        assert list_images(address) == names
    assert len(gets(store)) == 1  # the pass that makes the index, once
    for row, place in enumerate(locate(names, "s3://bucket/shards")):
        assert content_of(place) == png(row)
    assert len(gets(store)) == 1
    assert gets(store)[0][2] == f"bytes=0-{len(shard) - 1}"


def test_the_cache_is_bounded(store, monkeypatch, tmp_path):
    store.objects |= {f"many/{row:03}.png": png(row) + bytes(10_000) for row in range(60)}
    monkeypatch.setenv("G2NETPL_REMOTE_CACHE", "200KB")
    for _ in range(2):
        for row, place in enumerate(locate(list_images("s3://bucket/many"), "s3://bucket/many")):
            assert content_of(place).startswith(png(row))
    kept = [path.stat().st_size for path in (tmp_path / "cache/g2netpl/remote").glob("*/*")]
    assert 100_000 < sum(kept) <= 200_000
    monkeypatch.setenv("G2NETPL_REMOTE_CACHE", "a lot")
    store.objects["many/x.png"] = png(1)
    sources._elsewhere.cache_clear()
    with pytest.raises(InputError, match=r"G2NETPL_REMOTE_CACHE=a lot: must be a size"):
        content_of(locate(["x.png"], "s3://bucket/many")[0])


def test_a_fault_that_passes_is_waited_for(store, photos):
    """Less than was promised, and another object; then the right one."""
    places = locate(["a.png", "b.png"], photos)
    for place, wrong in zip(places, (png(0)[:20], png(9)), strict=True):
        faults = [wrong]
        store.fault = lambda key, content, faults=faults: faults.pop() if faults else content
        assert content_of(place) == store.objects[place.removeprefix("s3://bucket/")]
        assert not faults


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        (lambda content: None, "cannot be reached ("),
        (lambda content: content[:-1], "bytes came of"),
        (lambda content: content[:-1] + bytes([next(OTHERS) % 128]), "another"),
    ],
    ids=["stalls", "short", "always another"],
)
def test_a_fault_that_stays_ends_the_work_in_one_line(store, photos, monkeypatch, wrong, says):
    place, other = locate(["a.png", "b.png"], photos)
    store.fault = lambda key, content: wrong(content)
    if wrong(b"content") is None:  # no answer comes, however long it is waited for
        monkeypatch.setattr(stores, "PATIENCE", 0.2)
    with pytest.raises(Unreachable) as told:
        content_of(place)
    assert says in str(told.value)
    assert str(told.value).startswith("s3://bucket/photos/a.png: ")
    assert "\n" not in str(told.value)
    assert SECRET not in str(told.value)
    monkeypatch.setattr(stores, "_call", lambda *_, **__: pytest.fail("the store is asked again"))
    with pytest.raises(Unreachable, match="could not be reached a moment ago"):
        content_of(other)


def test_an_object_that_was_replaced_is_noticed(store, photos):
    a, b, c = locate(["a.png", "b.png", "c.png"], photos)
    store.objects["photos/a.png"] = png(9)  # of the same length, or else cut to it
    store.objects["photos/b.png"] = png(5) + b"more"
    del store.objects["photos/c.png"]
    for place, says in ((a, "changed since"), (b, "changed since"), (c, "not there any more")):
        stores._given_up.clear()
        with pytest.raises(Unreachable, match=says):
            content_of(place)


def test_an_image_that_cannot_be_reached_is_no_bad_image(store, photos):
    """It is not passed over, as one that cannot be read would be: the training would be another."""
    paths = locate(["a.png", "b.png", "c.png"], photos)
    for workers in (0, 1):
        stores._given_up.clear()
        source = ImageSource(paths, 8, (0, 0, 0), (1, 1, 1), workers=workers, max_bad=3)
        store.fault = lambda key, content: content[:-1] if key.endswith("c.png") else content
        with pytest.raises(Unreachable, match=r"photos/c.png: cannot be reached"):
            list(source.load(plain_groups(3, 2), None))
        assert source.bad == {}


@pytest.mark.parametrize(
    "address",
    [
        f"s3://somebody:{SECRET}@bucket/photos",
        f"s3://somebody:{SECRET}/x@bucket/photos",
        f"s3://bucket/photos/a.png?X-Amz-Signature={SECRET}",
        f"https://me:{SECRET}@somewhere/photos",
    ],
)
def test_credentials_in_an_address_are_refused_and_not_repeated(tmp_path, capfd, address):
    labels = tmp_path / "labels.csv"
    labels.write_text("image,labels\na.png,cat\nb.png,dog\n", encoding="utf-8")
    run = str(tmp_path / "run")
    for command in (
        ["train", "--labels", str(labels), "--images", address, "--output", run],
        ["train", "--labels", address, "--output", run],
        ["check", "--labels", str(labels), "--images", address],
        ["predict", run, "--images", address, "--output", str(tmp_path / "x.csv")],
    ):
        assert main(command) == 2
        told = "".join(capfd.readouterr())
        assert "credentials" in told
        assert SECRET not in told
    assert {path.name for path in tmp_path.iterdir()} == {"labels.csv"}


@pytest.mark.parametrize(
    ("address", "says"),
    [
        ("ftp://bucket/photos", "expected an address that begins with s3://"),
        ("s3://", "expected an address that begins with s3://"),
        ("s3://nobody/photos", "nothing there"),
        ("s3://bucket/none", "nothing there"),
        ("s3://bucket/none.tar", "nothing there"),
        ("s3://bucket/texts", "no images there, and no tar shards"),
        ("s3://bucket/packed", "decompress it"),
    ],
)
def test_addresses_without_images_are_told(store, address, says):
    store.objects |= {"texts/a.txt": b"a", "packed/a.tar.gz": b"a"}
    with pytest.raises(InputError, match=says):
        list_images(address)


# Label files


LABELS = "image,cat,dog\na.png,1,\nb.png,0,1\nc.png,,0\n"


@pytest.fixture
def labels(store):
    """A label file of the store; each test has one of its own, since a copy stays until the end."""
    address = f"labels-{next(OTHERS)}/ü x.csv"
    store.objects[address] = LABELS.encode()
    return f"s3://bucket/{address}"


@pytest.mark.parametrize("format", ["csv", "parquet", "coco", "xlsx"])
def test_labels_come_from_a_store_as_from_a_file(store, tmp_path, format):
    (tmp_path / "labels.csv").write_text(LABELS)
    table = read_labels(tmp_path / "labels.csv")
    ending = {"coco": "json"}.get(format, format)
    write_labels(table, tmp_path / f"other.{ending}", format)
    name = f"labels-{next(OTHERS)}/other.{ending}"
    store.objects[name] = (tmp_path / f"other.{ending}").read_bytes()
    here, there = read_labels(tmp_path / f"other.{ending}"), read_labels(f"s3://bucket/{name}")
    assert here.fingerprint() == there.fingerprint()
    assert read_matching([f"s3://bucket/{name}"], table).fingerprint() == there.fingerprint()
    assert len(gets(store)) == 1
    both = read_labels(
        [tmp_path / f"other.{ending}", f"s3://bucket/{name}"], None, Reading(one_folder=True)
    )
    assert both.fingerprint() == here.fingerprint()


def test_mistakes_in_labels_of_a_store_are_told_by_its_address(store, labels, tmp_path, capfd):
    address = labels.removeprefix("s3://bucket/")
    store.objects[address] = LABELS.replace("b.png,0", "b.png,7").encode()
    assert main(["check", "--labels", labels, "--images", str(tmp_path)]) == 2
    told = "".join(capfd.readouterr())
    assert f"{labels}:3: class 'cat'" in told
    assert "g2netpl-" not in told
    with pytest.raises(LabelFileError, match=r"ü x.csv:3: class"):
        read_labels(labels)


@pytest.mark.parametrize(
    ("address", "says"),
    [
        ("s3://bucket/none.csv", "s3://bucket/none.csv: nothing there"),
        ("s3://bucket/texts", "s3://bucket/texts: a folder, not a file"),
        ("s3://bucket/texts/a.txt", "not a known label file"),
        ("ftp://bucket/a.csv", "expected an address that begins with s3://"),
        ("s3://bucket/texts/..", "leads out"),
    ],
)
def test_addresses_without_labels_are_told(store, address, says, tmp_path, capfd):
    store.objects |= {"texts/a.txt": b"a", "texts/..": b"a"}
    run = str(tmp_path / "run")
    assert main(["train", "--labels", address, "--images", "x", "--output", run]) == 2
    told = capfd.readouterr().err
    assert says in told
    assert len(told.strip().splitlines()) == 1


def test_images_of_labels_in_a_store_must_be_said(labels, tmp_path, capfd):
    assert main(["train", "--labels", labels, "--output", str(tmp_path / "run")]) == 2
    assert f"{labels}: say with --images where its images are" in capfd.readouterr().err


def test_names_in_a_store_are_listed(store, labels):
    assert read_names(labels) == ["a.png", "b.png", "c.png"]
    store.objects["names.txt"] = b"b.png\na.png\n"
    assert read_names("s3://bucket/names.txt") == ["b.png", "a.png"]


def test_names_that_lead_out_lead_nowhere(store, photos):
    store.objects["secret.png"] = png(1)
    with pytest.raises(InputError, match="leads out"):
        locate(["../secret.png"], photos)


def test_an_address_stays_as_it_is_in_a_configuration(tmp_path):
    from g2netpl.runs.config_file import read_keys
    from g2netpl.training.checks import check_config

    file = tmp_path / "keys.toml"
    text = 'labels = ["a.csv", "s3://bucket/b.csv"]\nimages = "s3://bucket/x"\noutput = "o"\n'
    file.write_text(text, encoding="utf-8")
    keys = read_keys(file, {})
    assert keys["images"] == "s3://bucket/x"
    assert check_config(RunConfig(**keys, device="cpu")).images == "s3://bucket/x"
    labels = check_config(RunConfig(**keys, device="cpu")).labels
    assert labels == (str(tmp_path / "a.csv"), "s3://bucket/b.csv")
