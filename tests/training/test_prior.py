"""The prior in a training run: names of the backbone's classifier, a file of scores, or none."""

import math
import shutil
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch
from small_trainer import HELD_OUT, INPUTS, TRAIN, TRUTH, VISIBLE
from torch.nn import functional

from g2netpl import RunConfig, load_run, train
from g2netpl.cli import main
from g2netpl.core.models import Backbone, build_backbone
from g2netpl.core.prior import log_scores
from g2netpl.images.loader import ImageSource
from g2netpl.labels.class_names import class_weights, imagenet_synsets, match_names
from g2netpl.labels.table import LabelTable
from g2netpl.runs.prior import read_scores
from g2netpl.runs.train_config import TrainConfig
from g2netpl.training.datamodule import TensorDataModule
from g2netpl.training.expected_positives import Expected
from g2netpl.training.splits import TrainingData
from g2netpl.training.trainer import Trainer
from g2netpl.utils.errors import InputError

CLASSES = ("dog", "cat", "bus", "zzyzx")  # the last one is no word
CLASSIFIER = (
    torch.randn(1000, 6, generator=torch.Generator().manual_seed(1)),
    torch.randn(1000, generator=torch.Generator().manual_seed(2)),
)
WEIGHTS = torch.from_numpy(
    class_weights(match_names(CLASSES, imagenet_synsets(1000)), imagenet_synsets(1000))
)


def table(values, start=0):
    return LabelTable(tuple(f"{start + row}.jpg" for row in range(len(values))), CLASSES, values)


def data():
    return TrainingData(
        table(TRUTH), TRAIN, table(VISIBLE[:60]), HELD_OUT, table(TRUTH[60:], start=60)
    )


def trainer(classifier=CLASSIFIER, **changes):
    keys = {"epochs": 3, "batch_size": 16, "learning_rate": 0.02, "mode": "linear", **changes}
    config = TrainConfig(device="cpu", **keys)
    backbone = Backbone(torch.nn.Identity(), 6, classifier=classifier)
    inputs = TensorDataModule(data(), INPUTS, backbone=backbone)
    return Trainer(config, data(), inputs, k=Expected(1.4, "given"))


def by_hand(features):
    """Sums of the classifier's probabilities over the classes of each name."""
    weight, bias = CLASSIFIER[0].half().float(), CLASSIFIER[1]
    return functional.softmax(features @ weight.T + bias, dim=1) @ WEIGHTS.T


def test_names_predict_before_any_training():
    """With a head of zeros the logits are q: the log of the summed probabilities, over 0.01."""
    model = trainer(annotation="random").full_model
    with torch.no_grad():
        for parameter in model.head.classifier.parameters():
            parameter.zero_()
        logits = model.predict(INPUTS)
    expected = (by_hand(INPUTS)[:, :3].clamp(min=1e-4) / 0.01).log().clamp(-4.6, 4.6)
    assert torch.allclose(logits[:, :3], expected, atol=1e-4)
    assert torch.equal(logits[:, 3], torch.zeros(80))


@pytest.mark.parametrize("method", ["g2netpl", "wan", "epr", "role", "em-apl", "gr", "ups"])
@pytest.mark.parametrize("annotation", ["random", "sampled"])
def test_scores_of_the_source_are_those_of_the_model(method, annotation):
    """In training q is computed once for each image; a trained model computes it again."""
    fitted = trainer(method=method, annotation=annotation)
    fitted.fit()
    by_source = fitted.predict(fitted.state.best_model, fitted.inputs.all("linear"))
    with torch.no_grad():
        by_model = fitted.full_model.eval().predict(INPUTS).sigmoid()
    np.testing.assert_allclose(by_source, by_model.numpy(), atol=1e-5)
    factor = fitted.full_model.head.state_dict()
    name = "factor" if annotation == "random" else "tag_factor"
    assert (factor[name][:3] != 1).any()
    assert factor[name][3] == 1  # nothing is known about the last class


# --- a file of scores -----------------------------------------------------------------------------


def write_scores(path, rows=range(80)):
    scores = np.random.default_rng(5).random((80, 3)).astype(np.float32)
    frame = pd.DataFrame(scores, columns=["cat", "dog", "zzyzx"])
    frame.insert(0, "image", [f"{row}.jpg" for row in range(80)])
    frame.loc[3, "cat"] = np.nan
    frame = frame.iloc[list(rows)]
    frame.to_parquet(path) if path.suffix == ".parquet" else frame.to_csv(path, index=False)
    return scores


