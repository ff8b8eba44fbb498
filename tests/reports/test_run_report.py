"""The report page: its numbers against scikit-learn, its words against hostile names, its manners.

The page is read back with the standard library's HTML parser, as a browser would.
"""

import itertools
import json
import re
import shutil
from html.parser import HTMLParser

import numpy as np
import pytest
from feature_folders import write_folder
from PIL import Image
from scipy.stats import binomtest
from sklearn.calibration import calibration_curve
from sklearn.metrics import (
    average_precision_score,
    precision_recall_curve,
    precision_score,
    recall_score,
)

from g2netpl import RunConfig, read_labels, train
from g2netpl.base.errors import InputError
from g2netpl.cli import main
from g2netpl.labels.formats import csv_table
from g2netpl.labels.table import LabelTable
from g2netpl.reports.gallery import Opinions, make_shelves
from g2netpl.reports.page import percent, render
from g2netpl.reports.run import write_run_report
from g2netpl.reports.tables import grid
from g2netpl.runs.completion import Completed, complete
from g2netpl.runs.curves import Bin, calibration_error, precision_recall, reliability
from g2netpl.runs.tables import HeldOut, read_held_out, write_held_out

HOSTILE = (
    "<script>alert(1)</script>",
    "\"double\" & 'single'",
    "$\\frac{1}{$",
    "</style><img src=http://evil.example/x>",
    "_hidden",
    "{{ 7 * 7 }}",
    "日本語",
    "a, b",
    "seven",
    "zero",
)
HOSTILE_FILE = "<b onclick='x'>\"&.png"
SECTIONS = (
    "What was trained on what",
    "Results",
    "Classes",
    "Learning curves",
    "The two players",
    "Soft labels, epoch by epoch",
    "Reliability",
    "Precision and recall",
    "Labels to look at",
    "New positives, the surest first",
    "Most disputed",
    "Observed labels that the network doubts most",
)


class Page(HTMLParser):
    """Headings, tables, tags with their attributes, and all text of a page."""

    VOID = ("meta", "img", "br", "line", "use", "path", "rect")

    def __init__(self, text):
        super().__init__()
        self.source = text
        self.tags, self.headings, self.tables, self.text = [], [], {}, ""
        self._rows, self._caption, self._inside = [], "", []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag not in self.VOID:
            self._inside.append(tag)
        if tag == "table":
            self._rows, self._caption = [], ""
        elif tag == "tr":
            self._rows.append([])
        elif tag in ("td", "th"):
            self._rows[-1].append("")
        elif re.fullmatch("h[1-6]", tag):
            self.headings.append((int(tag[1]), ""))

    def handle_endtag(self, tag):
        if tag in self._inside:
            while self._inside.pop() != tag:
                pass
        if tag == "table":
            self.tables[self._caption] = self._rows

    def handle_data(self, data):
        if "style" in self._inside:
            return
        self.text += data
        if "caption" in self._inside:
            self._caption += data
        elif {"td", "th"} & set(self._inside):
            self._rows[-1][-1] += data
        elif self._inside and re.fullmatch("h[1-6]", self._inside[-1]):
            level, text = self.headings[-1]
            self.headings[-1] = (level, text + data)

    def attributes(self, tag):
        return [attrs for name, attrs in self.tags if name == tag]

    def sentences(self):
        return " ".join(self.text.split())

    def table(self, caption):
        """Header and rows of the table whose caption begins so."""
        (rows,) = [rows for name, rows in self.tables.items() if name.startswith(caption)]
        return rows[0], rows[1:]


