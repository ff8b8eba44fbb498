"""Classes that may be one, written in several ways: `Cow` and `cow`, or a typo in a few tags."""

from collections import defaultdict
from difflib import get_close_matches
from typing import NamedTuple

from g2netpl.base.errors import counted
from g2netpl.labels.spelling import composed
from g2netpl.labels.table import POSITIVE, LabelTable, per_class

_RARE, _TIMES = 3, 10  # positives of a name that may be a typo; so many times as often is the right
_SIMILAR = 0.85  # one letter more or fewer in 4, or another one in 7
_NAMED = 3  # in a note
_SUSPICION = "one class written in several ways? --aliases FILE makes it one, with a line"


class Alike(NamedTuple):
    """Names that may be one class, in words, and the first line to make them one."""

    names: str
    alias: str

    def __str__(self) -> str:
        return f"{self.names}: {_SUSPICION} {self.alias!r}"


def look_alikes(table: LabelTable) -> list[Alike]:
    """Pairs and groups of names: first those that are spelt alike, then likely typos."""
    of = dict(zip(table.classes, per_class(table.values, POSITIVE).tolist(), strict=True))
    spelt: dict[str, list[str]] = defaultdict(list)
    for name in table.classes:
        spelt[_letters(name)].append(name)
    count = {word: sum(of[name] for name in names) for word, names in spelt.items()}
    usual = {word: max(names, key=lambda name: of[name]) for word, names in spelt.items()}
    typos = _typos(count)
    groups = []
    for word, names in spelt.items():
        if len(names) > 1:
            kept = usual[typos.get(word, word)]
            other = next(name for name in names if name != kept)
            groups.append(Alike(" and ".join(map(repr, names)), f"{other} = {kept}"))
    for pair in typos.items():
        rare, kept = (usual[word] for word in pair)
        both = " and ".join(f"{name!r} ({counted(of[name], 'image')})" for name in (rare, kept))
        groups.append(Alike(both, f"{rare} = {kept}"))
    return groups


def look_alikes_note(table: LabelTable) -> list[str]:
    """The first of them in one line, for those who never check their labels."""
    found = look_alikes(table)
    if not found:
        return []
    more = f", and {len(found) - _NAMED} more" if len(found) > _NAMED else ""
    shown = "; ".join(each.names for each in found[:_NAMED])
    return [f"look alike: {shown}{more}; {_SUSPICION} {found[0].alias!r}"]


def _letters(name: str) -> str:
    """The name without what people write now this way, now that."""
    return "".join(letter for letter in composed(name).casefold() if letter not in " -_")


def _typos(count: dict[str, int]) -> dict[str, str]:
    """Rare words, each with the frequent one of the same first letter that it is most like.

    Words with other digits in them, as `class 1` and `class 2`, are no typos of each other.
    """
    frequent: dict[str, list[str]] = defaultdict(list)
    for word, positives in count.items():
        if positives >= _TIMES:
            frequent[_form(word)].append(word)
    found: dict[str, str] = {}
    for rare, positives in count.items():
        if 1 <= positives <= _RARE:
            often = [word for word in frequent[_form(rare)] if count[word] >= _TIMES * positives]
            for word in get_close_matches(rare, often, 1, _SIMILAR):
                found[rare] = word
    return found


def _form(word: str) -> str:
    """The first letter, and all digits."""
    return word[:1] + "".join(filter(str.isdigit, word))
