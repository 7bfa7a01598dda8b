"""Large buckets with many members in common -> taken as one.

The texts of a family share all bands but those that their differences touch. So a family of 200,000
fills sixteen large buckets, each with half of it, and its members would be moved and compared as
often as they are in one. Two buckets are taken as one if one of the first ``ASKED`` members of one
is among the first ``KNOWN`` of the other: nearly always if they share a half, and rarely if they
share a hundredth. That is done where they have more than ``MANY`` members in all, as each of them
would find other pairs by leaders of its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from lshdb.search.components import connect
from lshdb.spark.signing import ID_BYTES, mapped

__all__ = ["KNOWN", "merged_buckets"]

KNOWN = 64
ASKED = 4
MANY = 2**18


def merged_buckets(rows: DataFrame) -> DataFrame:
    """Return (first, root, most): the buckets of a first member, and what they are taken as.

    Parameters
    ----------
    rows : DataFrame
        The rows of a :class:`lshdb.spark.pairing.SharedBuckets`.

    Returns
    -------
    DataFrame
        ``root`` is the smallest first member of all that are taken as one, and ``most`` about how
        many members these have together. One task holds some five kilobytes for each large bucket.
    """
    known = sf.expr(f"if(number = 0, substring(members, 1, {KNOWN * ID_BYTES}), NULL)")
    size = sf.expr("if(members IS NULL, number, NULL)")
    one = rows.where("first IS NOT NULL").groupBy("first")
    return (
        one.agg(sf.max(size).alias("size"), sf.collect_list(known).alias("known"))
        .repartition(1)
        .mapInArrow(mapped(_merged_batches), "first binary, root binary, most bigint")
    )


def _merged_batches(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    rows = sorted(row for batch in batches for row in zip(*batch.to_pydict().values(), strict=True))
    if not rows:
        return
    firsts, sizes, heads = zip(*rows, strict=True)
    known = [[_ids(head) for head in sorted(several)] for several in heads]
    asked: dict[bytes, int] = {}  # its own place first, so that each bucket is in a pair
    pairs = [
        (place, asked.setdefault(one, place))
        for place, several in enumerate(known)
        for ids in several
        for one in ids[:ASKED]
    ]
    pairs += [
        (place, asked[one])
        for place, several in enumerate(known)
        for ids in several
        for one in ids
        if one in asked
    ]
    _, roots = connect(*np.array(pairs, dtype=np.int64).T)
    counts = [size * len(several) for size, several in zip(sizes, known, strict=True)]
    is_many = np.bincount(roots, weights=counts)[roots] > MANY
    roots = np.where(is_many, roots, np.arange(len(roots)))
    together: dict[int, list[int]] = {}
    for place, root in enumerate(roots.tolist()):
        together.setdefault(root, []).append(place)
    most = {
        root: _together([sizes[place] for place in places], [known[place][0] for place in places])
        for root, places in together.items()
    }
    yield pa.RecordBatch.from_arrays(
        [
            pa.array(firsts, pa.binary()),
            pa.array([firsts[root] for root in roots.tolist()], pa.binary()),
            pa.array([most[root] for root in roots.tolist()], pa.int64()),
        ],
        names=["first", "root", "most"],
    )


def _ids(known: bytes) -> list[bytes]:
    return [known[at : at + ID_BYTES] for at in range(0, len(known), ID_BYTES)]


def _together(sizes: list[int], known: list[list[bytes]]) -> int:
    """Estimate how many members some buckets have together.

    Up to the smallest of their last known members, all members of all are known: how many more
    there are than in the largest bucket says how many more there are of all.
    """
    limit = min(ids[-1] for ids in known)
    parts = [{one for one in ids if one <= limit} for ids in known]
    largest = sizes.index(max(sizes))
    share = len(set().union(*parts)) / max(1, len(parts[largest]))
    return min(sum(sizes), round(sizes[largest] * share))
