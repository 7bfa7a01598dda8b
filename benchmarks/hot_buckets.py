"""What does a cap on buckets cost, and does lshdb say so rightly?

    python -m benchmarks.hot_buckets CORPUS.jsonl[.gz]... [--k 5] [--caps 5,8,12,50] [--seeds 8x5]

For each index seed an index is made and all its pairs are found without a cap. For each cap the
share that it loses is then known: of ``pairs``, the pairs that lie in larger buckets alone; of
``clusters``, those that are not among the stored ones. Both are held against what is said, once for
each seed of the sample: how often the true share lies within the interval of 99 %.

Then ``dedup`` chooses under the same cap. ``kept pairs`` are pairs that the index finds without a
cap and of which both documents were kept: there should be none. With ``--gold``, ``kept gold`` are
those of all pairs of the corpus, with what it is without a cap behind it: these share no bucket.
"""

from __future__ import annotations

import argparse
import gzip
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from benchmarks._corpora import from_file
from benchmarks._tables import table
from lshdb import Index, Loss, PairCount, read_documents
from lshdb.search.candidates import LeftOut
from lshdb.search.loss import (
    DocumentCounts,
    PairFrame,
    estimate_pairs,
    loss_of,
    stored_loss,
    survey,
)
from lshdb.search.pairs import find_links
from lshdb.signatures.banding import bucket_keys, matching_bands
from lshdb.storage.transactions.snapshot import Snapshot

Ids = NDArray[np.int64]
HEAD = ["corpus", "cap", "pairs", "lost", "said", "interval", "within", "CPU s",
        "lost to clusters", "said", "within", "kept pairs", "kept gold"]  # fmt: skip


class Truth:
    """All pairs of an index, found without a cap."""

    def __init__(self, index: Index, snapshot: Snapshot) -> None:
        self.index, self.snapshot = index, snapshot
        self.counts = DocumentCounts.of(snapshot)
        found = list(
            find_links(
                snapshot,
                index._family,
                threshold=index.params.level,
                method="exact",
                left_out=LeftOut(),
            )
        )
        self.left = np.concatenate([each.left for each in found])
        self.right = np.concatenate([each.right for each in found])
        self.weights = self.counts.pairs(self.left, self.right)
        self.total = int(self.weights.sum()) + self.counts.pairs_of_copies()

    def lost(self, large: Ids, cap: int) -> int:
        """Pairs of documents that lie in some buckets alone, and in groups of copies over a cap."""
        cut = self.index.params.cut
        lost = self.counts.pairs_of_copies() - self.counts.pairs_of_copies(most=cap)
        for start in range(0, len(self.left), 20_000):
            part = slice(start, start + 20_000)
            one = self.snapshot.signatures[self.left[part]]
            other = self.snapshot.signatures[self.right[part]]
            agree = matching_bands(one, other, **cut)
            alone = (np.isin(bucket_keys(one, **cut), large) | ~agree).all(axis=1)
            lost += int(self.weights[part][alone].sum())
        return lost

    def not_stored(self) -> int:
        """Pairs of documents that are not among the stored ones."""
        stored = self.snapshot.edges.contain(self.left, self.right, self.index.params.level)
        return int(self.weights[~stored].sum())


class Tally:
    """Estimates of one cap."""

    def __init__(self) -> None:
        self.true: list[float] = []
        self.said: list[Loss] = []
        self.seconds = 0.0

    def put(self, true: float, said: Loss | None) -> None:
        if said is None:
            raise RuntimeError("nothing was said")
        self.true.append(true)
        self.said.append(said)

    def cells(self) -> list[str]:
        """True and said shares, the interval, and how often it held."""
        within = sum(
            one.low - 1e-12 <= true <= one.high + 1e-12
            for one, true in zip(self.said, self.true, strict=True)
        )
        low, high = (float(np.mean([getattr(one, name) for one in self.said]))
                     for name in ("low", "high"))  # fmt: skip
        said = float(np.mean([one.share for one in self.said]))
        counted = all(one.is_exact for one in self.said)
        return [
            f"{np.mean(self.true):.4f}",
            f"{said:.4f}",
            "counted" if counted else f"{low:.4f}-{high:.4f}",
            f"{within}/{len(self.true)}",
        ]


def main(arguments: Sequence[str] | None = None) -> None:
    options = _options(arguments)
    lines = []
    with tempfile.TemporaryDirectory() as name:
        for number, path in enumerate(options.corpus):
            corpus = from_file(path, Path(name), "text", options.documents)
            gold = _gold(options.gold[number]) if options.gold else None
            lines += _audit(corpus.path, corpus.name, gold, Path(name), options)
            print(table(HEAD, lines, markdown=options.markdown), flush=True)


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.hot_buckets", description=__doc__.splitlines()[0]
    )
    parser.add_argument("corpus", nargs="+", type=Path, help="JSONL, plain or .gz")
    parser.add_argument("--gold", type=Path, action="append", help="all pairs of each corpus")
    parser.add_argument("--k", type=int, default=5)
    parser.add_argument("--threshold", type=float, default=0.5)
    parser.add_argument("--caps", default="5,8,12,50")
    parser.add_argument("--seeds", default="8x5", help="index seeds x seeds of the sample")
    parser.add_argument("--documents", type=int, help="only so many of each corpus, the first")
    parser.add_argument("--no-clusters", action="store_true", help="pairs alone")
    parser.add_argument("--markdown", action="store_true")
    options = parser.parse_args(arguments)
    if options.gold and len(options.gold) != len(options.corpus):
        parser.error("--gold is given once for each corpus, in their order")
    return options


