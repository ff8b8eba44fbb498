"""Tables of results: every figure can be read, whatever the width."""

import io
import itertools
import re

import pytest
from rich.console import Console

from g2netpl.reports.tables import results_tables

METHODS = ("an", "g2netpl:response=fixed:unobserved_weight=0.025", "epr")
SETTINGS = ("fspl", "sspl:0.2", "sspl:0.4", "sspl:0.6", "sspl:0.8")
SEEDS = (0, 1)


def rows():
    places = itertools.product(range(len(METHODS)), range(len(SETTINGS)), SEEDS)
    return [
        {
            "method": METHODS[method],
            "setting": SETTINGS[setting],
            "seed": seed,
            "test_map": (50 + 10 * method + setting + 0.2 * seed) / 100,
            "last_test_map": (20 + 10 * method + setting + 0.2 * seed) / 100,
            "undecided": None if method else 1.0,
        }
        for method, setting, seed in places
    ]


@pytest.mark.parametrize("width", [60, 80, 100, 120, 200])
def test_every_figure_and_every_name_is_there(width):
    console = Console(width=width, file=io.StringIO())
    tables = results_tables(rows(), width)
    for table in tables:
        console.print(table)
    shown = console.file.getvalue()
    assert "…" not in shown
    assert max(len(line) for line in shown.splitlines()) <= width
    for method, setting in itertools.product(range(3), range(5)):
        assert len(re.findall(rf" {50 + 10 * method + setting}\.1 ± 0\.1", shown)) == 1
        assert f"last {20 + 10 * method + setting}.1 ± 0.1" in shown
    assert shown.count("100 % unresolved") == len(SETTINGS)
    for setting in SETTINGS:
        assert len(re.findall(rf"[┃ ] {setting} ┃", shown)) == 1
    folded = "".join(line.split("│")[1].strip() for line in shown.splitlines() if "│" in line)
    assert folded.count(METHODS[1]) == len(tables)
    assert (len(tables) == 1) == (width >= 150)


@pytest.mark.parametrize("width", [60, 80, 120])
def test_long_cells_do_not_push_the_names_away(width):
    """A seed that diverged makes a long line; a setting may have a long name."""
    short = [row | {"method": row["method"][:2]} for row in rows() if row["method"] != METHODS[2]]
    short[1]["diverged"] = "at once"
    for row in short:
        if row["setting"] == "sspl:0.8":
            row["setting"] = "positives:10+10@spml"
    console = Console(width=width, file=io.StringIO())
    for table in results_tables(short, width):
        console.print(table)
    shown = console.file.getvalue()
    assert "…" not in shown
    assert "1 of 2 seeds diverged" in shown
    assert "positives:10+10@spml" in shown
    assert re.search(r"┃ method ┃", shown)
    assert re.search(r"│ an +│", shown)
    assert re.search(r"│ g2 +│", shown)