def page_of(path):
    return Page(path.read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def hostile_photos(tmp_path_factory, scenes):
    """Photos and label files whose names are made to break a page."""
    folder = tmp_path_factory.mktemp("hostile")
    for images, labels, name in (
        (scenes.train_images, scenes.train, "train.csv"),
        (scenes.test_images, scenes.test, "test.csv"),
    ):
        names = [HOSTILE_FILE.replace(".png", f"{image}.png") for image in labels.images]
        for pixels, image in zip(images, names, strict=True):
            Image.fromarray(pixels).save(folder / image)
        csv_table.write(LabelTable(tuple(names), HOSTILE, labels.values), folder / name)
    return folder


def config_of(folder, output, **changes):
    values = {
        "labels": str(folder / "train.csv"),
        "images": str(folder),
        "only_listed": True,
        "test_labels": str(folder / "test.csv"),
        "output": str(output),
        "setting": "fspl",
        "backbone": "tiny",
        "image_size": 32,
        "epochs": 3,
        "batch_size": 16,
        "learning_rate": 3e-3,
        "workers": 0,
        "device": "cpu",
        "cache": str(output.parent / "cache"),
        "expected_positives": 2.3,
    }
    return RunConfig.read({**values, **changes}, "test")


@pytest.fixture(scope="module")
def run(hostile_photos, tmp_path_factory):
    return train(config_of(hostile_photos, tmp_path_factory.mktemp("runs") / "finished"))


@pytest.fixture(scope="module")
def page(run):
    return page_of(write_run_report(run.folder))


@pytest.fixture
def copied(run, tmp_path):
    """A copy of the run, to be damaged."""
    return shutil.copytree(run.folder, tmp_path / "copied")


@pytest.fixture(scope="module")
def judged(run, hostile_photos):
    """Calibrated predictions of the test photos, computed anew from the files, and their truth."""
    table = read_labels(hostile_photos / "test.csv")
    scores = run.predict([hostile_photos / name for name in table.images])
    return scores.astype(np.float64), table.values


def lines_of(path):
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def shown(value):
    """A number as the page has it."""
    return None if value == "–" else float(value.replace(",", ""))


def test_every_section_is_there_and_headings_are_in_order(page):
    assert [text for level, text in page.headings if level in (2, 3)] == list(SECTIONS)
    levels = [level for level, _ in page.headings]
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(after <= before + 1 for before, after in itertools.pairwise(levels))


def test_the_facts_are_those_of_the_run(page, run):
    text = page.sentences()
    assert "g2netpl on train.csv: 48 images, 10 classes" in text
    assert "tiny at 32 px, end-to-end" in text
    assert "k = 2.30 per image" in text
    assert f"{100 * run.result['test_map']:.1f} %" in text
    assert f"new positives those that it would fill in: {complete(run).how}. Under each" in text
    assert "is not known" not in text
    assert str(run.folder.parent) not in page.source  # whose folder it is stays at home


def test_the_table_of_classes_agrees_with_scikit_learn(page, run, judged):
    scores, truth = judged
    header, both = page.table("Each class")
    rows, why = both[::2], both[1::2]  # what a threshold rests on stands under the figures
    reasons = {row[0]: reason for row, (reason,) in zip(rows, why, strict=True)}
    assert [row[0] for row in rows] != list(HOSTILE)  # sorted by average precision
    found = {row[0]: dict(zip(header, row, strict=True)) for row in rows}
    assert set(found) == set(HOSTILE)
    ordered = [shown(row[1]) for row in rows]
    assert ordered == sorted(ordered, reverse=True)
    decided = scores >= run.thresholds.limits
    observed = run.observed().values
    for column, name in enumerate(HOSTILE):
        expected = {
            "test AP": 100 * average_precision_score(truth[:, column], scores[:, column]),
            "test positives": truth[:, column].sum(),
            "test recall": 100 * recall_score(truth[:, column], decided[:, column]),
            "threshold": run.thresholds.per_class[column],
            "known positives": (observed[:, column] == 1).sum(),
            "known negatives": (observed[:, column] == 0).sum(),
        }
        if decided[:, column].any():
            expected["test precision"] = 100 * precision_score(truth[:, column], decided[:, column])
        assert reasons[name] == run.thresholds.grounds[column]
        for key, value in expected.items():
            assert shown(found[name][key]) == pytest.approx(value, abs=0.051), (name, key)


def test_the_table_of_parts_agrees_with_scikit_learn(page, judged):
    scores, truth = judged
    header, rows = page.table("Results of each part")
    (test,) = [dict(zip(header, row, strict=True)) for row in rows if row[0] == "test"]
    macro = 100 * average_precision_score(truth, scores, average="macro")
    assert shown(test["mAP"]) == pytest.approx(macro, abs=0.051)
    assert test["images"] == "20"


def test_reliability_agrees_with_scikit_learn(page, judged):
    scores, truth = judged
    _, rows = page.table("Reliability of the calibrated scores")
    found = [[shown(cell) for cell in row[2:]] for row in rows if row[0] == "test"]
    share, mean = calibration_curve(truth.ravel(), scores.ravel(), n_bins=10)
    assert [row[0] for row in found] == pytest.approx(mean, abs=6e-4)
    assert [row[1] for row in found] == pytest.approx(share, abs=6e-4)
    assert sum(row[2] for row in found) == truth.size


def test_precision_and_recall_agree_with_scikit_learn(page, judged):
    scores, truth = judged
    _, rows = page.table("Precision and recall on test")
    assert len(rows) == 6
    for name, *cells in rows:
        column = HOSTILE.index(name)
        precision, recall, _ = precision_recall_curve(truth[:, column], scores[:, column])
        for level, cell in zip(np.linspace(0, 1, 11), cells, strict=True):
            best = precision[:-1][recall[:-1] >= level - 1e-9].max()  # its last point is made up
            assert shown(cell) == pytest.approx(best, abs=6e-4), (name, level)


def test_curves_are_the_history(page, run):
    history = lines_of(run.folder / "history.jsonl")
    for caption, key, scale in (
        ("Validation mAP", "validation_map", 100),
        ("Cost", "cost", 1),
        ("Regret of the labels", "regret", 1),
        ("Undecided labels", "undecided", 100),
        ("Gradient of the network", "gradient_norm", 1),
    ):
        _, rows = page.table(caption)
        assert [int(row[0]) for row in rows] == [1, 2, 3]
        expected = [scale * record[key] for record in history]
        assert [shown(row[1]) for row in rows] == pytest.approx(expected, rel=5e-3, abs=6e-4)
    header, rows = page.table("Positives per image")
    assert header[1:] == ["sum of the soft labels", "sum of the predictions"]
    assert shown(rows[-1][2]) == pytest.approx(history[-1]["predicted_positives"], rel=1e-3)
    _, rows = page.table("Movement and flips")
    assert shown(rows[-1][2]) == pytest.approx(100 * history[-1]["flips"], rel=1e-2, abs=6e-4)


def test_the_last_histogram_is_that_of_the_soft_labels(page, run):
    hidden = (run.observed().values == -1) & run.has_soft_labels()[:, None]
    counts, _ = np.histogram(run.soft_labels()[hidden], bins=20, range=(0, 1))
    _, rows = page.table("Soft labels of unobserved entries")
    found = [shown(cell) for cell in rows[-1][1:]]
    assert found == pytest.approx(100 * counts / counts.sum(), abs=0.006)


def test_the_new_positive_that_both_are_surest_of_comes_first(page, run, hostile_photos):
    completed = complete(run)
    predicted = run.predict([hostile_photos / name for name in completed.observed.images])
    surest = np.minimum(completed.scores, predicted)
    new = np.where(completed.proposed(), surest, -1)
    row, column = np.unravel_index(new.argmax(), new.shape)
    first = page.headings.index((3, "New positives, the surest first")) + 1
    assert page.headings[first] == (4, HOSTILE[column])
    images = [attrs["alt"] for attrs in page.attributes("img")]
    assert images[0] == completed.observed.images[row]


def test_nothing_is_loaded_and_no_name_becomes_markup(page):
    for _, attrs in page.tags:
        for key, value in attrs.items():
            if key in ("src", "srcset", "data", "action", "poster"):
                assert value.startswith("data:image/jpeg;base64,")
            if key in ("href", "xlink:href"):
                assert value.startswith("#")
            assert not key.startswith("on")
    assert not {"script", "link", "iframe", "object", "b"} & {tag for tag, _ in page.tags}
    assert "url(http" not in page.source
    assert "default-src 'none'" in page.source
    for name in HOSTILE:
        assert name in page.text
    assert "49" not in [text for _, text in page.headings]
    assert HOSTILE_FILE[:-4] in page.text


def test_a_screen_reader_finds_its_way(page):
    assert page.attributes("html") == [{"lang": "en"}]
    ids = [attrs["id"] for _, attrs in page.tags if "id" in attrs]
    assert len(set(ids)) == len(ids)
    for attrs in page.attributes("a"):
        assert attrs["href"][1:] in ids
    for attrs in page.attributes("section"):
        assert attrs["aria-labelledby"] in ids
    assert {"header", "nav", "main", "footer"} <= {tag for tag, _ in page.tags}
    drawings = [attrs for attrs in page.attributes("div") if attrs.get("role") == "img"]
    assert len(drawings) == page.source.count("<figure>") == 10
    titles = re.findall(r'<p class="title">(.*?)</p>', page.source)
    for attrs, title in zip(drawings, titles, strict=True):
        assert attrs["aria-label"].startswith(f"{title}: ")
        assert " over " in attrs["aria-label"]
    assert page.source.count("<details>") == 10  # the numbers of every drawing
    assert all(attrs.get("alt") for attrs in page.attributes("img"))
    assert all("scope" in attrs for attrs in page.attributes("th"))
    assert len(page.tables) == len(page.attributes("caption")) == 12
    assert all(page.tables)  # no empty caption


def luminance(colour):
    levels = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in levels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one, two):
    high, low = sorted((luminance(one), luminance(two)), reverse=True)
    return (high + 0.05) / (low + 0.05)


