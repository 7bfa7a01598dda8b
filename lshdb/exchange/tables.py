"""The tables of an export: their columns, and how JSON Lines and Parquet files hold their rows.

A row is a tuple of plain values in the order of the columns: hashes as hexadecimal digits, times as
text. The values of each column are checked when rows are imported. Parquet needs pyarrow, from the
extra ``lshdb[parquet]``, which is imported when such a file is written or read.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import orjson
from numpy.typing import NDArray

from lshdb.documents.io.streams import load_arrow
from lshdb.errors import DamageError, LshdbError, install_command
from lshdb.files.own_files import open_given
from lshdb.params.bucket_layout import bands_of, sql_buckets
from lshdb.params.metrics import METRICS
from lshdb.storage.tables.stored_columns import stored_columns

__all__ = [
    "FORMATS",
    "MORE_TABLES",
    "POSTINGS",
    "TABLES",
    "Table",
    "TableColumn",
    "TableFormat",
    "fault_of",
    "table_of",
    "tables_of",
    "write_postings",
]


@dataclass(frozen=True, slots=True)
class TableColumn:
    """A column of a table.

    Attributes
    ----------
    name : str
        Its name in the file.
    kind : {"integer", "number", "text", "hash", "tokens", "binary", "int32"}
        What its values are.
    is_optional : bool
        Whether a value may be null, or left out.
    """

    name: str
    kind: str
    is_optional: bool = False


@dataclass(frozen=True, slots=True)
class Table:
    """A table: its name, which is also its file's name, and its columns."""

    name: str
    columns: tuple[TableColumn, ...]

    @property
    def names(self) -> list[str]:
        """Names of the columns."""
        return [column.name for column in self.columns]

    def arrow_schema(self, arrow: Any) -> Any:
        """Return its columns as a schema of Arrow, given that module."""
        types = {
            "integer": arrow.int64(),
            "number": arrow.float64(),
            "text": arrow.string(),
            "hash": arrow.string(),
            "tokens": arrow.list_(arrow.string()),
            "binary": arrow.binary(),
            "int32": arrow.int32(),
        }
        return arrow.schema(
            [
                arrow.field(column.name, types[column.kind], nullable=column.is_optional)
                for column in self.columns
            ]
        )


def table_of(name: str, **kinds: str) -> Table:
    """Return a table of columns by name, each with its kind; none of them may be missing."""
    return Table(name, tuple(TableColumn(*column) for column in kinds.items()))


_KINDS_OF_TYPES = {"int": "integer", "float": "number", "str": "text", "bytes": "hash"}


def _stored(name: str, stored: str, *more: TableColumn) -> Table:
    """Return the table that holds the rows of a stored one, perhaps with more columns."""
    columns = (
        TableColumn(column.name, _KINDS_OF_TYPES[column.type], column.is_optional)
        for column in stored_columns(stored)
    )
    return Table(name, (*columns, *more))


_BODY = (TableColumn("text", "text", True), TableColumn("tokens", "tokens", True))
TABLES = {
    table.name: table
    for table in (
        _stored("documents", "document", *_BODY),
        _stored("batches", "batch"),
        _stored("releases", "signature_release"),
        _stored("edges", "edge"),
        _stored("clusters", "cluster_member"),
    )
}
"""The tables of every export, except the postings, by name."""
MORE_TABLES = {
    table.name: table
    for table in (
        _stored("fields", "kept_field"),
        _stored("nights", "night"),
        _stored("cursors", "cursor"),
    )
}
"""The further tables of an export, from format 3 on."""

POSTINGS = table_of(
    "postings", band="integer", bucket="integer", bucket_key="integer", signature_id="integer"
)
"""The postings, if they are a table of their own (Parquet)."""


def tables_of(metric: object, *, has_more: bool) -> dict[str, Table]:
    """Return the tables of an index; for weighted documents, these have the column ``weights``.

    The column holds JSON: the object with sorted keys whose hash is ``body_hash``, so that numbers
    come back exactly as written.

    Parameters
    ----------
    metric : str or None
        The metric of the index.
    has_more : bool
        Whether :data:`MORE_TABLES` are among them.
    """
    tables = {**TABLES, **MORE_TABLES} if has_more else dict(TABLES)
    if isinstance(metric, str) and metric in METRICS and METRICS[metric].body == "weights":
        documents = TABLES["documents"]
        weights = TableColumn("weights", "text", is_optional=True)
        tables[documents.name] = Table(documents.name, (*documents.columns, weights))
    return tables


_HASH = re.compile("[0-9a-f]{32}").fullmatch
_KINDS: dict[str, Any] = {
    "integer": lambda value: type(value) is int and -(2**63) <= value < 2**63,
    "number": lambda value: type(value) in (int, float),
    "text": lambda value: type(value) is str,
    "hash": lambda value: type(value) is str and _HASH(value) is not None,
    "tokens": lambda value: type(value) is list and all(type(token) is str for token in value),
}


def fault_of(table: Table, row: Sequence[Any]) -> str | None:
    """Describe the first value of a row that is not valid; None for a valid row."""
    for column, value in zip(table.columns, row, strict=True):
        if value is None:
            if not column.is_optional:
                return f"{column.name} is missing"
        elif not _KINDS[column.kind](value):
            return f"{column.name} is {value!r:.80}, expected: {column.kind}"
    return None


