"""How fast frozen features are computed, as ratios measured in turns in one run.

    python benchmarks/frozen_features.py                  lite0 at 224 px, drawn photos
    python benchmarks/frozen_features.py --images photos  photos of your own

Images per processor second of all processes, one thread and 2 loader processes, so that other work
on the machine counts little.

1. The network only, batches of 16 in memory: onnxruntime : PyTorch.
2. From files to features: onnxruntime : PyTorch. Bar: at least 2 times.
3. From files to features : the slower of decoding only and network only. Bar: at least 0.8.
   On cores that both share, D and N images/s make 1 / (1 / D + 1 / N) at best; the fraction of
   that is shown too. Bar: at least 0.9.
"""

import argparse
import tempfile
from pathlib import Path

import numpy as np
import torch
from measure import Figure, make_photos, one_thread, processor_seconds, show, side_by_side

from g2netpl.core.models import build_backbone
from g2netpl.images.features import ENOUGH, compute_features, faster
from g2netpl.images.loader import ImageSource, plain_groups
from g2netpl.labels.paths import list_images

BATCH = 16


def frozen_features(
    folder: str | None = None,
    backbone: str = "lite0",
    size: int = 224,
    count: int = 480,
    rounds: int = 3,
) -> list[Figure]:
    frozen = build_backbone(backbone, pretrained=False, image_size=size)
    module = frozen.module.eval()
    with one_thread(), tempfile.TemporaryDirectory() as made:
        if folder is None:
            make_photos(Path(made), count, 500, 375)
        root = folder or made
        paths = [f"{root}/{name}" for name in list_images(root)][:count]
        source = ImageSource(paths, size, frozen.mean, frozen.std, workers=2)
        fast, groups = faster(module, source, ENOUGH), plain_groups(len(paths), BATCH)
        batch = torch.randn(BATCH, 3, size, size)

        def alone(network: torch.nn.Module) -> None:
            with torch.inference_mode():
                for _ in groups:
                    network(batch)

        seconds = side_by_side(
            rounds,
            lambda: [None for _ in source.load(groups, None)],
            lambda: alone(module),
            lambda: alone(fast),
            lambda: compute_features(module, source, BATCH),
            lambda: compute_features(fast, source, BATCH),
            clock=processor_seconds,
        )
    decode, torch_alone, fast_alone, torch_whole, fast_whole = len(paths) / np.array(seconds)
    slower, shared = min(decode, fast_alone), 1 / (1 / decode + 1 / fast_alone)
    rates = f"decoding {decode:.0f}, network {fast_alone:.0f}, whole {fast_whole:.0f} images/s"
    name, times = f"{backbone} at {size} px", "{:.2f} ×"
    return [
        Figure(f"{name}, network alone, onnxruntime : PyTorch", fast_alone / torch_alone, times),
        Figure(
            f"{name}, files to features, onnxruntime : PyTorch",
            fast_whole / torch_whole,
            times,
            least=2.0,
            note=f"PyTorch {torch_whole:.0f}, onnxruntime {fast_whole:.0f} images/s",
        ),
        Figure("files to features : its slower half", fast_whole / slower, times, 0.8, note=rates),
        Figure("files to features : both halves on shared cores", fast_whole / shared, times, 0.9),
    ]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--images", help="folder of photos (default: drawn ones)")
    parser.add_argument("--backbone", default="lite0")
    parser.add_argument("--image-size", type=int, default=224)
    parser.add_argument("--count", type=int, default=480, help="photos (default: 480)")
    parser.add_argument("--rounds", type=int, default=3)
    flags = parser.parse_args()
    show(frozen_features(flags.images, flags.backbone, flags.image_size, flags.count, flags.rounds))
