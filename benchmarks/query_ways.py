"""Queries a second: by threads of one Index, by ``query_many``, and by processes.

    python -m benchmarks.query_ways [--documents 50000] [--seconds 3] [--threads 1,2,8]

An index of generated short texts is asked for texts that it holds. Each way works for the same
time. The CPU column is queries a second of CPU time, which says what a way costs on a machine that
does other work as well; switches are voluntary context switches a query.
"""

from __future__ import annotations

import argparse
import os
import random
import resource
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

from benchmarks._tables import table
from lshdb import Index

_WORDS = 5_000
_WORDS_A_TEXT = 60
_AT_ONCE = 256
_ROW = ["way", "queries/s", "queries/s of CPU", "switches a query"]


def main(arguments: Sequence[str] | None = None) -> None:
    options = _options(arguments)
    cores = os.cpu_count() or 1
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "queries.lshdb"
        texts = _texts(options.documents)
        with Index.create(path, threshold=0.5) as index:
            index.add((str(number), text) for number, text in enumerate(texts))
        body = []
        with Index.open(path) as index:
            _asked(index, texts, 0, min(0.5, options.seconds))  # the cache of the system
            for number in options.threads:
                work = _threads(index, texts, number, options.seconds)
                body.append(_measured(f"query, {number} threads", work))
            for number in sorted({1, cores}):
                many = _many(index, texts, number, options.seconds)
                body.append(_measured(f"query_many, workers={number}", many))
        body.append(_processes(path, options.documents, cores, options.seconds))
    print(table(_ROW, body, markdown=False))


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.query_ways", description=__doc__.splitlines()[0]
    )
    parser.add_argument("--documents", type=int, default=50_000)
    parser.add_argument("--seconds", type=float, default=3.0, help="for each way")
    parser.add_argument(
        "--threads", type=lambda text: [int(one) for one in text.split(",")], default=[1, 2, 8]
    )
    return parser.parse_args(arguments)


def _texts(documents: int) -> list[str]:
    rng = random.Random(1)
    words = [f"w{number}" for number in range(_WORDS)]
    return [" ".join(rng.choices(words, k=_WORDS_A_TEXT)) for _ in range(documents)]


def _asked(index: Index, texts: list[str], seed: int, seconds: float) -> int:
    """Ask one query after the other; how many."""
    rng, asked, end = random.Random(seed), 0, time.perf_counter() + seconds
    while time.perf_counter() < end:
        number = rng.randrange(len(texts))
        if index.query(texts[number], top=1)[0].key != str(number):
            raise SystemExit(f"document {number} was not found")
        asked += 1
    return asked


def _threads(index: Index, texts: list[str], number: int, seconds: float) -> Callable[[], int]:
    def work() -> int:
        counts = [0] * number

        def ask(seed: int) -> None:
            counts[seed] = _asked(index, texts, seed, seconds)

        threads = [threading.Thread(target=ask, args=(seed,)) for seed in range(number)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return sum(counts)

    return work


def _many(index: Index, texts: list[str], workers: int, seconds: float) -> Callable[[], int]:
    def work() -> int:
        rng, asked, end = random.Random(0), 0, time.perf_counter() + seconds
        while time.perf_counter() < end:
            some = rng.choices(texts, k=_AT_ONCE)
            asked += sum(1 for _ in index.query_many(some, top=1, workers=workers))
        return asked

    return work


def _measured(way: str, work: Callable[[], int]) -> list[str]:
    before, begun, cpu = _switches(), time.perf_counter(), time.process_time()
    asked = work()
    seconds, cpu = time.perf_counter() - begun, time.process_time() - cpu
    switches = (_switches() - before) / asked
    return [way, f"{asked / seconds:,.0f}", f"{asked / cpu:,.0f}", f"{switches:.1f}"]


def _switches() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_nvcsw


def _processes(path: Path, documents: int, number: int, seconds: float) -> list[str]:
    with ProcessPoolExecutor(number, mp_context=get_context("spawn")) as pool:
        jobs = [pool.submit(_in_process, path, documents, seed, seconds) for seed in range(number)]
        found = [job.result() for job in jobs]
    rate = sum(asked for asked, _ in found) / seconds
    of_cpu = sum(asked for asked, _ in found) / sum(cpu for _, cpu in found)
    return [f"query, {number} processes", f"{rate:,.0f}", f"{of_cpu:,.0f}", ""]


def _in_process(path: Path, documents: int, seed: int, seconds: float) -> tuple[int, float]:
    texts = _texts(documents)
    with Index.open(path) as index:
        cpu = time.process_time()
        return _asked(index, texts, seed, seconds), time.process_time() - cpu


if __name__ == "__main__":
    main()
