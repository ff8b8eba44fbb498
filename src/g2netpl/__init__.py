"""Train a multi-label image classifier when most labels are missing (G²NetPL, BMVC 2022).

The public surface; everything is imported on first use, so that `import g2netpl` is quick. Methods
of your own start from `g2netpl.core`, grids of runs at `g2netpl.experiments`.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from g2netpl.core import METHODS as METHODS
    from g2netpl.core import Method as Method
    from g2netpl.core import build_method as build_method
    from g2netpl.core import register as register
    from g2netpl.images.check import inspect_labels as inspect_labels
    from g2netpl.images.scenes import make_scenes as make_scenes
    from g2netpl.images.scenes import write_scenes as write_scenes
    from g2netpl.labels.io import FORMATS as FORMATS
    from g2netpl.labels.io import Format as Format
    from g2netpl.labels.io import ReadOptions as ReadOptions
    from g2netpl.labels.io import read_labels as read_labels
    from g2netpl.labels.io import write_labels as write_labels
    from g2netpl.labels.settings import Setting as Setting
    from g2netpl.labels.settings import observe as observe
    from g2netpl.labels.table import LabelTable as LabelTable
    from g2netpl.reports.run import write_run_report as write_run_report
    from g2netpl.review.session import ReviewSession as ReviewSession
    from g2netpl.runs.answers import reviewed_labels as reviewed_labels
    from g2netpl.runs.bundle import load_bundle as load_bundle
    from g2netpl.runs.completion import Completed as Completed
    from g2netpl.runs.completion import choose_thresholds as choose_thresholds
    from g2netpl.runs.completion import complete as complete
    from g2netpl.runs.completion import complete_run as complete_run
    from g2netpl.runs.completion import write_completed as write_completed
    from g2netpl.runs.config import RunConfig as RunConfig
    from g2netpl.runs.metrics import evaluate as evaluate
    from g2netpl.runs.run import Run as Run
    from g2netpl.runs.run import load_run as load_run
    from g2netpl.runs.thresholds import Thresholds as Thresholds
    from g2netpl.training.estimator import PartialLabelClassifier as PartialLabelClassifier
    from g2netpl.training.train import train as train
    from g2netpl.utils.options import Options as Options

__version__ = "0.2.0"

_MODULES = {
    "utils.options": "Options",
    "labels.io": "Format FORMATS read_labels ReadOptions write_labels",
    "labels.settings": "observe Setting",
    "labels.table": "LabelTable",
    "images.check": "inspect_labels",
    "images.scenes": "make_scenes write_scenes",
    "core": "METHODS Method build_method register",
    "runs.answers": "reviewed_labels",
    "runs.bundle": "load_bundle",
    "runs.completion": "choose_thresholds complete Completed complete_run write_completed",
    "runs.config": "RunConfig",
    "runs.metrics": "evaluate",
    "runs.run": "load_run Run",
    "runs.thresholds": "Thresholds",
    "training.estimator": "PartialLabelClassifier",
    "training.train": "train",
    "review.session": "ReviewSession",
    "reports.run": "write_run_report",
}
_HOMES = {name: module for module, names in _MODULES.items() for name in names.split()}
__all__ = sorted(_HOMES)


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used."""
    if name not in _HOMES:
        raise AttributeError(f"module 'g2netpl' has no attribute {name!r}")
    return getattr(import_module(f"g2netpl.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return __all__
