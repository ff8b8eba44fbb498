"""Tables of results: means and deviations, and every number and name can be read."""

import io

import numpy as np
import pytest
from rich.console import Console

from g2netpl.reports.tables import results_table, summarise

LONG = "g2netpl:response=fixed:unobserved_weight=0.025"


def rows():
    """Two methods, two settings, three seeds; one run diverged."""
    made = []
    for number, method in enumerate(("an", LONG)):
        for place, setting in enumerate(("fspl", "positives:10+10@spml")):
            for seed in range(3):
                score = (50 + 10 * number + place + seed) / 100
                row = {"method": method, "setting": setting, "seed": seed, "test_map": score}
                row |= {"last_test_map": score / 2, "cf1": score / 4, "of1": score / 5}
                row |= {"learning_rate": 0.001, "batch_size": 8, "weight": ""}
                made.append(row | {"unresolved": number or None})
    return [*made[:-1], made[-1] | {"test_map": None, "diverged": "too large a step"}]


def test_means_and_deviations_leave_out_what_diverged():
    frame = summarise(rows()).set_index(["method", "setting"])
    whole, part = frame.loc["an", "fspl"], frame.loc[LONG, "positives:10+10@spml"]
    assert (whole["seeds"], whole["diverged"]) == (3, 0)
    assert whole["best epoch"] == pytest.approx(51)
    assert whole["± best"] == pytest.approx(np.std([50, 51, 52], ddof=1))
    assert np.isnan(whole["unresolved %"])
    assert (part["seeds"], part["diverged"], part["unresolved %"]) == (2, 1, 100)
    assert part["best epoch"] == pytest.approx(61.5)


@pytest.mark.parametrize("width", [80, 100, 200])
def test_every_number_and_every_name_is_in_the_terminal(width):
    console = Console(width=width, file=io.StringIO())
    console.print(results_table(rows()))
    shown = console.file.getvalue()
    assert "…" not in shown
    assert max(map(len, shown.splitlines())) <= width
    for text in ("51.0 ± 1.0", "25.5 ± 0.5", "61.5 ± 0.7", "1 of 12 runs diverged"):
        assert text in shown
    folded = "".join(line.split("│")[2].strip() for line in shown.splitlines() if "│" in line)
    assert folded.count(LONG) == 2
