"""The review: which questions come first, and that no decision is ever lost or mistaken."""

import errno
import json
import os
import secrets
import threading

import numpy as np
import pytest
from review_runs import (
    CLASSES,
    IMAGES,
    Page,
    Served,
    random_run,
    small_run,
)

from g2netpl import read_labels
from g2netpl.cli import main
from g2netpl.review import session as review_session
from g2netpl.review.log import AnswerLog
from g2netpl.review.session import ReviewSession
from g2netpl.runs.answers import (
    Decision,
    in_force,
    read_decisions,
    reviewed_labels,
)
from g2netpl.runs.completion import complete_run
from g2netpl.runs.run import Run
from g2netpl.utils.errors import InputError


@pytest.fixture
def small(tmp_path):
    return small_run(tmp_path)


@pytest.fixture
def opened():
    """Opens reviews and closes them again."""
    kept = []

    def open_review(*arguments, **more):
        kept.append(ReviewSession(*arguments, **more))
        return kept[-1]

    yield open_review
    for review in kept:
        review.close()


def asked(review, order, **more):
    return [shown(question) for question in review.questions(order, 20, **more)]


def shown(question):
    (tag,) = question["tags"]
    return question["image"][0] + tag["name"][0]


def place(question):
    return question["row"], question["tags"][0]["column"]


def number(count):
    return f"{count:032x}"


# The order of the questions


def test_orders_against_values_worked_out_by_hand(small, opened):
    review = opened(small)
    # u = 4p(1 − p): ant x 1, y 0.64, z 0.64 with 1 positive known: 1/2, 0.64/3, 0.64/4;
    # bee w 1, z 0.96, x 0.36 with none known: 1/1, 0.96/2, 0.36/3
    assert asked(review, "useful") == ["wb", "xa", "zb", "ya", "za", "xb"]
    # |soft − predicted|: wb 0.25, xa 0, xb 0.4, ya 0.55, za 0.05, zb 0.1
    assert asked(review, "disagreement") == ["ya", "xb", "wb", "zb", "za", "xa"]
    # observed: wa 1 against 0.25, yb 0 against 0.875
    assert asked(review, "doubtful") == ["yb", "wa"]
    assert sorted(asked(review, "random")) == ["wb", "xa", "xb", "ya", "za", "zb"]
    assert asked(review, "random") == asked(review, "random")


def test_classes_narrow_the_questions(small, opened):
    review = opened(small)
    assert asked(review, "useful", column=0) == ["xa", "ya", "za"]
    review.close()
    assert asked(opened(small, classes=["bee"]), "useful") == ["wb", "zb", "xb"]
    with pytest.raises(InputError, match=r"--classes: unknown class 'bea' \(did you mean 'bee'"):
        ReviewSession(small, classes=["bea"])


def test_an_unreadable_image_is_never_asked_about(small, opened):
    for name in ("soft_labels.npy", "logits.npy"):
        values = np.load(small / name)
        values[1] = np.nan
        np.save(small / name, values)
    review = opened(small)
    for order in ("useful", "disagreement", "random"):
        assert {each[0] for each in asked(review, order)} == {"w", "y", "z"}


@pytest.mark.parametrize("name", ["_RANKED", "_QUEUE"])
@pytest.mark.parametrize("ask", ["labels", "photos"])
def test_every_question_comes_though_some_are_ranked_at_a_time(
    tmp_path, opened, monkeypatch, name, ask
):
    monkeypatch.setattr(review_session, name, 12)
    review = opened(random_run(tmp_path, images=20, classes=4), ask)
    total = int((review.values == -1).sum()) if ask == "labels" else 20
    rows = set()
    for count in range(total):
        (question,) = review.questions("useful", 1)
        columns = [tag["column"] for tag in question["tags"] if tag["value"] == -1]
        answers = dict.fromkeys(columns, "no")
        review.save(number(count), question["row"], answers, order=question["order"])
        rows.add((question["row"], *columns))
    assert len(rows) == total
    assert review.questions("useful", 1) == []


# Decisions


def test_decisions_are_lines_with_time_old_and_new_value(small, opened):
    review = opened(small)
    for count, answer in enumerate(("yes", "no", "skip")):
        (q,) = review.questions("useful", 1)
        review.decide(number(count), *place(q), answer, "useful")
    lines = [json.loads(line) for line in (small / "review.jsonl").read_text().splitlines()]
    assert [(x["image"], x["class"], x["old"], x["new"], x["action"]) for x in lines] == [
        ("w.png", "bee", -1, 1, "yes"),
        ("x.png", "ant", -1, 0, "no"),
        ("z.png", "bee", -1, -1, "skip"),
    ]
    assert all(x["time"].endswith("Z") and x["order"] == "useful" for x in lines)
    assert asked(review, "useful") == ["ya", "za", "xb"]
    assert review.progress() == {
        "answered": 3,
        "yes": 1,
        "no": 1,
        "skipped": 1,
        "limit": None,
    }


