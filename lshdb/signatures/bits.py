"""Families that sample bits: metrics ``hamming`` and ``jaccard-bits``, and ``l1`` in unary code.

Bits are stored eight to a byte, the first as the most significant, as in ``numpy.packbits``, with
zeros after the last. A body can be

    a str of dim characters 0 and 1            "01101000"
    a str of hexadecimal digits, two a byte    "68", in either case; read if not the former
    a list of dim numbers 0 and 1, or of booleans
    an array of booleans, shape (dim,)
    an array of uint8, or bytes: packed

A body with bits set past the last one is refused.

Metric ``hamming``, scheme ``bits``: slot j is bit p_j of the dim, where p_j is place j of the
purpose COMPONENTS, drawn with replacement. Strings that differ in d bits are equal in a slot with
probability 1 - d / dim, so the family is (d1, d2, 1 - d1 / dim, 1 - d2 / dim)-sensitive (Indyk and
Motwani, STOC 1998; Mining of Massive Datasets, section 3.7.1). The exact distance is the number of
bits that differ.

Metric ``jaccard-bits``: a bit string is the set of places of its set bits, signed by min-hash. The
element of place i (0 for the first bit) is mix64(i + 1), and the schemes are those of texts
(``minhash.py``): slots are words, equal with probability J, so for J1 > J2 the family
is (1 - J1, 1 - J2, J1, J2)-sensitive. The exact J is the number of bits set in both over the number
set in either; for two strings without a set bit it is 0.

Metric ``l1``, scheme ``unary``, for small whole numbers: the slots are sampled bits of a unary code
that is never written out. The code of x (0 to m) is x ones and m - x zeros. Two codes differ in as
many bits as the numbers are apart, so l1 becomes Hamming distance (Gionis, Indyk, Motwani, VLDB
1999; Mining of Massive Datasets, sections 3.5.5 and 3.7.1). Slot j, one bit, is 1 if
x[i_j] >= t_j: i_j is place j of the purpose COMPONENTS among the dim, and t_j, 1 to m, is one more
than place j of the purpose CUTS among the m. Vectors at distance d are equal in a slot with
probability 1 - d / (dim m), so the family is
(d1, d2, 1 - d1 / (dim m), 1 - d2 / (dim m))-sensitive. m is the width of the parameters.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from lshdb.arrays import count_bits
from lshdb.kernel.random_numbers import Purpose, mix64, places
from lshdb.signatures.dense import (
    SLACK,
    TAXICAB,
    VectorFamily,
    blocks,
    pack_bits,
    refuse_masked,
    screen_one_by_one,
    stack,
)
from lshdb.signatures.family import Alternatives, Family, Screen
from lshdb.signatures.sets import sketch

if TYPE_CHECKING:
    from lshdb.params.index_params import IndexParams

__all__ = [
    "BitFamily",
    "BitSetFamily",
    "SampledBitFamily",
    "UnaryFamily",
    "even_flips",
    "refuse_bits",
    "to_packed",
]


Bytes = NDArray[np.uint8]

_HEX = "0123456789abcdefABCDEF"


def refuse_bits(body: object, dim: int) -> str | None:
    """Return why a body is not dim bits, in one line; None if it is."""
    if isinstance(body, str):
        return _refuse_text(body, dim)
    if isinstance(body, list | tuple):
        return _refuse_list(body, dim)
    if isinstance(body, bytes):
        body = np.frombuffer(body, dtype=np.uint8)
    if not isinstance(body, np.ndarray):
        return f"the bits are of type {type(body).__name__}, expected a string or an array"
    if (masked := refuse_masked(body)) is not None:
        return masked
    if body.dtype == np.bool_:
        if body.shape != (dim,):
            return f"the array of booleans has shape {body.shape}, expected ({dim},)"
        return None
    if body.dtype == np.uint8 and body.shape == (dim,) != (-(-dim // 8),):
        return None if body.max() <= 1 else f"one of {dim} bits is {body.max()}, expected 0 or 1"
    if body.dtype != np.uint8:
        return f"the bits are an array of {body.dtype}, expected bool, or uint8 with packed bits"
    n_bytes = -(-dim // 8)
    if body.shape != (n_bytes,):
        return f"the packed bits have shape {body.shape}, expected ({n_bytes},) for {dim} bits"
    return _refuse_rest(int(body[-1]), dim)


def _refuse_text(body: str, dim: int) -> str | None:
    if len(body) == dim and not body.strip("01"):
        return None
    n_digits = 2 * -(-dim // 8)
    if len(body) not in (dim, n_digits):
        return (
            f"the string has {len(body)} characters, expected {dim} digits 0 and 1, or {n_digits} "
            "hexadecimal digits"
        )
    allowed, name = (_HEX, "a hexadecimal digit") if len(body) == n_digits else ("01", "0 or 1")
    for place, character in enumerate(body, start=1):
        if character not in allowed:
            return f"character {place} of the string is {character!r}, expected {name}"
    return _refuse_rest(int(body[-2:], 16), dim)


def _refuse_list(body: Sequence[object], dim: int) -> str | None:
    if len(body) != dim:
        return f"the list has {len(body)} bits, expected {dim}"
    for place, value in enumerate(body, start=1):
        is_bit = isinstance(value, int | np.integer | np.bool_) and value in (0, 1)
        if not is_bit:
            return f"bit {place} of the list is {value!r:.40}, expected 0 or 1"
    return None


def _refuse_rest(last: int, dim: int) -> str | None:
    """Return why the last byte of packed bits is wrong."""
    if last & (0xFF >> (dim % 8 or 8)):
        return f"the last byte is {last:#04x}, but bits past number {dim} must be 0"
    return None


def to_packed(body: Any, dim: int) -> Bytes:
    """Return the packed bits of an accepted body; perhaps the body itself."""
    if isinstance(body, str):
        if len(body) == dim and not body.strip("01"):
            return np.packbits(np.frombuffer(body.encode("ascii"), dtype=np.uint8) & 1)
        return np.frombuffer(bytes.fromhex(body), dtype=np.uint8)
    if isinstance(body, bytes):
        body = np.frombuffer(body, dtype=np.uint8)
    array = np.asarray(body)
    if array.dtype == np.uint8 and isinstance(body, np.ndarray) and len(array) == -(-dim // 8):
        return array
    return np.packbits(array.astype(np.bool_))


def even_flips(point_row: NDArray[np.uint16], num_perm: int, same: float) -> Alternatives:
    """Return the other bit of each slot, if all slots are equal with one probability.

    Parameters
    ----------
    point_row : ndarray of uint16, shape (words,)
        The query's own signature.
    num_perm : int
    same : float
    """
    packed = point_row.astype("<u2").view(np.uint8)
    values = 1 - np.unpackbits(packed, bitorder="little")[:num_perm].astype(np.uint16)
    return Alternatives(
        np.full(num_perm, same), np.full((num_perm, 1), 1.0 - same), values[:, None]
    )


class BitFamily(Family):
    """Families of bit strings.

    Parameters
    ----------
    params : IndexParams
    """

    def __init__(self, params: IndexParams) -> None:
        super().__init__(params)
        self.dim = params.dim
        self._n_bytes = params.vector_columns

    def refusal(self, body: object) -> str | None:
        """Return why a body is not a bit string of the index's length."""
        return refuse_bits(body, self.dim)

    def contents(self, bodies: Sequence[Any]) -> list[Any]:
        """Return packed bits, uint8: rows of one array (shape (ceil(dim / 8),) each)."""
        rows = np.empty((len(bodies), self._n_bytes), dtype=np.uint8)
        for row, body in zip(rows, bodies, strict=True):
            row[:] = to_packed(body, self.dim)
        return list(rows)

    def points(self, contents: Sequence[Any]) -> list[Bytes]:
        """Return the contents themselves."""
        return list(contents)


