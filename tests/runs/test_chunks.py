"""Results in blocks: the same rows however they were made, and after any death."""

import csv
import os
import shutil
import signal
import subprocess
import sys
import time
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pyarrow
import pyarrow.dataset
import pyarrow.parquet
import pytest
from tar_shards import write_shards

from g2netpl import load_run, read_labels
from g2netpl.cli import main
from g2netpl.labels.io import tables
from g2netpl.labels.settings import Setting, observe
from g2netpl.runs import bundle as bundles
from g2netpl.runs import chunks
from g2netpl.runs.chunks import ChunkResult, ChunkWriter
from g2netpl.utils.errors import InputError


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch):
    """Blocks of 16 images: five of them in the 80 scenes."""
    monkeypatch.setattr(chunks, "FEWEST", 16)


@pytest.fixture
def predict(small_bundle, photos, tmp_path):
    """The command on all scenes, into a folder."""

    def run(*more, output="scores/", images=photos):
        given = ["predict", small_bundle, "--images", images, "--workers", 0]
        return main([*map(str, (*given, "--output", tmp_path / output, *more))])

    return run


def contents(folder):
    return {path.name: path.read_bytes() for path in sorted(folder.glob("*.parquet"))}


def rows_of(folder):
    return pyarrow.dataset.dataset(folder, format="parquet").to_table().to_pylist()


def test_a_folder_has_the_rows_of_a_table(predict, tmp_path, photos, capsys):
    assert predict() == 0
    assert predict(output="scores.csv") == 0
    said = capsys.readouterr().out
    assert said.count("80 images, ") == 2
    with open(tmp_path / "scores.csv", newline="") as file:
        expected = list(csv.DictReader(file))
    rows = rows_of(tmp_path / "scores")
    assert [row["image"] for row in rows] == sorted(path.name for path in photos.glob("*.png"))
    for row, other in zip(rows, expected, strict=True):
        assert [str(value) for value in other.values()] == [
            value if isinstance(value, str) else str(round(value, 4)) for value in row.values()
        ]
    assert sorted(path.name for path in (tmp_path / "scores").iterdir()) == [
        "_parts.json",
        *(f"part-{number:06d}.parquet" for number in range(5)),
    ]


@pytest.fixture
def as_rank(monkeypatch):
    """Make this process one of several, as torchrun and srun do."""

    def become(rank, size):
        for name, value in (("RANK", rank), ("WORLD_SIZE", size), ("LOCAL_RANK", rank)):
            monkeypatch.setenv(name, str(value))

    return become


def test_ranks_share_the_blocks_and_make_the_same_files(predict, tmp_path, as_rank):
    assert predict() == 0
    as_rank(1, 3)
    assert predict(output="shared/") == 0
    assert [*contents(tmp_path / "shared")] == ["part-000001.parquet", "part-000004.parquet"]
    for rank in (0, 2):
        as_rank(rank, 3)
        assert predict(output="shared/") == 0
    assert contents(tmp_path / "shared") == contents(tmp_path / "scores")


def test_what_is_there_is_not_made_again(predict, tmp_path, capsys, monkeypatch):
    assert predict() == 0
    folder = tmp_path / "scores"
    before = contents(folder)
    for number in (1, 3):
        (folder / f"part-{number:06d}.parquet").unlink()
    scored, answers = [], bundles.Bundle._score
    monkeypatch.setattr(
        bundles.Bundle, "_score", lambda self, p: [scored.append(len(p)), answers(self, p)][1]
    )
    capsys.readouterr()
    assert predict() == 0
    assert "resuming: 3 of 5 chunks are there already" in capsys.readouterr().out
    assert sum(scored) == 32
    assert contents(folder) == before
    assert predict() == 0
    assert sum(scored) == 32


@pytest.mark.parametrize(
    ("more", "what"),
    [
        (["--threshold", "0.3"], "thresholds"),
        (["--list", "LIST"], "list of images"),
    ],
)
def test_other_results_do_not_go_into_the_folder(
    predict, tmp_path, photos, capsys, as_rank, more, what
):
    (tmp_path / "names.txt").write_text("test-00001.png\n")
    assert predict() == 0
    more = [str(tmp_path / "names.txt") if each == "LIST" else each for each in more]
    assert predict(*more) == 2
    assert f"was started with other {what}" in capsys.readouterr().err
    assert predict(*more, "--overwrite") == 0
    assert len(rows_of(tmp_path / "scores")) == (1 if "--list" in more else 80)
    as_rank(0, 2)
    assert predict(*more, "--overwrite") == 2


