"""Common parts of the metrics of vectors: which bodies are accepted, and exact comparison.

The content of a body is its numbers in the index's dtype, which is also its point. A body that
needs rounding, as from float64 to float32, is rounded once, and then signed and compared in its
rounded form. Signatures and levels are computed in float64. The exact values are

    cosine   x.y / sqrt(x.x y.y), cut to [-1, 1]; exactly 1 for equal vectors
    l1       sum of |x_i - y_i|
    l2       square root of the sum of (x_i - y_i)^2
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from lshdb.signatures.family import Family

if TYPE_CHECKING:
    from lshdb.params.index_params import IndexParams

__all__ = ["BLOCK_BYTES", "VectorFamily", "blocks", "pack_bits", "stack"]

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


def pack_bits(bits: NDArray[Any]) -> NDArray[np.uint32]:
    """Pack one-bit slots (bool, shape (n, K)): slot j becomes bit j % 32 of word j // 32."""
    packed = np.ascontiguousarray(np.packbits(bits, axis=1, bitorder="little"))
    return packed.view("<u4").astype(np.uint32, copy=False)


def _cosines(left: Floats, right: Floats) -> Floats:
    squares = [np.einsum("ij,ij->i", rows, rows) for rows in (left, right)]
    found: Floats = np.einsum("ij,ij->i", left, right)
    found /= np.sqrt(squares[0])
    found /= np.sqrt(squares[1])
    np.clip(found, -1.0, 1.0, out=found)
    near = np.flatnonzero(found > 1.0 - 1e-9)
    found[near[(left[near] == right[near]).all(axis=1)]] = 1.0
    return found


def _taxicab(left: Floats, right: Floats) -> Floats:
    found: Floats = 0.0 - np.abs(left - right).sum(axis=1)
    return found


def _euclidean(left: Floats, right: Floats) -> Floats:
    apart = left - right
    found: Floats = 0.0 - np.sqrt(np.einsum("ij,ij->i", apart, apart))
    return found


_MEASURES: dict[str, Callable[[Floats, Floats], Floats]] = {
    "cosine": _cosines,
    "l1": _taxicab,
    "l2": _euclidean,
}


class VectorFamily(Family):
    """Families of vectors of numbers; subclasses implement :meth:`sign`.

    Parameters
    ----------
    params : IndexParams
    """

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
            return "the vector is zero and has no direction" if self._is_zero(array) else None
        with np.errstate(over="ignore", invalid="ignore"):
            rounded = array.astype(self.dtype, copy=False)
            squares = float(rounded @ rounded)
            if not _LEAST_SQUARES <= squares <= _LARGEST_SQUARES:  # float32 may not hold the sum
                wide = rounded.astype(np.float64)
                squares = float(wide @ wide)
        if not squares <= _LARGEST_SQUARES:
            return self._too_large(array, rounded)
        if squares < _LEAST_SQUARES and self.params.metric == "cosine":
            return "the vector is zero or nearly zero and has no direction"
        return None

    def _is_zero(self, array: Vector) -> bool:
        return self.params.metric == "cosine" and not array.any()

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
        measure = _MEASURES[self.params.metric]
        found = np.empty(len(left), dtype=np.float64)
        for begin, end in blocks(len(left), 8 * self.dim):
            found[begin:end] = measure(
                stack(left[begin:end]).astype(np.float64),
                stack(right[begin:end]).astype(np.float64),
            )
        return found


def _numbers_of(body: object) -> Vector | str:
    """Return a body as an array of numbers, or why it cannot be one."""
    if isinstance(body, np.ndarray):
        if body.dtype.kind in "fiu":
            return body
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
