"""Configurations that cannot be used, each for another reason: one line, exit code 2."""

import pytest

from g2netpl.cli import main
from g2netpl.runs.config import RunConfig, read_keys

BAD = {
    "not TOML": ("labels = ", "not valid TOML"),
    "NUL in a path": ('cache = "a\\u0000b"', "cache: must be a path, without a NUL character"),
    "unknown key": ("epoch = 3", "unknown key 'epoch' (did you mean 'epochs'?)"),
    "unknown method": ('method = "g2net"', "unknown method 'g2net' (did you mean 'g2netpl'?)"),
    "unknown backbone": ('backbone = "resnet5O"', "unknown backbone 'resnet5O'"),
    "no positives expected": (
        "expected_positives = 0.0",
        "expected_positives: input should",
    ),
    "options are no table": ('options = "penalty=1"', "expected a table [options]"),
    "unknown option": ("[options]\nlambda = 1", "lambda: no key, and no option of g2netpl"),
    "option out of range": ("[options]\ngamma = 2", "gamma: input should be less than or equal"),
    "text for a number": ('epochs = "many"', "epochs: input should be a valid integer"),
    "unknown setting": ('setting = "spl:0.2"', "unknown setting 'spl:0.2'"),
    "unknown optimizer": ('optimizer = "Adaam"', "unknown optimizer 'Adaam'"),
    "unknown format": ('format = "cvs"', "must be a known format (did you mean 'csv'?)"),
    "unknown threshold rule": ('thresholds = "recall:0.9"', "expected f1, expected, or precision"),
    "empty separator": ('separator = ""', "separator: string should have at least 1 character"),
    "a list for a path": ("images = [1, 2]", "images: input should be a valid string"),
    "full labels only": ('method = "bce"', "method bce needs full labels"),
    "k of truth without truth": ('expected_positives = "truth"', "'truth' needs a file with full"),
}


@pytest.mark.parametrize(("content", "message"), BAD.values(), ids=BAD)
def test_a_bad_config_is_one_line(photos, tmp_path, capsys, content, message):
    path = tmp_path / "run.toml"
    start = f'labels = "{tmp_path / "labels.csv"}"\noutput = "{tmp_path / "run"}"\n'
    lines = (photos / "train.csv").read_text().splitlines()
    shown = [lines[0], *(line.replace(",0", ",") for line in lines[1:])]
    (tmp_path / "labels.csv").write_text("\n".join(shown) + "\n")
    if "images" not in content:
        start += f'images = "{photos}"\n'
    path.write_text(start.replace("\\", "/") + content)
    assert main(["train", "--config", str(path)]) == 2
    out, err = capsys.readouterr()
    assert err.count("\n") == 1
    assert err.startswith("g2netpl: ")
    assert message in err
    assert "Traceback" not in out + err
    assert not (tmp_path / "run").exists()


def test_a_mark_of_byte_order_is_no_part_of_the_configuration(tmp_path):
    path = tmp_path / "run.toml"
    path.write_text('labels = "l.csv"\noutput = "o"\nepochs = 7\n', encoding="utf-8-sig")
    assert RunConfig.read(read_keys(path, {}), str(path)).epochs == 7


@pytest.mark.parametrize(
    ("asked", "images", "epochs"),
    [
        ({}, 300, 27),  # of 19 steps each: 500 in all
        ({}, 17, 250),
        ({}, 800, 10),
        ({}, 24_000, 10),
        ({"batch_size": 64}, 300, 100),
        ({"epochs": 3}, 300, 3),
        ({"mode": "full"}, 300, 10),
        ({"mode": "partial"}, 300, 27),
    ],
)
def test_a_last_layer_at_its_start_has_500_steps_unless_asked_for_others(asked, images, epochs):
    config = RunConfig(**{"labels": "labels.csv", "output": "run", "mode": "linear", **asked})
    assert config.epochs_on(images) == epochs


@pytest.mark.parametrize(
    ("given", "pixels"),
    [
        ({}, 240),
        ({"backbone": "lite0"}, 224),
        ({"backbone": "resnet50"}, 224),
        ({"backbone": "vit_base_patch16_384"}, 384),
        ({"backbone": "no-such-model"}, 224),
        ({"backbone": "lite2", "image_size": 128}, 128),
    ],
)
def test_images_have_the_size_that_the_backbone_was_trained_with_unless_asked(given, pixels):
    config = RunConfig.read({"labels": "a.csv", "output": "run", **given}, "test")
    assert config.image_size == pixels
