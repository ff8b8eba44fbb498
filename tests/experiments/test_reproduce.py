"""`g2netpl reproduce` on features: its files hold what the trainings gave, and only that."""

import csv
import html
import io
import json
import re
import shutil
from base64 import b64decode
from pathlib import Path

import numpy as np
import pytest
from feature_folders import write_folder
from PIL import Image
from scipy.stats import norm

from g2netpl.cli import main
from g2netpl.experiments.paper import OURS, RECIPES, published
from g2netpl.reports import figures
from g2netpl.reports.reproduction import against_role, steps

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
    for name in (*TRAINED, "parameters"):
        expected |= {f"figure-{name}.csv", f"figure-{name}.png"}
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
        assert {line[c] != "" for c in ("undecided %", "pseudo-label mAP")} == {soft}
        if soft:
            values = [100 * cell["undecided"] for cell in own]
            assert float(line["undecided %"]) == pytest.approx(np.mean(values), abs=0.0051)
        rates = dict.fromkeys(f"rate {cell['learning_rate']:g}, batch 64" for cell in own)
        assert line["chosen"].split(" or ") == list(rates)
        assert line["published"] == ""


def test_rows_of_the_ablation_are_called_as_in_the_documents(whole):
    """So that both tables can be joined."""
    documents = Path(__file__).parents[2] / "docs/figures"
    files = {"ablation": "coco-ablation-rows", "figure-ablation": "coco-ablation"}
    for name, file in files.items():
        ours, theirs = csv_of(whole / f"{name}.csv"), csv_of(documents / f"{file}.csv")
        for key in ("row", "setting", "method"):
            assert [line.get(key) for line in ours] == [line.get(key) for line in theirs]


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


def test_the_figures_of_tables_show_the_tables(whole):
    for name, first in (("table1", "row"), ("ablation", "row")):
        table, figure = csv_of(whole / f"{name}.csv"), csv_of(whole / f"figure-{name}.csv")
        assert [(f[first], f["setting"], f["mAP"], f["deviation"]) for f in figure] == [
            (t["row"], t["setting"], t["best epoch"], t["± best"]) for t in table
        ]
    for name in ("table2", "semi-supervised"):
        table, figure = csv_of(whole / f"{name}.csv"), csv_of(whole / f"figure-{name}.csv")
        partial = [line for line in table if line["setting"].startswith("sspl:")]
        assert [(f["method"], f"sspl:{f['labelled fraction']}", f["mAP"]) for f in figure] == [
            (t["method"], t["setting"], t["best epoch"]) for t in partial
        ]
        assert len(partial) == {"table2": 32, "semi-supervised": 8}[name]


def test_the_figure_of_convergence_shows_the_chosen_cells(whole):
    own = chosen(cells_of(whole), OURS, "fspl")
    expected = []
    for cell in own:
        for epoch, record in enumerate(cell["movement"], start=1):
            for truth in ("positive", "negative"):
                for what, name in (("pseudo-label", truth), ("prediction", f"predicted_{truth}")):
                    quartiles = [float(f"{value:.6f}") for value in record[name]]
                    expected.append((cell["seed"], epoch, what, truth, *quartiles))
    lines = [list(line.values()) for line in csv_of(whole / "figure-convergence.csv")]
    found = [(int(line[0]), int(line[1]), *line[2:4], *map(float, line[4:])) for line in lines]
    assert found == expected
    assert len(found) == 2 * 2 * 4  # seeds, epochs, kinds


def test_the_figure_of_labels_shows_the_chosen_cells(whole):
    expected = [
        (cell["method"], cell["seed"], epoch, record["pseudo_label_map"], record["predicted_map"])
        for method in (OURS, "role")
        for cell in chosen(cells_of(whole), method, "fspl")
        for epoch, record in enumerate(cell["movement"], start=1)
    ]
    lines = [list(line.values()) for line in csv_of(whole / "figure-labels.csv")]
    assert len(lines) == len(expected) == 2 * 2 * 2
    found = {(line[0], int(line[1]), int(line[2])): line[3:] for line in lines}
    for *where, soft, predicted in expected:
        assert [float(text) for text in found[tuple(where)]] == pytest.approx(
            [100 * soft, 100 * predicted], abs=0.00051
        )


