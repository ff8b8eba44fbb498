"""`g2netpl reproduce` on features: its files hold the results of the runs, and nothing else."""

import csv
import html
import json
import re
import shutil

import numpy as np
import pytest
from feature_folders import write_folder
from scipy.stats import norm

from g2netpl.cli import main
from g2netpl.experiments.paper import OURS, RECIPES, published
from g2netpl.reports.reproduction import steps

FIGURES = ("convergence", "semi-supervised", "parameters", "labels")
TRAINED = ("table1", "table2", "ablation", "convergence", "semi-supervised", "labels")


@pytest.fixture(scope="module")
def features(tmp_path_factory):
    return write_folder(tmp_path_factory.mktemp("data") / "features")


def reproduce(features, output, what, *more):
    data = ["--data", str(features), "--output", str(output), "--jobs", "1"]
    fixed = ["--seeds", "0,1", "--epochs", "2", "--learning-rates", "1e-1,1e-2"]
    return main(["reproduce", what, *data, *fixed, *more])


@pytest.fixture(scope="module")
def whole(features, tmp_path_factory):
    """Everything, once; tests that change it take a copy."""
    folder = tmp_path_factory.mktemp("whole") / "out"
    assert reproduce(features, folder, "all") == 0
    return folder


@pytest.fixture
def copied(whole, tmp_path):
    shutil.copytree(whole, tmp_path / "out")
    return tmp_path / "out"


def cells_of(folder):
    return [json.loads(line) for line in (folder / "cells.jsonl").read_text().splitlines()]


def key(cell):
    names = ("method", "setting", "seed", "learning_rate", "batch_size", "weight")
    return tuple(cell[name] for name in names)


def csv_of(path):
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def texts(folder):
    """The figures in CSV, which do not depend on the clock."""
    return {path.name: path.read_text(encoding="utf-8") for path in sorted(folder.glob("*.csv"))}


def page_of(folder):
    return (folder / "index.html").read_text(encoding="utf-8")


def words_of(folder):
    """The page as a person reads it, in one line."""
    return html.unescape(re.sub(r"\s+", " ", re.sub(r"<[^>]*>", " ", page_of(folder))))


def chosen(cells, method, setting):
    """The best cell of each seed on validation, as a plain loop finds it."""
    best = {}
    for cell in cells:
        if (cell["method"], cell["setting"]) == (method, setting):
            seed = cell["seed"]
            if seed not in best or cell["validation_map"] > best[seed]["validation_map"]:
                best[seed] = cell
    return [best[seed] for seed in sorted(best)]


# --- what is written ------------------------------------------------------------------------------


def test_every_table_and_figure_is_there(whole):
    expected = {"index.html", "run.json", "cells.jsonl"}
    expected |= {f"{name}.csv" for name in TRAINED}
    expected |= {f"figure-{name}-1.csv" for name in FIGURES}
    expected |= {f"figure-{name}-2.csv" for name in ("convergence", "parameters")}
    assert {path.name for path in whole.iterdir()} == expected


def test_each_cell_is_trained_once(whole):
    """Table 1, SSPL of table 2, three rows of the ablation in two settings, UPS; the rest share."""
    keys = [key(cell) for cell in cells_of(whole)]
    assert len(keys) == len(set(keys)) == (10 + 8 * 4 + 3 * 2 + 4) * 2 * 2


@pytest.mark.parametrize("name", TRAINED)
def test_a_table_has_mean_and_deviation_of_the_chosen_cells(whole, name):
    cells, lines = cells_of(whole), csv_of(whole / f"{name}.csv")
    blocks = RECIPES[name].blocks
    rows = [(m, s) for block in blocks for s in block.settings for m in block.methods]
    assert sorted((line["method"], line["setting"]) for line in lines) == sorted(
        row for row in rows if row[0] != "fixmatch"
    )
    for line in lines:
        own = chosen(cells, line["method"], line["setting"])
        assert line["seeds"] == "2" == str(len(own))
        assert line["row"] == RECIPES[name].name_of(line["method"])
        soft = own[0]["pseudo_label_map"] is not None
        columns = {
            "best epoch": ("± best", "test_map"),
            "last epoch": ("± last", "last_test_map"),
        }
        if soft:
            columns["pseudo-label mAP"] = ("± pseudo-label mAP", "pseudo_label_map")
        for mean, (deviation, figure) in columns.items():
            values = [100 * cell[figure] for cell in own]
            assert float(line[mean]) == pytest.approx(np.mean(values), abs=0.0051)
            assert float(line[deviation]) == pytest.approx(np.std(values, ddof=1), abs=0.0051)
        assert {line[c] != "" for c in ("unresolved %", "pseudo-label mAP")} == {soft}
        if soft:
            values = [100 * cell["unresolved"] for cell in own]
            assert float(line["unresolved %"]) == pytest.approx(np.mean(values), abs=0.0051)
        rates = dict.fromkeys(f"rate {cell['learning_rate']:g}, batch 64" for cell in own)
        assert line["chosen"].split(" or ") == list(rates)
        assert line["published"] == ""


