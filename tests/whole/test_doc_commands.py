"""Every command of README and the docs runs, in the order of its page, on small scenes."""

import csv
import os
import re
import shlex
import shutil
from contextlib import closing
from pathlib import Path
from uuid import uuid4

import numpy as np
import pytest
from PIL import Image

from g2netpl.cli import COMMANDS, CommandParser, main
from g2netpl.core import METHODS, plugins
from g2netpl.review.session import ReviewSession

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
NAMES = "|".join(COMMANDS)
SHORT = {
    "check": ["--workers", "0"],
    "train": ["--image-size", "64", "--epochs", "1", "--workers", "0", "--device", "cpu"],
    "features": ["--image-size", "32", "--workers", "0"],
    "compare": ["--seeds", "0", "--learning-rates", "1e-3", "--epochs", "1", "--jobs", "1"],
    "predict": ["--workers", "0"],
}
ELSEWHERE = (
    "s3://",
    "hf://",
    "--hub",
    "torchrun",
    "VOCdevkit",
    "mlflow",
    "digits/train",
    "/shared",
)
OTHER_TOOLS = {"--nproc_per_node", "--help", "--version"}


def blocks(language, page):
    text = page.read_text(encoding="utf-8")
    return re.findall(rf"```{language}\n(.*?)```", text, flags=re.DOTALL)


def commands(page):
    """The lines of a page that run g2netpl, and their words."""
    for block in blocks("sh", page):
        for line in block.replace("\\\n", " ").splitlines():
            found = re.search(rf"(?:^|\s)g2netpl ((?:{NAMES})\b[^#;]*)", line)
            if found:
                yield line, shlex.split(found[1])


def write_table(path, header, rows):
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([header, *rows])


KEYWORDS = """<x:xmpmeta xmlns:x="adobe:ns:meta/">
<rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#">
<rdf:Description xmlns:dc="http://purl.org/dc/elements/1.1/"><dc:subject><rdf:Bag>
<rdf:li>{}</rdf:li></rdf:Bag></dc:subject></rdf:Description></rdf:RDF></x:xmpmeta>"""


