"""Which labels stay visible: `observe()` hides labels of a full table as a `Setting` says.

    full               everything                            (BCE, the fully supervised upper bound)
    fspl               one random positive per image         (full set, single positive label)
    sspl:0.2           as fspl, on 20 % of the images        (subset, single positive label)
    positives:1+1      1 positive and 1 negative per image   (IU's setting)
    known:0.1          every label visible with probability 0.1, both signs
    biased:frequency   as fspl, but frequent classes are named more often
    own                the labels as the user's file has them

`…@spml` (fspl and positives): bitwise the masks of the SPML benchmark.
"""

from dataclasses import dataclass

import numpy as np

from g2netpl.labels import masks
from g2netpl.labels.table import NEGATIVE, POSITIVE, LabelTable, per_class
from g2netpl.utils.errors import InputError, did_you_mean

_FORMS = {  # an example of each
    **{"full": "full", "own": "own", "fspl": "fspl", "sspl": "sspl:0.2", "known": "known:0.2"},
    **{"positives": "positives:1+1", "biased": "biased:frequency"},
}
SPML_SEED = 1200


@dataclass(frozen=True)
class Setting:
    """One way of observing. Build it from its name: `Setting.parse("sspl:0.2")`."""

    kind: str
    fraction: float = 1.0
    positives: int = 1
    negatives: int = 0
    spml_compatible: bool = False

    @classmethod
    def parse(cls, text: str) -> "Setting":
        """Read a name such as `fspl`, `sspl:0.2`, `positives:1+1`, `known:0.1`, `fspl@spml`."""
        body, at, suffix = text.strip().partition("@")
        kind, _, argument = body.partition(":")
        if kind not in _FORMS:
            raise InputError(f"unknown setting {text!r} ({did_you_mean(kind, _FORMS)})")
        fraction, positives, negatives = 1.0, 1, 0
        try:
            if kind == "positives":
                first, _, second = argument.partition("+")
                positives, negatives = int(first), int(second or 0)
                is_valid = min(positives, negatives) >= 0 < positives + negatives
            elif kind in ("sspl", "known"):
                fraction = float(argument)
                is_valid = 0 < fraction <= 1
            else:
                is_valid = body == _FORMS[kind]
        except ValueError:
            is_valid = False
        if not is_valid or (at and (suffix != "spml" or kind not in ("fspl", "positives"))):
            forms = f"{_FORMS[kind]}, with @spml only for fspl and positives"
            raise InputError(f"setting {text!r}: expected a form like {forms}")
        return cls(kind, fraction, positives, negatives, bool(at))

    def __str__(self) -> str:
        value = ""
        if self.kind in ("sspl", "known"):
            value = f":{self.fraction:g}"
        elif self.kind == "positives":
            value = f":{self.positives}+{self.negatives}"
        elif self.kind == "biased":
            value = ":frequency"
        return f"{self.kind}{value}{'@spml' if self.spml_compatible else ''}"


def observe(table: LabelTable, setting: Setting | str, seed: int) -> LabelTable:
    """The labels that stay visible. Pure: the same table, setting and seed give the same labels.

    `setting` may be text, such as "fspl" or "sspl:0.2".

    What is unobserved in `table` stays unobserved. Images without any positive are fine: they
    carry nothing under the single-positive settings. Under fspl, sspl and biased every class
    that has a positive keeps at least one labelled image, wherever that is possible at all.
    """
    setting = Setting.parse(setting) if isinstance(setting, str) else setting
    if setting.kind == "own":
        return table
    if setting.kind == "full":
        if not table.is_complete:
            unknown = len(table) * len(table.classes) - table.known
            raise InputError(
                f"setting full: every label must be known, {unknown} are not; "
                "use the setting 'own' to train on the labels as they are"
            )
        return table
    if setting.spml_compatible:
        counts = setting.positives, setting.negatives
        return table.with_values(masks.spml_masks(table.values, *counts, seed))
    # one stream of random numbers per kind: sspl:0.2 of a seed is a part of fspl of that seed
    random = np.random.default_rng([seed, 0x6F62])
    if setting.kind == "known":
        return table.with_values(masks.mask_uniform(table.values, setting.fraction, random))
    if setting.kind == "positives":
        by_sign = {POSITIVE: setting.positives, NEGATIVE: setting.negatives}
        return table.with_values(masks.mask_k_per_image(table.values, by_sign, random))
    often = per_class(table.values, POSITIVE) if setting.kind == "biased" else None
    chosen = masks.mask_single_positive(table.values, often, random)
    if setting.kind == "sspl":
        chosen = masks.subset(chosen, len(table.classes), setting.fraction, random)
    return table.with_values(masks.single_positives(table.values, chosen))
