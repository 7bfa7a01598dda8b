"""Posting runs in SQLite: one table per run, in key order, and a view over them all.

A compound SELECT has at most 500 arms, so there are never more runs than that.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from lshdb.storage.dialects.run_tables import BAND_SQL, BUCKET_SQL, NOT_CONTENT_SQL, RunTables

if TYPE_CHECKING:
    from lshdb.storage.dialects.sqlite.sqlite_session import SqliteSession

__all__ = ["SqliteRunTables"]

_FEW_KEYS = 256
_MERGED_STREAMS = 16
"""Up to this many runs are merged as sorted streams; more go through one external sort, because the
streams of a compound SELECT are nested."""

Ids = NDArray[np.int64]


class SqliteRunTables(RunTables):
    """The tables of posting runs, inside one transaction."""

    posting_bytes = 16
    # A key of 8 bytes, a signature id of 1 to 5, their types, a share of a page.

    def __init__(self, session: SqliteSession) -> None:
        self._session = session

    # Writing

    def create(self, run_id: int, table: str, *, is_active: bool) -> None:
        """Make a table that is a B-tree in key order and nothing else."""
        self._session.execute(
            f"CREATE TABLE {table} (bucket_key INTEGER NOT NULL, signature_id INTEGER NOT NULL, "
            "PRIMARY KEY (bucket_key, signature_id)) WITHOUT ROWID"
        )

    def insert(self, run_id: int, table: str, keys: Ids, signature_ids: Ids) -> None:
        """Insert sorted postings."""
        pairs = np.column_stack([keys, signature_ids])
        self._session.insert_pairs(table, ("bucket_key", "signature_id"), pairs)

    def merge(self, run_id: int, target: str, sources: Sequence[str]) -> None:
        """Insert all postings of some runs into a new one, in key order."""
        arms = _arms(sources, "")
        if len(sources) > _MERGED_STREAMS:
            arms = f"SELECT bucket_key, signature_id FROM ({arms})"
        self._session.execute(f"INSERT INTO {target} {arms} ORDER BY 1, 2")

    def complete(self, run_id: int, table: str) -> None:
        """Do nothing: the table is its own index."""

    def publish(self, tables: Sequence[str]) -> None:
        """Make the view ``posting`` again over these runs."""
        if not tables:
            body = "SELECT 0 AS band, 0 AS bucket, 0 AS bucket_key, 0 AS signature_id WHERE 0"
        else:
            body = " UNION ALL ".join(
                f"SELECT {BAND_SQL} AS band, {BUCKET_SQL} AS bucket, bucket_key, signature_id "
                f"FROM {table} WHERE {NOT_CONTENT_SQL}"
                for table in tables
            )
        self._session.execute("DROP VIEW IF EXISTS posting")
        self._session.execute(f"CREATE VIEW posting AS {body}")

    def retire(self, tables: Sequence[str]) -> None:
        """Drop tables; readers that began before still see them."""
        for table in tables:
            self._session.execute(f"DROP TABLE {table}")

    def bucket_sizes(self, table: str) -> str:
        """Return a SELECT of (band, size, number of buckets) of a run, in one pass."""
        return (
            f"SELECT band, size, count(*) FROM (SELECT {BAND_SQL} AS band, count(*) AS size "
            f"FROM {table} WHERE {NOT_CONTENT_SQL} GROUP BY bucket_key) GROUP BY band, size"
        )

    # Reading

    def names(self) -> set[str]:
        """Return the names of the tables."""
        rows = self._session.execute(
            "SELECT name FROM sqlite_master WHERE type = 'table' AND name GLOB 'posting_run_[0-9]*'"
        )
        return {name for (name,) in rows}

    def counts(self, table: str, keys: Ids) -> dict[int, int]:
        """Return the number of postings of some buckets; one look-up each."""
        rows = self._session.execute(
            f"SELECT bucket_key, count(*) FROM {table} "
            f"WHERE {self._session.in_list('bucket_key')} GROUP BY bucket_key",
            (self._session.encode_list(keys),),
        )
        return dict(iter(rows))

    def of(self, tables: Sequence[str], keys: Ids) -> tuple[Ids, Ids]:
        """Return the postings of some buckets; one look-up a key and run.

        CROSS JOIN keeps a long list outside, and its keys are looked up as they come. IN would
        first put them into a separate table, again for each run, which takes a third of the time.
        """
        if len(keys) <= _FEW_KEYS:
            marks = ",".join(f"?{number + 1}" for number in range(len(keys)))
            sql = _arms(tables, f" WHERE bucket_key IN ({marks})")
            rows = self._session.execute(sql, tuple(keys.tolist()))
        else:
            sql = " UNION ALL ".join(
                f"SELECT bucket_key, signature_id FROM json_each(?1) CROSS JOIN {table} "
                "ON bucket_key = value"
                for table in tables
            )
            rows = self._session.execute(sql, (self._session.encode_list(keys),))
        flat = np.fromiter(itertools.chain.from_iterable(rows.fetchall()), dtype=np.int64)
        return flat[0::2], flat[1::2]

    def members(self, tables: Sequence[str], keys: Ids) -> Ids:
        """Return the signature ids of some buckets, fetched as one text.

        5,600 buckets of 63,000 postings take 38 ms; rows as in :meth:`of` take 81.
        """
        sql = " UNION ALL ".join(
            f"SELECT signature_id FROM json_each(?1) CROSS JOIN {table} ON bucket_key = value"
            for table in tables
        )
        (found,) = self._session.execute(
            f"SELECT group_concat(signature_id) FROM ({sql})", (self._session.encode_list(keys),)
        ).fetchone()
        return np.array(found.split(",") if found else [], dtype=np.int64)

    def shared(self, tables: Sequence[str], first: int, last: int, *, above: int = 1) -> Ids:
        """Return the postings of shared buckets in a range, fetched as one text.

        It is one value rather than a row a bucket, because the driver gives up the interpreter's
        lock for each row and must get it back. Keys are grouped first, then the members of the few
        shared ones are looked up: two thirds of the time of gathering members while grouping.
        """
        return self._shared(tables, "bucket_key BETWEEN ?1 AND ?2", (first, last), above)

    def shared_of(self, tables: Sequence[str], keys: Ids) -> Ids:
        """Return the postings of those of some buckets that are shared."""
        condition = "bucket_key IN (SELECT value FROM json_each(?1))"
        return self._shared(tables, condition, (self._session.encode_list(keys),))

    def _shared(
        self, tables: Sequence[str], condition: str, parameters: tuple[Any, ...], above: int = 1
    ) -> Ids:
        keys = " UNION ALL ".join(
            f"SELECT bucket_key FROM {table} WHERE {condition}" for table in tables
        )
        members = " UNION ALL ".join(
            f"SELECT shared.bucket_key || ',' || {table}.signature_id AS posting "
            f"FROM shared CROSS JOIN {table} ON {table}.bucket_key = shared.bucket_key"
            for table in tables
        )
        (groups,) = self._session.execute(
            f"WITH shared AS MATERIALIZED (SELECT bucket_key FROM ({keys}) "
            f"GROUP BY bucket_key HAVING count(*) > {above:d}) "
            f"SELECT group_concat(posting) FROM ({members})",
            parameters,
        ).fetchone()
        flat = np.array(groups.split(",") if groups else [], dtype=np.int64).reshape(-1, 2)
        return flat[np.lexsort((flat[:, 1], flat[:, 0]))]

    def in_order(self, tables: Sequence[str], *, contents: bool, block: int) -> Iterator[Ids]:
        """Yield every posting in order, from merged streams or, if there are many, a sort."""
        arms = _arms(tables, "" if contents else f" WHERE {NOT_CONTENT_SQL}")
        if len(tables) > _MERGED_STREAMS:
            arms = f"SELECT bucket_key, signature_id FROM ({arms})"
        rows = self._session.execute(f"{arms} ORDER BY 1, 2")
        while taken := list(itertools.islice(rows, block)):
            flat = itertools.chain.from_iterable(taken)
            yield np.fromiter(flat, dtype=np.int64, count=2 * len(taken)).reshape(-1, 2)


def _arms(tables: Sequence[str], condition: str) -> str:
    head = "SELECT bucket_key, signature_id FROM "
    return head + f"{condition} UNION ALL {head}".join(tables) + condition
