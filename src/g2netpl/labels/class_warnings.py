"""What is odd about the classes of a table, though nothing in it is wrong: each in one line.

Classes may be one, written in several ways: `Cow` and `cow`, or a typo in a few tags.
"""

import re
from collections import defaultdict
from difflib import get_close_matches
from typing import NamedTuple

from g2netpl.labels.names import normalize_name
from g2netpl.labels.table import NEGATIVE, POSITIVE, LabelTable, per_class, per_image
from g2netpl.utils.errors import counted, listed

_NO_CLASS = (  # words for nothing
    *("none", "nothing", "null", "nil", "nan", "na", "n/a", "n.a.", "-", "--", "–", "—", "?"),
    *("keine", "keins", "nichts", "aucun", "aucune", "rien", "nada", "ninguno", "nessuno"),
)
_RARE, _TIMES = 3, 10  # positives of a likely typo; how much more frequent the right name is
_SIMILAR = 0.85  # of difflib: one letter more or fewer in 4, or another one in 7
_NAMED = 3  # in a note
_ENOUGH = 20  # labelled images of one positive, so that it is no coincidence
_HINT = "one class written in several ways? --aliases FILE makes it one, with a line"


class SimilarNames(NamedTuple):
    """Names that may be one class, in words, and the first line to make them one."""

    names: str
    alias: str

    def __str__(self) -> str:
        return f"{self.names}: {_HINT} {self.alias!r}"


def similar_class_names(table: LabelTable) -> list[SimilarNames]:
    """Names that only differ in case, spaces, - and _, and rare names that are likely typos."""
    count = dict(zip(table.classes, per_class(table.values, POSITIVE).tolist(), strict=True))
    spelt: dict[str, list[str]] = defaultdict(list)
    for name in table.classes:
        letters = normalize_name(name).casefold().translate(dict.fromkeys(map(ord, " -_")))
        spelt[letters].append(name)
    total = {word: sum(count[name] for name in names) for word, names in spelt.items()}
    usual = {word: max(names, key=count.__getitem__) for word, names in spelt.items()}
    typos: dict[str, str] = {}  # a frequent word for rare ones of the same first letter and digits
    frequent = [word for word, positives in total.items() if positives >= _TIMES]
    for rare, positives in total.items():
        if 1 <= positives <= _RARE:
            form = rare[:1], re.sub(r"\D", "", rare)
            often = [
                word
                for word in frequent
                if total[word] >= _TIMES * positives and form == (word[:1], re.sub(r"\D", "", word))
            ]
            for word in get_close_matches(rare, often, 1, _SIMILAR):
                typos[rare] = word
    found = []
    for word, names in spelt.items():
        if len(names) > 1:
            kept = usual[typos.get(word, word)]
            other = next(name for name in names if name != kept)
            found.append(SimilarNames(" and ".join(map(repr, names)), f"{other} = {kept}"))
    for pair in typos.items():
        rare, kept = (usual[word] for word in pair)
        both = " and ".join(f"{name!r} ({counted(count[name], 'image')})" for name in (rare, kept))
        found.append(SimilarNames(both, f"{rare} = {kept}"))
    return found


def similar_names_note(table: LabelTable) -> list[str]:
    """The first of them in one line."""
    found = similar_class_names(table)
    if not found:
        return []
    more = f", and {len(found) - _NAMED} more" if len(found) > _NAMED else ""
    shown = "; ".join(similar.names for similar in found[:_NAMED])
    return [f"similar classes: {shown}{more}; {_HINT} {found[0].alias!r}"]


def label_warnings(table: LabelTable, single_label: bool = False) -> list[str]:
    """All warnings that `train` reports; `single_label` if every image has one class."""
    more = [] if single_label else [*named_nothing(table), *single_label_note(table)]
    return [*similar_names_note(table), *more, *no_opposite(table)]


def single_label_note(table: LabelTable) -> list[str]:
    """A note if every labelled image has exactly one positive, and that is no coincidence."""
    positives = per_image(table.values, POSITIVE)
    labelled = int((positives > 0).sum())
    if labelled < _ENOUGH or positives.max() > 1 or labelled < table.labelled.sum():
        return []
    if (per_class(table.values, POSITIVE) > 0).sum() < 2:
        return []
    return [
        "every labelled image has exactly one positive; if each shows one class, as a photo of one "
        "species does, say --single-label: then all other classes are known to be absent"
    ]


def named_nothing(table: LabelTable) -> list[str]:
    """A note on a class whose name says that nothing is there."""
    counts = per_class(table.values, POSITIVE).tolist()
    return [
        f"{name!r} is a class as any other, on {counted(count, 'image')}; if it says that nothing "
        "is there, leave it out, and if tags are complete give --absent negative"
        for name, count in zip(table.classes, counts, strict=True)
        if name.strip().lower() in _NO_CLASS and count
    ]


def no_opposite(table: LabelTable) -> list[str]:
    """A note on a single class without any negative."""
    positive, negative = (per_class(table.values, sign).any() for sign in (POSITIVE, NEGATIVE))
    if len(table.classes) > 1 or negative or not positive:
        return []
    return [
        f"one class and no negatives: nothing tells {table.classes[0]!r} from the rest; give some "
        "images 0 (among tags: in a column 'absent')"
    ]


def on_one_image(table: LabelTable) -> list[str]:
    """A note on classes with a single positive."""
    counts = per_class(table.values, POSITIVE).tolist()
    rare = [repr(name) for name, count in zip(table.classes, counts, strict=True) if count == 1]
    return [f"only one labelled image (too few to learn): {listed(rare)}"] if rare else []
