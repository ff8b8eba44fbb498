"""The recipes of the paper and its numbers, held against a second copy typed from its tables."""

import pytest

from g2netpl.core import METHODS
from g2netpl.core.methods import find_method
from g2netpl.experiments.paper import (
    OURS,
    RECIPES,
    data_set_of,
    find_recipes,
    published,
)
from g2netpl.experiments.sweep import options_of
from g2netpl.labels.settings import Setting
from g2netpl.utils.errors import InputError

DATA_SETS = ("VOC", "COCO", "NUS-WIDE")

# --- the paper's tables, line by line as printed ------------------------------------------------

TABLE_1 = """
           VOC  COCO NUS-WIDE
bce        89.1 75.5 52.6
bce-ls     90.0 76.8 53.5
iu         83.2 59.7 42.9
an         85.1 64.1 42.0
an-ls      86.7 66.9 44.9
wan        86.5 64.8 46.3
epr        85.5 63.3 46.0
role       87.9 66.3 43.1
g2netpl    88.8 72.4 49.7
"""
TABLE_2 = """
          COCO                 VOC                  NUS-WIDE
an        46.3 53.8 59.5 62.4  51.3 71.7 80.2 82.8  28.5 35.2 38.9 40.8
an-ls     48.9 57.9 62.3 65.5  70.0 79.0 85.0 86.1  27.8 36.0 39.1 41.4
wan       57.0 60.9 63.5 64.5  76.4 82.5 85.1 85.6  37.6 41.3 43.7 44.8
epr       52.7 58.4 61.5 62.6  75.5 81.0 83.9 84.5  34.9 39.5 42.3 44.2
role      47.3 57.6 62.7 65.2  66.9 80.9 85.9 86.8  27.0 32.2 37.1 39.7
g2netpl   62.2 65.8 69.7 71.2  79.6 85.2 87.6 88.2  38.4 42.9 46.9 48.5
"""
TABLE_3 = {  # SSPL 20 % and FSPL, on COCO and on NUS-WIDE
    "Baseline": (56.6, 67.3, 36.0, 46.8),
    "Use sigmoid": (62.4, 71.1, 44.5, 49.9),
    "Add the scheduler": (64.4, 71.4, 44.8, 50.4),
    "Use CDF": (65.0, 72.7, 45.3, 50.9),
}
SHARES = ("sspl:0.2", "sspl:0.4", "sspl:0.6", "sspl:0.8")


def printed(text):
    header, *lines = text.strip().splitlines()
    rows = {}
    for line in lines:
        name, *numbers = line.split()
        rows[name] = [float(number) for number in numbers]
    rows[OURS] = rows.pop("g2netpl")
    rows["g2netpl-paper"] = rows[OURS]  # the printed G²NetPL is compared with both readings
    return header.split(), rows


@pytest.mark.parametrize("data", ["VOC", "COCO", "NUS-WIDE"])
def test_table_1_is_as_printed(data):
    header, rows = printed(TABLE_1)
    settings = {"bce": "full", "bce-ls": "full", "iu": "positives:1+1"}
    expected = {
        (name, settings.get(name, "fspl")): numbers[header.index(data)]
        for name, numbers in rows.items()
    }
    assert published("table1", data) == expected
    assert len(expected) == 10


@pytest.mark.parametrize("recipe", ["table2", "semi-supervised"])
@pytest.mark.parametrize("data", ["VOC", "COCO", "NUS-WIDE"])
def test_table_2_is_as_printed(recipe, data):
    header, rows = printed(TABLE_2)
    first = 4 * header.index(data)
    expected = {
        (name, share): numbers[first + place]
        for name, numbers in rows.items()
        for place, share in enumerate(SHARES)
    }
    column, full = printed(TABLE_1)
    expected["role", "fspl"] = full["role"][column.index(data)]
    assert published(recipe, data) == expected
    assert len(expected) == 29


