"""Does `g2netpl plan` foresee what more labels bring? A check against hidden labels.

    python benchmarks/plan_check.py FEATURES [--repeats 3] [--share 0.25] [--out FILE]

All images of a features folder are shuffled together. In every repeat as many of them as the folder
has test images are the test; of the others a `share` counts as labelled, and the rest is not there
yet. The plan is made from the labelled ones alone. Then half of the others, and all of them, are
looked at: the mean test mAP of three trainings is what the plan should have said.
COCO (30,000 + 10,000 images): a minute of one core per repeat.
"""

import argparse
import json
import time

import numpy as np
import torch
from rich.console import Console

from g2netpl.config import RunConfig
from g2netpl.data import ArraySource
from g2netpl.evaluation import mean_average_precision
from g2netpl.features import read_features
from g2netpl.labels import LabelTable
from g2netpl.lesson import on_features, teach
from g2netpl.plan import make_plan, measure
from g2netpl.predicting import predict_all

POINTS, PARTS, TRAININGS = 6, 5, 3


def config(seed):
    return RunConfig(
        labels="-", output="-", mode="linear", setting="fspl", batch_size=64, seed=seed
    )


def measured(features, table, rows, test, seed):
    """Test mAP after training on some images."""
    lesson = on_features(config(seed), features[rows], table.take(rows))
    teach(lesson, Console(quiet=True))
    scores = predict_all(lesson.network, ArraySource(torch.from_numpy(features[test])))
    return mean_average_precision(scores, table.values[test])


def check(features, table, tests, share, repeat):
    order = np.random.default_rng([repeat, 0x6368]).permutation(len(table))
    test, pool = order[:tests], order[tests:]
    own = pool[: round(share * len(pool))]
    points = list(measure(features[own], table.take(own), config(1000 * repeat), POINTS, PARTS))
    plan = make_plan(table.take(own), points)
    rows = []
    for name, size in (("today", len(own)), ("half", len(pool) // 2), ("all", len(pool))):
        found = [
            measured(
                features,
                table,
                own
                if name == "today"
                else np.random.default_rng([seed, 7]).permutation(pool)[:size],
                test,
                1000 * repeat + seed,
            )
            for seed in range(TRAININGS)
        ]
        truth = float(np.mean(found))
        said = plan.curve.at(size)
        gain = plan.curve.gain(len(own), size - len(own))
        rows.append(
            {
                "repeat": repeat,
                "what": name,
                "labelled": size,
                "measured": truth,
                "predicted": said.value,
                "low": said.low,
                "high": said.high,
                "inside": said.low <= truth <= said.high,
                "error": said.value - truth,
                "told": said.is_told,
            }
        )
        if name != "today":
            rise = truth - rows[0]["measured"]
            rows[-1] |= {
                "gain_measured": rise,
                "gain_predicted": gain.value,
                "gain_low": gain.low,
                "gain_high": gain.high,
                "gain_inside": gain.low <= rise <= gain.high,
            }
        print({key: _short(value) for key, value in rows[-1].items()}, flush=True)
    return {"plan": plan.to_json(), "rows": rows}


def _short(value):
    return round(value, 4) if isinstance(value, float) else value


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("features")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--share", type=float, default=0.25)
    parser.add_argument("--out")
    flags = parser.parse_args()
    torch.set_num_threads(1)
    began = time.process_time()
    folder = read_features(flags.features)
    features = np.vstack([folder.train_features, folder.test_features])
    labels = np.vstack([folder.train.values, folder.test.values])
    names = tuple(str(row) for row in range(len(labels)))
    table = LabelTable(names, folder.train.classes, labels)
    tests = len(folder.test)
    found = [check(features, table, tests, flags.share, each) for each in range(flags.repeats)]
    rows = [row for each in found for row in each["rows"]]
    for name in ("today", "half", "all"):
        own = [row for row in rows if row["what"] == name]
        errors = np.array([row["error"] for row in own])
        inside = sum(row["inside"] for row in own)
        line = f"{name}: {inside} of {len(own)} inside the band, errors {100 * errors.round(4)}"
        if name != "today":
            hits = sum(row["gain_inside"] for row in own)
            off = [row["gain_predicted"] - row["gain_measured"] for row in own]
            line += f"; gains: {hits} of {len(own)} inside, errors {100 * np.round(off, 4)}"
        print(line)
    print(f"{time.process_time() - began:.0f} s of one core")
    if flags.out:
        with open(flags.out, "w", encoding="utf-8") as file:
            json.dump(found, file, indent=1)


if __name__ == "__main__":
    main()
