"""Foreign weights are read as tensors and nothing else; no code of ours can run what it reads."""

import ast
import os
import pickle
from pathlib import Path

import pytest
import timm
import torch
from safetensors.torch import load_file, save_file

import g2netpl
from g2netpl.cli import main
from g2netpl.core.models import build_backbone
from g2netpl.utils.errors import InputError


class Malicious:
    """What a hostile author would put into a .pth: reading it makes a file."""

    def __init__(self, target):
        self.target = str(target)

    def __reduce__(self):
        return os.mkdir, (self.target,)


def hostile_files(folder):
    """Every way in which a pickle gets into such a file."""
    folder.mkdir()
    evil = Malicious(folder / "was-here")
    torch.save({"weight": torch.zeros(2), "more": evil}, folder / "zip.pth")
    torch.save(evil, folder / "alone.pth")
    torch.save({"w": evil}, folder / "old.pth", _use_new_zipfile_serialization=False)
    (folder / "plain.pth").write_bytes(pickle.dumps({"weight": evil}))
    (folder / "protocol0.pth").write_bytes(pickle.dumps(evil, protocol=0))
    return sorted(folder.glob("*.pth"))


def test_a_malicious_pickle_is_refused_and_does_not_run(tmp_path):
    paths = hostile_files(tmp_path / "hostile")
    assert len(paths) == 5
    for path in paths:
        with pytest.raises(InputError) as told:
            build_backbone("tiny", weights=path)
        assert not (path.parent / "was-here").exists(), path.name
        assert "not a file of weights only" in str(told.value)
        assert str(told.value).endswith("nothing in it was run")
        assert "\n" not in str(told.value)
    torch.load(paths[0], weights_only=False)  # the trap is real: another reader falls into it
    assert (tmp_path / "hostile" / "was-here").is_dir()


@pytest.mark.parametrize("is_zip", [True, False])
def test_a_backbone_of_another_program_is_loaded(tmp_path, is_zip):
    theirs = build_backbone("tiny", seed=5).module.state_dict()
    wrapped = {f"module.{name}": value for name, value in theirs.items()}
    path = tmp_path / "theirs.pth"
    content = {"state_dict": wrapped, "epoch": 3, "optimizer": {"lr": 0.1}}
    torch.save(content, path, _use_new_zipfile_serialization=is_zip)
    ours = build_backbone("tiny", weights=path, seed=0).module.state_dict()
    assert all(torch.equal(value, theirs[name]) for name, value in ours.items())


def test_the_classifier_of_another_program_is_left_out(tmp_path):
    whole = timm.create_model("resnet18", pretrained=False, num_classes=7)
    torch.save(whole.state_dict(), tmp_path / "whole.pth")
    save_file(whole.state_dict(), tmp_path / "whole.safetensors")
    for name in ("whole.pth", "whole.safetensors"):
        ours = build_backbone("resnet18", weights=tmp_path / name, image_size=32).module
        assert torch.equal(ours.conv1.weight, whole.conv1.weight)
    with pytest.raises(InputError, match=r"whole\.pth: tensor .1\.weight. .* is missing"):
        build_backbone("tiny", weights=tmp_path / "whole.pth")


def test_training_starts_from_a_pth(tmp_path, photos, capsys):
    theirs = build_backbone("tiny", seed=5).module.state_dict()
    torch.save(theirs, tmp_path / "theirs.pth")
    flags = ["--labels", photos / "train.csv", "--images", photos, "--output", tmp_path / "run"]
    flags += ["--backbone", "tiny", "--mode", "linear", "--epochs", "1"]
    flags += ["--image-size", "32", "--workers", "0", "--cache", tmp_path, "--device", "cpu"]
    assert main(["train", *map(str, flags), "--weights", str(tmp_path / "theirs.pth")]) == 0
    trained = load_file(tmp_path / "run" / "model.safetensors")
    assert torch.equal(trained["backbone.1.weight"], theirs["1.weight"])
    torch.save(Malicious(tmp_path / "was-here"), tmp_path / "theirs.pth")
    capsys.readouterr()
    flags[5] = tmp_path / "other"
    assert main(["train", *map(str, flags), "--weights", str(tmp_path / "theirs.pth")]) == 2
    error = capsys.readouterr().err
    assert "nothing in it was run" in error
    assert error.count("\n") == 1
    assert not (tmp_path / "was-here").exists()


UNPICKLERS = {"pickle", "cPickle", "_pickle", "dill", "joblib", "cloudpickle", "shelve", "marshal"}
RUNNERS = {"eval", "exec", "compile", "__import__", "os.system", "os.popen", "yaml.load"}
CAREFUL = {
    **dict.fromkeys(("torch.load", "load_state_dict"), "weights_only=True"),  # the latter is timm's
    "np.load": "allow_pickle=False",
}


def dangers(source):
    """What in a program could run what it reads."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import | ast.ImportFrom):
            names = [alias.name for alias in node.names]
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            found += [name for name in names if name.partition(".")[0] in UNPICKLERS]
        if not isinstance(node, ast.Call):
            continue
        called = ast.unparse(node.func).replace("numpy.", "np.")
        keywords = [f"{each.arg}={ast.unparse(each.value)}" for each in node.keywords]
        if called in RUNNERS or called.endswith(("read_pickle", "Unpickler")):
            found.append(called)
        if "shell=True" in keywords or "allow_pickle=True" in keywords:
            found.append(ast.unparse(node))
        if called in CAREFUL and CAREFUL[called] not in keywords:
            found.append(ast.unparse(node))
    return found


@pytest.mark.parametrize(
    "line",
    [
        "import pickle",
        "from pickle import loads",
        "import joblib.numpy_pickle",
        "torch.load(path)",
        "torch.load(path, weights_only=False)",
        "load_state_dict(path)",
        "np.load(path)",
        "numpy.load(path, allow_pickle=True)",
        "np.lib.format.read_array(file, allow_pickle=True)",
        "yaml.load(text)",
        "eval(text)",
        "exec(text)",
        "os.system(line)",
        "subprocess.run(line, shell=True)",
        "pandas.read_pickle(path)",
    ],
)
def test_the_search_for_dangers_finds_them(line):
    assert dangers(line)
    assert not dangers("torch.load(path, weights_only=True); np.load(path, allow_pickle=False)")
    assert not dangers("network.eval(); re.compile(text); subprocess.run([program])")


def test_nothing_of_ours_runs_what_it_reads():
    sources = list(Path(g2netpl.__file__).parent.rglob("*.py"))
    assert len(sources) > 50
    readers = set()
    for path in sources:
        source = path.read_text(encoding="utf-8")
        assert dangers(source) == [], path
        if "torch.load(" in source:
            readers.add(path.name)
    assert readers == {"lite.py", "checkpoints.py"}  # the first only by its SHA-256
