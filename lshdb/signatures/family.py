"""The interface that every family of hash functions implements.

    body       the input: a text, tokens, weights of tokens, a vector, bits
    content    its canonical form: equal contents share one signature
    point      what is compared: shingle hashes, weighted hashes, a vector, packed bits
    row        its signature, in words of 16 bits; a slot is a word, or a bit of one

A level states how similar two points are (``params/metrics.py``): larger is more similar.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from lshdb.params.index_params import IndexParams

from lshdb.arrays import np
from lshdb.kernel import kernel
from lshdb.signatures.band_orders import BandOrders

__all__ = [
    "Agreeing",
    "Alternatives",
    "Family",
    "Point",
    "Screen",
    "SignedQuery",
    "SignedTexts",
    "may_be_near",
]

Point = Any
"""An array, or a pair of arrays; each family has its own."""


@dataclass(frozen=True, slots=True)
class Alternatives:
    """The values that a similar point may have in its slots instead of the query's.

    Slot j of the query's row has ``m`` alternatives to its value. Given the query, slots are
    independent.

    Attributes
    ----------
    same : ndarray of float64, shape (num_perm,)
        Probability that the slot is equal.
    others : ndarray of float64, shape (num_perm, m)
        Probability of each alternative value.
    values : ndarray of uint16, shape (num_perm, m)
        The alternative values; for a slot of one bit, the other bit.
    """

    same: NDArray[np.float64]
    others: NDArray[np.float64]
    values: NDArray[np.uint16]


@dataclass(frozen=True, slots=True)
class SignedTexts:
    """What :meth:`Family.sign_texts` makes of n texts, as columns.

    Attributes
    ----------
    hashes : list of bytes
        The BLAKE2b (16 bytes) of each canonical content in UTF-8.
    n_unassigned : list of int
        Characters of each that Unicode does not assign.
    rows : ndarray of uint16, shape (n, row_words)
        Zeros for a content without shingles.
    counts : ndarray of int64, shape (n,)
        Distinct shingles of each.
    """

    hashes: list[bytes]
    n_unassigned: list[int]
    rows: NDArray[np.uint16]
    counts: NDArray[np.int64]


class SignedQuery(NamedTuple):
    """What is searched for; see :meth:`Family.sign_queries`.

    Bytes, because making arrays takes longer than what a query does with them.

    Attributes
    ----------
    point : Point or bytes
        For its family alone, which may hold it in its own way; None if it is not needed.
    row : bytes
        Its signature row, as in the file; empty if it has no elements.
    keys : bytes or bytearray
        Its bucket keys, native int64, one for each band.
    """

    point: Point
    row: bytes
    keys: bytes | bytearray


Agreeing = list[tuple[int, int, int]]
"""(signature id, equal slots, bands that agree) of some signatures, in order of their ids."""


Screen = Callable[["NDArray[Any]"], "tuple[NDArray[np.int64], NDArray[np.int64]]"]
"""Rows -> (places of asking rows, numbers of rows) that may be near to each other."""


def may_be_near(are_near: NDArray[np.bool_]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return what a screen returns, given for each asking row and row whether they may be near."""
    places, numbers = np.nonzero(are_near)
    return places, numbers


