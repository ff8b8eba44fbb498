"""The command line as a user meets it: exit codes, one-line errors, files."""

import json
import re
import subprocess
import sys

import pytest
from feature_folders import write_folder

from g2netpl import METHODS, RunConfig
from g2netpl.cli import COMMANDS, CommandParser, main


@pytest.fixture
def features(tmp_path):
    return write_folder(tmp_path / "features")


def compare(features, output, *more):
    fixed = ["--seeds", "0,1", "--epochs", "2", "--jobs", "1", "--learning-rates", "1e-2,1e-3"]
    return main(["compare", "--features", str(features), "--output", str(output), *fixed, *more])


def cells_of(folder):
    return [json.loads(line) for line in (folder / "cells.jsonl").read_text().splitlines()]


def test_help_of_every_command_has_examples_and_few_flags(capsys):
    flags = {}
    for command in COMMANDS:
        with pytest.raises(SystemExit, match="0"):
            main([command, "--help"])
        shown = capsys.readouterr().out
        assert shown.startswith(f"usage: g2netpl {command} ")
        assert shown.count("examples:") == 1
        flags[command] = CommandParser(command)._option_string_actions.keys() - {"-h", "--help"}
        assert all(flag in shown for flag in flags[command])
    assert len(flags) == 13
    assert len(flags["train"]) <= 38
    assert sum(map(len, flags.values())) <= 170


def test_the_list_of_commands_is_quick():
    code = (
        "import sys\nfrom g2netpl.cli import main\n"
        "try:\n    main(['--help'])\nexcept SystemExit as ended:\n    assert not ended.code\n"
        "assert 'torch' not in sys.modules and 'pandas' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)


def test_a_setting_without_a_flag_is_pointed_at(capsys):
    with pytest.raises(SystemExit, match="2"):
        main(["train", "--hidden", "8"])
    assert "--hidden; use --set hidden=8 (" in capsys.readouterr().err
    with pytest.raises(SystemExit, match="2"):
        main(["train", "--separator=; ", "--labels", "x.csv"])
    assert "--separator=; ; use --set 'separator=; ' (" in capsys.readouterr().err
    with pytest.raises(SystemExit, match="2"):
        main(["train", "--hidden", "--labels", "x.csv"])
    assert "use --set hidden=VALUE (" in capsys.readouterr().err
    with pytest.raises(SystemExit, match="2"):
        main(["train", "--epoch-s", "8"])
    assert "did you mean --epochs?" in capsys.readouterr().err


def test_no_option_of_a_method_is_called_like_a_setting():
    for name, method in METHODS.items():
        options = type(method.options({})).model_fields
        assert not set(options) & set(RunConfig.model_fields), name


def test_methods_are_listed_with_their_options(capsys):
    assert main(["methods"]) == 0
    lines = capsys.readouterr().out.splitlines()[1:]
    names = [line.split()[0] for line in lines if not line.startswith(" ")]
    assert names[:4] == ["g2netpl", "g2netpl-paper", "plmcl", "an"]
    assert names[3:] == sorted(names[3:])
    assert main(["methods", "g2netpl"]) == 0
    assert "step_growth" in capsys.readouterr().out


def test_a_run_from_toml_with_flags_over_it(photos, tmp_path, capsys, monkeypatch):
    config = tmp_path / "run.toml"
    config.write_text(
        f'labels = "{photos / "train.csv"}"\nimages = "{photos}"\nbackbone = "tiny"\n'
        'setting = "fspl"\nepochs = 9\nimage_size = 32\nworkers = 0\nexpected_positives = 2\n'
        "[options]\npenalty = 0.7\n"
    )
    run = str(tmp_path / "run")
    arguments = ["train", "--config", str(config), "--epochs", "1", "--output", run]
    assert main([*arguments, "--set", "gamma=0.5"]) == 0
    assert "written to" in capsys.readouterr().out
    stored = json.loads((tmp_path / "run" / "run.json").read_text())["config"]
    assert stored["epochs"] == 1
    assert stored["options"] == {"penalty": 0.7, "gamma": 0.5}
    monkeypatch.chdir(tmp_path)  # a run can be resumed from anywhere
    assert main(["train", "--resume", "--output", "run"]) == 0
    assert "finished already" in capsys.readouterr().out
    assert main(arguments) == 2
    assert "holds results of 'g2netpl train'" in capsys.readouterr().err
    assert main([*arguments, "--overwrite"]) == 0


def test_overwrite_touches_only_what_is_ours(photos, tmp_path, capsys):
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "thesis.txt").write_text("years of work")
    arguments = ["train", "--labels", str(photos / "train.csv"), "--images", str(photos)]
    arguments += ["--backbone", "tiny", "--expected-positives", "2", "--output", str(mine)]
    assert main([*arguments, "--overwrite"]) == 2
    assert "holds no run.json of 'g2netpl train'" in capsys.readouterr().err
    assert (mine / "thesis.txt").read_text() == "years of work"
    assert main(arguments) == 2
    said = "is not empty, and holds no run.json of 'g2netpl train'; choose another --output"
    assert capsys.readouterr().err == f"g2netpl: {mine}: {said}\n"