def test_colours_can_be_told_from_paper_in_light_dark_and_print(page):
    themes = re.findall(r":root \{(.*?)\}", page.source, flags=re.DOTALL)
    assert len(themes) == 3
    for theme in themes:
        colours = dict(re.findall(r"--([a-z]\w*): (#[0-9a-f]{3,6})", theme))
        whole = {
            name: colour if len(colour) == 7 else "#" + "".join(2 * c for c in colour[1:])
            for name, colour in colours.items()
        }
        for ground in ("paper", "card"):
            for name in ("ink", "soft", "accent", "bad"):  # WCAG AA for text
                assert contrast(whole[name], whole[ground]) >= 4.5, (name, theme)
            for place in range(8):  # and for drawings
                assert contrast(whole[f"c{place}"], whole[ground]) >= 3, (place, theme)


def test_the_same_run_gives_the_same_page(run, tmp_path):
    one, two = (write_run_report(run.folder, tmp_path / name) for name in ("1.html", "2.html"))
    assert one.read_bytes() == two.read_bytes()


def test_without_photos_there_are_names_and_a_sentence(run, tmp_path):
    path = write_run_report(run.folder, tmp_path / "bare.html", images=str(tmp_path))
    bare = page_of(path)
    assert not bare.attributes("img")
    assert "photos cannot be shown" in bare.sentences()
    assert HOSTILE_FILE[:-4] in bare.text
    assert "Observed labels that the network doubts most" in bare.text


