"""Features that are kept, as activations are, in float32: of these very images, and no others."""

import numpy as np
import pytest
from small_pictures import SmallPictures

from g2netpl.base.errors import InputError
from g2netpl.game.network.network import build_backbone
from g2netpl.images.kept_tables import cache_key, kept


class Pictures(SmallPictures):
    """Their features are their first two bytes; empty ones cannot be read."""

    def made(self):
        return np.array([each or [np.nan] * 2 for each in self.contents()], np.float32)

    def get(self, cache, **named):
        """The features, and the rows that had to be computed for them."""
        before = len(self.asked)
        features = kept(cache, "key", self.paths, (2,), self.compute, np.float32, **named)
        np.testing.assert_array_equal(features, self.made())
        return self.asked_since(before)


@pytest.fixture
def pictures(tmp_path):
    return Pictures(tmp_path, "abcde")


def test_what_could_not_be_read_is_tried_again_alone(pictures, tmp_path):
    pictures.write("c", b"")
    assert pictures.get(tmp_path) == [0, 1, 2, 3, 4]
    assert pictures.get(tmp_path) == [2]
    pictures.write("c", b"xy")
    assert pictures.get(tmp_path) == [2]
    assert pictures.get(tmp_path) == []
    (pictures.folder / "d").unlink()
    (pictures.folder / "d").symlink_to("nowhere")
    with pytest.raises(FileNotFoundError):  # of compute, which is asked
        pictures.get(tmp_path)


def test_the_cache_key_changes_with_weights_files_and_view(photos):
    module, other = build_backbone("tiny").module, build_backbone("tiny", seed=1).module
    paths = sorted(str(path) for path in photos.glob("*.png"))
    keys = {
        cache_key(module, paths, "64"),
        cache_key(other, paths, "64"),
        cache_key(module, paths[1:], "64"),
        cache_key(module, paths, "32"),
    }
    assert len(keys) == 4
    assert cache_key(module, paths, "64") in keys


def test_without_a_home_a_folder_must_be_named(pictures, tmp_path, monkeypatch):
    def nobody(number):
        raise KeyError(number)

    monkeypatch.delenv("HOME", raising=False)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr("pwd.getpwuid", nobody)  # as with `docker run --user 12345`
    with pytest.raises(InputError, match=r"no home folder .*; name a folder with --cache"):
        pictures.get(None)
    assert pictures.get(tmp_path) == [0, 1, 2, 3, 4]
