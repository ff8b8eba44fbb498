"""Bundles: the scores of PyTorch, all in one file, and one line for a file that is no bundle."""

import hashlib
import json
import re
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from PIL import Image

from g2netpl import load_bundle, load_run
from g2netpl.cli import main
from g2netpl.utils.errors import InputError

onnxruntime = pytest.importorskip("onnxruntime", reason="the extra 'onnx' is not installed")
onnx = pytest.importorskip("onnx", reason="the extra 'export' is not installed")
pytest.importorskip("onnxscript", reason="the extra 'export' is not installed")

from g2netpl.runs import export as exporting  # noqa: E402
from g2netpl.runs.export import as_text, make_card  # noqa: E402


def pictures(count, size):
    """Soft shapes, which networks tell apart better than noise."""
    random = np.random.default_rng(count)
    shapes = random.integers(0, 256, (count, 4, 4, 3), dtype=np.uint8)
    return np.stack([np.asarray(Image.fromarray(each).resize((size, size))) for each in shapes])


def by_torch(run, pixels):
    """Scores from the definition, in PyTorch."""
    images = torch.from_numpy(pixels.copy()).permute(0, 3, 1, 2) / 255
    mean, std = (torch.tensor(each)[:, None, None] for each in run.pixels[1:])
    with torch.no_grad():
        return torch.sigmoid(run.model.predict((images - mean) / std)).numpy()


def test_scores_are_those_of_pytorch_for_any_batch(small_run, small_bundle):
    run = load_run(small_run)
    session = onnxruntime.InferenceSession(small_bundle, providers=["CPUExecutionProvider"])
    for count in (1, 7):
        pixels = pictures(count, run.config.image_size)
        (scores,) = session.run(None, {"pixels": pixels})
        expected = by_torch(run, pixels)
        assert scores.shape == (count, len(run.classes))
        np.testing.assert_allclose(scores, expected, atol=1e-4, rtol=0)
    assert expected.std(axis=0).max() > 0.01  # the images do differ


def test_everything_is_in_the_metadata(small_run, small_bundle):
    run, model = load_run(small_run), onnx.load(small_bundle)
    onnx.checker.check_model(model, full_check=True)
    entries = {entry.key: entry.value for entry in model.metadata_props}
    about = json.loads(entries["g2netpl"])
    assert about["classes"] == list(run.classes)
    assert (about["image_size"], about["mean"], about["std"]) == run.pixels
    decisions = json.loads((small_run / "decisions.json").read_text())
    assert {key: about[key] for key in decisions} == decisions
    assert about["training"]["labels"] == "train.csv"
    assert (about["training"]["setting"], about["training"]["seed"]) == ("known:0.5", 0)
    loaded = load_bundle(small_bundle)
    assert (loaded.classes, loaded.thresholds) == (run.classes, run.thresholds)
    assert all(not node.metadata_props and not node.doc_string for node in model.graph.node)
    content = small_bundle.read_bytes()
    for private in (str(small_run.parent), str(Path(torch.__file__).parents[1]), "site-packages"):
        assert private.encode() not in content


def test_predict_writes_the_same_table_from_a_run_and_from_a_bundle(
    small_run, small_bundle, photos, tmp_path, capsys
):
    folder = tmp_path / "new"
    shutil.copytree(photos, folder, ignore=shutil.ignore_patterns("train*", "*.csv", "new*"))
    Image.fromarray(pictures(1, 300)[0]).resize((640, 480)).save(folder / "photo.jpg")
    (folder / "broken.png").write_bytes(b"no picture")
    tables = []
    for number, classifier in enumerate((small_run, small_bundle)):
        out = tmp_path / f"{number}.csv"
        flags = ["--images", str(folder), "--output", str(out), "--workers", "0"]
        assert main(["predict", str(classifier), *flags]) == 0
        shown = capsys.readouterr().out
        assert "21 images" in shown
        assert "broken.png" in shown
        tables.append(pd.read_csv(out).set_index("image"))
    by_run, by_bundle = tables
    assert [*by_run] == [*by_bundle] == ["labels", *load_run(small_run).classes]
    assert by_run.labels.equals(by_bundle.labels)
    assert by_run.labels.notna().any()
    assert by_run.loc["broken.png"].isna().all()
    scores = [each.drop(columns="labels").to_numpy() for each in tables]
    np.testing.assert_allclose(*scores, atol=1.01e-4)  # four digits are written


def test_a_bundle_predicts_files_as_a_run_does(small_bundle, photos):
    paths = [str(path) for path in sorted(photos.glob("train*.png"))]
    paths[5] = str(photos / "nowhere.png")
    loaded = load_bundle(small_bundle)
    scores = loaded.predict(paths, max_unreadable=1)
    assert np.isnan(scores).all(axis=1).nonzero()[0].tolist() == [5]
    with pytest.raises(InputError, match=r"nowhere\.png: no such image"):
        loaded.predict(paths)
    assert loaded.predict(paths[0]).shape == (1, 10)
    assert loaded.predict([]).shape == (0, 10)


