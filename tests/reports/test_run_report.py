"""The reports: their numbers against scikit-learn, hostile names, and what a reader must find."""

import itertools
import json
import re
import shutil

import lxml.html
import numpy as np
import pytest
from feature_folders import write_folder
from PIL import Image
from sklearn.calibration import calibration_curve
from sklearn.metrics import (
    average_precision_score,
    precision_recall_curve,
    precision_score,
    recall_score,
)

from g2netpl import RunConfig, read_labels, train
from g2netpl.cli import main
from g2netpl.labels.io import tables
from g2netpl.labels.table import LabelTable
from g2netpl.reports.gallery import make_gallery
from g2netpl.reports.page import percent
from g2netpl.reports.run import write_run_report
from g2netpl.runs.completion import Completed, complete_run

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
    "How good is it?",
    "Which classes are weak?",
    "What was added?",
    "What to look at",
    "Labels to check",
    "Labels that were added, most confident first",
    "Pseudo-label and prediction disagree",
    "Observed positives with a low prediction",
    "Observed negatives with a high prediction",
    "Classes",
    "Metrics",
    "Training",
    "Pseudo-labels",
    "Settings",
)
HEADINGS = tuple(f"h{level}" for level in range(1, 7))
PRIVATE = ("player", "regret", "in doubt", "ceiling", "undecided", "soft label", "a training")


class Page:
    """A page as a browser reads it."""

    def __init__(self, path):
        self.source = path.read_text(encoding="utf-8")
        tree = lxml.html.document_fromstring(self.source)
        self.tags = [(each.tag, dict(each.attrib)) for each in tree.iter() if each.tag != "style"]
        self.headings = [(int(each.tag[1]), each.text_content()) for each in tree.iter(*HEADINGS)]
        self.captions = [each.text_content() for each in tree.iter("caption")]
        self.tables = list(tree.iter("table"))
        self.text = tree.find("body").text_content()
        self.sentences = " ".join(self.text.split())

    def attributes(self, tag):
        return [attrs for name, attrs in self.tags if name == tag]

    def table(self, caption):
        """Header and rows of the table whose caption begins so."""
        (found,) = [t for t in self.tables if t.find("caption").text_content().startswith(caption)]
        rows = [[cell.text_content() for cell in row.iter("th", "td")] for row in found.iter("tr")]
        return rows[0], rows[1:]


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
        tables.write(LabelTable(tuple(names), HOSTILE, labels.values), folder / name)
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
    return Page(write_run_report(run.folder))


@pytest.fixture
def copied(run, tmp_path):
    """A copy of the run, to be damaged."""
    return shutil.copytree(run.folder, tmp_path / "copied")


@pytest.fixture(scope="module")
def judged(run, hostile_photos):
    """Calibrated predictions of the test photos, computed again from the files, and their truth."""
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
    text = page.sentences
    completed = complete_run(run)
    assert "g2netpl, trained on train.csv: 48 images, 10 classes" in text
    assert "tiny at 32 px, full" in text
    assert "k = 2.30 per image" in text
    assert f"test mAP{100 * run.result['test_map']:.1f}20 images, epoch" in text
    assert f"new labels{completed.added().sum():,}" in text
    mean = completed.scores[completed.added()].mean()
    assert f"mean probability{percent(mean)}of the new labels" in text
    assert f"Added: {completed.how}." in text
    own = text.replace(completed.how, "").lower()
    assert not [word for word in PRIVATE if word in own]
    assert str(run.folder.parent) not in page.source  # whose folder it is stays at home


def test_the_table_of_classes_agrees_with_scikit_learn(page, run, judged):
    scores, truth = judged
    header, rows = page.table("Classes with their labels")
    found = {row[0]: dict(zip(header, row, strict=True)) for row in rows}
    assert set(found) == set(HOSTILE)
    ordered = [shown(row[1]) for row in rows]
    assert ordered == sorted(ordered)  # the weakest first
    decided = scores >= run.thresholds.limits
    observed = run.observed().values
    for column, name in enumerate(HOSTILE):
        expected = {
            "AP": 100 * average_precision_score(truth[:, column], scores[:, column]),
            "test positives": truth[:, column].sum(),
            "recall": 100 * recall_score(truth[:, column], decided[:, column]),
            "threshold": 100 * run.thresholds.per_class[column],
            "observed positives": (observed[:, column] == 1).sum(),
            "observed negatives": (observed[:, column] == 0).sum(),
        }
        if decided[:, column].any():
            expected["precision"] = 100 * precision_score(truth[:, column], decided[:, column])
        for key, value in expected.items():
            assert shown(found[name][key]) == pytest.approx(value, abs=0.051), (name, key)
        assert found[name]["threshold by"] == run.thresholds.reasons[column]


