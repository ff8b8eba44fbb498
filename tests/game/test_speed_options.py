"""Options that are about speed, and runs of versions with other options."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from g2netpl import RunConfig, read_labels, train
from g2netpl.base.errors import InputError, Refused
from g2netpl.runs.metrics import evaluate


@pytest.fixture
def config(small_training):
    def make(name="run", **changes):
        return RunConfig.read(small_training(name, **{"setting": "known:0.5", **changes}), "test")

    return make


def weights_of(run):
    return load_file(run.folder / "model.safetensors")


class Stopped(Exception):
    pass


def stop(*_):
    raise Stopped


def test_a_run_of_a_version_with_other_keys_goes_on(config):
    whole = train(config("whole"))
    with pytest.raises(Stopped):
        train(config(), on_epoch=stop)
    path = Path(config().output) / "run.json"
    content = json.loads(path.read_text())
    del content["config"]["resume_labels"]
    content["config"]["head"] = "boostlu"  # which later versions do not have
    path.write_text(json.dumps(content))
    with pytest.raises(InputError, match="has a BoostLU head, which only older versions know"):
        train(config(), resume=True)
    content["config"]["head"] = "linear"
    content["config"]["compile"] = False  # nor this
    path.write_text(json.dumps(content))
    with pytest.raises(Refused, match="changed since the run began: hidden; start a new run"):
        train(config(hidden=8), resume=True)
    resumed = train(config(), resume=True)
    for name, values in weights_of(whole).items():
        assert torch.equal(values, weights_of(resumed)[name])


@pytest.mark.parametrize("mode", ["end-to-end", "linear-init"])
def test_bf16_on_a_cpu_trains_and_is_judged_as_it_predicts(config, photos, mode):
    run = train(config(mode=mode, precision="bf16", linear_epochs=2))
    assert all(values.dtype != torch.bfloat16 for values in weights_of(run).values())
    paths = sorted(photos.glob("test-*.png"))
    again = run.predict(paths)
    assert np.isfinite(again).all()
    truth = read_labels(photos / "test.csv")
    order = [truth.images.index(path.name) for path in paths]
    found = evaluate(again, truth.values[order], run.thresholds.limits)
    assert found.mean_average_precision == pytest.approx(
        run.evaluation["test"]["mean_average_precision"], abs=1e-9
    )
