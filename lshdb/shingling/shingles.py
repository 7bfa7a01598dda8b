r"""A document's body -> its canonical content -> the hashes of its shingles.

A body is a text, a list (or tuple) of tokens, or a set of them. A text is normalised. Tokens are
used unchanged, whatever the unit of the index. (Two units differ: the canonical content of a list
of URLs is their shingles, and that of a text for a tokenizer is its tokens.) Two bodies with the
same canonical content have the same shingles, so the index keeps one signature for both.

A k-shingle is k consecutive tokens joined by one blank (lines: by a line feed), or k consecutive
characters, or bytes. Its hash is the low 64 bits of MurmurHash3 x64-128, seed 0, of its UTF-8
bytes, so that ``mmh3`` alone reproduces it: ``mmh3.hash64("to be or not to", signed=False)[0]``.
A document with fewer than k tokens (characters) is one shingle of them all; an empty one has no
shingle.

A document is the *set* of its shingles, or optionally the *bag*: then the i-th repetition of a
shingle (i = 0 for the first) is an element of its own, hashed with seed i instead of 0. The Jaccard
similarity of two such sets of (shingle, i) is the sum of the smaller counts over the sum of the
larger ones.

Stop words of a text, if an index has any, are taken out before it is shingled: its canonical
content is then the other words, joined by single blanks.

A set of tokens has no order, so k of them cannot follow each other: each token is a shingle,
whatever k is. Weighted tokens are shingles in the same way.

A word is a maximal run of characters that Python's ``\w`` matches. In scripts that are written
without spaces (Han, kana, Thai, Lao, Khmer, Burmese) such a run would be a whole sentence, so there
each letter, digit or mark is a word of its own.

Decided: those characters are fixed ranges and do not come from ``unicodedata``, so that a
signature does not depend on the interpreter's Unicode version. The ranges hold the letters, marks
and digits of the blocks, but not their punctuation. Marks count although ``\w`` leaves them out,
because a Thai or Burmese vowel sign distinguishes words.
"""

from __future__ import annotations

import functools
import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING

import mmh3

from lshdb.arrays import distinct, np
from lshdb.cancel import stop_if_told
from lshdb.errors import ParameterError
from lshdb.shingling.normalise import NORMALISATION, normalise
from lshdb.shingling.url_shingles import URL_UNITS, url_content

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from lshdb.params.index_params import IndexParams

__all__ = [
    "SPACELESS_RANGES",
    "UNITS",
    "Content",
    "Shingler",
    "Unit",
    "byte_shingles",
    "canonical_content",
    "char_shingles",
    "hash_shingles",
    "shingle_counts",
    "shingle_hashes",
    "shingle_texts",
    "split_words",
    "stop_word_list",
    "word_shingles",
    "word_spans",
]

_LINES = "nfkc-casefold-lines"


@dataclass(frozen=True, slots=True)
class Unit:
    """Defaults of a unit.

    Attributes
    ----------
    k : int
        Units per shingle.
    normalisation : str
        Applied to a text first; bytes and tokens, which are meant for machines, stay unchanged.
    """

    k: int
    normalisation: str


UNITS = {
    "word": Unit(5, NORMALISATION),
    "char": Unit(9, NORMALISATION),
    "byte": Unit(9, "none"),
    "line": Unit(3, _LINES),
    "token": Unit(5, "space"),
    "url": Unit(2, _LINES),
    "url-host": Unit(2, _LINES),
    "tokenizer": Unit(5, "none"),
}
"""Every unit by name."""


