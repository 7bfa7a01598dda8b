"""Make a corpus of short documents in which the near-duplicates are known.

    python make_corpus.py CORPUS.jsonl PAIRS.tsv [--documents 5000000] [--words 25] [--scanned]

Needs Python's standard library and nothing else; the same arguments give the same files. Documents
go to the first file, one JSON object a line, pairs to the second: key, key, exact Jaccard
similarity of the sets of five-word shingles (of the lower-cased words), for every pair of a family
at ``--floor`` or above.

Words are ASCII, 40,000 of them, and follow a Zipf law; a document has half to twice as many as
``--words`` says, at least 12. Two documents that have nothing to do with each other share no five
words in a row, but for a few. Three in ten documents belong to a family of two to five: a document
and copies of it with words at both ends, and now and then one inside, replaced, so many that
similarities from 0.5 to 1 are about equally frequent. Members of a family are up to some 100,000
documents apart, in which case memory is that of so many documents.

With ``--scanned``, texts look as if a scanner had read them: lines of some 70 characters with
several kinds of ends, ligatures, curly quotes, signs between words that nobody typed, and soft
hyphens. All of it falls away between words, or is another way to write a letter, so the
similarities are the same.
"""

from __future__ import annotations

import argparse
import itertools
import json
import random
from collections.abc import Callable, Iterator
from pathlib import Path

SHINGLE = 5
APART = 100_000
_WORDS = 40_000
_LETTERS = "abcdefghijklmnopqrstuvwxyz"
_FAMILIES = 0.11
_SHORTEST = 12

Document = tuple[str, str]
Pair = tuple[str, str, float]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("corpus", type=Path)
    parser.add_argument("pairs", type=Path)
    parser.add_argument("--documents", type=int, default=5_000_000)
    parser.add_argument("--words", type=int, default=25, help="words a document, about")
    parser.add_argument("--floor", type=float, default=0.5, help="lowest similarity that is noted")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--scanned", action="store_true", help="texts as a scanner reads them")
    options = parser.parse_args()
    write(options.corpus, options.pairs, options.documents, options.words, options.floor,
          options.seed, scanned=options.scanned)  # fmt: skip


def write(
    corpus: Path,
    pairs: Path,
    documents: int,
    words: int = 25,
    floor: float = 0.5,
    seed: int = 1,
    *,
    scanned: bool = False,
) -> None:
    """Make both files."""
    noise = random.Random(seed + 2)
    with corpus.open("w", encoding="utf-8") as lines, pairs.open("w", encoding="ascii") as planted:
        made = mixed(families(documents, words, random.Random(seed)), floor, seed)
        for (key, text), near in made:
            if scanned:
                text = json.dumps(as_scanned(text, noise), ensure_ascii=False)[1:-1]
            lines.write(f'{{"id": "{key}", "text": "{text}"}}\n')
            planted.writelines(f"{a}\t{b}\t{similarity:.6f}\n" for a, b, similarity in near)


def families(documents: int, words: int, rng: random.Random) -> Iterator[list[list[str]]]:
    """Lists of words, those that belong together in one list; so many documents in all."""
    vocabulary = _vocabulary(rng)
    weights = list(itertools.accumulate(1 / rank for rank in range(1, _WORDS + 1)))

    def draw(count: int) -> list[str]:
        return rng.choices(vocabulary, cum_weights=weights, k=count)

    made = 0
    while made < documents:
        length = max(_SHORTEST, int(words * 2 ** rng.uniform(-1, 1)))
        family = [draw(length)]
        if rng.random() < _FAMILIES:
            size = min(rng.randint(2, 5), documents - made)
            family += [_edited(family[0], draw, rng) for _ in range(size - 1)]
        made += len(family)
        yield family


def _edited(words: list[str], draw: Callable[[int], list[str]], rng: random.Random) -> list[str]:
    """A copy as similar as a number drawn from 0.5 to 1 says, as near as its length allows."""
    wanted = rng.uniform(0.5, 1.0)
    shingles = len(words) - SHINGLE + 1
    lost = round(shingles * (1 - wanted) / (1 + wanted))
    copy = list(words)
    if lost >= SHINGLE and rng.random() < 0.5:  # a word inside is in five shingles
        copy[rng.randrange(SHINGLE, len(words) - SHINGLE)] = draw(1)[0]
        lost -= SHINGLE
    head = rng.randint(0, lost)
    copy[:head] = draw(head)
    copy[len(copy) - (lost - head) :] = draw(lost - head)
    return copy


_LIGATURES = {"ffi": "\ufb03", "ffl": "\ufb04", "ff": "\ufb00", "fi": "\ufb01", "fl": "\ufb02"}
_ENDS = ("\n", "\n", "\n", "\r\n", "\u00ad\n", " -\n", "\n\x0c")
_SIGNS = ("", "", "", "", "", "\u2019", "\u201d", "\ue000", "\ufffd", "\u00ac", "\u2022", "\u00a7")
_LINE = 70


def as_scanned(text: str, rng: random.Random) -> str:
    """The same words, as a scanner reads them; two in five texts stay ASCII but for their lines."""
    is_plain = rng.random() < 0.4
    lines = []
    while len(text) > _LINE and (at := text.find(" ", _LINE)) > 0:
        lines.append(text[:at] + ("\n" if is_plain else rng.choice(_SIGNS) + rng.choice(_ENDS)))
        text = text[at + 1 :]
    whole = "".join([*lines, text])
    if not is_plain:
        for letters, sign in _LIGATURES.items():
            whole = whole.replace(letters, sign)
    return whole


def _vocabulary(rng: random.Random) -> list[str]:
    """Distinct words; the more frequent they are to be, the shorter."""
    words: dict[str, None] = {}
    while len(words) < _WORDS:
        length = 2 + rng.randint(0, 2) + int(len(words) ** 0.5 / 30)
        words["".join(rng.choices(_LETTERS, k=length))] = None
    return list(words)


def mixed(
    families: Iterator[list[list[str]]], floor: float, seed: int
) -> Iterator[tuple[Document, list[Pair]]]:
    """Documents in another order, each with the pairs that became known with its family.

    A document waits among ``APART`` others until a draw takes it. Its key is the number of its
    making and says nothing about its place.
    """
    rng = random.Random(seed + 1)
    waiting: list[Document] = []
    number = 0
    near: list[Pair] = []
    for family in families:
        keys = [f"d{number + place}" for place in range(len(family))]
        number += len(family)
        near += similar(keys, family, floor)
        for key, words in zip(keys, family, strict=True):
            document = key, " ".join(words).capitalize() + "."
            if len(waiting) < APART:
                waiting.append(document)
            else:
                place = int(rng.random() * APART)
                yield waiting[place], near
                near = []
                waiting[place] = document
    rng.shuffle(waiting)
    for document in waiting:
        yield document, near
        near = []


def similar(keys: list[str], texts: list[list[str]], floor: float) -> list[Pair]:
    """Pairs at or above the floor, with their exact similarities."""
    if len(keys) < 2:
        return []
    sets = [set(zip(*(words[i:] for i in range(SHINGLE)), strict=False)) for words in texts]
    found = []
    for one, other in itertools.combinations(range(len(keys)), 2):
        common = len(sets[one] & sets[other])
        similarity = common / (len(sets[one]) + len(sets[other]) - common)
        if similarity >= floor:
            found.append((keys[one], keys[other], similarity))
    return found


if __name__ == "__main__":
    main()
