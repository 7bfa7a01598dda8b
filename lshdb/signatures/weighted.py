"""Metric ``weighted-jaccard``: elements with real weights, signed by consistent weighted sampling.

A text, or a list of tokens, has its shingles, each as often as it stands there. A dict has its
tokens as they are, each a shingle by itself, with the weights given; a set is a dict whose weights
are all 1. The similarity of two is
J = sum of min(S, T) / sum of max(S, T) over all elements, with weight 0 where one is absent; of two
without an element it is 0. For whole numbers it is the Jaccard similarity of bags.

Slots are words, equal with probability J (``icws.py``), so for J1 > J2 the family is
(1 - J1, 1 - J2, J1, J2)-sensitive.
"""

from __future__ import annotations

from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from lshdb.arrays import order_of, sorted_texts
from lshdb.shingling import Shingler, count_unassigned, refuse_growth, shingle_counts, shingle_texts
from lshdb.signatures import icws
from lshdb.signatures.contents import canonical_contents
from lshdb.signatures.family import Family
from lshdb.values import lone_surrogate, validate_body

if TYPE_CHECKING:
    from lshdb.params import IndexParams

__all__ = ["MAX_WEIGHT", "MIN_WEIGHT", "WeightedFamily"]

Weighted = tuple[NDArray[np.uint64], NDArray[np.float64]]

MIN_WEIGHT, MAX_WEIGHT = 1e-150, 1e150
"""The range of weights above 0, in which no step of the sampling over- or underflows."""


class WeightedFamily(Family):
    """Weighted Jaccard similarity.

    Parameters
    ----------
    params : IndexParams
    shingler : Shingler
        Of the same parameters.

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
        """Why a body is no text, no tokens and no dict of weights, or is too long."""
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
        """Canonical texts and token lists; dicts with sorted keys, weights as floats above 0."""
        if self.shingler.unit != "url":  # whose sets are of URLs
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
        """Element hashes and weights of each content."""
        unit, k = self.shingler.unit, self.shingler.k
        return [
            _of_tokens(content)
            if isinstance(content, dict)
            else _of_counts(*shingle_counts(content, unit=unit, k=k))
            for content in contents
        ]

    def size(self, point: Weighted) -> int:
        """Elements, which all have a weight above 0."""
        return len(point[0])

    def sign(self, points: Sequence[Weighted]) -> NDArray[np.uint32]:
        """Samples of sets that are not empty."""
        return icws.sketch(
            np.concatenate([hashes for hashes, _ in points]),
            np.concatenate([weights for _, weights in points]),
            np.array([len(hashes) for hashes, _ in points], dtype=np.int64),
            num_perm=self.params.num_perm,
            seed=self.params.seed,
        )

    def levels(self, left: Sequence[Weighted], right: Sequence[Weighted]) -> NDArray[np.float64]:
        """Weighted Jaccard similarities; O(n log m) a pair. Exact for whole-number weights."""
        return np.array(
            [_similarity(*both) for both in zip(left, right, strict=True)], dtype=np.float64
        )

    def elements(self, content: Any) -> list[str]:
        """The tokens of a dict; of others the shingles, each as often as it counts."""
        if isinstance(content, dict):
            return list(content)
        return shingle_texts(content, unit=self.shingler.unit, k=self.shingler.k, bag=True)

    def n_unassigned(self, content: Any) -> int:
        """Characters that this interpreter's Unicode does not assign."""
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
    return f"the weight of {token!r:.40} is {what}, expected 0, or a number from 1e-150 to 1e+150"


def _weights(body: dict[str, Any]) -> dict[str, float]:
    """Weights above 0 by token, in order of the tokens' code points."""
    pairs = ((token, float(body[token])) for token in sorted_texts(body))
    return {token: weight for token, weight in pairs if weight > 0.0}


def _of_tokens(content: dict[str, float]) -> Weighted:
    hashes, _ = shingle_counts(list(content), unit="token", k=1)
    return _of_counts(hashes, np.array(list(content.values()), dtype=np.float64))


def _of_counts(hashes: NDArray[np.uint64], weights: NDArray[np.float64]) -> Weighted:
    """A point of elements in any order; of two with one hash, which is an accident, one is kept."""
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
    return smaller / (float(left[1].sum()) + float(right[1].sum()) - smaller)
