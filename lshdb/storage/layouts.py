"""What lies in the rows of the files of an index: signatures, and the vectors that were signed."""

from __future__ import annotations

import io
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lshdb.errors import ParameterError
from lshdb.params import IndexParams

__all__ = ["HEADER_BYTES", "RowLayout", "described_layouts", "row_layouts"]

HEADER_BYTES = 128


@dataclass(frozen=True, slots=True)
class RowLayout:
    """What the rows of a file are.

    Attributes
    ----------
    kind : {"signature", "vector"}
    dtype : dtype
        Of their numbers, little-endian.
    n_columns : int
        Numbers a row.
    """

    kind: str
    dtype: np.dtype[Any]
    n_columns: int

    @property
    def row_bytes(self) -> int:
        """Bytes of a row."""
        return self.n_columns * self.dtype.itemsize

    @property
    def checksum(self) -> str:
        """Column of the table ``signature_block`` that has the CRC-32 of the rows."""
        return "crc32" if self.kind == "signature" else "vector_crc32"

    def header(self, n_rows: int) -> bytes:
        """The first bytes of a file with so many rows."""
        shape = (n_rows, self.n_columns)
        buffer = io.BytesIO()
        np.lib.format.write_array_header_1_0(
            buffer, {"descr": self.dtype.str, "fortran_order": False, "shape": shape}
        )
        return buffer.getvalue()

    def data(self, rows: NDArray[Any]) -> memoryview:
        """The bytes of rows as they are stored."""
        return np.ascontiguousarray(rows, dtype=self.dtype).reshape(-1).view(np.uint8).data


def row_layouts(params: IndexParams) -> tuple[RowLayout, ...]:
    """The layout of the signature file, and of the vector file where there is one."""
    signatures = RowLayout("signature", np.dtype("<u4"), params.row_words)
    if not params.keeps_vectors:
        return (signatures,)
    dtype = np.dtype("uint8" if params.dtype == "bits" else params.dtype).newbyteorder("<")
    return signatures, RowLayout("vector", dtype, params.vector_columns)


def described_layouts(parameters: Mapping[str, Any]) -> tuple[RowLayout, ...]:
    """The same of parameters as ``index.toml`` has them, which may be damaged.

    Whoever opens the index compares them with the database before a row is read, so for those
    that cannot be it does not matter what is given.
    """
    try:
        return row_layouts(IndexParams(**parameters))
    except (ParameterError, TypeError):
        return (RowLayout("signature", np.dtype("<u4"), 1),)
