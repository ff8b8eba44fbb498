"""What the model sees: image files, features or activations of frozen blocks, or arrays."""

import copy
from collections.abc import Callable
from functools import cached_property, partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor, nn

from g2netpl.core.freezing import SplitBackbone, frozen_below
from g2netpl.core.methods import find_method
from g2netpl.core.models import Backbone, build_backbone
from g2netpl.core.prior import Prior
from g2netpl.images.feature_cache import (
    ActivationSource,
    Kind,
    cache_key,
    default_cache,
    file_bytes,
    get_or_compute,
)
from g2netpl.images.features import ENOUGH, Features, compute_features, faster
from g2netpl.images.loader import (
    ArraySource,
    ImageSource,
    MirroredSubset,
    Source,
    Subset,
    check_headers,
    plain_groups,
)
from g2netpl.images.pixels import check_unreadable
from g2netpl.images.sources import shards_of
from g2netpl.images.transforms import PAIR
from g2netpl.labels.table import IndexArray
from g2netpl.runs.prior import ScoreTable
from g2netpl.runs.train_config import PhaseMode, TrainConfig
from g2netpl.training.splits import TrainingData
from g2netpl.utils.console import Console
from g2netpl.utils.errors import InputError
from g2netpl.utils.progress import Work

SplitName = Literal["training", "validation", "test"]  # the label file that lists the images


def backbone_of(config: TrainConfig) -> Backbone:
    """The backbone that a run asks for."""
    return build_backbone(
        config.backbone,
        pretrained=config.pretrained,
        weights=config.weights,
        image_size=config.image_size,
        seed=config.seed,
    )


class DataModule:
    """Where the images of each split come from, for each mode of training.

    With the `scores` of a `prior`, or names and a frozen backbone, q comes with the images.
    """

    data: TrainingData
    backbone: Backbone
    prior: Prior | None = None
    scores: ScoreTable | None = None

    def __init__(self, data: TrainingData) -> None:
        self.data = data
        self._q: dict[SplitName, Tensor] = {}

    @property
    def split(self) -> SplitBackbone:
        """Frozen and trained blocks of the backbone, for partial fine-tuning."""
        raise NotImplementedError

    def inputs(self, split: SplitName, mode: PhaseMode) -> Source | None:
        """The images of a label file, without a prior; None if there is no such file."""
        raise NotImplementedError

    def source(self, split: SplitName, mode: PhaseMode) -> Source | None:
        """The images of a label file, with a prior that is known."""
        source = self.inputs(split, mode)
        if source is None or self.prior is None:
            return source
        if split not in self._q and self.scores is not None:
            q = self.scores.q_of(self.data.files[split].table.images)
            if not q.any():
                raise InputError(f"{self.scores.path}: has no score of any {split} image")
            self._q[split] = q
        elif split not in self._q and mode == "linear":
            parts = source.load(plain_groups(len(source), 1024), None)
            prior = copy.deepcopy(self.prior).cpu()
            self._q[split] = torch.cat([prior(part) for part in parts])
        is_known = self.scores is not None or mode == "linear"
        source.prior = self._q[split] if is_known else None
        return source

    def all(self, mode: PhaseMode) -> Source:
        """Every image of the table, in its order."""
        source = self.source("training", mode)
        assert source is not None
        return source

    def training(self, mode: PhaseMode) -> Source:
        """The training split."""
        return Subset(self.all(mode), self.data.training)

    def held_out(self, mode: PhaseMode) -> Source:
        """The images that the epoch is chosen by."""
        own = self.source("validation", mode) if self.data.validation_paths else None
        return own or Subset(self.all(mode), self.data.held_out)

    def validation(self, mode: PhaseMode) -> Source | None:
        """The same; None if no epoch can be chosen."""
        return None if self.data.validation is None else self.held_out(mode)

    def some_features(self, rows: IndexArray, mode: PhaseMode) -> Features:
        """Feature vectors of some training images, for the estimate of k."""
        raise NotImplementedError

    def bad_images(self) -> list[str]:
        """What was wrong with the images that could not be read so far."""
        return []


class TensorDataModule(DataModule):
    """Arrays in memory: features, which are the head's inputs, or small images."""

    def __init__(
        self,
        data: TrainingData,
        inputs: Tensor,
        test: Tensor | None = None,
        backbone: Backbone | None = None,
    ) -> None:
        super().__init__(data)
        self._arrays = {"training": ArraySource(inputs)}
        if test is not None:
            self._arrays["test"] = ArraySource(test)
        self.backbone = backbone or Backbone(nn.Identity(), inputs.shape[1])

    def inputs(self, split: SplitName, mode: PhaseMode) -> Source | None:
        """The rows of the table, or of the test."""
        return self._arrays.get(split)

    def some_features(self, rows: IndexArray, mode: PhaseMode) -> Features:
        """The rows as they are, as vectors."""
        chosen = torch.from_numpy(self.data.training[rows])
        features: Features = self._arrays["training"].inputs[chosen].flatten(1).numpy()
        return features


