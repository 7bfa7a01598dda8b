"""CRC-32 of signature rows, block by block: blocks start at multiples of ``BLOCK_ROWS``."""

from __future__ import annotations

import zlib

import numpy as np
from numpy.typing import NDArray

__all__ = ["BLOCK_ROWS", "Block", "cover", "extend_blocks"]

BLOCK_ROWS = 1024
"""Signature rows under one CRC-32."""

Block = tuple[int, int, int]
"""First row, number of rows, CRC-32: a row of the table ``signature_block``."""


def cover(blocks: list[Block], n_rows: int) -> bool:
    """Whether the last block, if it is one, ends where so many rows do."""
    first, count, _ = blocks[-1] if blocks else (0, 0, 0)
    return 0 <= count <= BLOCK_ROWS and first + count == n_rows


def extend_blocks(blocks: list[Block], rows: NDArray[np.uint32]) -> None:
    """Extend the last block by rows, and begin new ones.

    Parameters
    ----------
    blocks : list of Block
        The last one at least, if it is not whole; empty where the file begins. Changed in place.
    rows : ndarray of uint32, shape (n, num_perm)
    """
    first, count, crc = blocks[-1] if blocks else (0, 0, 0)
    start = 0
    while start < len(rows):
        if count == BLOCK_ROWS:
            first, count, crc = first + BLOCK_ROWS, 0, 0
        taken = min(BLOCK_ROWS - count, len(rows) - start)
        data = np.ascontiguousarray(rows[start : start + taken], dtype="<u4").tobytes()
        block = (first, count + taken, zlib.crc32(data, crc))
        if count:
            blocks[-1] = block
        else:
            blocks.append(block)
        _, count, crc = block
        start += taken
