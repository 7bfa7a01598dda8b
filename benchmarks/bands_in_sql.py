"""How long do questions about buckets take in SQL, and what do indexes of the bands cost?

    python -m benchmarks.bands_in_sql [--documents 1000000 5000000] [--night 18000] [--repeats 3]
        [--markdown]

Adds short texts, a tenth of them near-duplicates, to new indexes that keep no text: in SQLite, in
SQLite with an index on each column of ``band``, and in Postgres, which has these indexes always.
Then it asks in SQL by the drivers alone, as a person would; each statement counts, so few rows
travel. A night is one more add. At the end every third document is removed, and ``compact`` and
``reband`` write all rows of bands anew.

Seconds are those of the processor, the server's included, so the server must be on this machine.
Questions and nights are medians; all else happens once.
"""

from __future__ import annotations

import argparse
import contextlib
import shutil
import sqlite3
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg

from benchmarks._processes import parent_of, processor_seconds
from benchmarks._servers import Place, add_server_option, places
from benchmarks._short import short_corpus, split
from benchmarks._tables import disk, facts, table
from lshdb import Index
from lshdb.documents.read import read_documents
from tests.postgres import PostgresUrl

_SCHEMA = "lshdb_benchmark"
_WORDS = 20
_MIB = 2**20
_LEAST_SECONDS = 0.5

QUESTIONS = {
    "all buckets": "SELECT count(*) FROM bucket",
    "shared buckets of all bands": "SELECT count(*) FROM bucket WHERE size > 1",
    "shared buckets of one band": (
        "SELECT count(*) FROM (SELECT b3 FROM band GROUP BY b3 HAVING count(*) > 1) AS shared"
    ),
    "one bucket": "SELECT count(*) FROM posting WHERE band = 3 AND bucket = {bucket}",
    "the bucket-mates of a document": (
        "WITH own AS MATERIALIZED "
        "(SELECT band, bucket FROM posting WHERE signature_id = {signature}) "
        "SELECT count(*) FROM document WHERE signature_id IN (SELECT signature_id FROM posting "
        "WHERE (band, bucket) IN (SELECT band, bucket FROM own))"
    ),
    "the pairs of one band": (
        "SELECT count(*) FROM band AS one JOIN band AS other ON other.b3 = one.b3 "
        "AND other.signature_id > one.signature_id"
    ),
}  # fmt: skip
"""The statements of ``docs/guides/sql.md``."""


@dataclass(frozen=True, slots=True)
class Variant:
    """One of the indexes that are compared."""

    name: str
    place: Place
    has_indexes: bool


def main(arguments: Sequence[str] | None = None) -> None:
    options = _options(arguments)
    print(facts(()))
    with tempfile.TemporaryDirectory() as name, places(options.postgres_url) as (sqlite, postgres):
        folder = Path(name)
        print(disk(folder))
        variants = [
            Variant("SQLite", sqlite, False),
            Variant("SQLite, indexed", sqlite, True),
            Variant(postgres.name, postgres, True),
        ]
        for documents in options.documents:
            _report(documents, folder, variants, options)


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.bands_in_sql", description=__doc__.splitlines()[0]
    )
    parser.add_argument("--documents", type=int, nargs="+", default=[1_000_000])
    parser.add_argument("--night", type=int, default=18_000, help="documents of one more add")
    parser.add_argument("--repeats", type=int, default=3, help="of each question")
    parser.add_argument("--markdown", action="store_true")
    add_server_option(parser)
    return parser.parse_args(arguments)


def _report(
    documents: int, folder: Path, variants: Sequence[Variant], options: argparse.Namespace
) -> None:
    corpus, _ = short_corpus(folder, documents + options.night * options.repeats, _WORDS)
    parts = split(corpus.path, folder, [documents, *[options.night] * options.repeats])
    corpus.path.unlink()
    columns = [_measured(variant, folder / "index.lshdb", parts, options) for variant in variants]
    print(f"\n{documents:,} documents of {_WORDS} words, {columns[0].pop('bands')} bands\n")
    answers = [column.pop("answers") for column in columns]
    head = ["seconds", *(variant.name for variant in variants)]
    names = columns[1]  # which has them all
    body = [[name, *(column.get(name, "") for column in columns)] for name in names]
    print(table(head, body, markdown=options.markdown))
    print(
        f"\nThe answers are {'the same' if len(set(answers)) == 1 else 'NOT the same'}", flush=True
    )
    for part in parts:
        part.unlink()


