"""Hugging Face's hub: the folder it wants, there and back, against a stand-in on this machine."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hub_stand_in import TOKEN, hub_stand_in

from g2netpl import load_bundle, load_run
from g2netpl.cli import main
from g2netpl.runs import hub as hubs
from g2netpl.utils.errors import InputError

for package in ("onnx", "onnxscript", "onnxruntime"):
    pytest.importorskip(package, reason="the extra 'export' is not installed")
hub_client = pytest.importorskip("huggingface_hub", reason="the extra 'hub' is not installed")


@pytest.fixture
def hub(tmp_path, monkeypatch):
    monkeypatch.delenv("HF_TOKEN", raising=False)
    with hub_stand_in() as server:
        yield server


def run(hub, tmp_path, *arguments, **environment):
    """A command, or lines, in a process of its own, since the client reads its settings once."""
    how = ["-c"] if len(arguments) == 1 else ["-m", "g2netpl"]
    settings = {"HF_ENDPOINT": hub.address, "HF_HOME": str(tmp_path / "home")}
    settings |= {"HF_HUB_DISABLE_XET": "1", "HF_HUB_DISABLE_TELEMETRY": "1", **environment}
    return subprocess.run(
        [sys.executable, *how, *map(str, arguments)],
        env={**os.environ, **settings},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=300,
    )


def files_with(text, folder):
    found = (path for path in Path(folder).rglob("*") if path.is_file())
    return [path for path in found if text.encode() in path.read_bytes()]


def test_a_run_goes_to_the_hub_and_predicts_from_there(small_run, photos, hub, tmp_path):
    flags = ["--output", "birds", "--hub", "me/birds", "--license", "CC-BY-4.0"]
    done = run(hub, tmp_path, "export", small_run, *flags, HF_TOKEN=TOKEN)
    assert done.returncode == 0, done.stderr
    assert done.stdout.endswith(f"uploaded: {hub.address}/me/birds\n")
    (created,) = hub.created
    assert created.get("visibility") == "private" or created.get("private") is True
    assert set(hub.files) == {"README.md", "config.json", "model.onnx"}
    for name, content in hub.files.items():
        assert (tmp_path / "birds" / name).read_bytes() == content
    assert TOKEN not in done.stdout + done.stderr
    assert not files_with(TOKEN, tmp_path)
    assert not files_with(TOKEN, small_run)
    card = hub.files["README.md"].decode()
    assert "g2netpl predict hf://me/birds " in card
    flags = ["--images", photos / "test-00000.png", "--output"]
    done = run(hub, tmp_path, "predict", "hf://me/birds", *flags, "far.csv")
    assert done.returncode == 0, done.stderr
    assert main(["predict", *map(str, [tmp_path / "birds", *flags, tmp_path / "near.csv"])]) == 0
    assert (tmp_path / "far.csv").read_text() == (tmp_path / "near.csv").read_text()
    assert any(path.startswith("/me/birds/resolve/main/") for path in hub.paths)


def test_what_goes_wrong_on_the_way_is_told_in_a_line(small_bundle, photos, hub, tmp_path):
    flags = ["--images", photos, "--output", "scores.csv"]
    done = run(hub, tmp_path, "predict", "hf://me/other", *flags)
    assert done.returncode == 2
    assert done.stderr.startswith("g2netpl: hf://me/other: the hub could not do it (")
    assert done.stderr.count("\n") == 1
    for name in (hubs.MODEL, hubs.CARD, hubs.CONFIG):
        (tmp_path / name).write_bytes(small_bundle.read_bytes())
    wrong = "hf_aTokenThatIsWrong"
    lines = "from pathlib import Path; from g2netpl.runs.hub import push; push(Path(), 'me/birds')"
    done = run(hub, tmp_path, lines, HF_TOKEN=wrong)
    assert "InputError: me/birds: the hub could not do it (" in done.stderr
    assert "401" in done.stderr
    assert wrong not in done.stdout + done.stderr
    assert not hub.files


def test_what_cannot_be_pushed_is_told_before_the_work(small_run, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(hub_client, "get_token", lambda: None)
    command = ["export", str(small_run), "--output", str(tmp_path / "birds"), "--hub"]
    assert main([*command, "me/birds"]) == 2
    assert "me/birds: not logged in to the hub; hf auth login" in capsys.readouterr().err
    assert main([*command, "birds"]) == 2
    assert "birds: expected a repository of the hub, as OWNER/NAME" in capsys.readouterr().err
    command[3] = str(tmp_path / "birds.onnx")
    assert main([*command, "me/birds"]) == 2
    assert "--hub: needs a folder as --output" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("name", ["../x", "a/b/c", "me/../x", "http://x/y", "me/b c", "/x", "-/x"])
def test_odd_names_are_no_repositories(name):
    with pytest.raises(InputError, match="expected a repository of the hub"):
        hubs.check_name(name)
    with pytest.raises(InputError, match="expected a repository of the hub"):
        load_bundle(f"hf://{name}")


def test_the_card_is_one_that_the_hub_reads(small_run, tmp_path, capsys):
    folder = tmp_path / "my birds"
    assert main(["export", str(small_run), "--output", str(folder), "--license", "As I say"]) == 0
    run = load_run(small_run)
    data = hub_client.ModelCard.load(folder / "README.md").data  # its own reader
    assert (data.license, data.license_name) == ("other", "As I say")
    assert (data.pipeline_tag, data.library_name) == ("image-classification", "onnx")
    found = {
        (each.dataset_split, each.metric_name): each.metric_value for each in data.eval_results
    }
    keys = {"mAP": "mean_average_precision", "precision": "precision", "recall": "recall"}
    for part in ("validation", "test"):
        for name, key in (keys | {"F1": "f1"}).items():
            value = run.evaluation[part][key]
            if value is None:
                assert (part, name) not in found
            else:
                assert found[part, name] == pytest.approx(value, abs=1e-4)
    assert {each.dataset_name for each in data.eval_results} == {"train.csv", "test.csv"}
    assert data.model_name == "my birds"
    config = json.loads((folder / "config.json").read_text())
    assert [config["id2label"][str(n)] for n in range(len(run.classes))] == list(run.classes)
    bundle = load_bundle(folder)
    assert bundle.classes == run.classes
    assert np.isfinite(bundle.predict([])).all()
    assert sorted(os.listdir(folder)) == ["README.md", "config.json", "model.onnx"]
    assert main(["export", str(small_run), "--output", str(folder)]) == 2
