"""Rows of Parquet and Arrow files passed through: what ``passthrough.py`` does for lines of text.

Parquet keeps its schema, its metadata and, for each column, its compression and encoding. Row
groups are filled up to the size that the file has, or up to 256 MiB in memory. Bloom filters are
not written again. Arrow files and streams keep schema, form and compression, and have a record
batch for each that has rows left.
"""

from __future__ import annotations

import importlib
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from typing import IO, Any, BinaryIO

from lshdb.documents.document import BrokenSourceError, Fields, shown_names
from lshdb.documents.formats.arrow import ipc_batches, is_ipc_file, open_ipc
from lshdb.documents.formats.arrow_pieces import stored_batches
from lshdb.documents.formats.column_sizes import full_batch, mapped_type, small_batches
from lshdb.documents.formats.column_values import json_values
from lshdb.documents.formats.columns import keys_of, reading_errors, said_by_arrow
from lshdb.documents.formats.parquet import BUFFER_BYTES, parquet_batches
from lshdb.documents.formats.passthrough import (
    MARKS,
    Mark,
    RecordBlock,
    RecordFile,
    RecordWriter,
    refuse_marked,
)
from lshdb.documents.io.source import InputFile
from lshdb.documents.io.streams import load_arrow

__all__ = ["open_arrow", "open_parquet"]

_GROUP_BYTES = 256 * 2**20
"""Rows of a row group that are held, decoded, before they are written."""


class _ColumnFile(RecordFile):
    """Rows in record batches; a subclass opens the file."""

    def __init__(self, source: InputFile, schema: Any, fields: Fields) -> None:
        self.source, self._schema, self._fields = source, schema, fields
        names = schema.names
        if not fields.row_keys and names.count(fields.key_name) != 1:
            count = "more than one" if fields.key_name in names else "no"
            raise BrokenSourceError(
                f"has {count} column {fields.key_name!r}; the columns are: {shown_names(names)}"
            )

    @abstractmethod
    def _batches(self) -> Iterator[Any]:
        """Yield the rows as record batches; once."""

    def blocks(self) -> Iterator[RecordBlock]:
        number = 0
        with _arrow_errors():
            for batch in self._batches():
                yield self._block(batch, number)
                number += len(batch)

    def _block(self, batch: Any, start: int) -> RecordBlock:
        arrow, _ = load_arrow()
        keys: list[str | None]
        if self._fields.row_keys:
            keys = [f"{self.source.key}:{start + i}" for i in range(1, len(batch) + 1)]
        else:
            place = batch.schema.get_field_index(self._fields.key_name)
            row_keys = keys_of(arrow, batch.column(place))
            keys = [None if row_key.reason is not None else row_key.key for row_key in row_keys]
        names = batch.schema.names
        return RecordBlock(keys, lambda field: _values(batch, field), names.__contains__, batch)

    def names(self) -> Sequence[str]:
        names: list[str] = self._schema.names
        return names

    def writer(self, out: IO[bytes], *, is_marked: bool) -> RecordWriter:
        if is_marked:
            refuse_marked(self.source, self._schema.names)
        return self._writer(out, is_marked)

    @abstractmethod
    def _writer(self, out: IO[bytes], is_marked: bool) -> RecordWriter:
        """Return a writer of the same format."""


class _Parquet(_ColumnFile):
    def __init__(self, source: InputFile, opened: Any, file: BinaryIO, fields: Fields) -> None:
        super().__init__(source, opened.schema_arrow, fields)
        self._opened, self._file = opened, file

    def _batches(self) -> Iterator[Any]:
        arrow, _ = load_arrow()
        batches = parquet_batches(self._opened, self._file, self._file.fileno(), None)
        for batch in small_batches(arrow, batches):
            yield full_batch(arrow, batch, self._schema)

    def _writer(self, out: IO[bytes], is_marked: bool) -> RecordWriter:
        return _ParquetWriter(self._opened, out, is_marked)


