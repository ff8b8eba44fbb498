"""Hints of what was meant."""

import difflib

from g2netpl.utils import errors
from g2netpl.utils.errors import closest, did_you_mean


def test_a_few_words_are_compared_as_ever():
    known = ["spml", "csv", "voc", "coco", "label-studio"]
    for word in ("csvv", "labelstudio", "Voc", "xyz", ""):
        found = difflib.get_close_matches(word, sorted(known), n=1)
        assert closest(word, known) == (found[0] if found else None)
    assert did_you_mean("csvv", known) == "did you mean 'csv'?"
    assert did_you_mean("???", iter(known)) == "known: coco, csv, label-studio, spml, voc"
    assert did_you_mean("???", map(str, range(30, 9, -1))).endswith(", 28, 29, …")


def test_a_torchvision_of_another_build_is_told():
    """What torch says where torchvision was built with CUDA, and torch without."""
    said = errors.what_lacks(RuntimeError("operator torchvision::nms does not exist"))
    assert said.startswith("torch and torchvision are of different builds; install both anew")
    assert errors.what_lacks(RuntimeError("another one")) is None
