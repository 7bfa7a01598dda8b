"""Fifty lines by hand: rensa's signatures and a table of postings in SQLite.

The postings are clustered by bucket and go in sorted, all in one transaction. Candidates are
checked on the signatures. Settings are SQLite's own, with which every commit is synced, but for a
larger cache.
"""

from __future__ import annotations

import itertools
import json
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from benchmarks.peers._banding import postings, signed
from benchmarks.peers._checking import check, distinct
from benchmarks.peers._contract import NUM_PERM, THRESHOLD, Source
from benchmarks.peers._pairing import Pairer, write_pairs

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
    database = sqlite3.connect(folder / "index.db", isolation_level=None)
    database.execute("PRAGMA cache_size = -262144")

    def take(source: Source, tables: list[str]) -> int:
        """Postings go into each of the tables."""
        database.execute("BEGIN")
        [[first]] = database.execute("SELECT coalesce(max(id) + 1, 0) FROM document")
        done, blocks = first, []
        for keys, rows in signed(source):
            numbers = range(done, done + len(keys))
            blobs = [row.tobytes() for row in rows]
            database.executemany(
                "INSERT INTO document VALUES (?, ?, ?)", zip(numbers, keys, blobs, strict=True)
            )
            blocks.append(rows)
            done += len(keys)
        buckets, documents = postings(np.concatenate(blocks), first)
        order = np.argsort(buckets)
        for table in tables:
            posted = zip(buckets[order].tolist(), documents[order].tolist(), strict=True)
            database.executemany(f"INSERT INTO {table} VALUES (?, ?)", posted)
        database.execute("COMMIT")
        return int(done - first)

    def fill(source: Source) -> int:
        database.executescript(_SCHEMA)
        return take(source, ["posting"])

    def add(older: Source, newer: Source) -> None:
        database.execute("CREATE TEMP TABLE new (bucket INTEGER, document INTEGER)")
        take(newer, ["posting", "new"])

    def candidates() -> Iterator[tuple[int, int]]:
        if database.execute("SELECT 1 FROM temp.sqlite_schema").fetchone():
            return database.execute(_WITH_NEW)
        buckets = (map(int, row[0].split(",")) for row in database.execute(_SHARED))
        return itertools.chain.from_iterable(itertools.combinations(each, 2) for each in buckets)

    def pairs(output: Path) -> None:
        both = np.fromiter(itertools.chain.from_iterable(candidates()), np.int64)
        left, right = distinct(both[0::2], both[1::2])
        members, places = np.unique(np.concatenate([left, right]), return_inverse=True)
        stored = sorted(database.execute(_OF, [json.dumps(members.tolist())]))
        blobs = b"".join(signature for _, _, signature in stored)
        rows = np.frombuffer(blobs, np.uint32).reshape(-1, NUM_PERM)
        one, other = np.split(places, 2)
        checked = check(rows, one, other, THRESHOLD)
        write_pairs(output, ((stored[a][1], stored[b][1], share) for a, b, share in checked))

    return Pairer(fill, add, pairs, database.close)