def test_overwrite_loses_nothing_to_a_mistake(features, tmp_path, capsys):
    output = tmp_path / "out"
    arguments = ["--methods", "an", "--settings", "fspl"]
    assert compare(features, output, *arguments) == 0
    (output / "notes.txt").write_text("mine")
    before = (output / "results.json").read_text()
    assert compare(features, output, "--methods", "an", "--settings", "fsp", "--overwrite") == 2
    assert (
        compare(features, output, "--methods", "an", "--settings", "biased:size", "--overwrite")
        == 2
    )
    assert (output / "results.json").read_text() == before
    assert compare(features, output, *arguments, "--overwrite") == 0
    assert (tmp_path / "out.old-1" / "notes.txt").read_text() == "mine"
    (output / "run.json").write_text('{"other": 1}')
    assert compare(features, output, *arguments, "--overwrite") == 2
    before = sorted(path.name for path in features.iterdir())
    (features / "run.json").write_text('{"format": 1, "command": "features"}')
    assert compare(features, features, *arguments, "--overwrite") == 2
    assert {*before, "run.json"} == {path.name for path in features.iterdir()}
    assert main(["train", "--resume", "--output", str(output)]) == 2
    capsys.readouterr()


def test_demo_is_a_comparison(tmp_path, monkeypatch, capsys, scenes):
    monkeypatch.setattr("g2netpl.experiments.data.make_scenes", lambda *_: scenes)
    monkeypatch.setattr("os.cpu_count", lambda: 1)
    for _ in range(2):  # the same command again trains nothing
        assert main(["demo", "--output", str(tmp_path)]) == 0
    assert len(cells_of(tmp_path)) == 11
    assert "60 training scenes" in capsys.readouterr().out
    assert main(["report", str(tmp_path)]) == 0
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    for method in ("bce", "an", "wan", "epr", "role", "g2netpl"):
        assert f'<th scope="row">{method}</th>' in page
    for setting in ("fspl", "sspl:0.2"):
        assert f"Validation mAP, {setting}" in page
    assert "bce (full labels)" in page
    assert "Pseudo-labels by hidden truth, g2netpl, fspl, seed 0" in page
    assert not re.search(r"(src|href|url)\s*[=(]\s*[\"']?(https?:)?//", page)  # loads nothing


def test_misspelt_and_missing_flags_get_a_hint(capsys):
    with pytest.raises(SystemExit, match="2"):
        main(["check", "--lables", "labels.csv"])
    assert "--lables; did you mean --labels?" in capsys.readouterr().err
    assert main(["check", "--images", "photos"]) == 2
    assert "expected --labels" in capsys.readouterr().err
    assert main(["train", "--labels", "a.csv"]) == 2
    assert "expected --output; g2netpl train --help" in capsys.readouterr().err
    assert main(["trian", "--labels", "labels.csv"]) == 2
    message = "g2netpl: no command 'trian': did you mean 'train'? (see g2netpl --help)\n"
    assert capsys.readouterr().err == message


