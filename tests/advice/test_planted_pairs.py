"""What is proposed for an aim finds texts that differ as the aim says, as often as promised.

Texts are altered here in ways of the test's own, and an index is made with what is proposed. Ten
corpora and five shingles, and each aim with each, are 200 cases; an ordinary run takes some.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import lshdb
from lshdb import Index

N = 150
CYRILLIC = "".join(map(chr, range(0x430, 0x450)))
HAN = "".join(map(chr, range(0x4E00, 0x4E00 + 1_500)))


def _words(rng: random.Random, letters: str, *, of_letters: int = 9) -> list[str]:
    """A vocabulary with many rare words, and a few that are everywhere."""
    n = 3_000
    words = ["".join(rng.choices(letters, k=rng.randint(2, of_letters))) for _ in range(n)]
    return [word for place, word in enumerate(words) for _ in range(1 + n // (10 * (place + 1)))]


def _prose(letters: str, shortest: int, longest: int, **wish: Any) -> Callable[..., list[str]]:
    def made(rng: random.Random) -> list[str]:
        vocabulary = _words(rng, letters, **wish)
        lengths = [round(math.exp(rng.uniform(math.log(shortest), math.log(longest))))
                   for _ in range(N)]  # fmt: skip
        return [" ".join(rng.choices(vocabulary, k=length)) for length in lengths]

    return made


def _han(rng: random.Random) -> list[str]:
    return ["".join(rng.choices(HAN, k=rng.randint(30, 200))) for _ in range(N)]


def _lists(rng: random.Random) -> list[str]:
    """Lines that begin with the same words."""
    return [
        "\n".join(f"item no {rng.randrange(900)} price {rng.randrange(90)}" for _ in range(20))
        for _ in range(N)
    ]


def _code(rng: random.Random) -> list[str]:
    names = _words(rng, "abcdefgh_", of_letters=12)
    return [
        "\n".join(f"    if {a}({b}): return {c}[{d}]" for a, b, c, d in zip(
            *(rng.choices(names, k=15) for _ in range(4)), strict=True))
        for _ in range(N)
    ]  # fmt: skip


LATIN = "abcdefghijklmnoprstuvwz"
CORPORA: dict[str, Callable[[random.Random], list[str]]] = {
    "prose": _prose(LATIN, 40, 200),
    "short": _prose(LATIN, 8, 16),
    "long": _prose(LATIN, 800, 1_500),
    "every length": _prose(LATIN, 8, 600),
    "long words": _prose(LATIN + "äöüß", 30, 200, of_letters=25),
    "cyrillic": _prose(CYRILLIC, 20, 120),
    "few letters": _prose("ab", 40, 160),
    "han": _han,
    "lists": _lists,
    "code": _code,
}
SHINGLES: list[dict[str, Any]] = [
    {}, {"k": 3}, {"unit": "char", "k": 5}, {"unit": "char", "k": 9}, {"k": 4, "bag": True},
]  # fmt: skip


def _altered(rng: random.Random, text: str, aim: str, others: list[str]) -> str:
    """Return the text with a share of its words exchanged, or its second half."""
    is_han = text[0] in HAN
    words, glue = (list(text), "") if is_han else (text.split(" "), " ")
    share = lshdb.aims()[aim].differing
    if aim == "boilerplate":
        half, rest = len(words) // 2, ""
        while len(rest.split(glue or None) if glue else rest) < len(words) - half:
            rest += (glue if rest else "") + rng.choice(others)
        following = list(rest) if is_han else rest.split(glue)
        return glue.join([*words[:half], *following[: len(words) - half]])
    if aim == "exact-copies":
        n = sum(rng.random() < share for _ in words)
    else:
        n = max(1, round(share * len(words)))
    for place in rng.sample(range(len(words)), n):
        words[place] = rng.choice(HAN) if is_han else f"q{rng.randrange(10**5)}x"
    return glue.join(words)


@pytest.mark.parametrize("corpus", CORPORA)
@pytest.mark.long(when=lambda corpus: corpus in ("long", "every length", "long words", "lists"))
def test_texts_that_differ_as_an_aim_says_are_found(
    tmp_path: Path, is_long: bool, corpus: str
) -> None:
    rng = random.Random(f"{corpus} 1")
    texts = CORPORA[corpus](rng)
    places = range(len(SHINGLES)) if is_long else [[*CORPORA].index(corpus) % 5]
    n_found = n_asked = 0
    for place in places:
        options = SHINGLES[place]
        documents = [(f"d{number}", text) for number, text in enumerate(texts)]
        for choice in lshdb.advise(documents, **options).choices:
            if "too short to tell" in choice.reason:
                continue
            planted = [
                (f"p{number}", _altered(rng, text, choice.aim, texts))
                for number, text in enumerate(texts)
            ]
            made = options | {"k": choice.k, "threshold": choice.threshold}
            with Index.create(tmp_path / f"{place}-{choice.aim}", **made) as index:
                index.add([*documents, *planted])
                pairs = {(pair.key1, pair.key2) for pair in index.pairs()}
            found = sum(bool({(f"d{n}", f"p{n}"), (f"p{n}", f"d{n}")} & pairs) for n in range(N))
            # Six standard deviations of as many pairs, found with the promised probability.
            least = 0.99 * N - 6.0 * math.sqrt(0.99 * 0.01 * N)
            assert found >= least, (options, choice.aim, choice.threshold, choice.reason)
            n_found, n_asked = n_found + found, n_asked + N
    assert n_asked >= 2 * N * len(places)
    assert n_found >= 0.985 * n_asked