def _gold(path: Path) -> list[tuple[str, str]]:
    opener = gzip.open if path.suffix == ".gz" else open
    with opener(path, "rt", encoding="utf-8") as lines:
        rows = (line.split("\t") for line in lines)
        return [(row[0], row[1]) for row in rows]


def _audit(
    path: Path,
    name: str,
    gold: list[tuple[str, str]] | None,
    folder: Path,
    options: argparse.Namespace,
) -> list[list[str]]:
    """The lines of one corpus."""
    n_indexes, n_samples = map(int, options.seeds.split("x"))
    caps = [int(cap) for cap in options.caps.split(",")]
    pairs = {cap: Tally() for cap in caps}
    stored = {cap: Tally() for cap in caps}
    kept = dict.fromkeys(caps, 0)
    kept_gold = dict.fromkeys([*caps, None], 0)
    totals = []
    for seed in range(1, n_indexes + 1):
        place = folder / f"{path.stem}-{options.k}-{seed}.lshdb"
        with Index.create(place, threshold=options.threshold, k=options.k, seed=seed) as index:
            index.add(read_documents([path]))
            with index._store.reading() as snapshot:
                truth = Truth(index, snapshot)
                totals.append(truth.total)
                for cap in caps:
                    _estimate(truth, cap, n_samples, pairs[cap], check=seed == 1)
                found = [(one.key1, one.key2) for one in index.pairs()]
            if options.no_clusters:
                continue
            for cap in caps:
                n, n_gold = _clustered(index, truth, cap, n_samples, stored[cap], found, gold)
                kept[cap] += n
                kept_gold[cap] += n_gold
            if gold is not None:
                index.update_clusters(max_bucket="none")
                kept_gold[None] += _both_kept(index, gold)[0]
    of_clusters = [] if options.no_clusters else caps
    return [
        [
            f"{name}, k {options.k}",
            str(cap),
            f"{np.mean(totals):,.0f}",
            *pairs[cap].cells(),
            f"{pairs[cap].seconds / max(1, len(pairs[cap].true)):.2f}",
            *(_without_interval(stored[cap].cells()) if cap in of_clusters else ["", "", ""]),
            f"{kept[cap]:,}" if cap in of_clusters else "",
            "" if gold is None else f"{kept_gold[cap]:,} ({kept_gold[None]:,})",
        ]
        for cap in caps
    ]


def _without_interval(cells: list[str]) -> list[str]:
    return [cells[0], cells[1], cells[3]]


def _estimate(truth: Truth, cap: int, n_samples: int, tally: Tally, *, check: bool) -> None:
    """What ``pairs`` says under a cap, by several samples."""
    index, snapshot = truth.index, truth.snapshot
    large = PairFrame(truth.counts)
    for _ in survey(snapshot, bands=index.params.bands, above=cap, large=large):
        pass
    lost = truth.lost(large.columns()[0], cap)
    copies = truth.counts.pairs_of_copies() - truth.counts.pairs_of_copies(most=cap)
    if check:
        search = index.pairs(max_bucket=cap)
        n_found = sum(1 for _ in search)
        if n_found != truth.total - lost:
            raise RuntimeError(f"{n_found} pairs were given, {truth.total - lost} expected")
    began = time.process_time()
    for sample in range(n_samples):
        estimated = estimate_pairs(
            snapshot, index._family, large,
            threshold=index.params.level, method="exact", found_by="another bucket", seed=sample,
        )  # fmt: skip
        found = truth.total - lost
        said = estimated and loss_of(estimated + copies, PairCount(found, found, found, True, 0))
        tally.put(lost / truth.total if truth.total else 0.0, said)
    tally.seconds += time.process_time() - began


def _clustered(
    index: Index,
    truth: Truth,
    cap: int,
    n_samples: int,
    tally: Tally,
    found: list[tuple[str, str]],
    gold: list[tuple[str, str]] | None,
) -> tuple[int, int]:
    """What ``clusters`` says under a cap, and pairs of what ``dedup`` keeps."""
    state = index.update_clusters(max_bucket=cap)
    level = index.params.level
    with index._store.reading() as snapshot:
        truth.snapshot = snapshot
        true = truth.not_stored() / truth.total if truth.total else 0.0
        for sample in range(n_samples):
            tally.put(
                true, stored_loss(snapshot, index._family, state, threshold=level, seed=sample)
            )
    among_found, among_gold = _both_kept(index, found, gold or [])
    return among_found, among_gold


def _both_kept(index: Index, *pairs: list[tuple[str, str]]) -> list[int]:
    """Of how many pairs both documents are kept."""
    kept = {one.key for one in index.dedup(only="keep", update=False)}
    return [sum(one in kept and other in kept for one, other in each) for each in pairs]


if __name__ == "__main__":
    main()
