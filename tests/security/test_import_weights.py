"""Foreign weights are read as tensors and nothing else; no code of ours can run what it reads."""

import ast
import hashlib
import io
import os
import pickle
import warnings
import zipfile
from collections import OrderedDict
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

import g2netpl
from g2netpl.cli import main
from g2netpl.game.network.network import build_backbone


class Malicious:
    """What a hostile author would put into a .pth: reading it makes a file."""

    def __init__(self, target):
        self.target = str(target)

    def __reduce__(self):
        return os.mkdir, (self.target,)


@pytest.fixture
def bring(tmp_path, capsys):
    """Import a file; gives the exit code, what was printed, and the result's path."""

    def run(path, *flags):
        out = tmp_path / "out.safetensors"
        code = main(["import-weights", str(path), "--output", str(out), *flags])
        shown = capsys.readouterr()
        assert shown.err.count("\n") == (1 if code else 0)
        assert out.exists() == (code == 0)
        return code, shown.out + shown.err, out

    return run


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


def test_a_malicious_pickle_is_refused_and_does_not_run(tmp_path, bring):
    paths = hostile_files(tmp_path / "hostile")
    assert len(paths) == 5
    for path in paths:
        code, shown, _ = bring(path)
        assert code in (2, 3), path.name
        assert not (path.parent / "was-here").exists(), path.name
        if path.name != "plain.pth":  # a protocol that PyTorch does not write
            assert code == 3
            assert "mkdir" in shown
            assert "nothing was run" in shown
    torch.load(paths[0], weights_only=False)  # the trap is real: another reader falls into it
    assert (tmp_path / "hostile" / "was-here").is_dir()