SPACELESS_RANGES: tuple[tuple[int, int], ...] = (
    (0x0E01, 0x0E3A), (0x0E40, 0x0E4E), (0x0E50, 0x0E59),  # Thai
    (0x0E81, 0x0EBD), (0x0EC0, 0x0ECE), (0x0ED0, 0x0ED9), (0x0EDC, 0x0EDF),  # Lao
    (0x1000, 0x1049), (0x1050, 0x109D),  # Burmese
    (0x1780, 0x17B3), (0x17B6, 0x17D3), (0x17D7, 0x17D7), (0x17DC, 0x17DD),  # Khmer
    (0x17E0, 0x17E9), (0x17F0, 0x17F9),
    (0x2E80, 0x2FD5),  # Han radicals
    (0x3005, 0x3007), (0x3021, 0x302D), (0x3031, 0x3035), (0x3038, 0x303C),  # Han marks, numerals
    (0x3041, 0x3096), (0x3099, 0x309A), (0x309D, 0x309F),  # Hiragana
    (0x30A1, 0x30FA), (0x30FC, 0x30FF), (0x31F0, 0x31FF),  # Katakana
    (0x3400, 0x4DBF), (0x4E00, 0x9FFF), (0xF900, 0xFAFF),  # Han
    (0xA9E0, 0xA9FE), (0xAA60, 0xAA76), (0xAA7A, 0xAA7F),  # Burmese, extended
    (0xFF66, 0xFF9F),  # half-width Katakana, if the text was not normalised
    (0x1AFF0, 0x1B16F),  # kana supplements
    (0x20000, 0x3FFFF),  # Han, planes 2 and 3
)  # fmt: skip
"""First and last code point of each range in which every character is a word."""


@functools.cache
def _word(*, is_ascii: bool) -> re.Pattern[str]:
    """Return the pattern of a word, compiled at its first use: the kernel cuts most texts itself.

    For other texts than ASCII this takes 3 ms, which a query would wait for.
    """
    if is_ascii:
        return re.compile(r"\w+", re.ASCII)
    spaceless = "".join(rf"{chr(first)}-{chr(last)}" for first, last in SPACELESS_RANGES)
    return re.compile(rf"[^\W{spaceless}]+|[{spaceless}]")


def split_words(text: str) -> list[str]:
    """Split a normalised text into words; O(n)."""
    return _word(is_ascii=text.isascii()).findall(text)


def word_spans(text: str) -> list[tuple[int, int]]:
    """Return the first and last character (left out) of each word of a text; O(n)."""
    return [found.span() for found in _word(is_ascii=text.isascii()).finditer(text)]


Content = str | Sequence[str] | AbstractSet[str]
"""A text, tokens or a set; canonical content holds a set as a frozenset."""
Split = Callable[[str], list[str]]

_AT_ONCE = 1 << 17
"""Shingles per call, which no signal interrupts."""


def canonical_content(body: Content, normalisation: str = NORMALISATION) -> Content:
    """Normalise a text; return tokens unchanged."""
    if isinstance(body, str):
        return normalise(body, normalisation)
    return frozenset(body) if isinstance(body, AbstractSet) else body


@dataclass(frozen=True, slots=True)
class Shingler:
    """Makes canonical contents for one index; built once from its parameters.

    Attributes
    ----------
    unit, k, bag, normalisation
        As in :class:`lshdb.params.index_params.IndexParams`.
    stop_tokens : frozenset of str
        Left out of URLs, or words left out of texts.
    split : callable or None
        Normalised text -> tokens, for unit ``tokenizer``.
    """

    unit: str
    k: int
    bag: bool
    normalisation: str
    stop_tokens: frozenset[str] = frozenset()
    split: Split | None = None

    @classmethod
    def of(cls, params: IndexParams, split: Split | None = None) -> Shingler:
        """Return the shingler of an index.

        Raises
        ------
        ParameterError
            The unit is ``tokenizer`` and there is no function to split texts.
        """
        if params.unit == "tokenizer" and split is None:
            raise ParameterError(f"the tokenizer {params.tokenizer} is needed to split texts")
        stop_tokens = frozenset(params.stop_tokens.split())
        return cls(params.unit, params.k, params.bag, params.normalisation, stop_tokens, split)

    @property
    def is_cut(self) -> bool:
        """Whether a text is cut before it is shingled, which only the reference does."""
        return bool(self.stop_tokens) or self.unit in (*URL_UNITS, "tokenizer")

    def canonical(self, body: Content) -> Content:
        """Canonical content of a body.

        Parameters
        ----------
        body : str, or list or set of str
            A text, or tokens. For units ``url`` and ``url-host``: URLs, one per line or one
            per item.

        Returns
        -------
        str, or list or set of str
            A text, of which stop words are left out; tokens if the body holds tokens or the unit is
            ``tokenizer``.
        """
        if self.unit in URL_UNITS:
            return url_content(
                body.split("\n") if isinstance(body, str) else list(body),
                k=self.k,
                bag=self.bag,
                stop_tokens=self.stop_tokens,
                normalisation=self.normalisation,
                with_hosts=self.unit == "url-host",
            )
        content = canonical_content(body, self.normalisation)
        if not isinstance(content, str):
            return content
        if self.split is not None:
            return self.split(content)
        if not self.stop_tokens:
            return content
        return " ".join(word for word in split_words(content) if word not in self.stop_tokens)


