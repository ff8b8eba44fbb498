"""Train a multi-label image classifier when most labels are missing (G²NetPL, BMVC 2022).

The public surface; everything is imported on first use, so that `import g2netpl` is quick.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from g2netpl.bundle import load_bundle
    from g2netpl.config import RunConfig
    from g2netpl.data import Batch
    from g2netpl.estimator import PartialLabelClassifier
    from g2netpl.evaluation import evaluate
    from g2netpl.formats import read_labels, write_labels
    from g2netpl.game import LabelPlayer, Proposal, Setup
    from g2netpl.labels import LabelTable
    from g2netpl.methods import METHODS, Method
    from g2netpl.network import Backbone, build_network
    from g2netpl.options import Options
    from g2netpl.proposals import complete, write_completed
    from g2netpl.review import Review
    from g2netpl.review_log import reviewed_labels
    from g2netpl.run_report import write_run_report
    from g2netpl.runs import load_run
    from g2netpl.scenes import make_scenes, write_scenes
    from g2netpl.settings import Setting, observe
    from g2netpl.training import train

__version__ = "0.1.0"

_HOME = {
    "read_labels": "formats",
    "write_labels": "formats",
    "LabelTable": "labels",
    "observe": "settings",
    "Setting": "settings",
    "train": "training",
    "complete": "proposals",
    "write_completed": "proposals",
    "write_run_report": "run_report",
    "evaluate": "evaluation",
    "RunConfig": "config",
    "METHODS": "methods",
    "Method": "methods",
    "Options": "options",
    "build_network": "network",
    "Backbone": "network",
    "LabelPlayer": "game",
    "Proposal": "game",
    "Setup": "game",
    "Batch": "data",
    "load_run": "runs",
    "load_bundle": "bundle",
    "Review": "review",
    "reviewed_labels": "review_log",
    "make_scenes": "scenes",
    "write_scenes": "scenes",
    "PartialLabelClassifier": "estimator",
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
            from g2netpl.errors import to_install

            missing = to_install(problem)
            if missing is None:
                raise
            raise ModuleNotFoundError(f"g2netpl.{name} {missing}", name=problem.name) from None
    raise AttributeError(f"module 'g2netpl' has no attribute {name!r}")
