"""Candidate pairs -> verified pairs: the texts of candidates are brought together and compared.

Pairs and bodies meet in cells. A signature is in one of G groups, by its hash, and a pair goes to
the cell of its two groups, of which there are G (G + 1) / 2. So each body goes to as many cells as
its candidates lie in: to one or two where it has few, and to G where it is in a clique of
thousands, of which every pair would otherwise bring it anew. G follows from the number of pairs and
the length of bodies, so that a cell has some two thousand pairs and some megabytes, however many
there are in all.

In a cell, pairs are compared as on one machine: by signature first, and those whose estimate
suffices by their texts, each of which is shingled once.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from lshdb.search.verification import estimate
from lshdb.signatures.banding import compare_rows
from lshdb.signatures.family import Family
from lshdb.signatures.sets import SetFamily, compare_sets
from lshdb.spark.pairing import Ids, ids_of, rows_of
from lshdb.spark.signing import Recipe, binaries, bodies_of, few_rows, mapped

__all__ = ["verified"]

CELL_PAIRS = 2_048
CELL_CHARACTERS = 8 * 2**20
"""A cell has so many pairs, and so many characters if each were a pair's own, on average."""
_TEXTS = 512
"""Texts that are shingled together."""


def verified(
    candidates: DataFrame, documents: DataFrame, recipe: Recipe, *, method: str, level: float
) -> DataFrame:
    """Return the pairs at or above the threshold.

    Parameters
    ----------
    candidates : DataFrame
        ``left`` and ``right``; a pair that comes twice is compared once. Read several times.
    documents : DataFrame
        ``signature_id``, ``signature``, ``n_chars`` and, for method ``exact``, ``body``; of several
        rows of one signature any counts. Read several times.
    recipe : Recipe
    method : {"none", "signature", "exact"}
    level : float
        The threshold as a level; does not apply to method ``none``.

    Returns
    -------
    DataFrame
        ``left``, ``right``, ``similarity`` (double; for a distance, minus the distance),
        ``method``.
    """
    celled = _celled(candidates.select("left", "right"), documents)
    kind = documents.schema["body"].dataType if method == "exact" else None
    names = ["signature_id", "signature", *([] if kind is None else ["body"])]
    end = sf.explode(sf.array("left", "right")).alias("signature_id")
    some = few_rows(documents.select(*names), "signature_id", candidates.select(end))
    bodies = some.dropDuplicates(["signature_id"])
    # Ends are in the partitions of their bodies, and a pair goes to its cell by itself.
    ends = celled.select(end, "cell").repartition("signature_id").distinct()
    return (
        ends.join(bodies, "signature_id")
        .unionByName(celled, allowMissingColumns=True)
        .repartition("cell")
        .sortWithinPartitions("cell", sf.col("signature_id").desc_nulls_last())
        .mapInArrow(
            mapped(_compared_batches, recipe, method, level),
            "left binary, right binary, similarity double, method string",
        )
    )


def _celled(candidates: DataFrame, documents: DataFrame) -> DataFrame:
    """Add ``cell``, the number of the cell in which a pair is compared."""
    length = documents.agg(sf.coalesce(sf.avg("n_chars"), sf.lit(0.0)).alias("length"))
    size = candidates.agg(sf.count("*").alias("n")).crossJoin(length)
    n_cells = sf.greatest(
        sf.col("n") / CELL_PAIRS,
        2 * sf.col("n") * sf.col("length") / CELL_CHARACTERS,
        sf.lit(1.0),
    )
    size = size.select(sf.ceil(sf.sqrt(2 * n_cells)).alias("groups"))
    found = candidates.crossJoin(sf.broadcast(size))
    one, other = (sf.pmod(sf.xxhash64(name), sf.col("groups")) for name in ("left", "right"))
    cell = sf.least(one, other) * sf.col("groups") + sf.greatest(one, other)
    return found.select("left", "right", cell.alias("cell"))


@dataclass(slots=True)
class _Cell:
    """What lies in one cell: signatures in order of id, and pairs of them."""

    ids: list[Ids]
    rows: list[NDArray[np.uint32]]
    bodies: list[pa.Array]
    lefts: list[Ids]
    rights: list[Ids]


