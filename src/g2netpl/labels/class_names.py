"""Which ImageNet classes of a pretrained classifier a user's class names mean.

`wordnet.xz` has the nouns of WordNet 3.0 with an ImageNet class at or below (made by
dev/make_wordnet_table.py). A name is matched by the first of these rules that gives any class:

name       its senses that have ImageNet classes at or below; a sense that WordNet's texts use n
           times has the weight (n + 1) / (n of the commonest sense + 1)
synonym    the other senses of its synonyms, if at least half of a synonym's senses are the name's
kind of    a compound name that WordNet knows: the ancestor that its last word names (a wine glass
           is a glass; a teddy bear is no bear)
rare sense senses of weight ≤ 0.2, which the rules above leave out
head noun  a compound name that WordNet does not know: its last words (sports ball: ball)

Case, hyphens, underscores, plurals and missing spaces do not matter. A rare sense leaves an
ImageNet class to the name that commonly means it. If less than a quarter of the names is known,
they are taken for another language, and none is used.
"""

import csv
import io
import lzma
import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from g2netpl.labels.io.issues import Issues, read_text
from g2netpl.labels.io.writing import write_rows
from g2netpl.labels.names import normalize_name
from g2netpl.utils.errors import InputError, did_you_mean

COMMON = 0.2  # a sense above this weight is common
LEAST_KNOWN = 0.25  # fraction of the names
_LISTS = {  # of timm, by their numbers of classes
    1000: "imagenet",
    11221: "imagenet21k_miil",
    11821: "imagenet12k",
    21841: "imagenet22k",
    21842: "imagenet22k_ms",
    21843: "imagenet21k_goog",
}


@dataclass(frozen=True)
class Match:
    """What a class name means: synsets with weights, and the rule that found them."""

    name: str
    senses: Mapping[str, float] = field(default_factory=dict)  # "n02084071": 1.0
    rule: str = "none"


class WordNet:
    """Synsets in the order of their numbers; a synset is its position."""

    def __init__(self, text: str) -> None:
        synsets, _, plurals = text.partition("\n\n")
        self.ids: list[str] = []
        self.parents: list[list[int]] = []
        self.words: list[list[str]] = []
        self.uses: dict[str, dict[int, int]] = {}  # of a word in each of its senses
        number = 0
        for line, entry in enumerate(synsets.split("\n")):
            numbers, *words = entry.split("|")
            step, *up = map(int, numbers.split(","))
            number += step
            self.ids.append(f"n{number:08d}")
            self.parents.append([line - back for back in up])
            self.words.append([word.partition(":")[0] for word in words])
            for word in words:
                spelling, _, count = word.partition(":")
                self.uses.setdefault(spelling, {})[line] = int(count or 0)
        self.position = {name: line for line, name in enumerate(self.ids)}
        self.spelling = {_joined(word): word for word in reversed(self.uses)}
        self.singular = dict(pair.split() for pair in plurals.split("\n"))

    def ancestors(self, line: int) -> list[int]:
        """The synset and all above it, nearest first."""
        found = {line: None}
        for here in (queue := [line]):
            for parent in self.parents[here]:
                if parent not in found:
                    found[parent] = None
                    queue.append(parent)
        return list(found)

    def senses(self, name: str) -> dict[int, float]:
        """Weights of the senses of a name, in the spelling or number that has any."""
        if name in self.position:
            return {self.position[name]: 1.0}
        for spelling in self._spellings(name):
            uses = self.uses.get(spelling) or self.uses.get(
                self.spelling.get(_joined(spelling), "")
            )
            if uses:
                most = max(uses.values())
                return {line: (count + 1) / (most + 1) for line, count in uses.items()}
        return {}

    def _spellings(self, name: str) -> list[str]:
        *before, last = name.split(" ")
        forms = [last]
        if last in self.singular:
            forms.append(self.singular[last])
        for ending, other in (("ies", "y"), ("ves", "f"), ("men", "man"), ("es", ""), ("s", "")):
            if last.endswith(ending) and len(last) > len(ending) + 1 and not last.endswith("ss"):
                forms.append(last.removesuffix(ending) + other)
        forms.append(last + "s")  # trouser, scissor
        return [" ".join([*before, form]) for form in forms]


@cache
def wordnet() -> WordNet:
    """The table of the package."""
    return WordNet(lzma.decompress(Path(__file__).with_name("wordnet.xz").read_bytes()).decode())


