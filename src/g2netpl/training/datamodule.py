"""What the model sees: image files, features or activations of frozen blocks, or arrays."""

import copy
from collections.abc import Callable
from dataclasses import dataclass
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
    InTurn,
    Mirrored,
    cache_key,
    default_cache,
    file_bytes,
    get_or_compute,
)
from g2netpl.images.features import ENOUGH, Features, compute_features, faster
from g2netpl.images.loader import (
    ArraySource,
    AugmentedSubset,
    ImageSource,
    MirroredSubset,
    Source,
    Subset,
    check_headers,
    plain_groups,
)
from g2netpl.images.pixels import Unreadable, check_unreadable
from g2netpl.images.sources import shards_of
from g2netpl.images.transforms import PAIR, Augment, cached_augmentations
from g2netpl.labels.table import IndexArray
from g2netpl.runs.metrics import Truth
from g2netpl.runs.prior import ScoreTable
from g2netpl.runs.train_config import USUAL_EPOCHS, PhaseMode, TrainConfig
from g2netpl.training.splits import TrainingData
from g2netpl.utils.console import Console
from g2netpl.utils.errors import InputError
from g2netpl.utils.progress import Work

SplitName = Literal["file", "validation", "test"]  # the label file that lists the images


def backbone_of(config: TrainConfig) -> Backbone:
    """The backbone that a run asks for."""
    return build_backbone(
        config.backbone,
        pretrained=config.pretrained,
        weights=config.weights,
        image_size=config.image_size,
        seed=config.seed,
    )


@dataclass(frozen=True)
class Validation:
    """Held-out images that choose the epoch, and their known labels."""

    source: Source
    truth: Truth


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

    def prepare(self) -> None:
        """Do before the first epoch what can fail."""

    def inputs(self, split: SplitName, mode: PhaseMode) -> Source | None:
        """The images of a label file, without a prior; None if there is no such file."""
        raise NotImplementedError

    def source(self, split: SplitName, mode: PhaseMode) -> Source | None:
        """The images of a label file, with a prior that is known."""
        found = self.inputs(split, mode)
        if found is None or self.prior is None:
            return found
        if split not in self._q and self.scores is not None:
            self._q[split] = self.scores.q_of(self._images_of(split))
        elif split not in self._q and mode == "linear":
            parts = found.load(plain_groups(len(found), 1024), None)
            prior = copy.deepcopy(self.prior).cpu()
            self._q[split] = torch.cat([prior(part) for part in parts])
        is_known = self.scores is not None or mode == "linear"
        found.prior = self._q[split] if is_known else None
        return found

    def _images_of(self, split: SplitName) -> tuple[str, ...]:
        data = self.data
        test = None if data.test is None else data.test.table
        table = {"file": data.table, "validation": data.validation, "test": test}[split]
        return () if table is None else table.images

    def all(self, mode: PhaseMode) -> Source:
        """Every image of the table, in its order."""
        found = self.source("file", mode)
        assert found is not None
        return found

    def training(self, mode: PhaseMode) -> Source:
        """The training part."""
        return Subset(self.all(mode), self.data.training)

    def validation(self, mode: PhaseMode) -> Validation | None:
        """The validation part with what is known about it."""
        if self.data.validation is None:
            return None
        return Validation(self.held_out(mode), self.data.validation.values)

    def held_out(self, mode: PhaseMode) -> Source:
        """The images that the epoch is chosen by."""
        own = self.source("validation", mode) if self.data.validation_paths else None
        return own or Subset(self.all(mode), self.data.held_out)

    def test(self, mode: PhaseMode) -> Source | None:
        """The test images."""
        return self.source("test", mode)

    def some_features(self, rows: IndexArray, mode: PhaseMode) -> Features:
        """Vectors of some training images, for the estimate of k."""
        raise NotImplementedError

    def bad_images(self) -> list[str]:
        """What was wrong with the images that could not be read so far."""
        return []


