"""One writer at a time, from any host: an advisory lock that ends with its transaction.

The lock's number is made from the index's uuid, so indexes in one database do not collide. A writer
that lost its connection keeps the lock while the server still works on its transaction. So the next
writer to get the lock sees how that transaction ended.
"""

from __future__ import annotations

import re
import time
import uuid
from typing import Any

import psycopg

from lshdb.errors import LockedError

__all__ = ["take_lock"]

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


def take_lock(
    connection: psycopg.Connection[Any], index_uuid: str, *, timeout: float, known_as: str
) -> None:
    """Take the writer lock until the open transaction ends.

    Parameters
    ----------
    connection : psycopg.Connection
        At the beginning of a transaction.
    index_uuid : str
    timeout : float
        Seconds to wait for another writer.
        Name of the index in messages.
        The index in messages.

    Raises
    ------
    LockedError
        Another session held the lock for all of the timeout.
    psycopg.Error
        The database failed.
    """
    number = int.from_bytes(uuid.UUID(index_uuid).bytes[:8], signed=True)
    deadline = time.monotonic() + timeout
    while True:
        row = connection.execute("SELECT pg_try_advisory_xact_lock(%s)", (number,)).fetchone()
        if row is not None and row[0]:
            return
        if time.monotonic() >= deadline:
            raise _locked(connection, number, timeout, known_as)
        time.sleep(_POLL_SECONDS)


def _locked(
    connection: psycopg.Connection[Any], number: int, timeout: float, known_as: str
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