@pytest.mark.parametrize("ending", [".csv", ".parquet"])
def test_a_file_of_scores(tmp_path, ending):
    path = tmp_path / f"scores{ending}"
    scores = write_scores(path, [*range(40), *range(50, 80)])
    fitted = trainer(prior=str(path), annotation="random")
    with torch.no_grad():
        for parameter in fitted.full_model.head.classifier.parameters():
            parameter.zero_()
    fitted._start_phase(0, None)
    logits = fitted.predict(fitted.full_model.state_dict(), fitted.inputs.all("linear"))
    expected = np.full((80, 4), 0.5)
    for row in (*range(40), *range(50, 80)):
        for column, score in zip((1, 0, 3), scores[row], strict=True):
            if (row, column) != (3, 1):
                expected[row, column] = 1 / (1 + 0.01 / max(score, 1e-4))
    bounded = np.clip(np.log(expected / (1 - expected)), -4.6, 4.6)
    np.testing.assert_allclose(np.log(logits / (1 - logits)), bounded, atol=1e-3)
    fitted.fit()
    assert fitted.prior.kind == "scores"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("image,kat\n1.jpg,0.5\n", "no column is a class of the labels .*did you mean 'cat'"),
        ("image,cat\n1.jpg,1.5\n", "image '1.jpg', class 'cat': expected a score from 0 to 1"),
        ("image,cat\n1.jpg,high\n", "image '1.jpg', class 'cat': .* got 'high'"),
        ("image,cat\n1.jpg,0.5\n1.jpg,0.6\n", "image '1.jpg' has two rows"),
        ("", "cannot be read as CSV"),
        ("image,cat\n1.jpg,0.5,0.7\n", "expected a header with a name for every column"),
    ],
)
def test_mistakes_in_a_file_of_scores(tmp_path, text, problem):
    path = tmp_path / "scores.csv"
    path.write_text(text)
    with pytest.raises(InputError, match=problem):
        read_scores(str(path), CLASSES)


def test_scores_of_pandas_own_types_with_images_as_the_index(tmp_path):
    path = tmp_path / "scores.parquet"
    frame = pd.DataFrame({"cat": pd.array([0.5, None], "Float64")}, ["1.jpg", "2.jpg"])
    frame.rename_axis("image").to_parquet(path)
    q = read_scores(str(path), CLASSES).q_of(["1.jpg", "2.jpg"])
    assert torch.allclose(q[:, 1], log_scores(torch.tensor([0.5, math.nan])))
    frame.to_parquet(path)  # without a name, so nobody knows that these are images
    with pytest.raises(InputError, match="expected a header"):
        read_scores(str(path), CLASSES)
    with pytest.raises(InputError, match="no such file"):
        read_scores("s3://bucket/scores.csv", CLASSES)


def test_scores_of_other_images_are_a_mistake(tmp_path):
    path = tmp_path / "scores.csv"
    path.write_text("image,cat\nother.jpg,0.5\n")
    with pytest.raises(InputError, match="has no score of any training image"):
        trainer(prior=str(path), annotation="random").fit()


def test_scores_find_their_images_by_name_or_path(tmp_path):
    path = tmp_path / "scores.csv"
    path.write_text("image,cat\na/1.jpg,0.5\nb/1.JPG,0.25\n")
    found = read_scores(str(path), CLASSES)
    for top in ("", "/photos/", "s3://bucket/"):
        q = found.q_of([f"{top}b/1.jpg", f"{top}a/1.jpg", f"{top}c/1.jpg"])
        assert torch.allclose(q[:, 1], log_scores(torch.tensor([0.25, 0.5, math.nan])))
    part = replace(found, root="/photos").q_of(["/photos/a/1.jpg"])  # a chunk of one folder
    assert torch.allclose(part[:, 1], log_scores(torch.tensor([0.5])))


# --- a run folder -------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def run(photos, tmp_path_factory):
    """A run with names, on lite0."""
    folder = tmp_path_factory.mktemp("named")
    labels = (photos / "train.csv").read_text().splitlines()
    header = ["image", "dog", "cat", "bus", "crane", "Hund", "teapot", "clock", "ball", "cup", "e"]
    (folder / "train.csv").write_text("\n".join([",".join(header), *labels[1:]]))
    return train(RunConfig.read(keys(photos, folder), "test"))


def keys(photos, folder, **changes):
    return {
        "labels": str(folder / "train.csv"),
        "images": str(photos),
        "only_listed": True,
        "output": str(folder / "run"),
        "setting": "fspl",
        "backbone": "lite0",
        "image_size": 32,
        "epochs": 2,
        "workers": 0,
        "device": "cpu",
        "cache": str(folder / "cache"),
        **changes,
    }


def pictures(photos):
    return [str(path) for path in sorted(photos.glob("*.png"))[:20]]