def test_other_objects_and_programs_are_refused(tmp_path, bring):
    torch.save({"model": torch.nn.Linear(2, 2)}, tmp_path / "module.pth")
    code, shown, _ = bring(tmp_path / "module.pth")
    assert (code, "torch.nn.modules.linear.Linear" in shown) == (3, True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch would rather not have TorchScript any more
        torch.jit.save(torch.jit.script(torch.nn.Linear(2, 2)), tmp_path / "script.pt")
    code, shown, _ = bring(tmp_path / "script.pt")
    assert (code, "TorchScript" in shown) == (3, True)


def test_a_few_bytes_do_not_become_a_huge_tensor(tmp_path, bring):
    torch.save({"w": torch.zeros(1).expand(10**12)}, tmp_path / "spread.pth")
    code, shown, _ = bring(tmp_path / "spread.pth")
    assert (code, "tensors of 4,000,000,000,000 bytes" in shown) == (3, True)
    buffer = io.BytesIO()
    torch.save({"w": torch.zeros(10**6)}, buffer)
    with (
        zipfile.ZipFile(buffer) as plain,
        zipfile.ZipFile(tmp_path / "bomb.pth", "w", zipfile.ZIP_DEFLATED) as packed,
    ):
        for name in plain.namelist():
            packed.writestr(name, plain.read(name))
    code, shown, _ = bring(tmp_path / "bomb.pth")
    assert (code, "compressed" in shown) == (3, True)


def test_tensors_come_through_bit_for_bit(tmp_path, bring):
    random = torch.Generator().manual_seed(0)
    tied = torch.randn(3, 4, generator=random)
    state = OrderedDict(
        {
            "module.a.weight": tied,
            "module.b.weight": tied,
            "module.turned": tied.t(),
            "module.half": torch.randn(5, generator=random).half(),
            "module.count": torch.tensor(7),
            "module.fc.weight": torch.nn.Parameter(torch.zeros(2)),
        }
    )
    path = tmp_path / "weights.pth"
    torch.save({"state_dict": state, "epoch": 3, "optimizer": {"lr": 0.1}}, path)
    code, shown, out = bring(
        path, "--key", "state_dict", "--strip", "module.", "--drop", "fc.", "--overwrite"
    )
    assert code == 0
    assert f"SHA-256 {hashlib.sha256(path.read_bytes()).hexdigest()}" in shown
    assert f"SHA-256 {hashlib.sha256(out.read_bytes()).hexdigest()}" in shown
    assert "5 tensors of 6" in shown
    read = load_file(out)
    assert set(read) == {"a.weight", "b.weight", "turned", "half", "count"}
    for name, tensor in read.items():
        assert tensor.dtype == state[f"module.{name}"].dtype
        assert torch.equal(tensor, state[f"module.{name}"])
    old = tmp_path / "old.pth"
    torch.save(state, old, _use_new_zipfile_serialization=False)
    out.unlink()
    assert bring(old)[0] == 0
    assert torch.equal(load_file(out)["module.turned"], tied.t())


def test_a_backbone_of_another_program_trains(tmp_path, photos, bring):
    theirs = build_backbone("tiny", seed=5).module
    wrapped = {f"module.{name}": value for name, value in theirs.state_dict().items()}
    torch.save({**wrapped, "module.fc.bias": torch.zeros(3)}, tmp_path / "theirs.pth")
    code, _, out = bring(tmp_path / "theirs.pth", "--strip", "module.", "--drop", "fc.")
    assert code == 0
    ours = build_backbone("tiny", weights=out, seed=0).module
    for name, value in ours.state_dict().items():
        assert torch.equal(value, theirs.state_dict()[name])
    flags = ["--labels", photos / "train.csv", "--images", photos, "--output", tmp_path / "run"]
    flags += ["--backbone", "tiny", "--weights", out, "--mode", "linear", "--epochs", "1"]
    flags += ["--image-size", "32", "--workers", "0", "--cache", tmp_path, "--device", "cpu"]
    assert main(["train", *map(str, flags)]) == 0
    trained = load_file(tmp_path / "run" / "model.safetensors")
    assert torch.equal(trained["backbone.1.weight"], wrapped["module.1.weight"])


MISTAKES = {
    "not there": (None, [], 2, "cannot be read (No such file"),
    "text": (b"hello", [], 2, "not a file of PyTorch weights, or damaged"),
    "empty": (b"", [], 2, "not a file of PyTorch weights, or damaged"),
    "zip of nothing": (b"PK\x05\x06" + bytes(18), [], 2, "not a file of PyTorch weights"),
    "a tensor": (torch.zeros(2), [], 2, "expected named tensors, got Tensor"),
    "nothing": ({}, [], 2, "expected named tensors, got none"),
    "a number": ({"w": torch.zeros(2), "epoch": 3}, [], 2, "'epoch': expected a tensor, got int"),
    "parts": ({"a": {"w": torch.zeros(2)}, "b": {}}, [], 2, "choose one with --key: a, b"),
    "wrong part": ({"a": {"w": torch.zeros(2)}}, ["--key", "c"], 2, "--key c: no named tensors"),
    "numbered": ({1: torch.zeros(2)}, [], 2, "expected names of tensors, got 1"),
    "sparse": ({"w": torch.zeros(2, 2).to_sparse()}, [], 2, "'w': expected a plain tensor"),
    "no prefix": ({"w": torch.zeros(2)}, ["--strip", "m."], 2, "--strip m.: no tensor is named so"),
    "no suffix": ({"w": torch.zeros(2)}, ["--drop", "m."], 2, "--drop m.: no tensor is named so"),
    "all dropped": ({"w": torch.zeros(2)}, ["--drop", "w"], 2, "nothing would be left"),
    **{
        str(dtype): ({"w": torch.zeros(2, dtype=dtype)}, [], 2, "expected floating point or integ")
        for dtype in (torch.complex64, torch.complex128, torch.float8_e4m3fn, torch.bits8)
    },
    "metadata": ({"__metadata__": torch.zeros(2)}, [], 2, "no tensor can be called '__metadata__'"),
    "metadata below": (
        {"m.__metadata__": torch.zeros(2)},
        ["--strip", "m."],
        2,
        "no tensor can be called '__metadata__'",
    ),
    "a long name": ({"w" * 10**6: torch.zeros(2)}, [], 2, "expected names of tensors, got 'www"),
    "a part for the terminal": ({"\x1b[31m": {}, "b": {}}, [], 2, "--key: '\\x1b[31m', b"),
    "one name": ({"m.w": torch.ones(1), "w": torch.ones(1)}, ["--strip", "m."], 2, "the same name"),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_mistakes_are_told_in_one_line(tmp_path, bring, name):
    content, flags, expected, says = MISTAKES[name]
    path = tmp_path / "weights.pth"
    if isinstance(content, bytes):
        path.write_bytes(content)
    elif content is not None:
        torch.save(content, path)
    code, shown, _ = bring(path, *flags)
    assert (code, says in shown) == (expected, True), shown
    assert len(shown) < 500


def test_what_cannot_be_weights_can_be_left_out(tmp_path, bring):
    state = {"w": torch.ones(2), "turns": torch.ones(2, dtype=torch.complex128)}
    torch.save(state | {"__metadata__": torch.zeros(1)}, tmp_path / "w.pth")
    code, _, out = bring(tmp_path / "w.pth", "--drop", "turns", "--drop", "__metadata__")
    assert code == 0
    read = load_file(out)
    assert list(read) == ["w"]
    assert torch.equal(read["w"], torch.ones(2))


def test_a_pipe_is_not_waited_for(tmp_path, bring):
    os.mkfifo(tmp_path / "w.pth")
    code, shown, _ = bring(tmp_path / "w.pth")
    assert (code, "not a regular file" in shown) == (2, True)


def test_safetensors_and_wrong_endings_are_hinted_at(tmp_path, bring, capsys):
    assert "give it to train --weights" in bring(tmp_path / "a.safetensors")[1]
    torch.save({"w": torch.zeros(1)}, tmp_path / "a.pth")
    assert main(["import-weights", str(tmp_path / "a.pth"), "--output", str(tmp_path / "b")]) == 2
    assert "expected a name ending in .safetensors" in capsys.readouterr().err


def test_damaged_files_give_one_line(tmp_path, bring):
    torch.save({"w": torch.arange(50.0), "v": torch.zeros(3)}, tmp_path / "good.pth")
    content = (tmp_path / "good.pth").read_bytes()
    for number in range(0, len(content), 37):
        (tmp_path / "cut.pth").write_bytes(content[:number])
        assert bring(tmp_path / "cut.pth")[0] in (2, 3)
        flipped = content[:number] + bytes([content[number] ^ 0x41]) + content[number + 1 :]
        (tmp_path / "flipped.pth").write_bytes(flipped)
        code, _, out = bring(tmp_path / "flipped.pth")
        assert code in (0, 2, 3)
        out.unlink(missing_ok=True)


UNPICKLERS = {"pickle", "cPickle", "_pickle", "dill", "joblib", "cloudpickle", "shelve", "marshal"}
RUNNERS = {"eval", "exec", "compile", "__import__", "os.system", "os.popen", "yaml.load"}
CAREFUL = {"torch.load": "weights_only=True", "np.load": "allow_pickle=False"}


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
    assert readers == {"foreign_weights.py", "lite.py"}  # the latter by its SHA-256 alone
