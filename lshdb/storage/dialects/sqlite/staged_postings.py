"""Sorted postings as a staged database, from which one statement copies them into a run.

NumPy lays the pages of a B-tree out. Into an empty table of the same definition SQLite copies
records as they are ("transfer optimisation"), without the interpreter's lock.

    page 1           what ``staged_database.py`` writes
    page 2           root of the table: a posting between each two leaves
    page 3 and on    leaves, all equally full

All records are of one length. A posting takes a length, a header of three bytes (its own length,
the types of both columns), the key in 8 bytes, and the signature in as many as the largest needs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lshdb.arrays import np
from lshdb.storage.dialects.sqlite.staged_database import PAGE, describe, put

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["MOST_POSTINGS", "STAGED_TABLE", "database_of_postings"]

STAGED_TABLE = "posting"
_KEY_LEAF, _KEY_ROOT = 10, 2
_LEAF_HEADER, _ROOT_HEADER = 8, 12
_KEY_BYTES = 8
_TYPES = {1: 1, 2: 2, 3: 3, 4: 4, 6: 5, 8: 6}
"""How a record names a whole number of so many bytes."""
_CHILD, _POINTER = 4, 2
_RECORD_HEAD = 4
_MOST_BYTES = _RECORD_HEAD + _KEY_BYTES + max(_TYPES)
_MOST_LEAVES = (PAGE - _ROOT_HEADER) // (_CHILD + _MOST_BYTES + _POINTER) + 1
MOST_POSTINGS = _MOST_LEAVES * ((PAGE - _LEAF_HEADER) // (_MOST_BYTES + _POINTER)) - 1
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

    def put_records(records: NDArray[np.uint8], some: slice | NDArray[np.int64]) -> None:
        """Write postings as records, uint8 of shape (m, size)."""
        records[:, :_RECORD_HEAD] = head
        records[:, _RECORD_HEAD:-width] = _big_endian(keys[some])
        records[:, -width:] = _big_endian(signature_ids[some])[:, -width:]

    n, most = len(keys), (PAGE - _LEAF_HEADER) // (size + _POINTER)
    n_leaves = -(-(n + 1) // (most + 1))
    pages = np.zeros((2 + n_leaves, PAGE), dtype=np.uint8)
    # The last leaf, too, counts a posting behind it, which is not there.
    between = np.arange(1, n_leaves + 1) * (n + 1) // n_leaves - 1
    begin = 0
    for page, end in zip(pages[2:], between.tolist(), strict=True):
        put_records(_cells(page, _KEY_LEAF, _LEAF_HEADER, end - begin, size), slice(begin, end))
        begin = end + 1
    cells = _cells(pages[1], _KEY_ROOT, _ROOT_HEADER, n_leaves - 1, _CHILD + size)
    children = _big_endian(np.arange(3, 3 + n_leaves))[:, -_CHILD:]
    cells[:, :_CHILD] = children[:-1]
    pages[1, _LEAF_HEADER:_ROOT_HEADER] = children[-1]
    put_records(cells[:, _CHILD:], between[:-1])
    describe(pages, STAGED_TABLE, statement.strip())
    return pages.reshape(-1)


def _big_endian(numbers: NDArray[np.int64]) -> NDArray[np.uint8]:
    """Return the 8 bytes of each number."""
    return numbers.astype(">i8").view(np.uint8).reshape(-1, 8)


def _cells(page: NDArray[np.uint8], kind: int, header: int, n: int, size: int) -> NDArray[np.uint8]:
    """Write the header of a page with n cells of one size at its end; return those to be filled."""
    start = PAGE - n * size
    put(page, 0, ">BHHHB", kind, 0, n, start % PAGE, 0)  # 0 stands for 65,536
    pointers = np.arange(start, PAGE, size).astype(">u2")
    page[header : header + _POINTER * n] = pointers.view(np.uint8)
    return page[start:].reshape(n, size)