@contextmanager
def open_parquet(source: InputFile, file: BinaryIO, fields: Fields) -> Iterator[RecordFile]:
    """Open a Parquet file."""
    _, parquet = load_arrow()
    with ExitStack() as stack:
        with _arrow_errors():
            opened = stack.enter_context(
                parquet.ParquetFile(file, pre_buffer=False, buffer_size=BUFFER_BYTES)
            )
        yield _Parquet(source, opened, file, fields)


class _Arrow(_ColumnFile):
    """A file or a stream; the output has the same form and compression."""

    def __init__(self, source: InputFile, file: BinaryIO, fields: Fields) -> None:
        self._ipc = importlib.import_module("pyarrow.ipc")
        self._file = file
        super().__init__(source, open_ipc(self._ipc, file, None).schema, fields)
        self._is_file = is_ipc_file(file)

    def _batches(self) -> Iterator[Any]:
        yield from ipc_batches(self._file, self._file.fileno(), None)

    def _writer(self, out: IO[bytes], is_marked: bool) -> RecordWriter:
        schema = _marked(self._schema) if is_marked else self._schema
        options = self._ipc.IpcWriteOptions(compression=self._compression())
        opened = self._ipc.new_file if self._is_file else self._ipc.new_stream
        return _ArrowWriter(opened(out, schema, options=options), schema, is_marked)

    def _compression(self) -> str | None:
        """Return how the first batch is compressed."""
        batches = stored_batches(self._file.fileno(), is_file=self._is_file)
        return batches[0].codec if batches else None


@contextmanager
def open_arrow(source: InputFile, file: BinaryIO, fields: Fields) -> Iterator[RecordFile]:
    """Open an Arrow file or stream."""
    with _arrow_errors():
        opened = _Arrow(source, file, fields)
    yield opened


@contextmanager
def _arrow_errors() -> Iterator[None]:
    """Turn what pyarrow raises while it reads into a BrokenSourceError."""
    arrow, _ = load_arrow()
    try:
        yield
    except reading_errors(arrow) as error:
        raise BrokenSourceError(f"cannot be read: {said_by_arrow(error)}") from error


def _values(batch: Any, name: str) -> list[object]:
    """Return the values of a column as an index keeps them."""
    column = batch.schema.get_field_index(name)
    arrow, _ = load_arrow()
    return [None] * len(batch) if column < 0 else json_values(arrow, batch.column(column))


def _marked(schema: Any) -> Any:
    """Return a schema with the columns of the marks."""
    arrow, _ = load_arrow()
    types = (arrow.bool_(), arrow.string(), arrow.string(), arrow.float64())
    for name, kind in zip(MARKS, types, strict=True):
        schema = schema.append(arrow.field(name, kind))
    return schema


def _staying(batch: Any, marks: Sequence[Mark], schema: Any) -> Any:
    """Return the rows that stay; with the schema of a marked file, all of them with their marks."""
    arrow, _ = load_arrow()
    if schema is not None:
        columns = [
            arrow.array([mark[i] for mark in marks], type=schema.field(name).type)
            for i, name in enumerate(MARKS)
        ]
        return arrow.RecordBatch.from_arrays([*batch.columns, *columns], schema=schema)
    if all(mark.keep for mark in marks):
        return batch
    mask = arrow.array([mark.keep for mark in marks])
    try:
        return batch.filter(mask)
    except arrow.ArrowNotImplementedError:  # of some columns, such as views and runs
        columns = [_chosen(arrow, column, mask) for column in batch.columns]
        return arrow.RecordBatch.from_arrays(columns, schema=batch.schema)


