"""Rows of an index from one database into another, as they are.

Numbers, checksums and runs stay what they were, so that whatever held of the one holds of the
other. Streamed from the one transaction into the other; memory is that of some thousand rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from lshdb.storage.checksums import row_checksum
from lshdb.storage.dialects.base import Session
from lshdb.storage.dialects.run_tables import run_table

if TYPE_CHECKING:
    from sqlalchemy import Table

__all__ = ["replace_rows", "transfer_rows"]

_POSTINGS = 500_000


def transfer_rows(source: Session, target: Session) -> None:
    """Copy every row of an index into the empty tables of another database.

    Parameters
    ----------
    source : Session
        A reader's.
    target : Session
        A writer's; the tables are there and empty.
    """
    for table in _tables():
        _copy_table(source, target, table)
        if table.name == "run":
            _copy_runs(source, target, first_run=0)


def replace_rows(source: Session, target: Session) -> None:
    """Put every row of an index in the place of those of another database.

    Whoever reads the target goes on with what was there. Runs get numbers that it has not had.

    Parameters
    ----------
    source, target : Session
        As for :func:`transfer_rows`, but the tables of the target hold an index.
    """
    tables = list(_tables())
    names = target.run_tables.names()
    (next_run_id,) = target.execute("SELECT max(next_run_id) FROM state").fetchone()
    first_run = max([next_run_id or 0, *(int(name.rpartition("_")[2]) for name in names)]) + 1
    for table in reversed(tables):
        target.execute(f"DELETE FROM {table.name}")
    target.run_tables.retire(sorted(names))
    for table in tables:
        if table.name in ("run", "bucket_stat"):
            _copy_table(source, target, table, first_run=first_run)
        else:
            _copy_table(source, target, table)
        if table.name == "run":
            _copy_runs(source, target, first_run=first_run)
    target.execute("UPDATE state SET next_run_id = next_run_id + ?", (first_run,))
    row = target.execute("SELECT * FROM state").fetchone()
    target.execute("UPDATE state SET checksum = ?", (row_checksum(row[:-1]),))


def _tables() -> Iterator[Table]:
    """The tables that every database has, those that others refer to before these."""
    from lshdb.storage.schema import metadata

    return (table for table in metadata.sorted_tables if not table.info)


def _copy_table(source: Session, target: Session, table: Table, *, first_run: int = 0) -> None:
    columns = table.columns.keys()
    order = ", ".join(column.name for column in table.primary_key)
    rows = source.stream(f"SELECT {', '.join(columns)} FROM {table.name} ORDER BY {order}")
    if table.name == "run":
        rows = (_run_row(dict(zip(columns, row, strict=True)), first_run) for row in rows)
    elif first_run:
        rows = ((row[0] + first_run, *row[1:]) for row in rows)
    target.insert_rows(table.name, columns, rows)


def _run_row(row: dict[str, Any], first_run: int) -> tuple[Any, ...]:
    """A row of ``run`` with another number, which its table's name ends with."""
    row["run_id"] += first_run
    row["table_name"] = _name(row["table_name"], first_run)
    row["is_active"] = bool(row["is_active"])
    return tuple(row.values())


def _name(table: str, first_run: int) -> str:
    prefix, _, number = run_table(table).rpartition("_")
    return f"{prefix}_{int(number) + first_run}"


def _copy_runs(source: Session, target: Session, *, first_run: int) -> None:
    runs = source.execute("SELECT run_id, table_name, is_active FROM run ORDER BY run_id")
    names = []
    for run_id, table, is_active in runs.fetchall():
        name, number = _name(table, first_run), run_id + first_run
        target.run_tables.create(number, name, is_active=bool(is_active))
        for block in source.run_tables.in_order([table], contents=True, block=_POSTINGS):
            target.run_tables.insert(number, name, block[:, 0], block[:, 1])
        if not is_active:
            target.run_tables.complete(number, name)
        names.append(name)
    target.run_tables.publish(names)
