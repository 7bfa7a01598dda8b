"""Rows of a data frame -> one batch of a dataset: the steps of ``ingest/pipeline.py``.

    stage      the signed rows, so that nothing is signed twice, and every step sees the same rows
    classify   by key, against the documents of the dataset: added, replaced, unchanged
    number     documents and new contents, in the order of their age, for any partitions
    write      documents, signatures, postings, released signatures, rejected rows; one commit

A number is the offset of its partition plus the place in the partition. The driver sees only counts
and the paths of files. The postings of new signatures are a segment of their own, or go with those
of earlier adds into one, by the rule of order files (``storage/orders/freezing.py``).
"""

from __future__ import annotations

import time
import unicodedata
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf
from pyspark.sql.window import Window

from lshdb.dataset.commits import Change, Dataset
from lshdb.ingest.add import has_order, has_same_tokens
from lshdb.ingest.add_result import AddResult
from lshdb.params.index_params import IndexParams
from lshdb.spark.dataset_frames import Frames
from lshdb.spark.document_rows import rejections
from lshdb.spark.expansion import age
from lshdb.spark.hash_filter import rows_among
from lshdb.spark.signing import Recipe, mapped
from lshdb.spark.stored_bodies import hashed, stored_bodies, stored_body
from lshdb.storage.orders.freezing import due
from lshdb.storage.tables.records import timestamp

__all__ = ["NextBatch", "add_signed", "next_batch", "release"]

MANY = 2**20
"""Of more documents, only those that share a hash with the night's are moved to be compared."""
_BODIES = ("text", "tokens", "weights")
_POSTING = ("bucket_key", "signature_id")


@dataclass(frozen=True, slots=True)
class NextBatch:
    """The batch of a change: its number, and the time at which it began."""

    batch_id: int
    started_at: str

    def row(self, source: str, counts: Mapping[str, int]) -> dict[str, Any]:
        """Return the row of the table ``batches``."""
        names = ("n_added", "n_replaced", "n_unchanged", "n_copies", "n_rejected", "n_removed")
        return {
            "batch_id": self.batch_id, "add_id": self.batch_id, "started_at": self.started_at,
            "finished_at": max(self.started_at, timestamp()), "source": source,
            **{name: counts.get(name, 0) for name in names},
            "unicode_version": unicodedata.unidata_version,
        }  # fmt: skip


def next_batch(dataset: Dataset) -> NextBatch:
    """Return the batch after the last one."""
    rows = dataset.table("batches").to_pyarrow_table(columns=["batch_id"])
    return NextBatch(max(rows["batch_id"].to_pylist(), default=0) + 1, timestamp())


def add_signed(
    frames: Frames, recipe: Recipe, signed: DataFrame, *, source: str, night: str, run: str
) -> tuple[AddResult, Dataset]:
    """Commit signed rows as one batch; return the result and the new state.

    Parameters
    ----------
    frames : Frames
        The tables of the newest state.
    recipe : Recipe
        How the rows were signed.
    signed : DataFrame
        As :func:`lshdb.spark.signing.signed` returns it.
    source, night : str
        Recorded with the batch.
    run : str
        The name under which rows are staged.

    Raises
    ------
    LockedError
        Another writer has committed meanwhile; nothing has changed.
    """
    start = time.perf_counter()
    batch = next_batch(frames.dataset)
    numbered = hashed(signed, recipe).withColumn("row_id", sf.monotonically_increasing_id())
    every = frames.staged(numbered, run)
    classified = frames.staged(_classified(frames, every, recipe.params), run)
    states = classified.groupBy("state").count().collect()
    counts = {f"n_{row['state']}": row["count"] for row in states}
    counts["n_rejected"] = every.count() - sum(counts.values())
    changed = frames.staged(_resolved(frames, classified.where("state <> 'unchanged'")), run)
    n_new, n_released, n_short = _count(changed, counts)
    is_text = recipe.params.kind.body == "text"
    change = Change(frames.dataset)
    documents = _documents(every, changed, batch, recipe.params)
    if counts.get("n_replaced"):
        replaced = changed.where("state = 'replaced'").select("doc_id")
        frames.replace(change, "documents", replaced, documents)
        frames.replace(change, "fields", replaced)
    else:
        change.new["documents"] = frames.write("documents", documents)
    new = every.select("row_id", "signature", "buckets", "body").join(
        changed.where("is_new").select("row_id", "number", "content_hash"), "row_id"
    )
    if n_new:
        change.new["signatures"] = frames.write("signatures", _rows(new, recipe.params))
        _add_segment(frames, change, _postings(new), n_new * recipe.params.bands)
    if n_released:
        release(frames, change, changed.where("released IS NOT NULL"), batch)
    if counts["n_rejected"]:
        rejected = rejections(every).withColumns(
            {"batch_id": sf.lit(batch.batch_id).cast("bigint"), "source": sf.lit(source)}
        )
        change.new["rejected"] = frames.write("rejected", rejected)
    change.new["batches"] = frames.write_row("batches", batch.row(source, counts))
    if night:
        row = {"add_id": batch.batch_id, "name": night}
        change.new["nights"] = frames.write_row("nights", row)
    index = dict(frames.dataset.commit.index)
    index["next_doc_id"] += counts.get("n_added", 0)
    dataset = change.commit("add", index=index)
    names = ("added", "replaced", "unchanged", "copies", "rejected")
    result = AddResult(**{name: counts.get(f"n_{name}", 0) for name in names})
    result.short = n_short if is_text else 0
    result.batches.append(batch.batch_id)
    result.seconds = time.perf_counter() - start
    return result, dataset


