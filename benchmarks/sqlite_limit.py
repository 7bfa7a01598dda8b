"""What does SQLite alone take to write the rows of an index, without anything that makes them?

    python -m benchmarks.sqlite_limit CORPUS.jsonl... [--repeats 3] [--batch 20000] [--markdown]

Adds a corpus to a new index. Then SQLite copies the rows of that index by ``INSERT ... SELECT``
into a new database with the same tables, page size and syncs: documents and texts a batch at a
time, each with its commit, and all postings as one run. No row passes through Python, so an add
that keeps these rows cannot be faster, unless it does several of these at a time. ``files`` is the
writing and syncing of the signature rows and frozen orders, a batch at a time, from memory. Both
take turns; the medians are seconds by the clock.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import shutil
import sqlite3
import statistics
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from benchmarks._tables import disk, facts, table
from lshdb import Index
from lshdb.documents import read_documents

_HEAD = [
    "corpus", "documents", "add s", "SQLite s", "of it rows", "texts", "postings", "commits",
    "files s", "SQLite of add",
]  # fmt: skip
_CACHE_KIB = 65_536


def main(arguments: Sequence[str] | None = None) -> None:
    options = _options(arguments)
    print(facts(()))
    body = []
    with tempfile.TemporaryDirectory() as name:
        print(disk(Path(name)))
        for corpus in options.corpora:
            body.append(_measured(corpus, Path(name), options.repeats, options.batch))
    print(table(_HEAD, body, markdown=options.markdown))


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.sqlite_limit", description=__doc__.splitlines()[0]
    )
    parser.add_argument("corpora", type=Path, nargs="+", help="JSONL, fields id and text")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--batch", type=int, default=20_000, help="documents a commit")
    parser.add_argument("--markdown", action="store_true")
    return parser.parse_args(arguments)


def _measured(corpus: Path, folder: Path, repeats: int, batch: int) -> list[str]:
    path = folder / "index.lshdb"
    adds, copies, files = [], [], []
    n = 0
    for _ in range(repeats):
        shutil.rmtree(path, ignore_errors=True)
        begun = time.perf_counter()
        with Index.create(path) as index:
            n = index.add(read_documents([corpus])).documents
        adds.append(time.perf_counter() - begun)
        copies.append(_copied(path / "index.db", folder / "copy.db", batch))
        files.append(_written(path, folder / "rows", n, batch))
    parts = {name: statistics.median(one[name] for one in copies) for name in copies[0]}
    whole = statistics.median(sum(one.values()) for one in copies)
    add = statistics.median(adds)
    return [
        corpus.name, f"{n:,}", f"{add:.2f}", f"{whole:.2f}",
        *(f"{parts[name]:.2f}" for name in ("document", "content", "posting", "commit")),
        f"{statistics.median(files):.2f}", f"{whole / add:.2f}",
    ]  # fmt: skip


def _copied(source: Path, target: Path, batch: int) -> dict[str, float]:
    """Copy the rows of an index into a new database; seconds of each kind of statement."""
    source.read_bytes()  # into the cache of the system
    for end in ("", "-wal", "-shm"):
        target.with_name(target.name + end).unlink(missing_ok=True)
    seconds = dict.fromkeys(("document", "content", "posting", "commit"), 0.0)
    with contextlib.closing(sqlite3.connect(target, isolation_level=None)) as connection:

        def timed(kind: str, sql: str, parameters: Sequence[int] = ()) -> None:
            begun = time.perf_counter()
            connection.execute(sql, parameters)
            seconds[kind] += time.perf_counter() - begun

        connection.execute("ATTACH ? AS source", (str(source),))
        (page,) = connection.execute("PRAGMA source.page_size").fetchone()
        connection.execute(f"PRAGMA main.page_size={page:d}")
        connection.execute("PRAGMA main.journal_mode=WAL")
        connection.execute("PRAGMA main.synchronous=FULL")
        connection.execute(f"PRAGMA main.cache_size=-{_CACHE_KIB}")
        made = connection.execute(
            "SELECT tbl_name, sql FROM source.sqlite_master WHERE sql IS NOT NULL "
            "AND (tbl_name IN ('document', 'content') OR tbl_name LIKE 'posting_run_%') "
            "ORDER BY type DESC"
        ).fetchall()
        for _, sql in made:
            connection.execute(sql)
        runs = sorted({name for name, _ in made if name.startswith("posting_run_")})
        (last,) = connection.execute("SELECT max(doc_id) FROM source.document").fetchone()
        for first in range(1, last + 1, batch):
            connection.execute("BEGIN IMMEDIATE")
            for name in ("document", "content"):
                timed(
                    name,
                    f"INSERT OR FAIL INTO {name} SELECT * FROM source.{name} "
                    "WHERE doc_id BETWEEN ? AND ? ORDER BY doc_id",
                    (first, first + batch - 1),
                )
            timed("commit", "COMMIT")
        connection.execute("BEGIN IMMEDIATE")
        for name in runs:
            timed("posting", f"INSERT INTO {name} SELECT * FROM source.{name}")
        timed("commit", "COMMIT")
    return seconds


def _written(index: Path, target: Path, documents: int, batch: int) -> float:
    """Write the bytes of the row files and orders to one file, a batch at a time; seconds."""
    data = b"".join(path.read_bytes() for path in sorted(index.glob("*.npy")))
    n_batches = max(1, -(-documents // batch))
    step = -(-len(data) // n_batches)
    begun = time.perf_counter()
    descriptor = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    try:
        for start in range(0, len(data), step):
            left = memoryview(data)[start : start + step]
            while left:
                left = left[os.write(descriptor, left) :]
            os.fdatasync(descriptor)
    finally:
        os.close(descriptor)
    return time.perf_counter() - begun


if __name__ == "__main__":
    main()
