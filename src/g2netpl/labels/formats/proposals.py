"""What a classifier says of the labels of a table, for people to look at in another program."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt


@dataclass(frozen=True)
class Proposals:
    """New labels, and opinions on the old ones; (N, L) each, in the order of the table."""

    new: npt.NDArray[np.bool_]  # positive, and observed by nobody
    scores: npt.NDArray[np.float32]  # chance of being there; NaN where the image cannot be read
    soft: npt.NDArray[np.bool_]  # of the game's soft labels, not of the network
    chances: npt.NDArray[np.float32] | None = None  # by the network, of observed labels too
    version: str = ""  # of the network
    folder: Path = Path()  # of the images
    like: Path | None = None  # what the other program has written: its entries are meant
