"""Common parts of the metrics of vectors: which bodies are accepted, and exact comparison.

The content of a body is its numbers in the index's dtype, which is also its point. A body that
needs rounding, as from float64 to float32, is rounded once, and then signed and compared in its
rounded form. Signatures and levels are computed in float64. The exact values are

    cosine   x.y / sqrt(x.x y.y), cut to [-1, 1]; exactly 1 for a vector, its double, and so on
    l1       sum of |x_i - y_i|
    l2       square root of the sum of (x_i - y_i)^2
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from lshdb.signatures.family import Family, Screen, may_be_near

if TYPE_CHECKING:
    from lshdb.params.index_params import IndexParams

__all__ = [
    "BLOCK_BYTES",
    "COSINE",
    "EUCLIDEAN",
    "SLACK",
    "TAXICAB",
    "Measure",
    "VectorFamily",
    "blocks",
    "pack_bits",
    "refuse_masked",
    "screen_one_by_one",
    "stack",
]

Floats = NDArray[np.float64]
Vector = NDArray[Any]

BLOCK_BYTES = 32 << 20
"""Working memory of a step over many rows, in bytes per array."""

_LARGEST_SQUARES = 1e300
"""Largest sum of a vector's squares; a difference of two vectors still has a finite one."""
_LEAST_SQUARES = 1e-300


