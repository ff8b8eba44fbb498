"""Train a multi-label image classifier when most labels are missing (G²NetPL, BMVC 2022).

The public surface; everything is imported on first use, so that `import g2netpl` is quick.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from g2netpl.bundle import load_bundle
    from g2netpl.config import RunConfig
    from g2netpl.estimator import PartialLabelClassifier
    from g2netpl.evaluation import evaluate
    from g2netpl.formats import read_labels
    from g2netpl.game import LabelPlayer, Proposal
    from g2netpl.methods import METHODS
    from g2netpl.network import build_network
    from g2netpl.runs import load_run
    from g2netpl.settings import Setting, observe
    from g2netpl.training import train

__version__ = "0.1.0"

_HOME = {
    "read_labels": "formats",
    "observe": "settings",
    "Setting": "settings",
    "train": "training",
    "evaluate": "evaluation",
    "RunConfig": "config",
    "METHODS": "methods",
    "build_network": "network",
    "LabelPlayer": "game",
    "Proposal": "game",
    "load_run": "runs",
    "load_bundle": "bundle",
    "PartialLabelClassifier": "estimator",
}

__all__ = [
    "METHODS",
    "LabelPlayer",
    "PartialLabelClassifier",
    "Proposal",
    "RunConfig",
    "Setting",
    "build_network",
    "evaluate",
    "load_bundle",
    "load_run",
    "observe",
    "read_labels",
    "train",
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
