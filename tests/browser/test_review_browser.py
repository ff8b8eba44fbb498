"""The review page in a real browser. `make browser-test` installs what it needs."""

import json
import os
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from review_runs import Page, Served, random_run, write_photos, write_run
from test_review_security import CLASSES as HOSTILE_CLASSES
from test_review_security import HOSTILE

from g2netpl.reports.run import write_run_report
from g2netpl.runs.answers import in_force, read_decisions, reviewed_labels
from g2netpl.runs.run import Run

HERE = Path(__file__).parent
NODE = shutil.which("node")
CHROMIUM = os.environ.get("CHROMIUM") or next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)
MISSING = [
    name
    for name, there in (
        ("node", NODE),
        ("chromium", CHROMIUM),
        ("playwright-core", (HERE / "node_modules" / "playwright-core").is_dir()),
        ("axe-core", (HERE / "node_modules" / "axe-core").is_dir()),
    )
    if not there
]
pytestmark = pytest.mark.skipif(
    bool(MISSING), reason=f"{', '.join(MISSING)} not there (make browser-test)"
)


class Browser:
    """One browser with one page; every call is a step of review.mjs."""

    def __init__(self):
        self.process = subprocess.Popen(
            [NODE, str(HERE / "review.mjs"), CHROMIUM],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def __getattr__(self, step):
        def take(**given):
            self.process.stdin.write(json.dumps({"step": step, **given}) + "\n")
            self.process.stdin.flush()
            answer = json.loads(self.process.stdout.readline())
            assert "problem" not in answer, answer
            return answer["result"]

        return take

    def close(self):
        self.process.stdin.close()
        self.process.wait(120)
        self.process.stdout.close()


@pytest.fixture
def browser():
    browser = Browser()
    yield browser
    browser.close()


ANSWERS = {"y": "yes", "n": "no", "s": "skip", "ArrowRight": "yes", "ArrowLeft": "no"}


def saved(folder):
    return [(x.image, x.label, x.action) for x in in_force(read_decisions(folder))]


def answered(given):
    return [(image, label, ANSWERS[key]) for image, label, key in given]


def test_two_hundred_decisions_a_reload_and_a_kill_lose_nothing(tmp_path, browser):
    folder = random_run(tmp_path, images=80, classes=12)
    keys = ["y", "n", "s", "ArrowRight", "ArrowLeft"] * 20
    with Page(folder, "--limit", "200") as page:
        browser.open(address=page.address)
        assert "#" not in browser.see()["address"]  # the token does not stay in sight
        given = browser.answer(keys=keys[:60])
        browser.reload()
        given += browser.answer(keys=keys[:60])
        browser.settled()
        assert saved(folder) == answered(given)
        assert browser.see()["counts"].startswith("120 of 200 answered")
        page.kill()
        given += browser.answer(keys=["y", "n", "s"])  # nobody is there to save them
        browser.lost()
        assert "3 answers are kept in this tab" in browser.see()["alert"]
        assert len(saved(folder)) == 120
        port = page.port
    with Page(folder, "--limit", "200", port=port) as page:
        browser.lost()  # the old token is worth nothing
        browser.follow(address=page.address)
        browser.settled()
        assert saved(folder) == answered(given)
        given += browser.answer(keys=keys[:77])
        browser.settled()
        seen = browser.see()
    assert saved(folder) == answered(given)
    assert len(given) == len({(image, label) for image, label, _ in given}) == 200
    assert seen["counts"].startswith("200 of 200 answered")
    assert "limit is reached" in seen["question"]
    assert browser.faults() == []


def test_answers_are_kept_while_the_file_is_away(tmp_path, browser):
    folder = random_run(tmp_path)
    path = folder / "review.jsonl"
    with Served(folder) as page:
        browser.open(address=page.address)
        given = browser.answer(keys=["y"])
        browser.settled()
        path.rename(tmp_path / "aside")
        given += browser.answer(keys=["s", "y"])
        browser.lost()
        alert = browser.see()["alert"]
        assert alert.startswith("not saved: ")
        assert "2 answers are kept in this tab" in alert
        assert f"--port {page.port}" in alert
        assert not path.exists()
        (tmp_path / "aside").rename(path)
        browser.settled()
    assert saved(folder) == answered(given)
    assert browser.faults() == []


def test_undo_goes_back_several_steps(tmp_path, browser):
    folder = random_run(tmp_path)
    with Served(folder) as page:
        browser.open(address=page.address)
        given = browser.answer(keys=["y", "n", "y", "n"])
        for step in (3, 2, 1):
            browser.press(key="u")
            browser.settled()
            seen = browser.see()
            assert [seen["image"], seen["label"]] == given[step][:2]
            assert seen["status"] == f"Taken back: {given[step][1]}"
        again = browser.answer(keys=["s"])
        assert again[0][:2] == given[1][:2]
        browser.settled()
    assert saved(folder) == answered([given[0], again[0]])
    assert browser.faults() == []


def test_undo_leaves_the_answers_of_another_tab(tmp_path, browser):
    folder, other = random_run(tmp_path), Browser()
    try:
        with Served(folder) as page:
            browser.open(address=page.address)
            mine = browser.answer(keys=["y"])
            browser.settled()
            other.open(address=page.address)
            other.press(key="u")  # this tab has given no answer
            other.ready()
            theirs = other.answer(keys=["n"])
            other.settled()
            browser.press(key="u")
            browser.lost()
            assert browser.see()["alert"].startswith("not taken back: another tab")
            assert saved(folder) == answered([*mine, *theirs])
            other.press(key="u")
            other.settled()
            assert saved(folder) == answered(mine)
            browser.press(key="u")
            browser.settled()
            assert browser.see()["status"] == f"Taken back: {mine[0][1]}"
        assert saved(folder) == []
        assert browser.faults() == other.faults() == []
    finally:
        other.close()


def test_hostile_names_are_shown_as_they_are(tmp_path, browser):
    write_photos(tmp_path / "photos", HOSTILE)
    shape = (len(HOSTILE), len(HOSTILE_CLASSES))
    soft = np.linspace(0.2, 0.8, shape[0] * shape[1]).reshape(shape)
    folder = write_run(
        tmp_path / "run", HOSTILE, HOSTILE_CLASSES, np.full(shape, -1), soft, 1 - soft
    )
    shown = set()
    with Served(folder) as page:
        browser.open(address=page.address)
        plain = browser.see()["elements"]
        for _ in range(soft.size - 1):
            (question,) = browser.answer(keys=["n"])
            shown.add(tuple(question[:2]))
            seen = browser.see()
            assert seen["marked"] is None
            assert seen["elements"] == plain
    assert {image for image, _ in shown} == set(HOSTILE)
    assert {label for _, label in shown} == set(HOSTILE_CLASSES)
    assert browser.faults() == []


def test_the_class_filter_survives_a_reload(tmp_path, browser):
    folder = random_run(tmp_path)
    with Served(folder) as page:
        browser.open(address=page.address)
        browser.choose(selector="#class", value="3")
        given = browser.answer(keys=["y", "y"])
        browser.reload()
        assert browser.see()["label"] == "class 3"
        browser.settled()
    assert {label for _, label, _ in given} == {"class 3"}
    assert len(saved(folder)) == 2


FILTERS = ("show-help", "order", "class", "enlarge")
BUTTONS = {
    "labels": ("yes", "no", "skip", "undo"),
    "photos": ("find", "save", "rest", "skip", "undo"),
}


@pytest.mark.parametrize("ask", BUTTONS)
def test_accessibility(tmp_path, browser, ask):
    with Served(random_run(tmp_path), ask, 50) as page:
        browser.open(address=page.address)
        browser.press(key="y" if ask == "labels" else "Enter")
        browser.settled()
        reached = browser.tabs(count=len(browser.see()["tags"]) + 4 + len(BUTTONS[ask]))
        assert [name for name, _ in reached if name] == [*FILTERS, *BUTTONS[ask]]
        assert all(is_visible for _, is_visible in reached)
        if ask == "photos":
            browser.press(key="/")
            browser.type(text="zeb")
        check_axe(browser)
        browser.press(key="Escape")
        browser.press(key="?")
        assert browser.axe(scheme="light", width=1280, height=800)["faults"] == []


def check_axe(browser):
    """No fault of accessibility, and nothing wider than the window."""
    for scheme in ("light", "dark"):
        for width, height in ((1280, 800), (390, 844), (320, 568)):
            found = browser.axe(scheme=scheme, width=width, height=height)
            assert found == {"faults": [], "wide": False}, (scheme, width)


def test_the_report_of_a_run(tmp_path, browser, small_run):
    path = write_run_report(small_run, tmp_path / "report.html")
    browser.read(address=path.as_uri())
    check_axe(browser)
    assert browser.faults() == []


def decided(folder):
    """What stands in the log, photo by photo: what is there, and what is not."""
    photos = {}
    for each in in_force(read_decisions(folder)):
        photos.setdefault(each.image, {})[each.label] = each.new == 1
    return photos


def test_photos_by_keys(tmp_path, browser):
    """What is on and off on the screen is what is saved, photo by photo."""
    folder = random_run(tmp_path, images=20, classes=12)
    with Served(folder, "photos", 6) as page:
        browser.open(address=page.address)
        given = {}
        for keys in (["1", "3", "Enter"], ["Enter"], ["2", "2", "9", "Enter"]):
            browser.ready()
            for key in keys[:-1]:
                browser.press(key=key)
            seen = browser.see()
            given[seen["image"]] = seen["tags"]
            browser.press(key=keys[-1])
        browser.settled()
        assert decided(folder) == given
        assert browser.see()["counts"].startswith("3 of 6 answered")
        browser.ready()
        seen = browser.see()
        browser.press(key="0")  # nothing else
        browser.settled()
        on = [name for name, pressed in seen["tags"].items() if pressed]
        whole = decided(folder)[seen["image"]]
        assert [name for name, there in whole.items() if there] == on
        table = reviewed_labels(folder)
        assert (table.values[table.images.index(seen["image"])] >= 0).all()
        browser.press(key="u")
        browser.settled()
        again = browser.see()
        assert again["image"] == seen["image"]
        assert [name for name, pressed in again["tags"].items() if pressed] == on
        assert decided(folder) == given
        browser.press(key="s")
        browser.settled()
        assert np.array_equal(
            reviewed_labels(folder).values[table.images.index(seen["image"])],
            Run.open(folder).observed().values[table.images.index(seen["image"])],
        )
    assert browser.faults() == []


def test_photos_by_clicks_and_search(tmp_path, browser):
    names, shape = [f"{row}.png" for row in range(20)], (20, 40)
    write_photos(tmp_path / "photos", names)
    soft = np.random.default_rng(0).random(shape) ** 8  # few are likely
    classes = [f"class {column}" for column in range(40)]
    folder = write_run(tmp_path / "run", names, classes, np.full(shape, -1), soft, soft)
    with Served(folder, "photos") as page:
        browser.open(address=page.address)
        first = browser.see()
        other = next(
            f"class {each}" for each in range(10, 40) if f"class {each}" not in first["tags"]
        )
        browser.click(selector=".tag")
        assert browser.see()["focus"] == "question"  # Enter is to save now
        browser.press(key="/")
        browser.type(text=other[2:])
        assert browser.see()["found"][0] == other
        browser.press(key="Enter")
        browser.press(key="/")
        browser.type(text="zebra")
        assert browser.see()["found"] == []
        browser.press(key="Enter")
        browser.press(key="Escape")
        seen = browser.see()
        assert seen["focus"] == "question"
        name = next(iter(first["tags"]))
        assert seen["tags"] == first["tags"] | {name: not first["tags"][name], other: True}
        browser.press(key="Enter")
        browser.settled()
        assert decided(folder)[seen["image"]] == seen["tags"]
        browser.press(key="u")
        browser.settled()
        assert browser.see()["tags"] == seen["tags"]
        browser.press(key="Enter")
        browser.reload()
        browser.settled()
        assert decided(folder)[seen["image"]] == seen["tags"]
    assert browser.faults() == []


def test_tags_out_of_sight_are_shown_before_they_are_saved(tmp_path, browser):
    folder = random_run(tmp_path, images=10, classes=30)
    with Served(folder, "photos") as page:
        browser.size(width=390, height=500)
        browser.open(address=page.address)
        browser.press(key="Enter")
        assert "Look at them, then save" in browser.see()["status"]
        assert decided(folder) == {}
        seen = browser.see()
        browser.press(key="Enter")
        browser.settled()
        assert decided(folder) == {seen["image"]: seen["tags"]}