def test_the_table_of_parts_agrees_with_scikit_learn(page, judged):
    scores, truth = judged
    header, rows = page.table("Metrics of each split")
    (test,) = [dict(zip(header, row, strict=True)) for row in rows if row[0] == "test"]
    macro = 100 * average_precision_score(truth, scores, average="macro")
    assert shown(test["mAP"]) == pytest.approx(macro, abs=0.051)


def test_reliability_agrees_with_scikit_learn(page, judged):
    scores, truth = judged
    _, rows = page.table("Reliability of the calibrated probabilities")
    found = [[shown(cell) for cell in row[2:]] for row in rows if row[0] == "test"]
    share, mean = calibration_curve(truth.ravel(), scores.ravel(), n_bins=10)
    assert [row[0] for row in found] == pytest.approx(mean, abs=6e-4)
    assert [row[1] for row in found] == pytest.approx(share, abs=6e-4)
    assert sum(row[2] for row in found) == truth.size


def test_precision_and_recall_agree_with_scikit_learn(page, judged):
    scores, truth = judged
    header, rows = page.table("Precision and recall of all labels")
    precision, recall, _ = precision_recall_curve(truth.ravel(), scores.ravel())
    assert len(rows) == 21
    for level, *cells in rows:
        best = precision[:-1][recall[:-1] >= float(level) - 1e-9].max()  # the last is made up
        assert shown(cells[header.index("test") - 1]) == pytest.approx(best, abs=6e-4), level


def test_curves_are_the_history(page, run):
    history = lines_of(run.folder / "history.jsonl")
    for caption, key, scale in (
        ("Validation mAP", "validation_map", 100),
        ("Training loss", "cost", 1),
        ("Distance to equilibrium", "regret", 1),
        ("Unresolved pseudo-labels", "unresolved", 100),
        ("Sum of predictions", "predicted_positives", 1),
        ("Mean change of pseudo-labels", "movement", 1),
    ):
        _, rows = page.table(caption)
        assert [int(row[0]) for row in rows] == [1, 2, 3]
        expected = [scale * record[key] for record in history]
        assert [shown(row[1]) for row in rows] == pytest.approx(expected, rel=5e-3, abs=6e-4)


def test_the_new_positive_that_both_are_surest_of_comes_first(page, run, hostile_photos):
    completed = complete_run(run)
    predicted = run.predict([hostile_photos / name for name in completed.observed.images])
    surest = np.minimum(completed.scores, predicted)
    new = np.where(completed.added(), surest, -1)
    row, column = np.unravel_index(new.argmax(), new.shape)
    first = page.headings.index((3, "Labels that were added, most confident first")) + 1
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
    ids = [attrs["id"] for _, attrs in page.tags if "id" in attrs]
    assert len(set(ids)) == len(ids)
    assert {attrs["href"][1:] for attrs in page.attributes("a")} <= set(ids)
    assert {attrs["aria-labelledby"] for attrs in page.attributes("section")} <= set(ids)
    assert {"header", "nav", "main", "footer"} <= {tag for tag, _ in page.tags}
    drawings = [attrs for attrs in page.attributes("div") if attrs.get("role") == "img"]
    assert len(drawings) == page.source.count("<figure>") == page.source.count("<details>") == 9
    assert all(attrs["aria-label"] for attrs in drawings)
    assert all(attrs.get("alt") for attrs in page.attributes("img"))
    assert all("scope" in attrs for attrs in page.attributes("th"))
    assert len(page.tables) == len(page.captions) == 11
    assert all(page.captions)


def test_without_photos_there_are_names_and_a_sentence(run, tmp_path):
    path = write_run_report(run.folder, tmp_path / "bare.html", images=str(tmp_path))
    bare = Page(path)
    assert not bare.attributes("img")
    assert "photos cannot be read" in bare.sentences
    assert HOSTILE_FILE[:-4] in bare.text


def test_a_run_that_is_not_finished_has_curves_and_says_so(copied, capsys):
    for name in ("result.json", "evaluation.json", "decisions.json", "soft_labels.npy"):
        (copied / name).unlink()
    history = copied / "history.jsonl"
    assert main(["report", str(copied)]) == 0
    assert f"report: {copied / 'report.html'}" in capsys.readouterr().out
    page = Page(copied / "report.html")
    assert "This run is not finished" in page.text
    assert [row[0] for row in page.table("Training loss")[1]] == ["1", "2", "3"]
    assert not page.attributes("img")
    assert "How good is it?" not in page.text
    history.unlink()
    main(["report", str(copied)])
    assert "No epoch is finished yet" in Page(copied / "report.html").text
    history.write_text("{\nnot JSON\n{}\n")
    assert main(["report", str(copied)]) == 2
    assert "history.jsonl:1: expected a line of JSON" in capsys.readouterr().err


