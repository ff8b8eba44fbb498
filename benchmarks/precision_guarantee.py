"""How often is the true precision of granted thresholds below the guaranteed one?

Classes are simulated whose true precision at every threshold is known. `precision:0.9` (all
positives are new) and `--confidence 0.9` (a third of the positives is observed already) are
granted on 100, 500 and 2,000 validation images.

    python benchmarks/precision_guarantee.py [--repeats 60] [--noise 0.02]
"""

import argparse

import numpy as np
from scipy.special import expit
from scipy.stats import norm

from g2netpl.runs.precision_bounds import lower_bound, ranked_scores
from g2netpl.runs.thresholds import choose, confident_thresholds, logits_of

TARGET, CLASSES = 0.9, 20


def lowest_thresholds(columns, target):
    """For comparison: the lowest threshold whose own 90 % bound holds, with no correction."""
    limits = []
    for scores, labels in columns:
        ranked, hits, chosen = ranked_scores(scores, labels)
        passed = ranked[lower_bound(hits, chosen, 0.1) >= target]
        limits.append(passed[-1] if len(passed) else None)
    return limits, ["own bound" if limit is not None else "never" for limit in limits]


class Classes:
    """Frequencies, how well each class is ranked, and how far its level is off."""

    def __init__(self, random, noise):
        self.frequency = np.exp(random.uniform(np.log(0.02), np.log(0.3), CLASSES))
        self.apart, self.level = random.uniform(2, 6, CLASSES), random.normal(0, 0.7, CLASSES)
        self.base, self.noise = np.log(self.frequency / (1 - self.frequency)), noise

    def images(self, random, count):
        """Scores and labels; a fraction `noise` of the positives is labelled negative."""
        positive = random.random((count, CLASSES)) < self.frequency
        seen = random.normal(size=positive.shape) + positive * self.apart
        logits = self.apart * seen - self.apart**2 / 2 + self.base + self.level
        labels = positive & (random.random(positive.shape) >= self.noise)
        return expit(logits).astype(np.float32), labels.astype(np.int8)

    def expected(self, thresholds, observed):
        """Right and all new tags per image of every class, at thresholds on calibrated scores."""
        limits = logits_of(np.minimum(thresholds.limits, 1 - 1e-9))
        logits = (limits - thresholds.shift) * thresholds.temperature
        place = (logits - self.level - self.base) / self.apart + self.apart / 2
        positives = self.frequency * norm.sf(place - self.apart)
        right = positives * (1 - self.noise) * (1 - observed)
        wrong = positives * self.noise + (1 - self.frequency) * norm.sf(place)
        is_granted = np.isfinite(thresholds.limits)
        return right * is_granted, (right + wrong) * is_granted


def simulate(flag, images, repeats, noise, rule=None):
    """A row of the table."""
    granted, failed, pools, tags = [], [], [], []
    for repeat in range(repeats):
        random = np.random.default_rng([repeat, images])
        classes = Classes(random, noise)
        validation = classes.images(random, images)
        k, observed = float(classes.frequency.sum()), 0.0
        thresholds = choose(f"precision:{TARGET}", validation, validation[0], k)
        if rule is not None:
            columns = zip(thresholds.calibrate(validation[0]).T, validation[1].T, strict=True)
            limits, reasons = rule(list(columns), TARGET)
            thresholds = thresholds.replace(per_class=tuple(limits), reasons=tuple(reasons))
        elif flag == "--confidence":
            observed = 1 / 3
            _, truth = classes.images(random, 4000)
            known = np.where((truth == 1) & (random.random(truth.shape) < observed), 1, -1)
            thresholds = confident_thresholds(
                TARGET, thresholds, validation, known.astype(np.int8), k
            ).positive
        right, every = classes.expected(thresholds, observed)
        own = np.array([reason.startswith("own") for reason in thresholds.reasons])
        pooled = np.isfinite(thresholds.limits) & ~own
        granted += own.tolist()
        failed += (own & (right < TARGET * every)).tolist()
        if pooled.any():
            pools.append(right[pooled].sum() < TARGET * every[pooled].sum())
        tags.append((every.sum(), right.sum(), (classes.frequency * (1 - observed)).sum()))
    new, correct, there = np.sum(tags, axis=0)
    of_granted = np.sum(failed) / max(np.sum(granted), 1)
    pool = f"{np.mean(pools):.1%} of {len(pools)}" if pools else "-"
    name = f"`{flag} {TARGET}`" if flag == "--confidence" else f"`{flag}:{TARGET}`"
    print(
        f"| {name}{' uncorrected' if rule else ''} | {images:,} | {np.mean(granted):.0%} | "
        f"{np.mean(failed):.1%} | {of_granted:.1%} | {pool} | {correct / max(new, 1e-9):.1%} | "
        f"{correct / there:.0%} |",
        flush=True,
    )


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=60)
    parser.add_argument("--noise", type=float, default=0.02)
    flags = parser.parse_args()
    print(
        "| | validation images | classes with an own threshold | below 0.9, of all classes | of "
        "those granted | pooled together below 0.9 | precision of all new tags | tags found |\n"
        "| --- | --- | --- | --- | --- | --- | --- | --- |"
    )
    for images in (100, 500, 2000):
        how = (images, flags.repeats, flags.noise)
        simulate("precision", *how, rule=lowest_thresholds)
        simulate("precision", *how)
        simulate("--confidence", *how)


if __name__ == "__main__":
    main()