def test_undo_goes_back_step_by_step_and_across_a_restart(small, opened):
    review = opened(small)
    before = asked(review, "useful")
    for count in range(4):
        (q,) = review.questions("useful", 1)
        review.decide(number(count), *place(q), "yes", "useful")
    review.undo(number(10), number(3))
    review.close()
    review = opened(small)
    assert asked(review, "useful") == before[3:]
    for answer in (2, 1, 0):
        review.undo(number(20 + answer), number(answer))
    with pytest.raises(InputError, match="not taken back"):
        review.undo(number(30), number(0))
    assert asked(review, "useful") == before
    assert (review.values == review.saved.observed).all()
    lines = (small / "review.jsonl").read_text().splitlines()
    assert len(lines) == 8  # nothing was removed
    assert [(x.old, x.new) for x in read_decisions(small)[-4:]] == [(1, -1)] * 4
    assert in_force(read_decisions(small)) == []


def test_an_undo_takes_back_its_own_answer_or_none(small, opened):
    """Two tabs: the answer that one of them gave is not taken back by the other."""
    review = opened(small)
    questions = review.questions("useful", 2)
    for count, question in enumerate(questions, 1):
        review.decide(number(count), *place(question), "yes", "useful")
    for answer in (number(1), number(7)):  # of another tab, of nobody
        with pytest.raises(InputError, match="not taken back: "):
            review.undo(number(10), answer)
    review.undo(number(11), number(2))
    for _ in range(2):  # sent again
        review.undo(number(20), number(1))
    for id, answer in ((number(20), number(2)), (number(21), number(1))):
        with pytest.raises(InputError):
            review.undo(id, answer)
    assert in_force(read_decisions(small)) == []
    assert len(read_decisions(small)) == 4


@pytest.mark.parametrize("cut", [20, -1])
def test_a_torn_last_line_is_skipped(small, opened, cut):
    review = opened(small)
    for count in range(3):
        review.decide(number(count), count, 0, "yes", "useful")
    review.close()
    path = small / "review.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    torn = lines[2][:cut]
    path.write_bytes(b"".join(lines[:2]) + torn)
    kept = 2
    assert len(read_decisions(small)) == kept  # reading changes nothing
    assert path.read_bytes().endswith(torn)
    review = opened(small)
    assert review.log.is_torn
    assert review.progress()["answered"] == kept
    review.decide(number(9), 3, 1, "no", "useful")
    review.close()
    assert [x.id for x in read_decisions(small)] == [*map(number, range(kept)), number(9)]
    assert path.read_bytes().startswith(b"".join(lines[:kept]))


@pytest.mark.parametrize(
    "line",
    [
        "nonsense",
        '{"id": "1", "time": "t", "action": "yes", "image": "w.png", "class": "bee", '
        '"old": -1, "new": 7, "order": "useful"}',
    ],
)
def test_a_damaged_line_in_the_middle_stops_everything_and_changes_nothing(small, opened, line):
    review = opened(small)
    review.decide(number(1), 0, 1, "yes", "useful")
    review.close()
    path = small / "review.jsonl"
    path.write_text(line + "\n" + path.read_text())
    before = path.read_bytes()
    with pytest.raises(InputError, match=r"review\.jsonl:1: not a decision"):
        ReviewSession(small)
    assert main(["review", str(small), "--export", str(small / "out.csv")]) == 2
    assert path.read_bytes() == before


def decision(id, action, old, new, image="w.png", label="bee"):
    names = {"image": image, "class": label}
    return Decision(id=id, time="now", action=action, old=old, new=new, order="useful", **names)


def test_decisions_of_another_run_are_refused(small, opened):
    review = opened(small)
    review.decide(number(1), 0, 1, "yes", "useful")
    review.close()
    content = json.loads((small / "run.json").read_text()) | {"classes": ["ant", "wasp"]}
    (small / "run.json").write_text(json.dumps(content))
    with pytest.raises(InputError, match="has an answer about class 'bee', which the labels lack"):
        ReviewSession(small)
    with pytest.raises(InputError, match="class 'bee'"):
        reviewed_labels(small)
    undo = decision("1", "undo", 1, -1)
    with pytest.raises(InputError, match="does not follow the answer"):
        in_force([undo])


def test_two_reviews_of_a_run_do_not_mix(small, opened, capsys):
    opened(small)
    with pytest.raises(InputError, match="another g2netpl process uses it"):
        ReviewSession(small)
    assert main(["review", str(small), "--no-browser"]) == 2
    assert "wait, or stop it" in capsys.readouterr().err