def imagenet_synsets(classes: int) -> list[str]:
    """Synsets of an ImageNet classifier with so many classes, in its order; [] if there is none."""
    spec = find_spec("timm")  # whose lists are read without importing it, which takes seconds
    if spec is None or spec.origin is None or classes not in _LISTS:
        return []
    path = Path(spec.origin).parent / "data/_info" / f"{_LISTS[classes]}_synsets.txt"
    return path.read_text().split()


def classifier_size(backbone: str) -> int:
    """How many classes the ImageNet classifier of a pretrained backbone has; 0: none."""
    if backbone in ("lite0", "lite1", "lite2"):
        return 1000
    import timm

    config: Any = timm.get_pretrained_cfg(backbone, allow_unregistered=True)
    return int(config.num_classes) if config is not None else 0


def match_names(
    names: Sequence[str], synsets: Sequence[str], table: str | Path | None = None
) -> list[Match]:
    """What each name means to a classifier of these synsets, by the user's table or by WordNet."""
    if table is not None:
        return read_names(table, names)
    matcher, spelt = _Matcher(synsets), [_parts(name) for name in names]
    known = sum(any(matcher.is_known(part) for part in parts) for parts in spelt)
    if len(names) >= 4 and known < LEAST_KNOWN * len(names):
        return [Match(name) for name in names]
    return [matcher.match_all(name, parts) for name, parts in zip(names, spelt, strict=True)]


class _Matcher:
    """The rules, for one classifier."""

    def __init__(self, synsets: Sequence[str]) -> None:
        self.wordnet = wordnet()
        self.has_class = {  # synsets with a class at or below
            line
            for name in synsets
            if name in self.wordnet.position
            for line in self.wordnet.ancestors(self.wordnet.position[name])
        }

    def is_known(self, name: str) -> bool:
        """Whether WordNet's table has the name or its head noun."""
        return bool(self.wordnet.senses(name) or self.wordnet.senses(name.split(" ")[-1]))

    def match_all(self, name: str, parts: Iterable[str]) -> Match:
        """The senses of all parts of a name."""
        senses: dict[int, float] = {}
        rules = []
        for part in parts:
            rule, more = self.match(part)
            if more:
                rules.append(rule)
            for line, weight in more.items():
                senses[line] = max(weight, senses.get(line, 0.0))
        if not senses:
            return Match(name)
        most, ids = max(senses.values()), self.wordnet.ids
        return Match(name, {ids[line]: w / most for line, w in senses.items()}, rules[0])

    def match(self, name: str) -> tuple[str, dict[int, float]]:
        """The first rule that gives any class, and the senses."""
        *before, last = name.split(" ")
        senses = self.wordnet.senses(name)
        common = {line: weight for line, weight in senses.items() if weight > COMMON}
        if self._with_class(common):
            return "name", self._with_class(senses)
        if senses:
            for rule, found in (
                ("synonym", self._synonyms(senses, common)),
                ("kind of", self._kinds(common, last) if before else {}),
                ("rare sense", senses),
            ):
                if known := self._with_class(found):
                    return rule, known
            return "none", {}
        if " of " in name:
            return "head noun", self.match(name.partition(" of ")[0])[1]
        if before:
            return "head noun", self.match(" ".join([*before[1:], last]))[1]
        return "none", {}

    def _with_class(self, senses: Mapping[int, float]) -> dict[int, float]:
        return {line: weight for line, weight in senses.items() if line in self.has_class}

    def _synonyms(self, senses: Mapping[int, float], common: Iterable[int]) -> dict[int, float]:
        found: dict[int, float] = {}
        for word in sorted({word for line in common for word in self.wordnet.words[line]}):
            others = self.wordnet.senses(word)
            if 2 * sum(line in senses for line in others) >= len(others):
                found |= {line: weight for line, weight in others.items() if weight > COMMON}
        return found

    def _kinds(self, senses: Iterable[int], head: str) -> dict[int, float]:
        heads = self.wordnet.senses(head)
        above = {line for sense in senses for line in self.wordnet.ancestors(sense)}
        return {line: 1.0 for line in above if line in heads}


def class_weights(matches: Sequence[Match], synsets: Sequence[str]) -> npt.NDArray[np.float32]:
    """Weights (L, C) of the classifier's classes for the names; a row of zeros without a match."""
    table = wordnet()
    weights = np.zeros((len(matches), len(synsets)), np.float32)
    above = [
        {table.ids[line] for line in table.ancestors(table.position[name])}
        if name in table.position
        else set()
        for name in synsets
    ]
    columns: dict[str, list[int]] = {}
    for column, names in enumerate(above):
        for name in names:
            columns.setdefault(name, []).append(column)
    for row, match in enumerate(matches):
        for sense, weight in match.senses.items():
            here = columns.get(sense, [])
            weights[row, here] = np.maximum(weights[row, here], weight)
    is_common = weights > COMMON
    weights[~is_common & is_common.any(axis=0)] = 0.0
    return weights


