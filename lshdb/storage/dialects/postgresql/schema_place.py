"""The schema of an index: making it, removing it again, and locking out other processes.

Decided: never remove what another process may have made meanwhile. A process that makes an index
locks the schema's name before it looks whether the schema is empty, and holds the lock until its
commit. It drops only an index with its own uuid. A schema that an administrator made before stays,
with its owner and its privileges; one that was made here has a comment that says so.

One writer at a time, from any host: an advisory lock that ends with its transaction. Its number is
made from the index's uuid, so indexes in one database do not collide. A writer that lost its
connection keeps the lock while the server still works on its transaction. So the next writer to get
the lock sees how that transaction ended.
"""

from __future__ import annotations

import re
import time
import uuid
from collections.abc import Callable

from lshdb.errors import DatabaseError, IndexExistsError, LockedError, ReadOnlyError
from lshdb.storage.dialects.postgresql.server_connection import ServerConnection, quoted

__all__ = ["PRIVILEGES", "drop_index", "make_schema", "refuse_unfit", "take_lock"]

PRIVILEGES = (
    "ask the owner for what lshdb guide postgres lists: CREATE on the database to make an index, "
    "USAGE on its schema and SELECT on its tables to read it; to write, use the role that owns them"
)

_OLDEST = 140000
_MADE = "made by lshdb"
_FOUND_SQL = (
    "SELECT name FROM (SELECT relname::text AS name, relnamespace AS schema FROM pg_class "
    "UNION ALL SELECT proname::text, pronamespace FROM pg_proc "
    "UNION ALL SELECT typname::text, typnamespace FROM pg_type) AS thing "
    "WHERE schema = (SELECT oid FROM pg_namespace WHERE nspname = %s) "
    "ORDER BY name <> 'signature_block', name LIMIT 1"
)
_POLL_SECONDS = 0.05
_HOLDER_SQL = (
    "SELECT activity.pid, coalesce(application_name, ''), usename::text, "
    "coalesce(host(client_addr), ''), to_char(xact_start AT TIME ZONE 'UTC', "
    "'YYYY-MM-DD HH24:MI:SS') FROM pg_locks AS lock JOIN pg_stat_activity AS activity USING (pid) "
    "WHERE lock.locktype = 'advisory' AND lock.granted AND lock.database = "
    "(SELECT oid FROM pg_database WHERE datname = current_database()) "
    "AND (lock.classid::int8 << 32 | lock.objid::int8) = %s"
)
_OURS = re.compile(r"lshdb writing, (\d+) on (.*)")


def refuse_unfit(connection: ServerConnection, url: str, schema: str) -> None:
    """Raise an error if no index can be made there.

    Raises
    ------
    IndexExistsError
        There is something in the schema.
    DatabaseError
        The server is too old, or the database's texts are not in UTF-8.
    """
    version = connection.info.server_version
    if version < _OLDEST:
        raise DatabaseError(
            f"the server of {url} is PostgreSQL {version // 10000}; an index needs "
            f"{_OLDEST // 10000} or later",
            hint="give the --database of a newer server",
        )
    encoding = connection.info.parameter_status("server_encoding")
    if encoding != "UTF8":
        raise DatabaseError(
            f"the database {url} keeps texts in {encoding}; an index needs UTF8",
            hint="make a database for it: createdb --encoding UTF8 --template template0 NAME",
        )
    occupant = connection.execute(_FOUND_SQL, (schema,)).fetchone()
    if occupant is not None:
        what = "an index" if occupant[0] == "signature_block" else f"something, {occupant[0]!r},"
        raise IndexExistsError(
            f"there is {what} in the schema {schema} of {url} already",
            hint="give another --schema, or drop that one",
        )


def make_schema(connection: ServerConnection, url: str, schema: str) -> None:
    """Make the schema, if it is not there, in a transaction that goes on to fill it.

    Raises
    ------
    IndexExistsError
        Another process made it first.
    DatabaseError
        The schema exists and may not be used: its tables would be temporary ones.
    """
    _reserve(connection, schema)
    refuse_unfit(connection, url, schema)
    exists = "SELECT FROM pg_namespace WHERE nspname = %s"
    if not connection.execute(exists, (schema,)).rowcount:
        connection.execute(f"CREATE SCHEMA {quoted(schema)}".encode())
        connection.execute(f"COMMENT ON SCHEMA {quoted(schema)} IS '{_MADE}'".encode())
    if connection.execute("SELECT current_schema()").fetchone() != (schema,):
        raise DatabaseError(
            f"permission denied for schema {schema} of {url}",
            hint="ask its owner: GRANT USAGE, CREATE ON SCHEMA ... TO ...",
        )