def _words(rows: Bytes) -> NDArray[np.uint64]:
    """Return packed bits in words of 64."""
    padded = np.zeros((len(rows), -(-rows.shape[1] // 8) * 8), dtype=np.uint8)
    padded[:, : rows.shape[1]] = rows
    return padded.view(np.uint64)


class SampledBitFamily(BitFamily):
    """Metric ``hamming``, scheme ``bits``.

    Parameters
    ----------
    params : IndexParams

    Notes
    -----
    O(dim + K) per string.
    """

    def __init__(self, params: IndexParams) -> None:
        super().__init__(params)
        self._places = places(params.seed, Purpose.COMPONENTS, params.num_perm, params.dim)

    def size(self, point: Bytes) -> int:
        """Return the number of bits, set or not."""
        return self.dim

    def sign(self, points: Sequence[Bytes]) -> NDArray[np.uint16]:
        """Return the sampled bits, 16 to a word."""
        rows = np.empty((len(points), self.params.row_words), dtype=np.uint16)
        for begin, end in blocks(len(points), 8 * self._n_bytes + self.params.num_perm):
            bits = np.unpackbits(stack(points[begin:end]), axis=1)
            rows[begin:end] = pack_bits(np.take(bits, self._places, axis=1))
        return rows

    def levels(self, left: Sequence[Bytes], right: Sequence[Bytes]) -> NDArray[np.float64]:
        """Return minus the number of bits that differ; O(dim / 8) per pair."""
        levels = np.empty(len(left), dtype=np.float64)
        for begin, end in blocks(len(left), self._n_bytes):
            apart = stack(left[begin:end]) ^ stack(right[begin:end])
            levels[begin:end] = 0.0 - count_bits(apart)
        return levels

    def screen(self, asking: Bytes, least: float) -> Screen:
        """Screen by counting the bits that differ."""
        return screen_one_by_one(
            _words(asking), lambda row, rows: count_bits(rows ^ row) <= -least, _words
        )

    def alternatives(self, point: Bytes, level: float) -> Alternatives:
        """Return the other bit of each slot, with probability d / dim: any bit may differ."""
        same = self.params.curve.probability(level)
        return even_flips(self.sign([point])[0], self.params.num_perm, same)


_WORK_PER_BIT = 16


class BitSetFamily(BitFamily):
    """Jaccard similarity of bit strings.

    Parameters
    ----------
    params : IndexParams

    Notes
    -----
    O(dim + n + K log K) for n set bits with scheme ``fss``, O(dim + n K) with ``universal``.
    """

    def __init__(self, params: IndexParams) -> None:
        super().__init__(params)
        self._elements = mix64(np.arange(1, params.dim + 1, dtype=np.uint64))

    def size(self, point: Bytes) -> int:
        """Return the number of set bits."""
        return int.from_bytes(point.tobytes(), "big").bit_count()

    def sign(self, points: Sequence[Bytes]) -> NDArray[np.uint16]:
        """Return min-hash signatures of strings with a set bit."""
        params = self.params
        rows = np.empty((len(points), params.num_perm), dtype=np.uint16)
        for begin, end in blocks(len(points), _WORK_PER_BIT * self.dim):
            bits = np.unpackbits(stack(points[begin:end]), axis=1)
            owners, set_bits = np.nonzero(bits)
            rows[begin:end] = sketch(
                self._elements[set_bits],
                np.bincount(owners, minlength=end - begin).astype(np.int64),
                scheme=params.scheme,
                num_perm=params.num_perm,
                seed=params.seed,
            )
        return rows

    def levels(self, left: Sequence[Bytes], right: Sequence[Bytes]) -> NDArray[np.float64]:
        """Return Jaccard similarities; O(dim / 8) per pair."""
        levels = np.zeros(len(left), dtype=np.float64)
        for begin, end in blocks(len(left), self._n_bytes):
            pair = stack(left[begin:end]), stack(right[begin:end])
            either = count_bits(pair[0] | pair[1])
            np.divide(count_bits(pair[0] & pair[1]), either, levels[begin:end], where=either > 0)
        return levels

    def screen(self, asking: Bytes, least: float) -> Screen:
        """Screen by counting the bits that are set in both, and in either."""

        def near(row: NDArray[np.uint64], prepared: Any) -> NDArray[np.bool_]:
            rows, sizes = prepared
            common = count_bits(rows & row)
            either = sizes + count_bits(row[None])[0] - common
            are_near: NDArray[np.bool_] = common >= (least - SLACK) * either
            return are_near

        def words_and_sizes(rows: Bytes) -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
            words = _words(rows)
            return words, count_bits(words)

        return screen_one_by_one(_words(asking), near, words_and_sizes)


class UnaryFamily(VectorFamily):
    """Scheme ``unary``.

    Parameters
    ----------
    params : IndexParams

    Notes
    -----
    O(K) per vector.
    """

    measure = TAXICAB

    def __init__(self, params: IndexParams) -> None:
        super().__init__(params)
        self._largest = int(params.width)
        self._places = places(params.seed, Purpose.COMPONENTS, params.num_perm, params.dim)
        cuts = places(params.seed, Purpose.CUTS, params.num_perm, self._largest) + 1
        self._cuts = cuts.astype(np.float32)  # exact for whole numbers up to 2^16

    def _refuse_numbers(self, array: NDArray[Any]) -> str | None:
        reason = super()._refuse_numbers(array)
        if reason is not None:
            return reason
        rounded = array.astype(self.dtype, copy=False)
        good = (rounded >= 0) & (rounded <= self._largest)
        if self.dtype.kind == "f":
            good &= rounded == np.floor(rounded)
        if good.all():
            return None
        place = int(np.argmin(good))
        return (
            f"number {place + 1} is {array[place]!s}, but scheme unary takes whole numbers "
            f"from 0 to {self._largest}"
        )

    def sign(self, points: Sequence[NDArray[Any]]) -> NDArray[np.uint16]:
        """Return the sampled bits of the code, 16 to a word."""
        rows = np.empty((len(points), self.params.row_words), dtype=np.uint16)
        for begin, end in blocks(len(points), 8 * max(self.dim, self.params.num_perm)):
            sampled = np.take(stack(points[begin:end]), self._places, axis=1)
            rows[begin:end] = pack_bits(sampled >= self._cuts)
        return rows

    def alternatives(self, point: NDArray[Any], level: float) -> Alternatives:
        """Return the other bit of each slot, with one probability: any number may differ."""
        same = self.params.curve.probability(level)
        return even_flips(self.sign([point])[0], self.params.num_perm, same)
