"""What can be found wrong in a schema that Postgres itself keeps sound.

Types are enforced and pages are the server's (with checksums, where the cluster was made with
them: every row that a full check reads is compared with them by the server). What is left is an
index that was never finished, a partition that is not attached, and numbers of what does not exist.
"""

from __future__ import annotations

from collections.abc import Iterator

from lshdb.storage.dialects.base import NUMBERS, Session

__all__ = ["misplaced_values", "structure"]


def structure(session: Session) -> Iterator[str]:
    """Findings about indexes that do not count, and runs that are no partitions."""
    for (index,) in session.execute(
        "SELECT pg_class.relname::text FROM pg_index JOIN pg_class ON pg_class.oid = indexrelid "
        "JOIN pg_namespace ON pg_namespace.oid = relnamespace "
        "WHERE nspname = current_schema() AND NOT (indisvalid AND indisready)"
    ):
        yield f"the index {index} is not valid"
    for (table,) in session.execute(
        "SELECT table_name FROM run WHERE NOT EXISTS (SELECT FROM pg_inherits "
        "WHERE inhrelid = to_regclass(table_name) AND inhparent = 'stored_posting'::regclass)"
    ):
        yield f"the table {table} is no partition of stored_posting"


def misplaced_values(session: Session) -> Iterator[str]:
    """Findings: columns with numbers of signatures or documents that do not exist."""
    columns = session.execute(
        "SELECT table_name::text, column_name::text FROM information_schema.columns "
        "JOIN information_schema.tables USING (table_schema, table_name) "
        "WHERE table_schema = current_schema() AND table_type = 'BASE TABLE' "
        "AND column_name = ANY(?) AND table_name <> 'stored_posting' ORDER BY 1, 2",
        (list(NUMBERS),),
    ).fetchall()
    for table, column in columns:
        first, last = NUMBERS[column]
        wrong = f"{column} NOT BETWEEN {first} AND (SELECT {last} FROM state)"
        (count,) = session.execute(f'SELECT count(*) FROM "{table}" WHERE {wrong}').fetchone()
        if count:
            yield f"{count} of the values in the column {column} of the table {table} cannot be"
