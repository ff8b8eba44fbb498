"""Shared fixtures: a small table of scenes as files, and where the real data are."""

import multiprocessing
import os
import signal

import pytest
from hypothesis import settings
from PIL import Image

from g2netpl.cli import main
from g2netpl.experiments import cells as comparison
from g2netpl.images.scenes import make_scenes
from g2netpl.labels.io import tables

if "START_METHOD" in os.environ:  # of processes: spawn, as on Windows and macOS
    multiprocessing.set_start_method(os.environ["START_METHOD"])
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:  # a job in the background: tests send it
    signal.signal(signal.SIGINT, signal.default_int_handler)
settings.register_profile("repeatable", derandomize=True, deadline=None)
settings.load_profile("repeatable")


@pytest.fixture(scope="session")
def scenes():
    return make_scenes(train=60, test=20, seed=1)


@pytest.fixture(scope="session")
def photos(tmp_path_factory, scenes):
    """A folder as a user would have it: pictures, full labels, test labels."""
    folder = tmp_path_factory.mktemp("photos")
    for images, labels in ((scenes.train_images, scenes.train), (scenes.test_images, scenes.test)):
        for pixels, name in zip(images, labels.images, strict=True):
            Image.fromarray(pixels).save(folder / f"{name}.png")
    for name, labels in (("train.csv", scenes.train), ("test.csv", scenes.test)):
        named = type(labels)(
            tuple(f"{image}.png" for image in labels.images), labels.classes, labels.values
        )
        tables.write(named, folder / name)
    SHARED[folder] = _contents(folder)
    return folder


SHARED = {}  # folders that all tests of a session read, and what is in them


def _contents(folder):
    return {each.name: (each.stat().st_size, each.stat().st_mtime_ns) for each in folder.iterdir()}


@pytest.fixture(autouse=True)
def _shared_folders_stay_as_they_are():
    """Whoever writes there fails, not a test that comes later."""
    yield
    for folder, contents in SHARED.items():
        assert _contents(folder) == contents, f"this test has changed {folder}; copy it first"


@pytest.fixture(scope="session", autouse=True)
def _data_sets_are_cached_apart(tmp_path_factory):
    """Hugging Face's `datasets` copies Parquet files to its cache."""
    os.environ["HF_DATASETS_CACHE"] = str(tmp_path_factory.mktemp("datasets"))


@pytest.fixture(autouse=True)
def _signal_handlers_are_restored():
    """A command may ignore signals until its process ends; here the process continues."""
    before = {number: signal.getsignal(number) for number in SIGNALS}
    yield
    for number, handler in before.items():
        if signal.getsignal(number) != handler:
            signal.signal(number, handler)


SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@pytest.fixture
def small_training(photos, tmp_path):
    """The keys of a short training on those photos, by its name; any of them may be changed."""

    def keys(name="run", **changes):
        return {
            "labels": str(photos / "train.csv"),
            "images": str(photos),
            "only_listed": True,
            "output": str(tmp_path / name),
            "test_labels": str(photos / "test.csv"),
            "setting": "fspl",
            "backbone": "tiny",
            "image_size": 32,
            "epochs": 2,
            "workers": 0,
            "device": "cpu",
            "cache": str(tmp_path / "cache"),
            "expected_positives": 2.3,
            **changes,
        }

    return keys


@pytest.fixture
def small_train(small_training):
    """The words of that command."""
    words = ["train"]
    for key, value in small_training().items():
        words += ["--set", f"{key}={value}"]
    return words


@pytest.fixture(scope="session")
def small_run(photos, tmp_path_factory):
    """A CNN with a hidden layer, trained end to end on scenes; half of the labels are known."""
    folder = tmp_path_factory.mktemp("trained")
    flags = ["--labels", photos / "train.csv", "--images", photos, "--set", "only_listed=true"]
    flags += ["--test-labels", photos / "test.csv", "--setting", "known:0.5", "--output"]
    flags += [folder / "run", "--backbone", "tiny", "--image-size", "48", "--epochs", "2"]
    flags += ["--set", "hidden=8", "--learning-rate", "3e-3", "--workers", "0", "--device", "cpu"]
    assert main(["train", *map(str, flags)]) == 0
    return folder / "run"


@pytest.fixture(scope="session")
def small_bundle(small_run):
    """That run as an ONNX file, with its card next to it."""
    for package in ("onnx", "onnxscript", "onnxruntime"):
        pytest.importorskip(package, reason="the extra 'export' is not installed")
    path = small_run.parent / "scenes.onnx"
    assert main(["export", str(small_run), "--output", str(path), "--license", "CC-BY-4.0"]) == 0
    return path


@pytest.fixture(scope="session")
def result_keys():
    """What a row of results holds, as promised to readers of the files."""
    return {
        "method",
        "setting",
        "seed",
        "learning_rate",
        "batch_size",
        "weight",
        "best_epoch",
        "validation_map",
        "test_map",
        "last_test_map",
        "pseudo_label_map",
        "unresolved",
        "seconds",
    }


@pytest.fixture
def trained(monkeypatch):
    """The cells that are trained, in their order; `trained.stop_after` breaks off like Ctrl-C."""
    train_cell = comparison.train_cell

    class Trained(list):
        stop_after = None

    seen = Trained()

    def watch(sweep, cell, arrays):
        if len(seen) == seen.stop_after:
            raise KeyboardInterrupt
        seen.append(cell)
        return train_cell(sweep, cell, arrays)

    monkeypatch.setattr(comparison, "train_cell", watch)
    return seen


@pytest.fixture
def sigterm():
    """A function that sends SIGTERM to us; whoever does not catch it fails the test."""

    def missed(*_):
        raise AssertionError("nobody caught SIGTERM")

    before = signal.signal(signal.SIGTERM, missed)
    yield lambda: signal.raise_signal(signal.SIGTERM)
    signal.signal(signal.SIGTERM, before)
