"""The table ``band``: one row for each signature, one column for each of its buckets.

    band   (signature_id PRIMARY KEY, b0, b1, ... b{B-1})    a bucket: 32 bits, with a sign

SQL has no unsigned numbers, so a bucket from 2^31 on is stored less 2^32. Arrays have bucket keys
(``params/bucket_layout.py``).

Rows come in order of signature, so a commit writes at the end of one B-tree, and nothing is sorted,
merged or counted in SQL. Frozen orders (``storage/orders/``) answer what is asked of buckets; where
there are none, ``GROUP BY`` over a column does. On SQLite that is a scan, unless somebody has made
an index on the column; Postgres has one on each, made after the first load.

Measured for a million signatures of 16 bands: ``docs/benchmarks.md``.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

from lshdb.arrays import np
from lshdb.errors import LshdbError
from lshdb.params.bucket_layout import (
    FIRST_CONTENT_KEY,
    N_BUCKETS,
    bands_of,
    buckets_of,
    keys_from,
    range_of_band,
    sql_buckets,
)
from lshdb.storage.tables.stored_columns import BAND_TABLE, band_columns

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from lshdb.storage.dialects.base import Session

__all__ = ["BandTable"]

_BLOCK_ROWS = 65_536
_HALF = N_BUCKETS // 2

Ids: TypeAlias = "NDArray[np.int64]"


class BandTable:
    """The buckets of all signatures, inside one transaction.

    Parameters
    ----------
    bands : int
        How many bands the index has.

    Attributes
    ----------
    n : int
        The same.
    """

    def __init__(self, session: Session, bands: int) -> None:
        self._session = session
        self.n = bands
        self._columns = band_columns(bands)

    @property
    def has_indexes(self) -> bool:
        """Whether each column has an index, so that a look-up takes no scan."""
        return self._session.has_band_indexes

    def append(self, first: int, keys: Ids) -> None:
        """Insert the rows of new signatures.

        Parameters
        ----------
        first : int
            The first of them; the others follow.
        keys : ndarray of int64, shape (n, bands)
            Their bucket keys.
        """
        rows = np.empty((len(keys), 1 + len(self._columns)), dtype=np.int64)
        rows[:, 0] = np.arange(first, first + len(keys))
        rows[:, 1:] = sql_buckets(keys[:, : len(self._columns)])
        self._session.insert_rows(BAND_TABLE, ("signature_id", *self._columns), rows)

    def clear(self) -> None:
        """Delete all rows."""
        self._session.delete_all(BAND_TABLE)

    def rows(self, first: int, last: int) -> tuple[Ids, Ids]:
        """Return the rows of signatures from first to last (left out), as they are stored.

        Returns
        -------
        signature_ids : ndarray of int64, shape (n,)
            In order.
        keys : ndarray of int64, shape (n, bands)
        """
        numbers = self._session.numbers(
            f"SELECT signature_id, {', '.join(self._columns)} FROM {BAND_TABLE} "
            "WHERE signature_id BETWEEN ? AND ? ORDER BY signature_id",
            (first, last - 1),
            columns=1 + len(self._columns),
        )
        return numbers[:, 0], keys_from(np.arange(self.n), buckets_of(numbers[:, 1:]))

    def are_rows(self, first: int, keys: Ids) -> bool:
        """Tell whether signatures from first on have these rows, no more and no fewer.

        The sum of each column, in which a bucket counts as often as its place says, is made by SQL:
        a quarter of the time of reading the rows. One wrong value always changes a sum, and of
        several one in 2^32 may not.

        Parameters
        ----------
        first : int
        keys : ndarray of int64, shape (n, bands)
            Their bucket keys; at most 65,536 of them, for sums of 64 bits.
        """
        place = f"(signature_id - ({first - 1}))"
        sums = ", ".join(f"sum({column} * {place})" for column in self._columns)
        try:
            [(n, *stored)] = self._session.fetch(
                f"SELECT count(*), {sums} FROM {BAND_TABLE} WHERE signature_id BETWEEN ? AND ?",
                (first, first + len(keys) - 1),
            )
        except LshdbError:  # too large for a sum
            return False
        expected = np.arange(1, len(keys) + 1) @ sql_buckets(keys)
        is_whole = not any(isinstance(value, float) for value in stored)
        return n == len(keys) and is_whole and stored == expected.tolist()

    def of(self, keys: Ids) -> Ids:
        """Return the postings of some buckets.

        Parameters
        ----------
        keys : ndarray of int64, shape (n,)
            Distinct bucket keys.

        Returns
        -------
        ndarray of int64, shape (m, 2)
            Bucket keys and signatures, in order of both. One scan of the table, or look-ups where
            the columns have indexes.
        """
        bands = bands_of(keys)
        buckets = {
            band: sql_buckets(keys[bands == band]).tolist()
            for band in np.unique(bands).tolist()
            if band < len(self._columns)
        }
        if not buckets:
            return np.empty((0, 2), dtype=np.int64)
        look_up = self._by_indexes if self.has_indexes else self._by_scan
        return look_up(buckets, keys)

    def _by_indexes(self, buckets: Mapping[int, list[int]], keys: Ids) -> Ids:
        arms: list[str] = []
        parameters: list[Any] = []
        for band, of_band in buckets.items():
            column = self._columns[band]
            condition, values = self._session.is_one_of(column, of_band)
            arms.append(
                f"SELECT {band:d}, {column}, signature_id FROM {BAND_TABLE} WHERE {condition}"
            )
            parameters += values
        numbers = self._session.numbers(" UNION ALL ".join(arms), parameters, columns=3)
        return _in_order(keys_from(numbers[:, 0], buckets_of(numbers[:, 1])), numbers[:, 2])

    def _by_scan(self, buckets: Mapping[int, list[int]], keys: Ids) -> Ids:
        """Look all bands up in one pass over the table: sixteen arms would be sixteen passes."""
        conditions: list[str] = []
        parameters: list[Any] = []
        for band, of_band in buckets.items():
            condition, values = self._session.is_one_of(self._columns[band], of_band)
            conditions.append(condition)
            parameters += values
        columns = ", ".join(self._columns[band] for band in buckets)
        numbers = self._session.numbers(
            f"SELECT signature_id, {columns} FROM {BAND_TABLE} WHERE {' OR '.join(conditions)}",
            parameters,
            columns=1 + len(buckets),
        )
        row_keys = keys_from(np.array(list(buckets)), buckets_of(numbers[:, 1:]))
        rows, places = np.nonzero(np.isin(row_keys, keys))
        return _in_order(row_keys[rows, places], numbers[rows, 0])

    def shared(self, first: int, last: int, *, above: int) -> Ids:
        """Return the postings of each bucket in a range with more than ``above`` of them.

        Parameters
        ----------
        first, last : int
            Bucket keys, both included.

        Returns
        -------
        ndarray of int64, shape (n, 2)
            Bucket keys and signatures, in order of both: ``GROUP BY`` in each band of the range.
        """
        parts = [np.empty((0, 2), dtype=np.int64)]
        for band, low, high in self._ranges(first, last):
            column = self._columns[band]
            inside = f"{column} BETWEEN {low} AND {high}"
            numbers = self._session.numbers(
                f"SELECT {column}, signature_id FROM {BAND_TABLE} WHERE {inside} AND {column} IN "
                f"(SELECT {column} FROM {BAND_TABLE} WHERE {inside} GROUP BY {column} "
                f"HAVING count(*) > {above:d})"
            )
            parts.append(_in_order(keys_from(band, buckets_of(numbers[:, 0])), numbers[:, 1]))
        return np.concatenate(parts)

    def _ranges(self, first: int, last: int) -> Iterator[tuple[int, int, int]]:
        """Yield each band of a range of keys, with ranges of buckets as SQL has them, in order."""
        for band in range(max(bands_of(first), 0), min(bands_of(last) + 1, self.n)):
            first_of_band, last_of_band = range_of_band(band)
            low = buckets_of(max(first, first_of_band))
            high = buckets_of(min(last, last_of_band))
            if low < _HALF:
                yield band, low, min(high, _HALF - 1)
            if high >= _HALF:
                yield band, max(low, _HALF) - N_BUCKETS, high - N_BUCKETS

    def in_order(self, *, after: int | None = None) -> Iterator[Ids]:
        """Yield every posting in order, as blocks of (bucket key, signature id), shape (n, 2).

        Parameters
        ----------
        after : int, optional
            Only those with a bucket key above it.
        """
        for band, low, high in self._ranges(0 if after is None else after + 1, FIRST_CONTENT_KEY):
            column = self._columns[band]
            rows = self._session.stream(
                f"SELECT {column}, signature_id FROM {BAND_TABLE} "
                f"WHERE {column} BETWEEN {low} AND {high} ORDER BY {column}, signature_id"
            )
            while block := list(itertools.islice(rows, _BLOCK_ROWS)):
                numbers = np.array(block, dtype=np.int64)
                numbers[:, 0] = keys_from(band, buckets_of(numbers[:, 0]))
                yield numbers


def _in_order(keys: Ids, signature_ids: Ids) -> Ids:
    order = np.lexsort((signature_ids, keys))
    return np.column_stack([keys[order], signature_ids[order]])
