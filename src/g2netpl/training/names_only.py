"""A run without any tag: classes are predicted by the prior only, with a fixed factor.

The head has no weights, so a logit is factor · q, moved so that k classes per image are expected.
One epoch without anything to learn from leaves it as it is, and everything else is as in other
runs. Classes that the prior does not know are rejected.
"""

from collections.abc import Sequence

import torch

from g2netpl.core.models import Model
from g2netpl.runs.config import RunConfig
from g2netpl.runs.prior import FoundPrior
from g2netpl.utils.errors import InputError, listed

CLASS_LIST = "classes"  # the label format without labels
# with this factor 67 % is right of what is 0.5 or more, 80 % from 0.7 on (k known; class-names.md)
FACTOR = 0.6
NOTE = (
    "no tags: labels come from the prior only and are less accurate; tags on 2 % of the photos "
    "improve them"
)


def untagged_config(config: RunConfig) -> RunConfig:
    """What a run without tags cannot choose is set here."""
    if isinstance(config.expected_positives, str) and not config.single_label:
        raise InputError(
            "--expected-positives: without tags the number of classes per photo cannot be "
            "estimated; give a number, such as 1.5"
        )
    keys = {"method": "iu", "options": {}, "annotation": "random", "mode": "linear"}
    return config.model_copy(update={**keys, "hidden": 0, "epochs": 1, "validation": 0.0})


def check_known(classes: Sequence[str], prior: FoundPrior) -> None:
    """Reject classes that the prior does not know."""
    if prior.prior is None:
        raise InputError(f"no tags, and no prior to predict by: {prior.reason}")
    is_known = prior.prior.is_matched.tolist()
    unknown = [name for name, known in zip(classes, is_known, strict=True) if not known]
    if unknown:
        raise InputError(
            f"no tags, and the prior does not know these classes: {listed(unknown, 100)}; leave "
            "them out of the list, or give their meaning with --names FILE"
        )


def without_weights(model: Model) -> None:
    """Let the head predict by the prior only."""
    with torch.no_grad():
        for name, parameter in model.head.named_parameters():
            parameter.fill_(FACTOR if name == "factor" else 0.0)