def drop_index(connection: ServerConnection, schema: str, uuid: str) -> None:
    """Drop the index of that uuid if the schema holds it; keep one that has taken its place.

    A writer whose connection was lost may still be making it; wait for it.
    """
    with connection.transaction():
        _reserve(connection, schema)
        if connection.execute("SELECT FROM pg_class WHERE oid = to_regclass('state')").rowcount < 1:
            return
        if connection.execute("SELECT uuid FROM state").fetchone() != (uuid,):
            return
        (comment,) = connection.execute(
            "SELECT obj_description(oid, 'pg_namespace') FROM pg_namespace WHERE nspname = %s",
            (schema,),
        ).fetchone() or (None,)
        if comment == _MADE:
            connection.execute(f"DROP SCHEMA {quoted(schema)} CASCADE".encode())
            return
        names = connection.execute(
            "SELECT string_agg(quote_ident(relname), ', ') FROM pg_class WHERE relkind IN "
            "('r', 'p') AND NOT relispartition AND relnamespace = "
            "(SELECT oid FROM pg_namespace WHERE nspname = %s)",
            (schema,),
        ).fetchone()
        if names is not None and names[0]:
            connection.execute(f"DROP TABLE {names[0]} CASCADE".encode())


def _reserve(connection: ServerConnection, schema: str) -> None:
    """Wait until no other process makes or removes an index in the schema; hold to the commit.

    A process that lost its connection may still be at work in the server.
    """
    connection.execute(
        "SELECT pg_advisory_xact_lock(hashtextextended(%s, 0))", (f"lshdb {schema}",)
    )


def take_lock(
    connection: ServerConnection,
    index_uuid: str,
    *,
    timeout: float,
    known_as: str,
    on_wait: Callable[[LockedError], None] | None = None,
) -> None:
    """Take the writer lock until the open transaction ends.

    Parameters
    ----------
    connection : ServerConnection
        At the beginning of a transaction.
    timeout : float
        Seconds to wait for another writer.
    known_as : str
        Name of the index in messages.
    on_wait : callable, optional
        Called once before waiting, with the error of a wait that is too long.

    Raises
    ------
    LockedError
        Another session held the lock for all of the timeout.
    ReadOnlyError
        The server is a standby, or the role may only read.
    psycopg.Error
        The database failed.
    """
    number = int.from_bytes(uuid.UUID(index_uuid).bytes[:8], signed=True)
    deadline = time.monotonic() + timeout
    while True:
        row = connection.execute(
            "SELECT pg_is_in_recovery(), has_table_privilege('state', 'UPDATE'), "
            "pg_try_advisory_xact_lock(%s)",
            (number,),
        ).fetchone()
        if row is not None and row[0]:
            raise ReadOnlyError(
                f"the database of the index {known_as} is on a standby server, which only reads; "
                "nothing was changed",
                hint="name the primary server in index.toml, or promote this one",
            )
        if row is not None and not row[1]:
            raise ReadOnlyError(
                f"your role may not write to the index {known_as}; nothing was changed",
                hint=PRIVILEGES,
            )
        if row is not None and row[2]:
            return
        if time.monotonic() >= deadline:
            raise _locked(connection, number, timeout, known_as)
        if on_wait is not None:
            on_wait(_locked(connection, number, timeout, known_as))
            on_wait = None
        time.sleep(_POLL_SECONDS)


def _locked(
    connection: ServerConnection, number: int, timeout: float, known_as: str
) -> LockedError:
    row = connection.execute(_HOLDER_SQL, (number,)).fetchone()
    backend, application, user, address, since = row or (None, "", None, "", None)
    ours = _OURS.fullmatch(application)
    pid = int(ours[1]) if ours else None
    if ours:
        holder = f"process {ours[1]} on {ours[2]}"
    elif backend is not None:
        holder = f"the session {backend} of {user}" + (f" from {address}" if address else "")
    else:
        holder = "another session"
    return LockedError(
        f"the index {known_as} is being written by {holder}"
        f"{f' since {since} UTC' if since else ''}; waited {timeout:g} s",
        pid=pid,
        since=since,
        hint="wait for it to end, or give a longer --lock-timeout",
    )
