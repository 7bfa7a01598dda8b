"""Signed rows -> documents: of a key that comes twice, the first row is the document.

Which keys come twice is found where postings are sorted (``pairing.py``). So only their rows are
brought together by key, which are few or none, and bodies are not moved.
"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as sf
from pyspark.sql.window import Window

from lshdb.ingest.add import REPEATED
from lshdb.spark.hash_filter import rows_among, rows_not_among
from lshdb.spark.pairing import SharedBuckets, key_bucket

__all__ = ["documents", "rejections"]

_KNOWN = ["key", "place", "value", "n_chars", "signature_id"]


def documents(
    signed: DataFrame, shared: SharedBuckets, *, of: DataFrame | None = None
) -> DataFrame:
    """Return (key, place, value, n_chars, signature_id) of the rows that are documents.

    Of a key that comes twice, that is the first row: the one with the smallest ``place``; of
    equals, that with the smallest content.

    Parameters
    ----------
    signed : DataFrame
        As :func:`lshdb.spark.signing.signed` returns it; read twice.
    shared : SharedBuckets
        Of the same rows, with their keys.
    of : DataFrame, optional
        Its first column has ids of signatures: their documents, and few others.
    """
    good = signed.where("reason IS NULL").select(*_KNOWN)
    if not shared.may_repeat_keys:
        return good if of is None else rows_among(good, "signature_id", of)
    good = good.withColumn("_key", key_bucket("key"))
    rows = good if of is None else rows_among(good, "signature_id", of)
    again = shared.repeated_keys()
    once = rows_not_among(rows, "_key", again).select(*_KNOWN)
    turns = _in_turn(rows_among(good, "_key", again).select(*_KNOWN))
    return once.unionByName(turns.where("number = 1").drop("number"))


def rejections(signed: DataFrame, *, may_repeat_keys: bool = True) -> DataFrame:
    """Return (key, reason) of the rows that are no documents."""
    refused = signed.where("reason IS NOT NULL").select("key", "reason")
    if not may_repeat_keys:
        return refused
    name = sf.concat(sf.lit("the key '"), sf.substring("key", 1, 100), sf.lit("' "))
    repeated = _in_turn(signed.where("reason IS NULL").select(*_KNOWN)).where("number > 1").select(
        "key", sf.concat(name, sf.lit(REPEATED)).alias("reason")
    )  # fmt: skip
    return refused.unionAll(repeated)


def _in_turn(rows: DataFrame) -> DataFrame:
    """Add ``number``: 1 for the first row of a key, 2 for the next."""
    content = sf.coalesce(sf.col("signature_id"), sf.lit(b""))
    turns = Window.partitionBy("key").orderBy(sf.col("place").asc_nulls_last(), content, "n_chars")
    return rows.withColumn("number", sf.row_number().over(turns))
