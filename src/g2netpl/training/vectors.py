"""What a frozen backbone makes of blocks of images, for `features` without labels; see parts.py."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from g2netpl.core.models import Backbone
from g2netpl.images.feature_cache import cache_key
from g2netpl.images.features import Features, compute_features, faster
from g2netpl.images.loader import ImageSource, joined_sources
from g2netpl.runs.classifier import OnBatch
from g2netpl.runs.config import RunConfig
from g2netpl.runs.parts import Block, Made
from g2netpl.runs.scoring import FindAt, looked_at
from g2netpl.training.datamodule import backbone_of
from g2netpl.utils import launch as launched


@dataclass(frozen=True)
class Vectors:
    """A row per image: its name, and what the frozen backbone makes of it."""

    config: RunConfig
    find: FindAt
    count: int
    workers: int

    @property
    def kinds(self) -> Mapping[str, str]:
        """The columns."""
        return {"image": "text", "features": "vector"}

    @property
    def depends(self) -> dict[str, Any]:
        """What other features would depend on."""
        return {"backbone": cache_key(self.backbone.module, [], str(self.config.image_size))}

    @cached_property
    def backbone(self) -> Backbone:
        """The network without its classifier, on its device."""
        made = backbone_of(self.config.model_copy(update={"seed": 0}))
        made.module.to(launched.device_of(self.config.device))
        return made

    def make(self, blocks: Iterable[Block], on_batch: OnBatch = None) -> Iterator[Made]:
        """One block after the other."""
        for look in looked_at(self._each, self.find, blocks, self.count, self.workers, on_batch):
            columns = {"image": list(look.block.images), "features": look.found}
            yield Made(look.block.number, columns, look.counts(), look.unread)

    def _each(
        self, lists: Iterable[Sequence[str]], count: int, workers: int, on_batch: OnBatch
    ) -> Iterator[Features]:
        """Features of lists of image files, one after the other."""

        def source(paths: Sequence[str]) -> ImageSource:
            how = (self.config.image_size, self.backbone.mean, self.backbone.std)
            return ImageSource(paths, *how, workers=workers, max_unreadable=len(paths))

        module = None
        for part in joined_sources(lists, source):
            module = module or faster(self.backbone.module, part, count)
            yield compute_features(module, part, on_batch=on_batch)
