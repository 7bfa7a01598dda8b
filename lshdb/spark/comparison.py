"""Candidate pairs -> verified pairs: the texts of candidates are brought together and compared.

Pairs and bodies meet in cells. A signature is in one of G groups, by its hash, and a pair goes to
the cell of its two groups, of which there are G (G + 1) / 2. So each body goes to as many cells as
its candidates lie in: to one or two where it has few, and to G where it is in a clique of
thousands, of which every pair would otherwise bring it anew. G follows from the number of pairs and
the length of bodies, so that a cell has some four thousand pairs and some megabytes, however many
there are in all.

In a cell, pairs are compared as on one machine: by signature first, and those whose estimate
suffices by their texts, each of which is shingled once. To sign shingles again takes a microsecond,
and a signature is as long as a short text, so signatures of texts do not travel with them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
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
from lshdb.spark.hash_filter import rows_among
from lshdb.spark.pairing import Ids, ends_of, ids_of, rows_of
from lshdb.spark.signing import Recipe, binaries, bodies_of, mapped

__all__ = ["Comparison", "verified"]

CELL_PAIRS = 4_096
CELL_CHARACTERS = 8 * 2**20
"""A cell has so many pairs, and so many characters if each were a pair's own, on average."""
_TEXTS = 512
"""Texts that are shingled together."""

