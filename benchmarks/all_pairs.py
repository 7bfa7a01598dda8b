"""Are all pairs within a threshold found, for every metric, and no others?

    python -m benchmarks.all_pairs [--glove FOLDER] [--vectors 20000] [--seeds 3] [--markdown]

For each metric and scheme, at four thresholds: an index of a few hundred bodies for a sample and
the promised recall 0.99, everything else by default, and all its pairs, against all pairs by
comparing every document with every other. The data are the 1,797 handwritten digits that come with
scikit-learn, 8 x 8 pixels of 0 to 16, and with ``--glove`` some of GloVe's vectors, drawn at random
(``fetch_glove.py``).

Recall is the mean over the seeds of the hash functions, with its standard error: that between the
seeds, or if it is larger, that of as many independent pairs, each of which is found with the
probability that the S-curve gives. ``expected`` is the mean of those. Pairs of one index are not
independent, as they share hash functions and documents; so errors of few seeds are rough.
"""

from __future__ import annotations

import argparse
import math
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks._exact_pairs import Pairs, exact_pairs
from benchmarks._tables import facts, table
from benchmarks.fetch_glove import fetch
from benchmarks.peers.pairers import PAIRERS
from lshdb import Index

HEAD = [
    "metric", "scheme", "data", "threshold", "bands x rows", "width", "true pairs", "recall", "+-",
    "expected", "precision", "candidates", "add s", "pairs s",
]  # fmt: skip
_SAMPLE = 2000


@dataclass(frozen=True)
class Case:
    """A metric, with data and thresholds for it, the loosest last."""

    metric: str
    scheme: str
    data: str
    bodies: Any
    thresholds: Sequence[float]
    options: dict[str, Any]


@dataclass(frozen=True)
class Result:
    """What one index found.

    Attributes
    ----------
    found, wrong : int
        True pairs, and others.
    candidates : float
        Pairs that were compared, for each document.
    add, pairs : float
        Seconds.
    """

    found: int
    wrong: int
    candidates: float
    add: float
    pairs: float


def main(arguments: Sequence[str] | None = None) -> None:
    options = _options(arguments)
    print(facts(PAIRERS[:1]), end="\n\n")
    body = []
    for case in cases(options.glove, options.vectors):
        if case.metric.startswith(tuple(options.only.split(","))):
            print(f"{case.metric} {case.scheme}, {case.data} ...", file=sys.stderr)
            body += _lines(case, options.seeds)
    print(table(HEAD, body, markdown=options.markdown), flush=True)


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.all_pairs", description=__doc__.splitlines()[0]
    )
    parser.add_argument("--glove", type=Path, metavar="FOLDER", help="for cosine, too")
    parser.add_argument("--vectors", type=int, default=20_000, help="of GloVe's")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--only", default="", help="metrics that begin so: a,b")
    parser.add_argument("--markdown", action="store_true")
    return parser.parse_args(arguments)


def digits() -> NDArray[np.uint8]:
    """The pixels of scikit-learn's digits, 1797 x 64."""
    from sklearn.datasets import load_digits

    return np.asarray(load_digits().data, dtype=np.uint8)