def test_photos_behind_a_link_that_leads_out_are_not_shown(run, hostile_photos, tmp_path):
    folder = tmp_path / "links"
    folder.mkdir()
    for photo in hostile_photos.glob("*.png"):
        (folder / photo.name).symlink_to(photo)
    bare = page_of(write_run_report(run.folder, tmp_path / "bare.html", images=str(folder)))
    assert not bare.attributes("img")


def test_a_run_that_is_not_finished_has_curves_and_says_so(copied, capsys):
    for name in ("result.json", "evaluation.json", "decisions.json", "soft_labels.npy"):
        (copied / name).unlink()
    history = copied / "history.jsonl"
    history.write_text(history.read_text()[:-20])  # its last line is being written
    assert main(["report", str(copied)]) == 0
    assert f"page: {copied / 'report.html'}" in capsys.readouterr().out
    page = page_of(copied / "report.html")
    assert "This run is not finished" in page.text
    assert [row[0] for row in page.table("Cost")[1]] == ["1", "2"]
    assert not page.attributes("img")
    assert "Each class" not in "".join(page.tables)
    history.unlink()
    main(["report", str(copied)])
    assert "No epoch is finished yet" in page_of(copied / "report.html").text
    history.write_text("{\nnot JSON\n{}\n")
    assert main(["report", str(copied)]) == 2
    assert "history.jsonl:1: expected a line of JSON" in capsys.readouterr().err


