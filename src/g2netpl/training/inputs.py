"""What the network of a training sees: image files, their frozen features, or arrays in memory."""

import hashlib
import json
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from g2netpl.base import launch as launched
from g2netpl.base.arrays import finite_rows
from g2netpl.base.console import Console
from g2netpl.base.disk import file_stamp
from g2netpl.base.processes import ALONE, Processes
from g2netpl.game.methods import find_method
from g2netpl.game.network.network import Backbone, build_backbone
from g2netpl.images.cache import CacheBudget, ImageCache, KeptImages
from g2netpl.images.engine import Unfit, faster, worth
from g2netpl.images.feature_cache import cache_key, cached
from g2netpl.images.features import Features, compute_features
from g2netpl.images.loader import ArraySource, ImageSource, Part, Source
from g2netpl.images.pixels import check_bad, header_problem
from g2netpl.images.views import PAIR
from g2netpl.labels.settings import IndexArray
from g2netpl.runs.config import RunConfig
from g2netpl.training.data import TrainingData
from g2netpl.training.epochs import Validation
from g2netpl.training.progress import epoch_bar


def backbone_of(config: RunConfig) -> Backbone:
    """The backbone that a run asks for."""
    return build_backbone(
        config.backbone,
        pretrained=config.pretrained,
        weights=config.weights,
        image_size=config.image_size,
        seed=config.seed,
    )


class Inputs:
    """The inputs of each part of the data; `linear` asks for those of the classifier alone."""

    data: TrainingData
    backbone: Backbone

    def prepare(self) -> None:
        """Do before the first epoch what can fail."""

    def all(self, linear: bool) -> Source:
        """Every image of the table, in its order."""
        raise NotImplementedError

    def training(self, linear: bool) -> Source:
        """The training part."""
        return Part(self.all(linear), self.data.training)

    def validation(self, linear: bool) -> Validation | None:
        """The validation part with what is known about it."""
        if self.data.validation is None:
            return None
        return Validation(self.held_out(linear), self.data.validation.values)

    def held_out(self, linear: bool) -> Source:
        """The images that the epoch is chosen by."""
        return Part(self.all(linear), self.data.held_out)

    def test(self, linear: bool) -> Source | None:
        """The test images."""
        return None

    def some_features(self, rows: IndexArray, linear: bool) -> Features:
        """Vectors of some training images, for the estimate of k."""
        raise NotImplementedError

    def bad_images(self) -> list[str]:
        """What was wrong with the images that could not be read so far."""
        return []


class ArrayInputs(Inputs):
    """Arrays in memory: features, which are the classifier's inputs, or small images."""

    def __init__(
        self,
        data: TrainingData,
        inputs: Tensor,
        test: Tensor | None = None,
        backbone: Backbone | None = None,
    ) -> None:
        self.data, self._all = data, ArraySource(inputs)
        self._test = None if test is None else ArraySource(test)
        self.backbone = backbone or Backbone(nn.Identity(), inputs.shape[1])

    def all(self, linear: bool) -> Source:
        """Every row."""
        return self._all

    def test(self, linear: bool) -> Source | None:
        """The test rows."""
        return self._test

    def some_features(self, rows: IndexArray, linear: bool) -> Features:
        """The rows as they are, as vectors."""
        chosen = torch.from_numpy(self.data.training[rows])
        features: Features = self._all.inputs[chosen].flatten(1).numpy()
        return features


