"""The columns of stored rows: the one list, for SQL, for exports and for datasets.

Rows that have a record (``records.py``) have its fields as columns. What SQL has
besides, keys and indexes and checksums, says ``schema.py``; what an export adds and leaves out says
``exchange/tables.py``.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable
from dataclasses import MISSING, fields
from typing import Any, NamedTuple

from lshdb.storage.tables.records import Cursor, StoredBatch, StoredDocument

__all__ = [
    "BAND_INDEX",
    "BAND_TABLE",
    "StoredColumn",
    "band_columns",
    "indexed_columns",
    "stored_columns",
]

BAND_TABLE = "band"
"""Its columns depend on the index; see ``bands/band_table.py``."""
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
