"""Read documents from Arrow files: the IPC file format (Feather), and the IPC stream format.

Hugging Face's ``save_to_disk`` writes a folder of such streams. ``columns.py`` says what the
columns may hold.

Decided: no file is mapped into memory, as no other is, since a mapped file that another program
cuts would end the process. Only the columns that are needed are read. Memory is one record batch of
the file, whose size the program that wrote it chose: by default 1,000 rows of a dataset and 65,536
of Feather. Each batch is validated, because offsets that point elsewhere would be followed there.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from typing import Any, BinaryIO

from lshdb.documents.document import Document, Rejected
from lshdb.documents.formats.columns import ArrowRows, reading_errors, unreadable
from lshdb.documents.formats.objects import row_prefix
from lshdb.documents.formats.rows import side_keys
from lshdb.documents.io.streams import OpenFile, load_arrow

__all__ = ["is_ipc_file", "open_ipc", "read_arrow", "read_batches"]

_FILE = b"ARROW1"


def read_arrow(file: OpenFile) -> Iterator[Document | Rejected]:
    """Read the rows of an Arrow file or stream.

    Yields
    ------
    Document or Rejected
        One per row, in order.

    Raises
    ------
    BrokenSourceError
        The file is not Arrow, is damaged, or lacks a column.
    InputError
        A side file of keys does not have one key per row, or cannot be read.
    """
    arrow, _ = load_arrow()
    ipc = importlib.import_module("pyarrow.ipc")
    fields = file.fields
    rows = None
    content = file.in_any_order()
    try:
        schema = open_ipc(ipc, content, None).schema
        rows = ArrowRows(
            arrow, schema, fields, file.seen, name=file.name, prefix=row_prefix(file),
            limit=file.limit,
        )  # fmt: skip
        wanted = sorted(map(schema.get_field_index, rows.columns))
        beside = None
        if fields.keys is not None:
            n_rows = sum(batch.num_rows for batch in read_batches(open_ipc(ipc, content, wanted)))
            beside = side_keys(fields.keys, n_rows)
        yield from rows.documents(read_batches(open_ipc(ipc, content, wanted)), beside)
    except reading_errors(arrow) as error:
        raise unreadable("Arrow", error, rows) from error


def is_ipc_file(content: BinaryIO) -> bool:
    """Return whether it is a file and not a stream; afterwards it is at its beginning."""
    content.seek(0)
    is_file = content.read(len(_FILE)) == _FILE
    content.seek(0)
    return is_file


def open_ipc(ipc: Any, content: BinaryIO, columns: list[int] | None) -> Any:
    """Return a reader of some columns, from the beginning."""
    is_file = is_ipc_file(content)
    options = ipc.IpcReadOptions(included_fields=columns, use_threads=False)
    return (ipc.open_file if is_file else ipc.open_stream)(content, options=options)


def read_batches(reader: Any) -> Iterator[Any]:
    """Yield the record batches of a file or a stream, each validated."""
    n_batches = getattr(reader, "num_record_batches", None)
    found = reader if n_batches is None else map(reader.get_batch, range(n_batches))
    for batch in found:
        batch.validate(full=True)
        yield batch