def test_foreign_folders_are_refused(predict, tmp_path):
    assert predict(output="other/") == 0
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("dear")
    assert predict(output="mine/") == 2
    assert predict("--overwrite", output="mine/") == 2
    assert (tmp_path / "mine" / "thesis.txt").read_text() == "dear"
    before = contents(tmp_path / "other")
    assert predict("--overwrite", output="other/") == 0
    assert contents(tmp_path / "other.old-1") == before
    (tmp_path / "other" / "_parts.json").write_text("[")
    assert predict(output="other/") == 2


def test_one_table_is_made_by_one_process(predict, capsys, monkeypatch):
    assert predict("--engine", "ray", output="scores.parquet") == 2
    assert "--engine: needs a folder as --output, such as " in capsys.readouterr().err
    monkeypatch.setenv("WORLD_SIZE", "2")
    assert predict(output="scores.csv") == 2
    assert "several processes: needs a folder" in capsys.readouterr().err


def test_where_nothing_can_be_read_nothing_is_written(tmp_path, predict, photos, capsys):
    """As where a disk is not there any more: these rows would be taken for finished."""
    made = ChunkWriter.begin(tmp_path / "out", "predict", {})
    unread = [f"{number}.png" for number in range(100)]
    with pytest.raises(InputError, match="none of 100 images in a row can be read"):
        made.write(ChunkResult(0, {"image": unread}, {"images": 100}, unread), {"image": "text"})
    assert contents(tmp_path / "out") == {}
    bad = tmp_path / "bad"
    bad.mkdir()
    for name in unread:
        (bad / name).write_text("no image")
    shutil.copy(photos / "test-00001.png", bad / "good.png")
    assert predict(images=bad) == 0  # 16 of them in a block are no proof
    said = capsys.readouterr().out
    assert "not readable, left empty" in said
    assert "… and 90 more" in said
    rows = rows_of(tmp_path / "scores")
    assert [row["zero"] is None for row in rows] == [True] * 100 + [False]


def test_names_of_a_list_that_are_not_there_are_reported_at_once(predict, tmp_path, photos, capsys):
    """In a folder and in shards."""
    there, names = [*read_labels(photos / "train.csv").images], tmp_path / "names.txt"
    write_shards(there, photos, tmp_path / "shards")
    wrong = [*there[:16], "x.png", *there[16:40], "Y.png", "z/z.png", there[40].upper(), "w.png"]
    names.write_text("".join(f"{name}\n" for name in wrong))
    for images in (photos, tmp_path / "shards"):
        assert predict("--list", names, images=images) == 2
        shown = capsys.readouterr().err
        assert shown.startswith(f"g2netpl: {images}: ")
        assert "of 45 images of the label file are not there, the first is 'x.png'" in shown


PATCHED = (
    "import sys; from g2netpl.runs import chunks; chunks.FEWEST = 16; "
    "from g2netpl.cli import main; sys.exit(main(sys.argv[1:]))"
)


KILLED = """
import os, signal, sys
left, replace = [int(sys.argv.pop(1))], os.replace

def counted(old, new):
    if str(new).endswith(".parquet"):
        if not left[0]:
            os.kill(os.getpid(), signal.SIGKILL)
        left[0] -= 1
    replace(old, new)

os.replace = counted
"""


def started(*arguments, code=PATCHED):
    said = [sys.executable, "-c", code, *map(str, arguments)]
    return subprocess.Popen(said, stdout=subprocess.DEVNULL)


def test_killed_in_the_middle_it_ends_with_the_same_files(small_bundle, photos, tmp_path):
    given = ["predict", small_bundle, "--workers", 1, "--images", photos, "--output"]
    assert main([*map(str, (*given, tmp_path / "whole"))]) == 0
    found = tmp_path / "found"
    process = started(2, *given, found, code=KILLED + PATCHED)  # the third is written, unnamed
    assert process.wait() == -signal.SIGKILL
    assert len(contents(found)) == 2
    assert main([*map(str, (*given, found))]) == 0
    assert contents(found) == contents(tmp_path / "whole")
    assert len([*found.iterdir()]) == 5 + 1


