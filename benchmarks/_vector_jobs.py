"""One way to find the nearest vectors, timed inside a process that does nothing else.

    python -m benchmarks._vector_jobs < job.json

The contestant is built, which is timed and its peak memory taken, and then asked with each of its
efforts: all queries one by one, for the recall, and then some of them, a few times over, one by one
and together, for the time.
"""

from __future__ import annotations

import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks._memory import peak_memory
from benchmarks._nearest_truth import Nearest
from benchmarks.peers import load
from benchmarks.peers._searching import SEARCHERS, Searcher

__all__ = ["run_in_fresh_process", "run_vectors_here"]


def run_in_fresh_process(job: dict[str, Any]) -> dict[str, Any]:
    """Run a job in a process of its own."""
    from benchmarks import _jobs  # imports much, and only the parent needs it

    return _jobs.run_in_fresh_process(job, __name__)


def run_vectors_here(job: dict[str, Any]) -> dict[str, Any]:
    """Run a job in this process.

    Returns
    -------
    dict
        ``seconds``, ``peak`` and ``disk`` of building, and ``efforts``: by name ``recall``,
        ``candidates`` and ``buckets`` a query, ``one`` and ``many``, queries a second.
    """
    contestant = next(one for one in SEARCHERS if one.name == job["name"])
    searcher: Searcher = load(contestant).searcher(contestant.variant)
    truth = Nearest.read(Path(job["truth"]))
    with tempfile.TemporaryDirectory(dir=job["folder"]) as name:
        begun = time.perf_counter()
        searcher.build(Path(job["vectors"]), Path(name))
        built = {
            "seconds": time.perf_counter() - begun,
            "peak": peak_memory(),
            "disk": sum(path.stat().st_size for path in Path(name).rglob("*") if path.is_file()),
        }
        asked = {effort: _asked(searcher, effort, truth, job) for effort in searcher.efforts}
    return {**built, "efforts": asked}


def _asked(searcher: Searcher, effort: str, truth: Nearest, job: dict[str, Any]) -> dict[str, Any]:
    rows = np.load(job["vectors"], mmap_mode="r")
    found = [searcher.one(number, effort) for number in truth.queries]
    timed = truth.queries[: job["timed"]]
    return {
        "recall": truth.recall(rows, [each.numbers for each in found]),
        "candidates": _mean([each.candidates for each in found]),
        "buckets": _mean([each.buckets for each in found]),
        "one": _speed(lambda: [searcher.one(number, effort) for number in timed], timed, job),
        "many": _speed(lambda: searcher.many(timed, effort), timed, job),
    }


def _mean(counts: Sequence[int | None]) -> float | None:
    known = [count for count in counts if count is not None]
    return sum(known) / len(known) if known else None


def _speed(ask: Callable[[], Any], timed: Sequence[int], job: dict[str, Any]) -> float:
    """Queries a second, by the median of the rounds."""
    rounds = []
    for _ in range(job["repeats"]):
        begun = time.perf_counter()
        ask()
        rounds.append(time.perf_counter() - begun)
    return len(timed) / statistics.median(rounds)


if __name__ == "__main__":
    print(json.dumps(run_vectors_here(json.load(sys.stdin))))
