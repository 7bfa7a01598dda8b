"""How long does a warm query take, through the API, with what verifies it, alone and in blocks?

    python -m benchmarks.querying INDEX | --generated 1000000  [--queries 2000] [--repeats 3]
                                                               [--many 20480]

Queries are stored documents, drawn at random, without their first word, so that each is a near-
duplicate of something and a copy of nothing; or the keys of those documents. One round goes before
the clock, as warm means that what is asked for has been asked for. Then every query is timed by
itself, from the call to the list of hits: ``Index.query(text)`` with nothing but ``verify``, or
``Index.query(key=...)``. The last column is the processor's time of each query's fastest round,
which depends less on what else the machine does.

The second table is of ``--many`` texts at once, by ``Index.query_many``: as objects and as columns
(``columns()``), on one thread and on two, in turn with some of them one by one. Times are those of
the fastest round, and the last column compares the processor's time with one by one.
"""

from __future__ import annotations

import argparse
import random
import tempfile
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks._memory import peak_memory
from benchmarks._pair_jobs import run_in_fresh_process
from benchmarks._short import WORDS, short_corpus
from benchmarks._tables import facts, table
from benchmarks.peers.pairers import PAIRERS
from lshdb import Hits, Index, QueryAnswers

_WAYS: dict[str, Callable[[Index, str, str], Hits]] = {
    "signature": lambda index, _, text: index.query(text, verify="signature"),
    "exact": lambda index, _, text: index.query(text, verify="exact"),
    "by key": lambda index, key, _: index.query(key=key),
}


def main(arguments: Sequence[str] | None = None) -> None:
    options = _options(arguments)
    print(facts(PAIRERS[:1]))
    with tempfile.TemporaryDirectory() as name:
        path = options.index or _generated(Path(name), options)
        with Index.open(path) as index:
            _report(index, options)
            _report_many(index, options)


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.querying", description=__doc__.splitlines()[0]
    )
    parser.add_argument("index", nargs="?", type=Path)
    parser.add_argument("--generated", type=int, default=1_000_000, help="documents, if no INDEX")
    parser.add_argument("--words", type=int, default=WORDS, help="words a generated document")
    parser.add_argument("--queries", type=int, default=2000)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--many", type=int, default=20_480, help="texts at once")
    parser.add_argument("--markdown", action="store_true")
    return parser.parse_args(arguments)


def _generated(folder: Path, options: argparse.Namespace) -> Path:
    corpus, _ = short_corpus(folder, options.generated, options.words)
    job = {"kind": "fill", "name": PAIRERS[0].name, "threads": 0, "key_field": "id"}
    filled = folder / "index"
    run_in_fresh_process(
        {**job, "field": corpus.field, "path": str(corpus.path), "folder": str(filled)}
    )
    [index] = filled.iterdir()
    return index


def _report(index: Index, options: argparse.Namespace) -> None:
    documents, asked = _queries(index, options.queries)
    print(f"\n{documents:,} documents, {len(asked):,} queries, {options.repeats} rounds\n")
    head = ["way", "median us", "99 % us", "99 % by median", "longest us", "mean us", "hits",
            "processor us"]  # fmt: skip
    body = []
    for name, query in _WAYS.items():
        hits = sum(len(query(index, *one)) for one in asked)
        rounds = [_timed(index, asked, query) for _ in range(options.repeats)]
        times, processor = np.moveaxis(np.array(rounds) / 1e3, 2, 0)
        median, most = np.percentile(times, [50, 99])
        body.append(
            [name, f"{median:,.0f}", f"{most:,.0f}", f"{most / median:.1f}",
             f"{times.max():,.0f}", f"{times.mean():,.0f}", f"{hits / len(asked):.2f}",
             f"{np.median(processor.min(axis=0)):,.0f}"]
        )  # fmt: skip
    print(table(head, body, markdown=options.markdown))
    print(f"\nPeak memory {peak_memory() / 2**20:,.0f} MiB", flush=True)


_ALONE = 2048
"""Texts that are asked for one by one."""


def _report_many(index: Index, options: argparse.Namespace) -> None:
    texts = [text for _, text in _queries(index, options.many)[1]]
    print(f"\n{len(texts):,} texts at once, {options.repeats} rounds in turn\n")
    body = []
    for verify in ("signature", "exact"):
        fastest: dict[str, tuple[float, float]] = {}
        for _ in range(options.repeats):
            for way, n, ask in _many_ways(index, texts, verify):
                begun, processor = time.perf_counter(), time.process_time()
                ask()
                clock, processor = time.perf_counter() - begun, time.process_time() - processor
                before = fastest.get(way, (clock, processor))
                fastest[way] = min(clock / n, before[0]), min(processor / n, before[1])
        alone = fastest["one by one"][1]
        body += [
            [verify, way, f"{1 / clock:,.0f}", f"{1e6 * processor:.1f}", f"{processor / alone:.2f}"]
            for way, (clock, processor) in fastest.items()
        ]
    head = ["verify", "way", "queries/s", "processor us", "of one by one"]
    print(table(head, body, markdown=options.markdown), flush=True)


def _many_ways(
    index: Index, texts: list[str], verify: Any
) -> Iterator[tuple[str, int, Callable[[], object]]]:
    """Yield the name of each way, its number of queries, and what asks them."""
    some = texts[:_ALONE]
    yield "one by one", len(some), lambda: [index.query(text, verify=verify) for text in some]
    for workers in (1, 2):
        answers = index.query_many(texts, verify=verify, workers=workers)
        yield f"objects, workers={workers}", len(texts), partial(deque, answers, maxlen=0)
        yield f"columns, workers={workers}", len(texts), partial(_columns, answers)


def _columns(answers: QueryAnswers) -> None:
    deque(answers.columns(), maxlen=0)


def _queries(index: Index, wanted: int) -> tuple[int, list[tuple[str, str]]]:
    """How many documents there are, and keys and texts to be asked for."""
    [[documents]] = index.sql("SELECT count(*) FROM document").rows
    numbers = random.Random(1).sample(range(documents), min(wanted, documents))
    asked = []
    for number in numbers:
        rows = index.sql("SELECT key FROM document WHERE doc_id > ? LIMIT 1", [number]).rows
        for [key] in rows:
            body = index.show(key).body
            if isinstance(body, str):
                asked.append((key, body.split(maxsplit=1)[-1]))
    return documents, asked


def _timed(
    index: Index, asked: list[tuple[str, str]], query: Callable[[Index, str, str], Hits]
) -> list[tuple[int, int]]:
    """Nanoseconds of each query, by the clock and of the processor."""
    times = []
    for key, text in asked:
        begun, processor = time.perf_counter_ns(), time.thread_time_ns()
        query(index, key, text)
        processor = time.thread_time_ns() - processor
        times.append((time.perf_counter_ns() - begun, processor))
    return times


if __name__ == "__main__":
    main()
