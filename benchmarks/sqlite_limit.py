"""What does SQLite alone take to write the rows of an index, without anything that makes them?

    python -m benchmarks.sqlite_limit CORPUS.jsonl... [--last N] [--repeats 3] [--batch 20000]
        [--markdown]

Adds a corpus to a new index. Then SQLite copies the rows of that index by ``INSERT ... SELECT``
into a new database with the same tables, page size and syncs: documents and texts a batch at a
time, each with its commit, and all postings as one run. No row passes through Python, so an add
that keeps these rows cannot be faster, unless it does several of these at a time. ``files`` is the
writing and syncing of the signature rows and frozen orders, a batch at a time, from memory. Both
take turns; the medians are seconds by the clock.

With ``--last N``, all but the last N documents are there before the clock, in the index and in the
copy; so the last N are a night.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
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
from lshdb.documents.read import read_documents

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
            body.append(_measured(corpus, Path(name), options))
    print(table(_HEAD, body, markdown=options.markdown))


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.sqlite_limit", description=__doc__.splitlines()[0]
    )
    parser.add_argument("corpora", type=Path, nargs="+", help="JSONL, fields id and text")
    parser.add_argument("--last", type=int, metavar="N", help="the others are there before")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--batch", type=int, default=20_000, help="documents a commit")
    parser.add_argument("--markdown", action="store_true")
    return parser.parse_args(arguments)


def _measured(corpus: Path, folder: Path, options: argparse.Namespace) -> list[str]:
    path = folder / "index.lshdb"
    before, rest = _parted(corpus, folder, options.last)
    adds, copies, files = [], [], []
    n = n_whole = 0
    for _ in range(options.repeats):
        shutil.rmtree(path, ignore_errors=True)
        if before is not None:
            with Index.create(path) as index:
                index.add(read_documents([before]))
        begun = time.perf_counter()
        with Index.create(path) if before is None else Index.open(path) as index:
            n = index.add(read_documents([rest])).documents
            n_whole = len(index)
        adds.append(time.perf_counter() - begun)
        copies.append(_copied(path / "index.db", folder / "copy.db", options.batch, n))
        files.append(_written(path, folder / "rows", -(-n // options.batch), n / n_whole))
    parts = {name: statistics.median(one[name] for one in copies) for name in copies[0]}
    whole = statistics.median(sum(one.values()) for one in copies)
    add = statistics.median(adds)
    return [
        corpus.name, f"{n:,}", f"{add:.3f}", f"{whole:.3f}",
        *(f"{parts[name]:.3f}" for name in ("document", "content", "band", "commit")),
        f"{statistics.median(files):.3f}", f"{whole / add:.2f}",
    ]  # fmt: skip


def _parted(corpus: Path, folder: Path, last: int | None) -> tuple[Path | None, Path]:
    """Return files of the documents that are there before, if any, and of those that come."""
    if last is None:
        return None, corpus
    before, rest = folder / "before.jsonl", folder / "rest.jsonl"
    with open(corpus, "rb") as lines:
        n_before = sum(1 for _ in lines) - last
        if n_before < 1:
            raise SystemExit(f"--last {last}: {corpus} has {n_before + last} documents, too few")
        lines.seek(0)
        for path, n in ((before, n_before), (rest, None)):
            with open(path, "wb") as file:
                file.writelines(itertools.islice(lines, n))
    return before, rest


def _copied(source: Path, target: Path, batch: int, last: int) -> dict[str, float]:
    """Copy the rows of an index into a new database; seconds of each kind of statement.

    Only the last documents count.
    """
    source.read_bytes()  # into the cache of the system
    for end in ("", "-wal", "-shm"):
        target.with_name(target.name + end).unlink(missing_ok=True)
    seconds = dict.fromkeys(("document", "content", "band", "commit"), 0.0)
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
            "AND tbl_name IN ('document', 'content', 'band') AND type <> 'view' "
            "ORDER BY type DESC"
        ).fetchall()
        for _, sql in made:
            connection.execute(sql)
        (end,) = connection.execute("SELECT max(doc_id) + 1 FROM source.document").fetchone()
        connection.execute("BEGIN IMMEDIATE")
        for name in ("document", "content"):
            connection.execute(
                f"INSERT INTO {name} SELECT * FROM source.{name} WHERE doc_id < ? ORDER BY doc_id",
                (end - last,),
            )
        (new,) = connection.execute(
            "SELECT min(signature_id) FROM source.document WHERE doc_id >= ?", (end - last,)
        ).fetchone()
        copied = "INSERT INTO band SELECT * FROM source.band WHERE signature_id"
        connection.execute(f"{copied} < ?", (new,))
        connection.execute("COMMIT")
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        for first in range(end - last, end, batch):
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
        timed("band", f"{copied} >= ?", (new,))
        timed("commit", "COMMIT")
    return seconds


def _written(index: Path, target: Path, n_batches: int, share: float) -> float:
    """Write a share of the bytes of row files and orders to one file; seconds."""
    data = b"".join(path.read_bytes() for path in sorted(index.glob("*.npy")))
    data = data[: int(len(data) * share)]
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