def stop_word_list(words: Iterable[str], normalisation: str) -> str:
    """Return stop words in their stored form: cut like texts, sorted, distinct, joined by blanks.

    The words are normalised and cut into words as texts are, so that ``isn't`` stands for ``isn``
    and ``t``.

    Raises
    ------
    ParameterError
        They are one string, or no strings, or hold no word.
    """
    if isinstance(words, str):
        raise ParameterError(
            f"stop_words is {words!r:.80}; expected words, one by one",
            hint="give a list, or lshdb.published_stop_words of a language such as 'en'",
        )
    try:
        given = "\n".join(words)
    except TypeError as error:
        raise ParameterError(f"stop_words is {words!r:.80}; expected strings") from error
    recorded = " ".join(sorted(set(split_words(normalise(given, normalisation)))))
    if given.strip() and not recorded:
        raise ParameterError(
            f"stop_words is {given!r:.80}, which holds no words and would leave nothing out",
            hint="give words, or an empty list to leave nothing out",
        )
    return recorded


def shingle_hashes(content: Content, *, unit: str, k: int, bag: bool) -> NDArray[np.uint64]:
    """Shingle and hash one canonical content.

    Parameters
    ----------
    content : str, sequence of str or set of str
        What :func:`canonical_content` or :meth:`Shingler.canonical` returned.
    unit : str
        What a text's shingles are made of (``UNITS``); listed tokens are shingled as words, and
        the tokens of a set are shingles themselves.
    k : int
        Tokens per shingle, at least 1.
    bag : bool
        Whether repeated shingles count again.

    Returns
    -------
    ndarray of uint64, shape (n,)
        Sorted distinct hashes; empty for a document without tokens.
    """
    return hash_shingles(_shingles(content, unit, k), bag=bag)


def shingle_counts(
    content: Content, *, unit: str, k: int
) -> tuple[NDArray[np.uint64], NDArray[np.float64]]:
    """Hash each distinct shingle of a canonical content, and count it.

    Parameters
    ----------
    content, unit, k
        As for :func:`shingle_hashes`.

    Returns
    -------
    hashes : ndarray of uint64, shape (n,)
        Distinct hashes, in the order in which the shingles first occur in the content.
    counts : ndarray of float64, shape (n,)
        Whole numbers, at least 1.
    """
    shingles = _shingles(content, unit, k)
    counts: Counter[bytes] = Counter()
    for at in range(0, len(shingles), _AT_ONCE):
        counts.update(shingles[at : at + _AT_ONCE])
        stop_if_told()
    hashes = np.empty(len(counts), dtype=np.uint64)
    weights = np.empty(len(counts), dtype=np.float64)
    pairs = iter(counts.items())
    for at in range(0, len(counts), _AT_ONCE):
        some = dict(islice(pairs, _AT_ONCE))
        digests = b"".join(map(mmh3.mmh3_x64_128_digest, some))
        hashes[at : at + len(some)] = np.frombuffer(digests, dtype="<u8")[0::2]
        weights[at : at + len(some)] = list(some.values())
        stop_if_told()
    return hashes, weights


