"""Labels and scores as data frames; without pandas it is said how to have it."""

import re
import sys
from pathlib import Path

import numpy as np
import pytest

from g2netpl import RunConfig, complete, load_run, train
from g2netpl.runs.classifier import frame_of
from g2netpl.utils.errors import InputError

ROOT = Path(__file__).parents[2]


@pytest.fixture
def run(small_training):
    return load_run(train(RunConfig(**small_training(epochs=1))).folder)


def test_without_pandas_it_is_said_how_to_have_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(InputError, match="needs pandas; install it with pip install pandas"):
        frame_of(np.zeros((1, 1), np.float32), ["a.png"], ["cat"])


def test_a_run_introduces_itself_in_a_line(run):
    assert repr(run) == f"Run('{run.folder}': g2netpl, 60 images × 10 classes)"


def test_arrays_need_no_pandas(run, monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    assert run.soft_labels().shape == run.predictions().shape == (60, 10)


def test_frames_have_the_names_and_the_numbers_of_the_arrays(run, photos):
    pytest.importorskip("pandas")
    frames = {
        "soft": (run.soft_labels(as_frame=True), run.soft_labels()),
        "predicted": (run.predictions(as_frame=True), run.predictions()),
    }
    for frame, array in frames.values():
        assert list(frame.columns) == list(run.classes)
        assert (frame.index.name, list(frame.index)) == ("image", list(run.observed().images))
        assert np.array_equal(frame.to_numpy(), array)
    paths = [str(photos / "train-00000.png"), str(photos / "train-00001.png")]
    scores = run.predict(paths, as_frame=True)
    assert list(scores.index) == paths
    assert np.array_equal(scores.to_numpy(), run.predict(paths))


def test_completed_labels_are_whole_numbers_and_missing_where_unknown(run):
    pytest.importorskip("pandas")
    found = complete(run, sure=0.99)
    frame = found.as_frame()
    assert {str(kind) for kind in frame.dtypes} == {"Int8"}
    assert frame.isna().to_numpy().tolist() == (found.values == -1).tolist()
    assert int(frame.sum().sum()) == int((found.values == 1).sum())


def test_the_page_on_python_shows_what_is_printed(photos, tmp_path, monkeypatch, capsys):
    """Its blocks but the first are run in order, on 60 scenes; numbers may differ."""
    pytest.importorskip("pandas")
    monkeypatch.chdir(tmp_path)
    keys = {"labels": photos / "train.csv", "test_labels": photos / "test.csv", "workers": 0}
    keys |= {"setting": "fspl", "backbone": "tiny", "image_size": 32, "epochs": 4, "device": "cpu"}
    keys |= {"only_listed": True, "expected_positives": 2.3, "output": "runs/first"}
    train(RunConfig(**keys))
    page = (ROOT / "docs" / "start" / "python.md").read_text(encoding="utf-8")
    blocks = re.findall(r"```(python|text)\n(.*?)```", page, flags=re.DOTALL)
    assert [kind for kind, _ in blocks] == ["python", "python", "text", "python", "text"]
    names = {"load_run": load_run, "complete": complete}
    for (_, code), (_, shown) in (blocks[1:3], blocks[3:5]):
        exec(code, names)
        assert in_words(capsys.readouterr().out) == in_words(shown.replace("images/", ""))


def in_words(text):
    return re.sub(r"[\d.,]+", "#", text).split()
