"""A corpus that anyone can make again: seeded, with near-duplicates, in ASCII or not.

Words follow a Zipf law, lengths are log-normal (20 to 2,000 words, half below 150), and documents
come in families of one to five: each further member has some of the words replaced. The other
variant is the same texts letter by letter in accented Latin, Cyrillic or Greek, one script a
family, so that the two differ in nothing but the letters (and, for that, in bytes).
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

__all__ = ["generate"]

_LETTERS = "abcdefghijklmnopqrstuvwxyz"
_SCRIPTS = [
    "àbçđéfğhíjķłmñóþqřšţúvŵxýž",
    "абцдефгхийклмнопярстувшжыз",
    "αβψδεφγηιξκλμνοπχρστυωέζύθ",
]
_WORDS = 20_000
_SENTENCE = 12


def generate(documents: int, *, ascii_only: bool, seed: int = 1) -> Iterator[str]:
    """Texts, always the same for the same arguments."""
    rng = np.random.default_rng(seed)
    words = _vocabulary(rng)
    scripts = [_forms(words)]
    if not ascii_only:
        tables = [str.maketrans(_LETTERS, letters) for letters in _SCRIPTS]
        scripts = [_forms([word.translate(table) for word in words]) for table in tables]
    weights = np.cumsum(1.0 / np.arange(1, _WORDS + 1))

    def draw(count: int) -> np.ndarray:
        return np.searchsorted(weights, rng.random(count) * weights[-1])

    made = family = 0
    while made < documents:
        length = int(np.clip(rng.lognormal(5.0, 0.8), 20, 2000))
        base = draw(length)
        for member in range(min(int(rng.integers(1, 6)), documents - made)):
            numbers = base.copy()
            if member:
                replaced = rng.random(length) < rng.uniform(0.0, 0.15)
                numbers[replaced] = draw(int(replaced.sum()))
            yield _text(numbers, scripts[family % len(scripts)], rng)
            made += 1
        family += 1


def _vocabulary(rng: np.random.Generator) -> list[str]:
    """Distinct words; the more frequent they are to be, the shorter."""
    words: dict[str, None] = {}
    for numbers in rng.integers(0, len(_LETTERS), (2 * _WORDS, 12)).tolist():
        length = 2 + numbers[0] % 3 + int(len(words) ** 0.5 / 20)
        words["".join(_LETTERS[number] for number in numbers[-length:])] = None
    return list(words)[:_WORDS]


def _forms(words: list[str]) -> list[str]:
    """Each word inside, at the end and at the beginning of a sentence."""
    ends = [word + "." for word in words]
    return [*words, *ends, *(word.capitalize() for word in words)]


def _text(numbers: np.ndarray, forms: list[str], rng: np.random.Generator) -> str:
    ends = rng.random(len(numbers)) < 1 / _SENTENCE
    form = ends.astype(np.int64)
    form[1:][ends[:-1] & ~ends[1:]] = 2
    return " ".join([forms[number] for number in (numbers + _WORDS * form).tolist()])
