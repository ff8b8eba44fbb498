"""Record what every kind of training gives, and hold a later version against it, bit for bit.

    python dev/golden.py before.json            record, before a change that must keep behaviour
    python dev/golden.py after.json before.json record again, and name every difference

Small scenes, tiny networks, one thread: a few minutes. Weights, soft labels and predictions are
kept as SHA-256, histories and results in full, times and paths left out. The bits hold for one
machine and one set of versions, so a record is made and used on the spot and never committed.
"""

import hashlib
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import closing
from pathlib import Path

import numpy as np

SMALL = "--backbone tiny --image-size 32 --augment plain --batch-size 16 --workers 0 --device cpu"
LINEAR = [
    "bce",
    "bce-ls",
    "iu",
    "an",
    "an-ls",
    "wan",
    "epr",
    "role",
    "g2netpl",
    "g2netpl-paper",
    "ups",
    "plmcl",
    "asl",
    "hill",
    "splc",
    "ll-r",
    "ll-ct",
    "ll-cp",
    "em",
    "em-apl",
    "gr",
]
DEEP = ["g2netpl", "g2netpl-paper", "role", "epr", "wan", "an", "ll-cp", "em-apl", "fixmatch"]
TIMES = ("seconds", "images_per_second", "time", "folder", "output", "hours")


def call(*words: str) -> str:
    """Run g2netpl; what it said."""
    command = [sys.executable, "-m", "g2netpl", *(str(word) for word in words)]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)}\n{done.stdout}{done.stderr}")
    return done.stdout


def timeless(value: object) -> object:
    """Without times and places."""
    if isinstance(value, dict):
        return {key: timeless(each) for key, each in value.items() if key not in TIMES}
    return [timeless(each) for each in value] if isinstance(value, list) else value


def digest(array: np.ndarray) -> str:
    """An array in short."""
    content = hashlib.sha256(np.ascontiguousarray(array).tobytes()).hexdigest()[:24]
    return f"{array.dtype} {array.shape} {content}"


def content(path: Path) -> object:
    """What a file holds, as far as it must not change."""
    if path.suffix == ".jsonl":
        return [timeless(json.loads(line)) for line in path.read_text().splitlines()]
    if path.suffix == ".json":
        return timeless(json.loads(path.read_text()))
    if path.suffix == ".npy":
        return digest(np.load(path))
    if path.suffix == ".npz":
        with np.load(path) as arrays:
            return {name: digest(arrays[name]) for name in sorted(arrays)}
    if path.suffix == ".safetensors":
        from safetensors.numpy import load_file

        return {name: digest(each) for name, each in sorted(load_file(path).items())}
    return hashlib.sha256(path.read_bytes()).hexdigest()[:24]


def folder(path: Path) -> dict[str, object]:
    """Everything below a folder that is a result."""
    kinds = (".jsonl", ".json", ".npy", ".npz", ".safetensors", ".csv")
    found = sorted(each for each in path.rglob("*") if each.suffix in kinds)
    return {str(each.relative_to(path)): content(each) for each in found if each.name != "run.json"}


def record(root: Path) -> dict[str, object]:
    """Train everything below a folder."""
    from g2netpl import make_scenes, write_scenes

    found: dict[str, object] = {}
    photos = root / "photos"
    write_scenes(make_scenes(120, 60), photos)
    data = f"--labels {photos}/train.csv --images {photos} --test-labels {photos}/test.csv"
    data += f" --cache {root / 'cache'}"

    def train(name: str, words: str) -> Path:
        output = root / name.replace(" ", "-")
        call("train", *f"{data} {SMALL} {words} --output {output}".split())
        found[f"train {name}"] = folder(output)
        print(f"train {name}", flush=True)
        return output

    for method in LINEAR:
        setting = "full" if method.startswith("bce") else "fspl"
        setting = "positives:1+1" if method == "iu" else setting
        words = f"--method {method} --mode linear --setting {setting} --epochs 3"
        train(f"{method} linear", words)
    for method in DEEP:
        train(f"{method} full", f"--method {method} --setting sspl:0.4 --epochs 2")
    for method in DEEP[:-1]:
        words = f"--method {method} --mode lp-ft --setting fspl --epochs 1 --set linear_epochs=2"
        train(f"{method} lp-ft", words)
    train("spml", "--mode linear --setting fspl@spml --epochs 2")
    train("hidden", "--mode linear --setting known:0.2 --set hidden=8 --epochs 2")
    train("bf16", "--setting fspl --precision bf16 --epochs 2")
    tags = root / "tags.csv"
    call(*f"convert {photos}/train.csv {tags} --setting sspl:0.5".split())
    first = root / "first"
    own = f"--labels {tags} --images {photos} --test-labels {photos}/test.csv {SMALL} --epochs 3"
    own += f" --cache {root / 'cache'}"
    call("train", *f"{own} --output {first}".split())
    found["train tags"] = folder(first)
    call("complete", first, "--details", root / "completed.csv")
    call("complete", first, "--details", root / "sure.csv", "--confidence", "0.6")
    call("predict", first, "--images", photos, "--output", root / "scores.csv")
    call("export", first, "--output", root / "bundle.onnx")
    call("predict", root / "bundle.onnx", "--images", photos, "--output", root / "bundle.csv")
    for name in ("completed", "sure", "scores", "bundle"):
        found[f"{name}.csv"] = content(root / f"{name}.csv")
    found["after review"] = after_review(first, photos, root / "second")
    found["resumed"] = resumed(f"{data} {SMALL} --setting fspl --epochs 40", root / "resumed")
    features = root / "features"
    call(
        "features",
        *f"--labels {photos}/train.csv --test-labels {photos}/test.csv --images {photos}".split(),
        *f"--backbone tiny --image-size 32 --workers 0 --output {features}".split(),
    )
    found["features"] = folder(features)
    grid = "--settings fspl,sspl:0.4 --seeds 0,1 --epochs 2 --batch-sizes 16 --search-weights"
    several = "--methods an,role,epr:regulariser=0.1,g2netpl,ups --choose-once"
    words = f"--features {features} {several} {grid}"
    call("compare", *f"{words} --output {root / 'compare'}".split())
    found["compare features"] = folder(root / "compare")
    print("compare", flush=True)
    words = f"--labels {photos}/train.csv --test-labels {photos}/test.csv --images {photos}"
    words += " --methods epr,g2netpl,fixmatch --settings fspl --seeds 0 --epochs 2 --set workers=0"
    words += " --backbone tiny --set image_size=32 --learning-rates 1e-3 --set device=cpu"
    call("compare", *f"{words} --output {root / 'photos-compare'}".split())
    found["compare photos"] = folder(root / "photos-compare")
    words = f"table2 --data {features} --seeds 0 --epochs 2 --learning-rates 1e-3 --batch-sizes 16"
    call("reproduce", *f"{words} --output {root / 'reproduce'}".split())
    words = f"ablation --data {features} --seeds 0 --epochs 2 --learning-rates 1e-3"
    call("reproduce", *f"{words} --batch-sizes 16 --output {root / 'ablation'}".split())
    words = f"labels --data {photos} --seeds 0 --epochs 1 --learning-rates 1e-3 --batch-sizes 16"
    words += " --backbone tiny --set image_size=32 --set workers=0 --set device=cpu"
    call("reproduce", *f"{words} --output {root / 'labels'}".split())
    for name in ("reproduce", "ablation", "labels"):
        found[name] = folder(root / name)
    print("reproduce", flush=True)
    found["estimator"] = estimator(features, photos)
    return found


