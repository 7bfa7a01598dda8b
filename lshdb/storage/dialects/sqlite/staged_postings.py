"""Sorted postings as a database in memory, from which one statement copies them into a run.

The driver takes values one by one, as Python objects, and holds the interpreter's lock meanwhile.
So the pages of a B-tree are laid out by NumPy instead, in SQLite's file format
(https://sqlite.org/fileformat2.html), and given to SQLite as an attached database. Into an empty
table of the same definition it copies records as they are ("transfer optimisation"), without the
lock. Nothing of this is on disk: what SQLite writes is a run as any other.

    page 1           header of the file; the one row of the schema: a table without a rowid
    page 2           root of the table: a posting between each two leaves
    page 3 and on    leaves, all equally full

All records are of one length. A posting takes a length, a header of three bytes (its own length,
the types of both columns), the key in 8 bytes, and the signature in as many as the largest needs.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

from lshdb.arrays import np

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["MOST_POSTINGS", "STAGED_TABLE", "database_of_postings", "empty_database"]

STAGED_TABLE = "posting"
_PAGE = 65_536
"""The largest there is, so that one root has room for all leaves."""
_TABLE_LEAF, _KEY_LEAF, _KEY_ROOT = 13, 10, 2
_LEAF_HEADER, _ROOT_HEADER = 8, 12
_FILE_HEADER = 100
_KEY_BYTES = 8
_TYPES = {1: 1, 2: 2, 3: 3, 4: 4, 6: 5, 8: 6}
"""How a record names a whole number of so many bytes."""
_CHILD, _POINTER = 4, 2
_RECORD_HEAD = 4
_MOST_BYTES = _RECORD_HEAD + _KEY_BYTES + max(_TYPES)
_MOST_LEAVES = (_PAGE - _ROOT_HEADER) // (_CHILD + _MOST_BYTES + _POINTER) + 1
MOST_POSTINGS = _MOST_LEAVES * ((_PAGE - _LEAF_HEADER) // (_MOST_BYTES + _POINTER)) - 1
"""Eight million; a batch of an add with 200 bands has as many."""


def database_of_postings(
    statement: str, keys: NDArray[np.int64], signature_ids: NDArray[np.int64]
) -> NDArray[np.uint8]:
    """Return a database with one table of postings.

    Parameters
    ----------
    statement : str
        What makes the table :data:`STAGED_TABLE`, as the run that it is copied to was made.
    keys, signature_ids : ndarray of int64, shape (n,)
        In order of both; more than fit on one page, 5,000, and up to :data:`MOST_POSTINGS`.

    Returns
    -------
    ndarray of uint8
        17 bytes a posting as a rule, in 40 ns.
    """
    largest = int(signature_ids.max())
    width = next(width for width in _TYPES if largest < 1 << (8 * width - 1))
    size = _RECORD_HEAD + _KEY_BYTES + width
    head = np.array([size - 1, 3, _TYPES[_KEY_BYTES], _TYPES[width]], dtype=np.uint8)

    def put(records: NDArray[np.uint8], some: slice | NDArray[np.int64]) -> None:
        """Write postings as records, uint8 of shape (m, size)."""
        records[:, :_RECORD_HEAD] = head
        records[:, _RECORD_HEAD:-width] = _big_endian(keys[some])
        records[:, -width:] = _big_endian(signature_ids[some])[:, -width:]

    n, most = len(keys), (_PAGE - _LEAF_HEADER) // (size + _POINTER)
    n_leaves = -(-(n + 1) // (most + 1))
    pages = np.zeros((2 + n_leaves, _PAGE), dtype=np.uint8)
    # The last leaf, too, counts a posting behind it, which is not there.
    between = np.arange(1, n_leaves + 1) * (n + 1) // n_leaves - 1
    begin = 0
    for page, end in zip(pages[2:], between.tolist(), strict=True):
        put(_cells(page, _KEY_LEAF, _LEAF_HEADER, end - begin, size), slice(begin, end))
        begin = end + 1
    cells = _cells(pages[1], _KEY_ROOT, _ROOT_HEADER, n_leaves - 1, _CHILD + size)
    children = _big_endian(np.arange(3, 3 + n_leaves))[:, -_CHILD:]
    cells[:, :_CHILD] = children[:-1]
    pages[1, _LEAF_HEADER:_ROOT_HEADER] = children[-1]
    put(cells[:, _CHILD:], between[:-1])
    _describe(pages, statement.strip())
    return pages.reshape(-1)


def empty_database() -> NDArray[np.uint8]:
    """Return what takes the place of postings that have been copied, and so frees their memory."""
    page = np.zeros((1, _PAGE), dtype=np.uint8)
    _describe(page, "")
    return page.reshape(-1)


def _big_endian(numbers: NDArray[np.int64]) -> NDArray[np.uint8]:
    """Return the 8 bytes of each number."""
    return numbers.astype(">i8").view(np.uint8).reshape(-1, 8)


def _cells(page: NDArray[np.uint8], kind: int, header: int, n: int, size: int) -> NDArray[np.uint8]:
    """Write the header of a page with n cells of one size at its end; return those to be filled."""
    start = _PAGE - n * size
    _put(page, 0, ">BHHHB", kind, 0, n, start % _PAGE, 0)  # 0 stands for 65,536
    pointers = np.arange(start, _PAGE, size).astype(">u2")
    page[header : header + _POINTER * n] = pointers.view(np.uint8)
    return page[start:].reshape(n, size)


def _describe(pages: NDArray[np.uint8], statement: str) -> None:
    """Write the first page: the header of the file, and the schema with one table or none."""
    first = pages[0]
    _put(
        first, 0, ">16sHBBBBBBII", b"SQLite format 3\0", 1, 1, 1, 0, 64, 32, 32, 1, len(pages)
    )  # a page size of 65,536 is written as 1
    _put(first, 40, ">II", 1, 4)  # schema cookie, schema format
    _put(first, 56, ">I", 1)  # UTF-8
    _put(first, 92, ">I", 1)  # the number of pages above is valid
    _put(first, _FILE_HEADER, ">BHHHB", _TABLE_LEAF, 0, 0, 0, 0)
    if not statement:
        return
    texts = [b"table", STAGED_TABLE.encode(), STAGED_TABLE.encode(), statement.encode()]
    types = [_varint(13 + 2 * len(one)) for one in texts]
    types.insert(3, b"\1")  # the number of the root, in a byte
    header = b"".join(types)
    record = bytes([len(header) + 1]) + header + b"".join(texts[:3]) + b"\2" + texts[3]
    cell = _varint(len(record)) + b"\1" + record
    start = _PAGE - len(cell)
    first[start:] = np.frombuffer(cell, dtype=np.uint8)
    _put(first, _FILE_HEADER, ">BHHHBH", _TABLE_LEAF, 0, 1, start, 0, start)


def _put(page: NDArray[np.uint8], place: int, form: str, *values: int | bytes) -> None:
    struct.pack_into(form, page.data, place, *values)


def _varint(number: int) -> bytes:
    """Return a number below 2^14 as SQLite's variable-length integer."""
    return bytes([number]) if number < 128 else bytes([number >> 7 | 128, number & 127])
