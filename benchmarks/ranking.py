"""mAP of 40,000 × 80 scores against scikit-learn class by class. Bar: 5 times as fast.

python benchmarks/ranking.py
"""

import numpy as np
from measure import Figure, show, side_by_side
from sklearn.metrics import average_precision_score

from g2netpl.runs.metrics import average_precision


def ranking(count: int = 40_000, classes: int = 80, rounds: int = 3) -> list[Figure]:
    random = np.random.default_rng(0)
    truth = (random.random((count, classes)) < 0.036).astype(np.int8)
    scores = (random.random(truth.shape) + 0.3 * truth).astype(np.float32)
    found: dict[str, np.ndarray] = {}

    def ours() -> None:
        found["ours"] = average_precision(scores, truth)

    def theirs() -> None:
        columns = range(classes)
        found["theirs"] = np.array(
            [average_precision_score(truth[:, each], scores[:, each]) for each in columns]
        )

    our_time, their_time = side_by_side(rounds, ours, theirs)
    apart = float(np.abs(found["ours"] - found["theirs"]).max())
    return [
        Figure(
            f"mAP of {count:,} × {classes}, scikit-learn : ours",
            their_time / our_time,
            "{:.1f} ×",
            least=5.0,
            note=f"ours {our_time * 1e3:.0f} ms; largest difference {apart:.0e}",
        )
    ]


if __name__ == "__main__":
    show(ranking())
