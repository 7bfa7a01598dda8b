"""What can be asked of an open index about all documents at once; ``Index`` inherits it.

Pairs are found anew each time. Clusters, deduplication and neighbours rest on verified edges that
are kept in the index and brought up to date first (``clusters/update.py``), which is the one
question that writes.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from lshdb.arguments import check_whole
from lshdb.documents import MAX_DOCUMENT_BYTES, check_document_limit
from lshdb.errors import ParameterError
from lshdb.questions import Questions
from lshdb.search.candidates import LeftOut
from lshdb.search.loss import DocumentCounts, Loss, PairCount, PairFrame, lost_by, stored_loss
from lshdb.search.pairs import Pair, PairSearch, find_pairs
from lshdb.search.verification import choose_method
from lshdb.search.verified_pairs import MEMORY
from lshdb.storage.tables.edges import EdgeState
from lshdb.storage.transactions.snapshot import Snapshot
from lshdb.threads import choose_workers

if TYPE_CHECKING:
    from lshdb.clusters.deduplication import Decision
    from lshdb.clusters.filter import Survivors
    from lshdb.clusters.listing import Cluster, Neighbor

__all__ = ["Groups", "StoredAnswer", "check_limits"]

_Item = TypeVar("_Item")


class StoredAnswer(Iterator[_Item], Generic[_Item]):
    """What is answered from stored pairs, item by item.

    Attributes
    ----------
    state : EdgeState or None
        What those pairs cover, and its ``max_bucket``: buckets over that were linked and not
        compared. None until the first item is asked for.
    unchecked : PairCount or None
        Of :meth:`Groups.dedup` and :meth:`Groups.filter`: pairs of documents that are kept and may
        be near-duplicates all the same, as large buckets made too many pairs to compare; None where
        there are none. Known with the first item.
    """

    def __init__(self, found: Callable[[StoredAnswer[_Item]], Iterator[_Item]]) -> None:
        self.state: EdgeState | None = None
        self.unchecked: PairCount | None = None
        self._items = found(self)

    def __next__(self) -> _Item:
        return next(self._items)


class Groups(Questions):
    """Questions about all documents at once."""

    def pairs(
        self,
        *,
        threshold: float | None = None,
        verify: str | None = None,
        since: int | str | None = None,
        max_bucket: int | str | None = None,
        memory: int = MEMORY,
        workers: int | None = None,
    ) -> PairSearch:
        """All near-duplicate pairs, each once, streamed.

        Parameters
        ----------
        threshold : float, optional
            Lowest similarity; the index's own by default. A pair of similarity s is found with
            probability ``params.recall_at(s)``, also below the index's threshold.
        verify : {"none", "signature", "exact"}, optional
            As for :meth:`query`; with ``none`` all candidate pairs are given, whatever the
            threshold.
        since : int or "last", optional
            Only pairs with a document that came in with this batch or a later one; ``"last"`` means
            the batches of the last add that changed something. An add that was interrupted and the
            one that brings the same documents again are one.
        max_bucket : int or "none", optional
            Leave out buckets with more signatures than this, and larger groups of exact copies. A
            bucket of m makes m (m - 1) / 2 pairs. Nothing is left out unless this is given.
        memory : int
            Bytes for pairs and texts that are being verified; what has to be sorted beyond that
            goes to temporary files.
        workers : int, optional
            Threads that read postings; one a core by default. The pairs are the same.

        Returns
        -------
        iterator of Pair
            In no particular order. It sees the index as it is when the first pair is asked for.
            After the last pair, ``left_out`` says which buckets ``max_bucket`` left out, and
            ``loss`` how many near-duplicate pairs that cost: an estimate with its interval, or a
            count where that is quick.

        Raises
        ------
        ParameterError, TextNotStoredError, DamageError
        SignaturesElsewhereError
            Verification by signatures that lie on another host; when the first pair is asked for.
        """
        threshold = self._asked_level(threshold, verify)
        choose_method(verify, self.params)
        check_limits(max_bucket, memory)
        most = max_bucket if isinstance(max_bucket, int) else None
        workers = choose_workers(workers)
        left_out = LeftOut(most)

        def found() -> Iterator[Pair]:
            with self._store.reading() as snapshot:
                method = choose_method(verify, self.params, has_signatures=snapshot.has_signatures)
                large = None
                if most is not None:
                    counts = DocumentCounts.of(snapshot, since=_batch(snapshot, since))
                    left_out.large = large = PairFrame(counts)
                pairs = find_pairs(
                    snapshot,
                    self._family,
                    threshold=threshold,
                    method=method,
                    since=_batch(snapshot, since),
                    most=most,
                    left_out=left_out,
                    memory=memory,
                    workers=workers,
                )
                yield from self._store.while_open(pairs)
                if large is not None:
                    search.lost = lost_by(
                        snapshot,
                        self._family,
                        left_out,
                        large,
                        threshold=threshold,
                        method=method,
                    )
                    left_out.large = None

        search = PairSearch(found(), left_out)
        return search

    def update_clusters(
        self,
        *,
        threshold: float | None = None,
        verify: str | None = None,
        max_bucket: int | str | None = None,
        lock_timeout: float = 60.0,
        memory: int = MEMORY,
        workers: int | None = None,
    ) -> EdgeState:
        """Bring verified edges and clusters up to date, if they are not.

        What came in since the last time is compared with everything; clusters that gained or lost
        a document, or an edge, are made anew, and all others stay. One transaction.

        Parameters
        ----------
        threshold : float, optional
            Find edges at least down to it; the index's own by default. Where edges were found down
            to a lower one before, it stays that; for a still lower one everything is found anew.
        verify : {"signature", "exact"}, optional
            As for :meth:`query`. Another method than before finds everything anew.
        max_bucket : int or "none", optional
            Buckets with more signatures than this are linked through leaders, in linear time, and
            not paired; "none" pairs all. 1,000 unless it was something else before: it is kept
            with the pairs, and holds for every later question. Another than before finds everything
            anew.
        lock_timeout : float
            Seconds to wait for another writer.
        memory, workers
            As for :meth:`pairs`.

        Returns
        -------
        EdgeState
            What the edges cover, and what was not compared; see also :meth:`loss`.

        Raises
        ------
        LockedError, ParameterError, TextNotStoredError, DatabaseError
        """
        check_limits(max_bucket, memory)
        return self._update_edges(
            self._asked_level(threshold),
            method=self._linking(verify),
            max_bucket=max_bucket,
            lock_timeout=lock_timeout,
            memory=memory,
            workers=choose_workers(workers),
        )

    def edge_state(self) -> EdgeState | None:
        """What the stored edges cover; None where they were never brought up to date."""
        with self._store.reading() as snapshot:
            return snapshot.edges.state()

    def loss(self, *, threshold: float | None = None) -> Loss | None:
        """What it costs that buckets over the stored pairs' cap were linked and not compared.

        That is the share of near-duplicate pairs of documents that :meth:`clusters`, :meth:`dedup`
        and :meth:`neighbors` do not know of. Documents of such a pair may be in one cluster all the
        same, through others; :meth:`dedup` looks for them once more among what it would keep.

        Parameters
        ----------
        threshold : float, optional
            Of pairs at least as similar; the index's own by default.

        Returns
        -------
        Loss or None
            None where no pairs are stored, or nothing is here to tell. Where large buckets were
            linked this is one pass over the postings and the pairs, and a sample: see
            ``search/loss.py``.
        """
        lowest = self._threshold(threshold)
        with self._store.reading() as snapshot:
            state = snapshot.edges.state()
            if state is None:
                return None
            if not state.hot_buckets:
                return Loss(0.0, 0.0, 0.0, 0.0, True, 0)
            lowest = max(lowest, state.threshold)
            known = self._known_loss
            if known is None or known[:2] != (state, lowest):
                found = stored_loss(snapshot, self._family, state, threshold=lowest)
                if found is None:
                    return None
                known = self._known_loss = (state, lowest, found)
            return known[2]

    def _remember_loss(self, state: EdgeState, loss: Loss) -> None:
        self._known_loss = (replace(state, recall_lost=loss.share), state.threshold, loss)

    _known_loss: tuple[EdgeState, float, Loss] | None = None

    def clusters(
        self,
        *,
        threshold: float | None = None,
        min_size: int = 2,
        linkage: str = "component",
        update: bool = True,
        lock_timeout: float = 60.0,
    ) -> StoredAnswer[Cluster]:
        """Documents that tell the same story, the largest groups first.

        Parameters
        ----------
        threshold : float, optional
            Lowest similarity of an edge; the index's own by default.
        min_size : int
            Fewest documents of a cluster.
        linkage : {"component", "representative"}
            A chain a - b - c, with a unlike c, is one cluster; or is cut so that every member is
            similar to its representative, the one that came in first.
        update : bool
            Bring edges and clusters up to date first, see :meth:`update_clusters`. Without, nothing
            is written, and of documents that came in since then only exact copies of a member are
            in a cluster.
        lock_timeout : float
            Seconds to wait for another writer, where there is something to bring up to date.

        Returns
        -------
        iterator of Cluster
            A :class:`StoredAnswer`; its ``state`` says which cap on buckets is in force.

        Raises
        ------
        ParameterError
            Also where ``update`` is false and edges were never found so far down.
        LockedError, DatabaseError
        """
        from lshdb.clusters.listing import LINKAGES, find_clusters

        if linkage not in LINKAGES:
            raise ParameterError(f"linkage is {linkage!r}; expected one of {', '.join(LINKAGES)}")
        check_whole("min_size", min_size, 2)
        level = self._asked_level(threshold)

        def listed(answer: StoredAnswer[Cluster]) -> Iterator[Cluster]:
            with self._linked(level, update, lock_timeout) as (snapshot, state):
                answer.state = state
                found = find_clusters(snapshot, threshold=level, linkage=linkage, min_size=min_size)
                yield from self._store.while_open(found)

        return StoredAnswer(listed)

    def dedup(
        self,
        *,
        keep: str = "first",
        threshold: float | None = None,
        against: bool = False,
        since: int | str | None = None,
        only: str = "all",
        update: bool = True,
        lock_timeout: float = 60.0,
    ) -> StoredAnswer[Decision]:
        """For each document, whether to keep it, and if not, which one repeats it.

        A dropped document is verified to be similar to the one that is kept in its place. No two
        that are kept are a pair that the index finds: one that shares a bucket, also a large one,
        and is verified. A pair at the threshold shares none with probability ``1 - params.recall``;
        such a pair may be kept. Documents that came in after the stored pairs were last brought up
        to date are not looked at (``update=False``).

        What would be kept is compared in its large buckets, up to 32 million pairs by signature.
        Boilerplate may make more; then ``unchecked`` of the answer estimates how many pairs that
        leaves among what is kept.

        Parameters
        ----------
        keep : str
            Which of similar documents to keep: ``first``, ``last``, ``longest``, ``shortest``, or
            ``field:NAME`` (``field:-NAME``) for the largest (smallest) value of a column of
            ``document``.
        threshold : float, optional
            From which similarity on a document is dropped; the index's own by default.
        against : bool
            Drop only documents of the newest add, and only for older ones.
        since : int or "last", optional
            With ``against``: what is new begins with this batch.
        only : {"all", "keep", "drop"}
            Which decisions to give.
        update, lock_timeout
            As for :meth:`clusters`.

        Returns
        -------
        iterator of Decision
            A :class:`StoredAnswer`, in the order in which the documents came in.

        Raises
        ------
        ParameterError, LockedError, DatabaseError
        """
        from lshdb.clusters.deduplication import ONLY, decide, decisions
        from lshdb.clusters.missed_pairs import Unlinked

        if only not in ONLY:
            raise ParameterError(f"only is {only!r}; expected one of {', '.join(ONLY)}")
        level = self._asked_level(threshold)

        def listed(answer: StoredAnswer[Decision]) -> Iterator[Decision]:
            with self._linked(level, update, lock_timeout) as (snapshot, state):
                batch = _new_from(snapshot, against, since)
                chosen = decide(
                    snapshot,
                    threshold=level,
                    keep=keep,
                    since=batch,
                    unlinked=Unlinked(snapshot, self._family, state, threshold=level, since=batch),
                )
                answer.state, answer.unchecked = state, chosen.unchecked
                found = decisions(snapshot, chosen, state.method, only=only)
                yield from self._store.while_open(found)

        return StoredAnswer(listed)

    def filter(
        self,
        path: str | os.PathLike[str],
        *,
        key_field: str = "id",
        keep: str = "first",
        threshold: float | None = None,
        against: bool = False,
        since: int | str | None = None,
        update: bool = True,
        lock_timeout: float = 60.0,
        max_document_bytes: int = MAX_DOCUMENT_BYTES,
    ) -> Survivors:
        """The lines of a JSON Lines file whose documents :meth:`dedup` keeps, byte for byte.

        Lines that hold no document of the index are kept as well; ``counts`` says how many. A file
        of which no line holds one is refused, before any line is given.

        Parameters
        ----------
        path : path-like
            Plain, ``.gz`` or ``.zst``; ``-`` for standard input.
        key_field : str
            The field with the key.
        keep, threshold, against, since, update, lock_timeout
            As for :meth:`dedup`; a ``field:NAME`` is one of the lines.
        max_document_bytes : int
            The longest line that is looked into, as for :func:`lshdb.read_documents`. A longer one
            is passed on in pieces, unheld, and counted as ``too_long``.

        Raises
        ------
        InputError
            The file cannot be read, or not to its end; or no line of it (of standard input, none
            of the first thousand) holds a document of the index, which says what it looks like.
        ParameterError, LockedError, DatabaseError
        """
        from lshdb.clusters.deduplication import decide
        from lshdb.clusters.filter import FilterCounts, Survivors, field_values, surviving_lines
        from lshdb.clusters.missed_pairs import Unlinked

        limit = check_document_limit(max_document_bytes)
        counts = FilterCounts()
        level = self._asked_level(threshold)

        def lines() -> Iterator[bytes]:
            with self._linked(level, update, lock_timeout) as (snapshot, state):
                values = field_values(snapshot, path, keep, key_field=key_field, limit=limit)
                batch = _new_from(snapshot, against, since)
                chosen = decide(
                    snapshot,
                    threshold=level,
                    keep=keep,
                    since=batch,
                    values=values,
                    unlinked=Unlinked(snapshot, self._family, state, threshold=level, since=batch),
                )
                survivors.state, survivors.unchecked = state, chosen.unchecked
                found = surviving_lines(
                    snapshot, chosen, path, key_field=key_field, limit=limit, counts=counts
                )
                yield from self._store.while_open(found)

        survivors = Survivors(lines(), counts)
        return survivors

    def neighbors(
        self,
        *,
        top: int = 10,
        threshold: float | None = None,
        update: bool = True,
        lock_timeout: float = 60.0,
    ) -> StoredAnswer[Neighbor]:
        """For every document the most similar ones, from the edges that are kept.

        Parameters
        ----------
        top : int
            Most neighbours of a document.
        threshold : float, optional
            Lowest similarity; the index's own by default.
        update, lock_timeout
            As for :meth:`clusters`.

        Returns
        -------
        iterator of Neighbor
            A :class:`StoredAnswer`: those of a document together, the most similar first.

        Raises
        ------
        ParameterError, LockedError, DatabaseError
        """
        from lshdb.clusters.listing import find_neighbors

        check_whole("top", top, 1)
        level = self._asked_level(threshold)

        def listed(answer: StoredAnswer[Neighbor]) -> Iterator[Neighbor]:
            with self._linked(level, update, lock_timeout) as (snapshot, state):
                answer.state = state
                best = self.params.curve.best
                found = find_neighbors(
                    snapshot, threshold=level, best=best, method=state.method, top=top
                )
                yield from self._store.while_open(found)

        return StoredAnswer(listed)

    # Inside

    def _linking(self, verify: str | None) -> str:
        method = choose_method(verify, self.params)
        if method == "none":
            raise ParameterError(
                "clusters are made of verified pairs; verify 'none' gives candidates alone",
                hint="use 'signature' or 'exact'",
            )
        return method

    def _update_edges(self, level: float, **options: Any) -> EdgeState:
        from lshdb.clusters.update import update_clusters

        lowest = min(level, self.params.level)
        return update_clusters(
            self._store,
            self._family,
            threshold=lowest,
            on_loss=self._remember_loss,
            **options,
        )

    @contextmanager
    def _linked(
        self, level: float, update: bool, lock_timeout: float
    ) -> Iterator[tuple[Snapshot, EdgeState]]:
        """A snapshot with edges down to a level, and their state."""
        if update:
            state = self.edge_state()
            self._update_edges(
                level,
                method=self._linking(None if state is None else state.method),
                max_bucket=None,
                lock_timeout=lock_timeout,
                memory=MEMORY,
                workers=choose_workers(None),
            )
        with self._store.reading() as snapshot:
            state = snapshot.edges.state()
            if state is None or state.threshold > level:
                found = (
                    "no"
                    if state is None
                    else f"only down to {self.params.curve.value(state.threshold):g},"
                )
                raise ParameterError(
                    f"the index {self._store.directory.path} has {found} verified edges",
                    hint="bring them up to date with: lshdb clusters INDEX",
                )
            yield snapshot, state


def check_limits(max_bucket: int | str | None, memory: int = MEMORY) -> None:
    """Refuse limits that make no sense."""
    if max_bucket is not None and max_bucket != "none":
        check_whole("max_bucket", max_bucket, 2)
    check_whole("memory", memory, 2**20, unit=" bytes")


def _new_from(snapshot: Snapshot, against: bool, since: int | str | None) -> int | None:
    if since is not None and not against:
        raise ParameterError("since says what is new for against; it was not asked for")
    if not against:
        return None
    return _batch(snapshot, "last" if since is None else since)


def _batch(snapshot: Snapshot, since: int | str | None) -> int | None:
    """The number of the batch that ``since`` means."""
    last = snapshot.last_batch()
    if since is None:
        return None
    if since == "last":
        return snapshot.last_add()
    newest = last.batch_id if last else 0
    if type(since) is not int or not 1 <= since <= newest:
        raise ParameterError(
            f"there is no batch {since!r}; the index has {newest}",
            hint="lshdb batches lists them",
        )
    return since
