"""Where the parts of an order file lie; ``kernel/orders.h`` has the same in C.

An order has the postings of one band, sorted by bucket and then by row. It is divided into 2^k
cells by the upper k bits of the bucket, 8 to 15 postings a cell on average. So a small file has few
cells, and one of 3 rows a single one. Behind the header lie, for all orders, one after the other:

    directories   for each cell its first place (uint32) and a sum of what is in it (uint32)
    postings      for each the row, from 0: uint16 if k is at most 12, which is so of less than
                  65,536 rows, else uint32; and the rest of the bucket, its lower 32 - k bits:
                  uint16 if k is at least 16, else uint32

All numbers are little-endian. With n = 1,000,000 that is .52 + 6 bytes a posting.
"""

from __future__ import annotations

from lshdb.params.bucket_layout import BUCKET_BITS

__all__ = ["CELL", "HEADER_BYTES", "OrderLayout"]

HEADER_BYTES = 128
CELL = [("place", "<u4"), ("sum", "<u4")]
"""An entry of a directory, for NumPy."""
_LARGEST_CELL = 16
_SHORT_ROW_CELL_BITS = 12
_CELL_BYTES = 8


class OrderLayout:
    """The layout of some orders of as many rows.

    Parameters
    ----------
    n, n_orders : int

    Attributes
    ----------
    cell_bits : int
        How many upper bits of a bucket are the number of its cell.
    n_cells : int
        Cells of an order.
    rest_bits : int
        How many lower bits of a bucket are its rest.
    posting_bytes : int
        Bytes of a posting.
    size : int
        Bytes of all orders.
    """

    __slots__ = ("cell_bits", "n", "n_cells", "n_orders", "posting_bytes", "rest_bits", "size")

    def __init__(self, n: int, n_orders: int) -> None:
        self.n, self.n_orders = n, n_orders
        self.cell_bits = (n // _LARGEST_CELL).bit_length()
        self.n_cells = 1 << self.cell_bits
        self.rest_bits = BUCKET_BITS - self.cell_bits
        self.posting_bytes = 8 if _SHORT_ROW_CELL_BITS < self.cell_bits < 16 else 6
        self.size = n_orders * (_CELL_BYTES * self.n_cells + self.posting_bytes * n)

    @staticmethod
    def posting_type(rest_bits: int) -> list[tuple[str, str]]:
        """Return what a posting is, for NumPy, with a rest of so many bits."""
        return [
            ("row", "<u2" if BUCKET_BITS - rest_bits <= _SHORT_ROW_CELL_BITS else "<u4"),
            ("rest", "<u2" if rest_bits <= 16 else "<u4"),
        ]

    @property
    def posting(self) -> list[tuple[str, str]]:
        """A posting, for NumPy."""
        return self.posting_type(self.rest_bits)

    def cell_offset(self, order: int, cell: int = 0) -> int:
        """Return where a cell of an order has its entry, in bytes behind the header."""
        return _CELL_BYTES * (order * self.n_cells + cell)

    def posting_offset(self, order: int, place: int = 0) -> int:
        """Return where a posting of an order lies, in bytes behind the header."""
        directories = _CELL_BYTES * self.n_orders * self.n_cells
        return directories + self.posting_bytes * (order * self.n + place)