class ImageDataModule(DataModule):
    """Image files, or outputs of a frozen part of the backbone, computed once and cached."""

    def __init__(
        self,
        config: TrainConfig,
        data: TrainingData,
        backbone: Backbone,
        console: Console,
    ) -> None:
        super().__init__(data)
        self.config, self.backbone, self.console = config, backbone, console
        self._sources: dict[tuple[str, PhaseMode], Source] = {}
        self._bad: list[dict[int, str]] = []  # why images could not be read, for each source
        self._engines: dict[nn.Module, nn.Module] = {}

    def prepare(self) -> None:
        """Do before the first epoch what can fail: compute the features, or look at the files."""
        most = self.config.most_unreadable
        for listed in self.data.files.values():
            check_headers(listed.paths, most(len(listed.paths)))
        for mode in self.config.phases:
            self.all(mode)
            self.validation(mode)
            if mode != "full":
                self.source("test", mode)

    def bad_images(self) -> list[str]:
        """What was wrong with the images that could not be read so far."""
        return sorted({text for bad in self._bad for text in bad.values()})

    def inputs(self, split: SplitName, mode: PhaseMode) -> Source | None:
        """Images of the label file, of the user's own validation file, or of the test."""
        if split not in self.data.files:
            return None
        if (split, mode) not in self._sources:
            self._sources[split, mode] = self._make(split, mode)
        return self._sources[split, mode]

    def _make(self, split: SplitName, mode: PhaseMode) -> Source:
        paths = self.data.files[split].paths
        if mode == "linear":
            return ArraySource(torch.from_numpy(self.features(paths)))
        return self._images(paths) if mode == "full" else self._activations(split, paths)

    def some_features(self, rows: IndexArray, mode: PhaseMode) -> Features:
        """Features of some training images, for the estimate of k."""
        chosen = self.data.training[rows]
        if mode != "full":  # they are computed for the training anyway
            upper = self.split.upper if mode == "partial" else nn.Identity()
            return compute_features(upper, Subset(self.all(mode), chosen))
        paths = self.data.paths
        source = self._images([paths[row] for row in chosen], of=len(paths))
        return self._computed(self.backbone.module, source, "features for k")

    @cached_property
    def split(self) -> SplitBackbone:
        """Frozen and trained blocks of the backbone, for partial fine-tuning."""
        return frozen_below(self.backbone.module, self.config.train_from, self.config.image_size)

    def features(self, paths: list[str]) -> Features:
        """The output of the backbone for all images, from the cache if it is there."""
        shape = (self.backbone.width,)
        return np.array(self._frozen(self.backbone.module, paths, shape, np.float32))

    def _images(self, paths: list[str], of: int | None = None) -> ImageSource:
        """Image files; as many as of `of` images may be unreadable."""
        config, backbone = self.config, self.backbone
        needs_pair = find_method(config.method).method.augmentations == 2
        source = ImageSource(
            paths,
            config.image_size,
            backbone.mean,
            backbone.std,
            seed=config.seed,
            augment=PAIR if needs_pair or config.augment == "pair" else config.augment,
            workers=config.workers,
            max_unreadable=config.most_unreadable(of or len(paths)),
            shards=None if config.shuffle == "images" else shards_of(paths),
        )
        self._bad.append(source.bad)
        return source

    def _activations(self, split: SplitName, paths: list[str]) -> ActivationSource:
        """The output of the frozen blocks, for training also of the mirror images."""
        blocks, is_mirrored = self.split, self.config.augment == "paper" and split == "training"
        shape, at = blocks.shape, f"before {blocks.at}, "
        frozen = partial(self._frozen, blocks.lower, paths, shape, np.float16)
        if split == "training":
            size = f"{(1 + is_mirrored) * file_bytes(len(paths), shape) / 1e9:.1f} GB"
            folder = self.config.cache or default_cache()
            self.console.print(f"partial: {blocks}; activations below take {size} in {folder}")
        plain = frozen(at)
        mirrored = frozen(f"{at}mirrored, ", MirroredSubset) if is_mirrored else None
        return ActivationSource(plain, mirrored, self.config.seed)

    def _frozen(
        self,
        module: nn.Module,
        paths: list[str],
        shape: tuple[int, ...],
        kind: Kind,
        what: str = "",
        subset: Callable[..., Subset] = Subset,
    ) -> Any:
        """The output of a frozen module for all images, cached; NaN for unreadable ones."""
        config, backbone, source = self.config, self.backbone, self._images(paths)

        def compute(rows: IndexArray) -> Features:
            some, fast = subset(source, rows), module
            if len(paths) >= ENOUGH:
                if module not in self._engines:  # made once for all its images
                    self._engines[module] = faster(module, some, ENOUGH, self.console.print)
                fast = self._engines[module]
            values = self._computed(fast, some, "activations" if what else "features")
            is_bad = ~np.isfinite(values.reshape(len(rows), -1)).all(axis=1)
            values[is_bad] = np.nan
            for row in rows[is_bad].tolist():
                why = f"{paths[row]}: the output of the backbone is not finite"
                source.bad.setdefault(row, why)
            return values

        size = f"squash, at least 2 x {config.image_size} {backbone.mean} {backbone.std}"
        key = cache_key(module, paths, f"{config.backbone} {what}{size}")
        folder = Path(config.cache) if config.cache else None
        table = get_or_compute(folder, key, paths, shape, compute, kind, self.console.print)
        check_unreadable(source.bad.values(), config.most_unreadable(len(paths)))
        return table

    def _computed(self, module: nn.Module, source: Source, what: str) -> Features:
        with Work(self.console, what, len(source)) as work:
            return compute_features(module, source, on_batch=work.advance)
