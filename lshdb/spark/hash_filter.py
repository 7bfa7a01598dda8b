"""Filter rows by the hashes of some values, without moving the rows.

A join would move all rows to see which of them have one of the values. Here a bit map of the
values' hashes goes to the rows. It has 16 to 32 bits for each value, so some 5 % of the other rows
pass as well; but 2^25 at least, and 2^31 at most, where 1e8 values let pass 5 % and 1e9 a third. A
row of the map holds ``CHUNK`` bits that are not all 0, in some 200 bytes: the longest map takes 450
MB of an executor, and a map of 1e6 values 6 MB.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf

__all__ = ["rows_among", "rows_not_among"]

CHUNK = 1024
FEWEST_BITS = 2**25
MOST_BITS = 2**31
_BITS_OF_VALUE = 16


def rows_among(rows: DataFrame, of: str, values: DataFrame, *, n: int | None = None) -> DataFrame:
    """Return the rows that have one of the values, and a few others of equal hashes.

    Parameters
    ----------
    rows : DataFrame
        The rows to filter.
    of : str
        The column to look at; rows where it is null are left out.
    values : DataFrame
        The first column has the values.
    n : int, optional
        The number of values, or a few more; by default, they are counted.
    """
    return _chosen(rows, of, values, n, "left_semi")


def rows_not_among(
    rows: DataFrame, of: str, values: DataFrame, *, n: int | None = None
) -> DataFrame:
    """Return the rows that :func:`rows_among` filters out, except those where ``of`` is null."""
    return _chosen(rows, of, values, n, "left_anti")


def _chosen(rows: DataFrame, of: str, values: DataFrame, n: int | None, how: str) -> DataFrame:
    """Join rows with the bit map; a condition of the join does not copy the map to the rows."""
    n_bits = _n_bits(values, n)
    bit, word = _bit(values.columns[0], n_bits).alias("_bit"), f"int(shiftright(_bit, 6) & {_LAST})"
    bits = "shiftleft(1L, int(_bit & 63))"
    words = [f"bit_or(if({word} = {place}, {bits}, 0L))" for place in range(_LAST + 1)]
    chunk = sf.expr(f"shiftright(_bit, {_SHIFT})").alias("_chunk")
    by_chunk = values.select(bit).groupBy(chunk)
    chunks = by_chunk.agg(sf.expr(f"array({', '.join(words)})").alias("_words"))
    hashed = rows.where(sf.col(of).isNotNull()).withColumn("_bit", _bit(of, n_bits))
    is_set = f"getbit(_words[{word}], int(_bit & 63)) = 1"
    is_among = sf.expr(f"shiftright(_bit, {_SHIFT}) = _chunk AND {is_set}")
    return hashed.join(sf.broadcast(chunks), is_among, how).select(*rows.columns)


_SHIFT = CHUNK.bit_length() - 1
_LAST = CHUNK // 64 - 1


def _n_bits(values: DataFrame, n: int | None) -> Column:
    """Return how many bits the map has, a power of two."""
    if n is not None:
        bits = 2 ** (max(1, n * _BITS_OF_VALUE) - 1).bit_length()
        return sf.lit(max(FEWEST_BITS, min(MOST_BITS, bits))).cast("bigint")
    n_bits = sf.pow(sf.lit(2.0), sf.ceil(sf.log2(sf.count("*") * _BITS_OF_VALUE)))
    bounded = sf.greatest(sf.lit(FEWEST_BITS), sf.least(sf.lit(MOST_BITS), n_bits.cast("bigint")))
    return values.agg(bounded.cast("bigint").alias("n_bits")).scalar()


def _bit(name: str, n_bits: Column) -> Column:
    return sf.pmod(sf.xxhash64(name), n_bits)
