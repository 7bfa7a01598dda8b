"""Shingle hashes of tokens, characters or bytes.

A k-shingle is k consecutive tokens joined by one blank (lines: by a line feed), or k consecutive
characters, or bytes. Its hash is the low 64 bits of MurmurHash3 x64-128, seed 0, of its UTF-8
bytes, so that ``mmh3`` alone reproduces it: ``mmh3.hash64("to be or not to", signed=False)[0]``.

A document is the *set* of its shingles, or optionally the *bag*: then the i-th repetition of a
shingle (i = 0 for the first) is an element of its own, hashed with seed i instead of 0. The Jaccard
similarity of two such sets of (shingle, i) is the sum of the smaller counts over the sum of the
larger ones.

A document with fewer than k tokens (characters) is one shingle of them all; an empty one has no
shingle.
"""

from __future__ import annotations

from collections.abc import Sequence

import mmh3
import numpy as np
from numpy.typing import NDArray

from lshdb.arrays import distinct

__all__ = ["byte_shingles", "char_shingles", "hash_shingles", "word_shingles"]


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
