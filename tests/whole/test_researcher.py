"""A researcher: a Hugging Face data set in, a classifier with its card for the hub out."""

import io

import numpy as np
import packed
import pytest
from PIL import Image

from g2netpl import load_bundle, load_run, read_labels, write_scenes
from g2netpl.cli import main

pyarrow = pytest.importorskip("pyarrow", reason="the extra 'parquet' is not installed")
hub_client = pytest.importorskip("huggingface_hub", reason="the extra 'hub' is not installed")
pytest.importorskip("datasets", reason="the extra 'datasets' is not installed")
for package in ("onnx", "onnxscript", "onnxruntime"):
    pytest.importorskip(package, reason="the extra 'export' is not installed")


def saved(folder, pictures, table):
    """A split as `datasets` saves it: pictures inside, lists of classes."""
    contents = []
    for pixels in pictures:
        buffer = io.BytesIO()
        Image.fromarray(pixels).save(buffer, "PNG")
        contents.append(buffer.getvalue())
    names = {"names": list(table.classes), "_type": "ClassLabel"}
    features = {"image": {"_type": "Image"}, "labels": {"feature": names, "_type": "List"}}
    lists = [np.flatnonzero(row == 1).tolist() for row in table.values]
    columns = {
        "image": packed.images([None] * len(table), contents),
        "labels": pyarrow.array(lists, pyarrow.list_(pyarrow.int64())),
    }
    packed.write(folder, columns, features)


def test_from_a_data_set_to_a_card(scenes, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (tmp_path / "digits").mkdir()
    (tmp_path / "digits/dataset_dict.json").write_text('{"splits": ["train", "test"]}')
    saved(tmp_path / "digits/train", scenes.train_images, scenes.train)
    saved(tmp_path / "digits/test", scenes.test_images, scenes.test)

    assert main(["convert", "digits", "out"]) == 2
    assert "one of its splits: digits/train, digits/test" in capsys.readouterr().err
    flags = ["--labels", "digits/train", "--test-labels", "digits/test", "--setting", "known:0.5"]
    flags += ["--set", "absent=negative"]
    flags += ["--backbone", "tiny", "--image-size", "32", "--epochs", "1", "--workers", "0"]
    assert main(["train", *flags, "--output", "runs/first"]) == 0
    assert main(["export", "runs/first", "--output", "model", "--license", "Apache-2.0"]) == 0

    run, bundle = load_run("runs/first"), load_bundle("model")
    card = hub_client.ModelCard.load("model/README.md")
    assert card.data.license == "apache-2.0"
    assert f"{100 * run.result['test_map']:.1f}" in card.text
    write_scenes(scenes, "pictures")
    paths = [f"pictures/{name}" for name in read_labels("pictures/test.csv").images]
    np.testing.assert_allclose(bundle.predict(paths), run.predict(paths), atol=1e-4)
