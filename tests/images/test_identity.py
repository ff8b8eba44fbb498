"""Which picture files are the same."""

from g2netpl.images.identity import same_files


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
