"""Committed signature rows, checked as they are read: for whoever writes them anew elsewhere.

Rows that are written again get new checksums, so damage that is not found now would never be.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from lshdb.errors import DamageError
from lshdb.storage.snapshot import Snapshot

__all__ = ["verified_rows"]


def verified_rows(snapshot: Snapshot) -> Iterator[NDArray[np.uint32]]:
    """All committed rows in order, a block at a time, each compared with its CRC-32.

    Raises
    ------
    DamageError
        A block is not what was written, or blocks do not cover the rows; names the file and rows.
    """
    file = snapshot.signature_file
    expected = 0
    for first, count, crc in snapshot.execute(
        "SELECT first_row, n_rows, crc32 FROM signature_block ORDER BY first_row"
    ):
        if first != expected:
            break
        expected += count
        yield file.check_block(first, count, crc)
    if expected != snapshot.n_signatures:
        raise DamageError(
            f"checksums cover {expected} rows of {file.path}; {snapshot.n_signatures} are "
            "committed",
            hint="run lshdb check; restore the index from a copy",
        )
