"""How far does a classifier get that plays no game: linear discriminant analysis in closed form.

For logits near 0 a pull of every unobserved label to 0.5 costs w·z²/8, so that the network's
minimum is the discriminant of each class: (covariance of all images + ridge)⁻¹ · (mean of the
observed positives). What the game adds must show against this. The ridge is chosen on validation.

    python benchmarks/discriminant.py --features coco_features

--rounds N adds pseudo positives of the discriminant itself to the means, N times over (as many as
the class's share of k), with --mass times the weight of the observed ones.
"""

import argparse

import numpy as np
import numpy.typing as npt
import torch

from g2netpl.experiments.data import load_array_data
from g2netpl.labels.settings import Setting
from g2netpl.labels.table import POSITIVE
from g2netpl.runs.metrics import ranked_map
from g2netpl.training.data import split_and_observe

RIDGES = (0.1, 0.3, 1.0, 3.0, 5.0, 10.0, 30.0)
Array = npt.NDArray[np.float32]


def pseudo_positives(scores: Array, observed: Array, expected: float) -> Array:
    """Soft membership: 0.5 where a score is just among the class's expected share."""
    shares = expected * observed.sum(axis=0) / observed.sum()
    members = np.empty_like(scores)
    for column, share in enumerate(shares):
        values = scores[:, column]
        middle = np.quantile(values, 1.0 - min(share, 0.99))
        steepness = np.clip((values - middle) / (0.3 * values.std() + 1e-12), -30, 30)
        members[:, column] = 1.0 / (1.0 + np.exp(-steepness))
    members[observed > 0] = 0.0
    return members


def main() -> None:
    """Print validation and test mAP over ridges, and the chosen one."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--features", required=True)
    parser.add_argument("--settings", default="fspl,sspl:0.2")
    parser.add_argument("--seeds", default="0,1,2")
    parser.add_argument("--rounds", type=int, default=0)
    parser.add_argument("--mass", type=float, default=0.3)
    flags = parser.parse_args()
    arrays = load_array_data(flags.features)
    for setting in flags.settings.split(","):
        figures = []
        for seed in map(int, flags.seeds.split(",")):
            data = split_and_observe(arrays.train, Setting.parse(setting), 0.2, seed)
            training, held_out, visible = data.training, data.held_out, data.visible.values
            inputs, validation, test = (
                values.numpy()
                for values in (
                    arrays.train_inputs[torch.from_numpy(training)],
                    arrays.train_inputs[torch.from_numpy(held_out)],
                    arrays.test_inputs,
                )
            )
            centre = inputs.mean(axis=0)
            inputs, validation, test = inputs - centre, validation - centre, test - centre
            values, vectors = np.linalg.eigh(inputs.T @ inputs / len(inputs))
            observed = (visible == POSITIVE).astype(np.float32)
            expected = float((arrays.train.values[training] == POSITIVE).sum(axis=1).mean())
            found = []
            for ridge in RIDGES:
                members = observed
                for round_ in range(flags.rounds + 1):
                    means = members.T @ inputs / np.maximum(members.sum(axis=0), 1e-6)[:, None]
                    inverse = vectors / (values + ridge * values.mean())
                    weights = inverse @ (vectors.T @ means.T)
                    if round_ < flags.rounds:
                        pseudo = pseudo_positives(inputs @ weights, observed, expected)
                        share = observed.sum(axis=0) / np.maximum(pseudo.sum(axis=0), 1e-6)
                        members = observed + flags.mass * pseudo * share
                chosen = ranked_map(validation @ weights, arrays.train.values[held_out])
                found.append((chosen, ranked_map(test @ weights, arrays.test.values), ridge))
            best = max(found)
            figures.append(best[1])
            curve = " ".join(f"{ridge:g}: {100 * score:.1f}" for score, _, ridge in found)
            print(f"{setting} seed {seed}: validation mAP by ridge {curve}")
            print(f"  chosen ridge {best[2]:g}: test mAP {100 * best[1]:.1f}", flush=True)
        spread = np.std(figures, ddof=1) if len(figures) > 1 else 0.0
        print(f"{setting}: test mAP {100 * np.mean(figures):.1f} ± {100 * spread:.1f}")


if __name__ == "__main__":
    main()
