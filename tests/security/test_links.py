"""A folder from somebody else holds links: nothing is written outside of it."""

import os

import pytest
from feature_folders import write_folder
from review_runs import small_run

from g2netpl.cli import main

LINKS = {"symbolic": os.symlink, "hard": os.link}


@pytest.fixture(params=LINKS)
def link(request):
    """Makes one name lead to a file outside."""
    return LINKS[request.param]


@pytest.fixture
def outside(tmp_path):
    """A file and a folder that nobody named."""
    folder = tmp_path / "outside"
    folder.mkdir()
    (folder / "diary.txt").write_text("dear diary\n")
    return folder


@pytest.fixture
def rejected(capsys, outside, monkeypatch):
    """Runs a command that ends with one line about a link; outside, nothing changes."""

    def served(_):
        pytest.fail("not rejected")

    monkeypatch.setattr("g2netpl.review.server.ReviewServer.serve_forever", served)

    def run(path, *arguments):
        before = contents(outside)
        capsys.readouterr()
        assert main([str(each) for each in arguments]) == 2
        assert capsys.readouterr().err == (
            f"g2netpl: {path}: is a link; expected a regular file: replace it by a copy\n"
        )
        assert contents(outside) == before

    return run


def contents(folder):
    return {
        path.relative_to(folder): path.read_bytes() if path.is_file() else None
        for path in folder.rglob("*")
    }


@pytest.mark.parametrize("line", ["dear diary\n", '{"id": "0123456789abcdef"'])
def test_the_file_of_answers(tmp_path, outside, link, rejected, line):
    run = small_run(tmp_path)
    (outside / "diary.txt").write_text(line)
    link(outside / "diary.txt", run / "review.jsonl")
    rejected(run / "review.jsonl", "review", run, "--no-browser")


def test_the_cells_of_a_comparison(tmp_path, outside, link, rejected):
    features, output = write_folder(tmp_path / "features"), tmp_path / "comparison"
    command = ["compare", "--features", features, "--output", output, "--settings", "sspl:0.5"]
    command += ["--epochs", "1", "--jobs", "1", "--methods", "an", "--learning-rates", "1e-1"]
    assert main([str(each) for each in (*command, "--seeds", "0")]) == 0
    cells = (output / "cells.jsonl").read_bytes()
    (output / "cells.jsonl").unlink()
    (outside / "diary.txt").write_bytes(cells + b'{"method": "an", "set')
    link(outside / "diary.txt", output / "cells.jsonl")
    rejected(output / "cells.jsonl", *command, "--seeds", "0,1")


def test_the_folder_of_checkpoints(small_train, tmp_path, outside, rejected, monkeypatch):
    def stopped(*_, **__):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("g2netpl.training.train.write_results", stopped)
        assert main(small_train) == 130
    run = tmp_path / "run"
    (run / "checkpoints").rename(outside / "checkpoints")
    (run / "checkpoints").symlink_to(outside / "checkpoints")
    rejected(run / "checkpoints", "train", "--resume", "--output", run)
