"""Metric ``weighted-jaccard``: elements with real weights, signed by consistent weighted sampling.

The elements of a text, or of a list of tokens, are its shingles, weighted by how often they occur.
The elements of a dict are its tokens with the given weights, each a shingle by itself. A set is a
dict whose weights are all 1. The similarity of two is
J = sum of min(S, T) / sum of max(S, T) over all elements and their weights S and T; an absent
element has weight 0. For two without elements it is 0. For whole numbers it is the Jaccard
similarity of bags.

Scheme ``icws`` (Ioffe, ICDM 2010): each slot samples an element x and a level t of it. Two weighted
sets sample the same with probability J. Slots are words and independent, so for J1 > J2 the family
is (1 - J1, 1 - J2, J1, J2)-sensitive.

Exactly: slot j has keys number 3 j, 3 j + 1 and 3 j + 2 of the purpose WEIGHTS. An element x of
weight S > 0 has with each key the word mix64(x xor key). The two halves h of the first word, each
as the number (h + 1/2) / 2^32, have the product p; those of the second the product q; the third
word is the uniform number b (``random_numbers.py``). Then c = -ln p and r = -ln q are distributed
Gamma(2, 1), and with

    t = floor(ln S / r + b)        ln a = ln c - r (t - b + 1)

the slot takes the element with the smallest a, or of several the one with the smallest x. It
stores the low 16 bits of mix64(x + t G mod 2^64), where G is ``random_numbers.GOLDEN``: two
different samples are equal by accident once in 2^16.

Only few of the a need to be computed: since ln S < r (t - b + 1) <= ln S + r, each is between
c q / S and c / S, so an element is out if its lower bound is above another's upper bound.
"""

from __future__ import annotations

from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from lshdb.arguments import lone_surrogate, validate_body
from lshdb.arrays import order_of, sorted_texts
from lshdb.kernel import kernel
from lshdb.kernel.random_numbers import Purpose, keys
from lshdb.shingling import (
    URL_UNITS,
    Shingler,
    count_unassigned,
    refuse_growth,
    shingle_counts,
    shingle_texts,
)
from lshdb.signatures.family import Family
from lshdb.signatures.sets import canonical_contents

if TYPE_CHECKING:
    from lshdb.params.index_params import IndexParams

__all__ = ["MAX_WEIGHT", "MIN_WEIGHT", "WeightedFamily", "sketch"]


Floats = NDArray[np.float64]
Words = NDArray[np.uint64]


def sketch(
    hashes: Words, weights: Floats, lengths: NDArray[np.int64], *, num_perm: int, seed: int
) -> NDArray[np.uint16]:
    """Sketch many weighted sets at once.

    Parameters
    ----------
    hashes : ndarray of uint64, shape (sum(lengths),)
        The elements of all sets, one set after the other; in each ascending and distinct.
    weights : ndarray of float64, shape (sum(lengths),)
        From 1e-150 to 1e150.
    lengths : ndarray of int64, shape (n,)
        Elements of each set, at least 1.
    num_perm : int
        Slots K.
    seed : int
        0 to 2^63 - 1.

    Returns
    -------
    ndarray of uint16, shape (n, num_perm)
        A row does not depend on the other sets.

    Notes
    -----
    Without the interpreter's lock. The compiled kernel and the reference differ only if two a, or a
    level and its bound, are equal to 1e-15, because libraries round logarithms differently.
    """
    slot_keys = keys(seed, Purpose.WEIGHTS, 0, 3 * num_perm)
    rows = np.empty((len(lengths), num_perm), dtype=np.uint16)
    kernel.sample_weights(hashes, weights, np.log(weights), lengths, num_perm, slot_keys, rows)
    return rows


Weighted = tuple[NDArray[np.uint64], NDArray[np.float64]]

MIN_WEIGHT, MAX_WEIGHT = 1e-150, 1e150
"""The range of weights above 0 in which no step of the sampling over- or underflows."""


