"""CRC-32 of rows, block by block: blocks start at multiples of ``BLOCK_ROWS``."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from typing import Any

from numpy.typing import NDArray

from lshdb.storage.layouts import RowLayout

__all__ = ["BLOCK_ROWS", "Block", "StoredBlock", "block_rows", "cover", "extend_blocks"]

BLOCK_ROWS = 1024
"""Rows under one CRC-32."""

Block = tuple[int, int, int]
"""First row, number of rows, CRC-32 of them in one file."""
StoredBlock = tuple[int, int, int, int | None]
"""A row of the table ``signature_block``: first row, number of rows, their CRC-32 in the signature
file, and in the vector file where there is one."""


def cover(blocks: list[Block], n_rows: int) -> bool:
    """Whether the last block, if it is one, ends where so many rows do."""
    first, count, _ = blocks[-1] if blocks else (0, 0, 0)
    return 0 <= count <= BLOCK_ROWS and first + count == n_rows


def extend_blocks(blocks: list[Block], rows: NDArray[Any], layout: RowLayout) -> None:
    """Extend the last block by rows, and begin new ones.

    Parameters
    ----------
    blocks : list of Block
        The last one at least, if it is not whole; empty where the file begins. Changed in place.
    rows : ndarray, shape (n, n_columns)
    layout : RowLayout
    """
    first, count, crc = blocks[-1] if blocks else (0, 0, 0)
    start = 0
    while start < len(rows):
        if count == BLOCK_ROWS:
            first, count, crc = first + BLOCK_ROWS, 0, 0
        taken = min(BLOCK_ROWS - count, len(rows) - start)
        data = layout.data(rows[start : start + taken])
        block = (first, count + taken, zlib.crc32(data, crc))
        if count:
            blocks[-1] = block
        else:
            blocks.append(block)
        _, count, crc = block
        start += taken


def block_rows(of_files: Sequence[Sequence[Block]]) -> list[StoredBlock]:
    """Rows of the table ``signature_block`` of the blocks of each file.

    Parameters
    ----------
    of_files : sequence
        Of the signature file, and of the vector file where there is one: of the same rows.
    """
    signatures, *others = of_files
    vectors = [crc for _, _, crc in others[0]] if others else [None] * len(signatures)
    return [(*block, crc) for block, crc in zip(signatures, vectors, strict=True)]
