"""Reading a damaged index: every row that can still be read, for the caller to prove.

A damaged page of SQLite ends a scan with an error. The scan then goes on after it: it tries ids
further and further on until one can be read, and narrows the gap from there.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lshdb.errors import DamageError, LshdbError
from lshdb.storage.dialects.base import Session
from lshdb.storage.rowfiles.generations import FIRST_NAME, Generation, is_generation
from lshdb.storage.rowfiles.layouts import HEADER_BYTES, RowLayout
from lshdb.storage.rowfiles.row_file import RowFile
from lshdb.storage.tables.records import row_checksum

__all__ = [
    "find_generation",
    "keys_by_index",
    "salvaged",
    "sound_rows",
    "state_is_sound",
]

_FARTHEST = 2**62


def salvaged(session: Session, table: str, *columns: str) -> Iterator[tuple[Any, ...]]:
    """Yield the rows of a table that can be read, in order of the first column, its primary key.

    Parameters
    ----------
    session : Session
    table : str
    columns : str
        The first is the primary key.

    Yields
    ------
    tuple
        Values may be of any type, and only the key is proved: it rises.
    """
    key = columns[0]
    query = f"SELECT {', '.join(columns)} FROM {table} WHERE {key} > ? ORDER BY {key}"
    after = -1
    while True:
        try:
            for row in session.stream(query, (after,)):
                if type(row[0]) is not int or row[0] <= after:
                    raise DamageError(f"rows of the table {table} are out of order")
                after = row[0]
                yield row
            return
        except LshdbError:
            after = _behind(session, query, after)
        if after >= _FARTHEST:
            return


def _behind(session: Session, query: str, after: int) -> int:
    """Return the least id, about, from which on a row can be read, or there are none."""

    def is_readable(step: int) -> bool:
        try:
            session.execute(f"{query} LIMIT 1", (after + step,)).fetchone()
        except LshdbError:
            return False
        return True

    step = 1
    while not is_readable(step):
        if after + step >= _FARTHEST:
            return _FARTHEST
        step *= 2
    fails = step // 2
    while step - fails > 1:
        middle = (step + fails) // 2
        if is_readable(middle):
            step = middle
        else:
            fails = middle
    return after + step


def state_is_sound(session: Session) -> bool:
    """Return whether the row of the table ``state`` has its checksum."""
    row = session.execute("SELECT * FROM state").fetchone()
    return row is not None and row_checksum(row[:-1]) == row[-1]


def keys_by_index(session: Session) -> Iterator[tuple[int, str]]:
    """Yield (doc_id, key) of every document from the index of keys, a second copy of them."""
    try:
        for doc_id, key in session.keys_by_index():
            if type(doc_id) is int and type(key) is str:
                yield doc_id, key
    except LshdbError:
        return


def find_generation(directory: Path, name: object, layouts: Sequence[RowLayout]) -> Generation:
    """Return the files that the state names; if they are missing, the only ones that exist."""
    if not (is_generation(name) and (directory / str(name)).is_file()):
        there = (path.name for path in directory.glob("signatures*.npy"))
        others = [one for one in there if is_generation(one)]
        name = others[0] if len(others) == 1 else FIRST_NAME
    return Generation(directory, str(name), layouts)


def sound_rows(session: Session, file: RowFile) -> NDArray[np.bool_]:
    """Return which rows of a file are in a block with the right CRC-32, as far as it goes.

    Ignores the header and the state.
    """
    try:
        n_rows = max(0, (file.path.stat().st_size - HEADER_BYTES) // file.row_bytes)
    except OSError:
        n_rows = 0
    sound = np.zeros(n_rows, dtype=bool)
    columns = ("first_row", "n_rows", file.layout.checksum)
    for first, count, crc in salvaged(session, "signature_block", *columns):
        if type(count) is not int or not 0 < count <= n_rows - first:
            continue
        if file.block_crc(first, count) == crc:
            sound[first : first + count] = True
    return sound
