"""Train a multi-label image classifier when most labels are missing (G²NetPL, BMVC 2022).

The public surface; everything is imported on first use, so that `import g2netpl` is quick.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from g2netpl.base.options import Options
    from g2netpl.game.loop import LabelPlayer, Proposal, Setup
    from g2netpl.game.methods import METHODS, Method
    from g2netpl.game.network.network import Backbone, build_network
    from g2netpl.images.loader import Batch
    from g2netpl.images.scenes import make_scenes, write_scenes
    from g2netpl.labels.formats import read_labels, write_labels
    from g2netpl.labels.settings import Setting, observe
    from g2netpl.labels.table import LabelTable
    from g2netpl.reports.run import write_run_report
    from g2netpl.review.session import Review
    from g2netpl.runs.answers import reviewed_labels
    from g2netpl.runs.bundle import load_bundle
    from g2netpl.runs.completion import complete, write_completed
    from g2netpl.runs.config import RunConfig
    from g2netpl.runs.metrics import evaluate
    from g2netpl.runs.run import load_run
    from g2netpl.training.estimator import PartialLabelClassifier
    from g2netpl.training.session import train

__version__ = "0.1.0"

_HOME = {
    "read_labels": "labels.formats",
    "write_labels": "labels.formats",
    "LabelTable": "labels.table",
    "observe": "labels.settings",
    "Setting": "labels.settings",
    "train": "training.session",
    "complete": "runs.completion",
    "write_completed": "runs.completion",
    "write_run_report": "reports.run",
    "evaluate": "runs.metrics",
    "RunConfig": "runs.config",
    "METHODS": "game.methods",
    "Method": "game.methods",
    "Options": "base.options",
    "build_network": "game.network.network",
    "Backbone": "game.network.network",
    "LabelPlayer": "game.loop",
    "Proposal": "game.loop",
    "Setup": "game.loop",
    "Batch": "images.loader",
    "load_run": "runs.run",
    "load_bundle": "runs.bundle",
    "Review": "review.session",
    "reviewed_labels": "runs.answers",
    "make_scenes": "images.scenes",
    "write_scenes": "images.scenes",
    "PartialLabelClassifier": "training.estimator",
}

__all__ = [
    "METHODS",
    "Backbone",
    "Batch",
    "LabelPlayer",
    "LabelTable",
    "Method",
    "Options",
    "PartialLabelClassifier",
    "Proposal",
    "Review",
    "RunConfig",
    "Setting",
    "Setup",
    "build_network",
    "complete",
    "evaluate",
    "load_bundle",
    "load_run",
    "make_scenes",
    "observe",
    "read_labels",
    "reviewed_labels",
    "train",
    "write_completed",
    "write_labels",
    "write_run_report",
    "write_scenes",
]


def __getattr__(name: str) -> Any:
    if name in _HOME:
        try:
            return getattr(import_module(f"g2netpl.{_HOME[name]}"), name)
        except ModuleNotFoundError as problem:
            from g2netpl.base.errors import to_install

            missing = to_install(problem)
            if missing is None:
                raise
            raise ModuleNotFoundError(f"g2netpl.{name} {missing}", name=problem.name) from None
    raise AttributeError(f"module 'g2netpl' has no attribute {name!r}")