def _measured(
    variant: Variant, path: Path, parts: Sequence[Path], options: argparse.Namespace
) -> dict[str, str]:
    """Return a column of the table."""
    figures: dict[str, str] = {}
    variant.place.drop(_SCHEMA)
    seconds = _stop_watch(variant.place)
    with Index.create(path, store_text=False, **variant.place.keywords(_SCHEMA)) as index:
        figures["bands"] = str(index.params.bands)
        figures["add"] = _text(seconds(lambda: index.add(read_documents(parts[:1]))))
        bytes_of_rows = index.stats().database_bytes
        if variant.has_indexes and not index.stats().index_bands:
            figures["making the indexes"] = _text(
                seconds(lambda: Index.reband(path, index_bands=True))
            )
            added = index.stats().database_bytes - bytes_of_rows
            figures["MiB of the indexes"] = f"{added / _MIB:.0f}"
        figures["MiB of the database"] = f"{index.stats().database_bytes / _MIB:.0f}"
        with _asking(variant.place, path) as ask:
            figures |= _answers(ask, seconds, options.repeats)
        nights = [seconds(lambda: index.add(read_documents([part]))) for part in parts[1:]]  # noqa: B023
        figures["a night"] = _text(statistics.median(nights))
        keys = [key for (key,) in index.sql("SELECT key FROM document WHERE doc_id % 3 = 0").rows]
        index.remove(keys)
        figures["compact"] = _text(seconds(index.compact))
    figures["reband"] = _text(seconds(lambda: Index.reband(path, threshold=0.7)))
    shutil.rmtree(path)
    variant.place.drop(_SCHEMA)
    return figures


def _text(seconds: float) -> str:
    return f"{seconds:.3g}"


def _stop_watch(place: Place) -> Callable[[Callable[[], Any]], float]:
    """Return a function that runs another one, and says for how long processors were busy."""
    server = None
    if place.url is not None:
        with psycopg.connect(PostgresUrl.parse(place.url).psycopg) as connection:
            server = parent_of(connection.info.backend_pid)

    def clock() -> float:
        # Finer than the ticks of all processes, where this one is alone.
        return time.process_time() + (0 if server is None else processor_seconds(server))

    def seconds(work: Callable[[], Any]) -> float:
        begun = clock()
        work()
        return clock() - begun

    return seconds


@contextlib.contextmanager
def _asking(place: Place, path: Path) -> Iterator[Callable[[str], int]]:
    """A function that runs a statement of one number, as ``sqlite3`` or ``psql`` would."""
    connection: Any
    if place.url is None:
        connection = sqlite3.connect(f"{(path / 'index.db').as_uri()}?mode=ro", uri=True)
    else:
        connection = psycopg.connect(PostgresUrl.parse(place.url).psycopg, autocommit=True)
        connection.execute(f'SET search_path TO "{_SCHEMA}"')
    with closing(connection):
        yield lambda statement: connection.execute(statement).fetchone()[0]


def _answers(
    ask: Callable[[str], int], seconds: Callable[[Callable[[], Any]], float], repeats: int
) -> dict[str, str]:
    """Return the median time of each question, and all answers."""
    figures: dict[str, str] = {}
    answers: list[int] = []
    signature = ask("SELECT count(*) FROM band") // 2
    bucket = ask(f"SELECT b3 FROM band WHERE signature_id = {signature}")
    for name, question in QUESTIONS.items():
        statement = question.format(bucket=bucket, signature=signature)
        begun = time.perf_counter()
        answers.append(ask(statement))
        once = time.perf_counter() - begun
        times = [_each(ask, statement, seconds, once) for _ in range(repeats)]
        figures[name] = _text(statistics.median(times))
    return {**figures, "answers": " ".join(map(str, answers))}


def _each(
    ask: Callable[[str], int],
    statement: str,
    seconds: Callable[[Callable[[], Any]], float],
    once: float,
) -> float:
    """Return the time of a question, asked so often that ticks of the server do not matter."""
    n = max(1, round(_LEAST_SECONDS / once))
    return seconds(lambda: [ask(statement) for _ in range(n)]) / n


if __name__ == "__main__":
    main()