def test_tags_only_say_that_quality_is_not_known_and_name_classes_without_a_tag(
    hostile_photos, tmp_path
):
    table = read_labels(hostile_photos / "train.csv")
    values = np.where(table.values == 1, 1, -1).astype(np.int8)
    values[:, 3] = -1
    tables.write(table.with_values(values), tmp_path / "tags.csv")
    changes = {"labels": str(tmp_path / "tags.csv"), "test_labels": None, "setting": "own"}
    config = config_of(hostile_photos, tmp_path / "run", **changes, method="an", epochs=1)
    text = Page(write_run_report(train(config).folder)).sentences
    assert "How good is it? Not known." in text
    assert "pass a fully labelled file with --test-labels" in text
    assert f"Without any tag (1 of 10): {HOSTILE[3]}. These classes cannot be learned" in text
    assert "The method an keeps no pseudo-labels" in text
    assert "there is nothing to compare" in text


def test_nothing_added_is_a_sentence_without_a_percentage(copied):
    content = json.loads((copied / "decisions.json").read_text())
    content |= {"thresholds": [None] * 10, "rule": "precision:0.99"}
    (copied / "decisions.json").write_text(json.dumps(content))
    labels = dict(np.load(copied / "labels.npz"))
    labels["soft"][:] = False  # the network decides
    np.savez(copied / "labels.npz", **labels)
    text = Page(write_run_report(copied, gallery=False)).sentences
    assert "No label was added: no unobserved label reaches its threshold." in text
    assert "mean probability" not in text
    assert "The photos were left out by --no-gallery." in text


def test_labels_of_one_sign_are_not_judged(copied):
    scores = dict(np.load(copied / "scores.npz"))
    for part in ("validation", "test"):
        known = scores[f"{part}_truth"]
        scores[f"{part}_truth"] = np.where(known == 1, known, -1).astype(np.int8)
    np.savez(copied / "scores.npz", **scores)
    page = Page(write_run_report(copied))
    assert "labels name no negatives, so calibration and precision cannot be shown" in (
        page.sentences
    )
    assert "Reliability of" not in page.text


def test_unreadable_images_are_left_out(copied, judged):
    scores = dict(np.load(copied / "scores.npz"))
    scores["test_logits"][:5] = np.nan
    np.savez(copied / "scores.npz", **scores)
    logits = np.load(copied / "logits.npy")
    logits[:5] = np.nan
    np.save(copied / "logits.npy", logits)
    _, rows = Page(write_run_report(copied)).table("Reliability of the calibrated probabilities")
    assert sum(shown(row[4]) for row in rows if row[0] == "test") == judged[1][5:].size


MISTAKES = {
    "no folder": (["--images", "nowhere"], 2, "--images nowhere: no such folder"),
    "not a page": (["--output", "page.pdf"], 2, "expected a name ending in .html"),
    "a file that is there": (["--output", "there.html"], 2, "there.html: already exists"),
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
    page = Page(compared / "report.html")  # compare writes it by itself
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
    header, _ = page.table("Unresolved pseudo-labels, fspl")
    assert header == ["epoch", "g2netpl"]
    assert len(page.table("Chosen runs")[1]) == len(results) == 8
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
    assert "This comparison is not finished" in Page(folder / "report.html").text
    assert (folder / "cells.jsonl").read_bytes() == lines[:-30]
    (folder / "cells.jsonl").write_text("")
    assert main(["report", str(folder)]) == 2
    assert "no run is finished yet" in capsys.readouterr().err
    assert main(["report", str(compared), "--images", "a"]) == 2
    assert "--images: only for a run of train" in capsys.readouterr().err


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
    given = (completed, completed, np.ones(4, dtype=bool), predicted, predicted > 0.55)
    new, disagree, positives, negatives = make_gallery(*given, lambda name: None)
    assert new.cards == []
    for section, image, label, sign in (
        (disagree, "y.png", "dog", "not observed"),
        (positives, "x.png", "cat", "positive"),
        (negatives, "w.png", "dog", "negative"),
    ):
        (card,) = section.cards
        assert (card.image, card.label, card.observed) == (image, label, sign)
        assert section.total == 1
    assert negatives.cards[0].others == "cat"
    assert positives.cards[0].pseudo is None  # it was observed
    assert disagree.cards[0].pseudo == pytest.approx(0.1)


def test_percentages_do_not_claim_more_than_they_know():
    assert [percent(share) for share in (0.99999, 0.00001, 0.973, 0.5, 1.0, 0.0)] == [
        "> 99.9 %",
        "< 0.1 %",
        "97.3 %",
        "50 %",
        "100.0 %",
        "0.0 %",
    ]
