"""Where the inputs of a run come from: image files, or features of the frozen backbone."""

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch

from g2netpl import launched
from g2netpl.config import RunConfig
from g2netpl.console import Console
from g2netpl.data import ArraySource, ImageSource, Part, Source
from g2netpl.features import Features, cache_key, cached, compute_features
from g2netpl.fitting import Validation
from g2netpl.image_cache import CacheBudget, ImageCache, KeptImages
from g2netpl.images import check_bad, header_problem
from g2netpl.material import Material
from g2netpl.methods import find_method
from g2netpl.network import Backbone, build_backbone
from g2netpl.settings import IndexArray
from g2netpl.teams import ALONE, Team
from g2netpl.tracking import epoch_bar
from g2netpl.views import PAIR


def backbone_of(config: RunConfig) -> Backbone:
    """The backbone that a run asks for."""
    return build_backbone(
        config.backbone,
        pretrained=config.pretrained,
        weights=config.weights,
        image_size=config.image_size,
        seed=config.seed,
    )


def most_bad(config: RunConfig, images: int) -> int:
    """How many of the images may be unreadable."""
    return max(1, images // 1000) if config.max_bad is None else config.max_bad


class Sources:
    """The images of each part; with `linear` their features, computed once and cached."""

    def __init__(
        self,
        config: RunConfig,
        material: Material,
        backbone: Backbone,
        console: Console,
        team: Team = ALONE,
        kept: KeptImages | None = None,
    ) -> None:
        self.config, self.material, self.backbone = config, material, backbone
        self.console, self.team = console, team
        self._paths = material.paths
        self._validation_paths = material.validation_paths
        self._test_paths = None if material.test is None else material.test.paths
        self._features: dict[str, ArraySource] = {}
        self._image_sources: dict[str, ImageSource] = {}
        self._bad: dict[str, str] = {}
        self._kept: KeptImages = {} if kept is None else kept
        self._budget = CacheBudget(config.image_cache, launched.size_of_machine())

    def prepare(self) -> None:
        """Do before the first epoch what can fail: compute the features, or look at the files."""
        for paths in (self._paths, self._validation_paths, self._test_paths):
            mine = (paths or [])[self.team.rank :: self.team.size]
            found = [problem for problem in map(header_problem, mine) if problem]
            problems = [
                each for part in self.team.tell(json.dumps(found)) for each in json.loads(part)
            ]
            check_bad(problems, self._max_bad(paths or []))
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
        return self._source("file", self._paths, linear)

    def training(self, linear: bool) -> Source:
        """The training part."""
        return Part(self.all(linear), self.material.training)

    def validation(self, linear: bool) -> Validation | None:
        """The validation part with what is known about it."""
        if self.material.validation is None:
            return None
        source = (
            Part(self.all(linear), self.material.held_out)
            if self._validation_paths is None
            else self._source("validation", self._validation_paths, linear)
        )
        return Validation(source, self.material.validation.values)

    def test(self, linear: bool) -> Source | None:
        """The test images."""
        return None if self._test_paths is None else self._source("test", self._test_paths, linear)

    def some_features(self, rows: IndexArray, linear: bool) -> Features:
        """Features of some training images, for the estimate of k."""
        chosen = self.material.training[rows]
        if linear:  # they are computed for the training anyway
            self.all(linear)
            features: Features = self._features["file"].inputs[torch.from_numpy(chosen)].numpy()
            return features
        allowed = self._max_bad(self._paths)
        source = self._images([self._paths[row] for row in chosen], allowed)
        return compute_features(self.backbone.module, source, team=self.team)

    def _max_bad(self, paths: Sequence[str]) -> int:
        return most_bad(self.config, len(paths))

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
            max_bad=self._max_bad(paths) if max_bad is None else max_bad,
            decoder=config.decoder,
            cache=cache,
        )

    def _cache(self, name: str, paths: list[str]) -> ImageCache | None:
        """For images that every epoch looks at."""
        if name == "test":
            return None
        key = (tuple(paths), self.config.image_size, self.config.decoder)
        if key not in self._kept:
            cache, line = self._budget.make(len(paths), self.config.image_size)
            if line:
                self.console.print(line, highlight=False, soft_wrap=True)
            if cache is None:
                return None
            self._kept[key] = cache
        return self._kept[key]

    def _source(self, name: str, paths: list[str], linear: bool) -> Source:
        if not linear:
            if name not in self._image_sources:
                self._image_sources[name] = self._images(paths, cache=self._cache(name, paths))
            return self._image_sources[name]
        if name not in self._features:
            module = self.backbone.module
            folder = Path(self.config.cache) if self.config.cache else None
            view = f"squash, at least 2 x {self.config.image_size} {self.backbone.mean}"
            if self.config.decoder != "pillow":
                view += f" {self.config.decoder}"

            def compute() -> Features:
                source = self._images(paths)
                with epoch_bar(self.console, 1, len(paths)) as bar:
                    return compute_features(module, source, on_batch=bar.advance, team=self.team)

            features = cached(folder, cache_key(module, paths, view), compute, self.team)
            unreadable = np.flatnonzero(np.isnan(features).any(axis=1))
            here = {paths[row]: f"{paths[row]}: not a readable image" for row in unreadable}
            check_bad(here.values(), self._max_bad(paths))
            self._bad |= here
            self._features[name] = ArraySource(torch.from_numpy(features))
        return self._features[name]
