"""Hugging Face's hub: the folder it wants, there and back, by a stand-in for its client."""

import json
import os
import shutil

import pytest

from g2netpl import load_bundle, load_run
from g2netpl.cli import main
from g2netpl.runs import bundle as hubs
from g2netpl.utils.errors import InputError

for package in ("onnx", "onnxscript", "onnxruntime"):
    pytest.importorskip(package, reason="the extra 'export' is not installed")
hub_client = pytest.importorskip("huggingface_hub", reason="the extra 'hub' is not installed")
TOKEN = "hf_onlyForThisTest"


@pytest.fixture
def hub(tmp_path, monkeypatch):
    """A folder in place of a repository of the hub."""
    repository = tmp_path / "hub"
    repository.mkdir()

    class Api:
        endpoint = "https://hub.example"

        def create_repo(self, name, private, exist_ok):
            assert (name, private, exist_ok) == ("me/birds", True, True)

        def upload_folder(self, repo_id, folder_path, allow_patterns):
            for name in allow_patterns:
                shutil.copy(folder_path / name, repository)

    def download(name, file, revision):
        if (name, revision) != ("me/birds", None):
            raise ValueError(f"401 for {name}\nwith {TOKEN}")
        return repository / file

    monkeypatch.setattr(hubs, "HfApi", Api)
    monkeypatch.setattr(hubs, "hf_hub_download", download)
    monkeypatch.setattr(hubs, "get_token", lambda: TOKEN)
    return repository


def test_a_run_goes_to_the_hub_and_predicts_from_there(small_run, photos, hub, tmp_path, capsys):
    flags = ["--output", tmp_path / "birds", "--hub", "me/birds", "--license", "CC-BY-4.0"]
    assert main(["export", *map(str, (small_run, *flags))]) == 0
    assert capsys.readouterr().out.endswith("uploaded: https://hub.example/me/birds\n")
    assert sorted(os.listdir(hub)) == ["README.md", "config.json", "model.onnx"]
    assert "g2netpl predict hf://me/birds " in (hub / "README.md").read_text()
    flags = ["--images", photos / "test-00000.png", "--output", tmp_path / "scores.csv"]
    tables = []
    for name in ("hf://me/birds", tmp_path / "birds"):
        assert main(["predict", *map(str, (name, *flags)), "--overwrite"]) == 0
        tables.append((tmp_path / "scores.csv").read_text())
    assert tables[0] == tables[1]
    capsys.readouterr()
    assert main(["predict", "hf://me/other@v2", *map(str, flags), "--overwrite"]) == 2
    error = capsys.readouterr().err
    assert (
        error
        == "g2netpl: hf://me/other@v2: the request to the hub failed (401 for me/other with …)\n"
    )


def test_what_cannot_be_pushed_is_told_before_the_work(small_run, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(hubs, "get_token", lambda: None)
    command = ["export", str(small_run), "--output", str(tmp_path / "birds"), "--hub"]
    assert main([*command, "me/birds"]) == 2
    assert "me/birds: not logged in to the hub; hf auth login" in capsys.readouterr().err
    assert main([*command, "me/my birds"]) == 2
    assert "me/my birds: the request to the hub failed" in capsys.readouterr().err
    command[3] = str(tmp_path / "birds.onnx")
    assert main([*command, "me/birds"]) == 2
    assert "--hub: needs a folder as --output" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("name", ["../x", "a/b/c", "me/../x", "http://x/y", "me/b c", "/x", "-/x"])
def test_odd_names_are_no_repositories(name):
    with pytest.raises(InputError, match="the request to the hub failed"):
        load_bundle(f"hf://{name}")


def test_the_card_is_one_that_the_hub_reads(small_run, tmp_path):
    folder = tmp_path / "my birds"
    assert main(["export", str(small_run), "--output", str(folder), "--license", "As I say"]) == 0
    run = load_run(small_run)
    data = hub_client.ModelCard.load(folder / "README.md").data  # its own reader
    assert (data.license, data.license_name) == ("other", "As I say")
    assert (data.pipeline_tag, data.library_name) == ("image-classification", "onnx")
    assert data.model_name == "my birds"
    config = json.loads((folder / "config.json").read_text())
    assert [config["id2label"][str(n)] for n in range(len(run.classes))] == list(run.classes)
    assert load_bundle(folder).classes == run.classes
    assert sorted(os.listdir(folder)) == ["README.md", "config.json", "model.onnx"]
