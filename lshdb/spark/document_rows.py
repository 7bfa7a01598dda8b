"""Signed rows -> documents: if a key comes twice, its first row is the document.

The sort of postings finds the keys that come twice (``pairing.py``). So only rows of these keys,
few or none, are brought together by key, and bodies are not moved.
"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as sf
from pyspark.sql.window import Window

from lshdb.ingest.add import REPEATED
from lshdb.spark.hash_filter import rows_among, rows_not_among
from lshdb.spark.pairing import SharedBuckets, key_bucket, near_rows

__all__ = ["documents", "rejections"]

_COLUMNS = ["key", "place", "value", "n_chars", "signature_id"]


def documents(
    signed: DataFrame, shared: SharedBuckets, *, of: DataFrame | None = None
) -> DataFrame:
    """Return (key, place, value, n_chars, signature_id) of the rows that are documents.

    If a key comes twice, its document is the row with the smallest ``place``; of equals, the one
    with the smallest content.

    Parameters
    ----------
    signed : DataFrame
        As :func:`lshdb.spark.signing.signed` returns it; read twice.
    shared : SharedBuckets
        The shared buckets of these rows and of their keys.
    of : DataFrame, optional
        The first column has ids of signatures, whole or short: return only their documents, and a
        few others.
    """
    good = signed.where("reason IS NULL").select(*_COLUMNS)
    if not shared.counts.repeated:
        return good if of is None else near_rows(good, of).select(*_COLUMNS)
    good = good.withColumn("_key", key_bucket("key"))
    rows = good if of is None else near_rows(good, of)
    again = shared.repeated_keys()
    once = rows_not_among(rows, "_key", again).select(*_COLUMNS)
    numbered = _numbered(rows_among(good, "_key", again).select(*_COLUMNS))
    return once.unionByName(numbered.where("number = 1").drop("number"))


def rejections(signed: DataFrame, *, may_repeat_keys: bool = True) -> DataFrame:
    """Return (key, reason) of the rows that are no documents."""
    refused = signed.where("reason IS NOT NULL").select("key", "reason")
    if not may_repeat_keys:
        return refused
    name = sf.concat(sf.lit("the key '"), sf.substring("key", 1, 100), sf.lit("' "))
    reason = sf.concat(name, sf.lit(REPEATED)).alias("reason")
    numbered = _numbered(signed.where("reason IS NULL").select(*_COLUMNS))
    return refused.unionAll(numbered.where("number > 1").select("key", reason))


def _numbered(rows: DataFrame) -> DataFrame:
    """Add ``number``: 1 for the first row of a key, 2 for the next."""
    content = sf.coalesce(sf.col("signature_id"), sf.lit(b""))
    turns = Window.partitionBy("key").orderBy(sf.col("place").asc_nulls_last(), content, "n_chars")
    return rows.withColumn("number", sf.row_number().over(turns))
