"""The Parquet files of a table: write them, describe them for the log, and read them.

Pages carry checksums, which readers compare. A file never changes. Readers see only files that a
commit names.
"""

from __future__ import annotations

import json
import os
import time
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lshdb.errors import DamageError
from lshdb.files.descriptors import sync_file

__all__ = ["NewFile", "TableWriter", "arrow_blocks", "described_file"]

_GROUP_ROWS = 10_000
_GROUP_CHARACTERS = 32 * 2**20
_FILE_ROWS = 2**20
_FILE_BYTES = 256 * 2**20
_HINT = "export the index again, or use another copy"


@dataclass(frozen=True, slots=True)
class NewFile:
    """A file in a table's folder, as the log describes it.

    Attributes
    ----------
    path : str
        Relative to the table's folder, with forward slashes.
    size : int
        Bytes.
    n_rows : int
        Rows in the file.
    lows, highs : mapping
        Least and largest value of integer columns, by name; nulls are left out.
    """

    path: str
    size: int
    n_rows: int
    lows: Mapping[str, int]
    highs: Mapping[str, int]

    def action(self) -> Any:
        """Return the action that adds the file to the log."""
        from deltalake.transaction import AddAction

        stats = {
            "numRecords": self.n_rows, "minValues": dict(self.lows),
            "maxValues": dict(self.highs),
        }  # fmt: skip
        now = int(time.time() * 1000)
        return AddAction(self.path, self.size, {}, now, True, json.dumps(stats))


class TableWriter:
    """Writes rows into new files of one table, a row group at a time.

    Parameters
    ----------
    folder : Path
        The folder of the table.
    schema : pyarrow.Schema
        The columns. Integers are written as differences.
    most_rows : int, optional
        The largest number of rows of a file.

    Attributes
    ----------
    files : list of NewFile
        The complete files, each synced; all of them after :meth:`close`.
    n_rows : int
        Rows written so far.
    """

    def __init__(self, folder: Path, schema: Any, *, most_rows: int | None = None) -> None:
        self.files: list[NewFile] = []
        self.n_rows = 0
        self._folder = folder
        self._schema = schema
        self._most_rows = _FILE_ROWS if most_rows is None else most_rows
        self._writer: Any = None
        self._path = ""
        self._rows = 0

    def write(self, table: Any) -> None:
        """Write an Arrow table as one row group or several."""
        from pyarrow import parquet

        if self._writer is None:
            self._path = f"part-{uuid.uuid4()}.parquet"
            numbers = [field.name for field in self._schema if str(field.type) == "int64"]
            self._writer = parquet.ParquetWriter(
                str(self._folder / self._path), self._schema, compression="zstd",
                write_page_checksum=True,
                use_dictionary=[name for name in self._schema.names if name not in numbers],
                column_encoding=dict.fromkeys(numbers, "DELTA_BINARY_PACKED"),
            )  # fmt: skip
        self._writer.write_table(table)
        self._rows += len(table)
        self.n_rows += len(table)
        if (
            self._rows >= self._most_rows
            or os.path.getsize(self._folder / self._path) >= _FILE_BYTES
        ):
            self.close()

    def write_rows(self, rows: Iterable[Sequence[Any]]) -> None:
        """Write rows of plain values, in the order of the columns."""
        import pyarrow as arrow

        for group in _groups(rows):
            arrays = [
                arrow.array(column, type=field.type)
                for column, field in zip(zip(*group, strict=True), self._schema, strict=True)
            ]
            self.write(arrow.Table.from_arrays(arrays, schema=self._schema))

    def close(self) -> None:
        """Complete and sync the current file, if there is one."""
        if self._writer is None:
            return
        self._writer.close()
        self._writer, self._rows = None, 0
        path = self._folder / self._path
        with open(path, "rb") as file:
            sync_file(file.fileno())
        self.files.append(described_file(self._folder, self._path))


def described_file(folder: Path, name: str) -> NewFile:
    """Return the description of a file for the log, from its footer.

    Parameters
    ----------
    folder : Path
        The folder of the table.
    name : str
        Path of the file, relative to the folder.
    """
    from pyarrow import parquet

    path = folder / name
    lows: dict[str, int] = {}
    highs: dict[str, int] = {}
    footer = parquet.read_metadata(str(path))
    for number in range(footer.num_columns):
        chunks = [footer.row_group(group).column(number) for group in range(footer.num_row_groups)]
        stats = [chunk.statistics for chunk in chunks if chunk.physical_type == "INT64"]
        if not all(group and (group.has_min_max or not group.num_values) for group in stats):
            continue
        stats = [group for group in stats if group.num_values]
        if stats:
            lows[chunks[0].path_in_schema] = min(group.min for group in stats)
            highs[chunks[0].path_in_schema] = max(group.max for group in stats)
    return NewFile(name, os.path.getsize(path), footer.num_rows, lows, highs)


def _groups(rows: Iterable[Sequence[Any]]) -> Iterator[list[Sequence[Any]]]:
    """Cut rows into groups that fit in memory, however long their texts are."""
    group: list[Sequence[Any]] = []
    size = 0
    for row in rows:
        group.append(row)
        size += sum(len(value) for value in row if isinstance(value, str | bytes | list))
        if len(group) >= _GROUP_ROWS or size >= _GROUP_CHARACTERS:
            yield group
            group, size = [], 0
    if group:
        yield group


def arrow_blocks(
    path: str, schema: Any, *, size: int, place: tuple[Any, str] | None = None
) -> Iterator[Any]:
    """Read the columns of a file that a schema names, ``size`` rows at a time.

    Parameters
    ----------
    path : str
        The file, for messages also if it is elsewhere.
    schema : pyarrow.Schema
        The columns.
    size : int
        Rows to read at a time.
    place : tuple, optional
        The file system of pyarrow that has the file, and its path there; by default this machine.

    Yields
    ------
    pyarrow.RecordBatch
        Its schema is the given one.

    Raises
    ------
    DamageError
        The file is missing or damaged, or has other columns; the error names it.
    """
    import pyarrow as arrow
    from pyarrow import parquet

    system, name = place or (None, path)
    try:
        with parquet.ParquetFile(name, filesystem=system, page_checksum_verification=True) as file:
            for batch in file.iter_batches(batch_size=size, columns=schema.names):
                columns = [
                    batch.column(field.name).cast(field.type)
                    for field in schema
                ]  # fmt: skip
                yield arrow.RecordBatch.from_arrays(columns, schema=schema)
    except (arrow.ArrowException, OSError, KeyError) as error:
        raise DamageError(f"{path} cannot be read: {error}", hint=_HINT) from error