def shingle_texts(content: Content, *, unit: str, k: int, bag: bool) -> list[str]:
    """Return as text the shingles that :func:`shingle_hashes` hashes, for people to read.

    Parameters
    ----------
    content, unit, k, bag
        As for :func:`shingle_hashes`.

    Returns
    -------
    list of str
        In the order in which they first occur in the document; each once, or in a bag as often as
        it counts, one after the other. If unit ``byte`` cuts a character, its bytes become lone
        surrogates, as in ``os.fsdecode``: ``text.encode("utf-8", "surrogateescape")`` gives the
        hashed bytes.
    """
    counts = Counter(_shingles(content, unit, k))
    shingles = counts.elements() if bag else counts
    return [shingle.decode("utf-8", "surrogateescape") for shingle in shingles]


def _shingles(content: Content, unit: str, k: int) -> list[bytes]:
    if isinstance(content, AbstractSet):
        return [token.encode() for token in sorted(content)]
    if not isinstance(content, str):
        return word_shingles(content, k)
    if unit == "word":
        return word_shingles(split_words(content), k)
    if unit == "char":
        return char_shingles(content, k)
    if unit == "byte":
        return byte_shingles(content, k)
    if unit == "line":
        return word_shingles([line for line in content.split("\n") if line], k, glue=b"\n")
    if unit in URL_UNITS:  # the lines are shingles already
        return content.encode().split(b"\n") if content else []
    return word_shingles([token for token in content.split(" ") if token], k)


def word_shingles(tokens: Sequence[str], k: int, *, glue: bytes = b" ") -> list[bytes]:
    """Return the bytes of each k-shingle of a list of tokens, in order, with repeats.

    O(total bytes) to encode, and k times that in copies, as every token is in k shingles.
    """
    if len(tokens) <= k:
        return [glue.join(token.encode() for token in tokens)] if tokens else []
    encoded = [token.encode() for token in tokens]
    joined = glue.join(encoded)
    starts = [0] * (len(encoded) + 1)
    position = 0
    for number, token in enumerate(encoded):
        starts[number] = position
        position += len(token) + len(glue)
    starts[-1] = position
    return [joined[start : end - len(glue)] for start, end in zip(starts, starts[k:], strict=False)]


def char_shingles(text: str, k: int) -> list[bytes]:
    """Return the bytes of each run of k characters of a normalised text, in order, with repeats."""
    if len(text) <= k:
        return [text.encode()] if text else []
    if text.isascii():
        return byte_shingles(text, k)
    return [text[start : start + k].encode() for start in range(len(text) - k + 1)]


def byte_shingles(text: str, k: int) -> list[bytes]:
    """Return each run of k bytes of a text's UTF-8, in order, with repeats."""
    encoded = text.encode()
    if len(encoded) <= k:
        return [encoded] if encoded else []
    return [encoded[start : start + k] for start in range(len(encoded) - k + 1)]


def hash_shingles(shingles: Sequence[bytes], *, bag: bool) -> NDArray[np.uint64]:
    """Hash shingles to the distinct elements of the document's set or bag.

    Parameters
    ----------
    shingles : sequence of bytes
        In document order, with repeats.
    bag : bool
        Whether a repeated shingle counts again.

    Returns
    -------
    ndarray of uint64, shape (n,)
        Sorted, each value once; n = 0 for a document without shingles.
    """
    digest = mmh3.mmh3_x64_128_digest
    if bag:
        seen: dict[bytes, int] = {}
        digests = []
        for shingle in shingles:
            repetition = seen.get(shingle, 0)
            seen[shingle] = repetition + 1
            digests.append(digest(shingle, repetition))
    else:
        digests = [digest(shingle, 0) for shingle in set(shingles)]
    return distinct(np.frombuffer(b"".join(digests), dtype="<u8")[0::2].astype(np.uint64))
