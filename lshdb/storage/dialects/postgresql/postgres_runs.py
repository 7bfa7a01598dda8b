"""Posting runs in Postgres: partitions of one table, each written once, in key order.

    stored_posting   (run_id, bucket_key, signature_id), partitioned by run_id
    run              which of them count: ordinary rows, so each transaction has its own view
    retired_run      merged partitions, until nobody can see them
    posting          the view over those that count

A run is loaded bare, by binary COPY. It gets its primary key when it is complete and is attached
last, which takes a lock on the whole table that no reader needs. All of it is in the transaction of
the batch. Rows are loaded frozen. Older transactions see frozen rows, too, but a transaction only
looks into runs whose row in ``run`` it sees.

Look-ups go from each run to its partition (LATERAL), which prunes the others; a list of runs in the
condition would only filter what was found in all of them.

The server groups candidate pairs (``GROUP BY bucket_key HAVING count(*) > 1``), so that only
the postings of shared buckets travel. A quarter of 6.5 million postings, where one in six is in a
shared bucket: 0.9 to 1.1 s over a socket and 2.5 to 2.8 s with 20 ms and 100 Mbit/s in between.
Sending all of them and grouping here took 1.2 to 1.3 and 5.4 s, so there is no other way.

Measured with PostgreSQL 18.4, runs of 500,000: COPY, key, attaching and commit 0.8 to 0.9 M rows/s
(key alone 1.3 M), merge of four runs 0.3 to 0.75 M/s; 16 keys in 1, 4, 12 runs 0.12, 0.30, 0.75 ms.
62 bytes of log a posting, 84 on disk.

Decided: a merge takes no partition away. Detaching or dropping one locks the whole table against
everybody. An hour-long reader would hold up the writer, and then all other readers behind it; and a
reader whose transaction is older than the merge would miss the rows.

So the transaction that merges a partition only retires it (``retired_run``). Transactions that
began before that commit still have its row in ``run``, and look into it. A later writer drops it if
two things hold:

1. Every transaction that was open after the merge's commit has ended. They are noted by their
   virtual numbers, which ``pg_locks`` shows to everybody; once none of them is left, no snapshot
   is older than the merge. The server's own do not count, because they look into no run: after a
   large add it vacuums the new partitions, and those transactions have no role.
2. Nobody has the table open: dropping a partition locks the whole of ``stored_posting`` against
   everybody. The lock is taken only if it is free at that moment, so no reader waits for long,
   and the writer not at all.

If one of them does not hold, the partition stays and the next writer asks again. It costs its room
on disk, and about 5 us per query, because a plan opens all partitions before it prunes them.

Keys and ids travel between NumPy and the server without a Python object for each. PostgreSQL's
binary form of an array (``array_send`` in its ``arrayfuncs.c``) is a header of five 32-bit numbers,
big-endian: dimensions, whether there is a NULL, the type of the elements, and for the one dimension
its length and first index. Then each element follows its length in bytes. Rows of COPY in its
binary form are also values after their lengths. Both have a fixed width if all values do, so NumPy
makes and reads them as records.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import psycopg
from numpy.typing import NDArray
from psycopg.abc import AdaptContext, Buffer
from psycopg.adapt import Dumper, Loader
from psycopg.pq import Format
from psycopg.types.numeric import Int8BinaryDumper, NumericBinaryLoader

from lshdb.storage.dialects.base import BAND_SQL, NOT_CONTENT_SQL, RunTables

if TYPE_CHECKING:
    from lshdb.storage.dialects.postgresql.postgres_session import PostgresSession

__all__ = ["PostgresRunTables", "drop_retired", "register_arrays"]

_COPIED_ROWS = 50_000
_MAINTENANCE_MEMORY = "256MB"
_COLUMNS = "bucket_key, signature_id"
_FROM_RUNS = (
    "SELECT array_agg(found.bucket_key), array_agg(found.signature_id) "
    "FROM unnest(?1::int8[]) AS run(run_id) CROSS JOIN LATERAL (SELECT bucket_key, signature_id "
    "FROM stored_posting WHERE stored_posting.run_id = run.run_id AND {} OFFSET 0) AS found"
)

Ids = NDArray[np.int64]


class PostgresRunTables(RunTables):
    """The partitions of posting runs, inside one transaction."""

    posting_bytes = 88
    # A row of 52 bytes and its place in a page, an index entry of 24 and its place.

    def __init__(self, session: PostgresSession) -> None:
        self._session = session
        self._bare: set[str] = set()

    # Writing

    def create(self, run_id: int, table: str, *, is_active: bool) -> None:
        """Make the table of a run; an active one is attached at once, with its key."""
        from lshdb.storage.tables.run_tables import postgres_run

        self._session.execute(postgres_run(table, run_id, is_active=is_active))
        self._bare.add(table)
        if is_active:
            self.complete(run_id, table)

    def insert(self, run_id: int, table: str, keys: Ids, signature_ids: Ids) -> None:
        """Insert sorted postings by binary COPY, frozen if the run is new."""
        freeze = ", FREEZE" if table in self._bare else ""
        with psycopg.RawCursor(self._session.connection).copy(
            f"COPY {table} (run_id, {_COLUMNS}) FROM STDIN (FORMAT BINARY{freeze})"
        ) as copy:
            copy.write(_COPY_HEADER)
            for start in range(0, len(keys), _COPIED_ROWS):
                end = start + _COPIED_ROWS
                copy.write(_rows_to_copy((run_id, keys[start:end], signature_ids[start:end])))
            copy.write(_COPY_TRAILER)

    def merge(self, run_id: int, target: str, sources: Sequence[str]) -> None:
        """Insert all postings of some runs into a new one, in key order."""
        self._session.execute(f"SET LOCAL work_mem = '{_MAINTENANCE_MEMORY}'")
        self._session.execute("SET LOCAL enable_seqscan = on")
        self._session.execute(
            f"INSERT INTO {target} (run_id, {_COLUMNS}) SELECT {run_id:d}, {_COLUMNS} "
            f"FROM ({_arms(sources)}) AS posting ORDER BY {_COLUMNS}"
        )
        self._session.execute("SET LOCAL enable_seqscan = off")
        self._session.execute("SET LOCAL work_mem TO DEFAULT")
        # An INSERT freezes nothing.
        self._session.execute(f"ALTER TABLE {target} RESET (autovacuum_enabled)")

    def complete(self, run_id: int, table: str) -> None:
        """Index a run, and attach it."""
        from lshdb.storage.tables.run_tables import postgres_run_key

        execute = self._session.execute
        execute(f"SET LOCAL maintenance_work_mem = '{_MAINTENANCE_MEMORY}'")
        execute("SET LOCAL max_parallel_maintenance_workers = 0")
        execute(postgres_run_key(table, run_id))
        execute(f"ALTER TABLE stored_posting ATTACH PARTITION {table} FOR VALUES IN ({run_id:d})")
        # Keys are nearly distinct, which a few rows show: 6 ms for a million.
        execute("SET LOCAL default_statistics_target = 1")
        execute(f"ANALYZE {table} (bucket_key)")
        execute("SET LOCAL default_statistics_target TO DEFAULT")
        self._bare.discard(table)

    def publish(self, tables: Sequence[str]) -> None:
        """Do nothing: the view shows what the table ``run`` says."""

    def retire(self, tables: Sequence[str]) -> None:
        """Note partitions to be dropped when nobody can see them."""
        for table in tables:
            self._session.execute("INSERT INTO retired_run (table_name) VALUES (?)", (table,))

    def bucket_sizes(self, table: str) -> list[tuple[int, int, int]]:
        """Count the buckets of each size on the server, in one pass."""
        found: list[tuple[int, int, int]] = self._session.execute(
            f"SELECT band, size, count(*) FROM (SELECT {BAND_SQL} AS band, count(*) AS size "
            f"FROM {table} WHERE {NOT_CONTENT_SQL} GROUP BY bucket_key) AS bucket "
            "GROUP BY band, size"
        ).fetchall()
        return found

    # Reading

    def names(self) -> set[str]:
        """Return the names of the partitions, and of tables like them, that are not retired."""
        rows = self._session.execute(
            "SELECT relname::text FROM pg_class "
            "JOIN pg_namespace ON pg_namespace.oid = relnamespace "
            "WHERE nspname = current_schema() AND relkind = 'r' "
            "AND relname ~ '^posting_run_[0-9]+$' "
            "AND relname::text NOT IN (SELECT table_name FROM retired_run)"
        )
        return {name for (name,) in rows}

    def counts(self, table: str, keys: Ids) -> dict[int, int]:
        """Return the number of postings of some buckets; one look-up each."""
        rows = self._session.execute(
            f"SELECT bucket_key, count(*) FROM {table} WHERE bucket_key = ANY(?) GROUP BY 1",
            (keys,),
        )
        return dict(iter(rows))

    def of(self, tables: Sequence[str], keys: Ids) -> tuple[Ids, Ids]:
        """Return the postings of some buckets; one look-up a key and run, in one statement."""
        return self._arrays(
            _FROM_RUNS.format("bucket_key = ANY(?2)"), (_run_ids(tables), np.sort(keys))
        )

    def shared(self, tables: Sequence[str], first: int, last: int, *, above: int = 1) -> Ids:
        """Return the postings of shared buckets in a range; the server groups them."""
        return self._shared(tables, "bucket_key BETWEEN ?1 AND ?2", (first, last), above)

    def shared_of(self, tables: Sequence[str], keys: Ids) -> Ids:
        """Return the postings of those of some buckets that are shared."""
        return self._shared(tables, "bucket_key = ANY(?1)", (np.sort(keys),))

    def _shared(
        self, tables: Sequence[str], condition: str, parameters: tuple[Any, ...], above: int = 1
    ) -> Ids:
        """Group on the server, so that only shared buckets travel; their members are looked up."""
        keys, members = self._arrays(
            "WITH shared AS MATERIALIZED (SELECT bucket_key "
            f"FROM ({_arms(tables, condition)}) AS posting "
            f"GROUP BY bucket_key HAVING count(*) > {above:d}) "
            "SELECT array_agg(member.bucket_key), array_agg(member.signature_id) "
            "FROM shared CROSS JOIN LATERAL "
            f"({_arms(tables, 'bucket_key = shared.bucket_key')} OFFSET 0) AS member",
            parameters,
        )
        order = np.lexsort((members, keys))
        return np.column_stack([keys[order], members[order]])

    def between(self, table: str, first: int, last: int, *, block: int) -> Iterator[Ids]:
        """Yield the postings of a run in a range, as :meth:`in_order` does."""
        yield from self._in_order([table], f"bucket_key <= {last:d}", (first, -(2**63)), block)

    def in_order(self, tables: Sequence[str], *, contents: bool, block: int) -> Iterator[Ids]:
        """Yield every posting in order; each block is looked up after the end of the last."""
        condition = "true" if contents else NOT_CONTENT_SQL
        yield from self._in_order(tables, condition, (-(2**63), -1), block)

    def _in_order(
        self, tables: Sequence[str], condition: str, last: tuple[int, int], block: int
    ) -> Iterator[Ids]:
        arms = " UNION ALL ".join(
            f"(SELECT {_COLUMNS} FROM {table} WHERE ({_COLUMNS}) > (?1, ?2) AND {condition} "
            f"ORDER BY {_COLUMNS} LIMIT ?3)"
            for table in tables
        )
        while True:
            keys, members = self._arrays(
                f"SELECT array_agg(bucket_key), array_agg(signature_id) FROM (SELECT {_COLUMNS} "
                f"FROM ({arms}) AS posting ORDER BY {_COLUMNS} LIMIT ?3) AS ordered",
                (*last, block),
            )
            if not len(keys):
                return
            last = (int(keys[-1]), int(members[-1]))
            yield np.column_stack([keys, members])

    def _arrays(self, sql: str, parameters: tuple[Any, ...]) -> tuple[Ids, Ids]:
        keys, members = self._session.execute(sql, parameters).fetchone()
        if keys is None:
            return np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64)
        return keys, members


def _arms(tables: Sequence[str], condition: str = "true") -> str:
    return " UNION ALL ".join(
        f"SELECT {_COLUMNS} FROM {table} WHERE {condition}" for table in tables
    )


def _run_ids(tables: Sequence[str]) -> Ids:
    return np.array([int(table.rpartition("_")[2]) for table in tables], dtype=np.int64)


_ALIVE_SQL = (
    "SELECT array_agg(lock.virtualtransaction) FROM pg_locks AS lock "
    "JOIN pg_stat_activity AS activity USING (pid) "
    "WHERE lock.locktype = 'virtualxid' AND lock.granted AND lock.pid <> pg_backend_pid() "
    "AND activity.datname = current_database() AND activity.usesysid IS NOT NULL"
)


def drop_retired(connection: psycopg.Connection[Any]) -> int:
    """Drop the partitions that can be dropped; return how many.

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
        # After these rows were read: a writer of another host may have committed them just now.
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
    """Return the transactions of this database that are open now, by their virtual numbers."""
    row = connection.execute(_ALIVE_SQL).fetchone()
    return (row[0] if row else None) or []


