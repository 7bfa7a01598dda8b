"""Alembic's environment: run the migrations inside the transaction of the caller's connection."""

from alembic import context

from lshdb.storage.schema import RUN_TABLE_PREFIX, metadata

connection = context.config.attributes["connection"]


def _is_ours(table, name, type_, _reflected, _compare_to):  # type: ignore[no-untyped-def]
    """Posting runs come and go with the index, and some tables are one database's alone."""
    if type_ != "table":
        return True
    only = table.info.get("dialect", connection.dialect.name)
    return only == connection.dialect.name and not name.startswith(RUN_TABLE_PREFIX)


# Alembic takes SQLite for a database that cannot roll DDL back, because the driver commits before
# it. Ours does not (see the events in storage/dialects/sqlite/database.py), so a migration is one
# transaction.
context.configure(
    connection=connection,
    target_metadata=metadata,
    transactional_ddl=True,
    include_object=_is_ours,
)
with context.begin_transaction():
    context.run_migrations()
