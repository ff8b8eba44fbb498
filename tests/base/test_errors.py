"""Hints of what was meant: right, and quick however many words are known."""

import difflib

import pytest

from g2netpl.base import errors
from g2netpl.base.errors import closest, did_you_mean

MANY = [f"{word} {number:05d}" for word in ("class", "Ort", "名") for number in range(40_000)]


@pytest.fixture
def compared(monkeypatch):
    """How many words difflib was asked about, each time."""
    counts = []

    def counting(word, words, **options):
        words = list(words)
        counts.append(len(words))
        return matches(word, words, **options)

    matches = difflib.get_close_matches
    monkeypatch.setattr(errors.difflib, "get_close_matches", counting)
    return counts


def test_a_few_words_are_compared_as_ever():
    known = ["spml", "csv", "voc", "coco", "label-studio"]
    for word in ("csvv", "labelstudio", "Voc", "xyz", ""):
        found = difflib.get_close_matches(word, sorted(known), n=1)
        assert closest(word, known) == (found[0] if found else None)
    assert did_you_mean("csvv", known) == "did you mean 'csv'?"
    assert did_you_mean("???", iter(known)) == "known: coco, csv, label-studio, spml, voc"
    assert did_you_mean("???", map(str, range(30, 9, -1))).endswith(", 28, 29, …")


@pytest.mark.parametrize(
    ("typo", "meant"),
    [
        ("clas 01234", "class 01234"),
        ("xclass 01234", "class 01234"),
        ("class 39999x", "class 39999"),
        ("Otr 00007", "Ort 00007"),
        ("名 12 345", "名 12345"),
    ],
)
def test_among_very_many_words_the_one_meant_is_found(typo, meant, compared):
    assert closest(typo, MANY) == meant
    assert max(compared) <= 1_500


def test_a_word_that_is_a_whole_text_is_not_compared(compared):
    assert did_you_mean("x" * 100_000, MANY).startswith("known: Ort 00000, Ort 00001")
    assert compared == []


def test_a_torchvision_of_another_build_is_told():
    """What torch says where torchvision was built with CUDA, and torch without."""
    said = errors.what_lacks(RuntimeError("operator torchvision::nms does not exist"))
    assert said.startswith("torch and torchvision are of different builds; install both anew")
    assert errors.what_lacks(RuntimeError("another one")) is None