def _drop(connection: psycopg.Connection[Any], table: str) -> bool:
    """Drop a partition, unless another session has the partitioned table open."""
    try:
        with connection.transaction():
            ours = connection.execute(
                "SELECT FROM retired_run WHERE table_name = %s FOR UPDATE SKIP LOCKED", (table,)
            )
            if ours.fetchone() is None:  # another host's writer is dropping it, or has done so
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


_INT8, _INT8_ARRAY = 20, 1016
"""Numbers of the types bigint and bigint[], which never change."""
_ELEMENT = np.dtype([("length", ">i4"), ("value", ">i8")])
_HEADER = struct.Struct(">5i")
_EMPTY_BYTES = 12
"""An empty array has no dimension; its header has no length and no first index."""

_COPY_HEADER = b"PGCOPY\n\xff\r\n\x00" + bytes(8)
_COPY_TRAILER = b"\xff\xff"


class _ArrayDumper(Dumper):
    """An ndarray of int64 as a bigint[]."""

    format = Format.BINARY
    oid = _INT8_ARRAY

    def dump(self, obj: NDArray[np.int64]) -> Buffer:
        if not len(obj):
            return _HEADER.pack(0, 0, _INT8, 0, 0)[:_EMPTY_BYTES]
        elements = np.empty(len(obj), dtype=_ELEMENT)
        elements["length"] = 8
        elements["value"] = obj
        return _HEADER.pack(1, 0, _INT8, len(obj), 1) + elements.tobytes()


