"""Posting runs: where (bucket key, signature id) pairs live, and how their number stays small.

A B-tree that takes random keys slows as it grows. So postings live in runs, each a table in key
order:

* a large commit writes its own run, sorted beforehand, which never changes again;
* a small one goes into the one *active* run; once that has grown, it is sealed as it is;
* runs of similar size are merged inside SQL, all runs of a level at once when it has four (SQLite:
  sixteen at most), and the sources are dropped in the same transaction;
* where frozen orders answer look-ups, ``RUNS_BESIDE_ORDERS`` runs may stay. If there are more when
  the orders of 65 commits of one add are merged, their runs become one, copied from the new order.
  At the end of an add, those that it made are copied likewise, and then others are merged in SQL,
  until there are no more than that.

The sizes of the buckets of each run are counted as it is written (``bucket_stat``), so asking for
them costs no scan. A bucket that lies in several runs counts in each, until they are merged.

The level of a run gives its size: level n holds 4^n to 4^(n+1) times ``LEVEL_ROWS`` postings. Runs
are merged in SQL at the end of an add, not between its commits, except when it has made
``MOST_RUNS`` runs: a compound SELECT in SQLite has at most 500 arms. A bulk load of 20 million
documents copies no posting, so it is as fast at its end as at its beginning.

Measured with SQLite 3.40, WAL and synchronous=FULL, runs of 450,000 postings: sorted load 1.9-2.1 M
postings/s, merge of four runs 1.7 M/s, copy from an order 4.5 M/s, grouping one run 1.8 M/s,
grouping twelve 0.9 M/s.

:class:`PostingRuns` writes them. :class:`Postings` reads those of one state, as buckets: from
frozen orders (``storage/orders/``) where those cover the state, else by look-ups in each run, by
scans in order, and as groups by SQL's ``GROUP BY`` over them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from lshdb.arrays import distinct, np
from lshdb.errors import DamageError
from lshdb.params.bucket_layout import CONTENT_BAND, FIRST_CONTENT_KEY, bands_of, keys_from
from lshdb.storage.dialects.base import (
    RunTables,
    Session,
    run_table,
)
from lshdb.storage.orders.frozen import Cover

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = [
    "FAN_IN",
    "MOST_RUNS",
    "RUNS_BESIDE_ORDERS",
    "Buckets",
    "PostingRuns",
    "Postings",
    "Run",
    "check_ids",
    "due_runs",
    "grouped",
    "level_of",
]

FAN_IN = 4
LEVEL_ROWS = 50_000
RUN_ROWS = 50_000
"""A commit with at least this many postings writes its own run."""
SEAL_ROWS = 200_000
"""The active run is sealed when it has this many postings."""
MOST_RUNS = 400
RUNS_BESIDE_ORDERS = 128
"""Only a user's own SQL looks into runs then: a microsecond for each, and none for GROUP BY.