def test_a_method_without_soft_labels_and_data_without_negatives(hostile_photos, tmp_path):
    table = read_labels(hostile_photos / "train.csv")
    tags = table.with_values(np.where(table.values == 1, 1, -1).astype(np.int8))
    csv_table.write(tags, tmp_path / "tags.csv")
    config = config_of(
        hostile_photos,
        tmp_path / "run",
        labels=str(tmp_path / "tags.csv"),
        test_labels=None,
        setting="own",
        method="an",
        epochs=1,
    )
    page = page_of(write_run_report(train(config).folder))
    text = page.sentences()
    assert "The method an keeps no soft labels" in text
    assert "There are no test images with labels." in text
    assert "per image; how many are right is not known" in text
    assert "cannot be told from tags alone. Look at some of them with g2netpl review" in text
    assert "There is no curve of mAP. Epoch: the last one" in text
    assert "no validation or test images with labels to hold the scores against" in text
    assert "nothing can be disputed" in text
    assert "<figure>" in page.source


def test_labels_of_one_sign_are_not_judged(copied):
    scores = dict(np.load(copied / "scores.npz"))
    for part in ("validation", "test"):
        known = scores[f"{part}_truth"]
        scores[f"{part}_truth"] = np.where(known == 1, known, -1).astype(np.int8)
    np.savez(copied / "scores.npz", **scores)
    page = page_of(write_run_report(copied))
    assert "validation and test labels name no negatives" in page.sentences()
    assert "Reliability of" not in page.text


def test_unreadable_images_are_left_out(copied, judged):
    scores = dict(np.load(copied / "scores.npz"))
    scores["test_logits"][:5] = np.nan
    np.savez(copied / "scores.npz", **scores)
    logits = np.load(copied / "logits.npy")
    logits[:5] = np.nan
    np.save(copied / "logits.npy", logits)
    _, rows = page_of(write_run_report(copied)).table("Reliability of the calibrated scores")
    assert sum(shown(row[4]) for row in rows if row[0] == "test") == judged[1][5:].size


