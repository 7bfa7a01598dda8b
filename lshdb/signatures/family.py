"""What a metric is to the rest: the one interface behind which families of hash functions differ.

    body       what comes in: a text, ready tokens, weights of tokens, a vector, bits
    content    its canonical form: equal contents share one signature
    point      what is compared: shingle hashes, weighted hashes, a vector, packed bits
    row        its signature, in words of 32 bits; a slot is a word, or a bit of one

How similar two points are is said by a level (``params/curves.py``): larger is more similar.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from lshdb.params.index_params import IndexParams

__all__ = ["Alternatives", "Family", "Point"]

Point = Any
"""An array, or a pair of arrays; each family has its own."""


@dataclass(frozen=True, slots=True)
class Alternatives:
    """What a similar point may have in the slots in place of a query's own values.

    Slot j of the query's row has ``m`` alternatives to its value. Slots are independent, given the
    query.

    Attributes
    ----------
    same : ndarray of float64, shape (num_perm,)
        Probability that the slot is equal.
    others : ndarray of float64, shape (num_perm, m)
        Probability of each alternative value.
    values : ndarray of uint32, shape (num_perm, m)
        Those values; of a slot of one bit the other bit.
    """

    same: NDArray[np.float64]
    others: NDArray[np.float64]
    values: NDArray[np.uint32]


class Family(ABC):
    """How an index of one metric signs its bodies, and compares them.

    Parameters
    ----------
    params : IndexParams

    Attributes
    ----------
    split : callable or None
        What cuts texts into tokens, where that is a function of the user's own.
    """

    split: Callable[[str], list[str]] | None = None

    def __init__(self, params: IndexParams) -> None:
        self.params = params

    @abstractmethod
    def refusal(self, body: object) -> str | None:
        """Why a body cannot be one of this index, in one line; None where it can."""

    def content(self, body: Any) -> Any:
        """The canonical content of one body."""
        return self.contents([body])[0]

    @abstractmethod
    def contents(self, bodies: Sequence[Any]) -> list[Any]:
        """Canonical contents of bodies that were not refused, in their order."""

    @abstractmethod
    def points(self, contents: Sequence[Any]) -> list[Point]:
        """What is compared of contents."""

    def size(self, point: Point) -> int:
        """Elements of a point: of 0 there is no signature, and nothing is similar."""
        return len(point)

    @abstractmethod
    def sign(self, points: Sequence[Point]) -> NDArray[np.uint32]:
        """Signature rows of points that are not empty (uint32, shape (n, row_words))."""

    def sign_contents(
        self,
        contents: Sequence[Any],
        into: tuple[NDArray[np.uint32], NDArray[np.int64]] | None = None,
    ) -> tuple[NDArray[np.uint32], NDArray[np.int64]]:
        """Rows and sizes of contents; zeros where one is empty.

        Parameters
        ----------
        contents : sequence
        into : pair of ndarray, optional
            Zeros, to be filled and returned, in C order: uint32 of shape (n, row_words), and int64
            of shape (n,).

        Notes
        -----
        May be called from several threads at once.
        """
        rows, sizes = into or (
            np.zeros((len(contents), self.params.row_words), dtype=np.uint32),
            np.zeros(len(contents), dtype=np.int64),
        )
        points = self.points(contents)
        sizes[:] = [self.size(point) for point in points]
        filled = sizes > 0
        if filled.any():
            rows[filled] = self.sign([point for point in points if self.size(point)])
        return rows, sizes

    @abstractmethod
    def levels(self, left: Sequence[Point], right: Sequence[Point]) -> NDArray[np.float64]:
        """Exact levels of point left[i] and point right[i] (float64, shape (n,))."""

    def compare(self, left: Any, right: Any) -> float:
        """Exact level of two contents; 0 for two that have no element."""
        return float(self.levels(self.points([left]), self.points([right]))[0])

    def elements(self, content: Any) -> list[str] | None:
        """The elements of a content as texts, for people; None where it is no set of such."""
        return None

    def alternatives(self, point: Point, level: float) -> Alternatives | None:
        """What points at a level from a query have in their slots; None where nothing is next.

        Parameters
        ----------
        point : Point
            The query.
        level : float
        """
        return None

    def n_unassigned(self, content: Any) -> int:
        """Characters of a content that this interpreter's Unicode does not know."""
        return 0
