"""Alembic's environment: run the migrations inside the transaction of the caller's connection."""

from alembic import context

from lshdb.storage.tables.schema import RUN_TABLE_PREFIX, metadata

connection = context.config.attributes["connection"]


def _is_ours(item, name, type_, _reflected, _compare_to):  # type: ignore[no-untyped-def]
    """Skip posting runs, which come and go with the index, and objects of one database only."""
    if item.info.get("dialect", connection.dialect.name) != connection.dialect.name:
        return False
    return type_ != "table" or not name.startswith(RUN_TABLE_PREFIX)


# Alembic assumes that SQLite cannot roll DDL back, because its driver commits before DDL. Ours does
# not (see storage/dialects/sqlite/sqlite_database.py), so a migration is one transaction.
context.configure(
    connection=connection,
    target_metadata=metadata,
    transactional_ddl=True,
    include_object=_is_ours,
)
with context.begin_transaction():
    context.run_migrations()
