"""Does `g2netpl plan` foresee what more labels bring? A check against hidden labels.

    python benchmarks/plan_check.py FEATURES [--repeats 3] [--pool N] [--share 0.25] [--unlabelled]

All images of a features folder are shuffled together. In every repeat as many of them as the folder
has test images are the test; of the others, or of N of them, a `share` counts as labelled. The rest
is not there yet, or with --unlabelled is there without labels. The plan is made from that alone.
Then twice and four times as many labels are looked at: the mean test mAP of three trainings is what
the plan should have said. COCO (30,000 + 10,000 images): a minute of one core per repeat.
"""

import argparse
import json
import time

import numpy as np
import torch

from g2netpl.experiments.labelling_plan import make_plan, measure
from g2netpl.images.features import read_features
from g2netpl.images.loader import ArraySource
from g2netpl.labels.table import UNOBSERVED, LabelTable
from g2netpl.runs.config import RunConfig
from g2netpl.runs.metrics import mean_average_precision
from g2netpl.training.session import on_features

POINTS, PARTS, TRAININGS = 6, 5, 3
TIMES = (1, 2, 4)


def config(seed):
    return RunConfig(
        labels="-", output="-", mode="linear", setting="fspl", batch_size=64, seed=seed
    )


def visible(table, pool, labelled, unlabelled):
    """The rows that are there, and the table with the labels that somebody has given."""
    rows = np.sort(pool if unlabelled else labelled)
    known = np.isin(rows, labelled)[:, None]
    values = np.where(known, table.values[rows], UNOBSERVED)
    return rows, table.take(rows).with_values(values)


def measured(features, rows, part, test, truth, seed):
    """Test mAP after a training."""
    session = on_features(config(seed), features[rows], part)
    best = session.play().best_network
    scores = session.predict(best, ArraySource(torch.from_numpy(features[test])))
    return mean_average_precision(scores, truth[test])


def check(features, table, tests, flags, repeat):
    order = np.random.default_rng([repeat, 0x6368]).permutation(len(table))
    test, pool = order[:tests], order[tests:][: flags.pool]
    own = pool[: round(flags.share * len(pool))]
    rows, part = visible(table, pool, own, flags.unlabelled)
    points = list(measure(features[rows], part, config(1000 * repeat), POINTS, PARTS))
    plan = make_plan(part, points)
    found = []
    for times in TIMES:
        size = times * len(own)
        scores = []
        for seed in range(TRAININGS):
            chosen = own
            if times > 1:
                chosen = np.random.default_rng([repeat, seed, 7]).permutation(pool)[:size]
            part_of = visible(table, pool, chosen, flags.unlabelled)
            scores.append(measured(features, *part_of, test, table.values, 1000 * repeat + seed))
        truth, said = float(np.mean(scores)), plan.curve.at(size)
        row = {
            "times": times,
            "labelled": size,
            "measured": truth,
            "predicted": said.value,
            "band": (said.low, said.high),
            "told": plan.curve.tells(size),
            "inside": said.low <= truth <= said.high,
        }
        if times > 1:
            rise = truth - found[0]["measured"]
            gain = plan.curve.gain(len(own), size - len(own))
            row |= {
                "gain": rise,
                "gain_predicted": gain.value,
                "gain_band": (gain.low, gain.high),
                "gain_inside": gain.low <= rise <= gain.high,
            }
        found.append(row)
        print(repeat, json.dumps(row, default=float), flush=True)
    return {"plan": plan.to_json(), "rows": found}


def summary(found):
    for number, times in enumerate(TIMES):
        rows = [each["rows"][number] for each in found]
        print(f"{times} × the labels: told in {sum(row['told'] for row in rows)} of {len(rows)}")
        rows = [row for row in rows if row["told"]] or rows
        errors = [100 * (row["predicted"] - row["measured"]) for row in rows]
        inside = sum(row["inside"] for row in rows)
        print(
            f"    {inside} of {len(rows)} inside the band; error in points of mAP "
            f"{np.mean(errors):+.2f} on average, {np.abs(errors).max():.2f} at most"
        )
        if times > 1:
            errors = [100 * (row["gain_predicted"] - row["gain"]) for row in rows]
            inside = sum(row["gain_inside"] for row in rows)
            print(
                f"    the gain from today ({100 * np.mean([row['gain'] for row in rows]):.1f}): "
                f"{inside} inside; error {np.mean(errors):+.2f}, {np.abs(errors).max():.2f} at most"
            )


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("features")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--pool", type=int)
    parser.add_argument("--share", type=float, default=0.25)
    parser.add_argument("--unlabelled", action="store_true")
    parser.add_argument("--out")
    flags = parser.parse_args()
    torch.set_num_threads(1)
    began = time.process_time()
    folder = read_features(flags.features)
    features = np.vstack([folder.train_features, folder.test_features])
    labels = np.vstack([folder.train.values, folder.test.values])
    names = tuple(str(row) for row in range(len(labels)))
    table = LabelTable(names, folder.train.classes, labels)
    found = [
        check(features, table, len(folder.test), flags, repeat) for repeat in range(flags.repeats)
    ]
    summary(found)
    print(f"{time.process_time() - began:.0f} s of one core")
    if flags.out:
        with open(flags.out, "w", encoding="utf-8") as file:
            json.dump(found, file, indent=1, default=float)


if __name__ == "__main__":
    main()