def test_a_bundle_has_the_names_inside(run, photos, tmp_path):
    pytest.importorskip("onnxruntime")
    from g2netpl import load_bundle
    from g2netpl.runs.export import export

    done = export(run, tmp_path / "b.onnx")
    assert done.difference <= 1e-4
    theirs = load_bundle(tmp_path / "b.onnx").score(pictures(photos))
    np.testing.assert_allclose(theirs, run.score(pictures(photos)), atol=1e-4)


def test_a_run_with_a_file_of_scores_asks_for_scores(run, photos, tmp_path, capsys):
    shutil.copytree(run.folder.parent, tmp_path / "a", ignore=shutil.ignore_patterns("run"))
    names = [path.name for path in sorted(photos.glob("*.png"))]
    scores = pd.DataFrame({"image": names, "dog": np.linspace(0, 1, len(names))})
    scores.to_csv(tmp_path / "scores.csv", index=False)
    more = {"prior": str(tmp_path / "scores.csv")}
    with_file = train(RunConfig.read(keys(photos, tmp_path / "a", **more), "test"))
    predict = ["predict", str(with_file.folder), "--images", str(photos), "--workers", "0"]
    predict += ["--device", "cpu", "--output", str(tmp_path / "out.csv")]
    assert main(predict) == 2
    assert "trained with --prior FILE: give the scores" in capsys.readouterr().err
    assert main([*predict, "--prior", str(tmp_path / "scores.csv")]) == 0
    written = pd.read_csv(tmp_path / "out.csv").set_index("image")
    saved = with_file.thresholds.calibrate(with_file.predictions())
    expected = pd.DataFrame(saved, with_file.labels.images, with_file.classes)
    shared = written.loc[expected.index, list(with_file.classes)]
    np.testing.assert_allclose(shared, expected, atol=5e-3)
    other = scores.assign(dog=1 - scores["dog"])
    other.to_csv(tmp_path / "other.csv", index=False)
    predict[-1] = str(tmp_path / "out") + "/"
    assert main([*predict, "--prior", str(tmp_path / "scores.csv")]) == 0
    capsys.readouterr()
    assert main([*predict, "--prior", str(tmp_path / "other.csv")]) == 2  # not the old results
    assert "was started with other" in capsys.readouterr().err
    pytest.importorskip("onnxruntime")
    assert main(["export", str(with_file.folder), "--output", str(tmp_path / "b.onnx")]) == 2
    assert "scores" in capsys.readouterr().err
    assert not (tmp_path / "b.onnx").exists()


# --- no tags at all -------------------------------------------------------------------------------


def untagged(photos, folder, *more, classes="dog bus teapot"):
    (folder / "classes.txt").write_text("\n".join(classes.split()))
    words = ["train", "--labels", folder / "classes.txt", "--format", "classes", "--images", photos]
    words += ["--output", folder / "run", "--image-size", "32", "--workers", "0"]
    words += ["--device", "cpu", "--cache", folder / "cache"]
    return main([*map(str, words), *more])


def test_class_names_and_photos_are_enough(photos, tmp_path, capsys):
    """Scores are 0.6 q, moved so that they add up to k."""
    assert untagged(photos, tmp_path, "--expected-positives", "0.7") == 0
    assert "no tags: labels come from the prior only" in capsys.readouterr().out
    run = load_run(tmp_path / "run")
    backbone, synsets = build_backbone(run.config.backbone), imagenet_synsets(1000)
    weights = torch.from_numpy(class_weights(match_names(run.classes, synsets), synsets))
    source = ImageSource(pictures(photos), *run.pixels)
    with torch.no_grad():
        features = torch.cat([*source.load([np.arange(20)], None)])
        logits = backbone.module.eval()(features) @ backbone.classifier[0].half().float().T
        q = log_scores((logits + backbone.classifier[1]).softmax(dim=1) @ weights.T)
    np.testing.assert_allclose(run.score(pictures(photos)), (0.6 * q).sigmoid(), atol=1e-4)
    calibrated = run.thresholds.calibrate(run.predictions())
    assert calibrated.sum(axis=1).mean() == pytest.approx(0.7, abs=0.02)
    assert run.thresholds.per_class == (0.5, 0.5, 0.5)


@pytest.mark.parametrize(
    ("flags", "classes", "problem"),
    [
        ([], "dog", "--expected-positives: without tags"),
        (["--backbone", "tiny"], "dog", "no prior to predict by: the backbone tiny has no"),
        ([], "dog zzyzx", "the prior does not know these classes: zzyzx; leave them out"),
        (["--prior", "none", "--names", "n.csv"], "dog", "not used with prior none"),
    ],
)
def test_what_is_needed_without_tags(photos, tmp_path, capsys, flags, classes, problem):
    is_given = "without tags" not in problem
    more = [*flags, *(["--expected-positives", "1"] if is_given else [])]
    assert untagged(photos, tmp_path, *more, classes=classes) == 2
    assert problem in capsys.readouterr().err
