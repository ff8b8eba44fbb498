"""The methods and how they train. Read `algorithm` first: it is Algorithm 1 of the paper.

`methods/` has one small class per method, `annotation` the heads, `equations` the paper's
formulas, `losses` the loss functions, `models` backbones. `methods/base.py` shows your own method.
"""

from g2netpl.core.algorithm import NEGATIVE, POSITIVE, UNOBSERVED, Batch, train_epoch
from g2netpl.core.annotation import IndependentHead, Output, SampledPositiveHead
from g2netpl.core.losses import expected_positives, soft_bce
from g2netpl.core.methods import METHODS, Method, MethodOptions, build_method, register
from g2netpl.core.models import BACKBONES, Backbone, Model, build_model

__all__ = [
    "BACKBONES",
    "METHODS",
    "NEGATIVE",
    "POSITIVE",
    "UNOBSERVED",
    "Backbone",
    "Batch",
    "IndependentHead",
    "Method",
    "MethodOptions",
    "Model",
    "Output",
    "SampledPositiveHead",
    "build_method",
    "build_model",
    "expected_positives",
    "register",
    "soft_bce",
    "train_epoch",
]
