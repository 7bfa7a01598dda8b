"""Arrays of an export: ``.npy`` files that are read from beginning to end, and never mapped.

A file that is cut while a map of it is read ends the process (SIGBUS); here it is an error.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from lshdb.errors import DamageError, LshdbError, system_hint
from lshdb.storage.own_files import open_given

__all__ = ["read_array"]

_HINT = "export the index again, or take another copy"


def read_array(
    path: Path, dtype: np.dtype[Any], width: int, *, n_rows: int, block_rows: int
) -> Iterator[NDArray[Any]]:
    """The rows of a two-dimensional array, some at a time.

    Parameters
    ----------
    path : Path
    dtype : dtype
    width : int
        Columns.
    n_rows : int
        As many as there must be.
    block_rows : int

    Raises
    ------
    DamageError
        The file is no such array, or ends before its rows do.
    """
    try:
        with open(path, "rb", opener=open_given) as file:
            _check_header(path, file, dtype, (n_rows, width))
            for first in range(0, n_rows, block_rows):
                size = min(block_rows, n_rows - first) * width * dtype.itemsize
                data = file.read(size)
                if len(data) != size:
                    raise DamageError(f"{path} ends before its rows do", hint=_HINT)
                yield np.frombuffer(data, dtype=dtype).reshape(-1, width)
    except OSError as error:
        hint = system_hint(error)
        kind = DamageError if hint is None else LshdbError
        raise kind(
            f"{path} cannot be read: {error.strerror or error}", hint=hint or _HINT
        ) from error


def _check_header(path: Path, file: BinaryIO, dtype: np.dtype[Any], shape: tuple[int, int]) -> None:
    try:
        version = np.lib.format.read_magic(file)
        if version != (1, 0):
            raise ValueError(f"format version {version}; expected (1, 0)")
        found, is_fortran, there = np.lib.format.read_array_header_1_0(file)
    except Exception as error:  # NumPy reads the header as Python and lets out what comes of it
        raise DamageError(
            f"{path} is no .npy file that can be read: {error}", hint=_HINT
        ) from error
    if is_fortran or there != dtype or found != shape:
        order = "Fortran" if is_fortran else "C"
        raise DamageError(
            f"{path} holds {there.str} of shape {found} in {order} order; expected {dtype.str} of "
            f"shape {shape} in C order, as {path.parent.name} was written",
            hint=_HINT,
        )
