"""Candidate pairs -> verified pairs: by bands matched, by signature, or exactly by text.

A pair carries the method that gave its similarity:

``none``
    unverified; the similarity is what the bands say: m of b bands agree, each with probability s^r,
    so (m / b)^(1/r) estimates s. Without the signature file m is the number of buckets shared.
``signature``
    the fraction of equal slots, an unbiased estimate of the Jaccard similarity J with standard
    deviation at most sqrt(J (1 - J) / num_perm).
``exact``
    |A n B| / |A u B| of the two texts' shingle sets. Exact copies have 1.0 by their content hash.

Before texts are read, pairs whose estimate is too low for the threshold are dropped: four and a
half standard deviations and two slots below it. That loses fewer than one pair in ten thousand of
those at the threshold, for every threshold and number of slots (a test adds up the binomial tail).
Where the signature file lies on another host nothing is dropped, and each candidate's text is read.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lshdb.banding import Agreement
from lshdb.errors import (
    DamageError,
    ParameterError,
    SignaturesElsewhereError,
    TextNotStoredError,
)
from lshdb.params import IndexParams
from lshdb.shingling import Shingler
from lshdb.signatures import canonical_contents, shingle_content
from lshdb.signatures.kernels import compiled
from lshdb.storage.snapshot import Snapshot

__all__ = [
    "METHODS",
    "ShingleCache",
    "band_similarity",
    "choose_method",
    "estimate",
    "exact_similarity",
    "prefilter",
]

METHODS = ("none", "signature", "exact")

_SLACK = 4.5
_CACHE_BYTES = 128 * 2**20
_ARRAY_BYTES = 256
"""What an array and its place in a dictionary take beside its elements."""
_PREPARED = 512
_GROUP_CHARACTERS = 4 * 2**20


def choose_method(verify: str | None, params: IndexParams, *, has_signatures: bool = True) -> str:
    """The method asked for, or the best there is: exact with texts, else signature, else none.

    Parameters
    ----------
    verify : {"none", "signature", "exact"}, optional
    params : IndexParams
    has_signatures : bool
        Whether the signature rows are here and not on another host.

    Raises
    ------
    ParameterError
        There is no such method.
    TextNotStoredError
        Exact verification of an index without texts.
    SignaturesElsewhereError
        Verification by signatures that are not here.
    """
    if verify is None:
        without_texts = "signature" if has_signatures else "none"
        return "exact" if params.store_text else without_texts
    if verify not in METHODS:
        raise ParameterError(f"verify is {verify!r}; expected one of {', '.join(METHODS)}")
    if verify == "exact" and not params.store_text:
        raise TextNotStoredError(
            "exact verification needs the texts, and this index was made with --no-text",
            hint="use --verify signature",
        )
    if verify == "signature" and not has_signatures:
        raise SignaturesElsewhereError(
            "verification by signature needs the signatures, which lie on the host that writes "
            "the index",
            hint="use --verify exact, or none for an index without texts, or run it on that host",
        )
    return verify


def prefilter(threshold: float, num_perm: int) -> float:
    """Estimate below which a pair is not worth an exact check."""
    deviation = math.sqrt(threshold * (1 - threshold) / num_perm)
    return threshold - _SLACK * deviation - 2 / num_perm - 1e-9


def band_similarity(
    matched: NDArray[np.signedinteger[Any]], params: IndexParams
) -> NDArray[np.float64]:
    """Similarity estimated from the number of bands that agree."""
    estimate: NDArray[np.float64] = (matched / params.bands) ** (1.0 / params.rows)
    return estimate


def estimate(
    agreement: Agreement, params: IndexParams, *, method: str, threshold: float
) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Similarities by signature, or by bands for ``none``, and which are worth going on with.

    For ``signature`` those are the ones at the threshold, for ``exact`` those that a look at the
    texts may bring there, and for ``none`` all.
    """
    if method == "none":
        return band_similarity(agreement.matched, params), np.ones(len(agreement.matched), bool)
    estimates = agreement.equal / params.num_perm
    lowest = prefilter(threshold, params.num_perm) if method == "exact" else threshold
    return estimates, estimates >= lowest


