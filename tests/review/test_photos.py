"""`review --ask photos`: which classes are in a photo, decided together."""

import json

import numpy as np
import pytest
from review_runs import random_run, small_run, write_run

from g2netpl.labels.table import LabelTable
from g2netpl.review.session import ReviewSession
from g2netpl.runs.answers import in_force, read_decisions, reviewed_labels
from g2netpl.runs.completion import complete_run
from g2netpl.runs.run import Run
from g2netpl.runs.tables import HeldOut, write_held_out
from g2netpl.utils.errors import InputError


@pytest.fixture
def small(tmp_path):
    return small_run(tmp_path)


@pytest.fixture
def folder(tmp_path):
    return random_run(tmp_path, images=30, classes=14)


@pytest.fixture
def opened():
    """Opens reviews and closes them again."""
    kept = []

    def open_review(*arguments, kind="photos", **more):
        kept.append(ReviewSession(*arguments, ask=kind, **more))
        return kept[-1]

    yield open_review
    for review in kept:
        review.close()


def number(count):
    return f"{count:032x}"


def sides(photo):
    """What is on and what is off, as the page sends it."""
    tags = photo["tags"]
    return [tag["column"] for tag in tags if tag["on"]], [t["column"] for t in tags if not t["on"]]


def answers_of(on, off):
    return dict.fromkeys(on, "yes") | dict.fromkeys(off, "no")


def save(review, photo, id, rest=False):
    review.save(number(id), photo["row"], answers_of(*sides(photo)), rest=rest)


# Which photo, and what is shown of it


def test_a_photo_is_worth_what_its_questions_are_worth_together(small, opened):
    review = opened(small)
    # questions (test_review): w bee 1; x ant 1/2, bee 0.36/3; y ant 0.64/3; z ant 0.64/4, bee 0.48
    # together: w 1, z 0.64, x 0.62, y 0.213
    assert [each["image"][0] for each in review.questions("useful", 9)] == ["w", "z", "x", "y"]
    assert [each["image"][0] for each in review.questions("doubtful", 9)] == ["y", "w"]
    assert [each["image"][0] for each in review.questions("useful", 9, column=0)] == ["x", "y", "z"]


def test_known_tags_are_shown_as_such_and_known_absent_ones_are_not(small, opened):
    photos = {each["image"]: each for each in opened(small).questions("useful", 9)}
    bee, ant = photos["w.png"]["tags"]
    assert (bee["name"], bee["value"], bee["probability"]) == (
        "bee",
        -1,
        pytest.approx(0.5, abs=1e-3),
    )
    assert (ant["name"], ant["value"], ant["on"], ant["probability"]) == ("ant", 1, True, None)
    assert [tag["name"] for tag in photos["y.png"]["tags"]] == ["ant"]
    assert photos["y.png"]["known"] == [{"name": "bee", "value": 0, "answered": False}]


@pytest.mark.parametrize("how", [{}, {"is_sampled": True}, {"rule": "precision:0.6"}])
def test_on_is_what_complete_would_call_positive(tmp_path, opened, how):
    random = np.random.default_rng(3)
    names, shape = [f"{row}.png" for row in range(40)], (40, 6)
    observed = np.where(random.random(shape) < 0.2, random.integers(0, 2, shape), -1)
    soft, predicted = random.random(shape), random.random(shape)
    has_soft = np.arange(40) < 25
    soft = np.where(has_soft[:, None], soft, predicted)
    run = write_run(
        tmp_path / "run", names, list("abcdef"), observed, soft, predicted, has_soft, k=1.7
    )
    content = json.loads((run / "decisions.json").read_text())
    content |= {"thresholds": [0.3, 0.4, 0.5, 0.6, None, 0.8], "shift": -0.4, **how}
    (run / "decisions.json").write_text(json.dumps(content))
    truth = LabelTable(tuple(names), tuple("abcdef"), (predicted > 0.6).astype(np.int8))
    write_held_out(run, {"validation": HeldOut(truth, predicted.astype(np.float32))})
    completed = complete_run(Run.open(run))
    found = opened(run).questions("random", 60)
    assert len(found) == 40
    for photo in found:
        for tag in photo["tags"]:
            said = completed.values[photo["row"], tag["column"]]
            assert tag["on"] == (said == 1)
            if tag["value"] == -1:
                chance = completed.scores[photo["row"], tag["column"]]
                assert tag["probability"] == pytest.approx(chance, abs=1e-3)  # float16 logits


def test_where_a_photo_has_one_class_one_tag_is_on(folder, opened):
    content = json.loads((folder / "decisions.json").read_text())
    (folder / "decisions.json").write_text(json.dumps(content | {"single_label": True}))
    review = opened(folder)
    assert review.state()["single_label"]
    found = review.questions("useful", 50)
    assert len(found) == 30
    for photo in found:
        known = [tag for tag in photo["tags"] if tag["value"] == 1]
        on = [tag for tag in photo["tags"] if tag["on"]]
        assert on == known or (not known and len(on) <= 1)


def test_all_that_is_on_is_shown_and_as_much_as_there_are_keys(folder, opened):
    review = opened(folder)
    for photo in review.questions("useful", 50):
        values, shown = review.values[photo["row"]], [tag["column"] for tag in photo["tags"]]
        completed = complete_run(Run.open(folder))
        chances, present = completed.scores[photo["row"]], completed.values[photo["row"]] == 1
        needed = (values == 1) | ((values == -1) & present)
        assert set(np.flatnonzero(needed)) <= set(shown)
        assert len(shown) == len(set(shown)) >= 9
        opens = [chances[tag["column"]] for tag in photo["tags"] if tag["value"] == -1]
        assert opens == sorted(opens, reverse=True)