def after_review(first: Path, photos: Path, second: Path) -> object:
    """Answers of a person who knows the truth, and the training that goes on with them."""
    from g2netpl import ReviewSession, read_labels

    truth = read_labels(photos / "train.csv")
    rows = {name: row for row, name in enumerate(truth.images)}
    with closing(ReviewSession(first, ask="labels")) as review:
        for question in review.questions("useful", 30):
            row, column = question["row"], question["tags"][0]["column"]
            yes = truth.values[rows[question["image"]], column] == 1
            answer = "yes" if yes else "no"
            review.decide(f"{row:016x}{column:016x}", row, column, answer, "useful")
    call("train", "--continue-from", first, "--output", second, "--epochs", "2")
    return {"review": content(first / "review.jsonl"), **folder(second)}


def resumed(words: str, output: Path) -> object:
    """A training that is stopped by a signal and goes on."""
    command = [sys.executable, "-m", "g2netpl", "train", *words.split(), "--output", str(output)]
    running = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    while not (output / "history.jsonl").is_file() and running.poll() is None:
        time.sleep(0.01)
    running.send_signal(signal.SIGTERM)
    if running.wait() != 75:
        raise SystemExit(f"resumed: expected a stop with 75, got {running.returncode}")
    call("train", "--resume", "--output", output)
    return folder(output)


def estimator(features: Path, photos: Path) -> object:
    """scikit-learn's door."""
    from g2netpl import PartialLabelClassifier, Setting, observe, read_labels

    with np.load(features / "train.npz") as arrays, np.load(features / "meta.npz") as meta:
        inputs = arrays["features"] * meta["scale"] if "scale" in meta else arrays["features"]
    truth = read_labels(photos / "train.csv")
    partial = observe(truth, Setting.parse("known:0.3"), 0).values
    found = {}
    for method in ("g2netpl", "role", "epr"):
        model = PartialLabelClassifier(method=method, epochs=2, device="cpu").fit(inputs, partial)
        found[method] = [digest(model.predict_proba(inputs)), digest(model.completed_labels_)]
    return found


def with_logits(record: object) -> object:
    """A record of a version that kept predictions twice, in today's file: the same logits."""
    if not isinstance(record, dict):
        return record
    found = {key: with_logits(each) for key, each in record.items()}
    for key in [key for key in found if key.endswith("predictions.npy")]:
        place = key.removesuffix("predictions.npy")
        del found[key]
        found[f"{place}logits.npy"] = found[f"{place}scores.npz"].pop("predicted")
    return found


def differences(before: object, after: object, where: str = "") -> list[str]:
    """Every place where two records differ."""
    if isinstance(before, dict) and isinstance(after, dict):
        found = [f"{where}/{key}: only before" for key in before if key not in after]
        found += [f"{where}/{key}: only after" for key in after if key not in before]
        for key in before:
            if key in after:
                found += differences(before[key], after[key], f"{where}/{key}")
        return found
    if isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        pairs = enumerate(zip(before, after, strict=True))
        return [line for n, (a, b) in pairs for line in differences(a, b, f"{where}/{n}")]
    return [] if before == after else [f"{where}: {str(before)[:80]} → {str(after)[:80]}"]


def main() -> None:
    """Record, and compare."""
    os.environ["OMP_NUM_THREADS"] = "1"
    with tempfile.TemporaryDirectory() as place:
        text = json.dumps(record(Path(place)), indent=1, sort_keys=True)
        text = re.sub(re.escape(place), "", text)
    Path(sys.argv[1]).write_text(text)
    if len(sys.argv) > 2:
        before = with_logits(json.loads(Path(sys.argv[2]).read_text()))
        lines = differences(before, json.loads(text))
        print("\n".join(lines) or "the same, bit for bit")
        sys.exit(bool(lines))


if __name__ == "__main__":
    main()
