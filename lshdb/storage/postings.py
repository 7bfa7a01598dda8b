"""Reading posting runs: look-ups, groups and scans, as buckets.

What is grouped comes from SQL ``GROUP BY`` over the runs. How runs are written says ``runs.py``.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lshdb.errors import DamageError
from lshdb.storage.buckets import Buckets, grouped
from lshdb.storage.dialects import sqlite as dialect

__all__ = ["Postings"]

_FEW_KEYS = 256
_POSTINGS = 65_536


class Postings:
    """The postings of one state of an index.

    Parameters
    ----------
    execute : callable
        ``execute(sql, parameters=())`` inside an open transaction; returns rows.
    tables : sequence of str
        The runs.
    n_signatures : int
        A posting names a signature below that.
    """

    def __init__(
        self, execute: Callable[..., Any], tables: Sequence[str], n_signatures: int
    ) -> None:
        self._execute = execute
        self._tables = tables
        self._n_signatures = n_signatures

    def of(
        self, keys: NDArray[np.int64], *, runs: Sequence[str] | None = None
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Postings of some buckets.

        Parameters
        ----------
        keys : ndarray of int64, shape (n,)
            Distinct bucket keys.
        runs : sequence of str, optional
            Look into these runs alone.

        Returns
        -------
        bucket_keys, signature_ids : ndarray of int64, shape (m,)
            In no order; one look-up a key and run.

        Raises
        ------
        DamageError
            A posting names a signature that does not exist.
        """
        tables = self._tables if runs is None else runs
        if not tables or not len(keys):
            empty = np.empty(0, dtype=np.int64)
            return empty, empty
        if len(keys) <= _FEW_KEYS:
            sql = dialect.posting_lookup(tables, len(keys))
            rows = self._execute(sql, tuple(keys.tolist()))
        else:
            sql = dialect.posting_lookup_list(tables)
            rows = self._execute(sql, (dialect.encode_list(keys),))
        flat = np.fromiter(itertools.chain.from_iterable(rows.fetchall()), dtype=np.int64)
        bucket_keys, signature_ids = flat[0::2], flat[1::2]
        self._check_ids(signature_ids)
        return bucket_keys, signature_ids

    def shared(self, first: int, last: int) -> Buckets:
        """Every bucket with more than one posting whose key lies between two, both included.

        One SQL ``GROUP BY`` over that part of the runs, without the interpreter's lock.
        """
        if not self._tables:
            empty = np.empty(0, dtype=np.int64)
            return Buckets(empty, empty, empty)
        (groups,) = self._execute(dialect.bucket_groups(self._tables), (first, last)).fetchone()
        buckets = grouped(dialect.decode_groups(groups))
        self._check_ids(buckets.members)
        return buckets

    def shared_of(self, keys: NDArray[np.int64]) -> Buckets:
        """Those of some buckets that have more than one posting; look-ups, in SQL as well."""
        if not self._tables or not len(keys):
            return self.shared(0, -1)
        statement = dialect.bucket_groups_of(self._tables)
        (groups,) = self._execute(statement, (dialect.encode_list(keys),)).fetchone()
        buckets = grouped(dialect.decode_groups(groups))
        self._check_ids(buckets.members)
        return buckets

    def grouped_of(self, keys: NDArray[np.int64]) -> Buckets:
        """Those of some buckets that are there, in order of key; :meth:`of`, grouped."""
        found, members = self.of(keys)
        order = np.lexsort((members, found))
        return grouped(np.column_stack([found[order], members[order]]))

    def in_order(self) -> Iterator[Buckets]:
        """Every bucket of the bands, in order of key, in blocks, each bucket whole and once.

        Those with one posting too, unlike :meth:`shared`. Streamed from the runs; memory
        is that of a block, or of the largest bucket.
        """
        if not self._tables:
            return
        rows = self._execute(dialect.ordered_postings(self._tables))
        held: list[NDArray[np.int64]] = []
        while block := list(itertools.islice(rows, _POSTINGS)):
            flat = itertools.chain.from_iterable(block)
            postings = np.fromiter(flat, dtype=np.int64, count=2 * len(block)).reshape(-1, 2)
            self._check_ids(postings[:, 1])
            held.append(postings)
            if postings[-1, 0] == held[0][0, 0]:  # one bucket, and it may go on
                continue
            joined = np.concatenate(held)
            end = int(np.searchsorted(joined[:, 0], joined[-1, 0]))
            held = [joined[end:]]
            yield grouped(joined[:end])
        if held:
            yield grouped(np.concatenate(held))

    def with_contents(self) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64]]]:
        """Every posting, those of the content band too: (bucket keys, signature ids) in blocks.

        In order of both, streamed from the runs.
        """
        if not self._tables:
            return
        rows = self._execute(dialect.ordered_postings(self._tables, contents=True))
        while block := list(itertools.islice(rows, _POSTINGS)):
            flat = np.fromiter(itertools.chain.from_iterable(block), dtype=np.int64)
            keys, signature_ids = flat[0::2], flat[1::2]
            self._check_ids(signature_ids)
            yield keys, signature_ids

    def _check_ids(self, signature_ids: NDArray[np.int64]) -> None:
        # As unsigned numbers negative ones are the largest: one pass tells both.
        if len(signature_ids) and signature_ids.view(np.uint64).max() >= self._n_signatures:
            raise DamageError(
                f"a posting names signature {signature_ids.max()}; "
                f"the index has {self._n_signatures}",
                hint="run lshdb check",
            )