def test_the_choice_is_one(whole):
    """Else the test above could not tell the best cell from the first."""
    cells = cells_of(whole)
    rates = {
        cell["learning_rate"]
        for line in csv_of(whole / "table2.csv")
        for cell in chosen(cells, line["method"], line["setting"])
    }
    assert rates == {0.1, 0.01}
    best, last = ([c[k] for c in cells] for k in ("test_map", "last_test_map"))
    assert best != last


def test_the_figures_of_convergence_show_the_chosen_cells(whole):
    first, _ = chosen(cells_of(whole), OURS, "fspl")
    for number, prefix in ((1, ""), (2, "predicted_")):
        lines = csv_of(whole / f"figure-convergence-{number}.csv")
        assert [line["epoch"] for line in lines] == ["1", "2"]
        for line, record in zip(lines, first["movement"], strict=True):
            for truth in ("positive", "negative"):
                median = record[prefix + truth][1]
                assert float(line[f"hidden {truth}s"]) == pytest.approx(median, rel=1e-3)


def test_figures_can_be_seen(whole):
    assert page_of(whole).count("<figure>") == len(list(whole.glob("figure-*.csv"))) == 6


# --- the page -------------------------------------------------------------------------------------


def test_the_page_shows_the_tables(whole):
    shown = words_of(whole)
    for name in TRAINED:
        assert RECIPES[name].title in shown
        for line in csv_of(whole / f"{name}.csv"):
            names = ("best epoch", "± best")
            if name == "labels":
                names = ("pseudo-label mAP", "± pseudo-label mAP")
            mean, deviation = (float(line[column]) for column in names)
            assert f"{mean:.1f} ± {deviation:.1f}" in shown
            assert line["chosen"] in shown
    assert RECIPES["parameters"].title in shown


def test_the_page_tells_what_differs(whole):
    row = r'<tr><th scope="row">([^<]*)</th><td>([^<]*)</td><td>([^<]*)</td></tr>'
    rows = re.findall(row, page_of(whole).partition("What differs")[2])
    here = {name: html.unescape(ours) for name, _, ours in rows}
    assert len(here) == 9
    assert "features: 100 images (a fifth held out), 3 classes" in here["data"]
    assert here["seeds"] == "0, 1"
    assert "learning rate 0.1, 0.01, batch 64" in here["optimizer"]
    assert "frozen features, 2 epochs; linear classifier" in here["training"]
    assert here["backbone"] == "frozen features as given"
    assert re.fullmatch(r"k = \d\.\d\d, the truth's mean", here["positives per image"])
    shown = words_of(whole)
    assert "fixmatch is left out: it compares two augmentations of images" in shown
    assert "The paper has no results on this data" in shown
    assert not re.search(r"published [+\d-]|published for", shown)


def test_published_numbers_are_next_to_ours(whole, copied, features, monkeypatch):
    monkeypatch.setattr("g2netpl.commands.reproduce.data_set_of", lambda classes: "COCO")
    assert reproduce(features, copied, "all") == 0
    shown = words_of(copied)
    assert "published for COCO" in shown
    assert "The paper has no results on this data" not in shown
    for name in TRAINED:
        known = published(name, "COCO")
        for line, before in zip(
            csv_of(copied / f"{name}.csv"), csv_of(whole / f"{name}.csv"), strict=True
        ):
            expected = known.get((line["method"], line["setting"]), "")
            assert line["published"] == str(expected)
            assert not expected or f"published {expected:.1f}" in shown
            assert line | {"published": ""} == before
    # steps: 64.4 − 62.4 and 72.7 − 71.4, and 62.4 − 56.6 over the row that the paper does not have
    for step in ("+2.0", "+1.3", "+5.8"):
        assert f"(published {step})" in shown


