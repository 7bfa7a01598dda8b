"""How long do queries take while others query and one adds? On SQLite and on Postgres.

    python -m benchmarks.concurrent_queries [--corpus FILE] [--clients 8] [--seconds 30]

An index is filled on each database in turn. One process alone asks for near-duplicates of stored
documents; then so many processes do while another one adds batch after batch. Every answer is
compared: a query for a stored text without its first word has to find that document. Printed are
the median and the 99th percentile of both, by ``signature`` and ``exact``, and what signing takes,
which is a part of each.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from benchmarks._servers import Place, add_server_option, places
from benchmarks._short import WORDS, short_corpus
from benchmarks._tables import disk, facts, table
from benchmarks.peers.pairers import PAIRERS
from lshdb import Index
from lshdb.search.query import query_points

_SCHEMA = "lshdb_benchmark"
_METHODS = ["signature", "exact"]
_BATCH = 1000
_TEXTS = 300


def main(arguments: Sequence[str] | None = None) -> None:
    options = _options(arguments)
    if options.client is not None:
        print(json.dumps(_ask(options.client, options.method, options.seconds, options.seed)))
        return
    print(facts(PAIRERS[:1]))
    with tempfile.TemporaryDirectory() as name, places(options.postgres_url) as both:
        print(disk(Path(name)))
        corpus = options.corpus
        if corpus is None:
            corpus = short_corpus(Path(name), options.generated, options.words)[0].path
        body = []
        for place in both:
            index = Path(name) / f"{place.name}.lshdb"
            _run("add", str(index), str(corpus), *place.arguments(_SCHEMA))
            for work in (_alone, _beside):  # first without what a writer leaves behind
                for method in _METHODS:
                    body.append(work(index, place, method, options))
                    print(*body[-1], flush=True)
            place.drop(_SCHEMA)
        head = ["database", "verify", "processes", "queries", "median us", "99 % us", "signing us",
                "batches beside"]  # fmt: skip
        print(f"\n{corpus.name}, {options.seconds:g} s each\n")
        print(table(head, body, markdown=options.markdown))


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.concurrent_queries", description=__doc__.splitlines()[0]
    )
    parser.add_argument("--corpus", type=Path, help="JSONL, fields id and text")
    parser.add_argument("--generated", type=int, default=1_000_000, help="documents")
    parser.add_argument("--words", type=int, default=WORDS, help="words a generated document")
    parser.add_argument("--clients", type=int, default=8)
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--markdown", action="store_true")
    parser.add_argument("--client", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--method", default="exact", help=argparse.SUPPRESS)
    parser.add_argument("--seed", type=int, default=0, help=argparse.SUPPRESS)
    add_server_option(parser)
    return parser.parse_args(arguments)


def _alone(index: Path, place: Place, method: str, options: argparse.Namespace) -> list[str]:
    return _row(place, method, [_Client(index, method, options.seconds, 0).result()], 0)


def _beside(index: Path, place: Place, method: str, options: argparse.Namespace) -> list[str]:
    clients = [_Client(index, method, options.seconds, seed) for seed in range(options.clients)]
    batches = 0
    with Index.open(index) as writer:
        while any(one.process.poll() is None for one in clients):
            number = f"{method}{batches}"
            writer.add(
                (f"new-{number}-{place_}", f"text {number} number {place_} of the batch beside")
                for place_ in range(_BATCH)
            )
            batches += 1
    return _row(place, method, [one.result() for one in clients], batches)


class _Client:
    """A process that asks; what it says goes to a file, as a pipe would fill."""

    def __init__(self, index: Path, method: str, seconds: float, seed: int) -> None:
        self._said = tempfile.TemporaryFile()  # noqa: SIM115
        command = [sys.executable, "-m", "benchmarks.concurrent_queries", "--client", str(index),
                   "--method", method, "--seconds", str(seconds), "--seed", str(seed)]  # fmt: skip
        self.process = subprocess.Popen(command, stdout=self._said)

    def result(self) -> dict[str, list[float]]:
        if self.process.wait():
            raise SystemExit("a client failed")
        self._said.seek(0)
        found: dict[str, list[float]] = json.loads(self._said.read())
        return found


def _ask(path: Path, method: str, seconds: float, seed: int) -> dict[str, list[float]]:
    """Ask for one stored text after the other; microseconds of each query, and of signing it."""
    rng = np.random.default_rng(seed)
    times, signing = [], []
    with Index.open(path) as index:
        [[most]] = index.sql("SELECT max(doc_id) FROM document").rows
        texts = _texts(index, rng.integers(1, most, _TEXTS).tolist())
        for _, text in texts[:50]:
            index.query(text, verify=method)
        end = time.perf_counter() + seconds
        while time.perf_counter() < end:
            key, text = texts[int(rng.integers(len(texts)))]
            begun = time.perf_counter()
            hits = index.query(text, verify=method, top=None, threshold=0.5)
            times.append(1e6 * (time.perf_counter() - begun))
            if not any(hit.key == key for hit in hits):
                raise SystemExit(f"{key} was not found")
            begun = time.perf_counter()
            points = query_points(index._family, [text])
            index._family.sign(points)
            signing.append(1e6 * (time.perf_counter() - begun))
    return {"times": times, "signing": signing}


def _texts(index: Index, doc_ids: list[int]) -> list[tuple[str, str]]:
    found = []
    chosen = ", ".join(map(str, doc_ids))
    for (key,) in index.sql(f"SELECT key FROM document WHERE doc_id IN ({chosen})").rows:
        body = str(index.show(str(key)).body)
        if len(body.split()) > 12:
            found.append((str(key), body.split(maxsplit=1)[-1]))
    return found


def _row(place: Place, method: str, found: list[dict[str, list[float]]], batches: int) -> list[str]:
    times = np.concatenate([one["times"] for one in found])
    signing = np.concatenate([one["signing"] for one in found])
    median, most = np.percentile(times, [50, 99])
    return [place.name, method, str(len(found)), f"{len(times):,}", f"{median:,.0f}",
            f"{most:,.0f}", f"{np.median(signing):,.0f}", str(batches)]  # fmt: skip


def _run(*arguments: str) -> None:
    command = [sys.executable, "-m", "lshdb", *arguments]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)


if __name__ == "__main__":
    main()
