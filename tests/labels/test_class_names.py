"""Matching of class names to ImageNet classes, against classes that anybody can check."""

import numpy as np
import pytest

from g2netpl.labels.class_names import (
    Match,
    class_weights,
    imagenet_synsets,
    match_names,
    read_names,
    summary,
    wordnet,
    write_names,
)
from g2netpl.utils.errors import InputError

SYNSETS = imagenet_synsets(1000)  # n02123045 tabby, n02012849 and n03126707 crane, …
BIRD, MACHINE, COMPUTER_MOUSE = 134, 517, 673


def classes_of(*names):
    """Positions of the ImageNet-1k classes of each name."""
    weights = class_weights(match_names(names, SYNSETS), SYNSETS)
    return [set(row.nonzero()[0].tolist()) for row in weights]


def test_imagenet_dogs():
    (dogs,) = classes_of("dog")
    assert dogs == set(range(151, 269))  # the 118 breeds of ImageNet-1k


@pytest.mark.parametrize(
    ("name", "same"),
    [
        ("Dogs", "dog"),
        ("wolves", "wolf"),
        ("aeroplane", "airplane"),
        ("TrafficLight", "traffic light"),
        ("traffic_light-2", "traffic light"),
        ("diningtable", "dining table"),
        ("large brown dogs", "dog"),
        ("bottle of milk", "bottle"),
        ("animals|dog", "dog"),
        ("n02084071", "dog"),
        ("wine glass", "drinking glass"),
        ("mouse (computer)", "computer mouse"),
        ("sports ball", "ball"),
    ],
)
def test_spellings_and_compounds(name, same):
    first, second = classes_of(name, same)
    assert first
    assert first == second


def test_a_known_compound_is_not_taken_for_its_last_word():
    teddy, bear, hydrant = classes_of("teddy bear", "bear", "fire hydrant")
    assert len(teddy) == 1
    assert not teddy & bear
    assert not hydrant


def test_homonyms_count_in_all_common_senses():
    assert classes_of("crane") == [{BIRD, MACHINE}]
    assert classes_of("mouse") == [{COMPUTER_MOUSE}]  # ImageNet-1k has no mice that are animals


def test_a_rare_sense_leaves_its_classes_to_the_name_that_commonly_means_them():
    synsets = imagenet_synsets(11821)
    sign, iris = class_weights(match_names(["flag", "iris"], synsets), synsets) > 0
    alone = class_weights(match_names(["flag"], synsets), synsets)[0] > 0
    assert int((sign & iris).sum()) == 0
    assert int(sign.sum()) < int(alone.sum())  # "flag" is also an iris, rarely


@pytest.mark.parametrize(
    "names",
    [
        ["Hund", "Katze", "Gift", "Rat", "Baum", "Fahrrad", "Blume", "Haus", "Kind"],
        ["chat", "chien", "pain", "oiseau", "voiture", "arbre", "fleur", "bateau", "cheval"],
    ],
)
def test_names_in_another_language_are_not_matched(names):
    assert not any(classes_of(*names))


def test_the_summary_names_what_is_known_and_what_is_not():
    matches = match_names(["dog", "crane", "fire hydrant"], SYNSETS)
    assert summary(matches, SYNSETS) == (
        "2 of 3 class names known to the backbone: dog → 118 ImageNet classes, "
        "crane → 2 ImageNet classes; not matched: fire hydrant"
    )


def test_the_table_is_written_corrected_and_read(tmp_path):
    path, names = tmp_path / "names.csv", ["crane", "Auto", "fire hydrant"]
    matches = match_names(names, SYNSETS)
    write_names(path, matches)
    read = read_names(path, names)
    assert np.array_equal(class_weights(read, SYNSETS), class_weights(matches, SYNSETS))
    text = path.read_text().splitlines()
    corrected = [line for line in text if "n02012126" not in line and "n02012849" not in line]
    path.write_text("\n".join([*corrected, "Auto,car,,0.5,mine"]))
    crane, auto, _ = class_weights(read_names(path, names), SYNSETS)
    assert crane.nonzero()[0].tolist() == [MACHINE]
    assert float(auto.max()) == 0.5


@pytest.mark.parametrize(
    ("row", "problem"),
    [
        ("dgo,n02084071,,1,", "line 2: unknown class 'dgo'.*did you mean 'dog'"),
        ("dog,n99999999,,1,", "line 2: no synset or word 'n99999999'"),
        ("dog,n02084071,,7,", "line 2: weight: expected 0 to 1, got '7'"),
    ],
)
def test_mistakes_in_the_table(tmp_path, row, problem):
    path = tmp_path / "names.csv"
    path.write_text(f"class,synset,words,weight,rule\n{row}\n")
    with pytest.raises(InputError, match=problem):
        read_names(path, ["dog"])


@pytest.mark.parametrize("text", ["", "Hund,dog\n", "name,synset\ndog,n02084071\n"])
def test_a_table_without_its_header_is_rejected(tmp_path, text):
    path = tmp_path / "names.csv"
    path.write_text(text)
    with pytest.raises(InputError, match="expected a header with class and synset"):
        read_names(path, ["dog"])


def test_names_of_the_table_may_be_decomposed(tmp_path):
    path = tmp_path / "names.csv"
    path.write_text("class,synset\nKa\u0308tzchen,cat\n")
    (match,) = read_names(path, ["K\u00e4tzchen"])
    assert match.rule == "file"


def test_larger_imagenets_and_other_classifiers():
    counts = [len(imagenet_synsets(n)) for n in (1000, 11221, 11821, 21841, 21842, 21843, 10)]
    assert counts == [1000, 11221, 11821, 21841, 21842, 21843, 0]
    (person,) = match_names(["people's person"], imagenet_synsets(21843))
    assert wordnet().position["n00007846"] in {wordnet().position[s] for s in person.senses}
    assert match_names(["dog"], []) == [Match("dog")]