20 million documents added from files make fewer. (When 64 might stay and each 20,000 documents were
a run, copies took a quarter of an add of five million.)
"""


@dataclass(frozen=True, slots=True)
class Run:
    """A row of the table ``run``."""

    run_id: int
    table_name: str
    level: int
    n_rows: int
    is_active: bool


def level_of(n_rows: int) -> int:
    """Return the level of a run: 0 below 4 * LEVEL_ROWS postings, one more for each factor of 4."""
    level, size = 0, LEVEL_ROWS * FAN_IN
    while n_rows >= size:
        level, size = level + 1, size * FAN_IN
    return level


def due_runs(runs: Iterable[Run], *, most: int = FAN_IN) -> list[Run]:
    """Return the runs to merge next: all of the lowest level with ``most`` or more, or none.

    If the merged run fills a higher level, the runs of that level are merged along with it. A merge
    of their own would read and write everything once more.
    """
    levels: dict[int, list[Run]] = {}
    for run in runs:
        if not run.is_active:
            levels.setdefault(run.level, []).append(run)
    full = [level for level, some in levels.items() if len(some) >= most]
    due = levels.pop(min(full)) if full else []
    while due:
        more = levels.pop(level_of(sum(run.n_rows for run in due)), [])
        if not more or len(more) + 1 < most:
            break
        due = due + more
    return due


class PostingRuns:
    """The runs of an index, inside one open write transaction.

    Parameters
    ----------
    session : Session
    """

    def __init__(self, session: Session) -> None:
        self._listed: list[Run] | None = None
        self._is_changed = False
        self._session = session
        self._execute = session.execute
        self._tables = session.run_tables

    def runs(self) -> list[Run]:
        """Return all runs, oldest first."""
        rows = self._execute(
            "SELECT run_id, table_name, level, n_rows, is_active FROM run ORDER BY run_id"
        )
        self._listed = [
            Run(run_id, run_table(table_name), level, n_rows, bool(is_active))
            for run_id, table_name, level, n_rows, is_active in rows
        ]
        return self._listed

    def seen(self) -> list[Run] | None:
        """Return the runs as they are now; None if this transaction had no need of them.

        The active run may have more postings by now.
        """
        return self.runs() if self._is_changed else self._listed

    def add(self, keys: NDArray[np.int64], signature_ids: NDArray[np.int64]) -> Run | None:
        """Add postings; those in order of key, and then of signature, are not sorted again.

        Parameters
        ----------
        keys, signature_ids : ndarray of int64, shape (n,)
            No pair may exist already.

        Returns
        -------
        Run or None
            The run that holds these postings and no other, if there is one.
        """
        if not len(keys):
            return None
        keys, signature_ids = _in_order(keys, signature_ids)
        if len(keys) >= RUN_ROWS:
            run = self._create(len(keys), is_active=False)
            self._tables.insert(run.run_id, run.table_name, keys, signature_ids)
            self._tables.complete(run.run_id, run.table_name)
            self._count(run, _sizes(keys))
            self._publish()
            return run
        active = next((run for run in self.runs() if run.is_active), None)
        if active is None:
            active = self._create(0, is_active=True)
            self._publish()
        self._count_active(active, keys)
        self._tables.insert(active.run_id, active.table_name, keys, signature_ids)
        n_rows = active.n_rows + len(keys)
        sealed = n_rows >= SEAL_ROWS
        self._is_changed |= sealed
        self._execute(
            "UPDATE run SET n_rows = ?, level = ?, is_active = ? WHERE run_id = ?",
            (n_rows, level_of(n_rows), not sealed, active.run_id),
        )
        return None

    def add_sorted(
        self,
        blocks: Iterable[tuple[NDArray[np.int64], NDArray[np.int64]]],
        n_rows: int,
        *,
        below: int,
    ) -> Run | None:
        """Add postings as :meth:`load` does if they are many, else as :meth:`add` does.

        Parameters
        ----------
        blocks : iterable of (keys, signature_ids)
            As for :meth:`load`.
        n_rows : int
            How many these are.
        below : int
            All signatures are below it.
        """
        if n_rows >= RUN_ROWS:
            return self.load(blocks, below=below)
        return self.add(*map(np.concatenate, zip(*blocks, strict=True)))

    def load(
        self, blocks: Iterable[tuple[NDArray[np.int64], NDArray[np.int64]]], *, below: int
    ) -> Run:
        """Make one run of postings.

        Parameters
        ----------
        blocks : iterable of (keys, signature_ids)
            In order of key. No other run has any of them, and none comes twice.
        below : int
            All signatures are below it.

        Raises
        ------
        ValueError
            The blocks are not in order, or have a posting twice.
        OverflowError
            A signature may be above that number.
        """
        empty = self._create(0, is_active=False)
        n_rows = 0
        sizes: Counter[tuple[int, int]] = Counter()

        def counted() -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64]]]:
            nonlocal n_rows
            last: int | None = None
            for keys, signature_ids in _whole_buckets(blocks):
                keys, signature_ids = _in_order(keys, signature_ids)
                if last is not None and int(keys[0]) <= last:
                    raise ValueError("postings are not in order")
                last = int(keys[-1])
                n_rows += len(keys)
                sizes.update(_sizes(keys))
                yield keys, signature_ids

        self._tables.load(empty.run_id, empty.table_name, counted(), below=below)
        run = replace(empty, n_rows=n_rows, level=level_of(n_rows))
        self._tables.complete(run.run_id, run.table_name)
        self._execute(
            "UPDATE run SET n_rows = ?, level = ? WHERE run_id = ?",
            (run.n_rows, run.level, run.run_id),
        )
        self._count(run, sizes)
        self._publish()
        return run

    def replace(
        self,
        blocks: Iterable[tuple[NDArray[np.int64], NDArray[np.int64]]],
        sources: list[Run] | None = None,
        *,
        below: int,
    ) -> Run:
        """Replace some of the present runs by one run.

        Parameters
        ----------
        blocks : iterable of (keys, signature_ids)
            In order of key; empty for an index without postings.
        sources : list of Run, optional
            All runs by default.
        below : int
            All signatures are below it.
        """
        sources = self.runs() if sources is None else sources
        self._forget(sources)
        run = self.load(blocks, below=below)
        self._drop(sources)
        return run

    def due(self, *, most: int = FAN_IN) -> list[Run]:
        """Return the runs to merge next, the smallest first; see :func:`due_runs`."""
        due = sorted(due_runs(self.runs(), most=most), key=lambda run: run.n_rows)
        return due[: self._tables.merged_at_once]

    def merge(self, sources: list[Run]) -> Run:
        """Merge runs into a new one and drop them; cost in proportion to their postings."""
        sources = sorted(sources, key=lambda run: run.n_rows)
        target = self._create(sum(run.n_rows for run in sources), is_active=False)
        tables = [run.table_name for run in sources]
        self._tables.merge(target.run_id, target.table_name, tables)
        self._tables.complete(target.run_id, target.table_name)
        self._count_buckets(target)
        self._forget(sources)
        self._publish()
        self._drop(sources)
        return target

    def _forget(self, sources: list[Run]) -> None:
        self._is_changed = True
        for run in sources:
            self._execute("DELETE FROM bucket_stat WHERE run_id = ?", (run.run_id,))
            self._execute("DELETE FROM run WHERE run_id = ?", (run.run_id,))

    def _drop(self, sources: list[Run]) -> None:
        """Give up the tables of runs that are not listed any more."""
        self._tables.retire([run.table_name for run in sources])

    def _count_buckets(self, run: Run) -> None:
        """Count the buckets of a complete run; one pass over it."""
        counted = self._tables.bucket_sizes(run.table_name)
        self._count(run, {(band, size): n_buckets for band, size, n_buckets in counted})

    def _count_active(self, active: Run, keys: NDArray[np.int64]) -> None:
        """Count the buckets of the active run again, as far as new postings change them."""
        sizes = _sizes(keys)
        old = self._tables.counts(active.table_name, distinct(keys)) if active.n_rows else {}
        if old:
            there = np.array(sorted(old), dtype=np.int64)
            before = np.array([old[key] for key in there.tolist()], dtype=np.int64)
            more = np.searchsorted(keys, there, "right") - np.searchsorted(keys, there, "left")
            bands = bands_of(there)
            for (band, size), count in _histogram(bands, before + more).items():
                sizes[band, size] = sizes.get((band, size), 0) + count
            for sign_of in (before, more):  # neither the old size nor the new part stands alone
                for (band, size), count in _histogram(bands, sign_of).items():
                    sizes[band, size] = sizes.get((band, size), 0) - count
        for band, size, count in self._execute(
            "SELECT band, size, n_buckets FROM bucket_stat WHERE run_id = ?", (active.run_id,)
        ):
            sizes[band, size] = sizes.get((band, size), 0) + count
        self._execute("DELETE FROM bucket_stat WHERE run_id = ?", (active.run_id,))
        self._count(active, sizes)

    def _count(self, run: Run, sizes: dict[tuple[int, int], int]) -> None:
        rows = [(run.run_id, band, size, n) for (band, size), n in sorted(sizes.items()) if n]
        columns = ("run_id", "band", "size", "n_buckets")
        self._session.insert_rows("bucket_stat", columns, rows)

    def _create(self, n_rows: int, *, is_active: bool) -> Run:
        self._is_changed = True
        (run_id,) = self._execute("SELECT next_run_id FROM state").fetchone()
        run = Run(run_id, f"posting_run_{run_id}", level_of(n_rows), n_rows, is_active)
        self._execute("UPDATE state SET next_run_id = ?", (run_id + 1,))
        self._tables.create(run.run_id, run.table_name, is_active=is_active)
        self._execute(
            "INSERT INTO run (run_id, table_name, level, n_rows, is_active) VALUES (?, ?, ?, ?, ?)",
            (run.run_id, run.table_name, run.level, run.n_rows, is_active),
        )
        return run

    def _publish(self) -> None:
        """Let the view ``posting`` show the present runs."""
        self._tables.publish([run.table_name for run in self.runs()])


def _in_order(
    keys: NDArray[np.int64], signature_ids: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return postings in order of both, sorted only if they are not.

    Raises
    ------
    ValueError
        A posting comes twice.
    """
    if _is_sorted(keys, signature_ids):
        return keys, signature_ids
    order = np.lexsort((signature_ids, keys))
    keys, signature_ids = keys[order], signature_ids[order]
    if not _is_sorted(keys, signature_ids):
        raise ValueError("a posting comes twice")
    return keys, signature_ids