def _classified(frames: Frames, every: DataFrame, params: IndexParams) -> DataFrame:
    """Return the documents, the oldest first, with their state and what the dataset has of them.

    If a key comes twice, the first row counts, as in ``document_rows.py``.
    """
    names = ("row_id", "key", "place", "n_shingles", "body_hash", "content_hash")
    content = sf.coalesce(sf.col("signature_id"), sf.lit(b""))
    turns = Window.partitionBy("key").orderBy(
        sf.col("place").asc_nulls_last(), content, "n_chars", "row_id"
    )
    rows = every.where("reason IS NULL").withColumn("turn", sf.row_number().over(turns))
    turned = rows.where("turn = 1")
    first, stored = turned.select(*names), frames.read("documents")
    old = stored.select(
        "key", "doc_id", "added_at", sf.col("signature_id").alias("old_signature"),
        sf.col("body_hash").alias("old_body"), sf.col("content_hash").alias("old_content"),
    )  # fmt: skip
    contents = stored.where("signature_id IS NOT NULL").select(
        "content_hash", sf.col("signature_id").alias("stored_signature")
    )
    if frames.dataset.commit.counts["documents"] >= MANY:
        old, contents = (
            rows_among(known, name, rows.select(name))
            for known, name in ((old, "key"), (contents, "content_hash"))
        )
    documents = first.join(old, "key", "left")
    is_same = sf.col("old_body") == sf.col("body_hash")
    if not has_order(params):
        same = _same_tokens(turned, stored, params).withColumn("has_same", sf.lit(True))
        documents = documents.join(same, "row_id", "left")
        is_same |= sf.col("has_same")
    state = (
        sf.when(sf.col("doc_id").isNull(), "added").when(is_same, "unchanged").otherwise("replaced")
    )
    documents = documents.withColumn("state", state)
    documents = documents.join(contents.distinct(), "content_hash", "left").orderBy(age())
    return documents.withColumns(
        {"part": sf.spark_partition_id(), "at": sf.monotonically_increasing_id()}
    )


def _same_tokens(rows: DataFrame, stored: DataFrame, params: IndexParams) -> DataFrame:
    """Return (row_id) of the rows that have the tokens of the stored document in another order."""
    tokens = stored.where("tokens IS NOT NULL")
    old = tokens.select("key", stored_body(stored.columns).alias("before"))
    new = rows.where("body.tokens IS NOT NULL").select("key", "row_id", "body")
    pairs = new.join(old, "key").where("before.hash <> body.hash")
    return pairs.mapInArrow(mapped(_same_batches, params), "row_id bigint")


