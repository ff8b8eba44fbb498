"""Where classes are chosen in Label Studio's labelling interface, and what a model proposes there.

<Image name="photo" value="$picture"/>
<Choices name="tags" toName="photo" choice="multiple"> <Choice value="cat"/> … </Choices>
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from g2netpl.base.arrays import Scores
from g2netpl.base.errors import InputError
from g2netpl.labels.formats.label_studio_tasks import ABSENT
from g2netpl.labels.formats.xml_file import XML_ERRORS, Walk

_KEY = re.compile(r"\$(\w+)")


@dataclass(frozen=True)
class Control:
    """A field where classes of an image are chosen."""

    name: str = "label"
    to_name: str = "image"
    key: str = "image"  # of the image's address in the data of a task
    choices: frozenset[str] | None = None  # None: whatever there is
    is_single: bool = False

    def result(self, names: Sequence[str]) -> dict[str, Any]:
        """These classes, chosen."""
        return {
            "from_name": self.name,
            "to_name": self.to_name,
            "type": "choices",
            "value": {"choices": list(names)},
        }


class _Interface(Walk):
    """What a labelling interface has: images, and fields of choices."""

    def __init__(self) -> None:
        super().__init__()
        self.images: dict[str, str] = {}
        self.fields: list[tuple[dict[str, str], set[str]]] = []

    def begin(self, name: str, attributes: dict[str, str]) -> None:
        """Take up an image, a field or a choice of the last one."""
        if name == "Image":
            self.images[attributes.get("name", "")] = attributes.get("value", "")
        elif name == "Choices":
            self.fields.append((attributes, set()))
        elif name == "Choice" and "Choices" in self.place:
            self.fields[-1][1].add(attributes.get("alias") or attributes.get("value", ""))


def read_controls(interface: str) -> tuple[Control, ...]:
    """The fields of a labelling interface; InputError where no class of an image can be chosen."""
    walk = _Interface()
    try:
        walk.parser.Parse(interface, True)
    except XML_ERRORS as problem:
        raise InputError(f"labelling interface: not readable XML ({problem})") from None
    found = []
    for about, there in walk.fields:
        name, to_name = about.get("name", ""), about.get("toName", "").partition(",")[0]
        key = _KEY.fullmatch(walk.images.get(to_name, ""))
        if key is not None and name != ABSENT:
            single = about.get("choice", "single") != "multiple"
            found.append(Control(name, to_name, key[1], frozenset(there), single))
    if not found:
        raise InputError(
            'labelling interface: expected <Image name="image" value="$image"/> and <Choices '
            'name="label" toName="image" choice="multiple"> with the classes as <Choice value=…/>'
        )
    return tuple(found)


def prediction(
    controls: Sequence[Control],
    classes: Sequence[str],
    chances: Scores,
    decided: npt.NDArray[np.bool_],
    version: str,
) -> dict[str, Any]:
    """What a model says of an image.

    The score is the share of the labels that is expected to be right: Label Studio's uncertainty
    sampling asks about the lowest first.
    """
    right, results = [], []
    for control in controls:
        columns = [
            column
            for column, name in enumerate(classes)
            if control.choices is None or name in control.choices
        ]
        certain = np.nan_to_num(chances[columns], nan=0.5)
        right.append(np.where(decided[columns], certain, 1 - certain))
        chosen = [column for column in columns if decided[column]]
        if control.is_single and chosen:
            chosen = [max(chosen, key=lambda column: chances[column])]
        if chosen:
            result = control.result([classes[column] for column in chosen])
            results.append({**result, "score": _short(chances[chosen].min())})
    share = np.concatenate(right)
    score = _short(share.mean()) if len(share) else 0.0
    return {"model_version": version, "score": score, "result": results}


def _short(chance: Any) -> float:
    return round(float(chance), 4)