Read = Callable[[pa.Array], list[Any]]
"""Arrow's column of some bodies -> the bodies."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """What pairs of signatures are compared by.

    Attributes
    ----------
    rows : DataFrame
        ``signature_id``, ``signature``, ``n_chars`` and, for method ``exact``, ``body``; of several
        rows of one signature any counts. Read several times.
    recipe : Recipe
    method : {"none", "signature", "exact"}
    level : float
        The threshold as a level.
    read : Read
    """

    rows: DataFrame
    recipe: Recipe
    method: str
    level: float
    read: Read = bodies_of


def verified(candidates: DataFrame, by: Comparison, *, n: int | None = None) -> DataFrame:
    """Return the pairs at or above the threshold.

    Parameters
    ----------
    candidates : DataFrame
        ``left`` and ``right``; a pair that comes twice is compared once. Read several times.
    by : Comparison
        Its level does not apply to method ``none``.
    n : int, optional
        How many candidates there are, if that is known; otherwise they are counted.

    Returns
    -------
    DataFrame
        ``left``, ``right``, ``similarity`` (double; for a distance, minus the distance),
        ``method``.
    """
    method, recipe = by.method, by.recipe
    celled = _celled(candidates.select("left", "right"), by.rows, n)
    names = ["signature_id", "body" if method == "exact" else "signature"]
    if method == "exact" and not isinstance(recipe.family(), SetFamily):
        names.append("signature")
    some = rows_among(by.rows.select(*names), "signature_id", ends_of(candidates))
    bodies = some.dropDuplicates(["signature_id"])
    # Ends are in the partitions of their bodies, and a pair goes to its cell by itself.
    ends = ends_of(celled, "cell").repartition("signature_id").distinct()
    return (
        ends.join(bodies, "signature_id")
        .unionByName(celled, allowMissingColumns=True)
        .repartition("cell")
        # One number to sort by, which Spark does without comparing rows: bodies come first.
        .sortWithinPartitions(2 * sf.col("cell") + sf.isnull("signature_id").cast("int"))
        .mapInArrow(
            mapped(_compared_batches, recipe, method, by.level, by.read),
            "left binary, right binary, similarity double, method string",
        )
    )


def _celled(candidates: DataFrame, documents: DataFrame, n: int | None) -> DataFrame:
    """Add ``cell``, the number of the cell in which a pair is compared."""
    length = documents.agg(sf.coalesce(sf.avg("n_chars"), sf.lit(0.0)).alias("length"))
    if n is None:
        size = candidates.agg(sf.count("*").alias("n")).crossJoin(length)
    else:
        size = length.select(sf.lit(n).alias("n"), "length")
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
    """What lies in one cell: signatures, and pairs of them."""

    ids: list[Ids]
    rows: list[NDArray[np.uint16]]
    bodies: list[pa.Array]
    lefts: list[Ids]
    rights: list[Ids]


def _compared_batches(
    recipe: Recipe, method: str, level: float, read: Read, batches: Iterable[pa.RecordBatch]
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
                yield from _compared(family, method, level, read, cell)
                cell = _Cell([], [], [], [], [])
            now = int(cells[begin])
            if not kinds[begin]:
                cell.ids.append(ids_of(some.column("signature_id")).copy())
                if "signature" in some.schema.names:
                    cell.rows.append(rows_of(some.column("signature"), recipe.params).copy())
                if method == "exact":
                    cell.bodies.append(some.column("body"))
            else:
                cell.lefts.append(ids_of(some.column("left")).copy())
                cell.rights.append(ids_of(some.column("right")).copy())
            begin = end
    if now is not None:
        yield from _compared(family, method, level, read, cell)


def _compared(
    family: Family, method: str, level: float, read: Read, cell: _Cell
) -> Iterator[pa.RecordBatch]:
    """Yield the verified pairs of a cell."""
    if not cell.lefts:
        return
    ids = np.concatenate(cell.ids)
    held: _Sets | _Bodies
    if method == "exact" and isinstance(family, SetFamily):
        held = _Sets.of(family, cell.bodies, read)
    else:
        held = _Bodies(family, np.concatenate(cell.rows), cell.bodies, read)
    number = {one: place for place, one in enumerate(ids.tolist())}
    left, right = (
        np.array([number[one] for one in np.concatenate(column).tolist()], dtype=np.int64)
        for column in (cell.lefts, cell.rights)
    )
    _, once = np.unique(left * len(ids) + right, return_index=True)
    left, right = left[once], right[once]
    params = family.params
    agreement = compare_rows(held.rows, left, held.rows, right, **params.cut)
    levels, suffices = estimate(agreement, params, method=method, threshold=level)
    left, right, levels = left[suffices], right[suffices], levels[suffices]
    if method == "exact" and len(left):
        levels = held.levels(left, right)
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


@dataclass(frozen=True, slots=True)
class _Sets:
    """Bodies that are sets, shingled in parts, and signed from their shingles.

    Attributes
    ----------
    parts : list of ndarray of uint64
    places : ndarray of int64, shape (n, 3)
        As :func:`lshdb.signatures.sets.compare_sets` takes them.
    rows : ndarray of uint16, shape (n, row_words)
    """

    parts: list[NDArray[np.uint64]]
    places: NDArray[np.int64]
    rows: NDArray[np.uint16]

    @classmethod
    def of(cls, family: SetFamily, bodies: list[pa.Array], read: Read) -> _Sets:
        """Shingle and sign each body once."""
        parts: list[NDArray[np.uint64]] = []
        places, rows = [], []
        for column in bodies:
            for start in range(0, len(column), _TEXTS):
                contents = family.contents(read(column.slice(start, _TEXTS)))
                hashes, counts = family.sets(contents)
                number = np.full(len(counts), len(parts))
                places.append(np.column_stack([number, np.cumsum(counts) - counts, counts]))
                rows.append(family.sign_sets(hashes, counts))
                parts.append(hashes)
        return cls(parts, np.concatenate(places), np.concatenate(rows))

    def levels(self, left: NDArray[np.int64], right: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the exact levels of pairs."""
        return compare_sets(self.parts, self.places, left, right)


@dataclass(frozen=True, slots=True)
class _Bodies:
    """Other bodies, with the signatures that came along; none if nothing is compared exactly."""

    family: Family
    rows: NDArray[np.uint16]
    bodies: list[pa.Array]
    read: Read

    def levels(self, left: NDArray[np.int64], right: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the exact levels of pairs; each body is read once."""
        ends = np.cumsum([len(part) for part in self.bodies])
        needed = np.unique(np.concatenate([left, right]))
        points: dict[int, Any] = {}
        for column, end in zip(self.bodies, ends.tolist(), strict=True):
            inside = needed[(needed >= end - len(column)) & (needed < end)]
            for start in range(0, len(inside), _TEXTS):
                some = inside[start : start + _TEXTS]
                values = self.read(column.take(pa.array(some - (end - len(column)))))
                found = self.family.points(self.family.contents(values))
                points.update(zip(some.tolist(), found, strict=True))
        return self.family.levels(
            [points[one] for one in left.tolist()], [points[one] for one in right.tolist()]
        )
