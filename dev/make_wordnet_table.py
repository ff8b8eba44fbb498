"""Make src/g2netpl/labels/wordnet.xz: the nouns of WordNet that have an ImageNet class at or below.

Needs Debian's `wordnet-base` (apt-get install wordnet-base) and timm. One line per synset:

    number,steps back to its hypernyms|word:times used in WordNet's texts|word|…

Numbers are WordNet 3.0 offsets, as in ImageNet's "n02084071"; each is stored as the difference to
the line before. After an empty line: irregular plurals, `plural singular`.

    python dev/make_wordnet_table.py
"""

import lzma
from pathlib import Path

from timm.data import ImageNetInfo

WORDNET = Path("/usr/share/wordnet")
TARGET = Path(__file__).parents[1] / "src/g2netpl/labels/wordnet.xz"
SUBSETS = ("imagenet-1k", "imagenet-12k", "imagenet-21k", "imagenet-22k-ms", "imagenet-21k-miil")


def read_synsets() -> dict[str, tuple[list[str], list[str]]]:
    """Words and hypernyms of every noun synset."""
    synsets = {}
    for line in (WORDNET / "data.noun").read_text().splitlines():
        if line.startswith(" "):  # the licence
            continue
        fields = line.split(" | ")[0].split()
        count = int(fields[3], 16)
        words = fields[4 : 4 + 2 * count : 2]
        pointers = fields[5 + 2 * count :]
        hypernyms = [
            pointers[i + 1] for i in range(0, len(pointers), 4) if pointers[i] in ("@", "@i")
        ]
        synsets[fields[0]] = words, hypernyms
    return synsets


def read_counts() -> dict[tuple[str, str], int]:
    """How often each (word, synset) occurs in WordNet's sense-tagged texts."""
    synset_of = {}
    for line in (WORDNET / "index.noun").read_text().splitlines():
        if not line.startswith(" "):
            fields = line.split()
            offsets = fields[-int(fields[2]) :]
            synset_of.update({(fields[0], n): offset for n, offset in enumerate(offsets, start=1)})
    counts = {}
    for line in (WORDNET / "cntlist.rev").read_text().splitlines():
        key, sense, count = line.split()
        word, _, kind = key.partition("%")
        if (
            kind.startswith("1:") and (word, int(sense)) in synset_of
        ):  # nouns, but for odd spellings
            counts[word, synset_of[word, int(sense)]] = int(count)
    return counts


def main() -> None:
    """Write the table."""
    synsets, counts = read_synsets(), read_counts()
    needed: set[str] = set()
    pending = [name[1:] for subset in SUBSETS for name in ImageNetInfo(subset).label_names()]
    while pending:
        number = pending.pop()
        if number not in needed:
            needed.add(number)
            pending += synsets[number][1]
    order = sorted(needed)
    position = {number: line for line, number in enumerate(order)}
    lines, words, before = [], set(), 0
    for line, number in enumerate(order):
        names, hypernyms = synsets[number]
        entry = [str(int(number) - before), *(str(line - position[h]) for h in hypernyms)]
        spelt = []
        for name in dict.fromkeys(word.lower() for word in names):
            used = counts.get((name, number), 0)
            spelt.append(name.replace("_", " ") + (f":{used}" if used else ""))
            words.add(name)
        lines.append("|".join([",".join(entry), *spelt]))
        before = int(number)
    plurals = [line.split()[:2] for line in (WORDNET / "noun.exc").read_text().splitlines()]
    lines += ["", *(" ".join(pair) for pair in plurals if pair[1] in words)]
    text = "\n".join(lines).encode()
    filters = [{"id": lzma.FILTER_LZMA2, "preset": 9 | lzma.PRESET_EXTREME, "lc": 4, "lp": 0}]
    TARGET.write_bytes(lzma.compress(text, filters=filters))
    size = TARGET.stat().st_size
    print(f"{TARGET}: {len(order):,} synsets, {len(words):,} words, {size:,} bytes")


if __name__ == "__main__":
    main()