def _is_sorted(keys: NDArray[np.int64], signature_ids: NDArray[np.int64]) -> bool:
    """Return whether postings are in order of both, and none comes twice."""
    is_below = keys[:-1] < keys[1:]
    again = np.flatnonzero(~is_below)
    is_same = keys[again] == keys[again + 1]
    return bool((is_same & (signature_ids[again] < signature_ids[again + 1])).all())


def _whole_buckets(
    blocks: Iterable[tuple[NDArray[np.int64], NDArray[np.int64]]],
) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64]]]:
    """Cut blocks of postings in order of key anew, so that no bucket lies in two of them."""
    held: list[tuple[NDArray[np.int64], NDArray[np.int64]]] = []
    for block in blocks:
        if not len(block[0]):
            continue
        held.append(block)
        if block[0][0] == block[0][-1] and held[0][0][0] == block[0][0]:
            continue  # all of one bucket, which goes on
        keys, ids = (np.concatenate(columns) for columns in zip(*held, strict=True))
        end = int(np.searchsorted(keys, keys[-1], "left"))
        yield keys[:end], ids[:end]
        held = [(keys[end:], ids[end:])]
    if held:
        keys, ids = (np.concatenate(columns) for columns in zip(*held, strict=True))
        yield keys, ids


def _sizes(keys: NDArray[np.int64]) -> dict[tuple[int, int], int]:
    """Return the number of buckets by (band, size) for sorted keys, without the content band.

    Nearly all buckets hold one posting. Only the others are looked at one by one: 8 ns a posting
    instead of 100.
    """
    again = np.flatnonzero(keys[1:] == keys[:-1]) + 1  # a key that came before
    starts = np.flatnonzero(np.diff(again, prepend=-1) > 1)
    ends = np.append(starts[1:], len(again))
    sizes = _histogram(bands_of(keys[again[starts]]), ends - starts + 1)
    shared: Counter[int] = Counter()
    for (band, size), n_buckets in sizes.items():
        shared[band] += size * n_buckets
    firsts = [keys_from(band, 0) for band in range(CONTENT_BAND + 1)]
    counts = np.diff(np.searchsorted(keys, firsts))
    for band, count in enumerate(counts.tolist()):
        if count > shared[band]:
            sizes[band, 1] = count - shared[band]
    return sizes


