"""Hints of what was meant."""

import difflib

from g2netpl.utils.errors import closest, did_you_mean


def test_the_closest_known_word_or_all_of_them():
    known = ["spml", "csv", "voc", "coco", "label-studio"]
    for word in ("csvv", "labelstudio", "Voc", "xyz", ""):
        matches = difflib.get_close_matches(word, sorted(known), n=1)
        assert closest(word, known) == (matches[0] if matches else None)
    assert did_you_mean("csvv", known) == "did you mean 'csv'?"
    assert did_you_mean("???", iter(known)) == "known: coco, csv, label-studio, spml, voc"
    assert did_you_mean("???", map(str, range(30, 9, -1))).endswith(", 28, 29, …")
