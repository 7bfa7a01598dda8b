"""Fifty lines by hand: rensa's signatures and a table of postings in DuckDB.

Arrays go in as they are, a table of NumPy columns. Postings have no index: DuckDB joins by hashing,
which for all pairs is the fastest, and reads all of them every night. Candidates are checked on
the signatures.
"""

from __future__ import annotations

from pathlib import Path

import duckdb
import numpy as np

from benchmarks.peers._banding import postings, signed
from benchmarks.peers._checking import check, distinct
from benchmarks.peers._contract import NUM_PERM, THRESHOLD, Source
from benchmarks.peers._pairing import Pairer, write_pairs

_SCHEMA = """
    CREATE TABLE document (id BIGINT, key VARCHAR, signature BLOB);
    CREATE TABLE posting (bucket BIGINT, document BIGINT);
"""
_SHARED = """
    SELECT DISTINCT one.document AS left_, other.document AS right_
    FROM posting AS one JOIN posting AS other USING (bucket) WHERE one.document < other.document
    AND other.document >= ?
"""
_OF = """
    SELECT id, key, signature FROM document WHERE id IN (SELECT number FROM wanted) ORDER BY id
"""


def pairer(variant: str, threads: int, folder: Path) -> Pairer:
    config = {"threads": threads} if threads else {}
    database = duckdb.connect(str(folder / "index.duckdb"), config=config)
    first = 0

    def fill(source: Source) -> int:
        database.execute(_SCHEMA)
        return take(source)

    def take(source: Source) -> int:
        done, blocks = first, []
        database.execute("BEGIN")
        for keys, rows in signed(source):
            table = {
                "id": np.arange(done, done + len(keys)),
                "key": np.array(keys, dtype=object),
                "signature": np.array([row.tobytes() for row in rows], dtype=object),
            }
            database.register("new", table)
            database.execute("INSERT INTO document SELECT * FROM new")
            blocks.append(rows)
            done += len(keys)
        buckets, documents = postings(np.concatenate(blocks), first)
        database.register("new", {"bucket": buckets, "document": documents})
        database.execute("INSERT INTO posting SELECT * FROM new")
        database.execute("COMMIT")
        return done - first

    def add(older: Source, newer: Source) -> None:
        nonlocal first
        [[first]] = database.execute("SELECT count(*) FROM document").fetchall()
        take(newer)

    def pairs(output: Path) -> None:
        found = database.execute(_SHARED, [first]).fetchnumpy()
        left, right = distinct(found["left_"], found["right_"])
        members, places = np.unique(np.concatenate([left, right]), return_inverse=True)
        database.register("wanted", {"number": members})
        stored = database.execute(_OF).fetchnumpy()
        rows = np.frombuffer(b"".join(stored["signature"]), np.uint32).reshape(-1, NUM_PERM)
        one, other = np.split(places, 2)
        keys = stored["key"].tolist()
        checked = check(rows, one, other, THRESHOLD)
        write_pairs(output, ((keys[a], keys[b], share) for a, b, share in checked))

    return Pairer(fill, add, pairs, database.close)
