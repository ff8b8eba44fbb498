"""The views of an image that training sees; each is a pure function of the image and a key.

plain    squashed to a square, nothing else (evaluation)
paper    squashed, mirrored at random
weak     as paper, and shifted by up to an eighth of the side
strong   as weak, then RandAugment and a random rectangle erased
pair     weak and strong: labels answer the one, the network learns from the other

Where frozen blocks see each image once, weak is as paper, and strong is one of a few that are kept.

The key is (seed, epoch, image): the same view for any number of loader workers, in any order.
"""

from collections.abc import Callable
from typing import Literal

import numpy as np
import numpy.typing as npt

from g2netpl.images.pixels import Pixels

ViewName = Literal["plain", "paper", "weak", "strong"]
PAIR: tuple[ViewName, ViewName] = ("weak", "strong")
Key = tuple[int, int, int]
_FIRST = 0x666C  # of the steps that lead to a view
_KEPT = 4  # strong views of an image, which come in turn


def kept_views(name: ViewName | tuple[ViewName, ...], epochs: int) -> tuple[bool, int]:
    """What is kept of each image besides its plain view, where frozen blocks see it once.

    Whether its mirror image is, which is also the weak view; and how many of the strong views.
    """
    drawn = "strong" in name if isinstance(name, tuple) else name == "strong"
    return name not in ("plain", "strong"), min(_KEPT, epochs) if drawn else 0


def changed(name: ViewName, pixels: Pixels, key: Key) -> Pixels:
    """The named view of an image that was squashed before, which stays as it is."""
    for step, change in enumerate(_STEPS[name]):
        pixels = change(pixels, [*key, _FIRST + step])
    return pixels


def is_mirrored(key: Key) -> bool:
    """Whether the view of this key is of the mirror image, in every view that may be."""
    return _is_heads([*key, _FIRST])


def _mirror(pixels: Pixels, key: list[int]) -> Pixels:
    return pixels[:, ::-1] if _is_heads(key) else pixels


def _is_heads(key: list[int]) -> bool:
    return bool(np.random.default_rng(key).random() < 0.5)


def _shift(pixels: Pixels, key: list[int]) -> Pixels:
    """Move the image; what comes in at the edges is its own reflection."""
    reach = len(pixels) // 8
    top, left = np.random.default_rng(key).integers(0, 2 * reach + 1, size=2)
    padded = np.pad(pixels, ((reach, reach), (reach, reach), (0, 0)), mode="reflect")
    return padded[top : top + len(pixels), left : left + len(pixels)]


def _distort(pixels: Pixels, key: list[int]) -> Pixels:
    """RandAugment and erasing draw from torch's generator: it is set by the key, and put back."""
    import torch
    from torchvision.transforms import v2

    chain = v2.Compose(
        [v2.RandAugment(num_ops=2, magnitude=10), v2.RandomErasing(p=1.0, value=127)]
    )
    number = int(np.random.default_rng(key).integers(2**63))
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(number)  # torch.manual_seed would also set GPUs
        tensor = torch.from_numpy(np.ascontiguousarray(pixels)).permute(2, 0, 1)
        changed: npt.NDArray[np.uint8] = chain(tensor).permute(1, 2, 0).numpy()
    return changed


_STEPS: dict[ViewName, tuple[Callable[[Pixels, list[int]], Pixels], ...]] = {
    "plain": (),
    "paper": (_mirror,),
    "weak": (_mirror, _shift),
    "strong": (_mirror, _shift, _distort),
}
