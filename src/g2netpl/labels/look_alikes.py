"""Classes that may be one, written in several ways: `Cow` and `cow`, or a typo in a few tags."""

from collections import defaultdict
from collections.abc import Iterator
from typing import NamedTuple

from g2netpl.base.errors import counted
from g2netpl.labels.spelling import composed
from g2netpl.labels.table import POSITIVE, LabelTable, per_class

_RARE = 3  # positives of a name that may be a typo
_SHORT = 4  # letters; of shorter names very many are one letter apart
_LONG = 60  # letters; nobody mistypes only one of more
_SHARED = 20  # frequent words that are looked at because they share a form
_NAMED = 3  # in a note
_SUSPICION = "one class written in several ways? --aliases FILE makes it one, with a line"


class Alike(NamedTuple):
    """Names that may be one class, in words, and the first line to make them one."""

    names: str
    alias: str

    def __str__(self) -> str:
        return f"{self.names}: {_SUSPICION} {self.alias!r}"


def look_alikes(table: LabelTable) -> list[Alike]:
    """Pairs and groups of names: first those that are spelt alike, then likely typos.

    A likely typo is one letter apart from a name with at least ten times as many positives, and
    has three itself at most; two names that are both frequent are two classes.
    """
    of = dict(zip(table.classes, per_class(table.values, POSITIVE).tolist(), strict=True))
    spelt: dict[str, list[str]] = defaultdict(list)
    for name in table.classes:
        spelt[_letters(name)].append(name)
    count = {word: sum(of[name] for name in names) for word, names in spelt.items()}
    usual = {word: max(names, key=lambda name: of[name]) for word, names in spelt.items()}
    typos = dict(_typos(count))
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


def one_edit_apart(one: str, other: str) -> bool:
    """Whether a letter was left out, added or changed, or two neighbours changed places."""
    short, long = sorted((one, other), key=len)
    if len(long) - len(short) > 1 or short == long:
        return False
    at = next((i for i, (a, b) in enumerate(zip(short, long, strict=False)) if a != b), len(short))
    if len(short) < len(long):
        return short[at:] == long[at + 1 :]
    swapped = short[at : at + 2] == long[at : at + 2][::-1] and short[at + 2 :] == long[at + 2 :]
    return swapped or short[at + 1 :] == long[at + 1 :]


def _letters(name: str) -> str:
    """The name without what people write now this way, now that."""
    return "".join(letter for letter in composed(name).casefold() if letter not in " -_")


def _typos(count: dict[str, int]) -> Iterator[tuple[str, str]]:
    """Rare words, each with the most frequent one that it may be a typo of.

    Words that are one edit apart share a form with at most one letter left out, which finds them
    among many thousands without comparing each with each.
    """
    usual: dict[str, list[str]] = defaultdict(list)
    for word in sorted(count, key=lambda word: -count[word]):
        if count[word] >= 10:
            for form in _forms(word):
                if len(usual[form]) < _SHARED:
                    usual[form].append(word)
    for rare, positives in count.items():
        if not 1 <= positives <= _RARE:
            continue
        near = {
            word
            for form in _forms(rare)
            for word in usual[form]
            if positives * 10 <= count[word] and _may_be_typo(rare, word)
        }
        if near:
            yield rare, max(near, key=lambda word: (count[word], word))


def _forms(word: str) -> set[str]:
    if len(word) > _LONG:
        return set()
    return {word, *(word[:at] + word[at + 1 :] for at in range(len(word)))}


def _may_be_typo(rare: str, usual: str) -> bool:
    """`class 1` and `class 2` are no typos of each other, nor are `cat` and `car`."""
    digits, others = ([letter for letter in word if letter.isdigit()] for word in (rare, usual))
    long_enough = max(len(rare), len(usual)) >= _SHORT
    return long_enough and digits == others and one_edit_apart(rare, usual)
