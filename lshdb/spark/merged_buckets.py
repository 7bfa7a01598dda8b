"""Merge large buckets that have many members in common.

The texts of a family share all bands except those that their differences touch. So a family of
200,000 fills sixteen large buckets, each with half of it, and its members would be moved and
compared once for each bucket. Two buckets are merged if one of the first ``ASKED`` members of one
is among the first ``KNOWN`` of the other: nearly always if they share a half, and rarely if they
share a hundredth. Buckets are merged only if they have more than ``MANY`` members in all, because
leaders of its own find further pairs in each.
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
    """Return (first, root, most): the first member of each large bucket, and the merged bucket.

    Parameters
    ----------
    rows : DataFrame
        The rows of a :class:`lshdb.spark.pairing.SharedBuckets`.

    Returns
    -------
    DataFrame
        ``root`` is the smallest first member of the merged buckets, and ``most`` an estimate of the
        members that they have together. One task holds some five kilobytes for each large bucket.
    """
    head = sf.expr(f"if(number = 0, substring(members, 1, {KNOWN * ID_BYTES}), NULL)")
    size = sf.expr("if(members IS NULL, number, NULL)")
    buckets = rows.where("first IS NOT NULL").groupBy("first")
    return (
        buckets.agg(sf.max(size).alias("size"), sf.collect_list(head).alias("heads"))
        .repartition(1)
        .mapInArrow(mapped(_merged_batches), "first binary, root binary, most bigint")
    )


def _merged_batches(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    rows = sorted(row for batch in batches for row in zip(*batch.to_pydict().values(), strict=True))
    if not rows:
        return
    firsts, sizes, heads = zip(*rows, strict=True)
    # For each first member, the heads of its buckets: the ids of their first members.
    head_ids = [[_ids(head) for head in sorted(group)] for group in heads]
    place_of: dict[bytes, int] = {}  # a bucket is in a pair with itself
    pairs = [
        (place, place_of.setdefault(signature_id, place))
        for place, group in enumerate(head_ids)
        for ids in group
        for signature_id in ids[:ASKED]
    ]
    pairs += [
        (place, place_of[signature_id])
        for place, group in enumerate(head_ids)
        for ids in group
        for signature_id in ids
        if signature_id in place_of
    ]
    _, roots = connect(*np.array(pairs, dtype=np.int64).T)
    counts = [size * len(group) for size, group in zip(sizes, head_ids, strict=True)]
    is_many = np.bincount(roots, weights=counts)[roots] > MANY
    roots = np.where(is_many, roots, np.arange(len(roots)))
    together: dict[int, list[int]] = {}
    for place, root in enumerate(roots.tolist()):
        together.setdefault(root, []).append(place)
    most = {
        root: _union_size([sizes[at] for at in places], [head_ids[at][0] for at in places])
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


def _ids(head: bytes) -> list[bytes]:
    return [head[at : at + ID_BYTES] for at in range(0, len(head), ID_BYTES)]


def _union_size(sizes: list[int], heads: list[list[bytes]]) -> int:
    """Estimate how many members buckets have together.

    All members are known up to the smallest of the last ids in the heads. In that range, count the
    members of all buckets for each member of the largest bucket; the same factor holds for the
    whole.
    """
    limit = min(ids[-1] for ids in heads)
    parts = [{signature_id for signature_id in ids if signature_id <= limit} for ids in heads]
    largest = sizes.index(max(sizes))
    share = len(set().union(*parts)) / max(1, len(parts[largest]))
    return min(sum(sizes), round(sizes[largest] * share))
