"""The tables of format 1, which nothing but its upgrade reads, in a module of its own."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from lshdb.errors import DamageError
from lshdb.storage.dialects.base import Database, Session
from lshdb.storage.tables.stored_columns import verified_row

if TYPE_CHECKING:
    from sqlalchemy import Connection

__all__ = ["Format1Tables", "drop_tables"]

_DOCUMENT = (
    "doc_id, key, signature_id, content_hash, body_hash, n_shingles, n_chars, source, batch_id, "
    "added_at, last_seen_at, n_unassigned, checksum"
)
_DOCUMENTS = (
    f"SELECT {', '.join(f'document.{name}' for name in _DOCUMENT.split(', '))}, form, body, "
    "kept_field.fields, kept_field.checksum FROM document "
    "LEFT JOIN content ON content.doc_id = document.doc_id "
    "LEFT JOIN kept_field ON kept_field.doc_id = document.doc_id ORDER BY document.doc_id"
)
_BATCH = (
    "batch_id, add_id, started_at, finished_at, source, n_added, n_replaced, n_unchanged, "
    "n_copies, n_rejected, n_removed, unicode_version, checksum"
)
_STATE = (
    "state_id, format, uuid, created_at, library_version, unicode_version, signature_file, "
    "n_signatures, next_doc_id, next_run_id, checksum"
)
_VIEWS = (
    "neighbor", "document_field", "cursor_document", "new_document", "cluster", "bucket_size",
    "document_bucket", "bucket", "posting",
)  # fmt: skip
_TABLES = (
    "bucket_stat", "run", "stored_posting", "no_posting", "retired_run", "commit_mark", "segment",
    "unfinished_add", "night", "cursor", "kept_field", "content", "document", "batch", "edge",
    "edge_state", "cluster_member", "signature_release", "signature_block", "parameter", "state",
    "alembic_version",
)  # fmt: skip
"""Views and tables, each before those that it refers to."""
_RUN = re.compile(r"posting_run_\d+")


class Format1Tables:
    """Reads a database of format 1, each row compared with its checksum.

    Parameters
    ----------
    database : Database
        For messages.
    """

    def __init__(self, session: Session, database: Database) -> None:
        self._session = session
        self._database = database

    def _first(self, statement: str) -> tuple[Any, ...]:
        row = self._session.execute(statement).fetchone()
        if row is None:
            raise DamageError(f"{self._database} has no row for {statement!r}")
        return tuple(row)

    def revision(self) -> Any:
        """Return the revision of the schema."""
        return self._first("SELECT version_num FROM alembic_version")[0]

    def state(self) -> dict[str, Any]:
        """Return the row of ``state``.

        Raises
        ------
        DamageError
            It is missing, or not what was written.
        """
        values = verified_row("state", self._first(f"SELECT {_STATE} FROM state"))
        return dict(zip(_STATE.split(", "), values, strict=False))

    def n_documents(self) -> int:
        """Return how many documents there are."""
        return int(self._first("SELECT count(*) FROM document")[0])

    def documents(self) -> Iterator[tuple[Any, ...]]:
        """Yield rows of documents in order: 13 columns of ``document``, with the checksum.

        Then come form and frame of the text, kept fields, and their checksum.
        """
        return self._session.stream(_DOCUMENTS)

    def batches(self) -> Iterator[tuple[Any, ...]]:
        """Yield the rows of ``batch``."""
        return self._rows("batch", _BATCH, "batch_id")

    def nights(self) -> Iterator[tuple[Any, ...]]:
        """Yield (add_id, name) of the nights."""
        return self._rows("night", "add_id, name, checksum", "add_id")

    def cursors(self) -> Iterator[tuple[Any, ...]]:
        """Yield (name, batch_id, advanced_at) of the cursors."""
        return self._rows("cursor", "name, batch_id, advanced_at, checksum", "name")

    def _rows(self, table: str, columns: str, order: str) -> Iterator[tuple[Any, ...]]:
        """Yield the rows of a table with checksums, without these."""
        rows = self._session.stream(f"SELECT {columns} FROM {table} ORDER BY {order}")
        return (verified_row(table, tuple(row)) for row in rows)

    def unfinished_adds(self) -> list[int]:
        """Return the numbers of the adds that did not end."""
        return [row[0] for row in self._session.execute("SELECT add_id FROM unfinished_add")]

    def batch_by_key(self) -> Iterator[tuple[str, int]]:
        """Yield the key of each document and the number of its batch."""
        return self._session.stream("SELECT key, batch_id FROM document ORDER BY doc_id")


def drop_tables(connection: Connection) -> None:
    """Drop the tables and views of format 1, and nothing else."""
    from sqlalchemy import inspect, text

    tables = set(inspect(connection).get_table_names())
    runs = sorted(filter(_RUN.fullmatch, tables))
    for name in _VIEWS:
        connection.execute(text(f"DROP VIEW IF EXISTS {name}"))
    for name in (*runs, *_TABLES):
        if name in tables:
            connection.execute(text(f"DROP TABLE IF EXISTS {name}"))
