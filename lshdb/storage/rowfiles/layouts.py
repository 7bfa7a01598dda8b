"""Layouts of the row files of an index, and the CRC-32 of their rows.

The rows are signatures, and the vectors that were signed. CRC-32 are kept block by block; blocks
start at multiples of ``BLOCK_ROWS``.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lshdb.arrays import np
from lshdb.errors import ParameterError
from lshdb.params.index_params import IndexParams

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = [
    "BLOCK_ROWS",
    "HEADER_BYTES",
    "ChecksumBlock",
    "RowLayout",
    "StoredBlock",
    "block_rows",
    "cover",
    "described_layouts",
    "extend_blocks",
    "npy_header",
    "row_layouts",
]


HEADER_BYTES = 128
_TYPES = {"float16": "<f2", "float32": "<f4", "float64": "<f8", "uint8": "|u1", "bits": "|u1"}


def npy_header(type_: str, shape: tuple[int, ...]) -> bytes:
    """Return the header of an ``.npy`` file, version 1.0, as ``numpy.lib.format`` writes it.

    It leaves room for more digits of the first number of the shape.

    Parameters
    ----------
    type_ : str
        As NumPy writes it: ``<u2``.
    shape : tuple of int
        At least two numbers.
    """
    about = f"{{'descr': {type_!r}, 'fortran_order': False, 'shape': {shape}, }}"
    about += " " * (21 - len(str(shape[0])))
    about += " " * (-(len(about) + 11) % 64) + "\n"
    return b"\x93NUMPY\x01\x00" + len(about).to_bytes(2, "little") + about.encode("ascii")


@dataclass(frozen=True, slots=True)
class RowLayout:
    """Type, size and name of the rows of a file.

    Attributes
    ----------
    kind : {"signature", "vector"}
    type : str
        Type of their numbers, little-endian, as NumPy writes it: ``<u2``.
    n_columns : int
        Numbers per row.
    """

    kind: str
    type: str
    n_columns: int

    @property
    def dtype(self) -> np.dtype[Any]:
        """The type as NumPy has it."""
        return np.dtype(self.type)

    @property
    def row_bytes(self) -> int:
        """Bytes of a row."""
        return self.n_columns * int(self.type[2:])

    @property
    def checksum(self) -> str:
        """Column of the table ``signature_block`` with the CRC-32 of the rows."""
        return "crc32" if self.kind == "signature" else "vector_crc32"

    def header(self, n_rows: int) -> bytes:
        """Return the header of a file with this many rows."""
        return npy_header(self.type, (n_rows, self.n_columns))

    def data(self, rows: NDArray[Any]) -> memoryview:
        """Return the bytes of rows as they are stored."""
        return np.ascontiguousarray(rows, dtype=self.dtype).reshape(-1).view(np.uint8).data


def row_layouts(params: IndexParams) -> tuple[RowLayout, ...]:
    """Return the layouts of the signature file and, if there is one, the vector file."""
    signatures = RowLayout("signature", "<u2", params.row_words)
    if not params.keeps_vectors:
        return (signatures,)
    return signatures, RowLayout("vector", _TYPES[params.dtype], params.vector_columns)


def described_layouts(parameters: Mapping[str, Any]) -> tuple[RowLayout, ...]:
    """Return the same from the parameters in ``index.toml``, which may be damaged.

    Opening an index compares them with the database before a row is read. So for impossible
    parameters any result will do.
    """
    try:
        return row_layouts(IndexParams(**parameters))
    except (ParameterError, TypeError):
        return (RowLayout("signature", "<u2", 1),)


BLOCK_ROWS = 1024
"""Rows under one CRC-32."""

ChecksumBlock = tuple[int, int, int]
"""First row, number of rows, and their CRC-32 in one file."""
StoredBlock = tuple[int, int, int, int | None]
"""A row of the table ``signature_block``: first row, number of rows, their CRC-32 in the signature
file and, if there is one, in the vector file."""


def cover(blocks: list[ChecksumBlock], n_rows: int) -> bool:
    """Return whether the last block, if there is one, ends at row ``n_rows``."""
    first, count, _ = blocks[-1] if blocks else (0, 0, 0)
    return 0 <= count <= BLOCK_ROWS and first + count == n_rows


def extend_blocks(blocks: list[ChecksumBlock], rows: NDArray[Any], layout: RowLayout) -> None:
    """Extend the last block by rows, and begin new ones.

    Parameters
    ----------
    blocks : list of ChecksumBlock
        The last block at least, if it is not full; empty if the file begins. Changed in place.
    rows : ndarray, shape (n, n_columns)
    """
    first, count, crc = blocks[-1] if blocks else (0, 0, 0)
    start = 0
    while start < len(rows):
        if count == BLOCK_ROWS:
            first, count, crc = first + BLOCK_ROWS, 0, 0
        n_taken = min(BLOCK_ROWS - count, len(rows) - start)
        data = layout.data(rows[start : start + n_taken])
        block = (first, count + n_taken, zlib.crc32(data, crc))
        if count:
            blocks[-1] = block
        else:
            blocks.append(block)
        _, count, crc = block
        start += n_taken


def block_rows(of_files: Sequence[Sequence[ChecksumBlock]]) -> list[StoredBlock]:
    """Return rows of the table ``signature_block`` for the blocks of each file.

    Parameters
    ----------
    of_files : sequence
        Blocks of the signature file and, if there is one, the vector file, for the same rows.
    """
    signatures, *vector_blocks = of_files
    vectors = [crc for _, _, crc in vector_blocks[0]] if vector_blocks else [None] * len(signatures)
    return [(*block, crc) for block, crc in zip(signatures, vectors, strict=True)]