@pytest.mark.parametrize(("data", "first"), [("COCO", 0), ("NUS-WIDE", 2)])
def test_the_ablation_is_as_printed(data, first):
    baseline, fixed, *others = RECIPES["ablation"].blocks[0].methods
    methods = (baseline, *others)
    expected = {}
    for method, numbers in zip(methods, TABLE_3.values(), strict=True):
        expected[method, "sspl:0.2"] = numbers[first]
        expected[method, "fspl"] = numbers[first + 1]
    assert published("ablation", data) == expected
    assert fixed not in {method for method, _ in published("ablation", data)}  # a row of ours
    names = [RECIPES["ablation"].name_of(method) for method in methods]
    for name, word in zip(names, ("baseline", "sigmoid", "ξ", "CDF"), strict=True):
        assert word in name


def test_the_quality_of_pseudo_labels_is_as_printed():
    assert published("labels", "VOC") == {(OURS, "fspl"): 93.6, ("role", "fspl"): 89.8}


def test_every_published_number_has_its_row_in_the_recipe():
    ours = {
        "table2": {"an:unlabelled_images=ignore"},
        "ablation": {f"{OURS}:response=fixed:map=sigmoid:beta=1:gamma=0"},
    }
    for name in ("table1", "table2", "ablation", "labels"):
        blocks = RECIPES[name].blocks
        rows = {(m, s) for block in blocks for m in block.methods for s in block.settings}
        assert ours.get(name, set()) <= {method for method, _ in rows}
        rows = {row for row in rows if row[0] not in ours.get(name, ())}
        for data in DATA_SETS:
            assert set(published(name, data)) in (rows, set())


# --- recipes --------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", RECIPES)
def test_every_method_and_setting_of_a_recipe_can_be_trained(name):
    recipe = RECIPES[name]
    for block in recipe.blocks:
        for method in block.methods:
            plain, changes = options_of(method)
            assert plain in METHODS
            find_method(plain).options(changes)
        for setting in block.settings:
            assert str(Setting.parse(setting)) == setting  # rows are found again by this text
    methods = {method for block in recipe.blocks for method in block.methods}
    assert set(recipe.names) <= methods
    assert bool(recipe.blocks) == (name != "parameters")


def read_options(method):
    plain, changes = options_of(method)
    return find_method(plain).options(changes).model_dump()


def test_rows_of_the_ablation_differ_by_one_switch():
    """From the second row on; the step from AN to it is of several things, and says so."""
    baseline, held, sigmoid, scheduled, cdf = RECIPES["ablation"].blocks[0].methods
    assert baseline == "an"
    assert {options_of(method)[0] for method in (held, sigmoid, scheduled, cdf)} == {"g2netpl"}

    def changed(before, after):
        first, second = read_options(before), read_options(after)
        return {key for key in first if first[key] != second[key]}

    assert changed(held, sigmoid) == {"response"}
    assert read_options(held)["response"] == "fixed"
    assert changed(sigmoid, scheduled) == {"beta", "gamma"}  # ξ as a whole
    assert changed(scheduled, cdf) == {"map"}
    assert read_options(cdf) == read_options("g2netpl")
    assert read_options(cdf)["map"] == "cdf"
    assert read_options(sigmoid)["map"] == read_options(scheduled)["map"] == "sigmoid"


# --- finding them ---------------------------------------------------------------------------------


def test_all_begins_with_those_that_watch_pseudo_labels():
    """They keep more of a run, which the others then share."""
    found = list(find_recipes("all"))
    assert sorted(found) == sorted(RECIPES)
    assert set(found[:2]) == {"convergence", "labels"}


def test_a_misspelt_recipe_gets_a_hint():
    with pytest.raises(InputError, match=r"unknown recipe 'tabel1' \(did you mean 'table1'"):
        find_recipes("tabel1")


def names(count, *special):
    return (*special, *(f"c{number}" for number in range(count - len(special))))


@pytest.mark.parametrize(
    ("classes", "expected"),
    [
        (names(20, "aeroplane"), "VOC"),
        (names(80, "toothbrush"), "COCO"),
        (names(81, "zebra"), "NUS-WIDE"),
        (names(80, "zebra", "toothbrush"), "COCO"),
        (names(19, "aeroplane"), None),
    ],
)
def test_a_data_set_is_known_by_its_classes(classes, expected):
    assert data_set_of(classes) == expected
    assert data_set_of(classes[::-1]) == expected