def _histogram(bands: NDArray[np.int64], sizes: NDArray[np.int64]) -> dict[tuple[int, int], int]:
    inside = bands != CONTENT_BAND
    both, counts = np.unique(sizes[inside] << 8 | bands[inside], return_counts=True)
    return {
        (one & 255, one >> 8): count
        for one, count in zip(both.tolist(), counts.tolist(), strict=True)
    }


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
_Result = TypeVar("_Result")


class Postings:
    """The postings of one state of an index.

    They are read from frozen orders where those cover the state, and otherwise by SQL; the answers
    are the same. An order that fails is not asked again.

    Parameters
    ----------
    run_tables : RunTables
    tables : sequence of str
        The runs.
    n_signatures : int
        Postings may name signatures below this number.
    cover : Cover, optional
        The frozen orders of the state.
    on_failure : callable, optional
        Told of orders that failed, and why.
    """

    def __init__(
        self,
        run_tables: RunTables,
        tables: Sequence[str],
        n_signatures: int,
        *,
        cover: Cover | None = None,
        on_failure: Callable[[Cover, Exception], None] | None = None,
    ) -> None:
        self._runs = run_tables
        self._tables = tables
        self._n_signatures = n_signatures
        self._cover = cover
        self._on_failure = on_failure

    @property
    def are_frozen(self) -> bool:
        """Whether frozen orders answer, as far as is known: without SQL."""
        return self._cover is not None

    def _by_orders(self, ask: Callable[[Cover], _Result]) -> _Result | None:
        """Ask the frozen orders; None where there are none, or they failed."""
        cover = self._cover
        if cover is None:
            return None
        try:
            return ask(cover)
        except (OSError, ValueError) as error:
            self._cover = None
            if self._on_failure is not None:
                self._on_failure(cover, error)
            return None

    def of_contents(
        self, keys: NDArray[np.int64], *, below: int, runs: Sequence[str]
    ) -> NDArray[np.int64]:
        """Return signatures that may have one of some contents, in no order.

        All that a document has, and others.

        Parameters
        ----------
        keys : ndarray of int64, shape (n,)
            Distinct bucket keys of contents.
        below : int
            Signatures from this number on may be left out.
        runs : sequence of str
            The runs that hold the others, for SQL.

        Raises
        ------
        DamageError
            A posting names a signature that does not exist.
        """
        if self._cover is not None and self._cover.n_covered >= below:
            found = self._by_orders(lambda cover: cover.of_contents(keys))
            if found is not None:
                return found
        return self.of(keys, runs=runs)[1]

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
        if self._cover is not None and runs is None and not _are_contents(keys):
            found = self._by_orders(lambda cover: cover.find(keys))
            if found is not None:
                return np.repeat(keys, found[0]), found[1]
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
        found = self._by_orders(lambda cover: cover.find(keys))
        if found is not None:
            return found[1]
        if not self._tables or not len(keys):
            return np.empty(0, dtype=np.int64)
        signature_ids = self._runs.members(self._tables, keys)
        self._check_ids(signature_ids)
        return signature_ids

    def shared(self, first: int, last: int, *, above: int = 1) -> Buckets:
        """Return every bucket in a range of keys (inclusive) with more than ``above`` postings.

        One pass over that part of the orders; or one SQL ``GROUP BY`` over that of the runs,
        without the interpreter's lock.
        """
        if last < FIRST_CONTENT_KEY:
            found = self._by_orders(partial(_grouped, first=first, last=last, above=above))
            if found is not None:
                return found
        if not self._tables:
            empty = np.empty(0, dtype=np.int64)
            return Buckets(empty, empty, empty)
        buckets = grouped(self._runs.shared(self._tables, first, last, above=above))
        self._check_ids(buckets.members)
        return buckets

    def shared_of(self, keys: NDArray[np.int64]) -> Buckets:
        """Return those of some buckets that have several postings; look-ups, also in SQL."""
        found = self._by_orders(lambda cover: _found(cover, keys, above=1))
        if found is not None:
            return found
        if not self._tables or not len(keys):
            return self.shared(0, -1)
        buckets = grouped(self._runs.shared_of(self._tables, keys))
        self._check_ids(buckets.members)
        return buckets

    def grouped_of(self, keys: NDArray[np.int64]) -> Buckets:
        """Return those of some buckets that exist, in order of key; :meth:`of`, grouped."""
        found = self._by_orders(lambda cover: _found(cover, keys, above=0))
        if found is not None:
            return found
        there, members = self.of(keys)
        order = np.lexsort((members, there))
        return grouped(np.column_stack([there[order], members[order]]))

    def in_order(self) -> Iterator[Buckets]:
        """Yield every bucket of the bands, in order of key, in blocks, each bucket whole and once.

        Unlike :meth:`shared` it includes buckets with one posting. Streamed from the orders or the
        runs; memory is that of a block, or of the largest bucket.
        """
        after: int | None = None
        for first, last in () if self._cover is None else self._cover.ranges(_POSTINGS):
            found = self._by_orders(partial(_grouped, first=first, last=last, above=0))
            if found is None:
                break
            after = last
            if len(found.keys):
                yield found
        else:
            if self._cover is not None:
                return
        if self._tables:
            yield from self._streamed(after)

    def _streamed(self, after: int | None) -> Iterator[Buckets]:
        """Yield every bucket, or those with a key above one, from the runs."""
        held: list[NDArray[np.int64]] = []
        for postings in self._runs.in_order(self._tables, contents=False, block=_POSTINGS):
            self._check_ids(postings[:, 1])
            if after is not None and postings[0, 0] <= after:
                postings = postings[np.searchsorted(postings[:, 0], after, "right") :]
                if not len(postings):
                    continue
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


def _grouped(cover: Cover, *, first: int, last: int, above: int) -> Buckets:
    return Buckets(*cover.grouped(first, last, above=above))


def _found(cover: Cover, keys: NDArray[np.int64], *, above: int) -> Buckets:
    """Return those of some buckets with more than ``above`` postings, in order of key."""
    keys = np.sort(keys)
    sizes, members = cover.find(keys)
    keep = sizes > above
    return Buckets(keys[keep], sizes[keep], members[np.repeat(keep, sizes)])


def _are_contents(keys: NDArray[np.int64]) -> bool:
    """Return whether a key is the content band's."""
    return bool((keys >= FIRST_CONTENT_KEY).any())


def check_ids(signature_ids: NDArray[np.int64], n_signatures: int) -> None:
    """Raise DamageError if a posting names a signature that does not exist."""
    # As unsigned numbers, negative ones are the largest: one pass finds both errors.
    if len(signature_ids) and signature_ids.view(np.uint64).max() >= n_signatures:
        raise DamageError(
            f"a posting names signature {signature_ids.max()}; the index has {n_signatures}",
            hint="run lshdb check",
        )