def test_a_run_scores_blocks_as_it_scores_all(small_run, photos, tmp_path):
    given = ["predict", small_run, "--images", photos, "--workers", 0, "--device", "cpu"]
    assert main([*map(str, (*given, "--output", tmp_path / "scores"))]) == 0
    run, rows = load_run(small_run), rows_of(tmp_path / "scores")
    expected = run.predict([photos / row["image"] for row in rows])
    found = np.array([[row[name] for name in run.classes] for row in rows])
    assert np.abs(found - expected).max() <= 5.1e-5


def test_complete_keeps_what_is_known_and_predicts_the_rest(small_run, photos, tmp_path, capsys):
    full = read_labels(photos / "test.csv")
    seen = observe(full, Setting.parse("known:0.3"), 0)
    tables.write(seen, tmp_path / "labels.csv")
    given = ["complete", small_run, "--labels", tmp_path / "labels.csv", "--images", photos]
    given += ["--set", "workers=0", "--output"]
    assert main([*map(str, (*given, tmp_path / "done"))]) == 0
    known = seen.values >= 0
    assert f"20 images × 10 classes: {known.sum()} observed" in capsys.readouterr().out
    rows, run = rows_of(tmp_path / "done"), load_run(small_run)
    assert [row["image"] for row in rows] == list(full.images)
    values = np.array([[row[name] for name in run.classes] for row in rows])
    scores = run.predict([photos / name for name in full.images])
    assert (values == np.where(known, seen.values, run.thresholds.decide(scores))).all()
    assert main([*map(str, (*given, tmp_path / "done.csv"))]) == 0
    assert (read_labels(tmp_path / "done.csv").values == values).all()
    assert main([*map(str, (*given, tmp_path / "sure.parquet", "--confidence", "0.9"))]) == 0
    sure = read_labels(tmp_path / "sure.parquet").values
    assert (sure[known] == seen.values[known]).all()
    assert ((sure == values) | (sure == -1)).all()
    assert (sure == -1).any()
    assert main([*map(str, (*given, tmp_path / "done", "--confidence", "0.9"))]) == 2
    assert "was started with other confidence" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("more", "what"),
    [
        (["--labels", "x.csv"], "--labels: needs --images and --output"),
        (["--labels", "x", "--images", "y", "--output", "z/", "--truth", "t"], "--truth: does not"),
        (["--engine", "ray"], "--engine: needs --labels"),
    ],
)
def test_flags_of_complete_that_do_not_fit(small_run, capsys, more, what):
    assert main(["complete", str(small_run), *more]) == 2
    assert what in capsys.readouterr().err


RAY = os.environ.get("G2NETPL_RAY_PYTHON") or (sys.executable if find_spec("ray") else None)


@pytest.mark.long
@pytest.mark.skipif(RAY is None, reason="needs ray: the extra 'ray', or G2NETPL_RAY_PYTHON")
def test_ray_makes_the_same_files_though_a_worker_is_killed(
    predict, small_bundle, photos, tmp_path
):
    many = tmp_path / "many"
    for copy in range(20):
        shutil.copytree(photos, many / str(copy), ignore=shutil.ignore_patterns("*.csv"))
    assert predict(output="whole/", images=many) == 0
    given = ("predict", small_bundle, "--images", many, "--engine", "ray", "--output")
    said = [RAY, "-c", PATCHED, *map(str, (*given, tmp_path / "scores"))]
    process = subprocess.Popen(
        said, stdout=subprocess.DEVNULL, env={**os.environ, "RAY_num_cpus": "2"}
    )
    workers = []
    while process.poll() is None and not workers:
        if len(contents(tmp_path / "scores")) > 5:
            workers = _workers_of_ray(process.pid)
        time.sleep(0.05)
    os.kill(workers[0], signal.SIGKILL)
    assert process.wait(timeout=600) == 0
    assert contents(tmp_path / "scores") == contents(tmp_path / "whole")


def _workers_of_ray(pid):
    """Processes of the cluster that hold a classifier."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if b"ray::_Worker" in path.read_bytes():
                found.append(int(path.parent.name))
        except OSError:
            continue
    return found
