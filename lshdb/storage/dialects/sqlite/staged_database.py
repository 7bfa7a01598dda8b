"""A database of one table, from which one statement copies rows; a module of its own.

The driver takes values one by one, as Python objects, and holds the interpreter's lock meanwhile.
So pages are laid out in SQLite's file format (https://sqlite.org/fileformat2.html), for the rows of
``staged_rows.py``, and given to SQLite as an attached database in memory. What SQLite writes are
rows like any others.

    page 1           header of the file; the one row of the schema, which names a table
    page 2           root of the table
    page 3 and on    its other pages
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

from lshdb.arrays import np

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["PAGE", "describe", "empty_database", "put"]

PAGE = 65_536
"""The largest there is, so that one root has room for all leaves."""
_TABLE_LEAF = 13
_FILE_HEADER = 100


def describe(first: NDArray[np.uint8], n_pages: int, table: str, statement: str) -> None:
    """Write the first page: the header of the file, and the schema with one table or none.

    Parameters
    ----------
    first : ndarray of uint8, shape (PAGE,)
        Empty.
    n_pages : int
        How many there are.
    statement : str
        What makes the table; empty if there is none. Of at most a few thousand characters.
    """
    put(
        first, 0, ">16sHBBBBBBII", b"SQLite format 3\0", 1, 1, 1, 0, 64, 32, 32, 1, n_pages
    )  # a page size of 65,536 is written as 1
    put(first, 40, ">II", 1, 4)  # schema cookie, schema format
    put(first, 56, ">I", 1)  # UTF-8
    put(first, 92, ">I", 1)  # the number of pages above is valid
    put(first, _FILE_HEADER, ">BHHHB", _TABLE_LEAF, 0, 0, 0, 0)
    if not statement:
        return
    texts = [b"table", table.encode(), table.encode(), statement.encode()]
    types = [_varint(13 + 2 * len(text)) for text in texts]
    types.insert(3, b"\1")  # the number of the root, in a byte
    header = b"".join(types)
    record = bytes([len(header) + 1]) + header + b"".join(texts[:3]) + b"\2" + texts[3]
    cell = _varint(len(record)) + b"\1" + record
    start = PAGE - len(cell)
    first[start:] = np.frombuffer(cell, dtype=np.uint8)
    put(first, _FILE_HEADER, ">BHHHBH", _TABLE_LEAF, 0, 1, start, 0, start)


def empty_database() -> NDArray[np.uint8]:
    """Return what takes the place of rows that have been copied, and so frees their memory."""
    page = np.zeros(PAGE, dtype=np.uint8)
    describe(page, 1, "", "")
    return page


def put(page: NDArray[np.uint8], place: int, form: str, *values: int | bytes) -> None:
    """Write values to a place of a page, in a form of ``struct``."""
    struct.pack_into(form, page.data, place, *values)


def _varint(number: int) -> bytes:
    """Return a number below 2^14 as SQLite's variable-length integer."""
    return bytes([number]) if number < 128 else bytes([number >> 7 | 128, number & 127])
