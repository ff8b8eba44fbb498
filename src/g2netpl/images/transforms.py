"""The augmentations of training; each is a pure function of the image and a key.

plain    resized to a square, nothing else (evaluation)
paper    resized, mirrored at random
weak     as paper, and shifted by up to an eighth of the side
strong   as weak, then RandAugment and a random rectangle erased
pair     weak and strong: pseudo-labels are updated from one, the model learns from the other

The key is (seed, epoch, image): the same augmentation for any number of workers, in any order.
"""

from collections.abc import Callable
from typing import Literal

import numpy as np
import numpy.typing as npt

from g2netpl.images.pixels import Pixels

Augment = Literal["plain", "paper", "weak", "strong"]
PAIR: tuple[Augment, Augment] = ("weak", "strong")
Key = tuple[int, int, int]
_FIRST = 0x666C  # of the steps of an augmentation


def apply(name: Augment, pixels: Pixels, key: Key) -> Pixels:
    """The augmentation of a resized image; the image itself stays as it is."""
    for number, step in enumerate(_STEPS[name]):
        pixels = step(pixels, [*key, _FIRST + number])
    return pixels


def is_mirrored(key: Key) -> bool:
    """Whether the augmentation of this key starts from the mirror image, if it may."""
    return bool(np.random.default_rng([*key, _FIRST]).random() < 0.5)


def _mirror(pixels: Pixels, key: list[int]) -> Pixels:
    return pixels[:, ::-1] if np.random.default_rng(key).random() < 0.5 else pixels


def _shift(pixels: Pixels, key: list[int]) -> Pixels:
    """Move the image; its reflection fills the edges."""
    reach = len(pixels) // 8
    top, left = np.random.default_rng(key).integers(0, 2 * reach + 1, size=2)
    padded = np.pad(pixels, ((reach, reach), (reach, reach), (0, 0)), mode="reflect")
    return padded[top : top + len(pixels), left : left + len(pixels)]


def _distort(pixels: Pixels, key: list[int]) -> Pixels:
    """RandAugment and erasing use torch's generator: it is seeded by the key, and restored."""
    import torch
    from torchvision.transforms import v2

    steps = [v2.RandAugment(num_ops=2, magnitude=10), v2.RandomErasing(p=1.0, value=127)]
    number = int(np.random.default_rng(key).integers(2**63))
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(number)  # torch.manual_seed would also set GPUs
        tensor = torch.from_numpy(np.ascontiguousarray(pixels)).permute(2, 0, 1)
        changed: npt.NDArray[np.uint8] = v2.Compose(steps)(tensor).permute(1, 2, 0).numpy()
    return changed


_STEPS: dict[Augment, tuple[Callable[[Pixels, list[int]], Pixels], ...]] = {
    "plain": (),
    "paper": (_mirror,),
    "weak": (_mirror, _shift),
    "strong": (_mirror, _shift, _distort),
}
