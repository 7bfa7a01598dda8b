"""Reading posting runs: look-ups, groups and scans, as buckets.

Groups come from SQL ``GROUP BY`` over the runs. See ``posting_runs.py`` for how runs are written.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lshdb.errors import DamageError
from lshdb.storage.dialects.base import RunTables

__all__ = ["Buckets", "Postings", "check_ids", "grouped"]


@dataclass(frozen=True, slots=True)
class Buckets:
    """Some buckets and their members.

    Attributes
    ----------
    keys, sizes : ndarray of int64, shape (n,)
        Bucket key of each, and its number of postings.
    members : ndarray of int64, shape (sum(sizes),)
        Signature ids, one bucket after the other.
    """

    keys: NDArray[np.int64]
    sizes: NDArray[np.int64]
    members: NDArray[np.int64]

    def chosen(self, places: NDArray[np.int64]) -> Buckets:
        """Return some of them, by their places, in order."""
        wanted = np.zeros(len(self.keys), dtype=bool)
        wanted[places] = True
        members = self.members[np.repeat(wanted, self.sizes)]
        return Buckets(self.keys[wanted], self.sizes[wanted], members)


def grouped(postings: NDArray[np.int64]) -> Buckets:
    """Return the buckets of (bucket key, signature id) pairs that are in order."""
    keys, members = np.ascontiguousarray(postings.T)
    starts = np.flatnonzero(np.diff(keys, prepend=keys[:1] - 1))
    return Buckets(keys[starts], np.diff(starts, append=len(keys)), members)


_POSTINGS = 65_536


class Postings:
    """The postings of one state of an index.

    Parameters
    ----------
    run_tables : RunTables
    tables : sequence of str
        The runs.
    n_signatures : int
        Postings may name signatures below this number.
    """

    def __init__(self, run_tables: RunTables, tables: Sequence[str], n_signatures: int) -> None:
        self._runs = run_tables
        self._tables = tables
        self._n_signatures = n_signatures

    def of(
        self, keys: NDArray[np.int64], *, runs: Sequence[str] | None = None
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the postings of some buckets.

        Parameters
        ----------
        keys : ndarray of int64, shape (n,)
            Distinct bucket keys.
        runs : sequence of str, optional
            Look into these runs only.

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
        bucket_keys, signature_ids = self._runs.of(tables, keys)
        self._check_ids(signature_ids)
        return bucket_keys, signature_ids

    def members(self, keys: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the signatures of some buckets (int64), in no order, repeated if in several.

        Parameters
        ----------
        keys : ndarray of int64, shape (n,)
            Distinct bucket keys.

        Raises
        ------
        DamageError
            A posting names a signature that does not exist.
        """
        if not self._tables or not len(keys):
            return np.empty(0, dtype=np.int64)
        signature_ids = self._runs.members(self._tables, keys)
        self._check_ids(signature_ids)
        return signature_ids

    def shared(self, first: int, last: int, *, above: int = 1) -> Buckets:
        """Return every bucket in a range of keys (inclusive) with more than ``above`` postings.

        One SQL ``GROUP BY`` over that part of the runs, without the interpreter's lock.
        """
        if not self._tables:
            empty = np.empty(0, dtype=np.int64)
            return Buckets(empty, empty, empty)
        buckets = grouped(self._runs.shared(self._tables, first, last, above=above))
        self._check_ids(buckets.members)
        return buckets

    def shared_of(self, keys: NDArray[np.int64]) -> Buckets:
        """Return those of some buckets that have several postings; look-ups, also in SQL."""
        if not self._tables or not len(keys):
            return self.shared(0, -1)
        buckets = grouped(self._runs.shared_of(self._tables, keys))
        self._check_ids(buckets.members)
        return buckets

    def grouped_of(self, keys: NDArray[np.int64]) -> Buckets:
        """Return those of some buckets that exist, in order of key; :meth:`of`, grouped."""
        found, members = self.of(keys)
        order = np.lexsort((members, found))
        return grouped(np.column_stack([found[order], members[order]]))

    def in_order(self) -> Iterator[Buckets]:
        """Yield every bucket of the bands, in order of key, in blocks, each bucket whole and once.

        Unlike :meth:`shared` it includes buckets with one posting. Streamed from the runs; memory
        is that of a block, or of the largest bucket.
        """
        if not self._tables:
            return
        held: list[NDArray[np.int64]] = []
        for postings in self._runs.in_order(self._tables, contents=False, block=_POSTINGS):
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
        """Yield every posting, also of the content band, as blocks (bucket keys, signature ids).

        In order of both, streamed from the runs.
        """
        if not self._tables:
            return
        for postings in self._runs.in_order(self._tables, contents=True, block=_POSTINGS):
            keys, signature_ids = postings[:, 0], postings[:, 1]
            self._check_ids(signature_ids)
            yield keys, signature_ids

    def _check_ids(self, signature_ids: NDArray[np.int64]) -> None:
        check_ids(signature_ids, self._n_signatures)


def check_ids(signature_ids: NDArray[np.int64], n_signatures: int) -> None:
    """Raise DamageError if a posting names a signature that does not exist."""
    # As unsigned numbers, negative ones are the largest: one pass finds both errors.
    if len(signature_ids) and signature_ids.view(np.uint64).max() >= n_signatures:
        raise DamageError(
            f"a posting names signature {signature_ids.max()}; the index has {n_signatures}",
            hint="run lshdb check",
        )