BAD = {
    "k of single labels": (
        ["--single-label", "--expected-positives", "2"],
        "expected_positives: 2, but with --single-label it is 1",
    ),
    "a negative learning rate": (["--learning-rate", "-1"], "learning_rate: .*greater than 0"),
    "gamma above 1": (["--set", "gamma=1.5"], "gamma: .*less than or equal to 1"),
    "an unknown method": (["--method", "g2netp"], "did you mean 'g2netpl'"),
    "an unknown option": (["--set", "gamme=1"], "did you mean 'gamma'"),
    "an unknown flag": (["--learningrate", "1"], "did you mean --learning-rate\\? .*train --help"),
    "an unknown backbone": (["--backbone", "resnet5o"], "did you mean 'resnet50'"),
    "a missing label file": (["--labels", "none.csv"], "none.csv: no such label file"),
    "a missing image folder": (["--images", "none"], "none: no such image folder"),
    "a missing weights file": (["--weights", "none.safetensors"], "no such weights file"),
    "no form of k": (["--expected-positives", "many"], "number.* or .*'truth' or 'estimate'"),
    "an unknown optimizer": (["--set", "optimizer=LBFGS"], "unknown optimizer .LBFGS."),
    "set without a value": (["--set", "gamma"], "expected KEY=VALUE"),
    "endless epochs": (["--epochs", "99999999999"], "epochs: .*less than or equal to 1000000"),
    "a path with a NUL": (["--output", "a\0b"], "output: must be a path"),
    "an unknown mode": (["--mode", "quick"], "'full', 'partial', .*'lp-ft' or 'auto'"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_one_line_and_exit_code_2(case, photos, tmp_path, capsys):
    more, message = BAD[case]
    arguments = ["train", "--labels", str(photos / "train.csv"), "--images", str(photos)]
    arguments += ["--backbone", "tiny", "--output", str(tmp_path / "run"), *more]
    try:
        code = main(arguments)
    except SystemExit as stopped:  # argparse
        code = stopped.code
    shown = capsys.readouterr()
    assert code == 2
    assert len(shown.err.strip().splitlines()) == 1, shown.err
    assert re.search(message, shown.err), shown.err
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["--methods", "bce", "--settings", "fspl"], "method bce needs full labels"),
        (["--methods", "an,an", "--settings", "fspl"], "names something twice"),
        (["--methods", "ann", "--settings", "fspl"], "did you mean 'an'"),
        (["--methods", "an", "--settings", "fspl", "--set", "smoothing=0"], "no such key"),
        (
            ["--methods", "an", "--settings", "fspl", "--set", "expected_positives=x"],
            "'truth' or 'estimate",
        ),
        (["--methods", "epr:regulariser", "--settings", "fspl"], "expected key=value"),
        (["--methods", "an", "--settings", "fspl", "--seeds=-1"], "seed: input should"),
        (["--methods", "an", "--settings", "fspl", "--learning-rates="], "list of floats"),
    ],
)
def test_bad_comparisons_are_one_line(features, tmp_path, capsys, more, message):
    assert compare(features, tmp_path / "out", *more) == 2
    shown = capsys.readouterr().err
    assert message in shown
    assert len(shown.strip().splitlines()) == 1
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("epoch = 3\n", "unknown key 'epoch' .*did you mean 'epochs'"),
        (
            'labels = 3\nimages = "a"\noutput = "b"\n',
            "labels: must be a path, or a list of them, got 3",
        ),
        ('images = "a"\noutput = "b"\n', "labels: required"),
        ("labels = [\n", "not valid TOML"),
        ('options = "x"\n', "expected a table"),
    ],
)
def test_mistakes_in_a_config_file_are_named(tmp_path, capsys, content, message):
    (tmp_path / "run.toml").write_text(content)
    assert main(["train", "--config", str(tmp_path / "run.toml")]) == 2
    assert re.search(message, capsys.readouterr().err)


def test_a_bug_of_ours_is_exit_code_1(monkeypatch, capsys):
    def fail(flags):
        raise RuntimeError("anything else")

    monkeypatch.setattr("g2netpl.commands.methods.run", fail)
    assert main(["methods"]) == 1
    assert "a bug in g2netpl" in capsys.readouterr().err


def test_a_missing_extra_is_one_line(monkeypatch, capsys):
    def fail(flags):
        raise ModuleNotFoundError("No module named 'ray'", name="ray.data")

    monkeypatch.setattr("g2netpl.commands.methods.run", fail)
    assert main(["methods"]) == 2
    said = "g2netpl: needs ray, which is not installed; pip install 'g2netpl[ray]'\n"
    assert capsys.readouterr().err == said


@pytest.mark.parametrize("command", ["predict", "compare"])
def test_a_name_that_is_too_long_is_one_line(command, photos, tmp_path, capsys):
    name, output = "a" * 300, str(tmp_path / "o.csv")
    flags = {
        "predict": [name, "--images", str(photos), "--output", output],
        "compare": ["--features", name, "--methods", "an", "--settings", "fspl", "--output", "o"],
    }
    assert main([command, *flags[command]]) == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert "File name too long" in said


def test_a_second_interrupt_while_saving_is_no_bug(monkeypatch, capsys):
    """torch fails with an error of its own in what it cleans up."""

    def save(*_):
        try:
            raise KeyboardInterrupt
        except KeyboardInterrupt:
            raise RuntimeError("unexpected position") from None

    monkeypatch.setattr("g2netpl.commands.methods.run", save)
    assert main(["methods"]) == 130
    assert capsys.readouterr().err == "g2netpl: interrupted\n"


def test_memory_that_runs_out_is_one_line(monkeypatch, capsys):
    def fill(*_):
        raise MemoryError

    monkeypatch.setattr("g2netpl.commands.methods.run", fill)
    assert main(["methods"]) == 2
    assert capsys.readouterr().err.startswith("g2netpl: not enough memory; use fewer images")
