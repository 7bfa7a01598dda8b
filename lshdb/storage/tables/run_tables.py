"""Statements that make and drop posting runs and the view over them, compiled by SQLAlchemy.

Runs come and go as the index grows, so no migration names them. Their tables are described here
as those of ``schema.py`` are, and Alembic's environment knows them by ``RUN_TABLE_PREFIX``. The
statements are text for a driver's cursor, inside SQLAlchemy's transaction. Importing this module
imports SQLAlchemy, so only writing code does.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

from sqlalchemy import (
    CheckConstraint,
    Column,
    ColumnElement,
    Integer,
    MetaData,
    PrimaryKeyConstraint,
    Select,
    Table,
    cast,
    literal_column,
    select,
    text,
    union_all,
)
from sqlalchemy.dialects import registry
from sqlalchemy.schema import (
    AddConstraint,
    CreateTable,
    CreateView,
    DropTable,
    DropView,
    ExecutableDDLElement,
)

from lshdb.storage.dialects.base import BAND_SQL, BUCKET_SQL, NOT_CONTENT_SQL
from lshdb.storage.tables.schema import Whole, no_posting

__all__ = [
    "postgres_run",
    "postgres_run_key",
    "run_of_postgres",
    "run_of_sqlite",
    "sqlite_drop_run",
    "sqlite_run",
    "sqlite_view",
]

_KEY = ("bucket_key", "signature_id")


def run_of_sqlite(name: str) -> Table:
    """Return the table of a run in SQLite: a B-tree in key order and nothing else."""
    columns = [Column(column, Whole, primary_key=True, autoincrement=False) for column in _KEY]
    return Table(name, MetaData(), *columns, sqlite_with_rowid=False)


def run_of_postgres(name: str, run_id: int, *, is_active: bool = False) -> Table:
    """Return the table of a run in Postgres, as it is loaded: without a key, for one partition.

    Rows that are loaded frozen and never change leave nothing to vacuum; an active run's do.
    """
    columns = [Column(column, Whole, nullable=False) for column in ("run_id", *_KEY)]
    condition = CheckConstraint(f"run_id = {run_id:d}", name=f"ck_{name}")
    options: dict[str, Any] = (
        {} if is_active else {"postgresql_with": {"autovacuum_enabled": "off"}}
    )
    return Table(name, MetaData(), *columns, condition, **options)


def sqlite_run(name: str) -> str:
    """Return the statement that makes the table of a run in SQLite."""
    return _for_sqlite(CreateTable(run_of_sqlite(name)))


def sqlite_drop_run(name: str) -> str:
    """Return the statement that drops it."""
    return _for_sqlite(DropTable(run_of_sqlite(name)))


def sqlite_view(names: Sequence[str]) -> tuple[str, str]:
    """Return the statements that drop the view ``posting`` and make it over these runs.

    Its first part is an empty table, whose columns have types. Without the casts the affinities of
    the other parts would differ from those, and SQLite would not look into them for a condition.

    To compile a part takes .15 ms, and an add makes the view in every commit, of up to a hundred
    runs; so one is compiled for all.
    """
    drop, first, union, arm = _view_parts()
    return drop, union.join([first, *(arm.replace(_ANY_RUN, name) for name in names)])


_ANY_RUN = "any_posting_run"


@functools.cache
def _view_parts() -> tuple[str, str, str, str]:
    """Return the statement that drops the view, and of the other: first part, union, any run."""
    columns: list[ColumnElement[Any]] = [
        literal_column(column.name) for column in no_posting.columns
    ]
    first = select(*columns).select_from(text(no_posting.name))
    view = CreateView(union_all(first, _arm(_ANY_RUN)), "posting")
    drop = _for_sqlite(DropView(view.table, if_exists=True))
    return drop, *_for_sqlite(view).partition(" UNION ALL ")


def _arm(name: str) -> Select[*tuple[Any, ...]]:
    return (
        select(
            cast(literal_column(BAND_SQL), Integer).label("band"),
            cast(literal_column(BUCKET_SQL), Integer).label("bucket"),
            *(literal_column(column) for column in _KEY),
        )
        .select_from(text(name))
        .where(text(NOT_CONTENT_SQL))
    )


def postgres_run(name: str, run_id: int, *, is_active: bool) -> str:
    """Return the statement that makes the table of a run in Postgres."""
    return _for_postgres(CreateTable(run_of_postgres(name, run_id, is_active=is_active)))


def postgres_run_key(name: str, run_id: int) -> str:
    """Return the statement that gives a loaded run its primary key."""
    table = run_of_postgres(name, run_id)
    key = PrimaryKeyConstraint(*(table.c[column] for column in _KEY), name=f"pk_{name}")
    return _for_postgres(AddConstraint(key))


def _for_sqlite(statement: ExecutableDDLElement) -> str:
    return _compiled(statement, "sqlite")


def _for_postgres(statement: ExecutableDDLElement) -> str:
    return _compiled(statement, "postgresql")


def _compiled(statement: ExecutableDDLElement, dialect: str) -> str:
    return str(statement.compile(dialect=registry.load(dialect)()))