def test_pictures_can_be_seen(whole):
    embedded = re.findall(r'src="data:image/png;base64,([^"]*)"', page_of(whole))
    pictures = sorted(whole.glob("*.png"))
    assert len(embedded) == len(pictures) == 7
    assert {b64decode(text) for text in embedded} == {path.read_bytes() for path in pictures}
    for path in pictures:
        with Image.open(io.BytesIO(path.read_bytes())) as image:
            image.load()
            assert image.format == "PNG"
            assert len(image.convert("RGB").getcolors(1 << 24)) > 50
            assert 800 <= image.width <= 2400
            assert 300 <= image.height <= 2400
            grey = np.asarray(image.convert("L"))
        assert (grey == 255).mean() > 0.5  # white paper
        assert (grey < 200).mean() > 0.005  # with ink on it


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
    rows = re.findall(
        r'<tr><th scope="row">([^<]*)</th><td>([^<]*)</td><td>([^<]*)</td></tr>', page_of(whole)
    )
    here = {name: html.unescape(ours) for name, _, ours in rows}
    assert "features: 100 images" in here["data"]
    assert "3 classes" in here["data"]
    assert "; 40 test images" in here["data"]
    assert here["seeds"] == "0, 1"
    assert "learning rate 0.1, 0.01, batch 64" in here["optimizer"]
    assert "2 epochs" in here["training"]
    assert "linear classifier" in here["training"]
    assert here["backbone"] == "frozen features as given"
    theirs = {name: text for name, text, _ in rows}
    assert "10 epochs" in theirs["training"]
    assert set(theirs) == {
        "backbone",
        "images",
        "training",
        "optimizer",
        "chosen on",
        "data",
        "positives per image",
        "classes",
        "seeds",
    }
    assert theirs["classes"] == "a sigmoid for each"
    assert f"also in {OURS}; g2netpl itself" in here["classes"]
    assert re.fullmatch(r"k = \d\.\d\d, the truth's mean", here["positives per image"])


def test_the_highest_of_a_column_is_bold(whole):
    tables = re.findall(r"<table>(.*?)</table>", page_of(whole), flags=re.S)
    assert len(tables) == len(TRAINED)
    for name, table in zip([name for name in RECIPES if name in TRAINED], tables, strict=True):
        lines = csv_of(whole / f"{name}.csv")
        column = "pseudo-label mAP" if name == "labels" else "best epoch"
        figures = {}
        for line in lines:
            figures.setdefault(line["setting"], []).append(float(line[column]))
        highest = {setting: max(own) for setting, own in figures.items() if len(own) > 1}
        settings = re.findall(r'<th scope="col">([^<]*)</th>', table)[1:]
        bold = []
        for row in re.findall(r"<tr.*?</tr>", table, flags=re.S)[1:]:
            cells = re.findall(r"<td(.*?)>(.*?)</td>", row, flags=re.S)
            for setting, (kind, content) in zip(settings, cells, strict=True):
                if "highest" in kind:
                    bold.append((setting, float(re.match(r"[\d.]+", content)[0])))
        assert len(bold) == len(highest)
        assert dict(bold) == pytest.approx(highest, abs=0.051)


@pytest.mark.parametrize(
    ("note", "shown"),
    [
        ('{"backbone": "lite0", "size": 320}', "lite0 at 320 px, frozen"),
        ("{ broken", "frozen features as given"),
    ],
)
def test_features_may_say_how_they_were_made(features, tmp_path, note, shown):
    shutil.copytree(features, tmp_path / "f")
    (tmp_path / "f" / "run.json").write_text(note)
    assert reproduce(tmp_path / "f", tmp_path / "out", "parameters") == 0
    assert shown in words_of(tmp_path / "out")


