"""Rows -> a Parquet file, in row groups, as a stream.

A file of its own because pyarrow, from the extra ``lshdb[parquet]``, is imported with it.

Decided: similarities are doubles, sizes and counts 64-bit integers, all else text. The columns of a
user's own SELECT take the type of their values in the first row group; where they have several,
text.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from lshdb import LshdbError
from lshdb.cli._cells import text_of
from lshdb.cli._column import Column

__all__ = ["write_parquet"]

_ROWS = 65_536
_CHARACTERS = 32 * 2**20
"""A row group ends when it has so many rows or so much text."""

_TYPES = {"number": pa.int64(), "similarity": pa.float64()}


def write_parquet(
    columns: Sequence[Column],
    rows: Iterable[Sequence[Any] | None],
    write: Callable[[bytes], None],
) -> None:
    """Write rows as one Parquet file; memory holds one row group.

    Raises
    ------
    LshdbError
        A column of a SELECT has values of another type than in the first row group.
    """
    group: list[Sequence[Any]] = []
    n_characters = 0
    schema: pa.Schema | None = None
    file: pq.ParquetWriter | None = None
    sink = _Sink(write)
    try:
        for row in rows:
            if row is None:
                continue
            group.append(row)
            n_characters += sum(len(value) for value in row if isinstance(value, str | bytes))
            if len(group) >= _ROWS or n_characters >= _CHARACTERS:
                schema = schema or _schema(columns, group)
                file = file or pq.ParquetWriter(sink, schema)
                file.write_table(_table(schema, group))
                group, n_characters = [], 0
        schema = schema or _schema(columns, group)
        file = file or pq.ParquetWriter(sink, schema)
        if group:
            file.write_table(_table(schema, group))
    except BaseException:
        sink.is_over = True  # no footer: half a file must not look like a whole one
        raise
    finally:
        if file is not None:
            file.close()


class _Sink:
    """A file object that pyarrow can write to; it need not be seekable."""

    closed = False

    def __init__(self, write: Callable[[bytes], None]) -> None:
        self._write = write
        self._position = 0
        self.is_over = False

    def write(self, data: Any) -> int:
        piece = bytes(data)
        if not self.is_over:
            self._write(piece)
        self._position += len(piece)
        return len(piece)

    def tell(self) -> int:
        return self._position

    def flush(self) -> None:
        """Do nothing: the output is flushed at the end."""

    def readable(self) -> bool:
        return False

    def seekable(self) -> bool:
        return False

    def writable(self) -> bool:
        return True

    def close(self) -> None:
        """Leave the output open."""


def _schema(columns: Sequence[Column], rows: Sequence[Sequence[Any]]) -> pa.Schema:
    fields = []
    for place, column in enumerate(columns):
        kinds = {type(row[place]) for row in rows if row[place] is not None}
        if column.kind == "auto" or (column.kind == "number" and kinds):
            fields.append((column.name, _type_of(kinds)))
        else:
            fields.append((column.name, _TYPES.get(column.kind, pa.string())))
    return pa.schema(fields)


def _type_of(kinds: set[type]) -> pa.DataType:
    for allowed, arrow_type in (
        ({bool}, pa.bool_()),
        ({int}, pa.int64()),
        ({int, float}, pa.float64()),
        ({bytes}, pa.binary()),
    ):
        if kinds and kinds <= allowed:
            return arrow_type
    return pa.string()


def _table(schema: pa.Schema, rows: Sequence[Sequence[Any]]) -> pa.Table:
    arrays = []
    for place, field in enumerate(schema):
        values: list[Any] = [row[place] for row in rows]
        if field.type == pa.string():
            values = [None if value is None else text_of(value) for value in values]
        try:
            arrays.append(pa.array(values, type=field.type))
        except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError) as error:
            raise LshdbError(
                f"the column {field.name} began with values of type {field.type}, and has others "
                f"now: {error}",
                hint="CAST it to one type in the SELECT, or write another format",
            ) from error
    return pa.Table.from_arrays(arrays, schema=schema)