# What is saved


def test_shown_tags_are_decided_and_nothing_else_is(folder, opened):
    review = opened(folder)
    (photo,) = review.questions("useful", 1)
    on, off = sides(photo)
    save(review, photo, 1)
    lines = in_force(read_decisions(folder))
    assert {(x.label, x.new) for x in lines} == {
        *((f"class {column}", 1) for column in on),
        *((f"class {column}", 0) for column in off),
    }
    assert {(x.id, x.image, x.order) for x in lines} == {(number(1), photo["image"], "photos")}
    after, before = reviewed_labels(folder).values, review.saved.observed
    changed = np.argwhere(after != before)
    assert {row for row, _ in changed} == {photo["row"]}
    assert set(changed[:, 1]) <= {*on, *off}
    assert review.progress() == {
        "answered": 1,
        "yes": len(on),
        "no": len(off),
        "skipped": 0,
        "limit": None,
    }
    assert photo["row"] not in [each["row"] for each in review.questions("useful", 50)]


def test_nothing_else_decides_every_other_class(folder, opened):
    review = opened(folder, classes=[f"class {each}" for each in range(12)])
    (photo,) = review.questions("useful", 1)
    on, _ = sides(photo)
    before = review.values[photo["row"]].copy()
    save(review, photo, 1, rest=True)
    after = reviewed_labels(folder).values[photo["row"]]
    assert after[:12].tolist() == [1 if column in on else 0 for column in range(12)]
    assert after[12:].tolist() == before[12:].tolist()  # not asked about here


def test_undo_takes_the_whole_photo_back(folder, opened):
    review = opened(folder)
    first, second = review.questions("useful", 2)
    save(review, first, 1)
    save(review, second, 2, rest=True)
    review.close()
    review = opened(folder)
    for _ in range(2):  # sent twice
        review.undo(number(3), number(2))
    assert review.questions("useful", 1) == [second]
    review.undo(number(4), number(1))
    with pytest.raises(InputError, match="not taken back"):
        review.undo(number(5), number(1))
    assert in_force(read_decisions(folder)) == []
    assert (review.values == review.saved.observed).all()
    assert review.progress()["answered"] == review.progress()["no"] == 0
    assert review.questions("useful", 2) == [first, second]


def test_a_skipped_photo_decides_nothing_and_does_not_come_again(folder, opened):
    review = opened(folder, limit=2)
    photo, _ = review.questions("useful", 5)
    review.save(number(1), photo["row"], {tag["column"]: "skip" for tag in photo["tags"]})
    assert np.array_equal(reviewed_labels(folder).values, review.saved.observed)
    (rest,) = review.questions("useful", 5)
    assert rest["row"] != photo["row"]
    save(review, rest, 2)
    assert review.questions("useful", 5) == []  # the limit counts photos


@pytest.mark.parametrize("undone", [False, True])
def test_lines_that_a_crash_cut_off_are_saved_when_the_answer_is_sent_again(folder, opened, undone):
    review = opened(folder)
    (photo,) = review.questions("useful", 1)

    def send():
        if undone:
            return review.undo(number(2), number(1))
        return save(review, photo, 1)

    save(review, photo, 1)
    start = len(read_decisions(folder)) if undone else 0
    send()
    review.close()
    path = folder / "review.jsonl"
    whole = [(each.label, each.new) for each in read_decisions(folder)]
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[: start + 4]) + lines[start + 4][:30])
    review = opened(folder)
    assert len(read_decisions(folder)) == start + 4
    if undone:
        with pytest.raises(InputError, match="not taken back"):
            review.undo(number(9), number(1))  # half of it is taken back already
    for _ in range(2):
        send()
        assert [(each.label, each.new) for each in read_decisions(folder)] == whole
    assert review.progress()["answered"] == 1 - undone


def test_the_id_of_a_photo_is_of_one_answer(folder, opened):
    rest = True
    review = opened(folder)
    review.save(number(1), 0, answers_of([0, 1], [2, 3]), rest=rest)
    review.save(number(2), 1, answers_of([0, 1], [2, 3]), rest=rest)
    before = (folder / "review.jsonl").read_bytes()
    others = [(0, [0], [2, 3]), (0, [0, 2], [1, 3]), (1, [0, 1], [2, 3])]
    for _ in range(2):  # the same after a new start
        review.save(number(1), 0, answers_of([0, 1], [2, 3]), rest=rest)
        for row, on, off in others:
            with pytest.raises(InputError, match="not saved: the id belongs to another answer"):
                review.save(number(1), row, answers_of(on, off), rest=rest)
        with pytest.raises(InputError, match="not saved"):
            review.save(number(1), 0, answers_of([0, 1], [2, 3]), rest=not rest)
        with pytest.raises(InputError, match="not saved"):
            review.save(number(1), 0, dict.fromkeys(range(4), "skip"))
        assert (folder / "review.jsonl").read_bytes() == before
        review.close()
        review = opened(folder)


def test_photos_and_questions_know_each_others_answers(folder, opened):
    review = opened(folder, kind="labels")
    (question,) = review.questions("useful", 1)
    row, column = question["row"], question["tags"][0]["column"]
    review.decide(number(1), row, column, "yes", "useful")
    review.close()
    review = opened(folder)
    assert review.progress()["answered"] == 0
    photo = next(x for x in review.questions("random", 50) if x["row"] == row)
    assert (column, 1) in [(tag["column"], tag["value"]) for tag in photo["tags"]]
    save(review, photo, 3, rest=True)
    review.close()
    review = opened(folder, kind="labels")
    assert row not in [each["row"] for each in review.questions("random", 500)]
    assert review.progress()["answered"] == 1