def test_names_are_escaped(tmp_path):
    hostile = '<img src=x onerror="alert(1)">'
    folder = tmp_path / f"{hostile} & {{{{ 7 * 7 }}}}"
    write_folder(folder, (hostile, "</style><script>alert(2)</script>", "{{ 3 }}"))
    run = {"backbone": "<b>fat</b>", "size": "<i>"}
    (folder / "run.json").write_text(json.dumps(run))
    assert reproduce(folder, tmp_path / "out", "convergence", "--seeds", "0") == 0
    page = page_of(tmp_path / "out")
    assert "<img src=x" not in page
    assert "<script" not in page
    assert "<b>" not in page
    assert "<i>" not in page
    assert "</style><script" not in page
    assert html.escape(hostile) in page.replace("&#34;", "&quot;")
    assert "{{ 7 * 7 }}" in page


# --- by hand --------------------------------------------------------------------------------------


def ablation_rows(scores):
    """Rows with (setting, method) → test mAP of seeds 0, 1, 2."""
    return [
        {"method": method, "setting": setting, "seed": seed, "test_map": score}
        for (setting, method), values in scores.items()
        for seed, score in enumerate(values)
    ]


def test_steps_are_differences_of_the_same_seed():
    recipe = RECIPES["ablation"]
    an, held, sigmoid, scheduled, cdf = recipe.blocks[0].methods
    scores = {("fspl", an): (0.50, 0.60, 0.70), ("fspl", held): (0.51, 0.60, 0.71)}
    scores["fspl", sigmoid] = (0.51, 0.62, 0.73)
    scores |= {("fspl", scheduled): (0.51, 0.62, 0.73), ("fspl", cdf): (0.50, 0.64, 0.72)}
    scores |= {("sspl:0.2", m): v for (_, m), v in list(scores.items())}
    scores["sspl:0.2", cdf] = (0.41, 0.52, 0.63)
    notes = steps(recipe, ablation_rows(scores), {("fspl", "nothing"): 1.0})
    # +1, 0, +1: mean 2/3, deviation √(1/3) = 0.58; 0, +2, +2: mean 4/3, deviation √(4/3) = 1.15;
    # −1, +2, −1: mean 0, deviation √3 = 1.73; −10 each
    first = "weights and R, pseudo-labels fixed at ½"
    assert notes == [
        f"sspl:0.2: {first}: +0.67 ± 0.58",
        "sspl:0.2: G²NetPL with F = sigmoid: +1.33 ± 1.15",
        "sspl:0.2: + ξ, weights by confidence: +0.00 ± 0.00",
        "sspl:0.2: + F = CDF of a Gaussian: -10.00 ± 0.00",
        f"fspl: {first}: +0.67 ± 0.58",
        "fspl: G²NetPL with F = sigmoid: +1.33 ± 1.15",
        "fspl: + ξ, weights by confidence: +0.00 ± 0.00",
        "fspl: + F = CDF of a Gaussian: +0.00 ± 1.73",
    ]


def test_densities_are_those_of_scipy(whole):
    lines = csv_of(whole / "figure-parameters-1.csv")
    assert (lines[0]["latent y"], lines[-1]["latent y"], len(lines)) == ("-2", "3", 101)
    for line in lines:
        for sigma in (0.5, 1, 2):
            density = norm.pdf(float(line["latent y"]), 0.5, sigma)
            assert float(line[f"σ = {sigma}"]) == pytest.approx(density, rel=2e-3)


def test_the_scheduler_is_that_of_the_paper(whole):
    """ξ = β(1 − d)/(1 + d) + (1 − β)φ with d = γe^(−10|2û − 1|), worked out by hand."""
    found = {
        (phase, float(line["pseudo-label û"])): float(line[f"φ = {phase}"])
        for line in csv_of(whole / "figure-parameters-2.csv")
        for phase in (0, 0.5, 1)
    }
    assert len(found) == 3 * 101
    # û = ½: d = 0.3, 0.8 · 0.7/1.3 = 0.430769; û = 0 or 1: d = 0.3e^−10 = 1.362e-5
    assert found[0, 0.5] == pytest.approx(0.430769, abs=1e-4)
    assert found[0.5, 0.5] == pytest.approx(0.530769, abs=1e-4)
    assert found[1, 0.5] == pytest.approx(0.630769, abs=1e-4)
    for soft in (0.0, 1.0):
        assert found[0, soft] == pytest.approx(0.799978, abs=1e-4)
        assert found[1, soft] == pytest.approx(0.999978, abs=1e-4)
    # û = 0.6: d = 0.3e^−2 = 0.0406006, 0.8 · 0.9593994/1.0406006 + 0.1 = 0.837574
    assert found[0.5, 0.6] == pytest.approx(0.837574, abs=1e-4)
    assert found[0.5, 0.4] == found[0.5, 0.6]


