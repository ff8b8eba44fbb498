"""What a step of each mode costs: images per second of the processor's time, one thread.

    python benchmarks/modes.py --backbone lite0 --image-size 224 --train-from blocks.5

Time of the processor, so that other processes of the machine count little. The steps take turns; of
the times of each the median is told. What comes once, before the first epoch, is told too: the
frozen part on an image.
"""

import argparse
import time
from collections.abc import Callable
from statistics import median

import torch
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits

from g2netpl.game.network.cutting import cut
from g2netpl.game.network.network import build_network

CLASSES = 20


def step_of(network: nn.Module, inputs: Tensor) -> Callable[[], None]:
    """A step of Adam on some inputs."""
    optimizer = torch.optim.Adam(network.parameters(), 1e-4)
    wanted = torch.zeros(len(inputs), CLASSES)

    def step() -> None:
        network.train()
        optimizer.zero_grad()
        binary_cross_entropy_with_logits(network(inputs), wanted).backward()
        optimizer.step()

    return step


def look_of(module: nn.Module, inputs: Tensor) -> Callable[[], None]:
    """A frozen module on some inputs."""

    def look() -> None:
        module.eval()
        with torch.inference_mode():
            module(inputs)

    return look


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--backbone", default="lite0")
    parser.add_argument("--image-size", type=int, default=224)
    parser.add_argument("--train-from")
    parser.add_argument("--batch-size", type=int, default=16)
    parser.add_argument("--rounds", type=int, default=5)
    flags = parser.parse_args()
    torch.set_num_threads(1)
    size = flags.image_size
    network = build_network(flags.backbone, CLASSES, pretrained=False, image_size=size)
    found = cut(network.backbone, flags.train_from, size)
    images = torch.randn(flags.batch_size, 3, size, size)
    with torch.no_grad():
        kept = found.lower.eval()(images).contiguous()
        vectors = found.upper.eval()(kept)
    works = {
        "backbone, once": look_of(network.backbone, images),
        "frozen blocks, once": look_of(found.lower, images),
        "linear": step_of(network.above(nn.Identity()), vectors),
        "top": step_of(network.above(found.upper), kept),
        "end-to-end": step_of(network, images),
    }
    times: dict[str, list[float]] = {name: [] for name in works}
    for _ in range(flags.rounds + 1):
        for name, work in works.items():
            began = time.process_time()
            work()
            times[name].append(time.process_time() - began)
    print(
        f"{flags.backbone} at {size} px, batch {flags.batch_size}; {found}; passing {found.shape}"
    )
    for name, each in times.items():
        print(f"{name}: {flags.batch_size / median(each[1:]):,.1f} images/s")


if __name__ == "__main__":
    main()
