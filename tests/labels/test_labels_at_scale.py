"""Few labels on many images and classes: nothing may become a matrix of all of them."""

import subprocess
import sys

import numpy as np
import pytest

IMAGES, CLASSES = 200_000, 10_000  # 2 GB as a matrix

LOAD = """
import re, resource, sys
from pathlib import Path
import numpy as np
import torch
from g2netpl.images.inspection import inspect_labels
from g2netpl.commands.labelling import share_of_labels
from g2netpl.runs.metrics import can_rank
from g2netpl.training.expected_positives import from_both_signs, from_complete
from g2netpl.labels.formats import Reading, read_labels
from g2netpl.game.player import Setup
from g2netpl.game.methods import make_player
from g2netpl.game.observed import ObservedLabels
from g2netpl.labels.settings import Setting, observe

def kilobytes(what):
    return int(re.search(rf"{what}:\\s+(\\d+)", Path("/proc/self/status").read_text())[1])

limit = (kilobytes("VmSize") << 10) + (400 << 20)
resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
before = kilobytes("RssAnon")
path = sys.argv[1]
table = read_labels(path)
images, classes = table.held.shape
assert not table.is_complete and table.labelled.all()
assert abs(table.observed_fraction * classes - table.known / images) < 1e-9
assert share_of_labels(table).startswith("200,000 images")
assert can_rank(table.held)
assert from_complete(table.held) is None
from_both_signs(table.held)
print("fingerprint", table.fingerprint())
visible = observe(table.with_unlabelled(["one more"]), Setting.parse("own"), 0)
half = visible.take(np.arange(0, images, 2))
observed = ObservedLabels.of(visible.held)
player = make_player("an", {}, Setup(observed, 3.0, 1e-3))
rows = observed.rows(torch.tensor([0, images // 2, images]))
print("rows", [[int(n) for n in (row >= 0).nonzero()] for row in rows])
print("grown", (kilobytes("RssAnon") - before) >> 10)
found = inspect_labels(path, None, Reading())
print("counted", sum(each.positive for each in found.classes), half.known)
try:
    table.values
except MemoryError:
    print("no matrix")
"""


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    """Tags of three classes per image, and one class that is known to be absent."""
    path = tmp_path_factory.mktemp("scale") / "labels.csv"
    drawn = np.random.default_rng(0).integers(0, CLASSES // 4, (IMAGES, 4))
    drawn += np.arange(4) * (CLASSES // 4)
    drawn[:2500] = np.arange(2500)[:, None] + np.arange(4) * 2500  # every class is there
    drawn[2500:5000] = drawn[:2500, [1, 2, 3, 0]]  # … and absent somewhere
    with open(path, "w", encoding="utf-8") as out:
        out.write("image,labels,absent\n")
        for row, (a, b, c, absent) in enumerate(drawn.tolist()):
            out.write(f"{row:06d}.jpg,c{a:05d};c{b:05d};c{c:05d},c{absent:05d}\n")
    return path, drawn


def test_nothing_makes_a_matrix_of_all_labels(file):
    path, drawn = file
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", LOAD, str(path)],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    told = dict(line.partition(" ")[::2] for line in done.stdout.splitlines())
    expected = [sorted(drawn[row].tolist()) for row in (0, IMAGES // 2)]
    assert told["rows"] == str([*expected, []])
    assert int(told["grown"]) < 120  # MB; names alone are 15
    assert told["counted"] == f"{3 * IMAGES} {4 * IMAGES // 2}"
    assert "no" in told  # the limit would have told: a matrix does not fit below it
