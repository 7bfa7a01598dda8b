"""Alembic's environment: run the migrations inside the transaction of the caller's connection."""

from alembic import context

from lshdb.storage.schema import RUN_TABLE_PREFIX, metadata


def _is_ours(_object, name, type_, _reflected, _compare_to):  # type: ignore[no-untyped-def]
    """Posting runs come and go with the index and are no part of the schema."""
    return not (type_ == "table" and name.startswith(RUN_TABLE_PREFIX))


# Alembic takes SQLite for a database that cannot roll DDL back, because the driver commits before
# it. Ours does not (see the events in storage/dialects/sqlite.py), so a migration is one
# transaction.
context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=metadata,
    transactional_ddl=True,
    include_object=_is_ours,
)
with context.begin_transaction():
    context.run_migrations()
