"""What is odd about the classes of a table, though nothing in it is wrong: each in one line.

Classes may be one, written in several ways: `Cow` and `cow`.
"""

import re
from collections import defaultdict
from typing import NamedTuple

from g2netpl.labels.names import normalize_name
from g2netpl.labels.table import NEGATIVE, POSITIVE, LabelTable, per_class, per_image
from g2netpl.utils.errors import counted, listed

_NO_CLASS = (  # words for nothing
    *("none", "nothing", "null", "nil", "nan", "na", "n/a", "n.a.", "-", "--", "–", "—", "?"),
    *("keine", "keins", "nichts", "aucun", "aucune", "rien", "nada", "ninguno", "nessuno"),
)
_NAMED = 3  # in a note
_ENOUGH = 20  # labelled images of one positive, so that it is no coincidence
_HINT = "if they are one class, join them by --set aliases=FILE with the line"


class SimilarNames(NamedTuple):
    """Names that may be one class, in words, and the first line to make them one."""

    names: str
    alias: str

    def __str__(self) -> str:
        return f"{self.names}: {_HINT} {self.alias!r}"


def similar_class_names(table: LabelTable) -> list[SimilarNames]:
    """Names that only differ in case, spaces, - and _."""
    count = dict(zip(table.classes, per_class(table.values, POSITIVE).tolist(), strict=True))
    spelt: dict[str, list[str]] = defaultdict(list)
    for name in table.classes:
        spelt[re.sub("[ _-]", "", normalize_name(name).casefold())].append(name)
    found = []
    for names in spelt.values():
        if len(names) > 1:
            kept = max(names, key=count.__getitem__)
            other = next(name for name in names if name != kept)
            found.append(SimilarNames(" and ".join(map(repr, names)), f"{other} = {kept}"))
    return found


def similar_names_note(table: LabelTable) -> list[str]:
    """The similar names in one line."""
    found = similar_class_names(table)
    shown = listed((similar.names for similar in found), _NAMED)
    return [f"similar classes: {shown}; {_HINT} {found[0].alias!r}"] if found else []


def label_warnings(table: LabelTable, single_label: bool = False) -> list[str]:
    """All warnings that `train` reports; `single_label` if every image has one class."""
    return [*similar_names_note(table), *class_notes(table, single_label)]


def class_notes(table: LabelTable, single_label: bool = False) -> list[str]:
    """What is odd about the numbers of labels and the meaning of classes."""
    positives, negatives = (per_class(table.values, sign) for sign in (POSITIVE, NEGATIVE))
    counts, notes = dict(zip(table.classes, positives.tolist(), strict=True)), []
    if not single_label and looks_single_label(table):
        notes.append(
            "every labelled image has exactly one positive; if each shows only one class, use "
            "--single-label: all other classes then count as absent"
        )
    for name, count in counts.items():
        if name.strip().lower() in _NO_CLASS and count and not single_label:
            notes.append(
                f"{name!r} is read as a class, on {counted(count, 'image')}; if it means that no "
                "class is there, leave it out; if tags are complete, use --set absent=negative"
            )
    if len(counts) == 1 and positives.any() and not negatives.any():
        notes.append(
            f"one class and no negatives: nothing distinguishes {table.classes[0]!r} from the "
            "rest; give some images 0 (among tags: in a column 'absent')"
        )
    rare = [repr(name) for name, count in counts.items() if count == 1]
    if rare:
        notes.append(f"only one labelled image (too few to learn): {listed(rare)}")
    return notes


def looks_single_label(table: LabelTable) -> bool:
    """Whether every labelled image has exactly one positive, and that is no coincidence."""
    positives = per_image(table.values, POSITIVE)
    labelled = int((positives > 0).sum())
    if labelled < _ENOUGH or positives.max() > 1 or labelled < table.labelled.sum():
        return False
    return bool((per_class(table.values, POSITIVE) > 0).sum() > 1)
