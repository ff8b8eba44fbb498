"""The built-in data: multi-label scenes composed from real handwritten digits, nothing downloaded.

Each scene shows 1 to 4 digits of scikit-learn's digits set at random places, in random sizes and
bright colours, on a dark textured ground. The classes are the digits in it. Training and test
scenes use different digit instances.
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
from PIL import Image

from g2netpl.images.pixels import Pixels
from g2netpl.labels.io import write_labels
from g2netpl.labels.table import LabelTable
from g2netpl.utils.files import writing

SIZE = 64
CLASSES = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
_TRAIN_FRACTION = 0.7  # of the digit instances


@dataclass(frozen=True)
class Scenes:
    """Scenes with their full labels."""

    train_images: Pixels  # (N, 64, 64, 3)
    train: LabelTable
    test_images: Pixels
    test: LabelTable


def make_scenes(train: int = 3000, test: int = 1000, seed: int = 0) -> Scenes:
    """Compose the data set; the same seed gives the same scenes."""
    from sklearn.datasets import load_digits

    digits = load_digits()
    ink = (digits.images / 16.0).astype(np.float32)  # (1797, 8, 8) in [0, 1]
    order = np.random.default_rng([seed, 0x6469]).permutation(len(ink))
    border = round(_TRAIN_FRACTION * len(ink))
    splits, parts = [], (("train", train, order[:border]), ("test", test, order[border:]))
    for number, (name, count, instances) in enumerate(parts):
        random = np.random.default_rng([seed, number, 0x7363])
        images = np.empty((count, SIZE, SIZE, 3), dtype=np.uint8)
        labels = np.zeros((count, len(CLASSES)), dtype=np.int8)
        for index in range(count):
            chosen = random.choice(instances, size=int(random.integers(1, 5)), replace=False)
            images[index] = _compose(ink[chosen], random)
            labels[index, digits.target[chosen]] = 1
        names = tuple(f"{name}-{index:05d}" for index in range(count))
        splits.append((images, LabelTable(names, CLASSES, labels)))
    return Scenes(*splits[0], *splits[1])


def write_scenes(scenes: Scenes, folder: str | Path) -> None:
    """As a user would have them: images/*.png, and train.csv and test.csv with full labels."""
    folder = Path(folder)
    with writing(folder):
        (folder / "images").mkdir(parents=True, exist_ok=True)
        for split, pixels, table in (
            ("train", scenes.train_images, scenes.train),
            ("test", scenes.test_images, scenes.test),
        ):
            names = [f"images/{name}.png" for name in table.images]
            for image, name in zip(pixels, names, strict=True):
                Image.fromarray(image).save(folder / name)
            write_labels(LabelTable(names, table.classes, table.values), folder / f"{split}.csv")


def _compose(digits: npt.NDArray[np.float32], random: np.random.Generator) -> Pixels:
    """Paint digits on a ground, each over those before it, with little overlap."""
    ground = random.uniform(0.0, 0.35, size=3).astype(np.float32)
    canvas = np.clip(ground + _texture(random), 0.0, 1.0)
    taken = np.zeros((SIZE, SIZE), dtype=np.float32)
    for digit in digits:
        side = int(random.integers(22, 29))
        mask = _enlarge(digit, side)
        # the least crowded of a few random places
        places = random.integers(0, SIZE - side + 1, size=(16, 2))
        crowding = [taken[y : y + side, x : x + side].sum() for y, x in places]
        y, x = places[int(np.argmin(crowding))]
        colour = random.uniform(0.65, 1.0, size=3)
        patch = canvas[y : y + side, x : x + side]
        canvas[y : y + side, x : x + side] = patch + mask[..., None] * (colour - patch)
        taken[y : y + side, x : x + side] += 1.0
    noisy = canvas + random.normal(0.0, 0.02, size=canvas.shape)
    return np.asarray(np.clip(noisy, 0.0, 1.0) * 255, dtype=np.uint8)


def _texture(random: np.random.Generator) -> npt.NDArray[np.float32]:
    """Smooth noise at two scales, (64, 64, 3)."""
    coarse = _enlarge(random.normal(0.0, 0.08, size=(6, 6)).astype(np.float32), SIZE)
    fine = _enlarge(random.normal(0.0, 0.05, size=(20, 20)).astype(np.float32), SIZE)
    return (coarse + fine)[..., None] * random.uniform(0.5, 1.0, size=3).astype(np.float32)


def _enlarge(values: npt.NDArray[np.float32], side: int) -> npt.NDArray[np.float32]:
    image = Image.fromarray(values).resize((side, side), Image.Resampling.BILINEAR)
    return np.asarray(image)
