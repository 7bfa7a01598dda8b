"""Frozen orders: bucket keys of rows, sorted band by band, and look-ups in them.

An order is made once from rows that never change, and is searched in place, in memory or in a
file. First the columns of keys are sorted into two planes (uint32, shape (2, bands + 1, n)): for
each band the n buckets in order, and beside each the row that it is of. Equal buckets are in order
of row. The last of the orders is the content band's. Then they are packed into cells
(``params/order_layout.py``), each with a sum of what is in it: polynomial in the postings, its cell
and order, and a seed, modulo 2^64, of which the upper 32 bits are kept.

A look-up reads one cell, and compares all of it with its sum. So what it answers is what was packed
with that seed, in that order and cell; a damaged or foreign cell is an error.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from lshdb.arrays import np
from lshdb.kernel import kernel
from lshdb.params.bucket_layout import (
    LAST_KEY,
)
from lshdb.params.index_params import Cut
from lshdb.params.order_layout import CELL, OrderLayout
from lshdb.signatures.banding import bucket_keys, content_keys

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["BandOrders", "Place"]

Planes: TypeAlias = "NDArray[np.uint32]"
Place: TypeAlias = tuple[Any, int, int, int, int]
"""Packed orders, or the descriptor of a file with them; rows; orders; the signature of row 0; and
the seed of the sums."""


class BandOrders:
    """The orders of one way to cut rows into bands.

    Parameters
    ----------
    cut : Cut

    Attributes
    ----------
    name : str
        Tells this cut from others of the same rows.
    n_orders : int
        One for each band, and one for contents.
    """

    def __init__(self, cut: Cut) -> None:
        self._cut = cut
        self.name = f"{cut['bands']}x{cut['rows']}"
        self.n_orders = cut["bands"] + 1

    def keys(
        self, rows: NDArray[np.uint16], contents: dict[int, bytes] | None = None
    ) -> NDArray[np.int64]:
        """Return the bucket keys of rows, the content band's last.

        Parameters
        ----------
        rows : ndarray of uint16, shape (n, row_words)
        contents : dict of int to bytes, optional
            Content hashes by the number of the row; a row without one gets the last key that there
            is.

        Returns
        -------
        ndarray of int64, shape (n, n_orders)
        """
        keys = np.empty((len(rows), self.n_orders), dtype=np.int64)
        keys[:, :-1] = bucket_keys(rows, **self._cut)
        keys[:, -1] = LAST_KEY
        if contents:
            keys[list(contents), -1] = content_keys(list(contents.values()))
        return keys

    def keys_of_row(self, row: bytes) -> bytes | bytearray:
        """Return the bucket keys of one row, without the content band's.

        Parameters
        ----------
        row : bytes
            Its words, uint16.

        Returns
        -------
        bytes or bytearray
            Native int64.
        """
        cut = self._cut
        keys = bytearray(8 * cut["bands"])
        kernel.bucket_keys(row, len(row) // 2, cut["slot_bits"], cut["bands"], cut["rows"], keys)
        return keys

    def sort(self, keys: NDArray[np.int64]) -> Planes:
        """Sort each column of bucket keys.

        Parameters
        ----------
        keys : ndarray of int64, shape (n, n_orders)

        Returns
        -------
        ndarray of uint32, shape (2, n_orders, n)
            O(n n_orders), and 32 bytes a row besides.
        """
        planes = np.empty((2, keys.shape[1], len(keys)), dtype="<u4")
        kernel.sort_orders(np.ascontiguousarray(keys), keys.shape[1], planes)
        return planes

    def keys_of(self, rows: NDArray[np.uint16], content_hashes: list[bytes]) -> NDArray[np.int64]:
        """Return bucket keys as :meth:`keys` does, for rows that all have a content."""
        keys = np.empty((len(rows), self.n_orders), dtype=np.int64)
        keys[:, :-1] = bucket_keys(rows, **self._cut)
        keys[:, -1] = content_keys(content_hashes)
        return keys

    def pack(self, planes: Planes, seed: int = 0) -> NDArray[np.uint8]:
        """Return the bytes of sorted columns, as :meth:`find` searches them.

        Parameters
        ----------
        planes : ndarray of uint32, shape (2, any, n)
            As of :meth:`sort`.
        seed : int
            Of the sums; 0 to 2^63 - 1.
        """
        layout = OrderLayout(planes.shape[2], planes.shape[1])
        packed = np.empty(layout.size, dtype=np.uint8)
        for order, (buckets, rows) in enumerate(planes.transpose(1, 0, 2)):
            directory, postings = self.pack_cells(
                buckets, rows, layout=layout, order=order, cells=(0, layout.n_cells), place=0,
                seed=seed,
            )  # fmt: skip
            for begin, column in (
                (layout.cell_offset(order), directory),
                (layout.posting_offset(order), postings),
            ):
                packed[begin : begin + column.nbytes] = column.view(np.uint8)
        return packed

    def pack_cells(
        self,
        buckets: NDArray[np.uint32],
        rows: NDArray[np.uint32],
        *,
        layout: OrderLayout,
        order: int,
        cells: tuple[int, int],
        place: int,
        seed: int,
    ) -> tuple[NDArray[np.void], NDArray[np.void]]:
        """Return some cells of an order as they lie in a file.

        Parameters
        ----------
        buckets, rows : ndarray of uint32, shape (n,)
            The sorted postings of these cells.
        layout : OrderLayout
        order : int
        cells : (int, int)
            The first of them, and the one behind the last.
        place : int
            That of the first posting in its order.
        seed : int

        Returns
        -------
        directory : ndarray of CELL, shape (cells,)
        postings : ndarray of layout.posting, shape (n,)
        """
        directory = np.empty(cells[1] - cells[0], dtype=CELL)
        postings = np.empty(len(buckets), dtype=layout.posting)
        kernel.pack_cells(
            np.ascontiguousarray(buckets), np.ascontiguousarray(rows), layout.cell_bits, *cells,
            place, seed, order, directory, postings,
        )  # fmt: skip
        return directory, postings

    def find(
        self, places: Sequence[Place], keys: NDArray[np.int64], limit: int
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Find the signatures below a limit in some buckets.

        Parameters
        ----------
        places : sequence of (source, n, n_orders, first, seed)
            Orders: as packed, the number of rows, of orders, the signature of row 0, and the seed.
            A source may be the descriptor of a file.
        keys : ndarray of int64, shape (m,)
        limit : int

        Returns
        -------
        counts : ndarray of int64, shape (m,)
            How many there are for each key.
        signature_ids : ndarray of int64, shape (sum(counts),)
            One bucket after the other; in a bucket by order, and in an order sorted.

        Raises
        ------
        OSError
            A file cannot be read.
        ValueError
            It ends too early, or is not what was packed.
        """
        counts = np.empty(len(keys), dtype=np.int64)
        ids = kernel.find_keys(
            list(places), np.ascontiguousarray(keys, dtype=np.int64), limit, counts
        )
        return counts, np.frombuffer(ids, dtype=np.int64)

    def group(
        self, places: Sequence[Place], first: int, last: int, limit: int, *, above: int
    ) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
        """Merge the orders of one band, and return buckets with their signatures below a limit.

        Parameters
        ----------
        places : sequence of (source, n, n_orders, first, seed)
            As for :meth:`find`.
        first, last : int
            Bucket keys of one band, both included; not of contents.
        limit : int
        above : int
            Only buckets with more signatures than this.

        Returns
        -------
        bucket_keys, sizes : ndarray of int64, shape (n,)
            In order of key.
        members : ndarray of int64, shape (sum(sizes),)
            One bucket after the other; in a bucket by order, and in an order sorted. O(postings in
            the range) without the interpreter's lock, in the memory of the result.

        Raises
        ------
        OSError, ValueError
            As :meth:`find` does.
        """
        columns = kernel.group_keys(list(places), first, last, limit, above)
        keys, sizes, members = (np.frombuffer(column, dtype=np.int64) for column in columns)
        return keys, sizes, members

    def agreeing(
        self,
        places: list[Place],
        limit: int,
        keys: NDArray[np.int64],
        rows: NDArray[np.uint16],
        most: int,
        least: int,
        source: Any,
        offset: int,
        n: int,
    ) -> tuple[int, NDArray[np.int64]]:
        """Find the signatures in the buckets of queries, and compare them with these.

        Parameters
        ----------
        places, limit
            As for :meth:`find`.
        keys : ndarray of int64, shape (m, bands)
            The bucket keys of a query in each row.
        rows : ndarray of uint16, shape (m, row_words)
            Their signature rows.
        most : int
            Ends after the query with which so many are found.
        least : int
            Fewest equal slots.
        source, offset, n
            The rows of the signatures, as for :meth:`Family.agreeing`.

        Returns
        -------
        n_done : int
            Queries that were answered, the first of them.
        agreeing : ndarray of int64, shape (any, 4)
            (query, signature, equal slots, bands that agree), in order.

        Raises
        ------
        IndexError, OSError, ValueError
            As :meth:`find` and :meth:`Family.agreeing` do.
        """
        cut = self._cut
        n_done, agreeing = kernel.find_agreeing(
            places, limit, np.ascontiguousarray(keys), np.ascontiguousarray(rows), most, least,
            source, offset, n, rows.shape[1], cut["bands"], cut["rows"], cut["slot_bits"] == 1,
        )  # fmt: skip
        return n_done, np.frombuffer(agreeing, dtype=np.int64).reshape(-1, 4)

    def members(self, places: list[Place], keys: bytes | bytearray, limit: int) -> bytes:
        """Find the signatures below a limit in some buckets, as :meth:`find` does.

        Parameters
        ----------
        places : list
            As for :meth:`find`.
        keys : bytes or bytearray
            Native int64.
        limit : int

        Returns
        -------
        bytes
            Native int64.

        Raises
        ------
        OSError, ValueError
            As :meth:`find` does.
        """
        ids: bytes = kernel.find_keys(places, keys, limit, bytearray(len(keys)))
        return ids
