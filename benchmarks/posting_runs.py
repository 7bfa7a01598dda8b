"""Does loading postings stay as fast as the index grows?

    python -m benchmarks.posting_runs [--documents 3000000] [--bands 16] [--batch 40000] [PATH]

Writes the postings of synthetic documents (random bucket keys, as a good hash gives them) through
the same code and transactions as ``lshdb add``, batch by batch, and prints postings a second for
each tenth, then the merge at the end of the add, and peak memory. Signatures and documents are left
out, so that nothing hides what the postings cost. ``--table`` loads one clustered table with the
same keys as they come instead, to compare with at a tenth of the size; ``--both`` an index in
SQLite and one in Postgres.
"""

from __future__ import annotations

import argparse
import resource
import sqlite3
import tempfile
import time
from pathlib import Path

import numpy as np

from benchmarks._servers import Place, add_server_option, places
from lshdb import Index
from lshdb.storage.transactions.writer import Writer

SCHEMA = "lshdb_benchmark"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("path", nargs="?", help="folder for the index; a temporary one by default")
    parser.add_argument("--documents", type=int, default=3_000_000)
    parser.add_argument("--bands", type=int, default=16)
    parser.add_argument("--batch", type=int, default=40_000)
    parser.add_argument("--table", action="store_true", help="one B-tree with random keys instead")
    parser.add_argument("--both", action="store_true", help="on Postgres as well")
    add_server_option(parser)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.path) as folder:
        if options.table:
            load_table(Path(folder), options)
        elif not options.both:
            load_runs(Path(folder), options, Place("SQLite", None))
        else:
            with places(options.postgres_url) as both:
                for place in both:
                    print(f"\n{place.name}")
                    load_runs(Path(folder), options, place)
                    place.drop(SCHEMA)


def batches(options: argparse.Namespace):  # type: ignore[no-untyped-def]
    rng = np.random.default_rng(1)
    bands = np.arange(options.bands, dtype=np.int64) << 32
    for first in range(0, options.documents, options.batch):
        count = min(options.batch, options.documents - first)
        keys = rng.integers(0, 2**32, (count, options.bands), dtype=np.int64) | bands
        yield keys.reshape(-1), np.repeat(np.arange(first, first + count), options.bands)


def load_runs(folder: Path, options: argparse.Namespace, place: Place) -> None:
    path = folder / f"{place.name}.lshdb"
    with (
        Index.create(path, **place.keywords(SCHEMA)) as index,
        Writer(index._store, lock_timeout=0) as writer,
    ):
        report = Tenths(options.documents * options.bands)
        for keys, signature_ids in batches(options):
            begun = time.perf_counter()
            with writer.transaction() as transaction:
                transaction.runs.add(keys, signature_ids)
            writer.limit_runs()
            report.add(len(keys), time.perf_counter() - begun)
        begun = time.perf_counter()
        writer.tidy()
        seconds = time.perf_counter() - begun
        print(f"merge at the end: {report.total / seconds:,.0f} postings/s, {seconds:.1f} s")
        with writer.transaction() as transaction:
            print(f"runs: {[f'{run.n_rows:,}' for run in transaction.runs.runs()]}")
        report.finish(seconds)
        size = index._store.database.sizes()[0]
    print(f"disk: {size / report.total:.1f} bytes a posting, with the pages that the merge freed")


def load_table(folder: Path, options: argparse.Namespace) -> None:
    database = sqlite3.connect(folder / "table.db", isolation_level=None)
    for pragma in ("page_size=8192", "journal_mode=WAL", "synchronous=FULL", "cache_size=-65536"):
        database.execute(f"PRAGMA {pragma}")
    database.execute(
        "CREATE TABLE posting (bucket_key INTEGER, signature_id INTEGER, "
        "PRIMARY KEY (bucket_key, signature_id)) WITHOUT ROWID"
    )
    report = Tenths(options.documents * options.bands)
    for keys, signature_ids in batches(options):
        begun = time.perf_counter()
        order = np.argsort(keys)
        rows = zip(keys[order].tolist(), signature_ids[order].tolist(), strict=True)
        database.execute("BEGIN")
        database.executemany("INSERT INTO posting VALUES (?, ?)", rows)
        database.execute("COMMIT")
        report.add(len(keys), time.perf_counter() - begun)
    report.finish(0.0)
    database.close()


class Tenths:
    """Postings a second in each tenth of a load."""

    def __init__(self, total: int) -> None:
        self.total = total
        self.done = self.since = 0
        self.seconds = self.all_seconds = 0.0
        self.rates: list[float] = []

    def add(self, postings: int, seconds: float) -> None:
        self.done += postings
        self.since += postings
        self.seconds += seconds
        self.all_seconds += seconds
        if self.done * 10 >= self.total * (len(self.rates) + 1):
            self.rates.append(self.since / self.seconds)
            memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
            print(
                f"tenth {len(self.rates):2}: {self.rates[-1]:>11,.0f} postings/s, "
                f"peak memory {memory:,.0f} MiB",
                flush=True,
            )
            self.since, self.seconds = 0, 0.0

    def finish(self, merging: float) -> None:
        print(f"last tenth / first: {self.rates[-1] / self.rates[0]:.2f}")
        whole = self.total / (self.all_seconds + merging)
        print(f"whole load with its merge: {whole:,.0f} postings/s")


if __name__ == "__main__":
    main()
