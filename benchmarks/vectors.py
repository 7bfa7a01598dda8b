"""How many of the ten nearest vectors are found, how fast, and what for?

    python -m benchmarks.vectors FOLDER [--queries 500] [--vectors N] [--made] [--markdown]

The vectors are GloVe's, fetched into FOLDER if they are not there (``fetch_glove.py``), or with
``--made`` such as are like them (``make_vectors.py``); similarity
is the cosine. Queries are vectors of the collection, which are left out of their answers. Recall is
that of the ten nearest by brute force in float64. Every contestant works in a fresh process, on one
thread, in turn: it is built, asked for all queries one by one, and then for ``--timed`` of them
``--repeats`` times, one by one and together, of which the medians are queries a second. Peak memory
is that of the whole process, its imports included, once it is built.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks._nearest_truth import Nearest
from benchmarks._tables import disk, facts, table
from benchmarks._vector_jobs import run_in_fresh_process
from benchmarks.fetch_glove import fetch
from benchmarks.make_vectors import make
from benchmarks.peers._searching import SEARCHERS, SearchContestant

HEAD = [
    "contestant", "effort", "recall@10", "candidates", "buckets", "queries/s", "together/s",
    "build s", "disk MB", "peak MiB",
]  # fmt: skip


def main(
    arguments: Sequence[str] | None = None,
    run: Callable[[dict[str, Any]], dict[str, Any]] = run_in_fresh_process,
) -> None:
    options = _options(arguments)
    with tempfile.TemporaryDirectory() as name:
        print(facts(SEARCHERS))
        print(disk(Path(name)))
        vectors = make(options.folder) if options.made else fetch(options.folder)[0]
        rows = np.load(vectors, mmap_mode="r")[: options.vectors]
        if options.vectors is not None:
            vectors = Path(name, "vectors.npy")
            np.save(vectors, rows)
        truth = Nearest.of(rows, options.queries)
        truth.write(Path(name, "truth.npz"))
        print(
            f"\n{len(rows):,} vectors of {rows.shape[1]} dimensions, {len(truth.queries):,} "
            f"queries; the cosine of the tenth nearest is {np.median(truth.least):.3f} (median)\n"
        )
        job = {
            "kind": "vectors", "threads": 1, "vectors": str(vectors.resolve()), "folder": name,
            "truth": str(Path(name, "truth.npz")), "timed": options.timed,
            "repeats": options.repeats,
        }  # fmt: skip
        body = []
        for one in SEARCHERS:
            if one.name.startswith(tuple(options.only.split(","))):
                body += _lines(one, job, run)
    print(table(HEAD, body, markdown=options.markdown), flush=True)


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.vectors", description=__doc__.splitlines()[0]
    )
    parser.add_argument("folder", type=Path, help="where glove.npy is, or is to be")
    parser.add_argument("--queries", type=int, default=500)
    parser.add_argument("--timed", type=int, default=100, help="of the queries, the first")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--vectors", type=int, metavar="N", help="only so many, the first")
    parser.add_argument("--made", action="store_true", help="vectors made like GloVe's")
    parser.add_argument("--only", default="", help="contestants whose names begin so: a,b")
    parser.add_argument("--markdown", action="store_true")
    return parser.parse_args(arguments)


def _lines(
    one: SearchContestant,
    job: dict[str, Any],
    run: Callable[[dict[str, Any]], dict[str, Any]],
) -> list[list[str]]:
    """A line for each effort; what building took stands in the first."""
    if not one.version():
        return [[one.name, "not installed", *[""] * (len(HEAD) - 2)]]
    print(f"{one.name} ...", file=sys.stderr)
    result = run({**job, "name": one.name})
    built = [
        f"{result['seconds']:.1f}",
        f"{result['disk'] / 1e6:,.1f}" if result["disk"] else "nothing",
        f"{result['peak'] / 2**20:,.0f}",
    ]
    lines = []
    for effort, asked in result["efforts"].items():
        counts = (asked["candidates"], asked["buckets"])
        lines.append(
            [one.name, effort, f"{asked['recall']:.4f}",
             *("" if count is None else f"{count:,.0f}" for count in counts),
             f"{asked['one']:,.1f}", f"{asked['many']:,.1f}",
             *(built if not lines else [""] * len(built))]
        )  # fmt: skip
    return lines


if __name__ == "__main__":
    main()