@pytest.fixture(scope="module")
def desk(photos, scenes, tmp_path_factory):
    """All files that the pages assume, by the names that they use."""
    desk = tmp_path_factory.mktemp("desk")
    for name in ("photos/spring", "photos/autumn", "new-photos", "archive", "new", "camera-trap"):
        (desk / name).mkdir(parents=True)
        for path in photos.glob("train-*.png" if name == "photos/spring" else "test-*.png"):
            shutil.copy(path, desk / name)
    for number, name in enumerate(("new", "1", "2", "3", "4")):
        picture = Image.effect_mandelbrot((64, 64), (-2, -1.5, 1, 1.5), 8 + 9 * number)
        picture.save(desk / f"photos/{name}.jpg")
    full, test = (
        re.sub(r"^(?=t)", f"{folder}/", (photos / name).read_text(encoding="utf-8"), flags=re.M)
        for folder, name in (("spring", "train.csv"), ("autumn", "test.csv"))
    )
    lines = full.splitlines()
    for name in ("full.csv", "photos/train.csv"):
        (desk / name).write_text(full)
    (desk / "test.csv").write_text(test)
    (desk / "checked.csv").write_text("\n".join([lines[0], *lines[-20:]]))
    names = [line.partition(",")[0] for line in lines[1:]]
    tags = [
        [name for name, value in zip(scenes.train.classes, row, strict=True) if value == 1]
        for row in scenes.train.values
    ]
    for name in ("labels.csv", "tags.csv", "all.csv"):
        rows = [(image, tag[0]) for image, tag in zip(names, tags, strict=True) if tag]
        write_table(desk / name, ("image", "labels"), rows[:50])
    for image, tag in list(zip(names, tags, strict=True))[:20]:
        (desk / f"photos/{image}.xmp").write_text(KEYWORDS.format(tag[0]))
    write_table(desk / "albums.csv", ("image", "group"), [(n, i // 3) for i, n in enumerate(names)])
    (desk / "classes.txt").write_text("dog\ncat\n")
    for name, images in (("scores.csv", names), ("new-scores.csv", os.listdir(desk / "new"))):
        write_table(desk / name, ("image", "one", "two"), [(n, 0.3, 0.6) for n in images])
    columns = scenes.train.classes
    rows = [
        (image, *(0.8 if name in tag else 0.2 for name in columns))
        for image, tag in zip(names, tags, strict=True)
    ]
    write_table(desk / "tagger.csv", ("image", *columns), rows)
    for folder in ("birds", "species-by-folder", "train"):
        for number, name in enumerate(names[:30]):
            (desk / folder / "abc"[number % 3]).mkdir(parents=True, exist_ok=True)
            shutil.copy(desk / "photos" / name, desk / folder / "abc"[number % 3])
    (desk / "my-features").mkdir()
    labels = scenes.train.values
    np.savez(desk / "my-features/train.npz", features=labels + 0.5, labels=labels)
    np.savez(desk / "my-features/meta.npz", classes=np.array(scenes.train.classes))
    shutil.copytree(desk / "my-features", desk / "features")
    shutil.copy(desk / "features/train.npz", desk / "features/test.npz")
    (desk / "run.toml").write_text('labels = "labels.csv"\nimages = "photos"\n')
    page = (ROOT / "docs/how-to/extend.md").read_text(encoding="utf-8")
    (desk / "trusting.py").write_text(re.findall(r"```python\n(.*?)```", page, re.DOTALL)[0])
    joined = (ROOT / "docs/reference/label-formats.md").read_text(encoding="utf-8")
    for column, name in ((0, "alice.csv"), (20, "bob.csv"), (49, "aliases.txt")):
        rows = re.search(r"```text\n(alice.csv .*?)```", joined, re.DOTALL)[1].splitlines()[1:]
        found = [row[column:].split("  ")[0].strip() for row in rows]
        (desk / name).write_text("".join(f"{text}\n" for text in found if text))
    assert main(["convert", str(desk / "labels.csv"), str(desk / "export.json")]) == 0
    trained = ["--labels", "labels.csv", "--images", "photos", *SHORT["train"], "--output"]
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(desk)
        patch.setenv("XDG_CACHE_HOME", str(desk / "cache"))
        assert main(["train", *trained, "runs/first"]) == 0
        assert main(["export", "runs/first", "--output", "birds.onnx"]) == 0
    shutil.copytree(desk / "runs/first", desk / "runs/second")
    return desk


@pytest.fixture
def folder(desk, tmp_path, monkeypatch):
    shutil.copytree(desk, tmp_path / "desk")
    monkeypatch.chdir(tmp_path / "desk")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "desk/cache"))
    monkeypatch.setattr(plugins, "LOADED", [])
    yield tmp_path / "desk"
    METHODS.pop("trusting", None)


@pytest.mark.parametrize(
    "page", [page for page in PAGES if list(commands(page))], ids=lambda page: page.stem
)
def test_commands_run(folder, page):
    for line, arguments in commands(page):
        name = arguments[0]
        parsed = CommandParser(name).read(arguments[1:])
        if any(word in line for word in ELSEWHERE):
            continue
        if name == "review" and not parsed.export:  # waits for a browser; one answer is given here
            with closing(ReviewSession(arguments[1])) as review:
                (question,) = review.questions("useful", 1)
                column = question["tags"][0]["column"]
                review.decide(uuid4().hex, question["row"], column, "yes", "useful")
            continue
        output = parsed.target if name == "convert" else getattr(parsed, "output", None)
        if output and name != "complete" and Path(output).exists() and "--overwrite" not in line:
            shutil.move(output, f"{output}.of-an-earlier-page")
        short = SHORT.get(name, [])
        if name == "compare" and "--labels" in arguments:
            short = [*short, "--set", "image_size=32", "--set", "workers=0"]
        if "lp-ft" in arguments:
            short = [*short, "--set", "linear_epochs=1"]
        assert main([*arguments, *short]) == 0, line


def test_flags_in_the_text_exist():
    """Of every inline piece of code in the docs; those of blocks are parsed above."""
    known = set(OTHER_TOOLS)
    for name in COMMANDS:
        known |= CommandParser(name)._option_string_actions.keys()
    for page in [*PAGES, ROOT / "CONTRIBUTING.md", ROOT / "SECURITY.md"]:
        text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
        for code in re.findall(r"`([^`\n]+)`", text):
            assert set(re.findall(r"(?<!\S)--[a-z][\w-]*", code)) <= known, (page.name, code)