def _compared_batches(
    recipe: Recipe, method: str, level: float, batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    family = recipe.family()
    now: int | None = None
    cell = _Cell([], [], [], [], [])
    for batch in batches:
        if not batch.num_rows:
            continue
        cells = batch.column("cell").to_numpy()
        kinds = batch.column("signature_id").is_null().to_numpy(zero_copy_only=False)
        changes = (np.diff(cells) != 0) | (kinds[1:] != kinds[:-1])
        ends = [*(np.flatnonzero(changes) + 1).tolist(), batch.num_rows]
        begin = 0
        for end in ends:
            some = batch.slice(begin, end - begin)
            if now is not None and cells[begin] != now:
                yield from _compared(family, method, level, cell)
                cell = _Cell([], [], [], [], [])
            now = int(cells[begin])
            if not kinds[begin]:
                cell.ids.append(ids_of(some.column("signature_id")).copy())
                cell.rows.append(rows_of(some.column("signature"), recipe.params).copy())
                if method == "exact":
                    cell.bodies.append(some.column("body"))
            else:
                cell.lefts.append(ids_of(some.column("left")).copy())
                cell.rights.append(ids_of(some.column("right")).copy())
            begin = end
    if now is not None:
        yield from _compared(family, method, level, cell)


def _compared(family: Family, method: str, level: float, cell: _Cell) -> Iterator[pa.RecordBatch]:
    """Yield the verified pairs of a cell, in the order of their ids."""
    if not cell.lefts:
        return
    ids, rows = np.concatenate(cell.ids), np.concatenate(cell.rows)
    number = {one: place for place, one in enumerate(ids.tolist())}
    left, right = (
        np.array([number[one] for one in np.concatenate(column).tolist()], dtype=np.int64)
        for column in (cell.lefts, cell.rights)
    )
    _, once = np.unique(left * len(ids) + right, return_index=True)
    left, right = left[once], right[once]
    params = family.params
    agreement = compare_rows(rows, left, rows, right, **params.cut)
    levels, suffices = estimate(agreement, params, method=method, threshold=level)
    left, right, levels = left[suffices], right[suffices], levels[suffices]
    if method == "exact" and len(left):
        levels = _exact_levels(family, cell.bodies, left, right)
        keep = levels >= level
        left, right, levels = left[keep], right[keep], levels[keep]
    if len(left):
        yield pa.RecordBatch.from_arrays(
            [
                binaries(ids[left]), binaries(ids[right]), pa.array(levels),
                pa.array([method] * len(left)),
            ],
            names=["left", "right", "similarity", "method"],
        )  # fmt: skip


def _exact_levels(
    family: Family, bodies: list[pa.Array], left: NDArray[np.int64], right: NDArray[np.int64]
) -> NDArray[np.float64]:
    """Return the exact levels of pairs of bodies; each body is shingled once."""
    ends = np.cumsum([len(part) for part in bodies])
    needed = np.unique(np.concatenate([left, right]))
    parts: list[NDArray[np.uint64]] = []
    sets = np.zeros((int(ends[-1]), 3), dtype=np.int64)
    points: dict[int, Any] = {}
    for column, end in zip(bodies, ends.tolist(), strict=True):
        inside = needed[(needed >= end - len(column)) & (needed < end)]
        for start in range(0, len(inside), _TEXTS):
            some = inside[start : start + _TEXTS]
            values = bodies_of(column.take(pa.array(some - (end - len(column)))))
            contents = family.contents(values)
            if isinstance(family, SetFamily):
                hashes, counts = family.sets(contents)
                sets[some, 0], sets[some, 2] = len(parts), counts
                sets[some, 1] = np.cumsum(counts) - counts
                parts.append(hashes)
            else:
                points.update(zip(some.tolist(), family.points(contents), strict=True))
    if isinstance(family, SetFamily):
        return compare_sets(parts, sets, left, right)
    return family.levels(
        [points[one] for one in left.tolist()], [points[one] for one in right.tolist()]
    )
