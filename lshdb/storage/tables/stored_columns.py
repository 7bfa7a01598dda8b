"""The columns of stored rows: the one list, for SQL, for exports and for datasets.

Rows that have a record (``records.py``) have its fields as columns. What SQL has
besides, keys and indexes and checksums, says ``schema.py``; what an export adds and leaves out says
``exchange/tables.py``.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable
from dataclasses import MISSING, fields
from typing import NamedTuple

from lshdb.storage.tables.records import Cursor, StoredBatch, StoredDocument

__all__ = ["BAND_INDEX", "BAND_TABLE", "STORED", "StoredColumn", "band_columns", "indexed_columns"]

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


def _column(name: str, annotation: str) -> StoredColumn:
    return StoredColumn(name, annotation.removesuffix(" | None"), annotation.endswith(" | None"))


def _of_record(record: type) -> tuple[StoredColumn, ...]:
    """Return the columns of a dataclass; a field with a default is worked out, and no column."""
    columns = (field for field in fields(record) if field.default is MISSING)
    return tuple(_column(field.name, str(field.type)) for field in columns)


def _of(**annotations: str) -> tuple[StoredColumn, ...]:
    return tuple(_column(*item) for item in annotations.items())


STORED: dict[str, tuple[StoredColumn, ...]] = {
    "batch": _of_record(StoredBatch),
    "document": _of_record(StoredDocument),
    "signature_release": _of(release_id="int", signature_id="int", batch_id="int"),
    "edge": _of(signature1="int", signature2="int", similarity="float", method="str"),
    "cluster_member": _of(signature_id="int", label="int"),
    "kept_field": _of(doc_id="int", fields="str"),
    "night": _of(add_id="int", name="str"),
    "cursor": _of_record(Cursor),
}
"""Columns by table, in order, without ``checksum``."""