class WeightedFamily(Family):
    """Weighted Jaccard similarity.

    Parameters
    ----------
    params : IndexParams
    shingler : Shingler
        Built from the same parameters.

    Notes
    -----
    A point is a pair of arrays: element hashes (uint64, ascending, distinct), and weights (float64,
    above 0).
    """

    def __init__(self, params: IndexParams, shingler: Shingler) -> None:
        super().__init__(params)
        self.shingler = replace(shingler, bag=True)
        self.split = shingler.split

    def refusal(self, body: object) -> str | None:
        """Return why a body is not a text, tokens or a dict of weights, or is too long."""
        if isinstance(body, str):
            return validate_body(body) or refuse_growth(body, self.shingler.normalisation)
        if isinstance(body, list | tuple | AbstractSet):
            return validate_body(body)
        if not isinstance(body, dict):
            kind = type(body).__name__
            return (
                f"the body is of type {kind}, expected a string, a list, tuple or set of strings, "
                "or weights by token"
            )
        for token, weight in body.items():
            reason = _refuse_weight(token, weight)
            if reason is not None:
                return reason
        return None

    def contents(self, bodies: Sequence[Any]) -> list[Any]:
        """Return canonical texts and tokens; dicts with sorted keys, weights as floats above 0."""
        if self.shingler.unit not in URL_UNITS:  # whose sets hold URLs
            bodies = [
                dict.fromkeys(body, 1.0) if isinstance(body, AbstractSet) else body
                for body in bodies
            ]
        plain = iter(
            canonical_contents(
                self.shingler, [body for body in bodies if not isinstance(body, dict)]
            )
        )
        return [_weights(body) if isinstance(body, dict) else next(plain) for body in bodies]

    def points(self, contents: Sequence[Any]) -> list[Weighted]:
        """Return the element hashes and weights of each content."""
        unit, k = self.shingler.unit, self.shingler.k
        return [
            _of_tokens(content)
            if isinstance(content, dict)
            else _of_counts(*shingle_counts(content, unit=unit, k=k))
            for content in contents
        ]

    def size(self, point: Weighted) -> int:
        """Count the elements, which all have a weight above 0."""
        return len(point[0])

    def sign(self, points: Sequence[Weighted]) -> NDArray[np.uint16]:
        """Sample sets that are not empty."""
        return sketch(
            np.concatenate([hashes for hashes, _ in points]),
            np.concatenate([weights for _, weights in points]),
            np.array([len(hashes) for hashes, _ in points], dtype=np.int64),
            num_perm=self.params.num_perm,
            seed=self.params.seed,
        )

    def levels(self, left: Sequence[Weighted], right: Sequence[Weighted]) -> NDArray[np.float64]:
        """Return weighted Jaccard similarities; O(n log m) per pair, exact for whole numbers."""
        return np.array(
            [_similarity(*pair) for pair in zip(left, right, strict=True)], dtype=np.float64
        )

    def elements(self, content: Any) -> list[str]:
        """Return the tokens of a dict, or else the shingles, each as often as it counts."""
        if isinstance(content, dict):
            return list(content)
        return shingle_texts(content, unit=self.shingler.unit, k=self.shingler.k, bag=True)

    def n_unassigned(self, content: Any) -> int:
        """Count the characters that this interpreter's Unicode does not assign."""
        return count_unassigned(list(content) if isinstance(content, dict) else content)


def _refuse_weight(token: object, weight: object) -> str | None:
    if not isinstance(token, str):
        return f"token {token!r:.40} is of type {type(token).__name__}, expected a string"
    if lone_surrogate(token) is not None:
        return f"token {token!r:.40} holds a lone surrogate"
    is_number = isinstance(weight, int | float | np.integer | np.floating)
    if isinstance(weight, bool) or not is_number:
        kind = type(weight).__name__
        return f"the weight of {token!r:.40} is of type {kind}, expected a number"
    number: Any = weight.item() if isinstance(weight, np.generic) else weight
    if number == 0.0 or MIN_WEIGHT <= number <= MAX_WEIGHT:
        return None
    if number > 0.0:
        what = f"above {MAX_WEIGHT:g}" if number > MAX_WEIGHT else f"below {MIN_WEIGHT:g}"
    else:
        what = "below 0" if number < 0.0 else "NaN"
    return f"the weight of {token!r:.40} is {what}, expected 0 or a number from 1e-150 to 1e+150"


def _weights(body: dict[str, Any]) -> dict[str, float]:
    """Return the weights above 0 by token, sorted by the tokens' code points."""
    pairs = ((token, float(body[token])) for token in sorted_texts(body))
    return {token: weight for token, weight in pairs if weight > 0.0}


def _of_tokens(content: dict[str, float]) -> Weighted:
    hashes, _ = shingle_counts(list(content), unit="token", k=1)
    return _of_counts(hashes, np.array(list(content.values()), dtype=np.float64))


def _of_counts(hashes: NDArray[np.uint64], weights: NDArray[np.float64]) -> Weighted:
    """Build a point of elements in any order; of two that share a hash by accident, keep one."""
    order = order_of(hashes)
    hashes, weights = hashes[order], weights[order]
    first = np.diff(hashes, prepend=~hashes[:1]) != 0
    return (hashes, weights) if first.all() else (hashes[first], weights[first])


def _similarity(left: Weighted, right: Weighted) -> float:
    if len(left[0]) > len(right[0]):
        left, right = right, left
    if not len(left[0]):
        return 0.0
    places = np.searchsorted(right[0], left[0])
    places[places == len(right[0])] = 0
    shared = right[0][places] == left[0]
    smaller = float(np.minimum(left[1][shared], right[1][places[shared]]).sum())
    larger = float(left[1].sum()) + float(right[1].sum()) - smaller
    return min(1.0, smaller / larger)  # sums of other lengths round in another way
