"""Alembic's environment: run the migrations inside the transaction of the caller's connection."""

from alembic import context

from lshdb.storage.tables.schema import RUN_TABLE_PREFIX, metadata

connection = context.config.attributes["connection"]


def _is_ours(item, name, type_, _reflected, _compare_to):  # type: ignore[no-untyped-def]
    """Posting runs come and go with the index, and some things are one database's alone."""
    if item.info.get("dialect", connection.dialect.name) != connection.dialect.name:
        return False
    return type_ != "table" or not name.startswith(RUN_TABLE_PREFIX)


# Alembic takes SQLite for a database that cannot roll DDL back, because the driver commits before
# it. Ours does not (see storage/dialects/sqlite/sqlite_database.py), so a migration is one
# transaction.
context.configure(
    connection=connection,
    target_metadata=metadata,
    transactional_ddl=True,
    include_object=_is_ours,
)
with context.begin_transaction():
    context.run_migrations()
