"""The tables of an export and their columns, the same for every format.

A row is a tuple of plain values in the order of the columns: hashes as hexadecimal digits, times as
text. The values of each column are checked when rows are imported.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

__all__ = ["POSTINGS", "TABLES", "Column", "Table", "fault_of", "tables_of"]


@dataclass(frozen=True, slots=True)
class Column:
    """A column.

    Attributes
    ----------
    name : str
    kind : {"integer", "number", "text", "hash", "tokens"}
    is_optional : bool
        Whether it may be absent (null).
    """

    name: str
    kind: str
    is_optional: bool = False


@dataclass(frozen=True, slots=True)
class Table:
    """A table: its name, which is also its file's name, and its columns."""

    name: str
    columns: tuple[Column, ...]

    @property
    def names(self) -> list[str]:
        """Names of the columns."""
        return [column.name for column in self.columns]


def _table(name: str, columns: str) -> Table:
    """Build a table from columns written ``name:kind``, with a question mark if optional."""
    pairs = (column.split(":") for column in columns.split())
    return Table(
        name, tuple(Column(one, kind.rstrip("?"), kind.endswith("?")) for one, kind in pairs)
    )


TABLES = {
    table.name: table
    for table in (
        _table(
            "documents",
            "doc_id:integer key:text signature_id:integer? content_hash:hash body_hash:hash "
            "n_shingles:integer n_chars:integer source:text batch_id:integer added_at:text "
            "last_seen_at:text n_unassigned:integer? text:text? tokens:tokens?",
        ),
        _table(
            "batches",
            "batch_id:integer add_id:integer started_at:text finished_at:text source:text "
            "n_added:integer n_replaced:integer n_unchanged:integer n_copies:integer "
            "n_rejected:integer n_removed:integer unicode_version:text",
        ),
        _table("releases", "release_id:integer signature_id:integer batch_id:integer"),
        _table("edges", "signature1:integer signature2:integer similarity:number method:text"),
        _table("clusters", "signature_id:integer label:integer"),
    )
}
"""All tables except the postings, by name."""

POSTINGS = _table("postings", "band:integer bucket:integer bucket_key:integer signature_id:integer")
"""The postings, if they are a table of their own (Parquet)."""


def tables_of(metric: object) -> dict[str, Table]:
    """Return the tables of an index; documents that may be weights have a column for them.

    The column holds JSON: the object with sorted keys whose hash is ``body_hash``, so that numbers
    come back exactly as written.
    """
    if metric != "weighted-jaccard":
        return TABLES
    documents = TABLES["documents"]
    weights = Column("weights", "text", is_optional=True)
    return {**TABLES, documents.name: Table(documents.name, (*documents.columns, weights))}


_HASH = re.compile("[0-9a-f]{32}").fullmatch
_KINDS: dict[str, Any] = {
    "integer": lambda value: type(value) is int and -(2**63) <= value < 2**63,
    "number": lambda value: type(value) in (int, float),
    "text": lambda value: type(value) is str,
    "hash": lambda value: type(value) is str and _HASH(value) is not None,
    "tokens": lambda value: type(value) is list and all(type(one) is str for one in value),
}


def fault_of(table: Table, row: Sequence[Any]) -> str | None:
    """Return what is wrong with a row's values, in words; None for a valid row."""
    for column, value in zip(table.columns, row, strict=True):
        if value is None:
            if not column.is_optional:
                return f"{column.name} is missing"
        elif not _KINDS[column.kind](value):
            return f"{column.name} is {value!r:.80}, expected: {column.kind}"
    return None
