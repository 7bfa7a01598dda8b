"""Candidate pairs -> verified pairs: bring the texts of candidates together and compare them.

Pairs and bodies meet in cells. The pairs of small buckets have a home (``pairing.py``), by which
the pairs of a family come to one cell, and a body nearly always goes to one or two. Other pairs may
be those of thousands of bodies. So a signature is in one of G groups, by its hash, and a pair
without a home goes to the cell of its two groups, of which there are G (G + 1) / 2; a body goes to
G cells at most. The number of cells follows from that of pairs and the length of bodies, so that a
cell has some four thousand pairs and some megabytes.

In a cell, pairs are compared as on one machine: by signature first, and if the estimate suffices,
by their texts, each shingled once. Signing shingles again takes a microsecond, and a signature is
as long as a short text, so signatures of texts do not travel with them.
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

from lshdb.errors import DamageError
from lshdb.search.verification import estimate
from lshdb.signatures.banding import compare_rows
from lshdb.signatures.family import Family
from lshdb.signatures.sets import SetFamily, compare_sets
from lshdb.spark.pairing import Ids, ends_of, ids_of, order_of, rows_of, rows_of_ids, short_id
from lshdb.spark.signing import Recipe, binaries, bodies_of, gathered, mapped

__all__ = ["Comparison", "verified"]

CELL_PAIRS = 4_096
CELL_CHARACTERS = 8 * 2**20
"""Pairs of a cell on average, and characters if no two pairs shared a text."""
FEW = 2**18
"""The ends of so many pairs go to all executors, in 40 MB, so that bodies move only to cells."""
_KNOWN = 2**20
"""Bodies of a task among which copies are left out."""
_TEXTS = 512
"""Texts to shingle together."""

Read = Callable[[pa.Array], list[Any]]
"""An Arrow column of bodies -> the bodies."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """How to compare pairs of signatures, and by which rows.

    Attributes
    ----------
    rows : DataFrame
        ``signature_id``, ``signature``, ``n_chars`` and, for method ``exact``, ``body``. Of several
        rows of one signature, any counts. Read several times.
    recipe : Recipe
        How rows are signed.
    method : {"none", "signature", "exact"}
        How pairs are verified.
    level : float
        The threshold as a level.
    read : Read
        Reads bodies.
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
        ``left`` and ``right``, ids that may be short, and ``home`` if it is known; a repeated pair
        is compared once. Read several times.
    by : Comparison
        How to compare them. Method ``none`` ignores its level.
    n : int, optional
        The number of candidates; by default, they are counted.

    Returns
    -------
    DataFrame
        ``left``, ``right`` (whole ids), ``similarity`` (double; for a distance, minus the
        distance), ``method``.

    Raises
    ------
    DamageError
        In a task: rows that were paired are missing from those to compare.
    """
    method, recipe = by.method, by.recipe
    shorts = (short_id(end).alias(end) for end in ("left", "right"))
    home = "home" if "home" in candidates.columns else sf.lit(None).cast("bigint").alias("home")
    pairs = _with_cells(candidates.select(*shorts, home), by.rows, n)
    names = ["signature_id", "body" if method == "exact" else "signature"]
    if method == "exact" and not isinstance(recipe.family(), SetFamily):
        names.append("signature")
    rows = by.rows.select(*names)
    ends = ends_of(pairs, "cell").withColumnRenamed("signature_id", "short")
    if n is not None and n <= FEW:
        rows = rows.withColumn("short", short_id("signature_id"))
        bodies = rows.join(sf.broadcast(ends.distinct()), "short").drop("short")
        bodies = bodies.mapInArrow(mapped(_once_batches), bodies.schema)
    else:
        rows = rows_of_ids(rows, ends_of(candidates), n=None if n is None else 2 * n)
        # Ends are partitioned like their bodies; only the joined rows and the pairs go to cells.
        bodies = ends.repartition("short").distinct().join(rows, "short").drop("short")
    rows = bodies.unionByName(pairs, allowMissingColumns=True)
    # Spark sorts by one number without comparing rows; in a cell, bodies come before pairs.
    order = 2 * sf.col("cell") + sf.isnull("signature_id").cast("int")
    return gathered(rows, "cell", order=[order]).mapInArrow(
        mapped(_compared_batches, recipe, method, by.level, by.read),
        "left binary, right binary, similarity double, method string",
    )


def _with_cells(candidates: DataFrame, documents: DataFrame, n: int | None) -> DataFrame:
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
    size = size.select(
        sf.ceil(n_cells).alias("homes"), sf.ceil(sf.sqrt(2 * n_cells)).alias("groups")
    )
    left, right = (sf.pmod(sf.xxhash64(end), sf.col("groups")) for end in ("left", "right"))
    of_groups = sf.least(left, right) * sf.col("groups") + sf.greatest(left, right)
    of_home = sf.pmod(sf.xxhash64("home"), sf.col("homes"))
    cell = sf.when(sf.isnull("home"), sf.col("homes") + of_groups).otherwise(of_home)
    pairs = candidates.crossJoin(sf.broadcast(size))
    return pairs.select("left", "right", cell.alias("cell"))


@dataclass(slots=True)
class _Cell:
    """The signatures of one cell, and its pairs."""

    known: set[Any]
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
    cell = _Cell(set(), [], [], [], [], [])
    for batch in batches:
        if not batch.num_rows:
            continue
        cells = batch.column("cell").to_numpy()
        kinds = batch.column("signature_id").is_null().to_numpy(zero_copy_only=False)
        changes = (np.diff(cells) != 0) | (kinds[1:] != kinds[:-1])
        ends = [*(np.flatnonzero(changes) + 1).tolist(), batch.num_rows]
        begin = 0
        for end in ends:
            part = batch.slice(begin, end - begin)
            if now is not None and cells[begin] != now:
                yield from _compared(family, method, level, read, cell)
                cell = _Cell(set(), [], [], [], [], [])
            now = int(cells[begin])
            if not kinds[begin]:
                part = _fresh(part, cell.known)
                cell.ids.append(ids_of(part.column("signature_id")).copy())
                if "signature" in part.schema.names:
                    cell.rows.append(rows_of(part.column("signature"), recipe.params).copy())
                if method == "exact":
                    cell.bodies.append(part.column("body"))
            else:
                cell.lefts.append(ids_of(part.column("left")).copy())
                cell.rights.append(ids_of(part.column("right")).copy())
            begin = end
    if now is not None:
        yield from _compared(family, method, level, read, cell)


def _once_batches(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Leave out copies of bodies that go to the same cells."""
    known: set[Any] = set()
    for batch in batches:
        yield _fresh(batch, known)
        if len(known) > _KNOWN:
            known.clear()


