"""Committed rows, checked as they are read: for whoever writes them anew elsewhere.

Rows that are written again get new checksums, so damage that is not found now would never be.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from numpy.typing import NDArray

from lshdb.errors import DamageError
from lshdb.storage.row_file import RowFile
from lshdb.storage.snapshot import Snapshot

__all__ = ["verified_rows"]


def verified_rows(snapshot: Snapshot, file: RowFile) -> Iterator[NDArray[Any]]:
    """All committed rows of a file in order, a block at a time, each compared with its CRC-32.

    Large vectors come in parts of blocks, and an error after those of the block that is damaged.

    Parameters
    ----------
    snapshot : Snapshot
    file : RowFile
        One of the files of that state.

    Raises
    ------
    DamageError
        A block is not what was written, or blocks do not cover the rows; names the file and rows.
    """
    expected = 0
    for first, count, crc in snapshot.execute(
        f"SELECT first_row, n_rows, {file.layout.checksum} FROM signature_block ORDER BY first_row"
    ):
        if first != expected:
            break
        expected += count
        yield from file.checked(first, count, crc)
    if expected != snapshot.n_signatures:
        raise DamageError(
            f"checksums cover {expected} rows of {file.path}; {snapshot.n_signatures} are "
            "committed",
            hint="run lshdb check; restore the index from a copy",
        )