def test_damaged_runs(copied, capsys):
    for name in ("labels.npz", "soft_labels.npy", "decisions.json", "scores.npz"):
        before = (copied / name).read_bytes()
        for damaged in (b"", before[:40], before[: len(before) // 2]):
            (copied / name).write_bytes(damaged)
            assert main(["report", str(copied)]) == 2
            assert f"{name}: cannot be read" in capsys.readouterr().err
        (copied / name).write_bytes(before)
    np.savez(copied / "labels.npz", images=np.array(["a"]))
    assert main(["report", str(copied)]) == 2
    assert "labels.npz: has no 'observed'" in capsys.readouterr().err


MISTAKES = {
    "no folder": (["--images", "nowhere"], 2, "--images nowhere: no such folder"),
    "not a page": (["--output", "page.pdf"], 2, "expected a name ending in .html"),
    "a file that is there": (["--output", "there.html"], 3, "there.html: is there already"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_mistakes_are_told_in_one_line(run, tmp_path, monkeypatch, capsys, mistake):
    flags, code, message = MISTAKES[mistake]
    monkeypatch.chdir(tmp_path)
    (tmp_path / "there.html").write_text("mine")
    assert main(["report", str(run.folder), *flags]) == code
    error = capsys.readouterr().err
    assert re.search(message, error)
    assert error.count("\n") == 1
    assert (tmp_path / "there.html").read_text() == "mine"


@pytest.fixture(scope="module")
def compared(tmp_path_factory):
    """A small comparison: two methods, two settings, two seeds, two learning rates."""
    folder = tmp_path_factory.mktemp("compared")
    write_folder(folder / "features")
    fixed = ["--seeds", "0,1", "--epochs", "3", "--jobs", "1", "--learning-rates", "1e-2,1e-3"]
    what = ["--methods", "an,g2netpl", "--settings", "fspl,sspl:0.5"]
    where = ["--features", str(folder / "features"), "--output", str(folder / "out")]
    assert main(["compare", *where, *what, *fixed]) == 0
    return folder / "out"


def test_a_comparison_has_its_table_and_curves(compared):
    page = page_of(compared / "report.html")  # compare writes it by itself
    results = json.loads((compared / "results.json").read_text())
    header, rows = page.table("Test mAP × 100 of every method")
    assert header == ["method", "fspl", "sspl:0.5"]
    for method, *cells in rows:
        for setting, cell in zip(header[1:], cells, strict=True):
            own = [r for r in results if (r["method"], r["setting"]) == (method, setting)]
            scores = [100 * row["test_map"] for row in own]
            assert f"{np.mean(scores):.1f} ± {np.std(scores, ddof=1):.1f}" in cell
    cells = lines_of(compared / "cells.jsonl")
    _, rows = page.table("Validation mAP, fspl")
    for column, method in ((1, "an"), (2, "g2netpl")):
        histories = []
        for seed in (0, 1):
            key = {"method": method, "setting": "fspl", "seed": seed}
            own = [c for c in cells if key.items() <= c.items()]
            best = max(own, key=lambda cell: cell["validation_map"])
            histories.append([100 * record["validation_map"] for record in best["history"]])
        assert [shown(row[column]) for row in rows] == pytest.approx(
            np.mean(histories, axis=0), rel=1e-3
        )
    header, _ = page.table("Undecided labels, fspl")
    assert header == ["epoch", "g2netpl"]
    assert len(page.table("Chosen trainings")[1]) == len(results) == 8
    assert [level for level, _ in page.headings].count(1) == 1
    assert not re.search(r"(src|href|url)\s*[=(]\s*[\"']?(https?:)?//", page.source)
    ids = [attrs["id"] for _, attrs in page.tags if "id" in attrs]
    assert len(set(ids)) == len(ids)


def test_a_comparison_that_goes_on_is_looked_at_and_left_alone(compared, tmp_path, capsys):
    folder = shutil.copytree(compared, tmp_path / "half")
    (folder / "results.json").unlink()
    lines = (folder / "cells.jsonl").read_bytes()
    (folder / "cells.jsonl").write_bytes(lines[:-30])  # another process is writing the last line
    assert main(["report", str(folder)]) == 0
    assert "This comparison is not finished" in page_of(folder / "report.html").text
    assert (folder / "cells.jsonl").read_bytes() == lines[:-30]
    (folder / "cells.jsonl").write_text("")
    assert main(["report", str(folder)]) == 2
    assert "no training is finished yet" in capsys.readouterr().err
    assert main(["report", str(compared), "--images", "a"]) == 2
    assert "--images: only for a run of g2netpl train" in capsys.readouterr().err


def test_precision_recall_with_ties():
    random = np.random.default_rng(1)
    scores = random.integers(0, 8, size=200) / 8
    positive = random.random(200) < scores
    recall, precision, thresholds = precision_recall(scores, positive)
    theirs = precision_recall_curve(positive, scores)
    np.testing.assert_allclose(precision, theirs[0][:-1][::-1])
    np.testing.assert_allclose(recall, theirs[1][:-1][::-1])
    np.testing.assert_allclose(thresholds, theirs[2][::-1])


def test_reliability_with_scores_on_the_edges():
    random = np.random.default_rng(2)
    scores = random.integers(0, 21, size=400) / 20
    positive = random.random(400) < scores
    found = reliability(scores, positive)
    share, mean = calibration_curve(positive, scores, n_bins=10)
    np.testing.assert_allclose([each.positive for each in found], share)
    np.testing.assert_allclose([each.score for each in found], mean)
    for each in found:
        hits = round(each.positive * each.count)
        ours, theirs = each.interval(), binomtest(hits, each.count).proportion_ci(method="wilson")
        np.testing.assert_allclose(ours, (theirs.low, theirs.high), atol=1e-4)
    # 3 entries of 0.2, none positive; 1 entry of 0.9, positive: (3 · 0.2 + 1 · 0.1) / 4
    bins = [Bin(0.1, 0.2, 0.2, 0.0, 3), Bin(0.8, 0.9, 0.9, 1.0, 1)]
    assert calibration_error(bins) == pytest.approx(0.175)


def test_scores_survive_the_file(tmp_path):
    scores = np.array([[0.0, 1.0], [1e-6, 1 - 1e-6], [0.3, 0.999], [np.nan, np.nan]], np.float32)
    table = LabelTable(("a", "b", "c", "d"), ("x", "y"), np.zeros((4, 2), np.int8))
    with np.errstate(divide="raise", invalid="raise"):
        write_held_out(tmp_path, {"test": HeldOut(table, scores)})
        kept = read_held_out(tmp_path, ("x", "y"))
    read = kept["test"].scores
    logits = np.log(read[1:3] / (1 - read[1:3]).astype(np.float64))
    exact = np.log(scores[1:3] / (1 - scores[1:3]).astype(np.float64))
    np.testing.assert_allclose(logits, exact, rtol=5e-3)  # in float16 they would be 1
    assert np.isnan(read[3]).all()
    assert list(kept) == ["test"]
    assert kept["test"].table.images == ("a", "b", "c", "d")
    assert (kept["test"].truth[3] == -1).all()


def test_labels_that_are_contradicted_come_up():
    observed = np.full((4, 3), -1, dtype=np.int8)
    observed[0] = (1, 0, -1)
    observed[1] = (1, -1, 0)
    observed[2] = (0, -1, -1)
    predicted = np.full((4, 3), 0.3, dtype=np.float32)
    predicted[0] = (0.9, 0.95, 0.1)  # its second label, a negative, is contradicted
    predicted[1] = (0.02, 0.5, 0.1)  # its first one, a positive
    predicted[2] = (0.2, 0.6, 0.1)  # soft labels deny the second
    predicted[3] = np.nan  # could not be read
    soft = np.where(observed == -1, np.float32(0.1), observed).astype(np.float32)
    names = ("w.png", "x.png", "y.png", "z.png")
    table = LabelTable(names, ("cat", "dog", "owl"), observed)
    values = np.where(observed == -1, 0, observed).astype(np.int8)
    completed = Completed(table, values, soft, np.ones((4, 3), np.int8))
    opinions = Opinions(completed, completed, np.ones(4, dtype=bool), predicted, predicted > 0.55)
    new, disputed, wrong = make_shelves(opinions, lambda name: None)
    assert new.cards == []
    assert [(card.image, card.label) for card in disputed.cards] == [("y.png", "dog")]
    assert [(card.image, card.label, card.observed) for card in wrong.cards] == [
        ("x.png", "cat", "as positive"),
        ("w.png", "dog", "as negative"),
    ]
    assert wrong.cards[1].others == "cat"
    assert wrong.cards[0].soft is None  # it was observed
    assert disputed.cards[0].soft == pytest.approx(0.1)


def test_percentages_do_not_claim_more_than_they_know():
    assert [percent(share) for share in (0.99999, 0.00001, 0.973, 0.5, 1.0, 0.0)] == [
        "> 99.9 %",
        "< 0.1 %",
        "97.3 %",
        "50 %",
        "100.0 %",
        "0.0 %",
    ]


def test_a_page_that_cannot_be_written_is_told(run, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="cannot be written"):
        write_run_report(run.folder, tmp_path / "file" / "page.html", gallery=False)
    assert "<h1>&lt;i&gt;</h1>" in render("comparison.html", **_empty(name="<i>"))


def _empty(**changes):
    lists = {key: [] for key in ("seeds", "ks", "curves", "players", "truths", "histograms")}
    rows = {key: {"header": [], "rows": []} for key in ("trainings", "others")}
    facts = {"version": "0", "finished": True, "trained": 0, "about": {"set": []}}
    return {**lists, **rows, **facts, "grid": grid({}, {}, {}), **changes}
