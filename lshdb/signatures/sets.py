"""Metric ``jaccard``: texts and token lists as sets of shingles, signed by min-hash.

Slots are words; two are equal with probability J, the Jaccard similarity of the two sets, which is
also the exact value: (J1, J2, J1, J2)-sensitive for any two similarities. The schemes are in
``fss.py`` and ``universal.py``; :mod:`lshdb.shingling` turns texts into shingles.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from lshdb.arguments import validate_body
from lshdb.shingling import Content, Shingler, count_unassigned, refuse_growth, shingle_texts
from lshdb.signatures.contents import (
    canonical_contents,
    compare_contents,
    shingle_content,
    sign,
    sign_contents,
)
from lshdb.signatures.family import Family
from lshdb.signatures.kernels import compiled

if TYPE_CHECKING:
    from lshdb.params.index_params import IndexParams

__all__ = ["SetFamily", "exact_similarity"]

Hashes = NDArray[np.uint64]


class SetFamily(Family):
    """Jaccard similarity of texts.

    Parameters
    ----------
    params : IndexParams
    shingler : Shingler
        Built from the same parameters.
    """

    def __init__(self, params: IndexParams, shingler: Shingler) -> None:
        super().__init__(params)
        self.shingler = shingler
        self.split = shingler.split

    def refusal(self, body: object) -> str | None:
        """Return why a body is not a text or tokens, or is too long once normalised."""
        reason = validate_body(body)
        if reason is None and isinstance(body, str):
            reason = refuse_growth(body, self.shingler.normalisation)
        return reason

    def content(self, body: Any) -> Content:
        """Return the canonical content of one body, by the reference."""
        return self.shingler.canonical(body)

    def contents(self, bodies: Sequence[Any]) -> list[Any]:
        """Return normalised texts; shingles for unit ``url``; tokens unchanged."""
        return canonical_contents(self.shingler, bodies)

    def points(self, contents: Sequence[Any]) -> list[Hashes]:
        """Return the sorted distinct shingle hashes of each content."""
        shingler = self.shingler
        return [
            shingle_content(content, unit=shingler.unit, k=shingler.k, bag=shingler.bag)
            for content in contents
        ]

    def sign(self, points: Sequence[Hashes]) -> NDArray[np.uint32]:
        """Return min-hash signatures of sets that are not empty."""
        params = self.params
        return sign(points, scheme=params.scheme, num_perm=params.num_perm, seed=params.seed)

    def sign_contents(
        self,
        contents: Sequence[Any],
        into: tuple[NDArray[np.uint32], NDArray[np.int64]] | None = None,
    ) -> tuple[NDArray[np.uint32], NDArray[np.int64]]:
        """Shingle and sign contents; the kernel does so without the interpreter's lock."""
        params, shingler = self.params, self.shingler
        return sign_contents(
            contents, unit=shingler.unit, k=shingler.k, bag=shingler.bag,
            scheme=params.scheme, num_perm=params.num_perm, seed=params.seed, into=into,
        )  # fmt: skip

    def levels(self, left: Sequence[Hashes], right: Sequence[Hashes]) -> NDArray[np.float64]:
        """Return Jaccard similarities |A n B| / |A u B|; 0 if both are empty."""
        return np.array([exact_similarity(*both) for both in zip(left, right, strict=True)])

    def compare(self, left: Any, right: Any) -> float:
        """Return the Jaccard similarity of two contents."""
        shingler = self.shingler
        common, n_left, n_right = compare_contents(
            left, right, unit=shingler.unit, k=shingler.k, bag=shingler.bag
        )
        either = n_left + n_right - common
        return common / either if either else 0.0

    def elements(self, content: Any) -> list[str]:
        """Return the shingles of a content as texts."""
        shingler = self.shingler
        return shingle_texts(content, unit=shingler.unit, k=shingler.k, bag=shingler.bag)

    def n_unassigned(self, content: Any) -> int:
        """Count the characters that this interpreter's Unicode does not assign."""
        return count_unassigned(content)


def exact_similarity(left: Hashes, right: Hashes) -> float:
    """Return the Jaccard similarity of two sorted arrays of distinct hashes; 0 if both are empty.

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