def _chosen(arrow: Any, column: Any, mask: Any) -> Any:
    """Return some values of a column of any type.

    Views go through values of their own: a slice of views keeps all that they may point into, and
    a file would hold it once for each slice.
    """
    plain = mapped_type(arrow, column.type, lambda kind: _values_of_views(arrow, kind))
    with suppress(arrow.ArrowNotImplementedError):
        return column.cast(plain).filter(mask).cast(column.type)
    rows = [row for row, keep in enumerate(mask.to_pylist()) if keep]
    return arrow.concat_arrays([column.slice(0, 0), *(column.slice(row, 1) for row in rows)])


def _values_of_views(arrow: Any, kind: Any) -> Any:
    views = {"string_view": arrow.large_string(), "binary_view": arrow.large_binary()}
    return views.get(str(kind), kind)


class _ArrowWriter(RecordWriter):
    """Writes a record batch for each batch that keeps rows."""

    def __init__(self, writer: Any, schema: Any, is_marked: bool) -> None:
        self._writer, self._schema = writer, schema if is_marked else None

    def write(self, block: RecordBlock, marks: Sequence[Mark]) -> None:
        batch = _staying(block.rows, marks, self._schema)
        if len(batch):
            self._writer.write_batch(batch)

    def close(self) -> None:
        self._writer.close()


class _ParquetWriter(RecordWriter):
    """Fills row groups of the size that the file has."""

    def __init__(self, opened: Any, out: IO[bytes], is_marked: bool) -> None:
        self._arrow, parquet = load_arrow()
        metadata = opened.metadata
        self._schema = opened.schema_arrow
        self._is_marked = is_marked
        if is_marked:
            self._schema = _marked(self._schema)
        groups = [metadata.row_group(i).num_rows for i in range(metadata.num_row_groups)]
        self._group_rows = max([1, *groups])
        self._held: list[Any] = []
        self._n_held = self._held_bytes = 0
        self._writer = parquet.ParquetWriter(
            out, self._schema, **_how_written(metadata, MARKS if is_marked else ())
        )

    def write(self, block: RecordBlock, marks: Sequence[Mark]) -> None:
        batch = _staying(block.rows, marks, self._schema if self._is_marked else None)
        while len(batch):
            room = self._group_rows - self._n_held
            self._held.append(batch.slice(0, room))
            self._n_held += len(self._held[-1])
            batch = batch.slice(room)
            self._held_bytes += self._held[-1].nbytes
            if self._n_held == self._group_rows or self._held_bytes >= _GROUP_BYTES:
                self._write_group()

    def _write_group(self) -> None:
        table = self._arrow.Table.from_batches(self._held, schema=self._schema)
        self._held, self._n_held, self._held_bytes = [], 0, 0
        self._writer.write_table(table.unify_dictionaries(), row_group_size=self._group_rows)

    def close(self) -> None:
        if self._n_held:
            self._write_group()
        self._writer.close()


def _how_written(metadata: Any, added: Sequence[str]) -> dict[str, Any]:
    """Return the options with which pyarrow writes a file as this one was written."""
    how: dict[str, Any] = {"store_schema": b"ARROW:schema" in (metadata.metadata or {})}
    if metadata.format_version in ("1.0", "2.4", "2.6"):
        how["version"] = metadata.format_version
    if not metadata.num_row_groups:
        return how
    group = metadata.row_group(0)
    columns = [group.column(i) for i in range(group.num_columns)]
    codecs = {column.path_in_schema: column.compression for column in columns}
    codecs = {path: "NONE" if name == "UNCOMPRESSED" else name for path, name in codecs.items()}
    if columns:
        most = max(codecs.values(), key=list(codecs.values()).count)
        how["compression"] = codecs | dict.fromkeys(added, most)
    how["use_dictionary"] = [
        column.path_in_schema
        for column in columns
        if not {"PLAIN_DICTIONARY", "RLE_DICTIONARY"}.isdisjoint(column.encodings)
    ]
    how["write_statistics"] = any(column.is_stats_set for column in columns)
    how["use_deprecated_int96_timestamps"] = any(
        column.physical_type == "INT96" for column in columns
    )
    return how