def _fresh(bodies: pa.RecordBatch, known: set[Any]) -> pa.RecordBatch:
    """Return the bodies that are not known in their cells, and know them from now on."""
    rows = zip(*(bodies.column(name).to_pylist() for name in ("signature_id", "cell")), strict=True)
    places = {row: place for place, row in enumerate(rows) if row not in known}
    known.update(places)
    return (
        bodies
        if len(places) == len(bodies)
        else bodies.take(pa.array(list(places.values()), pa.int64()))
    )


def _compared(
    family: Family, method: str, level: float, read: Read, cell: _Cell
) -> Iterator[pa.RecordBatch]:
    """Yield the verified pairs of a cell."""
    if not cell.lefts:
        return
    ids = np.concatenate(cell.ids)
    bodies: _ShingledBodies | _Bodies
    if method == "exact" and isinstance(family, SetFamily):
        bodies = _ShingledBodies.of(family, cell.bodies, read)
    else:
        bodies = _Bodies(family, np.concatenate(cell.rows), cell.bodies, read)
    left, right, is_sure = _signature_pairs(
        ids, np.concatenate(cell.lefts), np.concatenate(cell.rights)
    )
    params = family.params
    agreement = compare_rows(bodies.rows, left, bodies.rows, right, **params.cut)
    levels, suffices = estimate(agreement, params, method=method, threshold=level)
    suffices &= is_sure | (agreement.matched > 0)
    left, right, levels = left[suffices], right[suffices], levels[suffices]
    if method == "exact" and len(left):
        levels = bodies.levels(left, right)
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


def _signature_pairs(
    ids: Ids, lefts: Ids, rights: Ids
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.bool_]]:
    """Return the places of the pairs of signatures that have pairs of short ids, each once.

    Also return whether no other signature has one of the short ids. If there is another, the pair
    was perhaps no candidate.
    """
    order = order_of(ids)
    shorts = ids[order].view(">u8")[::2].astype(np.uint64)
    ends = np.column_stack([end.view(">u8")[::2].astype(np.uint64) for end in (lefts, rights)])
    ends = np.unique(ends, axis=0)
    starts = np.searchsorted(shorts, ends)
    counts = np.searchsorted(shorts, ends, side="right") - starts
    n = counts.prod(axis=1)
    if not n.all():
        raise DamageError(
            f"{(n == 0).sum()} pairs have a signature that is missing from the rows to compare: "
            "the data frame gave other rows when Spark computed it again",
            hint="store the data frame, and ask about what is stored",
        )
    pair = np.repeat(np.arange(len(ends)), n)
    turn = np.arange(len(pair)) - np.repeat(np.cumsum(n) - n, n)
    left = starts[pair, 0] + turn // counts[pair, 1]
    right = starts[pair, 1] + turn % counts[pair, 1]
    fresh = (starts[pair, 0] != starts[pair, 1]) | (left < right)
    is_sure = np.repeat(n == 1, n)
    return order[left[fresh]], order[right[fresh]], is_sure[fresh]


@dataclass(frozen=True, slots=True)
class _ShingledBodies:
    """The shingles of bodies, in parts, and signatures made from them.

    Attributes
    ----------
    parts : list of ndarray of uint64
        Hashes of shingles.
    places : ndarray of int64, shape (n, 3)
        Where the shingles of each body are, as :func:`lshdb.signatures.sets.compare_sets` takes it.
    rows : ndarray, shape (n, row_words)
        Signature rows.
    """

    parts: list[NDArray[np.uint64]]
    places: NDArray[np.int64]
    rows: NDArray[np.uint16]

    @classmethod
    def of(cls, family: SetFamily, bodies: list[pa.Array], read: Read) -> _ShingledBodies:
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
    """Other bodies and their signatures; no bodies unless pairs are verified exactly."""

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
                places = inside[start : start + _TEXTS]
                values = self.read(column.take(pa.array(places - (end - len(column)))))
                contents = self.family.contents(values)
                points.update(zip(places.tolist(), self.family.points(contents), strict=True))
        return self.family.levels(*([points[at] for at in end.tolist()] for end in (left, right)))
