"""What the label player costs, as ratios measured side by side in one run.

1. An epoch of G²NetPL against an epoch of AN: linear training on 24,000 × 1,280 features, 80
   classes, batch 64, without evaluation. Bar: 1.5.
2. propose + respond against a whole ResNet-50 step at 224 px, batch 8. Bar: 2 %.

    python benchmarks/cost_of_the_game.py                      random features
    python benchmarks/cost_of_the_game.py --features DIR       a features folder
"""

import argparse
import time

import numpy as np
import torch

from g2netpl.data import ArraySource, Batch, training_batches
from g2netpl.features import read_features
from g2netpl.game import Setup, network_cost, play_epoch
from g2netpl.labels import LabelTable
from g2netpl.methods import make_player
from g2netpl.network import build_network
from g2netpl.settings import Setting, observe


def feature_data(folder: str | None) -> tuple[torch.Tensor, torch.Tensor]:
    if folder is not None:
        read = read_features(folder)
        features, table = read.train_features[:24_000], read.train.take(range(24_000))
    else:
        random = np.random.default_rng(0)
        features = random.random((24_000, 1280), dtype=np.float32)
        labels = (random.random((24_000, 80)) < 0.036).astype(np.int8)
        table = LabelTable(
            tuple(map(str, range(24_000))), tuple(f"c{index}" for index in range(80)), labels
        )
    visible = observe(table, Setting.parse("fspl"), 0).values
    return torch.from_numpy(features), torch.from_numpy(np.array(visible))


def epochs_side_by_side(folder: str | None, rounds: int) -> None:
    inputs, observed = feature_data(folder)
    source = ArraySource(inputs)
    times: dict[str, list[float]] = {"an": [], "g2netpl": []}
    players = {}
    for name in times:
        network = build_network("features", observed.shape[1], width=inputs.shape[1])
        optimizer = torch.optim.Adam(network.parameters(), lr=1e-3)
        players[name] = (network, make_player(name, {}, Setup(observed, 2.9, 1e-3)), optimizer)
    for epoch in range(rounds + 1):
        for name, (network, player, optimizer) in players.items():
            batches = training_batches(source, observed, 64, 0, epoch)
            began = time.perf_counter()
            play_epoch(network, player, batches, optimizer, epoch / (rounds + 1), 2.9)
            if epoch > 0:  # the first one warms up
                times[name].append(time.perf_counter() - began)
    an, game = (float(np.median(times[name])) for name in ("an", "g2netpl"))
    print(
        f"epoch on features: AN {an:.3f} s, G²NetPL {game:.3f} s, ratio {game / an:.2f} (bar 1.5)"
    )


def share_of_a_step(rounds: int, size: int = 224, batch_size: int = 8) -> None:
    classes = 80
    network = build_network("resnet50", classes, pretrained=False)
    network.train()
    optimizer = torch.optim.Adam(network.parameters(), lr=1e-4)
    observed = torch.full((batch_size, classes), -1, dtype=torch.int8)
    observed[:, 0] = 1
    player = make_player("g2netpl", {}, Setup(observed, 2.9, 1e-4))
    batch = Batch(torch.arange(batch_size), torch.randn(batch_size, 3, size, size), observed)
    shares = []
    for step in range(rounds + 2):
        began = time.perf_counter()
        proposal = player.propose(batch, 0.5, torch.sigmoid)
        proposed = time.perf_counter()
        optimizer.zero_grad()
        logits = network(batch.inputs)
        network_cost(logits, proposal, 2.9).backward()
        optimizer.step()
        predicted = logits.detach().sigmoid()
        moved = time.perf_counter()
        player.respond(batch, predicted, 0.5)
        ended = time.perf_counter()
        player.end_epoch()
        if step > 1:
            shares.append((proposed - began + ended - moved) / (ended - began))
    print(
        f"ResNet-50 step at {size} px, batch {batch_size}: propose + respond "
        f"{float(np.median(shares)):.3%} of the step, median of {rounds} (bar 2 %)"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--features", help="a features folder instead of random numbers")
    parser.add_argument("--rounds", type=int, default=20)
    flags = parser.parse_args()
    for threads in (1, torch.get_num_threads()):
        torch.set_num_threads(threads)
        print(f"{threads} thread(s)")
        epochs_side_by_side(flags.features, flags.rounds)
    share_of_a_step(flags.rounds)


if __name__ == "__main__":
    main()
