"""The canonical content of a document's body, and its shingle hashes.

A body is a text, a list (or tuple) of tokens, or a set of them. A text is normalised. Tokens are
used unchanged, whatever the unit of the index. (Two units differ: the canonical content of a list
of URLs is their shingles, and that of a text for a tokenizer is its tokens.) Two bodies with the
same canonical content have the same shingles, so the index keeps one signature for both.

A set has no order, so k of its tokens cannot follow each other: each token is a shingle, whatever
k is. Weighted tokens are shingles in the same way.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING

import mmh3
import numpy as np
from numpy.typing import NDArray

from lshdb.cancel import stop_if_told
from lshdb.errors import ParameterError
from lshdb.shingling.normalise import NORMALISATION, normalise
from lshdb.shingling.shingles import byte_shingles, char_shingles, hash_shingles, word_shingles
from lshdb.shingling.units import split_words
from lshdb.shingling.url_shingles import url_content

if TYPE_CHECKING:
    from lshdb.params.index_params import IndexParams

__all__ = [
    "Content",
    "Shingler",
    "canonical_content",
    "shingle_counts",
    "shingle_hashes",
    "shingle_texts",
]

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
        Left out of URLs.
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

    def canonical(self, body: Content) -> Content:
        """Canonical content of a body.

        Parameters
        ----------
        body : str, or list or set of str
            A text, or tokens. For unit ``url``: URLs, one per line or one per item.

        Returns
        -------
        str, or list or set of str
            A text; tokens if the body holds tokens or the unit is ``tokenizer``.
        """
        if self.unit == "url":
            return url_content(
                body.split("\n") if isinstance(body, str) else list(body),
                k=self.k,
                bag=self.bag,
                stop_tokens=self.stop_tokens,
                normalisation=self.normalisation,
            )
        content = canonical_content(body, self.normalisation)
        if self.split is None or not isinstance(content, str):
            return content
        return self.split(content)


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
    if unit == "url":  # the lines are shingles already
        return content.encode().split(b"\n") if content else []
    return word_shingles([token for token in content.split(" ") if token], k)
