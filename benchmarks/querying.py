"""How long does a warm query take, through the API, with what verifies it?

    python -m benchmarks.querying INDEX | --generated 1000000  [--queries 2000] [--repeats 3]

Queries are stored documents, drawn at random, without their first word, so that each is a near-
duplicate of something and a copy of nothing. One round goes before the clock, as warm means that
what is asked for has been asked for. Then every query is timed by itself: ``Index.query(text)``
with nothing but ``verify``, from the call to the list of hits.
"""

from __future__ import annotations

import argparse
import random
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from benchmarks._memory import peak_memory
from benchmarks._pair_jobs import run_in_fresh_process
from benchmarks._short import WORDS, short_corpus
from benchmarks._tables import facts, table
from benchmarks.peers.pairers import PAIRERS
from lshdb import Index

_METHODS = ["signature", "exact"]


def main(arguments: Sequence[str] | None = None) -> None:
    options = _options(arguments)
    print(facts(PAIRERS[:1]))
    with tempfile.TemporaryDirectory() as name:
        path = options.index or _generated(Path(name), options)
        with Index.open(path) as index:
            _report(index, options)


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.querying", description=__doc__.splitlines()[0]
    )
    parser.add_argument("index", nargs="?", type=Path)
    parser.add_argument("--generated", type=int, default=1_000_000, help="documents, if no INDEX")
    parser.add_argument("--words", type=int, default=WORDS, help="words a generated document")
    parser.add_argument("--queries", type=int, default=2000)
    parser.add_argument("--repeats", type=int, default=3)
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
    documents, texts = _queries(index, options.queries)
    print(f"\n{documents:,} documents, {len(texts):,} queries, {options.repeats} rounds\n")
    head = ["verify", "median us", "99 % us", "99 % by median", "longest us", "mean us", "hits"]
    body = []
    for method in _METHODS:
        hits = sum(len(index.query(text, verify=method)) for text in texts)
        times = np.array([_timed(index, texts, method) for _ in range(options.repeats)]) * 1e6
        median, most = np.percentile(times, [50, 99])
        body.append(
            [method, f"{median:,.0f}", f"{most:,.0f}", f"{most / median:.1f}",
             f"{times.max():,.0f}", f"{times.mean():,.0f}", f"{hits / len(texts):.2f}"]
        )  # fmt: skip
    print(table(head, body, markdown=options.markdown))
    print(f"\nPeak memory {peak_memory() / 2**20:,.0f} MiB", flush=True)


def _queries(index: Index, wanted: int) -> tuple[int, list[str]]:
    """How many documents there are, and texts to be asked for."""
    [[documents]] = index.sql("SELECT count(*) FROM document").rows
    numbers = random.Random(1).sample(range(documents), min(wanted, documents))
    texts = []
    for number in numbers:
        rows = index.sql("SELECT key FROM document WHERE doc_id > ? LIMIT 1", [number]).rows
        for [key] in rows:
            body = index.show(key).body
            if isinstance(body, str):
                texts.append(body.split(maxsplit=1)[-1])
    return documents, texts


def _timed(index: Index, texts: list[str], method: str) -> list[float]:
    times = []
    for text in texts:
        begun = time.perf_counter()
        index.query(text, verify=method)
        times.append(time.perf_counter() - begun)
    return times


if __name__ == "__main__":
    main()
