"""The game alone: two players, tensors, no files, no images.

Points in a square, and four discs that overlap. A point has the label of every disc it lies in; we
are told one of them per point, and nothing about the others. A small network and the soft labels
then play the game of the paper (g2netpl.game.play_epoch): the network learns from the labels
that are known and, as far as they are sure, from the soft ones; the soft labels seek 0 or 1 and
stay near the network.

    python examples/game_alone.py

It writes `game.png`, how every soft label moved, and `game.npz` with the points and the soft labels
of all epochs.
"""

import argparse
from pathlib import Path

import numpy as np
import torch
from torch import nn

from g2netpl.game import ArraySource, Setup, make_player, play_epoch, training_batches

CENTRES = np.array([[-0.4, 0.3], [0.4, 0.3], [0.0, -0.4], [0.1, 0.1]])
RADIUS = 0.55


def main() -> None:
    """Draw points, play, and show how the soft labels moved."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--points", type=int, default=600)
    parser.add_argument("--epochs", type=int, default=40)
    parser.add_argument("--output", type=Path, default=Path("game.png"))
    flags = parser.parse_args()
    points, truth, observed = make_points(flags.points)
    soft = play(points, observed, truth.sum(axis=1).mean(), flags.epochs)

    unknown = observed == -1
    right = ((soft[-1] > 0.5) == truth)[unknown].mean()
    decided = (np.abs(soft[-1] - 0.5) > 0.25)[unknown].mean()
    print(f"{unknown.mean():.0%} of the labels were unknown")
    print(f"{right:.1%} of these are now right, {decided:.0%} are decided")
    print(f"all of them as negative would be {(~truth[unknown]).mean():.1%} right")
    np.savez(flags.output.with_suffix(".npz"), points=points, observed=observed, soft=soft)
    draw(flags.output, soft, truth, unknown)


def make_points(count: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Points, which discs they lie in, and what is observed: one positive each."""
    random = np.random.default_rng(0)
    points = random.uniform(-1, 1, size=(8 * count, 2))
    truth = np.linalg.norm(points[:, None] - CENTRES, axis=2) < RADIUS
    inside = truth.any(axis=1).nonzero()[0][:count]
    points, truth = points[inside].astype(np.float32), truth[inside]
    named = np.where(truth, random.random(truth.shape), -1).argmax(axis=1)
    observed = np.full(truth.shape, -1, dtype=np.int8)
    observed[np.arange(len(points)), named] = 1
    return points, truth, observed


def play(points: np.ndarray, observed: np.ndarray, k: float, epochs: int) -> np.ndarray:
    """Soft labels at the start and after every epoch, (epochs + 1, points, discs)."""
    torch.manual_seed(0)
    learning_rate, classes = 1e-2, observed.shape[1]
    network = nn.Sequential(nn.Linear(2, 64), nn.ReLU(), nn.Linear(64, classes))
    optimizer = torch.optim.Adam(network.parameters(), learning_rate)
    known = torch.from_numpy(observed)
    player = make_player("g2netpl", {}, Setup(known, float(k), learning_rate))
    source = ArraySource(torch.from_numpy(points))
    soft = [player.soft_labels().clone()]
    for epoch in range(epochs):
        batches = training_batches(source, known, batch_size=32, seed=0, epoch=epoch)
        play_epoch(network, player, batches, optimizer, epoch / epochs, float(k))
        soft.append(player.soft_labels().clone())
    return torch.stack(soft).numpy()


def draw(path: Path, soft: np.ndarray, truth: np.ndarray, unknown: np.ndarray) -> None:
    """A line per unknown label over the epochs, those that are in truth positive apart."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, panels = pyplot.subplots(1, 2, figsize=(10, 4), sharey=True, layout="constrained")
    for panel, sign, colour in zip(panels, (True, False), ("tab:blue", "tab:red"), strict=True):
        lines = soft[:, unknown & (truth == sign)]
        panel.plot(lines, color=colour, alpha=0.08, linewidth=0.8)
        panel.plot(lines.mean(axis=1), color="black", label="mean")
        panel.set_title(f"unknown labels that are in truth {'positive' if sign else 'negative'}")
        panel.set_xlabel("epoch")
        panel.legend(loc="lower left")
    panels[0].set_ylabel("soft label")
    figure.savefig(path, dpi=120)


if __name__ == "__main__":
    main()