class TensorDataModule(DataModule):
    """Arrays in memory: features, which are the classifier's inputs, or small images."""

    def __init__(
        self,
        data: TrainingData,
        inputs: Tensor,
        test: Tensor | None = None,
        backbone: Backbone | None = None,
    ) -> None:
        super().__init__(data)
        self._all = ArraySource(inputs)
        self._test = None if test is None else ArraySource(test)
        self.backbone = backbone or Backbone(nn.Identity(), inputs.shape[1])

    def inputs(self, split: SplitName, mode: PhaseMode) -> Source | None:
        """The rows of the table, or of the test."""
        return {"file": self._all, "test": self._test}.get(split)

    def some_features(self, rows: IndexArray, mode: PhaseMode) -> Features:
        """The rows as they are, as vectors."""
        chosen = torch.from_numpy(self.data.training[rows])
        features: Features = self._all.inputs[chosen].flatten(1).numpy()
        return features


class ImageDataModule(DataModule):
    """Image files, or what a frozen part of the backbone makes of them, computed once and kept."""

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
        self._bad: dict[str, str] = {}
        self._engines: dict[int, nn.Module] = {}

    def prepare(self) -> None:
        """Do before the first epoch what can fail: compute the features, or look at the files."""
        test = [] if self.data.test is None else self.data.test.paths
        parts = (self.data.paths, self.data.validation_paths or [], test)
        most = self.config.most_unreadable
        check_unreadable(*(check_headers(paths, most(len(paths))) for paths in parts))
        for mode in self.config.phases:
            self.all(mode)
            self.validation(mode)
            if mode != "full":
                self.test(mode)

    def bad_images(self) -> list[str]:
        """What was wrong with the images that could not be read so far."""
        for source in self._sources.values():
            if isinstance(source, ImageSource):
                self._bad |= {source.dataset.paths[row]: text for row, text in source.bad.items()}
        return sorted(self._bad.values())

    def inputs(self, split: SplitName, mode: PhaseMode) -> Source | None:
        """Images of the label file, of the user's own validation file, or of the test."""
        data = self.data
        test = None if data.test is None else data.test.paths
        paths = {"file": data.paths, "validation": data.validation_paths, "test": test}[split]
        return None if paths is None else self._source(split, paths, mode)

    def some_features(self, rows: IndexArray, mode: PhaseMode) -> Features:
        """Features of some training images, for the estimate of k."""
        chosen = self.data.training[rows]
        if mode != "full":  # they are computed for the training anyway
            part = Subset(self.all(mode), chosen)
            upper = self.split.upper if mode == "partial" else nn.Identity()
            return compute_features(upper, part)
        allowed = self.config.most_unreadable(len(self.data.paths))
        source = self._images([self.data.paths[row] for row in chosen], max_unreadable=len(chosen))
        found = self._computed(self.backbone.module, source, "features for k")
        bad = {source.dataset.paths[row]: problem for row, problem in source.bad.items()}
        check_unreadable(Unreadable(bad.values(), allowed))
        return found

    @property
    def _augment(self) -> Augment | tuple[Augment, ...]:
        """Of training images, or two."""
        both, asked = find_method(self.config.method).method.augmentations == 2, self.config.augment
        return PAIR if both or asked == "pair" else asked

    def _images(self, paths: list[str], max_unreadable: int | None = None) -> ImageSource:
        config, backbone = self.config, self.backbone
        return ImageSource(
            paths,
            config.image_size,
            backbone.mean,
            backbone.std,
            seed=config.seed,
            augment=self._augment,
            workers=config.workers,
            max_unreadable=config.most_unreadable(len(paths))
            if max_unreadable is None
            else max_unreadable,
            shards=None if config.shuffle == "images" else shards_of(paths),
        )

    def _source(self, name: str, paths: list[str], mode: PhaseMode) -> Source:
        if (name, mode) not in self._sources:
            made: Source
            if mode == "full":
                made = self._images(paths)
            elif mode == "partial":
                made = self._activations(name, paths)
            else:
                made = ArraySource(torch.from_numpy(self.features(paths)))
            self._sources[name, mode] = made
        return self._sources[name, mode]

    @cached_property
    def split(self) -> SplitBackbone:
        """Frozen and trained blocks of the backbone, for partial fine-tuning."""
        return frozen_below(self.backbone.module, self.config.train_from, self.config.image_size)

    def features(self, paths: list[str]) -> Features:
        """What the backbone makes of all images, from the cache where it is there."""
        keep = partial(get_or_compute, shape=(self.backbone.width,), kind=np.float32)
        return np.array(self._frozen(keep, self.backbone.module, paths))

    def _activations(self, name: str, paths: list[str]) -> ActivationSource:
        """What the frozen blocks make of all images, and for the training of views of them."""
        shape, at = self.split.shape, f"before {self.split.at}, "
        keep = partial(self._frozen, partial(get_or_compute, shape=shape), self.split.lower, paths)
        if name != "file":
            return ActivationSource(keep(at))
        view, seed = self._augment, self.config.seed
        if view == PAIR and len(shape) != 3:
            raise InputError(
                f"two views with --mode partial: expected feature maps before {self.split.at}; use "
                "--mode full, or another --train-from"
            )
        mirrors, drawn = cached_augmentations(view, self.config.epochs or USUAL_EPOCHS)
        size = f"{(1 + mirrors + drawn) * file_bytes(len(paths), shape) / 1e9:.1f} GB"
        folder = self.config.cache or default_cache()
        self._say(f"partial: {self.split}; activations below take {size} in {folder}")
        plain, looks = keep(at), list[Mirrored | InTurn]()
        if mirrors:
            looks.append(Mirrored(plain, keep(f"{at}mirrored, ", MirroredSubset), seed))
        if drawn:
            tables = [
                keep(f"{at}strong {seed} {number}, ", partial(AugmentedSubset, epoch=number))
                for number in range(drawn)
            ]
            looks.append(InTurn(tables))
        return ActivationSource(plain, looks)

    def _frozen(
        self,
        keep: Callable[..., Any],
        module: nn.Module,
        paths: list[str],
        view: str = "",
        part: Callable[..., Subset] = Subset,
    ) -> Any:
        """What a frozen module makes of all images, computed or kept; of a bad one all NaN."""
        config, bad, source = self.config, dict[str, str](), self._images(paths)
        what = "activations" if view else "features"

        def compute(rows: IndexArray) -> Features:
            some = part(source, rows)
            fast = self._fast(module, some) if len(paths) >= ENOUGH else module
            found = self._computed(fast, some, what)
            strange = ~np.isfinite(found.reshape(len(rows), -1)).all(axis=1)
            found[strange] = np.nan
            for row in rows[strange]:
                none = f"{paths[row]}: the backbone makes no finite numbers of it"
                bad[paths[row]] = source.bad.get(int(row), none)
            return found

        view += f"squash, at least 2 x {config.image_size} {self.backbone.mean} {self.backbone.std}"
        key = cache_key(module, paths, f"{config.backbone} {view}")
        folder = Path(config.cache) if config.cache else None
        found = keep(folder, key, paths, compute=compute, say=self._say)
        check_unreadable(Unreadable(bad.values(), self.config.most_unreadable(len(paths))))
        self._bad = bad | self._bad
        return found

    def _computed(self, module: nn.Module, source: Source, what: str) -> Features:
        """What a module makes of images, while somebody may be waiting."""
        with Work(self.console, what, len(source)) as work:
            return compute_features(module, source, on_batch=work.advance)

    def _fast(self, module: nn.Module, source: Source) -> nn.Module:
        """The module by onnxruntime where possible; made once for all its images."""
        if id(module) not in self._engines:
            self._engines[id(module)] = faster(module, source, ENOUGH, self._say)
        return self._engines[id(module)]

    def _say(self, line: str) -> None:
        self.console.print(line)
