"""Where the inputs of a run come from: image files, or features of the frozen backbone."""

from pathlib import Path

import torch
from rich.console import Console

from g2netpl.config import RunConfig
from g2netpl.data import ArraySource, ImageSource, Part, Source
from g2netpl.features import Features, cache_key, cached, compute_features
from g2netpl.fitting import Validation
from g2netpl.images import check_headers, locate
from g2netpl.labels import LabelTable
from g2netpl.material import Material
from g2netpl.network import Backbone
from g2netpl.settings import IndexArray
from g2netpl.tracking import epoch_bar


class Sources:
    """The images of each part; with `linear` their features, computed once and cached."""

    def __init__(
        self, config: RunConfig, material: Material, backbone: Backbone, console: Console
    ) -> None:
        self.config, self.material, self.backbone, self.console = (
            config,
            material,
            backbone,
            console,
        )
        self._paths = locate(material.table.images, config.images)
        self._test_paths = self._located(material.test, config.test_images)
        own_validation = material.validation is not None and not len(material.held_out)
        self._validation_paths = self._located(
            material.validation if own_validation else None, config.images
        )
        self._features: dict[str, ArraySource] = {}
        self._image_sources: dict[str, ImageSource] = {}

    def prepare(self) -> None:
        """Do before the first epoch what can fail: compute the features, or look at the files."""
        if self.config.mode != "end-to-end":
            self.all(True)
            self.validation(True)
            self.test(True)
        for paths in (self._paths, self._validation_paths, self._test_paths):
            check_headers(paths or [])

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
        return compute_features(
            self.backbone.module, self._images([self._paths[row] for row in chosen])
        )

    def _located(self, table: LabelTable | None, folder: str | None) -> list[str] | None:
        return None if table is None else locate(table.images, folder or self.config.images)

    def _images(self, paths: list[str]) -> ImageSource:
        config, backbone = self.config, self.backbone
        return ImageSource(
            paths,
            config.image_size,
            backbone.mean,
            backbone.std,
            seed=config.seed,
            flip=config.flip,
            workers=config.workers,
        )

    def _source(self, name: str, paths: list[str], linear: bool) -> Source:
        if not linear:
            if name not in self._image_sources:
                self._image_sources[name] = self._images(paths)
            return self._image_sources[name]
        if name not in self._features:
            module = self.backbone.module
            folder = Path(self.config.cache) if self.config.cache else None
            key = cache_key(module, paths, f"squash {self.config.image_size} {self.backbone.mean}")

            def compute() -> Features:
                with epoch_bar(self.console, 1, len(paths)) as bar:
                    return compute_features(module, self._images(paths), on_batch=bar.advance)

            self._features[name] = ArraySource(torch.from_numpy(cached(folder, key, compute)))
        return self._features[name]