def test_without_data_of_the_paper_no_number_of_it_is_shown(whole):
    shown = words_of(whole)
    assert "The paper has no results on this data" in shown
    assert "published for" not in shown
    assert not re.search(r"published [+\d-]", shown)


def test_published_numbers_stand_beside_ours(whole, copied, features):
    run = json.loads((copied / "run.json").read_text())
    (copied / "run.json").write_text(json.dumps(run | {"published": "COCO"}))  # nothing is trained
    out = copied
    assert reproduce(features, out, "all", "--published", "COCO") == 0
    shown = words_of(out)
    assert "published for COCO" in shown
    assert "The paper has no results on this data" not in shown
    for name in TRAINED:
        known = published(name, "COCO")
        for line in csv_of(out / f"{name}.csv"):
            text = line["published"]
            expected = known.get((line["method"], line["setting"]), "")
            assert (float(text) if text else "") == expected
            assert not text or f"published {expected:.1f}" in shown
    assert [(line["method"], line["published"]) for line in csv_of(out / "table1.csv")[-2:]] == [
        ("g2netpl-paper", "72.4"),
        (OURS, "72.4"),
    ]
    assert f"g2netpl-paper is the literal reading of the paper's words, {OURS} the same" in shown
    assert [line["published"] for line in csv_of(out / "figure-ablation.csv")] == [
        "56.6",
        "",
        "62.4",
        "64.4",
        "65.0",
        "67.3",
        "",
        "71.1",
        "71.4",
        "72.7",
    ]
    # steps: 64.4 − 62.4 and 72.7 − 71.4
    assert "+ ξ, weights by confidence" in shown
    assert "(published +2.0)" in shown
    assert "(published +1.3)" in shown
    # 62.4 − 56.6 is the step over the row that the paper does not have
    first = re.escape("sspl:0.2: G²NetPL with F = sigmoid, from baseline (AN): ")
    assert re.search(first + r"[-+.±\d ]* \(published \+5\.8\)", shown)
    assert shown.count("(published ") == 2 * 3
    # nothing but the published numbers differs
    for name in TRAINED:
        for ours, theirs in zip(
            csv_of(out / f"{name}.csv"), csv_of(whole / f"{name}.csv"), strict=True
        ):
            assert ours | {"published": ""} == theirs


def test_what_cannot_be_trained_is_left_out_with_its_reason(whole, features, tmp_path, capsys):
    assert "fixmatch is left out: it compares two augmentations of images" in words_of(whole)
    assert "fixmatch" not in {cell["method"] for cell in cells_of(whole)}
    assert reproduce(features, tmp_path / "out", "semi-supervised", "--epochs", "1") == 0
    assert "semi-supervised: fixmatch is left out" in capsys.readouterr().out
    assert reproduce(features, tmp_path / "p", "parameters") == 0
    assert "left out" not in words_of(tmp_path / "p")


def test_the_page_loads_nothing(whole):
    page = page_of(whole)
    assert "<script" not in page
    assert "<link" not in page
    assert "@import" not in page
    without = re.sub(r"data:image/png;base64,[A-Za-z0-9+/=]*", "", page)
    assert not re.search(r"https?:|//[a-z]|url\(", without)
    assert re.findall(r'(?:src|href)="([^"]*)"', without) == [""] * 7
    assert page.startswith("<!doctype html>")
    assert page.count("<table") == page.count("</table>") == 1 + len(TRAINED)


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
    assert page.count("</style>") == 1
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
    one = [row for row in ablation_rows(scores) if row["seed"] == 1]
    known = published("ablation", "NUS-WIDE")
    # published: AN 46.8, sigmoid 49.9, ξ 50.4; nothing for the row in between
    assert steps(recipe, one, known)[5:9] == [
        f"fspl: {first}: +0.00",
        "fspl: G²NetPL with F = sigmoid: +2.00",
        "fspl: G²NetPL with F = sigmoid, from baseline (AN): +2.00 (published +3.1)",
        "fspl: + ξ, weights by confidence: +0.00 (published +0.5)",
    ]


