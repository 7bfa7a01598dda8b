"""Whole numbers between NumPy and the server, without a Python object for each.

PostgreSQL's binary form of an array (``array_send`` in its ``arrayfuncs.c``) is a header of five
32-bit numbers, big-endian: dimensions, whether there is a NULL, the type of the elements, and for
the one dimension its length and first index. Then each element follows its length in bytes. Rows of
COPY in its binary form are also values after their lengths. Both have a fixed width if all values
do, so NumPy makes and reads them as records.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import psycopg
from numpy.typing import NDArray
from psycopg.abc import AdaptContext, Buffer
from psycopg.adapt import Dumper, Loader
from psycopg.pq import Format
from psycopg.types.numeric import Int8BinaryDumper, NumericBinaryLoader

__all__ = ["register_arrays", "rows_to_copy"]

_INT8, _INT8_ARRAY = 20, 1016
"""Numbers of the types bigint and bigint[], which never change."""
_ELEMENT = np.dtype([("length", ">i4"), ("value", ">i8")])
_HEADER = struct.Struct(">5i")
_EMPTY_BYTES = 12
"""An empty array has no dimension; its header has no length and no first index."""

_COPY_HEADER = b"PGCOPY\n\xff\r\n\x00" + bytes(8)
_COPY_TRAILER = b"\xff\xff"


class _ArrayDumper(Dumper):
    """An ndarray of int64 as a bigint[]."""

    format = Format.BINARY
    oid = _INT8_ARRAY

    def dump(self, obj: NDArray[np.int64]) -> Buffer:
        if not len(obj):
            return _HEADER.pack(0, 0, _INT8, 0, 0)[:_EMPTY_BYTES]
        elements = np.empty(len(obj), dtype=_ELEMENT)
        elements["length"] = 8
        elements["value"] = obj
        return _HEADER.pack(1, 0, _INT8, len(obj), 1) + elements.tobytes()


class _ArrayLoader(Loader):
    """A bigint[] of one dimension, without NULLs, as an ndarray of int64."""

    format = Format.BINARY

    def load(self, data: Buffer) -> NDArray[np.int64]:
        if len(data) == _EMPTY_BYTES:
            return np.empty(0, dtype=np.int64)
        return np.frombuffer(data, dtype=_ELEMENT, offset=_HEADER.size)["value"].astype(np.int64)


class _BinaryNumericLoader(NumericBinaryLoader):
    """A numeric, the type of sums of whole numbers, as an int if it is whole."""

    def load(self, data: Buffer) -> Any:
        value = super().load(data)
        return int(value) if value == value.to_integral_value() else float(value)


def register_arrays(context: AdaptContext | psycopg.Connection[Any]) -> None:
    """Let a connection take and give arrays, and take every whole number as a bigint.

    Otherwise the type of a parameter, and with it the prepared statement, would depend on the size
    of the number.
    """
    adapters = context.adapters
    if adapters is not None:
        adapters.register_dumper(np.ndarray, _ArrayDumper)
        adapters.register_dumper(int, Int8BinaryDumper)
        adapters.register_loader(_INT8_ARRAY, _ArrayLoader)
        adapters.register_loader("numeric", _BinaryNumericLoader)


_COPIED_ROWS = 50_000
_WIDTHS = {"int8": 8, "int4": 4}


def rows_to_copy(rows: NDArray[np.int64], types: Sequence[str]) -> Iterator[bytes]:
    """Yield rows of whole numbers in the binary form of COPY.

    Parameters
    ----------
    rows : ndarray of int64, shape (n, columns)
    types : sequence of str
        The type of each column: int8 or int4.
    """
    fields: list[tuple[str, str]] = [("count", ">i2")]
    for place, name in enumerate(types):
        fields += [(f"length{place}", ">i4"), (f"value{place}", f">i{_WIDTHS[name]}")]
    yield _COPY_HEADER
    for start in range(0, len(rows), _COPIED_ROWS):
        part = rows[start : start + _COPIED_ROWS]
        records = np.empty(len(part), dtype=np.dtype(fields))
        records["count"] = len(types)
        for place, name in enumerate(types):
            records[f"length{place}"] = _WIDTHS[name]
            records[f"value{place}"] = part[:, place]
        yield records.tobytes()
    yield _COPY_TRAILER
