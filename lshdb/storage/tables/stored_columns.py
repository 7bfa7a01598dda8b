"""The columns of stored rows: the one list, for SQL, for exports and for datasets.

Rows that have a record (``records.py``) have its fields as columns. What SQL has
besides, keys and indexes and checksums, says ``schema.py``; what an export adds and leaves out says
``exchange/tables.py``.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence
from dataclasses import MISSING, fields
from typing import Any, NamedTuple

import orjson

from lshdb.errors import DamageError
from lshdb.storage.tables.records import Cursor, StoredBatch, StoredDocument, row_checksum

__all__ = [
    "BAND_INDEX",
    "BAND_TABLE",
    "TIMES_OF_BATCH",
    "StoredColumn",
    "band_columns",
    "indexed_columns",
    "require_checksums",
    "stored_columns",
    "verified_row",
]

BAND_TABLE = "band"
"""Its columns depend on the index; see ``bands/band_table.py``."""
TIMES_OF_BATCH = ("added_at", "last_seen_at")
"""NULL in these columns of a document means the time of its batch."""
BAND_INDEX = "ix_band_"
"""How the name of a column's index begins; the column follows."""


@functools.cache
def band_columns(bands: int) -> tuple[str, ...]:
    """Return the columns of a number of bands, in order."""
    return tuple(f"b{band}" for band in range(bands))


def indexed_columns(index_names: Iterable[str]) -> set[str]:
    """Return the columns that some indexes of the table are made for; a user's own are for none."""
    return {name.removeprefix(BAND_INDEX) for name in index_names if name.startswith(BAND_INDEX)}


class StoredColumn(NamedTuple):
    """A column of a table.

    Attributes
    ----------
    type : {"int", "float", "str", "bytes"}
        Type of the values; ``bytes`` are a hash.
    is_optional : bool
        Whether a value may be missing.
    """

    name: str
    type: str
    is_optional: bool


_RECORDS: dict[str, type] = {"batch": StoredBatch, "document": StoredDocument, "cursor": Cursor}
_OTHERS = {
    "signature_release": {"release_id": "int", "signature_id": "int", "batch_id": "int"},
    "edge": {"signature1": "int", "signature2": "int", "similarity": "float", "method": "str"},
    "cluster_member": {"signature_id": "int", "label": "int"},
    "kept_field": {"doc_id": "int", "fields": "str"},
    "night": {"add_id": "int", "name": "str"},
}
"""Columns and their types, by table."""
_SINGLE = {
    "state": "int int str str str str str int int int int",
    "edge_state": "int float str int int int int int int float str",
}
"""Types of the columns of tables with one row."""


def stored_columns(table: str) -> list[StoredColumn]:
    """Return the columns of a table, in order, without ``checksum``.

    A field of a record that has a default is worked out, and no column.
    """
    types: dict[str, Any] = (
        _OTHERS[table]
        if table in _OTHERS
        else {
            field.name: field.type for field in fields(_RECORDS[table]) if field.default is MISSING
        }
    )
    return [
        StoredColumn(name, type_.removesuffix(" | None"), type_.endswith(" | None"))
        for name, type_ in types.items()
    ]


def verified_row(table: str, row: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return the values of a row whose last one is its checksum.

    0 means an unknown checksum: somebody else has written the row. Types are compared in any case,
    and no number is negative but a threshold: a checksum does not say who has made it.

    Raises
    ------
    DamageError
        They are not those that were written; the error names the row.
    """
    values, checksum = row[:-1], row[-1]
    is_sound = (
        (not checksum or row_checksum(values) == checksum)
        and all(map(isinstance, values, _types_of(table)))
        and not any(type(value) is int and value < 0 for value in values)
        and (table != "kept_field" or _is_object(values[1]))
    )
    if not is_sound:
        raise DamageError(
            f"row {values[0]!r:.50} of the table {table} is not as it was written: {values!r:.150}",
            hint="run lshdb check, and then lshdb check --repair",
        )
    return values


def _is_object(fields: str) -> bool:
    try:
        return isinstance(orjson.loads(fields), dict)
    except ValueError:
        return False


def require_checksums(table: str, rows: Iterable[Sequence[Any]]) -> None:
    """Compare whole rows with their checksums, before they are used or written again.

    Raises
    ------
    DamageError
        A row is not as it was written; the error names it.
    """
    for row in rows:
        verified_row(table, tuple(row))


@functools.cache
def _types_of(table: str) -> tuple[tuple[type, ...], ...]:
    """Return the types that values of a table's columns may have."""
    types: dict[str, tuple[type, ...]] = {
        "int": (int,), "float": (float, int), "str": (str,), "bytes": (bytes, memoryview)
    }  # fmt: skip
    if table in _SINGLE:
        return tuple(types[name] for name in _SINGLE[table].split())
    return tuple(
        types[column.type]
        + ((type(None),) if column.is_optional or column.name in TIMES_OF_BATCH else ())
        for column in stored_columns(table)
    )