def test_role_at_fspl_is_held_against_ours():
    rows = [{"method": "role", "setting": "fspl", "test_map": score} for score in (0.6, 0.64)]
    rows += [{"method": OURS, "setting": "sspl:0.6", "test_map": s} for s in (0.60, 0.61)]
    rows += [{"method": OURS, "setting": "sspl:0.8", "test_map": s} for s in (0.65, 0.65)]
    assert against_role(rows) == [
        f"{OURS} at sspl:0.6 60.5, role at fspl 62.0: -1.5",
        f"{OURS} at sspl:0.8 65.0, role at fspl 62.0: +3.0",
    ]
    assert against_role(rows[2:]) == []


def test_densities_are_those_of_scipy():
    lines = [line for line in figures.parameter_lines(0.8, 0.3) if line[0] == "density"]
    assert {line[1] for line in lines} == {0.5, 1.0, 2.0}
    for _, sigma, x, y in lines:
        assert y == pytest.approx(norm.pdf(x, 0.5, sigma), abs=2e-6)
    places = [line[2] for line in lines if line[1] == 1.0]
    assert (places[0], places[-1], len(places)) == (-2.0, 3.0, 101)
    peaks = {sigma: max(line[3] for line in lines if line[1] == sigma) for sigma in (0.5, 1.0)}
    assert peaks == pytest.approx({0.5: 0.797885, 1.0: 0.398942}, abs=1e-6)


def test_the_scheduler_is_that_of_the_paper():
    """ξ = β(1 − d)/(1 + d) + (1 − β)φ with d = γe^(−10|2û − 1|), worked out by hand."""
    found = {
        (line[1], line[2]): line[3]
        for line in figures.parameter_lines(0.8, 0.3)
        if line[0] == "scheduler"
    }
    assert {phase for phase, _ in found} == {0.0, 0.5, 1.0}
    assert len(found) == 3 * 101
    # û = ½: d = 0.3, 0.8 · 0.7/1.3 = 0.430769; û = 0 or 1: d = 0.3e^−10 = 1.362e-5
    assert found[0.0, 0.5] == pytest.approx(0.430769, abs=1e-6)
    assert found[0.5, 0.5] == pytest.approx(0.530769, abs=1e-6)
    assert found[1.0, 0.5] == pytest.approx(0.630769, abs=1e-6)
    for soft in (0.0, 1.0):
        assert found[0.0, soft] == pytest.approx(0.799978, abs=1e-6)
        assert found[1.0, soft] == pytest.approx(0.999978, abs=1e-6)
    # û = 0.6: d = 0.3e^−2 = 0.0406006, 0.8 · 0.9593994/1.0406006 + 0.1 = 0.837574
    assert found[0.5, 0.6] == pytest.approx(0.837574, abs=1e-6)
    assert found[0.5, 0.4] == found[0.5, 0.6]


# --- a dry run ------------------------------------------------------------------------------------


def test_a_dry_run_lists_every_cell_once_and_writes_nothing(features, whole, tmp_path, capsys):
    capsys.readouterr()
    assert reproduce(features, tmp_path / "out", "all", "--dry-run") == 0
    assert not (tmp_path / "out").exists()
    left_out, *lines, last = capsys.readouterr().out.strip().splitlines()
    assert left_out.startswith("semi-supervised: fixmatch is left out")
    expected = {
        "{} {} seed {} lr {:g} batch {}: ".format(*key(cell))
        + ("2 rounds of 2 epochs" if cell["method"] == "ups" else "2 epochs")
        for cell in cells_of(whole)
    }
    assert len(lines) == len(set(lines)) == len(expected)
    assert set(lines) == expected
    assert last == "208 trainings"