# --- a dry run ------------------------------------------------------------------------------------


def test_a_dry_run_lists_every_cell_once_and_writes_nothing(features, whole, tmp_path, capsys):
    capsys.readouterr()
    assert reproduce(features, tmp_path / "out", "all", "--dry-run") == 0
    assert not (tmp_path / "out").exists()
    left_out, *lines, last = capsys.readouterr().out.strip().splitlines()
    assert left_out.startswith("semi-supervised: fixmatch is left out")
    expected = {
        "{} {} seed {} lr {} batch {}: frozen features, 2 epochs".format(*key(cell))
        for cell in cells_of(whole)
    }
    assert len(lines) == len(set(lines)) == len(expected)
    assert set(lines) == expected
    assert last == "208 runs"


# --- resuming -------------------------------------------------------------------------------------

WHAT, CELLS = "labels", 2 * 2 * 2  # methods, seeds, learning rates


@pytest.fixture(scope="module")
def labels(features, tmp_path_factory):
    folder = tmp_path_factory.mktemp("labels") / "out"
    assert reproduce(features, folder, WHAT) == 0
    return folder


@pytest.fixture
def again(labels, tmp_path):
    shutil.copytree(labels, tmp_path / "again")
    return tmp_path / "again"


def test_the_same_command_trains_nothing_again(features, labels, again, trained):
    before = (again / "cells.jsonl").read_bytes()
    for path in (*again.glob("*.csv"), again / "index.html"):
        path.unlink()
    assert reproduce(features, again, WHAT) == 0
    assert trained == []
    assert (again / "cells.jsonl").read_bytes() == before
    assert texts(again) == texts(labels)
    assert page_of(again) == page_of(labels)


def test_an_interrupted_reproduction_resumes(features, labels, tmp_path, trained):
    folder = tmp_path / "out"
    trained.stop_after = 1
    assert reproduce(features, folder, WHAT) == 130
    assert len(cells_of(folder)) == 1
    trained.clear()
    trained.stop_after = None
    assert reproduce(features, folder, WHAT) == 0
    assert len(trained) == CELLS - 1
    assert texts(folder) == texts(labels)


def test_seeds_may_be_added_and_nothing_else(features, again, trained, capsys):
    assert reproduce(features, again, WHAT, "--seeds", "0,1,4") == 0
    assert len(trained) == CELLS // 2  # those of the new seed
    assert {line["seeds"] for line in csv_of(again / f"{WHAT}.csv")} == {"3"}
    more = ["--seeds", "0,1,4"]
    for what, flags, name in (
        (WHAT, ["--seeds", "4,0,1"], "seeds"),
        (WHAT, [*more, "--epochs", "3"], "epochs"),
        (WHAT, [*more, "--choose-once"], "choose once"),
        ("table1", more, "what"),
    ):
        assert reproduce(features, again, what, *flags) == 2
        assert f"was started with other {name}" in capsys.readouterr().err


# --- mistakes -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["tabel1"], "unknown recipe 'tabel1' (did you mean 'table1'?)"),
        (["table1", "--seeds", "x"], "--seeds: expected a comma-separated list of ints"),
        (["table1", "--set", "expected_positives=4"], "4 per image, but there are only 3 classes"),
        (["table1", "--mode", "linear"], "mode: only for images"),
    ],
)
def test_a_mistake_is_one_line(features, tmp_path, trained, capsys, arguments, expected):
    assert reproduce(features, tmp_path / "out", *arguments) == 2
    shown = capsys.readouterr().err
    assert len(shown.strip().splitlines()) == 1
    assert expected in shown
    assert not (tmp_path / "out").exists()
    assert trained == []


def test_unknown_labels_are_found_before_anything_is_written(tmp_path, trained, capsys):
    folder = write_folder(tmp_path / "partial", unknown=30)
    assert reproduce(folder, tmp_path / "out", "convergence") == 2
    assert "'truth' needs a file with full labels" in capsys.readouterr().err
    more = ["--set", "expected_positives=1.2"]
    assert reproduce(folder, tmp_path / "out", "table1", *more) == 2
    assert "setting full: every label must be known" in capsys.readouterr().err
    assert (trained, (tmp_path / "out").exists()) == ([], False)
    assert reproduce(folder, tmp_path / "out", "convergence", *more) == 0  # no full labels needed