def exact_similarity(left: NDArray[np.uint64], right: NDArray[np.uint64]) -> float:
    """Jaccard similarity of two sorted arrays of distinct hashes; 0 where both are empty.

    O(n log m) for n <= m.
    """
    if len(left) > len(right):
        left, right = right, left
    if not len(left):
        return 0.0
    kernel = compiled()
    if kernel is not None:
        common = kernel.count_common(left, right)
        return float(common / (len(left) + len(right) - common))
    places = np.searchsorted(right, left)
    places[places == len(right)] = len(right) - 1
    common = int(np.count_nonzero(right[places] == left))
    return common / (len(left) + len(right) - common)


class ShingleCache:
    """Shingle hashes of signatures' texts, the least recently used dropped first.

    Parameters
    ----------
    snapshot : Snapshot
    params : IndexParams
    shingler : Shingler
        Of the same parameters.
    most_bytes : int
        Memory for the arrays; those of the request at hand are kept whatever they take.
    """

    def __init__(
        self,
        snapshot: Snapshot,
        params: IndexParams,
        shingler: Shingler,
        *,
        most_bytes: int = _CACHE_BYTES,
    ) -> None:
        self._snapshot = snapshot
        self._params = params
        self._shingler = shingler
        self._most_bytes = most_bytes
        self._bytes = 0
        self._arrays: OrderedDict[int, NDArray[np.uint64]] = OrderedDict()

    def prepare(self, signature_ids: list[int]) -> None:
        """Get some ready together, which is faster than one by one, in half of the memory at most.

        Those that are asked for first should come first.
        """
        missing = [each for each in signature_ids[:_PREPARED] if each not in self._arrays]
        room = self._most_bytes // 2
        for signature_id, array in self._shingled(missing):
            self._arrays[signature_id] = array
            self._bytes += _memory(array)
            room -= _memory(array)
            if room < 0:
                break
        self._drop_oldest(len(signature_ids))

    def get(self, signature_ids: list[int]) -> dict[int, NDArray[np.uint64]]:
        """Sorted shingle hashes by signature id; one text is read and shingled for each miss.

        Raises
        ------
        DamageError
            The text of a document is missing.
        """
        found: dict[int, NDArray[np.uint64]] = {}
        missing = []
        for signature_id in signature_ids:
            array = self._arrays.get(signature_id)
            if array is None:
                missing.append(signature_id)
            else:
                self._arrays.move_to_end(signature_id)
                found[signature_id] = array
        for signature_id, array in self._shingled(missing):
            found[signature_id] = self._arrays[signature_id] = array
            self._bytes += _memory(array)
        self._drop_oldest(len(signature_ids))
        if len(found) != len(set(signature_ids)):
            lost = min(set(signature_ids) - found.keys())
            raise DamageError(f"the text of signature {lost} is missing", hint="run lshdb check")
        return found

    def _drop_oldest(self, kept: int) -> None:
        while self._bytes > self._most_bytes and len(self._arrays) > kept:
            _, dropped = self._arrays.popitem(last=False)
            self._bytes -= _memory(dropped)

    def _shingled(self, signature_ids: list[int]) -> Iterator[tuple[int, NDArray[np.uint64]]]:
        """Read texts and shingle them, a few megabytes of text at a time."""
        params = self._params
        stored = self._snapshot.bodies_of_signatures(signature_ids)
        while group := list(_first(stored, _GROUP_CHARACTERS)):
            contents = canonical_contents(self._shingler, [body for _, body in group])
            for (signature_id, _), content in zip(group, contents, strict=True):
                yield (
                    signature_id,
                    shingle_content(content, unit=params.unit, k=params.k, bag=params.bag),
                )


def _memory(array: NDArray[np.uint64]) -> int:
    return array.nbytes + _ARRAY_BYTES


def _first(
    stored: Iterator[tuple[int, str | list[str]]], most: int
) -> Iterator[tuple[int, str | list[str]]]:
    """Take from an iterator until it has given so many characters."""
    for signature_id, body in stored:
        yield signature_id, body
        most -= len(body) if isinstance(body, str) else sum(map(len, body))
        if most <= 0:
            return
