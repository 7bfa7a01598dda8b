"""A document's body -> its canonical content -> the hashes of its shingles.

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
content is then the other words, joined by single blanks. A text that has no other words keeps them.

``words.py`` says what a word is. A text without a word that is not blank (``...``, an emoji) is one
shingle: the whole normalised text. So texts without a word are exact copies if they are the same,
and similar to nothing else: no shingle of words is like theirs, as it begins with a word. The same
holds for a text in which a tokenizer finds no token.

A set of tokens has no order, so k of them cannot follow each other: each token is a shingle,
whatever k is. Weighted tokens are shingles in the same way.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Protocol

import mmh3

from lshdb.arrays import distinct, np
from lshdb.cancel import stop_if_told
from lshdb.errors import ParameterError
from lshdb.shingling.normalise import NORMALISATION, normalise
from lshdb.shingling.url_shingles import URL_UNITS, url_content
from lshdb.shingling.words import split_words

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = [
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
    "stop_word_list",
    "word_shingles",
]

_LINES = "ignorable-nfkc-casefold-lines"


class ShingleParams(Protocol):
    """The parameters that say which shingles a text has; an index's parameters have them."""

    @property
    def unit(self) -> str: ...
    @property
    def k(self) -> int: ...
    @property
    def bag(self) -> bool: ...
    @property
    def normalisation(self) -> str: ...
    @property
    def stop_tokens(self) -> str: ...
    @property
    def tokenizer(self) -> str: ...


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
    def of(cls, params: ShingleParams, split: Split | None = None) -> Shingler:
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
            ``tokenizer``. A text that would be left without words or tokens is kept as a whole.
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
            return self.split(content) or ([content] if content.strip() else [])
        if not self.stop_tokens:
            return content
        words = (word for word in split_words(content) if word not in self.stop_tokens)
        return " ".join(words) or content


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
        text = "\n".join(words)
    except TypeError as error:
        raise ParameterError(f"stop_words is {words!r:.80}; expected strings") from error
    recorded = " ".join(sorted(set(split_words(normalise(text, normalisation)))))
    if text.strip() and not recorded:
        raise ParameterError(
            f"stop_words is {text!r:.80}, which holds no words and would leave nothing out",
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
        Sorted distinct hashes; empty for a document without tokens, and for a blank text.
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
        chunk = dict(islice(pairs, _AT_ONCE))
        digests = b"".join(map(mmh3.mmh3_x64_128_digest, chunk))
        hashes[at : at + len(chunk)] = np.frombuffer(digests, dtype="<u8")[0::2]
        weights[at : at + len(chunk)] = list(chunk.values())
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
        words = split_words(content)
        return word_shingles(words, k) if words or not content.strip() else [content.encode()]
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
        repetitions: dict[bytes, int] = {}
        digests = []
        for shingle in shingles:
            repetition = repetitions.get(shingle, 0)
            repetitions[shingle] = repetition + 1
            digests.append(digest(shingle, repetition))
    else:
        digests = [digest(shingle, 0) for shingle in set(shingles)]
    return distinct(np.frombuffer(b"".join(digests), dtype="<u8")[0::2].astype(np.uint64))
