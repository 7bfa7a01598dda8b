"""Alembic's environment: the migrations, in the transaction of a caller or of an index by its path.

``lshdb upgrade`` and new indexes bring a connection. From a checkout, `alembic -x index=PATH` opens
the index, as its only writer.
"""

from pathlib import Path

from alembic import context
from alembic.util import CommandError

from lshdb.errors import LshdbError
from lshdb.storage.tables.schema import metadata
from lshdb.storage.tables.stored_columns import BAND_TABLE

LOCK_TIMEOUT = 60.0


def run(connection):  # type: ignore[no-untyped-def]
    """Run the migrations that the command asks for."""

    def is_ours(item, name, type_, _reflected, _compare_to):  # type: ignore[no-untyped-def]
        """Skip the table of bands, which depends on the index, and objects of one database only."""
        if item.info.get("dialect", connection.dialect.name) != connection.dialect.name:
            return False
        return type_ != "table" or name != BAND_TABLE

    # Alembic assumes that SQLite cannot roll DDL back, because its driver commits before DDL. Ours
    # does not (see storage/dialects/sqlite/sqlite_database.py), so a migration is one transaction.
    context.configure(
        connection=connection,
        target_metadata=metadata,
        transactional_ddl=True,
        include_object=is_ours,
    )
    with context.begin_transaction():
        context.run_migrations()


def run_on_index():  # type: ignore[no-untyped-def]
    """Open the index that ``-x index=PATH`` names."""
    from lshdb.maintain.upgrade import migrating

    path = context.get_x_argument(as_dictionary=True).get("index")
    if not path:
        raise CommandError("no index is named; say which: alembic -x index=PATH upgrade head")
    if context.is_offline_mode():
        raise CommandError("migrations read what they change, so there is no script of them")
    try:
        with migrating(Path(path), lock_timeout=LOCK_TIMEOUT) as connection:
            run(connection)
    except LshdbError as error:
        raise CommandError(f"{error.message}\n{error.hint or ''}".rstrip()) from error


if "connection" in context.config.attributes:
    run(context.config.attributes["connection"])
else:
    run_on_index()
