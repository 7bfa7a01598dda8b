"""Sorted postings as a staged database, from which one statement copies them into a run.

The pages of a B-tree are laid out, leaves by the kernel. Into an empty table of the same definition
SQLite copies records as they are ("transfer optimisation"), without the interpreter's lock.

    page 1           what ``staged_database.py`` writes
    page 2           root of the table: a posting between each two pages below it
    page 3 and on    leaves, full except for the last ones
    behind them      pages between root and leaves, where one root has no room for all leaves

All records are of one length. A posting takes a length, a header of three bytes (its own length,
the types of both columns), the key in 8 bytes, and the signature in as many as the largest needs.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from lshdb.arrays import np
from lshdb.disksort.descriptors import write_at
from lshdb.kernel import compiled
from lshdb.storage.dialects.sqlite.staged_database import PAGE, describe, put

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["STAGED_TABLE", "database_of_postings", "leaf_room", "write_database"]

STAGED_TABLE = "posting"
_LEAF, _INNER = 10, 2
_LEAF_HEADER, _INNER_HEADER = 8, 12
_KEY_BYTES = 8
_TYPES = {1: 1, 2: 2, 3: 3, 4: 4, 6: 5, 8: 6}
"""How a record names a whole number of so many bytes."""
_CHILD, _POINTER = 4, 2
_RECORD_HEAD = 4
_FIRST_LEAF = 3


def database_of_postings(
    statement: str, keys: NDArray[np.int64], signature_ids: NDArray[np.int64]
) -> NDArray[np.uint8]:
    """Return a database with one table of postings.

    Parameters
    ----------
    statement : str
        What makes the table :data:`STAGED_TABLE`, as the run that it is copied to was made.
    keys, signature_ids : ndarray of int64, shape (n,)
        In order of both; at least one.

    Returns
    -------
    ndarray of uint8
        19 bytes a posting as a rule, in 5 ns; without the kernel in 40.
    """
    pages = _Pages(int(signature_ids.max()) + 1)
    leaves = pages.filled(keys, signature_ids)
    head, rest = pages.ended(statement)
    return np.concatenate([head, leaves, rest]).reshape(-1)


def write_database(
    descriptor: int,
    statement: str,
    blocks: Iterable[tuple[NDArray[np.int64], NDArray[np.int64]]],
    *,
    below: int,
) -> None:
    """Write a database with one table of postings into an empty file.

    Parameters
    ----------
    descriptor : int
    statement : str
        As above.
    blocks : iterable of (keys, signature_ids)
        Postings in order of both; at least one.
    below : int
        All signatures are below it.

    Raises
    ------
    OSError
        The disk is full or failed.
    OverflowError
        A signature takes more bytes than those below that number.
    """
    pages, offset = _Pages(below), (_FIRST_LEAF - 1) * PAGE
    for keys, signature_ids in blocks:
        leaves = pages.filled(keys, signature_ids)
        write_at(descriptor, leaves.reshape(-1).data, offset)
        offset += leaves.nbytes
    head, rest = pages.ended(statement)
    write_at(descriptor, rest.reshape(-1).data, offset)
    write_at(descriptor, head.reshape(-1).data, 0)


def leaf_room(width: int) -> int:
    """Return the most postings of one leaf, with signatures of so many bytes."""
    return (PAGE - _LEAF_HEADER) // (_RECORD_HEAD + _KEY_BYTES + width + _POINTER)


class _Pages:
    """Pages of postings that come in order, some at a time.

    Parameters
    ----------
    below : int
        All signatures are below it.
    """

    def __init__(self, below: int) -> None:
        self._width = next(width for width in _TYPES if below <= 1 << (8 * width - 1))
        self._room = leaf_room(self._width)
        self._n_leaves = 0
        none = np.zeros(0, dtype=np.int64)
        self._held = none, none
        self._between = [self._held]

    def filled(
        self, keys: NDArray[np.int64], signature_ids: NDArray[np.int64]
    ) -> NDArray[np.uint8]:
        """Take postings, and return the leaves that are full; at least one posting is held."""
        if len(signature_ids) and int(signature_ids.max()) >> (8 * self._width - 1):
            raise OverflowError(f"a signature takes more than {self._width} bytes")
        if len(self._held[0]):
            keys = np.concatenate([self._held[0], keys])
            signature_ids = np.concatenate([self._held[1], signature_ids])
        step = self._room + 1
        end = max(len(keys) - 1, 0) // step * step
        self._held = keys[end:].copy(), signature_ids[end:].copy()
        return self._leaves(keys[:end], signature_ids[:end], self._room)

    def ended(self, statement: str) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
        """Return the first two pages, and all behind the full leaves; the end of the table.

        What is held makes one leaf, or two of about the same size. A leaf that is the only one is
        the root.
        """
        keys, signature_ids = self._held
        room = len(keys) if len(keys) <= self._room else len(keys) // 2
        last = self._leaves(keys, signature_ids, room)
        head = np.zeros((2, PAGE), dtype=np.uint8)
        if self._n_leaves == 1:
            head[1], rest = last[0], last[1:]
        else:
            head[1], inner = self._upper()
            rest = np.concatenate([last, *inner])
        n_pages = len(head) + self._n_leaves - len(last) + len(rest)
        describe(head[0], n_pages, STAGED_TABLE, statement.strip())
        return head, rest

    def _leaves(
        self, keys: NDArray[np.int64], signature_ids: NDArray[np.int64], room: int
    ) -> NDArray[np.uint8]:
        """Return leaves of so many postings each; those between two of them are noted."""
        n, step = len(keys), room + 1
        pages = np.empty((-(-n // step), PAGE), dtype=np.uint8)
        kernel = compiled
        if kernel is not None:
            keys, signature_ids = np.ascontiguousarray(keys), np.ascontiguousarray(signature_ids)
            kernel.lay_postings(keys, signature_ids, room, self._width, pages)
        else:
            for page, begin in zip(pages, range(0, n, step), strict=True):
                some = slice(begin, min(begin + room, n))
                cells = _cells(page, _LEAF, _LEAF_HEADER, some.stop - begin, self._size)
                self._put(cells, keys[some], signature_ids[some])
        self._n_leaves += len(pages)
        self._between.append((keys[room::step].copy(), signature_ids[room::step].copy()))
        return pages

    def _upper(self) -> tuple[NDArray[np.uint8], list[NDArray[np.uint8]]]:
        """Return the root, and the pages between root and leaves."""
        keys, signature_ids = (np.concatenate(both) for both in zip(*self._between, strict=True))
        children = np.arange(_FIRST_LEAF, _FIRST_LEAF + self._n_leaves)
        following = _FIRST_LEAF + self._n_leaves
        room = _inner_room(self._size)
        inner: list[NDArray[np.uint8]] = []
        while len(keys) > room:
            n, n_pages = len(keys), -(-(len(keys) + 1) // (room + 1))
            ends = np.arange(1, n_pages + 1) * (n + 1) // n_pages - 1  # the last one is not there
            begin = 0
            for end in ends.tolist():
                some = slice(begin, end)
                of_page = children[begin : end + 1]
                inner.append(self._inner(of_page, keys[some], signature_ids[some])[np.newaxis])
                begin = end + 1
            keys, signature_ids = keys[ends[:-1]], signature_ids[ends[:-1]]
            children = np.arange(following, following + n_pages)
            following += n_pages
        return self._inner(children, keys, signature_ids), inner

    def _inner(
        self,
        children: NDArray[np.int64],
        keys: NDArray[np.int64],
        signature_ids: NDArray[np.int64],
    ) -> NDArray[np.uint8]:
        """Return a page with one child more than postings."""
        page = np.zeros(PAGE, dtype=np.uint8)
        cells = _cells(page, _INNER, _INNER_HEADER, len(keys), _CHILD + self._size)
        numbers = _big_endian(children)[:, -_CHILD:]
        cells[:, :_CHILD] = numbers[:-1]
        page[_LEAF_HEADER:_INNER_HEADER] = numbers[-1]
        self._put(cells[:, _CHILD:], keys, signature_ids)
        return page

    @property
    def _size(self) -> int:
        return _RECORD_HEAD + _KEY_BYTES + self._width

    def _put(
        self,
        records: NDArray[np.uint8],
        keys: NDArray[np.int64],
        signature_ids: NDArray[np.int64],
    ) -> None:
        """Write postings as records, uint8 of shape (n, size)."""
        head = self._size - 1, _RECORD_HEAD - 1, _TYPES[_KEY_BYTES], _TYPES[self._width]
        records[:, :_RECORD_HEAD] = head
        records[:, _RECORD_HEAD : -self._width] = _big_endian(keys)
        records[:, -self._width :] = _big_endian(signature_ids)[:, -self._width :]


def _inner_room(size: int) -> int:
    """Return the most postings between the children of a page."""
    return (PAGE - _INNER_HEADER) // (_CHILD + size + _POINTER)


def _big_endian(numbers: NDArray[np.int64]) -> NDArray[np.uint8]:
    """Return the 8 bytes of each number."""
    return numbers.astype(">i8").view(np.uint8).reshape(-1, 8)


def _cells(page: NDArray[np.uint8], kind: int, header: int, n: int, size: int) -> NDArray[np.uint8]:
    """Write the header of a page with n cells of one size at its end; return those to be filled."""
    start = PAGE - n * size
    page[:start] = 0
    put(page, 0, ">BHHHB", kind, 0, n, start % PAGE, 0)  # 0 stands for 65,536
    pointers = np.arange(start, PAGE, size).astype(">u2")
    page[header : header + _POINTER * n] = pointers.view(np.uint8)
    return page[start:].reshape(n, size)