class ImageInputs(Inputs):
    """Image files; with `linear` their features, computed once and cached."""

    def __init__(
        self,
        config: RunConfig,
        data: TrainingData,
        backbone: Backbone,
        console: Console,
        processes: Processes = ALONE,
        kept: KeptImages | None = None,
    ) -> None:
        self.config, self.data, self.backbone = config, data, backbone
        self.console, self.processes = console, processes
        self._features: dict[str, ArraySource] = {}
        self._image_sources: dict[str, ImageSource] = {}
        self._bad: dict[str, str] = {}
        self._engine: nn.Module | None = None
        self._kept: KeptImages = {} if kept is None else kept
        self._budget = CacheBudget(config.image_cache, launched.size_of_machine())

    def prepare(self) -> None:
        """Do before the first epoch what can fail: compute the features, or look at the files."""
        test = [] if self.data.test is None else self.data.test.paths
        for paths in (self.data.paths, self.data.validation_paths or [], test):
            mine = paths[self.processes.rank :: self.processes.size]
            found = json.dumps([problem for problem in map(header_problem, mine) if problem])
            told = map(json.loads, self.processes.gather_text(found))
            problems = [problem for part in told for problem in part]
            check_bad(problems, self.config.most_bad(len(paths)))
        if self.config.mode != "end-to-end":
            self.all(True)
            self.validation(True)
            self.test(True)
        if self.config.mode != "linear":  # which make their caches
            self.all(False)
            self.validation(False)

    def bad_images(self) -> list[str]:
        """What was wrong with the images that could not be read so far."""
        for source in self._image_sources.values():
            self._bad |= {source.dataset.paths[row]: text for row, text in source.bad.items()}
        return sorted(self._bad.values())

    def all(self, linear: bool) -> Source:
        """Every image of the label file, in its order."""
        return self._source("file", self.data.paths, linear)

    def held_out(self, linear: bool) -> Source:
        """Of the label file, or of the user's own validation file."""
        own = self.data.validation_paths
        return super().held_out(linear) if own is None else self._source("validation", own, linear)

    def test(self, linear: bool) -> Source | None:
        """The test images."""
        test = self.data.test
        return None if test is None else self._source("test", test.paths, linear)

    def some_features(self, rows: IndexArray, linear: bool) -> Features:
        """Features of some training images, for the estimate of k."""
        chosen = self.data.training[rows]
        if linear:  # they are computed for the training anyway
            self.all(linear)
            features: Features = self._features["file"].inputs[torch.from_numpy(chosen)].numpy()
            return features
        allowed = self.config.most_bad(len(self.data.paths))
        source = self._images([self.data.paths[row] for row in chosen], allowed)
        return compute_features(self.backbone.module, source, processes=self.processes)

    def _images(
        self, paths: list[str], max_bad: int | None = None, cache: ImageCache | None = None
    ) -> ImageSource:
        config, backbone = self.config, self.backbone
        return ImageSource(
            paths,
            config.image_size,
            backbone.mean,
            backbone.std,
            seed=config.seed,
            view=PAIR if find_method(config.method).two_views else config.view,
            workers=config.workers,
            max_bad=config.most_bad(len(paths)) if max_bad is None else max_bad,
            decoder=config.decoder,
            cache=cache,
        )

    def _cache(self, name: str, paths: list[str]) -> ImageCache | None:
        """For images that every epoch looks at."""
        if name == "test":
            return None
        key = (tuple(paths), self.config.image_size, self.config.decoder)
        stamps = repr([file_stamp(path) for path in paths])
        files = hashlib.sha256(stamps.encode()).digest()
        cache = self._kept.pop(key, None)
        if cache is None or cache.files != files:  # of other pictures
            cache, line = self._budget.make(len(paths), self.config.image_size)
            if line:
                self._say(line)
        if cache is not None:
            cache.files, self._kept[key] = files, cache
        return cache

    def _source(self, name: str, paths: list[str], linear: bool) -> Source:
        if not linear:
            if name not in self._image_sources:
                self._image_sources[name] = self._images(paths, cache=self._cache(name, paths))
            return self._image_sources[name]
        if name not in self._features:
            self._features[name] = ArraySource(torch.from_numpy(self._frozen(paths)))
        return self._features[name]

    def _frozen(self, paths: list[str]) -> Features:
        """Features of all images, from the cache where they are there; of a bad one all NaN."""
        module, bad = self.backbone.module, dict[str, str]()
        try:
            features = self._features_of(paths, bad, worth(module, len(paths)))
        except Unfit as why:
            self._say(f"note: features by PyTorch: {why}")
            features = self._features_of(paths, bad, False)
        for row in np.flatnonzero(~finite_rows(features)):
            features[row] = np.nan
            bad.setdefault(paths[row], f"{paths[row]}: the backbone makes no finite numbers of it")
        check_bad(bad.values(), self.config.most_bad(len(paths)))
        self._bad |= bad
        return features

    def _features_of(self, paths: list[str], bad: dict[str, str], by_engine: bool) -> Features:
        """As stored, and else computed by onnxruntime or by PyTorch, which are never mixed."""
        backbone, config = self.backbone, self.config

        def compute(rows: IndexArray) -> Features:
            some = [paths[row] for row in rows]
            source = self._images(some, config.most_bad(len(paths)))
            module = self._fast_backbone(source) if by_engine else backbone.module
            with epoch_bar(self.console, 1, len(some)) as bar:
                features = compute_features(
                    module, source, on_batch=bar.advance, processes=self.processes
                )
            bad.update({some[row]: text for row, text in source.bad.items()})
            features[list(source.bad)] = np.nan
            return features

        view = f"squash, at least 2 x {config.image_size} {backbone.mean} {backbone.std}"
        view = f"{config.backbone} {view} {config.decoder}" + " onnxruntime" * by_engine
        key = cache_key(backbone.module, paths, view)
        folder = Path(config.cache) if config.cache else None
        return cached(folder, key, paths, backbone.width, compute, self.processes, self._say)

    def _fast_backbone(self, source: ImageSource) -> nn.Module:
        """The backbone by onnxruntime, on every rank or on none."""
        why = ""
        if self._engine is None:
            try:
                self._engine = faster(self.backbone.module, source)
            except Unfit as problem:
                why = str(problem)
        told = [text for text in self.processes.gather_text(why) if text]
        if told or self._engine is None:
            raise Unfit(told[0])
        return self._engine

    def _say(self, line: str) -> None:
        self.console.print(line)