def cases(glove: Path | None, n_vectors: int) -> Iterator[Case]:
    """All that is measured."""
    pixels = digits()
    numbers = {"dim": 64, "dtype": "uint8"}
    steps = (42.0, 58.0, 85.0, 111.0)
    unary = (pixels[:, :, None] > np.arange(16)).reshape(len(pixels), -1)
    weights = [
        {f"pixel {place}": float(value) for place, value in enumerate(row) if value}
        for row in pixels.tolist()
    ]
    yield Case("l2", "gaussian", "digits", pixels, (10.0, 12.0, 16.0, 24.0), numbers)
    yield Case("l1", "cauchy", "digits", pixels, steps, numbers)
    yield Case("l1", "unary", "digits", pixels, steps, {**numbers, "width": 16.0})
    yield Case("hamming", "bits", "digits, pixels >= 8", pixels >= 8, (1, 3, 5, 9), {"dim": 64})
    yield Case("hamming", "bits", "digits, unary code", unary, steps, {"dim": 1024})
    for scheme in ("fss", "universal"):
        levels = (0.95, 0.9, 0.8, 0.65)
        yield Case("jaccard-bits", scheme, "digits, pixels >= 8", pixels >= 8, levels, {"dim": 64})
    yield Case("weighted-jaccard", "icws", "digits", weights, (0.87, 0.83, 0.76, 0.65), {})
    if glove is not None:
        rows = np.load(fetch(glove)[0], mmap_mode="r")
        drawn = np.sort(np.random.default_rng(1).permutation(len(rows))[:n_vectors])
        vectors, dim = rows[drawn], {"dim": rows.shape[1]}
        for scheme in ("hyperplane", "hadamard"):
            yield Case("cosine", scheme, "GloVe", vectors, (0.9, 0.85, 0.8, 0.7), dim)


def _lines(case: Case, seeds: int) -> list[list[str]]:
    every = exact_pairs(case.metric, case.bodies, case.thresholds[-1])
    is_distance = case.metric in ("l1", "l2", "hamming")
    lines = []
    for threshold in case.thresholds:
        truth = {
            pair: value
            for pair, value in every.items()
            if (value <= threshold if is_distance else value >= threshold)
        }
        if not truth:
            continue
        results, recalls = [], []
        for seed in range(1, seeds + 1):
            with tempfile.TemporaryDirectory() as folder:
                result, params = _found(case, threshold, seed, truth, Path(folder))
            results.append(result)
            recalls.append(result.found / len(truth))
        chances = np.array([params.recall_at(value) for value in truth.values()])
        lines.append(
            [case.metric, case.scheme, case.data, f"{threshold:g}",
             f"{params.bands} x {params.rows}", f"{params.width:g}" if params.width else "",
             f"{len(truth):,}", f"{np.mean(recalls):.5f}", f"{_error(recalls, chances):.5f}",
             f"{chances.mean():.5f}", _precision(results),
             *(f"{np.median([getattr(one, name) for one in results]):,.2f}"
               for name in ("candidates", "add", "pairs"))]
        )  # fmt: skip
    return lines


def _found(
    case: Case, threshold: float, seed: int, truth: Pairs, folder: Path
) -> tuple[Result, Any]:
    """One index's pairs, held against the true ones."""
    with Index.create(
        folder / "index", metric=case.metric, scheme=case.scheme, threshold=threshold,
        recall=0.99, seed=seed, sample=list(case.bodies[:_SAMPLE]), **case.options,
    ) as index:  # fmt: skip
        begun = time.perf_counter()
        index.add((str(number), body) for number, body in enumerate(case.bodies))
        added = time.perf_counter()
        pairs = list(index.pairs())
        done = time.perf_counter()
        right = wrong = 0
        for pair in pairs:
            one, other = sorted((int(pair.key1), int(pair.key2)))
            value = truth.get((one, other))
            is_right = value is not None and math.isclose(abs(pair.similarity), value)
            right, wrong = right + is_right, wrong + (not is_right)
        candidates = sum(1 for _ in index.pairs(verify="none")) / len(case.bodies)
        return Result(right, wrong, candidates, added - begun, done - added), index.params


def _error(recalls: Sequence[float], chances: NDArray[np.float64]) -> float:
    """Standard error of the mean recall."""
    independent = float((chances * (1.0 - chances)).sum()) / len(chances) ** 2
    between = float(np.var(recalls, ddof=1)) if len(recalls) > 1 else 0.0
    return math.sqrt(max(independent, between) / len(recalls))


def _precision(results: Sequence[Result]) -> str:
    """Exactly 1.0 where nothing is wrong."""
    found, wrong = sum(one.found for one in results), sum(one.wrong for one in results)
    return f"{found / (found + wrong):.6g}" if wrong else "1.0"


if __name__ == "__main__":
    main()
