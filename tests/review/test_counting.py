"""`review --ask counts`: how many of the classes are in a picture."""

import csv
import json
import secrets

import numpy as np
import pytest
from review_runs import Page, random_run

from g2netpl.base.errors import InputError, Refused
from g2netpl.cli import main
from g2netpl.review.counting import CountReview
from g2netpl.review.session import Review
from g2netpl.runs.answers import (
    Decision,
    apply_decisions,
    counts_of,
    in_force,
    read_decisions,
    reviewed_labels,
)
from g2netpl.runs.run import Run


@pytest.fixture
def folder(tmp_path):
    return random_run(tmp_path, images=30, classes=12)


def number(count):
    return f"{count:032x}"


def rows(review, count=20):
    return [each["row"] for each in review.questions(count)]


def answered(folder, *counts, **more):
    """The pictures that were asked about, each answered in its turn."""
    review, asked = CountReview(folder, **more), []
    for count in counts:
        (question,) = review.questions(1)
        review.decide(secrets.token_hex(16), question["row"], count)
        asked.append(question["image"])
    review.close()
    return asked


def test_the_sample_follows_the_seed_and_every_image_is_as_likely(folder):
    first = np.zeros(30)
    for seed in range(300):
        review = CountReview(folder, seed=seed)
        order = rows(review, 10)
        assert order == rows(review, 10)
        first[order] += 1
        review.close()
    assert abs(first - 100).max() < 4 * np.sqrt(300 * 1 / 3 * 2 / 3)  # 300 times 10 of 30


def test_pictures_that_cannot_be_shown_are_not_asked_about(folder):
    soft = np.load(folder / "soft_labels.npy")
    soft[4] = np.nan  # the training could not read it
    np.save(folder / "soft_labels.npy", soft)
    review = CountReview(folder, can_show=lambda name: name != "image 007.png")
    assert sorted(rows(review, 40)) == [row for row in range(30) if row not in (4, 7)]
    review.close()


def test_counts_are_lines_of_the_same_log_and_come_back(folder):
    asked = answered(folder, 3, None, 0, 12)
    lines = [json.loads(line) for line in (folder / "review.jsonl").read_text().splitlines()]
    assert [(x["action"], x["image"], x["class"], x["old"], x["new"]) for x in lines] == [
        ("count", asked[0], "", -1, 3),
        ("skip", asked[1], "", -1, -1),
        ("count", asked[2], "", -1, 0),
        ("count", asked[3], "", -1, 12),
    ]
    assert {x["order"] for x in lines} == {"counts"}
    table = Run.open(folder).observed()
    counts = counts_of(table, read_decisions(folder))
    found = {table.images[row]: counts[row] for row in np.flatnonzero(~np.isnan(counts))}
    assert found == {asked[0]: 3, asked[2]: 0, asked[3]: 12}
    assert np.array_equal(reviewed_labels(folder).values, table.values)  # no label is decided
    review = CountReview(folder)
    assert review.progress() == {"answered": 4, "counted": 3, "skipped": 1, "limit": None}
    assert len(rows(review, 40)) == 26
    ids = [x["id"] for x in lines]
    undone = [review.undo(number(step), ids.pop())["image"] for step in range(4)]
    assert undone == asked[::-1]
    assert in_force(read_decisions(folder)) == []
    review.close()


def test_a_limit_counts_counts_alone(folder):
    review = Review(folder)
    review.decide(number(1), 0, 0, "yes", "useful")
    review.close()
    assert len(answered(folder, 1, 2, limit=3)) == 2
    review = CountReview(folder, limit=3)
    assert len(rows(review)) == 1
    review.close()
    review = Review(folder, limit=2)
    assert len(review.questions("random", 5)) == 1
    review.close()


def test_answers_of_the_other_kind_stand_in_the_way_of_an_undo(folder):
    review = Review(folder)
    review.decide(number(1), 3, 2, "yes", "useful")
    review.close()
    answered(folder, 5)
    review = Review(folder)
    with pytest.raises(Refused, match="not taken back"):
        review.undo(number(2), number(1))
    assert review.values[3, 2] == 1
    review.decide(number(3), 3, 4, "no", "useful")
    assert review.undo(number(4), number(3))["column"] == 4
    review.close()
    assert len(read_decisions(folder)) == 4
    table = apply_decisions(Run.open(folder).observed(), read_decisions(folder))
    assert table.values[3, 2] == 1


