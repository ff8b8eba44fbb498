"""What a command did not write itself stays, and a received folder names no place outside."""

import json
import os

import pytest
from review_runs import small_run as small_review

from g2netpl.cli import main
from g2netpl.labels.io import photo_tags
from g2netpl.labels.table import LabelTable
from g2netpl.training.checkpoints import Checkpointing

FULL = "image,cat,dog\na.jpg,1,0\nb.jpg,0,1\n"


def test_a_link_is_told_as_one_where_a_run_is_to_be_replaced(tmp_path, capsys):
    run = small_review(tmp_path)
    (run / "history.jsonl").unlink(missing_ok=True)
    (run / "history.jsonl").symlink_to(tmp_path / "nowhere")
    labels = tmp_path / "labels.csv"
    labels.write_text(FULL)
    command = ["train", "--labels", labels, "--output", run, "--overwrite"]
    assert main([*map(str, command)]) == 2
    assert f"{run / 'history.jsonl'}: is a link" in capsys.readouterr().err


@pytest.mark.timeout(120)
@pytest.mark.parametrize(("name", "more"), [("_parts.json", []), ("_unfinished", ["--overwrite"])])
def test_a_pipe_in_a_folder_of_parts_is_not_waited_for(
    small_run, photos, tmp_path, capsys, name, more
):
    folder = tmp_path / "scores"
    folder.mkdir()
    if name != "_parts.json":
        (folder / "_parts.json").write_text('{"command": "predict"}')
    os.mkfifo(folder / name)
    command = ["predict", small_run, "--images", photos, "--output", f"{folder}/", *more]
    assert main([*map(str, command)]) == 2
    assert f"{folder / name}: is not a regular file" in capsys.readouterr().err


def test_files_of_others_in_a_folder_of_parts_stay(small_run, photos, tmp_path):
    folder = tmp_path / "scores"
    (folder / "_unfinished").mkdir(parents=True)
    mine = [folder / "_unfinished" / "mine.txt"]
    command = ["predict", small_run, "--images", photos, "--output", f"{folder}/"]
    mine[0].write_text("mine")
    assert main([*map(str, command)]) == 0
    mine.append(folder / "part-1 of my thesis.parquet")
    mine[1].write_text("mine")
    assert main([*map(str, command), "--overwrite"]) == 0
    renamed = [tmp_path / "scores.old-1" / path.relative_to(folder) for path in mine]
    assert [path.read_text() for path in renamed] == ["mine", "mine"]


def test_an_export_replaces_no_config_of_others(small_run, tmp_path, capsys):
    pytest.importorskip("onnxscript", reason="the extra 'export' is not installed")
    (tmp_path / "config.json").write_text("mine")
    assert main(["export", str(small_run), "--output", str(tmp_path)]) == 2
    assert "config.json: already exists" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["config.json"]


@pytest.mark.parametrize("ending", ["erf", "MRW"])
def test_a_sidecar_that_a_rarer_raw_file_shares_is_not_changed(tmp_path, ending):
    for name in ("a.jpg", f"a.{ending}"):
        (tmp_path / name).write_bytes(b"")
    photo_tags.write(LabelTable(("a.jpg",), ("owl",), [[1]]), tmp_path, by_stem=True)
    assert not (tmp_path / "a.xmp").exists()
    assert (tmp_path / "a.jpg.xmp").exists()


def test_a_tracker_of_a_received_run_writes_nothing_outside(
    small_train, tmp_path, sigterm, monkeypatch, capsys
):
    pytest.importorskip("tensorboard", reason="the extra 'trackers' is not installed")
    saved = Checkpointing.on_epoch_end
    with monkeypatch.context() as patch:
        patch.setattr(Checkpointing, "on_epoch_end", lambda *given: (saved(*given), sigterm()))
        assert main(small_train) == 75
    run, elsewhere = tmp_path / "run", tmp_path / "elsewhere"
    about = json.loads((run / "run.json").read_text())
    about["config"]["log_with"] = ["mlflow:file:" + str(elsewhere)]
    (run / "run.json").write_text(json.dumps(about))
    memory = {"tensorboard": {"epoch": 0, "run": str(elsewhere)}}
    (run / "trackers.json").write_text(json.dumps(memory))
    capsys.readouterr()
    resume = ["train", "--resume", "--output", str(run)]
    assert main(resume) == 2
    assert f"--log-with mlflow:file:{elsewhere} to resume with it" in capsys.readouterr().err
    assert main([*resume, "--log-with", "tensorboard"]) == 0
    assert (run / "tensorboard").is_dir()
    assert not elsewhere.exists()