def _same_batches(
    params: IndexParams, batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        columns = (stored_bodies(params, batch.column(name)) for name in ("body", "before"))
        same = [_are_same(body, before) for body, before in zip(*columns, strict=True)]
        yield batch.select(["row_id"]).filter(pa.array(same, pa.bool_()))


def _are_same(body: Any, before: Any) -> bool:
    return has_same_tokens(body, lambda: before)


def _number(rows: DataFrame, first: int, name: str) -> DataFrame:
    """Return (row_id, number) of rows, without gaps, in the order of ``part`` and ``at``."""
    sizes = {row["part"]: row["count"] for row in rows.groupBy("part").count().collect()}
    starts = []
    for part, size in sorted(sizes.items()):
        starts.append((part, first))
        first += size
    offsets = rows.sparkSession.createDataFrame(starts, "part int, start bigint")
    turn = sf.row_number().over(Window.partitionBy("part").orderBy("at"))
    placed = rows.select("row_id", "part", (turn - 1).alias("turn"))
    number = (sf.col("start") + sf.col("turn")).alias(name)
    return placed.join(sf.broadcast(offsets), "part").select("row_id", number)


def _resolved(frames: Frames, changed: DataFrame) -> DataFrame:
    """Give numbers to new documents and new contents."""
    turn = sf.row_number().over(Window.partitionBy("content_hash").orderBy("part", "at"))
    fresh = changed.where("n_shingles > 0 AND stored_signature IS NULL")
    fresh = fresh.withColumn("turn", turn).where("turn = 1")
    n_signatures = frames.dataset.commit.counts["signatures"]
    numbers = fresh.select("row_id", "content_hash").join(
        _number(fresh, n_signatures, "number"), "row_id"
    )
    next_doc_id = frames.dataset.commit.index["next_doc_id"]
    added = _number(changed.where("state = 'added'"), next_doc_id, "new_doc_id")
    documents = (
        changed.join(added, "row_id", "left")
        .join(numbers.select("row_id", sf.lit(True).alias("is_first")), "row_id", "left")
        .join(numbers.select("content_hash", "number"), "content_hash", "left")
    )
    documents = documents.withColumns(
        {
            "doc_id": sf.coalesce("doc_id", "new_doc_id"),
            "signature_id": sf.coalesce("stored_signature", "number"),
            "is_new": sf.coalesce("is_first", sf.lit(False)),
        }
    )
    left = sf.col("old_signature").isNotNull() & ~sf.col("old_signature").eqNullSafe(
        sf.col("signature_id")
    )
    documents = documents.withColumn("released", sf.when(left, sf.col("old_signature")))
    return documents.drop("new_doc_id", "is_first", "place", "body_hash")


def _count(changed: DataFrame, counts: dict[str, int]) -> tuple[int, int, int]:
    """Set ``n_copies``, the documents that share the signature of an identical content.

    Return the number of new signatures, of documents that left a signature, and of those with at
    most one shingle.
    """
    is_same = sf.col("old_content") == sf.col("content_hash")
    same = is_same & sf.col("stored_signature").isNotNull()
    (row,) = changed.agg(
        sf.count("signature_id").alias("signed"),
        sf.count_if(sf.col("is_new")).alias("new"),
        sf.count_if(same).alias("same"),
        sf.count("released").alias("released"),
        sf.count_if(sf.col("n_shingles") <= 1).alias("short"),
    ).collect()
    counts["n_copies"] = row["signed"] - row["new"] - row["same"]
    return row["new"], row["released"], row["short"]


def _documents(
    every: DataFrame, changed: DataFrame, batch: NextBatch, params: IndexParams
) -> DataFrame:
    """Return the rows of documents that are new or have another body."""
    n_unassigned = sf.lit(0 if params.kind.is_dense else None)  # not counted for texts
    rows = changed.select("row_id", "key", "doc_id", "signature_id", "added_at", "content_hash")
    bodies = every.select("row_id", "body", "body_hash", "n_shingles", "n_chars")
    documents = bodies.join(rows, "row_id").withColumns(
        {
            "source": sf.lit(""),  # a row has no place in a file
            "batch_id": sf.lit(batch.batch_id).cast("bigint"),
            "added_at": sf.coalesce("added_at", sf.lit(batch.started_at)),
            "last_seen_at": sf.lit(batch.started_at),
            "n_unassigned": n_unassigned.cast("bigint"),
            **{name: _kept(name, is_kept=params.keeps_texts) for name in _BODIES},
        }
    )
    return documents.repartitionByRange("doc_id").sortWithinPartitions("doc_id")


def _kept(name: str, *, is_kept: bool) -> Column:
    """Return a field of bodies, or null if the index does not keep it."""
    field = sf.col(f"body.{name}")
    return field if is_kept else sf.when(sf.lit(False), field)


def _rows(new: DataFrame, params: IndexParams) -> DataFrame:
    """Return rows of the table ``signatures``, in files that do not overlap."""
    rows = new.select(
        sf.col("number").alias("signature_id"), sf.col("signature").alias("row"),
        _kept("vector", is_kept=params.keeps_vectors).alias("vector"),
    )  # fmt: skip
    return rows.repartitionByRange("signature_id").sortWithinPartitions("signature_id")


def _postings(new: DataFrame) -> DataFrame:
    """Return the postings of new signatures."""
    return new.select(
        sf.explode("buckets").alias("bucket_key"), sf.col("number").alias("signature_id")
    )


def _add_segment(frames: Frames, change: Change, postings: DataFrame, n: int) -> None:
    """Write new postings as a segment, together with those of earlier segments that are due."""
    segments = frames.dataset.segments()
    sizes = [sum(stored.file.n_rows for stored in files) for files in segments.values()]
    n_due = due(sizes, n, of_add=len(sizes), goes_on=True)
    numbers = [*segments, frames.dataset.commit.counts["signatures"]]
    merged = numbers[len(sizes) - n_due :]
    files = [stored for number in merged[:-1] for stored in segments[number]]
    if files:
        postings = postings.unionByName(frames.read_files("postings", files).select(*_POSTING))
        change.gone["postings"] = {stored.file.path for stored in files}
        n += sum(sizes[len(sizes) - n_due :])
    change.new["postings"] = frames.write_postings(postings, segment=merged[0], n=n)


def release(frames: Frames, change: Change, left: DataFrame, batch: NextBatch) -> None:
    """Record the signatures that documents have left.

    Parameters
    ----------
    frames : Frames
        The tables.
    change : Change
        Gets the new rows of the table ``releases``.
    left : DataFrame
        ``row_id``, ``part``, ``at``, and the signature as ``released``.
    batch : NextBatch
        The batch of the change.
    """
    files = frames.dataset.files("releases")
    last = max((stored.file.highs["release_id"] for stored in files), default=0)
    rows = left.join(_number(left, last + 1, "release_id"), "row_id").select(
        "release_id", sf.col("released").alias("signature_id"),
        sf.lit(batch.batch_id).cast("bigint").alias("batch_id"),
    )  # fmt: skip
    change.new["releases"] = frames.write("releases", rows)
