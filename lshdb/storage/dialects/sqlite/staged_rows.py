"""Rows of documents and texts as a staged database: a module of its own, for the kernel's part.

The kernel lays a table by rowid out (``row_pages.c``) from columns of Python's values, and one
statement inserts them. A row that is too long for a page, or has a value of another type, goes to
the driver as ever.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from lshdb.arrays import np
from lshdb.kernel import kernel
from lshdb.storage.dialects.sqlite.staged_database import PAGE, describe

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["STAGED_ROWS", "database_of_rows"]

STAGED_ROWS = "staged_row"


def database_of_rows(
    names: Sequence[str], columns: Sequence[Sequence[Any]]
) -> tuple[NDArray[np.uint8], list[int]] | None:
    """Return a database with one table of rows, and the places of rows that are not in it.

    Parameters
    ----------
    names : sequence of str
        Of the columns; the first is the rowid.
    columns : sequence of sequences
        Each with a value a row: str, bytes, int or None. The first has growing whole numbers.

    Returns
    -------
    database : ndarray of uint8
    places : list of int
        Of rows of more than 8 KiB.

        None for other values, which the kernel does not lay out; the reference lays out none.
    """
    try:
        laid, left = kernel.lay_rows(tuple(map(tuple, columns)))
    except (TypeError, ValueError, OverflowError):  # what it is, the driver says
        return None
    if not laid:
        return None
    pages = np.frombuffer(laid, dtype=np.uint8).reshape(-1, PAGE).copy()
    rowid, *columns_after = names
    table = ", ".join([f"{rowid} INTEGER PRIMARY KEY", *columns_after])
    describe(pages[0], len(pages), STAGED_ROWS, f"CREATE TABLE {STAGED_ROWS} ({table})")
    return pages.reshape(-1), left
