"""Read documents from Parquet files, with pyarrow from the extra ``lshdb[parquet]``.

Decided: a file is read in batches of as many rows as fit in 8 MiB, by the sizes that the file
states. ``columns.py`` says what the columns may hold. This is a module of its own,
because the registry imports the reader of each format by name.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from lshdb.documents.document import Document, Rejected
from lshdb.documents.formats.columns import ArrowRows, reading_errors, unreadable
from lshdb.documents.formats.objects import row_prefix
from lshdb.documents.formats.rows import side_keys
from lshdb.documents.io.streams import OpenFile, load_arrow

__all__ = ["BUFFER_BYTES", "batch_rows", "read_parquet"]

_BATCH_BYTES = 8 * 2**20
_BATCH_ROWS = 8_192
BUFFER_BYTES = 2**20
"""The read buffer of a column, in bytes; without it pyarrow reads a whole row group at once."""


def read_parquet(file: OpenFile) -> Iterator[Document | Rejected]:
    """Read the rows of a Parquet file.

    Yields
    ------
    Document or Rejected
        One per row, in order.

    Raises
    ------
    BrokenSourceError
        The file is not Parquet, is damaged, or lacks a column.
    InputError
        A side file of keys does not have one key per row, or cannot be read.
    """
    arrow, parquet = load_arrow()
    fields = file.fields
    rows = None
    content = file.in_any_order()
    try:
        with parquet.ParquetFile(content, pre_buffer=False, buffer_size=BUFFER_BYTES) as table:
            rows = ArrowRows(
                arrow, table.schema_arrow, fields, file.seen, name=file.name,
                prefix=row_prefix(file), limit=file.limit,
            )  # fmt: skip
            metadata = table.metadata
            beside = None if fields.keys is None else side_keys(fields.keys, metadata.num_rows)
            size = batch_rows(metadata)
            batches = table.iter_batches(batch_size=size, columns=rows.columns)
            yield from rows.documents(batches, beside)
    except reading_errors(arrow) as error:
        raise unreadable("Parquet", error, rows) from error


def batch_rows(metadata: Any) -> int:
    """Return the rows per batch, by the largest mean row size of any row group."""
    largest = 1
    for number in range(metadata.num_row_groups):
        group = metadata.row_group(number)
        if group.num_rows > 0:
            largest = max(largest, group.total_byte_size // group.num_rows)
    return min(max(_BATCH_BYTES // largest, 1), _BATCH_ROWS)
