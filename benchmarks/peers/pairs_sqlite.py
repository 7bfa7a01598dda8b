"""Fifty lines by hand: rensa's signatures and a table of postings in SQLite.

The postings are clustered by bucket and go in sorted, all in one transaction. Candidates are checked
on the signatures. Settings are SQLite's own (so every commit is synced), but for a larger cache.
"""

from __future__ import annotations

import itertools
import json
import sqlite3
from collections.abc import Iterable
from pathlib import Path

import numpy as np

from benchmarks.peers._banding import postings, signed
from benchmarks.peers._contract import THRESHOLD, Source
from benchmarks.peers._pairing import Pairer, check, distinct, write_pairs

_SCHEMA = """
    CREATE TABLE document (id INTEGER PRIMARY KEY, key TEXT NOT NULL, signature BLOB NOT NULL);
    CREATE TABLE posting (bucket INTEGER, document INTEGER, PRIMARY KEY (bucket, document))
        WITHOUT ROWID;
"""
_SHARED = "SELECT group_concat(document) FROM posting GROUP BY bucket HAVING count(*) > 1"
_WITH_NEW = """
    SELECT posting.document, new.document FROM new CROSS JOIN posting USING (bucket)
    WHERE posting.document < new.document
"""
_OF = "SELECT id, key, signature FROM document WHERE id IN (SELECT value FROM json_each(?))"


def pairer(variant: str, threads: int, folder: Path) -> Pairer:
    path = folder / "index.db"

    def connect() -> sqlite3.Connection:
        database = sqlite3.connect(path, isolation_level=None)
        database.execute("PRAGMA cache_size = -262144")
        return database

    def add(database: sqlite3.Connection, source: Source, into: str) -> int:
        """All in the transaction of the caller; postings into a second table as well."""
        [[first]] = database.execute("SELECT coalesce(max(id) + 1, 0) FROM document")
        done, blocks = first, []
        for keys, rows in signed(source):
            numbers = range(done, done + len(keys))
            lines = zip(numbers, keys, map(memoryview, rows), strict=True)
            database.executemany("INSERT INTO document VALUES (?, ?, ?)", lines)
            blocks.append(rows)
            done += len(keys)
        buckets, documents = postings(np.concatenate(blocks), first)
        for table in ("posting", into):
            if table:
                lines_ = zip(buckets.tolist(), documents.tolist(), strict=True)
                database.executemany(f"INSERT INTO {table} VALUES (?, ?)", lines_)
        return int(done - first)

    def fill(source: Source) -> int:
        database = connect()
        database.executescript(_SCHEMA)
        database.execute("BEGIN")
        documents = add(database, source, "")
        database.execute("COMMIT")
        database.close()
        return documents

    def write(database: sqlite3.Connection, output: Path, both: Iterable[tuple[int, int]]) -> None:
        left, right = (
            distinct(*zip(*both, strict=True)) if (both := list(both)) else distinct([], [])
        )
        members, places = np.unique(np.concatenate([left, right]), return_inverse=True)
        stored = sorted(database.execute(_OF, [json.dumps(members.tolist())]))
        rows = np.frombuffer(b"".join(row[2] for row in stored), np.uint32)
        rows = rows.reshape(len(stored), -1) if stored else rows.reshape(0, 1)
        one, other = np.split(places, 2)
        checked = check(rows, one, other, THRESHOLD)
        write_pairs(output, ((stored[a][1], stored[b][1], share) for a, b, share in checked))

    def pairs(output: Path) -> None:
        database = connect()
        buckets = (map(int, row[0].split(",")) for row in database.execute(_SHARED))
        both = (itertools.combinations(bucket, 2) for bucket in buckets)
        write(database, output, itertools.chain.from_iterable(both))
        database.close()

    def night(older: Source, newer: Source, output: Path) -> None:
        database = connect()
        database.execute("CREATE TEMP TABLE new (bucket INTEGER, document INTEGER)")
        database.execute("BEGIN")
        add(database, newer, "new")
        database.execute("COMMIT")
        write(database, output, database.execute(_WITH_NEW))
        database.close()

    return Pairer(fill, pairs, night)
