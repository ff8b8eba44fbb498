"""`features` without labels: a folder of Parquet files, for images of any number."""

import argparse
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

from g2netpl.base.errors import InputError, counted

if TYPE_CHECKING:
    from torch import nn

    from g2netpl.game.network.network import Backbone
    from g2netpl.images.features import Features
    from g2netpl.images.loader import Source
    from g2netpl.runs.classifier import OnBatch
    from g2netpl.runs.config import RunConfig
    from g2netpl.runs.parts import Block, Made
    from g2netpl.runs.scoring import FindAt


def write_parts(flags: argparse.Namespace) -> None:
    """Compute the features of all images, or of those that are ours."""
    from g2netpl.base import launch as launched
    from g2netpl.base.console import Console
    from g2netpl.commands.in_parts import check_output, is_folder, make_all, share
    from g2netpl.commands.training_flags import checked
    from g2netpl.runs.parts import Blocks
    from g2netpl.runs.scoring import FindAt

    if not is_folder(flags.output):
        raise InputError(f"{flags.output}: without --labels, --output is a folder of Parquet files")
    console = Console(quiet=not launched.is_first_of_machine())
    check_output(flags)
    find = FindAt(flags.images)
    names = find.images.names()
    if not names:
        raise InputError(f"{flags.images}: no images there")
    workers, _ = share(flags)
    build = partial(Vectors, checked(flags), find, len(names), workers)
    blocks = Blocks.of(names, find.shards)
    tally = make_all(flags, console, "features", blocks, build, build())
    tally.tell_unread(console)
    console.print(f"{counted(tally.read, 'image')}, written to {flags.output}", highlight=False)


@dataclass(frozen=True)
class Vectors:
    """A row per image: its name, and what the frozen backbone makes of it."""

    config: "RunConfig"
    find: "FindAt"
    count: int
    workers: int

    @property
    def kinds(self) -> Mapping[str, str]:
        """The columns."""
        return {"image": "text", "features": "vector"}

    @property
    def depends(self) -> dict[str, Any]:
        """What other features would depend on."""
        from g2netpl.images.feature_cache import cache_key

        view = f"{self.config.image_size} {self.config.decoder}"
        return {"backbone": cache_key(self.backbone.module, [], view)}

    @cached_property
    def backbone(self) -> "Backbone":
        """The network without its classifier, on its device."""
        from g2netpl.training.devices import device_of
        from g2netpl.training.inputs import backbone_of

        made = backbone_of(self.config.model_copy(update={"seed": 0}))
        made.module.to(device_of(self.config.device))
        return made

    def make(self, blocks: "Iterable[Block]", on_batch: "OnBatch" = None) -> "Iterator[Made]":
        """One block after the other."""
        from g2netpl.runs.parts import Made
        from g2netpl.runs.scoring import looked_at

        for look in looked_at(self, self.find, blocks, self.count, self.workers, on_batch):
            columns = {"image": list(look.block.images), "features": look.found}
            yield Made(look.block.number, columns, look.counts(), look.unread)

    def score_each(
        self,
        lists: Iterable[Sequence[str]],
        count: int,
        workers: int = 0,
        max_bad: int | None = None,
        on_batch: "OnBatch" = None,
    ) -> "Iterator[Features]":
        """Features of lists of image files, one after the other."""
        from g2netpl.images.features import compute_features
        from g2netpl.images.loader import ImageSource, in_stretches

        def source(paths: Sequence[str]) -> ImageSource:
            how = (self.config.image_size, self.backbone.mean, self.backbone.std)
            most, decoder = len(paths), self.config.decoder
            return ImageSource(paths, *how, workers=workers, max_bad=most, decoder=decoder)

        module = None
        for part in in_stretches(lists, source):
            module = module or self._fast(part, count)
            yield compute_features(module, part, on_batch=on_batch)

    def _fast(self, source: "Source", count: int) -> "nn.Module":
        """The backbone by onnxruntime, where that pays for so many images."""
        from g2netpl.images.engine import Unfit, faster, worth

        try:
            return (
                faster(self.backbone.module, source)
                if worth(self.backbone.module, count)
                else self.backbone.module
            )
        except Unfit:
            return self.backbone.module