def test_a_bundle_that_disagrees_is_not_written(small_run, small_bundle, tmp_path, monkeypatch):
    monkeypatch.setattr(exporting, "_serialized", lambda *_: small_bundle.read_bytes())
    path = tmp_path / "b.onnx"
    path.write_bytes(b"the one before")
    run = load_run(small_run)
    with torch.no_grad():
        run.model.head.classifier[-1].bias[3] += 0.01
    with pytest.raises(InputError, match=r"b\.onnx: not written: .* differ by 0\.00[1-9]"):
        exporting.export(run, path)
    assert path.read_bytes() == b"the one before"
    assert list(tmp_path.iterdir()) == [path]


def test_export_says_what_it_did_and_overwrites_nothing(small_run, small_bundle, tmp_path, capsys):
    command = ["export", str(small_run), "--output", str(small_bundle)]
    before = small_bundle.read_bytes()
    assert main(command) == 2
    assert "already exists" in capsys.readouterr().err
    assert main(["export", str(small_run), "--output", str(tmp_path / "b.pt")]) == 2
    assert "expected a name ending in .onnx" in capsys.readouterr().err
    assert main(["export", str(tmp_path), "--output", str(tmp_path / "b.onnx")]) == 2
    assert "no run folder" in capsys.readouterr().err
    assert small_bundle.read_bytes() == before
    assert main(["export", str(small_run), "--output", str(tmp_path / "b.onnx")]) == 0
    assert re.search(r"differ by \d\.\de.\d\d at most\n", capsys.readouterr().out)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["b.md", "b.onnx"]
    assert (tmp_path / "b.onnx").read_bytes() == before  # the same run, the same bytes


def test_the_card_tells_all_that_is_known(small_run, small_bundle):
    card, run = small_bundle.with_suffix(".md").read_text(), load_run(small_run)
    observed = run.observed().values
    for fact in (
        "license: cc-by-4.0",
        "| label file | train.csv |",
        "| images | 60 in all, 48 of them trained on |",
        "| setting | known:0.5: for an experiment, labels were hidden |",
        "| method | g2netpl: soft pseudo-labels",
        "| backbone | tiny, from a random start |",
        "| image size | 48 × 48 |",
        "| seed | 0 |",
        f"| mAP | {run.result['validation_map']:.1%} | {run.result['test_map']:.1%} |",
        f"Thresholds: f1, by {run.thresholds.basis}",
        "Unknown is not negative: ",
        f"{np.mean(observed == -1):.1%} of the labels were unknown",
        f"`{hashlib.sha256(small_bundle.read_bytes()).hexdigest()}`",
    ):
        assert fact in card, fact
    rows = re.findall(r"^\| (\w+) \| (\d.* \| .* \|.*) \|$", card, flags=re.MULTILINE)
    assert [name for name, _ in rows] == list(run.classes)
    for column, (_, cells) in enumerate(rows):
        expected = [str((observed[:, column] == value).sum()) for value in (1, 0, -1)]
        expected.append(f"{run.thresholds.per_class[column]:.3f}")
        assert [cell.strip() for cell in cells.split("|")][:4] == expected
    assert str(small_run.parent) not in card


def test_the_python_lines_of_the_card_run(small_run, small_bundle, tmp_path, monkeypatch, capsys):
    shutil.copy(small_bundle, tmp_path)
    monkeypatch.chdir(tmp_path)
    (code,) = re.findall(
        r"```python\n(.*?)```", small_bundle.with_suffix(".md").read_text(), flags=re.DOTALL
    )
    run, printed = load_run(small_run), set()
    for pixels in pictures(20, 48):  # of the right size: nothing to resize
        Image.fromarray(pixels).save("photo.png")
        exec(compile(code.replace("photo.jpg", "photo.png"), "card", "exec"), {})
        (scores,) = run.predict("photo.png")
        shown = dict(line.split() for line in capsys.readouterr().out.splitlines())
        assert set(shown) == set(np.array(run.classes)[run.thresholds.decide(scores)])
        for name, score in shown.items():
            assert float(score) == pytest.approx(scores[run.classes.index(name)], abs=2e-4)
        printed |= set(shown)
    assert printed


def test_a_card_without_results_license_or_harmless_names(small_run, tmp_path):
    folder = tmp_path / "run"
    shutil.copytree(small_run, folder)
    run_json = json.loads((folder / "run.json").read_text())
    odd = "a|b `c` <script>_x_"
    run_json["classes"][0] = odd
    run_json["config"] |= {"weights": "/home/me/w.safetensors", "setting": "own"}
    (folder / "run.json").write_text(json.dumps(run_json))
    (folder / "evaluation.json").write_text(json.dumps({"classes": []}))
    run = load_run(folder)
    contents = exporting.describe(run)
    exported = exporting.Exported(contents, "0" * 64, 10, 1e-7)
    card = make_card(run, exported, "odd name's.onnx")
    assert "license: unknown" in card
    assert "Not stated." in card
    assert "There are none: no images with known labels were held out." in card
    assert "| a\\|b \\`c\\` \\<script\\>\\_x\\_ |" in card
    assert "from the weights w.safetensors" in card
    assert "/home/me" not in card
    assert "g2netpl predict 'odd name'\"'\"'s.onnx'" in card
    assert 'InferenceSession("odd name\'s.onnx")' in card
    assert as_text("two\nlines") == "two lines"