class Family(ABC):
    """Signs and compares the bodies of an index of one metric.

    Parameters
    ----------
    params : IndexParams

    Attributes
    ----------
    split : callable or None
        The user's own function that cuts texts into tokens, if there is one.
    """

    split: Callable[[str], list[str]] | None = None

    def __init__(self, params: IndexParams) -> None:
        self.params = params
        self._orders = BandOrders(params.cut)

    @abstractmethod
    def refusal(self, body: object) -> str | None:
        """Return why this index cannot hold a body, in one line; None if it can."""

    def content(self, body: Any) -> Any:
        """Return the canonical content of one body."""
        return self.contents([body])[0]

    @abstractmethod
    def contents(self, bodies: Sequence[Any]) -> list[Any]:
        """Return the canonical contents of accepted bodies, in their order."""

    @abstractmethod
    def points(self, contents: Sequence[Any]) -> list[Point]:
        """Return the points of contents, which are compared."""

    def size(self, point: Point) -> int:
        """Count the elements of a point; with 0 it has no signature and is similar to nothing."""
        return len(point)

    @abstractmethod
    def sign(self, points: Sequence[Point]) -> NDArray[np.uint16]:
        """Return signature rows of points that are not empty (uint16, shape (n, row_words))."""

    def sign_contents(
        self,
        contents: Sequence[Any],
        into: tuple[NDArray[np.uint16], NDArray[np.int64]] | None = None,
    ) -> tuple[NDArray[np.uint16], NDArray[np.int64]]:
        """Return the rows and sizes of contents; zeros for an empty one.

        Parameters
        ----------
        contents : sequence
        into : pair of ndarray, optional
            Zeros in C order, to be filled and returned: uint16 of shape (n, row_words), and int64
            of shape (n,).

        Notes
        -----
        May be called from several threads at once.
        """
        rows, sizes = into or (
            np.zeros((len(contents), self.params.row_words), dtype=np.uint16),
            np.zeros(len(contents), dtype=np.int64),
        )
        points = self.points(contents)
        sizes[:] = [self.size(point) for point in points]
        filled = sizes > 0
        if filled.any():
            rows[filled] = self.sign([point for point in points if self.size(point)])
        return rows, sizes

    @property
    def takes_texts(self) -> bool:
        """Whether :meth:`sign_texts` may be called."""
        return False

    def sign_texts(self, texts: Sequence[str], person: bytes) -> SignedTexts:
        """Normalise, hash and sign texts in one call; in most of it without the interpreter's lock.

        The same bits as :meth:`contents`, the hash of each, :meth:`n_unassigned` and
        :meth:`sign_contents`. May be called from several threads at once.

        Parameters
        ----------
        texts : sequence of str
            Without lone surrogates.
        person : bytes
            Personalises the hashes.
        """
        raise NotImplementedError

    def sign_queries(self, contents: Sequence[Any]) -> list[SignedQuery]:
        """Return contents as they are searched for, each with its point."""
        points = self.points(contents)
        filled = [point for point in points if self.size(point)]
        rows = iter(self.sign(filled) if filled else ())
        return [
            self.query_of_row(_as_in_file(next(rows)))._replace(point=point)
            if self.size(point)
            else SignedQuery(point, b"", b"")
            for point in points
        ]

    def query_of_row(self, row: bytes, content: Any = None) -> SignedQuery:
        """Return the same for a row of the index, with the point of a content if it is given."""
        point = None if content is None else self.points([content])[0]
        return SignedQuery(point, row, self._orders.keys_of_row(row))

    def point_of(self, query: SignedQuery) -> Point:
        """Return the point of a query."""
        return query.point

    def rows_of(self, queries: Sequence[SignedQuery]) -> NDArray[np.uint16]:
        """Return the rows of queries; each query has a row."""
        rows = np.frombuffer(b"".join([query.row for query in queries]), dtype="<u2")
        return rows.reshape(len(queries), self.params.row_words)

    def agreeing(
        self, query: SignedQuery, ids: Any, least: int, source: Any, offset: int, n: int
    ) -> Agreeing:
        """Return which rows agree with a query in a band and have as many equal slots.

        Parameters
        ----------
        query : SignedQuery
        ids : buffer of int64
            Signatures, in any order, repeated or not.
        least : int
            Fewest equal slots.
        source : buffer of uint16, or int
            All rows, or the descriptor of a file with them.
        offset : int
            Where they begin in that file.
        n : int
            How many there are.

        Raises
        ------
        IndexError
            An id is n or more, or negative.
        OSError, ValueError
            The file cannot be read, or ends too early.
        """
        params = self.params
        agreeing: Agreeing = kernel.compare_found(
            query.row, ids, least, source, offset, n,
            params.row_words, params.bands, params.rows, params.slot_bits == 1,
        )  # fmt: skip
        return agreeing

    def levels_with(self, query: SignedQuery, contents: Sequence[Any]) -> list[float]:
        """Return the exact level of a query, signed with its point, and each of some contents."""
        point, points = self.point_of(query), self.points(contents)
        levels: list[float] = self.levels([point] * len(points), points).tolist()
        return levels

    def gather(self, contents: Sequence[Any]) -> Any:
        """Return the points of contents as :meth:`levels_among` takes them."""
        return self.points(contents)

    def levels_among(
        self,
        left: Any,
        left_places: NDArray[np.int64],
        right: Any,
        right_places: NDArray[np.int64],
    ) -> NDArray[np.float64]:
        """Return exact levels of points side by side, by their places among gathered ones.

        Parameters
        ----------
        left, right
            What :meth:`gather` returned.
        left_places, right_places : ndarray of int64, shape (n,)
        """
        return self.levels(
            [left[place] for place in left_places.tolist()],
            [right[place] for place in right_places.tolist()],
        )

    @abstractmethod
    def levels(self, left: Sequence[Point], right: Sequence[Point]) -> NDArray[np.float64]:
        """Return exact levels of point left[i] and point right[i] (float64, shape (n,))."""

    def screen(self, asking: NDArray[Any], least: float) -> Screen:
        """Return what tells which rows of the vector file may be at a level to some of them.

        It may let too much pass, and never too little; :meth:`levels` decides. By default
        everything passes.

        Parameters
        ----------
        asking : ndarray, shape (n, vector_columns)
        least : float
            The level.
        """
        return lambda rows: may_be_near(np.ones((len(asking), len(rows)), dtype=np.bool_))

    def compare(self, left: Any, right: Any) -> float:
        """Return the exact level of two contents; 0 for two without elements."""
        return float(self.levels(self.points([left]), self.points([right]))[0])

    def elements(self, content: Any) -> list[str] | None:
        """Return the elements of a content as texts, for people; None if it is not a set."""
        return None

    def alternatives(self, point: Point, level: float) -> Alternatives | None:
        """Return the slot values of points at a level from a query; None if it has no neighbours.

        Parameters
        ----------
        point : Point
            The query.
        level : float
        """
        return None

    def n_unassigned(self, content: Any) -> int:
        """Count the characters of a content that this interpreter's Unicode does not assign."""
        return 0


def _as_in_file(row: NDArray[Any]) -> bytes:
    return row.astype(row.dtype.newbyteorder("<")).tobytes()