def test_a_full_disk_loses_nothing_and_spoils_nothing(small, opened, monkeypatch):
    review = opened(small)
    review.decide(number(1), 0, 1, "yes", "useful")
    write = os.write

    def full(file, content):
        write(file, content[:30])
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "write", full)
    with pytest.raises(OSError, match="No space left"):
        review.decide(number(2), 1, 0, "no", "useful")
    assert review.progress()["answered"] == 1
    assert review.values[1, 0] == -1
    monkeypatch.undo()
    review.decide(number(2), 1, 0, "no", "useful")
    assert [(x.image, x.new) for x in read_decisions(small)] == [("w.png", 1), ("x.png", 0)]


def test_a_line_is_on_the_disk_before_anybody_is_told(small, monkeypatch):
    events = []
    log = AnswerLog(small)
    fsync = os.fsync
    monkeypatch.setattr(os, "fsync", lambda file: (events.append("fsync"), fsync(file))[1])
    log.append(decision(number(1), "yes", -1, 1))
    log.close()
    assert events == ["fsync"]


# The file in other hands


def replace(path, content):
    """As programs do that keep folders in step: a new file takes the name."""
    path.with_name("other").write_bytes(content)
    os.replace(path.with_name("other"), path)


DISTURBED = {
    "removed": lambda path, _: path.unlink(),
    "replaced by an older one": lambda path, held: replace(path, held[: held.index(b"\n") + 1]),
    "longer by a line": lambda path, held: path.write_bytes(held + held.splitlines(True)[1]),
}


@pytest.mark.parametrize("how", DISTURBED)
def test_nothing_is_called_saved_in_a_file_that_is_another_one(small, opened, how):
    review = opened(small)
    review.decide(number(1), 0, 1, "yes", "useful")
    review.decide(number(2), 1, 1, "yes", "useful")
    path = small / "review.jsonl"
    held = path.read_bytes()
    DISTURBED[how](path, held)
    before = path.read_bytes() if path.is_file() else None
    for _ in range(2):  # the page tries again and again
        with pytest.raises(OSError, match="another program has removed, replaced or changed it"):
            review.decide(number(3), 2, 1, "no", "useful")
        with pytest.raises(OSError, match="put it back, or restart g2netpl review"):
            review.undo(number(4), number(2))
    assert (path.read_bytes() if path.is_file() else None) == before  # nor is it touched
    assert review.progress()["answered"] == 2
    assert review.values[2, 1] == 0
    review.close()
    replace(path, held)
    assert opened(small).progress()["answered"] == 2


# Export


def test_export_and_the_readers_agree(small, opened, capsys):
    review = opened(small)
    answers = {("w.png", "bee"): "yes", ("x.png", "ant"): "no", ("y.png", "bee"): "yes"}
    for count, ((image, label), answer) in enumerate(answers.items()):
        row, column = IMAGES.index(image), CLASSES.index(label)
        review.decide(number(count), row, column, answer, "useful")
    review.decide(number(7), 3, 0, "skip", "random")
    review.decide(number(8), 3, 1, "yes", "random")
    review.undo(number(9), number(8))
    expected = [[1, 1], [0, -1], [-1, 1], [-1, -1]]
    assert reviewed_labels(small).values.tolist() == expected
    for name, more in (("a.csv", []), ("b.parquet", []), ("c.json", ["--to", "label-studio"])):
        target = small.parent / name
        assert main(["review", str(small), "--export", str(target), *more]) == 0  # while it is open
        table = read_labels(target)
        order = [table.classes.index(each) for each in CLASSES]
        assert list(table.images) == IMAGES
        assert table.values[:, order].tolist() == expected
    out = capsys.readouterr().out
    assert "3 labels answered in review, 3 of them new or changed" in out
    assert "--expected-positives 1.12 --validation 0" in out  # (1.5 + 1.4 + 0.2 + 1.4) / 4
    assert main(["review", str(small), "--export", str(small.parent / "a.csv")]) == 2
    again = ["review", str(small), "--export", str(small.parent / "a.csv"), "--overwrite"]
    assert main(again) == 0


def test_groups_stay_with_the_exported_labels(small, tmp_path):
    arrays = dict(np.load(small / "labels.npz"))
    np.savez(small / "labels.npz", **arrays, groups=np.array(["album", "", "album", ""]))
    assert main(["review", str(small), "--export", str(tmp_path / "reviewed.csv")]) == 0
    assert read_labels(tmp_path / "reviewed.csv").groups == ("album", "", "album", "")


def test_an_answered_class_takes_the_place_of_another_if_photos_have_one(small):
    about = json.loads((small / "run.json").read_text())
    about["config"]["single_label"] = True
    (small / "run.json").write_text(json.dumps(about))
    rules = json.loads((small / "decisions.json").read_text())
    (small / "decisions.json").write_text(json.dumps(rules | {"single_label": True}))
    (best,) = np.flatnonzero(complete_run(Run.open(small)).values[3] == 1)
    answer = decision("1", "yes", -1, 1, "z.png", CLASSES[1 - best])
    (small / "review.jsonl").write_bytes(answer.to_line())
    tags, _ = complete_run(Run.open(small)).as_tags(reviewed_labels(small))
    assert tags.values[3].tolist() == [int(column != best) for column in range(2)]


