"""Merged runs: partitions that nobody needs any more, dropped when nobody can see them.

A partition is given up by the transaction that merges it (``retired_run``). Transactions that began
before that commit still have its row in ``run``, and look into it. So two things must hold before
it is dropped:

1. Every transaction that was there after the merge's commit has ended. They are noted by their
   virtual numbers, which ``pg_locks`` shows to everybody; once none of them is left, no snapshot
   is older than the merge. Those of the server itself do not count, as they look into no run:
   after a large add it is vacuuming the new partitions, and has no role then.
2. Nobody has the table open: dropping a partition locks the whole of ``stored_posting`` against
   everybody. The lock is taken only if it is free at that moment, so that neither a reader waits
   for long nor the writer at all.

Where one of them does not hold the partition stays, and the next writer asks again. It costs its
room on disk, and every query some 5 us, as a plan opens all partitions before it prunes them.
"""

from __future__ import annotations

from typing import Any

import psycopg

__all__ = ["drop_retired"]

_ALIVE_SQL = (
    "SELECT array_agg(lock.virtualtransaction) FROM pg_locks AS lock "
    "JOIN pg_stat_activity AS activity USING (pid) "
    "WHERE lock.locktype = 'virtualxid' AND lock.granted AND lock.pid <> pg_backend_pid() "
    "AND activity.datname = current_database() AND activity.usesysid IS NOT NULL"
)


def drop_retired(connection: psycopg.Connection[Any]) -> int:
    """Drop the partitions that can be dropped; how many.

    Parameters
    ----------
    connection : psycopg.Connection
        A writer's, with no transaction open.

    Raises
    ------
    psycopg.Error
        The database failed; nothing is lost.
    """
    with connection.transaction():
        if connection.execute("SELECT FROM retired_run LIMIT 1").fetchone() is None:
            return 0
        free = []
        retired = connection.execute(
            "SELECT table_name, seen_by FROM retired_run ORDER BY table_name FOR UPDATE SKIP LOCKED"
        ).fetchall()
        # After these rows were seen: a writer of another host may have committed them just now.
        alive = set(_alive(connection))
        for table, seen_by in retired:
            noted = alive if seen_by is None else alive & set(seen_by.split(","))
            if not noted:
                free.append(table)
            elif seen_by is None:
                connection.execute(
                    "UPDATE retired_run SET seen_by = %s WHERE table_name = %s",
                    (",".join(sorted(noted)), table),
                )
    dropped = 0
    for table in free:
        dropped += _drop(connection, table)
    return dropped


def _alive(connection: psycopg.Connection[Any]) -> list[str]:
    """Transactions of this database that are open now, by their virtual numbers."""
    row = connection.execute(_ALIVE_SQL).fetchone()
    return (row[0] if row else None) or []


def _drop(connection: psycopg.Connection[Any], table: str) -> bool:
    """Drop a partition, unless somebody has the table of all of them open."""
    try:
        with connection.transaction():
            ours = connection.execute(
                "SELECT FROM retired_run WHERE table_name = %s FOR UPDATE SKIP LOCKED", (table,)
            )
            if ours.fetchone() is None:  # a writer of another host is at it, or has done it
                return False
            # ONLY: the server may be looking through another partition for statistics.
            connection.execute(
                f"LOCK TABLE ONLY stored_posting, ONLY {table} IN ACCESS EXCLUSIVE MODE "
                "NOWAIT".encode()
            )
            connection.execute(f"DROP TABLE IF EXISTS {table}".encode())
            connection.execute("DELETE FROM retired_run WHERE table_name = %s", (table,))
    except psycopg.errors.LockNotAvailable:
        return False
    return True
