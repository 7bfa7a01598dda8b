"""Tables of an export as Parquet files, with pyarrow from the extra ``lshdb[parquet]``."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lshdb.documents.io.streams import load_arrow
from lshdb.errors import DamageError, LshdbError
from lshdb.exchange.tables import POSTINGS, Table, fault_of

__all__ = ["SUFFIX", "read_postings", "read_table", "write_postings", "write_table"]

SUFFIX = ".parquet"
_GROUP_ROWS = 10_000
_GROUP_CHARACTERS = 32 * 2**20
_BATCH_ROWS = 1_000
_BATCH_POSTINGS = 65_536


def _modules() -> tuple[Any, Any]:
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
            hint="pip install 'lshdb[parquet]', or pass --format jsonl",
        ) from error


def write_table(path: Path, table: Table, rows: Iterable[Sequence[Any]]) -> int:
    """Write rows as they come, one row group at a time, and return their number."""
    arrow, parquet = _modules()
    schema = _schema(arrow, table)
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
    arrow, parquet = _modules()
    schema = _schema(arrow, POSTINGS)
    count = 0
    with parquet.ParquetWriter(str(path), schema, compression="zstd") as writer:
        for keys, ids in blocks:
            columns = (keys >> 56 & 255, keys & (2**56 - 1), keys, ids)
            arrays = [arrow.array(column) for column in columns]
            writer.write_table(arrow.Table.from_arrays(arrays, schema=schema))
            count += len(keys)
    return count


def read_table(path: Path, table: Table) -> Iterator[tuple[Any, ...]]:
    """Read the rows, unchanged.

    Raises
    ------
    DamageError
        The file is not such a table; the error names it.
    """
    count = 0
    for columns in _batches(path, table, _BATCH_ROWS):
        for row in zip(*(column.to_pylist() for column in columns), strict=True):
            fault = fault_of(table, row)
            if fault is not None:
                raise _damage(path, f"row {count}: {fault}")
            count += 1
            yield row


def read_postings(path: Path) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64]]]:
    """Read bucket keys and signature ids, some at a time.

    Raises
    ------
    DamageError
        The file is not a table of postings; the error names it.
    """
    for columns in _batches(path, POSTINGS, _BATCH_POSTINGS):
        if any(column.null_count for column in columns):
            raise _damage(path, "a posting is null")
        _, _, keys, ids = (column.to_numpy(zero_copy_only=False) for column in columns)
        yield keys, ids


def _batches(path: Path, table: Table, size: int) -> Iterator[list[Any]]:
    """Read the columns of a file, ``size`` rows at a time."""
    arrow, parquet = _modules()
    try:
        with parquet.ParquetFile(str(path)) as file:
            if not file.schema_arrow.equals(_schema(arrow, table)):
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


def _schema(arrow: Any, table: Table) -> Any:
    types = {
        "integer": arrow.int64(),
        "number": arrow.float64(),
        "text": arrow.string(),
        "hash": arrow.string(),
        "tokens": arrow.list_(arrow.string()),
    }
    return arrow.schema(
        [
            arrow.field(column.name, types[column.kind], nullable=column.is_optional)
            for column in table.columns
        ]
    )


def _damage(path: Path, what: str) -> DamageError:
    return DamageError(f"{path}: {what}", hint="export the index again")
