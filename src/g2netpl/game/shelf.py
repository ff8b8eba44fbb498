"""Where a player keeps its labels: in memory, or in files if they are many."""

import math
from dataclasses import dataclass
from pathlib import Path

import torch

from g2netpl.base.processes import ALONE, Team
from g2netpl.game.label_memory import LabelStore, OfRows
from g2netpl.game.mapped_memory import MappedStore


@dataclass(frozen=True)
class Shelf:
    """Where stores are kept: in memory, or those above `limit` bytes as files in `folder`."""

    folder: Path | None = None
    limit: int = 512 * 1024**2
    team: Team = ALONE

    def store(
        self, name: str, shape: tuple[int, int], start: OfRows | float, device: torch.device
    ) -> LabelStore:
        """A store that starts with one value, or with those of the rows, asked for in order."""
        if self.folder is not None and 4 * math.prod(shape) > self.limit:
            return MappedStore(self.folder, name, shape, start, self.team)
        if callable(start):
            return LabelStore(start(torch.arange(shape[0])).to(device))
        return LabelStore(torch.full(shape, start, device=device))


IN_MEMORY = Shelf()