@pytest.mark.parametrize(
    "change",
    [
        {"new": -1},
        {"new": 10**4},
        {"new": 2.0},
        {"action": "yes", "new": 1},
        {"class": "class 1"},
        {"order": "useful"},
        {"action": "skip"},
        {"old": -2},
    ],
)
def test_a_line_that_is_no_count_is_refused(folder, change):
    line = Decision(number(1), "t", "count", "image 000.png", "", -1, 3, "counts").to_line()
    assert Decision.from_line(line).new == 3
    (folder / "review.jsonl").write_text(json.dumps(json.loads(line) | change) + "\n")
    with pytest.raises(InputError, match=r"review\.jsonl:1: not a decision"):
        read_decisions(folder)


def test_more_than_there_are_classes_is_another_run(folder):
    many = Decision(number(1), "t", "count", "image 000.png", "", -1, 13, "counts")
    with pytest.raises(InputError, match="13 classes counted in"):
        counts_of(Run.open(folder).observed(), [many])
    stranger = Decision(number(1), "t", "count", "nowhere.png", "", -1, 1, "counts")
    with pytest.raises(InputError, match=r"nowhere\.png"):
        counts_of(Run.open(folder).observed(), [stranger])


def test_counts_are_exported_and_give_k(folder, capsys):
    said = [1, 2, 3, 4, 5, 1, 2, 3, 4, 6]  # 3.1 on average
    asked = answered(folder, *said[:9])
    before = Run.open(folder).expected_positives
    target = folder.parent / "a.csv"
    assert main(["review", str(folder), "--export", str(target)]) == 0
    out = capsys.readouterr().out
    assert f"--expected-positives {before:.2f}" in out  # nine are too few
    asked += answered(folder, said[9])
    again = ["review", str(folder), "--export", str(target), "--overwrite"]
    assert main(again) == 0
    out = capsys.readouterr().out
    assert "10 images counted, 3.10 classes on average" in out
    assert "--expected-positives 3.10" in out
    with open(folder.parent / "a.counts.csv", newline="") as file:
        found = [(x["image"], int(x["count"])) for x in csv.DictReader(file)]
    assert found == list(zip(asked, said, strict=True))
    target.unlink()
    (folder.parent / "a.provenance.csv").unlink()
    assert main(["review", str(folder), "--export", str(target)]) == 3  # the counts are there
    assert not target.exists()


def test_the_question_over_http(folder):
    with Page(folder, "--ask", "counts", "--limit", "3") as page:
        state = page.ask("/api/state")
        assert (state["asks"], state["order"], len(state["classes"])) == ("counts", "counts", 12)
        first, second, _ = page.ask("/api/questions?order=counts&count=5")["questions"]
        assert set(first) == {"row", "image", "order", "known"}
        assert page.request("GET", f"/api/image?row={first['row']}&size=256")[0] == 200
        good = {"id": number(1), "row": first["row"], "answer": 4, "order": "counts"}
        refused = (
            [{**good, "answer": wrong} for wrong in (-1, 13, 2.0, True, "4", "yes", None)]
            + [{**good, "row": wrong} for wrong in (-1, 30, True, "1")]
            + [{**good, "order": "useful"}, {**good, "column": 1}, {**good, "id": "x"}]
        )
        for body in refused:
            assert page.request("POST", "/api/decide", body)[0] == 400, body
        for query in ("order=useful&count=1", "order=counts&count=1&search=1", "order=counts"):
            assert page.request("GET", f"/api/questions?{query}")[0] == 400, query
        assert page.request("POST", "/api/decide", good, **{"X-G2netpl-Token": "x" * 43})[0] == 401
        assert (folder / "review.jsonl").read_bytes() == b""
        for _ in range(2):  # the page did not hear that it was saved
            assert page.ask("/api/decide", good)["progress"]["counted"] == 1
        skip = {**good, "id": number(2), "row": second["row"], "answer": "skip"}
        assert page.ask("/api/decide", skip)["progress"]["skipped"] == 1
        for other in ({**good, "answer": 5}, {**skip, "answer": 0}, {**good, "row": second["row"]}):
            assert page.request("POST", "/api/decide", other)[0] == 409, other
        assert page.undo(number(2))["image"] == second["image"]
        assert page.ask("/api/questions?order=counts&count=5")["progress"]["answered"] == 1
        page.process.terminate()
        assert page.process.wait(120) == 0
        assert "1 answer saved" in (said := page.process.stdout.read())
        assert "1 counted, 0 skipped" in said
    assert [(x.image, x.new) for x in in_force(read_decisions(folder))] == [(first["image"], 4)]


@pytest.mark.parametrize("flags", [["--order", "random"], ["--classes", "class 1"]])
def test_what_would_bend_the_sample_is_refused(folder, capsys, flags):
    assert main(["review", str(folder), "--no-browser", "--ask", "counts", *flags]) == 2
    error = capsys.readouterr().err
    assert f"leave out {flags[0]}" in error
    assert error.count("\n") == 1
