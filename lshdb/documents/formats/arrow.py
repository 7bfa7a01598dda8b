"""Read documents from Arrow files: the IPC file format (Feather), and the IPC stream format.

Hugging Face's ``save_to_disk`` writes a folder of such streams. ``columns.py`` says what the
columns may hold.

Decided: no file is mapped into memory, as no other is, since a mapped file that another program
cuts would end the process. Only the columns that are needed are read. Record batches up to 64 MiB
are read by pyarrow, one at a time, and validated, because offsets that point elsewhere would be
followed there. A file with a larger one is read a few rows at a time (``arrow_pieces.py``), unless
one of its columns has a dictionary, runs or views, or it is elsewhere: then memory is one record
batch. What is compressed a thousandfold to more than 256 MiB is refused.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from typing import Any, BinaryIO

from lshdb.documents.blocks import Item
from lshdb.documents.formats.arrow_pieces import (
    EncodedBatch,
    can_be_cut,
    pieces_of,
    stored_batches,
)
from lshdb.documents.formats.column_sizes import mapped_type
from lshdb.documents.formats.columns import ArrowRows, reading_errors, unreadable
from lshdb.documents.formats.objects import row_prefix
from lshdb.documents.formats.parquet_pages import refuse_expansion
from lshdb.documents.formats.rows import side_keys
from lshdb.documents.io.streams import OpenFile, load_arrow
from lshdb.files.descriptors import read_at

__all__ = ["ipc_batches", "is_ipc_file", "open_ipc", "read_arrow"]

_FILE = b"ARROW1"
_WHOLE_BYTES = 64 * 2**20
"""A larger record batch is read in pieces."""


def read_arrow(file: OpenFile) -> Iterator[Item]:
    """Read the rows of an Arrow file or stream.

    Yields
    ------
    DocumentBlock or Rejected
        For all rows, in order.

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
        indices = sorted(map(schema.get_field_index, rows.columns))
        beside = None
        if fields.keys is not None:
            n_rows = sum(batch.num_rows for batch in read_batches(open_ipc(ipc, content, indices)))
            beside = side_keys(fields.keys, n_rows)
        yield from rows.documents(ipc_batches(content, file.descriptor, indices), beside)
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


def ipc_batches(
    content: BinaryIO, descriptor: int | None, columns: list[int] | None
) -> Iterator[Any]:
    """Yield the rows of a file or stream as record batches that take little memory.

    Parameters
    ----------
    content : binary file
    descriptor : int or None
        Of the same file, if it is on this machine.
    columns : list of int or None
        Those to read, in order; None for all.

    Raises
    ------
    BrokenSourceError
        A batch is damaged, or decompressed to far more than is on disk.
    """
    arrow, _ = load_arrow()
    ipc = importlib.import_module("pyarrow.ipc")
    stored = None
    if descriptor is not None:
        stored = stored_batches(descriptor, is_file=is_ipc_file(content))
    if stored is not None and descriptor is not None:
        schema = open_ipc(ipc, content, None).schema
        chosen = list(range(len(schema))) if columns is None else columns
        sizes = [_sizes(descriptor, batch) for batch in stored]
        is_large = any(n_bytes > _WHOLE_BYTES for n_bytes, _ in sizes)
        if is_large and all(can_be_cut(arrow, field.type) for field in schema):
            for batch in stored:
                yield from pieces_of(arrow, descriptor, batch, schema, chosen)
            return
        for n_bytes, n_stored in sizes:
            refuse_expansion("record batch", n_bytes, n_stored)
    yield from read_batches(open_ipc(ipc, content, columns))


def _sizes(descriptor: int, batch: EncodedBatch) -> tuple[int, int]:
    """Return the bytes of a batch once decompressed, and on disk."""
    n_stored = sum(length for _, length in batch.buffers)
    if batch.codec is None:
        return n_stored, n_stored
    heads = [read_at(descriptor, 8, start) for start, length in batch.buffers if length]
    return sum(max(int.from_bytes(head, "little", signed=True), 0) for head in heads), n_stored


def read_batches(reader: Any) -> Iterator[Any]:
    """Yield the record batches of a file or a stream, each validated."""
    n_batches = getattr(reader, "num_record_batches", None)
    for batch in reader if n_batches is None else map(reader.get_batch, range(n_batches)):
        _validate(batch)
        yield batch


def _validate(batch: Any) -> None:
    """Raise pyarrow's error unless all offsets are sound; texts may be other than UTF-8."""
    arrow, _ = load_arrow()
    try:
        batch.validate(full=True)
    except arrow.ArrowInvalid:
        for column in batch.columns:
            _as_bytes(arrow, column).validate(full=True)


def _as_bytes(arrow: Any, column: Any) -> Any:
    """Return a column with binary values in the place of texts."""
    types, kind = arrow.types, column.type
    if isinstance(kind, arrow.BaseExtensionType):
        return _as_bytes(arrow, column.storage)
    if types.is_dictionary(kind):
        values = _as_bytes(arrow, column.dictionary)
        return arrow.DictionaryArray.from_arrays(column.indices, values)
    if types.is_run_end_encoded(kind):
        return arrow.RunEndEncodedArray.from_arrays(
            column.run_ends, _as_bytes(arrow, column.values)
        )
    if (types.is_list(kind) or types.is_large_list(kind)) and types.is_dictionary(kind.value_type):
        return _as_bytes(arrow, column.values)
    return column.view(mapped_type(arrow, kind, lambda inner: _binary_type(arrow, inner)))


def _binary_type(arrow: Any, kind: Any) -> Any:
    binary_of = {
        arrow.string(): arrow.binary(),
        arrow.large_string(): arrow.large_binary(),
        arrow.string_view(): arrow.binary_view(),
    }
    return binary_of.get(kind, kind)