def blocks(n_rows: int, row_bytes: int) -> Iterator[tuple[int, int]]:
    """Yield begin and end of blocks of at most ``BLOCK_BYTES``, or of one row."""
    step = max(1, BLOCK_BYTES // max(1, row_bytes))
    for begin in range(0, n_rows, step):
        yield begin, min(begin + step, n_rows)


def stack(rows: Sequence[Vector]) -> NDArray[Any]:
    """Copy rows of one length and dtype into one array of two axes; such an array is returned."""
    if isinstance(rows, np.ndarray) and rows.ndim == 2:
        return rows
    return np.concatenate(rows).reshape(len(rows), -1)


def pack_bits(bits: NDArray[Any]) -> NDArray[np.uint16]:
    """Pack one-bit slots (bool, shape (n, K)): slot j becomes bit j % 16 of word j // 16."""
    packed = np.ascontiguousarray(np.packbits(bits, axis=1, bitorder="little"))
    return packed.view("<u2").astype(np.uint16, copy=False)


SLACK = 1e-9
"""Share by which a screen may be off: it may round in another way than :meth:`Family.levels`."""


def screen_one_by_one(
    asking: NDArray[Any], near: Any, prepared: Callable[[NDArray[Any]], Any]
) -> Screen:
    """Screen each asking row by itself.

    Parameters
    ----------
    asking : ndarray
    near : callable
        (asking row, prepared rows) -> which rows may be near to it.
    prepared : callable
        Rows -> what ``near`` takes.
    """

    def screen(rows: NDArray[Any]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        ready = prepared(rows)
        numbers = [np.flatnonzero(near(row, ready)) for row in asking]
        places = np.repeat(np.arange(len(numbers)), [len(part) for part in numbers])
        return places, np.concatenate([np.empty(0, np.int64), *numbers])

    return screen


def _wide(rows: NDArray[Any]) -> Floats:
    return rows.astype(np.float64)


def _cosines(left: Floats, right: Floats) -> Floats:
    squares = [np.einsum("ij,ij->i", rows, rows) for rows in (left, right)]
    cosines: Floats = np.einsum("ij,ij->i", left, right)
    # One root of the product: two divisions round by which vector comes first. The product of the
    # mantissas is in range, and of a vector and its double its root is exact.
    (left_parts, left_powers), (right_parts, right_powers) = map(np.frexp, squares)
    powers = left_powers + right_powers
    odd = powers & 1
    cosines = np.ldexp(cosines, (odd - powers) >> 1)
    cosines /= np.sqrt(np.ldexp(left_parts * right_parts, odd))
    np.clip(cosines, -1.0, 1.0, out=cosines)
    near = np.flatnonzero(cosines > 1.0 - 1e-9)
    cosines[near[(left[near] == right[near]).all(axis=1)]] = 1.0
    return cosines


def _unit(rows: NDArray[Any]) -> NDArray[np.float32]:
    wide = _wide(rows)
    wide /= np.sqrt(np.einsum("ij,ij->i", wide, wide))[:, None]
    return wide.astype(np.float32)


def _screen_cosines(asking: NDArray[Any], least: float) -> Screen:
    own = _unit(asking)
    # Sums of float32 products, each off by at most 2^-24 of itself, in any order.
    lowest = least - 1e-5 - 2e-7 * asking.shape[1]
    return lambda rows: may_be_near(own @ _unit(rows).T >= lowest)


def _taxicab(left: Floats, right: Floats) -> Floats:
    levels: Floats = 0.0 - np.abs(left - right).sum(axis=1)
    return levels


def _screen_taxicab(asking: NDArray[Any], least: float) -> Screen:
    most = -least * (1.0 + SLACK)

    def near(row: Floats, rows: Floats) -> NDArray[np.bool_]:
        apart = rows - row
        are_near: NDArray[np.bool_] = np.abs(apart, out=apart).sum(axis=1) <= most
        return are_near

    return screen_one_by_one(_wide(asking), near, _wide)


def _euclidean(left: Floats, right: Floats) -> Floats:
    apart = left - right
    levels: Floats = 0.0 - np.sqrt(np.einsum("ij,ij->i", apart, apart))
    return levels


def _screen_euclidean(asking: NDArray[Any], least: float) -> Screen:
    own = _wide(asking)
    squares = np.einsum("ij,ij->i", own, own)[:, None]

    def screen(rows: NDArray[Any]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        wide = _wide(rows)
        squared = squares + np.einsum("ij,ij->i", wide, wide)
        # What rounding the sums may lose, as a share of the squares that cancel.
        most = least * least * (1.0 + SLACK) + 1e-14 * (asking.shape[1] + 10) * squared
        return may_be_near(squared - 2.0 * (own @ wide.T) <= most)

    return screen


@dataclass(frozen=True, slots=True)
class Measure:
    """How near vectors are.

    Attributes
    ----------
    levels : callable
        Two arrays of float64, shape (n, dim) -> exact levels, shape (n,).
    screen : callable
        As :meth:`Family.screen`.
    needs_direction : bool
        Whether a vector of zeros has no level to any other.
    """

    levels: Callable[[Floats, Floats], Floats]
    screen: Callable[[NDArray[Any], float], Screen]
    needs_direction: bool = False


COSINE = Measure(_cosines, _screen_cosines, needs_direction=True)
TAXICAB = Measure(_taxicab, _screen_taxicab)
EUCLIDEAN = Measure(_euclidean, _screen_euclidean)


class VectorFamily(Family):
    """Families of vectors of numbers; subclasses set the measure and implement :meth:`sign`.

    Parameters
    ----------
    params : IndexParams
    """

    measure: Measure

    def __init__(self, params: IndexParams) -> None:
        super().__init__(params)
        self.dim = params.dim
        self.dtype = np.dtype(params.dtype)

    def refusal(self, body: object) -> str | None:
        """Return why a body is not a vector of this index.

        Takes a few microseconds; single numbers are examined only if something is wrong.
        """
        array = _numbers_of(body)
        if isinstance(array, str):
            return array
        if array.shape != (self.dim,):
            if array.ndim != 1:
                return f"the vector has {array.ndim} axes, expected one of {self.dim} numbers"
            return f"the vector has {len(array)} numbers, expected {self.dim}"
        return self._refuse_numbers(array)

    def _refuse_numbers(self, array: Vector) -> str | None:
        """Return why numbers of the right count are not a vector of this index."""
        if self.dtype.kind == "u":
            if array.dtype != self.dtype:
                whole = (array >= 0) & (array <= 255)
                whole &= array == np.floor(array)
                if not whole.all():
                    place = int(np.argmin(whole))
                    return (
                        f"number {place + 1} is {array[place]!s}, but uint8 holds whole numbers "
                        "from 0 to 255"
                    )
            if self.measure.needs_direction and not array.any():
                return "the vector is zero and has no direction"
            return None
        with np.errstate(over="ignore", invalid="ignore"):
            rounded = array.astype(self.dtype, copy=False)
            squares = float(rounded @ rounded)
            if not _LEAST_SQUARES <= squares <= _LARGEST_SQUARES:  # float32 may not hold the sum
                wide = rounded.astype(np.float64)
                squares = float(wide @ wide)
        if not squares <= _LARGEST_SQUARES:
            return self._too_large(array, rounded)
        if squares < _LEAST_SQUARES and self.measure.needs_direction:
            return "the vector is zero or nearly zero and has no direction"
        return None

    def _too_large(self, array: Vector, rounded: Vector) -> str:
        """Return what is wrong with a vector whose sum of squares is huge or not a number."""
        for numbers in (array, rounded):
            bad = ~np.isfinite(numbers)
            if not bad.any():
                continue
            place = int(np.argmax(bad))
            value = float(array[place])
            if numbers is array:
                name = "NaN" if np.isnan(value) else "infinity" if value > 0 else "minus infinity"
                return f"number {place + 1} is {name}"
            return f"number {place + 1} is {value:g}, more than {self.dtype} can hold"
        return f"the squares of the numbers sum to more than {_LARGEST_SQUARES:g}"

    def contents(self, bodies: Sequence[Any]) -> list[Any]:
        """Return rows of one array in the index's dtype (shape (dim,) each); -0.0 becomes 0.0."""
        rows = np.empty((len(bodies), self.dim), dtype=self.dtype)
        for row, body in zip(rows, bodies, strict=True):
            row[:] = body
        if self.dtype.kind == "f":
            rows += 0.0
        return list(rows)

    def points(self, contents: Sequence[Any]) -> list[Vector]:
        """Return the contents themselves."""
        return list(contents)

    def levels(self, left: Sequence[Vector], right: Sequence[Vector]) -> Floats:
        """Return cosines, or negated distances, in float64; O(dim) per pair."""
        levels = np.empty(len(left), dtype=np.float64)
        for begin, end in blocks(len(left), 8 * self.dim):
            levels[begin:end] = self.measure.levels(
                _wide(stack(left[begin:end])), _wide(stack(right[begin:end]))
            )
        return levels

    def screen(self, asking: Vector, least: float) -> Screen:
        """Screen by products of matrices, or by sums of differences."""
        return self.measure.screen(asking, least)


def refuse_masked(array: NDArray[Any]) -> str | None:
    """Return why an array of `numpy.ma` is no vector: a part of it is missing."""
    if type(array) is np.ndarray or not np.ma.is_masked(array):
        return None
    place = int(np.argmax(np.ma.getmaskarray(array).ravel()))
    return f"number {place + 1} is masked"


def _numbers_of(body: object) -> Vector | str:
    """Return a body as an array of numbers, or why it cannot be one."""
    if isinstance(body, np.ndarray):
        if (masked := refuse_masked(body)) is not None:
            return masked
        if body.dtype.kind in "fiu":
            return np.asarray(body)
        return f"the vector is an array of {body.dtype}, expected numbers"
    if not isinstance(body, list | tuple):
        return f"the vector is of type {type(body).__name__}, expected an array or list of numbers"
    try:
        array = np.asarray(body)
    except (ValueError, OverflowError):  # lists of several lengths
        array = np.empty(0, dtype=object)
    if array.dtype.kind in "fiu" and array.ndim == 1:
        return array
    for number, value in enumerate(body, start=1):
        is_number = isinstance(value, int | float | np.integer | np.floating)
        if isinstance(value, bool) or not is_number:
            return f"number {number} is of type {type(value).__name__}, expected a number"
        if isinstance(value, int) and abs(value) > _LARGEST_SQUARES:
            return f"number {number} is too large"
    return np.array([float(value) for value in body], dtype=np.float64)