class _ArrayLoader(Loader):
    """A bigint[] of one dimension, without NULLs, as an ndarray of int64."""

    format = Format.BINARY

    def load(self, data: Buffer) -> NDArray[np.int64]:
        if len(data) == _EMPTY_BYTES:
            return np.empty(0, dtype=np.int64)
        return np.frombuffer(data, dtype=_ELEMENT, offset=_HEADER.size)["value"].astype(np.int64)


class _NumericLoader(NumericBinaryLoader):
    """A numeric, the type of sums of whole numbers, as an int if it is whole."""

    def load(self, data: Buffer) -> Any:
        value = super().load(data)
        return int(value) if value == value.to_integral_value() else float(value)


def register_arrays(context: AdaptContext | psycopg.Connection[Any]) -> None:
    """Let a connection take and give arrays, and take every whole number as a bigint.

    Otherwise the type of a parameter, and with it the prepared statement, would depend on the size
    of the number.
    """
    adapters = context.adapters
    if adapters is not None:
        adapters.register_dumper(np.ndarray, _ArrayDumper)
        adapters.register_dumper(int, Int8BinaryDumper)
        adapters.register_loader(_INT8_ARRAY, _ArrayLoader)
        adapters.register_loader("numeric", _NumericLoader)


def _rows_to_copy(columns: Sequence[NDArray[np.int64] | int]) -> bytes:
    """Return rows of bigint columns in the binary form of COPY.

    Parameters
    ----------
    columns : sequence of ndarray of int64, shape (n,), or int
        An int is the same in every row; at least one is an array.

    Returns
    -------
    bytes
        Without header and trailer; 2 + 12 * columns bytes a row.
    """
    fields: list[tuple[str, str]] = [("count", ">i2")]
    for place in range(len(columns)):
        fields += [(f"length{place}", ">i4"), (f"value{place}", ">i8")]
    n = next(len(column) for column in columns if isinstance(column, np.ndarray))
    rows = np.empty(n, dtype=np.dtype(fields))
    rows["count"] = len(columns)
    for place, column in enumerate(columns):
        rows[f"length{place}"] = 8
        rows[f"value{place}"] = column
    return rows.tobytes()
