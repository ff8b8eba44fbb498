"""A store that is gone, lying or changed, over a real connection on loopback."""

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

from g2netpl.cli import main
from g2netpl.images import sources
from g2netpl.images.loader import ImageSource, plain_groups
from g2netpl.images.sources import list_images, locate
from g2netpl.labels.io import ReadOptions, read_labels, read_matching, write_labels
from g2netpl.utils.errors import InputError
from g2netpl.utils.image_refs import Unreachable, file_digest, open_file

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


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

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
        if wanted:
            first, last = wanted.removeprefix("bytes=").split("-")
            content = content[int(first) : int(last or total) + 1]
            head["Content-Range"], status = f"bytes {first}-{last}/{total}", 206
        self.send(status, content, head)

    def send(self, status, content, head=()):
        self.send_response(status)
        for name, value in dict(head).items():
            self.send_header(name, value)
        moment = datetime(2026, 1, 1, tzinfo=UTC).strftime("%a, %d %b %Y %H:%M:%S GMT")
        self.send_header("Last-Modified", moment)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(content)

    do_HEAD = do_GET  # noqa: N815


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
    fsspec.filesystem("s3").clear_instance_cache()
    sources._in_store.cache_clear()
    yield made
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


def test_a_file_is_downloaded_once(store, photos):
    assert list_images(photos) == ["a.png", "b.png", "c.png"]
    a, b = locate(["a.png", "b.png"], photos)
    for _ in range(2):
        assert content_of(a) == png(0)
        assert file_digest(b) == hashlib.sha256(png(1)).digest()
    assert len(gets(store)) == 2


def test_shards_are_downloaded_once_and_read_by_offset(store):
    names = [f"{row}.png" for row in range(40)]
    shard = tar(io.BytesIO(), [(name, png(row)) for row, name in enumerate(names)]).getvalue()
    store.objects["shards/x-0.tar"] = shard
    for address in ("shards", "shards/x-0.tar", "shards/*.tar"):
        address = f"s3://bucket/{address}"
        assert list_images(address) == names
        for row, place in enumerate(locate(names, address)):
            assert content_of(place) == png(row)
    assert len(gets(store)) == 1


def test_the_cache_has_a_size_limit(store, monkeypatch, tmp_path):
    store.objects |= {f"many/{row:03}.png": png(row) + bytes(10_000) for row in range(60)}
    monkeypatch.setenv("G2NETPL_REMOTE_CACHE", "200KB")
    for _ in range(2):
        for row, place in enumerate(locate(list_images("s3://bucket/many"), "s3://bucket/many")):
            assert content_of(place).startswith(png(row))
    files = [path for path in (tmp_path / "cache/g2netpl/remote").rglob("*") if path.is_file()]
    assert 100_000 < sum(path.stat().st_size for path in files) <= 200_000
    monkeypatch.setenv("G2NETPL_REMOTE_CACHE", "1")  # nothing fits
    assert content_of(locate(["000.png"], "s3://bucket/many")[0]).startswith(png(0))
    monkeypatch.setenv("G2NETPL_REMOTE_CACHE", "a lot")
    store.objects["many/x.png"] = png(1)
    sources._in_store.cache_clear()
    with pytest.raises(InputError, match=r"G2NETPL_REMOTE_CACHE=a lot: must be a size"):
        content_of(locate(["x.png"], "s3://bucket/many")[0])


def test_an_incomplete_download_is_reported_and_tried_again(store, photos, tmp_path):
    place = locate(["a.png"], photos)[0]
    store.fault = lambda key, content: content[:-1]
    with pytest.raises(Unreachable, match=r"a.png: received \d+ of") as told:
        content_of(place)
    assert "\n" not in str(told.value)
    assert not [path for path in (tmp_path / "cache").rglob("*") if path.is_file()]
    store.fault = lambda key, content: content
    assert content_of(place) == png(0)


def test_a_changed_file_is_downloaded_again_and_a_removed_one_reported(store, photos):
    places = locate(["a.png", "c.png"], photos)
    store.objects["photos/b.png"] = png(5) + b"more"
    del store.objects["photos/c.png"]
    with pytest.raises(Unreachable, match="not there any more"):
        content_of(places[1])
    sources._in_store.cache_clear()  # as after some minutes
    assert content_of(locate(["b.png"], photos)[0]) == png(5) + b"more"
    assert content_of(places[0]) == png(0)


def test_a_file_that_cannot_be_reached_is_not_a_bad_image(store, photos):
    """It is not skipped like one that cannot be read: the training would be another one."""
    paths = locate(["a.png", "b.png", "c.png"], photos)
    for workers in (0, 1):
        source = ImageSource(paths, 8, (0, 0, 0), (1, 1, 1), workers=workers, max_unreadable=3)
        store.fault = lambda key, content: content[:-1] if key.endswith("c.png") else content
        with pytest.raises(Unreachable, match=r"photos/c.png: "):
            list(source.load(plain_groups(3, 2), None))
        assert source.bad == {}


@pytest.mark.parametrize(
    "address",
    [
        f"s3://somebody:{SECRET}@bucket/photos",
        f"s3://bucket/photos/a.png?X-Amz-Signature={SECRET}",
    ],
)
def test_credentials_in_an_address_are_refused_and_not_repeated(tmp_path, capfd, address):
    labels = tmp_path / "labels.csv"
    labels.write_text("image,labels\na.png,cat\nb.png,dog\n", encoding="utf-8")
    run = str(tmp_path / "run")
    for command in (
        ["train", "--labels", str(labels), "--images", address, "--output", run],
        ["check", "--labels", address],
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


@pytest.mark.parametrize("format", ["csv", "coco", "xlsx"])
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
        [tmp_path / f"other.{ending}", f"s3://bucket/{name}"], None, ReadOptions(one_folder=True)
    )
    assert both.fingerprint() == here.fingerprint()


@pytest.mark.parametrize(
    ("address", "says"),
    [
        ("s3://bucket/none.csv", "s3://bucket/none.csv: nothing there"),
        ("s3://bucket/texts", "s3://bucket/texts: a folder, not a file"),
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
