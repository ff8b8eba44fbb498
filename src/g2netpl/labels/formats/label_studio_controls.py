"""Where classes are chosen in Label Studio's labelling interface, and what a model proposes there.

<Image name="photo" value="$picture"/>
<Choices name="tags" toName="photo" choice="multiple"> <Choice value="cat"/> … </Choices>
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from xml.parsers import expat

import numpy as np
import numpy.typing as npt

from g2netpl.base.arrays import Scores
from g2netpl.base.errors import InputError
from g2netpl.labels.formats.label_studio_tasks import ABSENT

_MOST_LEVELS = 64
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


def read_controls(interface: str) -> tuple[Control, ...]:
    """The fields of a labelling interface; InputError where no class of an image can be chosen."""
    images: dict[str, str] = {}
    fields: list[dict[str, str]] = []
    choices: list[set[str]] = []
    place: list[str] = []
    parser = expat.ParserCreate()

    def refuse(*_: object) -> None:
        raise ValueError("a DOCTYPE is refused")

    def begin(tag: str, about: dict[str, str]) -> None:
        place.append(tag)
        if len(place) > _MOST_LEVELS:
            raise ValueError("nested too deeply")
        if tag == "Image":
            images[about.get("name", "")] = about.get("value", "")
        elif tag == "Choices":
            fields.append(about)
            choices.append(set())
        elif tag == "Choice" and "Choices" in place:
            choices[-1].add(about.get("alias") or about.get("value", ""))

    parser.StartDoctypeDeclHandler = refuse
    parser.StartElementHandler = begin
    parser.EndElementHandler = lambda tag: place.pop()
    try:
        parser.Parse(interface, True)
    except (expat.ExpatError, ValueError) as problem:
        raise InputError(f"labelling interface: not readable XML ({problem})") from None
    found = []
    for about, there in zip(fields, choices, strict=True):
        name, to_name = about.get("name", ""), about.get("toName", "").partition(",")[0]
        key = _KEY.fullmatch(images.get(to_name, ""))
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