# The command


def test_kill_nine_loses_no_answer_that_was_confirmed(tmp_path):
    folder = random_run(tmp_path, images=60, classes=10)
    confirmed, lock, enough = set(), threading.Lock(), threading.Event()
    with Page(folder) as page:
        questions = page.next(20) + page.next(20, "random")

        def answer(part):
            for question in part:
                try:
                    page.decide(question, "no")
                except OSError:
                    return
                with lock:
                    confirmed.add((question["image"], question["tags"][0]["name"]))
                    if len(confirmed) > 8:
                        enough.set()

        threads = [threading.Thread(target=answer, args=(questions[n::4],)) for n in range(4)]
        for thread in threads:
            thread.start()
        assert enough.wait(120)
        page.kill()
        for thread in threads:
            thread.join()
    assert confirmed <= {(x.image, x.label) for x in read_decisions(folder)}


def test_the_command_reports_what_was_saved(small, monkeypatch, capsys):
    def review(*answers):
        """What the command prints, if these answers are given before Ctrl-C."""

        def serve(server):
            for answer in answers:
                (question,) = server.session.questions("useful", 1)
                server.session.decide(secrets.token_hex(16), *place(question), answer, "useful")
            raise KeyboardInterrupt

        monkeypatch.setattr("g2netpl.review.server.ReviewServer.serve_forever", serve)
        assert main(["review", str(small), "--no-browser"]) == 0
        return " ".join(capsys.readouterr().out.split())

    text = review()
    assert f"No answers yet. To continue: g2netpl review {small}" in text
    assert "To train with them" not in text
    text = review("yes", "no", "yes")
    assert "3 answers saved in" in text
    assert "2 yes, 1 no, 0 skipped" in text
    assert "--export labels.csv" in text
    path = small / "review.jsonl"
    path.write_bytes(path.read_bytes() + b'{"id": "0123456789abcdef", "ti')
    text = review()
    assert f"warning: skipped the incomplete last line of {path}" in text
    assert "3 answers from earlier reviews" in text


def test_the_browser_gets_the_token_through_a_file_that_only_we_can_read(tmp_path, monkeypatch):
    from g2netpl.commands.review import _open

    shown = []
    monkeypatch.setattr("webbrowser.open", shown.append)
    monkeypatch.setenv("DISPLAY", ":0")
    page = tmp_path / "review-open.html"
    page.write_text("left by an earlier start")
    _open("http://127.0.0.1:1/#token", page)
    assert shown == [page.as_uri()]  # others can read command lines, not this file
    assert page.stat().st_mode & 0o777 == 0o600
    assert 'url=http://127.0.0.1:1/#token"' in page.read_text()


@pytest.mark.parametrize(
    ("flags", "text"),
    [
        (["--limit", "0"], "--limit: must be 1 or more"),
        (["--port", "80"], "--port: must be 0"),
        (["--images", "nowhere"], "is --images the right folder"),
        (["--classes", "cow"], "--classes: unknown class 'cow'"),
        (["--export", "labels.xyz"], "unknown format; use --to"),
    ],
)
def test_mistakes_are_told_in_one_line(small, capsys, monkeypatch, flags, text):
    monkeypatch.chdir(small)
    assert main(["review", str(small), "--no-browser", *flags]) == 2
    error = capsys.readouterr().err
    assert text in error
    assert error.count("\n") == 1


def test_folders_that_are_no_finished_training_are_refused(small, capsys):
    (small / "result.json").unlink()
    assert main(["review", str(small), "--no-browser"]) == 2
    assert "not finished" in capsys.readouterr().err
    (small / "result.json").write_text("{}")
    np.save(small / "soft_labels.npy", np.zeros((2, 2), dtype=np.float32))
    assert main(["review", str(small), "--no-browser"]) == 2
    assert "soft_labels.npy: cannot be read (expected shape (4, 2), got" in capsys.readouterr().err
    (small / "soft_labels.npy").write_bytes(b"")
    assert main(["review", str(small), "--no-browser"]) == 2
    assert "cannot be read" in capsys.readouterr().err
    assert main(["review", str(small / "nothing"), "--no-browser"]) == 2


def test_a_port_that_is_taken_is_an_error(tmp_path, capsys):
    one, other = random_run(tmp_path / "one"), random_run(tmp_path / "other")
    with Served(one) as served:
        assert main(["review", str(other), "--no-browser", "--port", str(served.port)]) == 2
    assert "cannot be used" in capsys.readouterr().err
