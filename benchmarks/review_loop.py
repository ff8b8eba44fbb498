"""Does a review improve results? Answers in the order of the page's queue and as many random ones.

    python benchmarks/review_loop.py --data coco_small
    python benchmarks/review_loop.py --data coco_small --images 1500 --image-size 128 --seeds 0
    python benchmarks/review_loop.py --data coco_small --image-size 128 \
        --orders useful,photos:useful,rest:useful,photos:random

The folder holds train.csv and test.csv with full labels, and the images. One positive label on 20 %
of the training images stays visible. After a first run, questions are asked by the code behind
`g2netpl review` and answered from the hidden truth; then training continues with the answers, as by
`g2netpl train --continue-from`, and, to compare, starts again with the same labels. Prints test
mAP × 100 for each. The control that trains as long with hardly an answer is "random 1".

An order is one of questions; `photos:ORDER` answers whole photos instead, for as long as the
questions take, and `rest:ORDER` also searches for what is not shown, and says that nothing else is
there. How long people take is assumed, not measured (SECONDS).
"""

import argparse
import shutil
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console

from g2netpl import RunConfig, read_labels, train
from g2netpl.labels.io import write_labels
from g2netpl.labels.settings import Setting, observe
from g2netpl.labels.table import POSITIVE, LabelTable
from g2netpl.review.session import ReviewSession
from g2netpl.runs.answers import reviewed_labels
from g2netpl.runs.records import read_training

SECONDS = {"question": 2.5, "photo": 2.0, "tag": 1.0, "search": 4.0}  # assumed


def fit(flags: argparse.Namespace, labels: Path, output: Path, seed: int, **more: Any) -> float:
    """Train on a label file; returns test mAP."""
    config = RunConfig(
        labels=str(labels),
        images=flags.data,
        only_listed=True,
        test_labels=f"{flags.data}/test.csv",
        output=str(output),
        mode="linear",
        image_size=flags.image_size,
        epochs=flags.epochs,
        validation=0,
        seed=seed,
        cache=flags.cache,
        **more,
    )
    return float(train(config, console=Console(quiet=True)).result["test_map"])


def answer(run: Path, truth: LabelTable, order: str, count: int, seed: int) -> Counter[str]:
    """Answer so many questions as the page asks them; returns what was said, and for how long."""
    review = ReviewSession(run, seed=seed)
    said: Counter[str] = Counter()
    for number in range(count):
        (question,) = review.questions(order, 1)
        row, column = question["row"], question["tags"][0]["column"]
        assert question["image"] == truth.images[row]
        kind = "yes" if truth.values[row, column] == POSITIVE else "no"
        review.decide(f"{number:032x}", row, column, kind, order)
        said += Counter([kind, "answers"])
    review.close()
    return said + Counter(seconds=count * SECONDS["question"])


def answer_photos(
    run: Path, truth: LabelTable, order: str, seconds: float, seed: int, rest: bool
) -> Counter[str]:
    """Set whole photos right for so many seconds; the same figures."""
    review = ReviewSession(run, "photos", seed=seed)
    said: Counter[str] = Counter()
    while said["seconds"] < seconds:
        (photo,) = review.questions(order, 1)
        row = photo["row"]
        there = {*np.flatnonzero(truth.values[row] == POSITIVE).tolist()}
        shown = {tag["column"]: tag["on"] for tag in photo["tags"]}
        unseen = [*(there - {*shown})] if rest else []
        toggled = sum(on != (column in there) for column, on in shown.items())
        before = review.values.copy()
        on, off = [*(there & {*shown}), *unseen], [*({*shown} - there)]
        review.save(
            f"{said['answers']:032x}",
            row,
            dict.fromkeys(on, "yes") | dict.fromkeys(off, "no"),
            rest=rest,
        )
        new = before[row] != review.values[row]
        said += Counter(
            answers=1,
            toggles=toggled,
            seconds=SECONDS["photo"] + SECONDS["tag"] * toggled + SECONDS["search"] * len(unseen),
            yes=int((new & (review.values[row] == POSITIVE)).sum()),
            no=int((new & (review.values[row] != POSITIVE)).sum()),
        )
    review.close()
    return said


def loop(flags: argparse.Namespace, folder: Path, seed: int) -> dict[str, float]:
    truth = read_labels(f"{flags.data}/train.csv")
    if flags.images:
        truth = truth.take(np.arange(min(flags.images, len(truth))))
    partial = folder / "partial.csv"
    write_labels(observe(truth, Setting.parse(flags.setting), seed), partial)
    maps = {"none": fit(flags, partial, folder / "first", seed)}
    k = read_training(folder / "first")["expected_positives"]
    print(f"seed {seed}: {len(truth):,} images, {flags.setting}, k = {k:.2f}")
    print(f"  no decisions: mAP {100 * maps['none']:.2f}")
    for order, count in [("random", 1), *((o, flags.decisions) for o in flags.orders.split(","))]:
        run, merged = folder / f"{order} {count}", folder / f"{order} {count}.csv"
        shutil.copytree(folder / "first", run)
        kind, _, name = order.rpartition(":")
        if kind:
            time = count * SECONDS["question"]
            said = answer_photos(run, truth, name, time, seed, rest=kind == "rest")
        else:
            said = answer(run, truth, order, count, seed)
        minutes, labels = said["seconds"] / 60, said["yes"] + said["no"]
        print(
            f"  {order}: {said['answers']} answers in {minutes:.1f} minutes, {said['yes']} yes, "
            f"{said['no']} no: {labels / minutes:.0f} labels a minute; {said['toggles']} toggles"
        )
        write_labels(reviewed_labels(run), merged)
        for name in ("continued", "from scratch"):
            output = folder / f"{order} {count} {name}"
            if name == "continued":
                value = fit(flags, partial, output, seed, continue_from=str(run))
            else:
                value = fit(flags, merged, output, seed, expected_positives=k)
            maps[output.name] = value
            gain = 100 * (value - maps["none"])
            rates = (100 * gain / said["answers"], gain / minutes)
            told = ": {:+.2f} per 100 answers, {:+.3f} a minute".format(*rates) if count > 1 else ""
            print(f"    {name}: mAP {100 * value:.2f} ({gain:+.2f}{told})", flush=True)
    return maps


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", required=True)
    parser.add_argument("--images", type=int, help="only the first so many (default: all)")
    parser.add_argument("--setting", default="sspl:0.2")
    parser.add_argument("--orders", default="useful,disagreement,random")
    parser.add_argument("--decisions", type=int, default=300)
    parser.add_argument("--image-size", type=int, default=224)
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--seeds", default="0,1,2")
    parser.add_argument("--cache", help="folder for features (default: the usual one)")
    flags = parser.parse_args()
    results = []
    for each in flags.seeds.split(","):
        with tempfile.TemporaryDirectory() as made:
            results.append(loop(flags, Path(made), int(each)))
    for name in results[0]:
        values = 100 * np.array([maps[name] for maps in results])
        print(f"{name}: mAP {values.mean():.2f} ± {values.std():.2f} over {len(values)} seeds")