def summary(matches: Sequence[Match], synsets: Sequence[str], most: int = 3) -> str:
    """One line: how many names are known, to how many ImageNet classes, and which are not."""
    counts = (class_weights(matches, synsets) > 0).sum(axis=1).tolist()
    pairs = sorted(zip(counts, (m.name for m in matches), strict=True), key=lambda pair: -pair[0])
    known = [f"{name} → {n} ImageNet class{'es' * (n > 1)}" for n, name in pairs if n]
    missing = [name for n, name in pairs if not n]
    text = f"{len(known)} of {len(pairs)} class names known to the backbone"
    if known:
        text += f": {', '.join(known[:most])}{', …' if len(known) > most else ''}"
    if missing:
        text += f"; not matched: {', '.join(missing[:10])}{', …' if len(missing) > 10 else ''}"
    return text


def write_names(path: str | Path, matches: Sequence[Match]) -> None:
    """A table to correct: one row per class and synset; no synset if the name has no match."""
    table, rows = wordnet(), []
    for match in matches:
        for sense, weight in match.senses.items():
            words = ", ".join(table.words[table.position[sense]])
            rows.append([match.name, sense, words, f"{weight:.3g}", match.rule])
        if not match.senses:
            rows.append([match.name, "", "", "", match.rule])
    write_rows(path, ["class", "synset", "words", "weight", "rule"], rows)


def read_names(path: str | Path, names: Sequence[str]) -> list[Match]:
    """A corrected table; classes that it leaves out have no match. A weight may be empty: 1.

    A synset is a number of WordNet 3.0 (n02084071) or a word, which then counts in all its senses.
    """
    table = wordnet()
    senses: dict[str, dict[str, float]] = {name: {} for name in names}
    try:
        rows = list(csv.DictReader(io.StringIO(read_text(Path(path), Issues()), newline="")))
    except csv.Error as problem:
        raise InputError(f"{path}: cannot be read as CSV ({problem})") from None
    if not rows or not {"class", "synset"} <= {*rows[0]}:
        raise InputError(f"{path}: expected a header with class and synset, and a row per class")
    for line, row in enumerate(rows, 2):
        name, synset = (row["class"] or "").strip(), (row["synset"] or "").strip()
        name = normalize_name(name)
        place = f"{path}, line {line}"
        if name not in senses:
            raise InputError(f"{place}: unknown class {name!r} ({did_you_mean(name, names)})")
        if not synset:
            continue
        found = table.senses(normalize(synset))
        if not found:
            raise InputError(f"{place}: no synset or word {synset!r}; expected e.g. n02084071")
        cell = row.get("weight") or "1"
        weight = float(pd.to_numeric(cell, errors="coerce"))
        if not 0.0 <= weight <= 1.0:
            raise InputError(f"{place}: weight: expected 0 to 1, got {cell!r}")
        senses[name] |= {table.ids[sense]: weight * part for sense, part in found.items()}
    return [Match(name, found, "file" if found else "none") for name, found in senses.items()]


def normalize(name: str) -> str:
    """Lower case without accents; words apart by one space: `TrafficLight_01` → traffic light."""
    plain = unicodedata.normalize("NFKD", name)
    plain = "".join(letter for letter in plain if not unicodedata.combining(letter))
    if re.fullmatch(r"n\d{8}", plain):
        return plain
    plain = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", plain)
    words = re.findall(r"[^\W\d_]+", plain.lower().replace("'", ""))
    return " ".join(words)


def _parts(name: str) -> list[str]:
    """`cat/dog` → cat, dog; `animals|dog` → dog; `mouse (computer)` → computer mouse or mouse."""
    parts = []
    for part in re.split(r"[/,;&]| or | and ", re.split(r"\||::", name)[-1]):
        text, _, hint = part.partition("(")
        plain, hinted = normalize(text), normalize(f"{hint} {text}")
        parts.append(hinted if hint and wordnet().senses(hinted) else plain)
    return [part for part in parts if part]


def _joined(name: str) -> str:
    return re.sub(r"[\W_]", "", name)
