"""Results in chunks: the same rows however they were made, and after any death."""

import os
import shutil
import signal
import subprocess
import sys
from importlib.util import find_spec

import numpy as np
import pandas as pd
import pytest

from g2netpl import load_run, read_labels
from g2netpl.cli import main
from g2netpl.labels.io import tables
from g2netpl.labels.settings import Setting, observe
from g2netpl.runs import bundle as bundles
from g2netpl.runs import chunks
from g2netpl.runs.chunks import ChunkResult, ChunkWriter
from g2netpl.utils.errors import InputError


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch):
    """Chunks of 16 images: five of them in the 80 scenes."""
    monkeypatch.setattr(chunks, "SIZE", 16)


@pytest.fixture
def predict(small_bundle, photos, tmp_path):
    """The command on all scenes, into a folder."""

    def run(*more, output="scores/", images=photos):
        given = ["predict", small_bundle, "--images", images, "--workers", 0]
        return main([*map(str, (*given, "--output", tmp_path / output, *more))])

    return run


def contents(folder):
    return {path.name: path.read_bytes() for path in sorted(folder.glob("*.parquet"))}


def test_a_folder_has_the_rows_of_a_table(predict, tmp_path, photos, capsys):
    assert predict() == 0
    assert predict(output="scores.csv") == 0
    assert capsys.readouterr().out.count("80 images, ") == 2
    expected = pd.read_csv(tmp_path / "scores.csv", keep_default_na=False)
    rows = pd.read_parquet(tmp_path / "scores")
    assert list(rows.image) == sorted(path.name for path in photos.glob("*.png"))
    pd.testing.assert_frame_equal(rows, expected, check_dtype=False)
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


def test_ranks_share_the_chunks_and_make_the_same_files(predict, tmp_path, as_rank):
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
    assert "resuming: 3 of 5 chunks are finished" in capsys.readouterr().out
    assert sum(scored) == 32
    assert contents(folder) == before
    assert predict() == 0
    assert sum(scored) == 32


def test_other_results_do_not_go_into_the_folder(predict, tmp_path, photos, capsys, as_rank):
    (tmp_path / "one").mkdir()
    shutil.copy(photos / "test-00001.png", tmp_path / "one")
    assert predict() == 0
    before = contents(tmp_path / "scores")
    one = tmp_path / "one"
    for images, more, what in (
        (photos, ("--threshold", "0.3"), "thresholds"),
        (one, (), "list of images"),
    ):
        assert predict(*more, images=images) == 2
        assert f"was started with other {what}" in capsys.readouterr().err
    assert predict("--overwrite", images=one) == 0
    assert len(pd.read_parquet(tmp_path / "scores")) == 1
    assert contents(tmp_path / "scores.old-1") == before
    (tmp_path / "scores" / "_parts.json").write_text("[")
    assert predict(images=one) == 2
    as_rank(0, 2)
    assert predict("--overwrite", images=one) == 2


def test_foreign_folders_are_rejected(predict, tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("dear")
    assert predict(output="mine/") == 2
    assert predict("--overwrite", output="mine/") == 2
    assert (tmp_path / "mine" / "thesis.txt").read_text() == "dear"


def test_one_table_is_made_by_one_process(predict, capsys, monkeypatch):
    assert predict("--engine", "ray", output="scores.parquet") == 2
    assert "--engine: needs a folder as --output, such as " in capsys.readouterr().err
    monkeypatch.setenv("WORLD_SIZE", "2")
    assert predict(output="scores.csv") == 2
    assert "several processes: needs a folder" in capsys.readouterr().err


def test_where_nothing_can_be_read_nothing_is_written(tmp_path, predict, photos, capsys):
    """If a disk is not there any more, these rows would be taken for finished."""
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
    assert predict(images=bad) == 0  # 16 of them in a chunk are no proof
    said = capsys.readouterr().out
    assert "not readable, left empty" in said
    assert "… and 90 more" in said
    assert pd.read_parquet(tmp_path / "scores").zero.isna().tolist() == [True] * 100 + [False]


PATCHED = (
    "import sys; from g2netpl.runs import chunks; chunks.SIZE = 16; "
    "from g2netpl.cli import main; sys.exit(main(sys.argv[1:]))"
)
KILLED = """
import os, signal
left, replace = [0, 0], os.replace

def counted(old, new):
    if str(new).endswith(".parquet") and not (left and left.pop() == 0):
        os.kill(os.getpid(), signal.SIGKILL)
    replace(old, new)

os.replace = counted
"""


def test_killed_in_the_middle_it_ends_with_the_same_files(predict, small_bundle, photos, tmp_path):
    given = ["predict", small_bundle, "--workers", 1, "--images", photos, "--output"]
    command = [sys.executable, "-c", KILLED + PATCHED, *map(str, given), tmp_path / "scores"]
    process = subprocess.run(command, stdout=subprocess.DEVNULL)  # the third is written, unnamed
    assert process.returncode == -signal.SIGKILL
    assert len(contents(tmp_path / "scores")) == 2
    assert predict() == predict(output="whole/") == 0
    assert contents(tmp_path / "scores") == contents(tmp_path / "whole")
    assert len([*(tmp_path / "scores").iterdir()]) == 5 + 1


def test_complete_keeps_what_is_known_and_predicts_the_rest(small_run, photos, tmp_path, capsys):
    full = read_labels(photos / "test.csv")
    seen = observe(full, Setting.parse("known:0.3"), 0)
    tables.write(seen, tmp_path / "labels.csv")
    given = ["complete", small_run, "--labels", tmp_path / "labels.csv", "--images", photos]
    given += ["--set", "workers=0", "--output"]
    assert main([*map(str, (*given, tmp_path / "done"))]) == 0
    known = seen.values >= 0
    assert f"20 images × 10 classes: {known.sum()} observed" in capsys.readouterr().out
    rows, run = pd.read_parquet(tmp_path / "done"), load_run(small_run)
    assert list(rows.image) == list(full.images)
    values = rows[[*run.classes]].to_numpy()
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
        (["--labels", "x", "--images", "y", "--output", "z/", "--dry-run"], "--dry-run: does not"),
        (["--engine", "ray"], "--engine: needs --labels"),
    ],
)
def test_flags_of_complete_that_do_not_fit(small_run, capsys, more, what):
    assert main(["complete", str(small_run), *more]) == 2
    assert what in capsys.readouterr().err


RAY = os.environ.get("G2NETPL_RAY_PYTHON") or (sys.executable if find_spec("ray") else None)


@pytest.mark.long
@pytest.mark.skipif(RAY is None, reason="needs ray: the extra 'ray', or G2NETPL_RAY_PYTHON")
def test_ray_makes_the_same_files(predict, small_bundle, photos, tmp_path):
    assert predict(output="whole/") == 0
    given = ("predict", small_bundle, "--images", photos, "--engine", "ray", "--output")
    command = [RAY, "-c", PATCHED, *map(str, given), tmp_path / "scores"]
    subprocess.run(command, check=True, timeout=600, env={**os.environ, "RAY_num_cpus": "2"})
    assert contents(tmp_path / "scores") == contents(tmp_path / "whole")
