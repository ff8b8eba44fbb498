"""README is one screen with a picture, and its numbers are those of the results."""

import re
from pathlib import Path

from test_architecture import ROOMS
from test_doc_commands import blocks

from g2netpl.core.methods import METHODS

ROOT = Path(__file__).parents[2]
README = ROOT / "README.md"


def cells(line):
    return [cell.strip(" *") for cell in line.strip("|").split("|")]


def test_readme_is_one_screen_with_a_picture():
    text = README.read_text(encoding="utf-8")
    assert len(README.read_bytes()) <= 6000
    assert re.search(r"^!\[.+\]\(docs/screens/.+\)$", text, flags=re.MULTILINE)
    targets = (ROOT / "Makefile").read_text(encoding="utf-8")
    makes = re.findall(r"^make (\w+)", "".join(blocks("sh", README)), flags=re.MULTILINE)
    assert {"demo", "test"} <= set(makes)
    for target in makes:
        assert f"\n{target}:" in targets
    assert f"[{len(METHODS)} methods](docs/reference/methods.md)" in text


def test_the_tree_of_readme_is_the_packages():
    (tree,) = blocks("text", README)
    first, *rest = tree.splitlines()
    assert first == "src/g2netpl/"
    rows = [re.fullmatch(r"  (\w+)/ +(\S.+)", line) for line in rest]
    assert tuple(row[1] for row in rows) == ROOMS


def test_the_numbers_of_readme_are_those_of_the_results():
    """Its four rows: ours, the best baseline of the paper, the best later method, full labels."""
    page = (ROOT / "docs/explanation/results.md").read_text(encoding="utf-8")
    coco = page[page.index("**COCO 2014**") : page.index("**VOC 2012**")]
    found = {}
    for line in coco.splitlines():
        if line.startswith("| `"):
            name, *numbers = cells(line)
            found[name.split("`")[1]] = [re.sub(r" ± [\d.]+", "", text) for text in numbers]

    def best(names, column):
        name = max(names, key=lambda name: float(found[name][column].split(" / ")[0]))
        return name, found[name][column]

    rows = [cells(line) for line in README.read_text(encoding="utf-8").splitlines() if "|" in line]
    ours, baseline, later, full = rows[2:]
    assert ours[1:] == found["g2netpl"]
    assert full[1:] == found["bce"]
    for row, names in ((baseline, ["an", "wan", "epr", "role"]), (later, ["em-apl", "plmcl"])):
        few, every = best(names, 0), best(names, 1)
        assert row[1:] == [few[1], every[1]]
        assert f"(`{few[0]}`; `{every[0]}`)" in row[0]
