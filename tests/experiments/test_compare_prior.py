"""Class names in comparisons: on by default, said in every table, and never in `reproduce`."""

import csv
import json

import pytest
from feature_folders import write_folder

from g2netpl.cli import main
from g2netpl.experiments.sweep import read_cells
from g2netpl.reports.tables import shown_method

CLASSES = ("dog", "cat", "zzyzx")


@pytest.fixture(scope="module")
def named(tmp_path_factory):
    folder = tmp_path_factory.mktemp("named")
    return write_folder(folder, CLASSES, with_classifier=True)


@pytest.fixture(scope="module")
def plain(named, tmp_path_factory):
    """The same without the classifier."""
    folder = tmp_path_factory.mktemp("plain")
    for name in ("train.npz", "test.npz", "meta.npz"):
        (folder / name).write_bytes((named / name).read_bytes())
    return folder


def results(folder):
    """Without times."""
    return [row | {"seconds": 0} for row in json.loads((folder / "results.json").read_text())]


def compare(features, output, *more):
    flags = ["--methods", "an,g2netpl", "--settings", "sspl:0.5", "--epochs", "2", "--jobs", "1"]
    flags += ["--learning-rates", "1e-2", "--seeds", "0"]
    return main(["compare", "--features", str(features), "--output", str(output), *flags, *more])


def test_names_are_used_and_every_table_says_so(named, plain, tmp_path, capsys):
    assert compare(named, tmp_path / "names") == 0
    out = capsys.readouterr().out
    assert "prior: names (2 of 3 class names known to the backbone: dog" in out
    assert "an +names" in out
    assert "g2netpl +names" in out
    with open(tmp_path / "names" / "results.csv", newline="") as file:
        assert [row["method"] for row in csv.DictReader(file)] == ["an +names", "g2netpl +names"]
    assert "g2netpl +names" in (tmp_path / "names" / "report.html").read_text()
    assert compare(named, tmp_path / "none", "--prior", "none") == 0
    assert "names" not in capsys.readouterr().out.replace(str(tmp_path), "")
    assert compare(plain, tmp_path / "plain") == 0
    assert results(tmp_path / "none") == results(tmp_path / "plain")
    with_names = {row["test_map"] for row in results(tmp_path / "names")}
    assert not with_names & {row["test_map"] for row in results(tmp_path / "none")}


def test_one_method_with_and_without_names(named, tmp_path):
    more = ["--methods", "an,an:prior=none"]
    assert compare(named, tmp_path / "out", *more) == 0
    rows = read_cells(tmp_path / "out" / "cells.jsonl")
    assert [shown_method(row["method"]) for row in rows] == ["an +names", "an:prior=none"]
    assert rows[0]["test_map"] != rows[1]["test_map"]
