"""Labels and scores of a run as data frames."""

import numpy as np
import pytest

from g2netpl import RunConfig, load_run, train


@pytest.fixture
def run(small_training):
    return load_run(train(RunConfig(**small_training(epochs=1))).folder)


def test_a_run_introduces_itself_in_a_line(run):
    assert repr(run) == f"Run('{run.folder}': g2netpl, 60 images × 10 classes)"


def test_frames_have_the_names_and_the_numbers_of_the_arrays(run, photos):
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