def _write_json(path: Path, table: Table, rows: Iterable[Sequence[Any]]) -> int:
    """Write rows as JSON Lines as they come, without null values, and return their number."""
    names, count = table.names, 0
    with open(path, "xb") as file:
        for row in rows:
            pairs = zip(names, row, strict=True)
            file.write(orjson.dumps({name: value for name, value in pairs if value is not None}))
            file.write(b"\n")
            count += 1
    return count


def _read_json(path: Path, table: Table) -> Iterator[tuple[Any, ...]]:
    """Read the rows of JSON Lines, unchanged.

    Raises
    ------
    DamageError
        A line is not a row of this table; the error names file and line.
    """
    names = table.names
    with open(path, "rb", opener=open_given) as file:
        for number, line in enumerate(file, start=1):
            try:
                row = tuple(map(orjson.loads(line).get, names))
            except (ValueError, AttributeError):
                fault: str | None = "not a JSON object"
            else:
                fault = fault_of(table, row)
            if fault is not None:
                raise DamageError(
                    f"{path}, line {number}: {fault}", hint="export the index again"
                ) from None
            yield row


_GROUP_ROWS = 10_000
_GROUP_CHARACTERS = 32 * 2**20
_BATCH_ROWS = 1_000


def _arrow() -> tuple[Any, Any]:
    """Import pyarrow and its Parquet module.

    Raises
    ------
    LshdbError
        pyarrow cannot be loaded.
    """
    try:
        return load_arrow()
    except ImportError as error:
        raise LshdbError(
            f"Parquet files need pyarrow, which cannot be loaded: {error}",
            hint=f"{install_command('parquet')}, or pass --format jsonl",
        ) from error


def _write_parquet(path: Path, table: Table, rows: Iterable[Sequence[Any]]) -> int:
    """Write rows to Parquet as they come, one row group at a time, and return their number."""
    arrow, parquet = _arrow()
    schema = table.arrow_schema(arrow)
    count = 0
    with parquet.ParquetWriter(str(path), schema, compression="zstd") as writer:
        for group in _groups(rows):
            columns = zip(*group, strict=True)
            arrays = [
                arrow.array(column, type=field.type)
                for column, field in zip(columns, schema, strict=True)
            ]
            writer.write_table(arrow.Table.from_arrays(arrays, schema=schema))
            count += len(group)
    return count


def write_postings(
    path: Path, blocks: Iterable[tuple[NDArray[np.int64], NDArray[np.int64]]]
) -> int:
    """Write bucket keys and signature ids, with their bands and buckets; return their number."""
    arrow, parquet = _arrow()
    schema = POSTINGS.arrow_schema(arrow)
    count = 0
    with parquet.ParquetWriter(str(path), schema, compression="zstd") as writer:
        for keys, ids in blocks:
            columns = (bands_of(keys), sql_buckets(keys), keys, ids)
            arrays = [arrow.array(column) for column in columns]
            writer.write_table(arrow.Table.from_arrays(arrays, schema=schema))
            count += len(keys)
    return count


def _read_parquet(path: Path, table: Table) -> Iterator[tuple[Any, ...]]:
    """Read the rows of a Parquet file, unchanged.

    Raises
    ------
    DamageError
        The file does not hold this table; the error names the file.
    """
    count = 0
    for columns in _batches(path, table, _BATCH_ROWS):
        for row in zip(*(column.to_pylist() for column in columns), strict=True):
            fault = fault_of(table, row)
            if fault is not None:
                raise _damage(path, f"row {count}: {fault}")
            count += 1
            yield row


def _batches(path: Path, table: Table, size: int) -> Iterator[list[Any]]:
    """Read the columns of a file, ``size`` rows at a time."""
    arrow, parquet = _arrow()
    try:
        with parquet.ParquetFile(str(path)) as file:
            if not file.schema_arrow.equals(table.arrow_schema(arrow)):
                raise _damage(path, "the columns are not those of an export")
            for batch in file.iter_batches(batch_size=size):
                yield batch.columns
    except (arrow.ArrowException, OSError) as error:
        raise _damage(path, str(error)) from error


def _groups(rows: Iterable[Sequence[Any]]) -> Iterator[list[Sequence[Any]]]:
    """Cut rows into groups that fit in memory, however long their texts are."""
    group: list[Sequence[Any]] = []
    size = 0
    for row in rows:
        group.append(row)
        size += sum(len(value) for value in row if isinstance(value, str | list))
        if len(group) >= _GROUP_ROWS or size >= _GROUP_CHARACTERS:
            yield group
            group, size = [], 0
    if group:
        yield group


def _damage(path: Path, what: str) -> DamageError:
    return DamageError(f"{path}: {what}", hint="export the index again")


@dataclass(frozen=True, slots=True)
class TableFormat:
    """A format of files that hold a table.

    Attributes
    ----------
    suffix : str
        The end of the file's name.
    write : callable
        Writes rows as they come, and returns their number.
    read : callable
        Reads the rows unchanged; raises DamageError if one is invalid.
    """

    suffix: str
    write: Callable[[Path, Table, Iterable[Sequence[Any]]], int]
    read: Callable[[Path, Table], Iterator[tuple[Any, ...]]]


FORMATS = {
    "jsonl": TableFormat(".jsonl", _write_json, _read_json),
    "parquet": TableFormat(".parquet", _write_parquet, _read_parquet),
}
"""The formats of tables by name."""
