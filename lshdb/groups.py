"""What can be asked of an open index about all documents at once; ``Index`` inherits it.

Pairs are found anew each time. Clusters, deduplication and neighbours rest on verified edges that
are kept in the index and brought up to date first (``clustering.py``), which is the one question
that writes.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from lshdb.documents import MAX_DOCUMENT_BYTES, check_document_limit
from lshdb.errors import ParameterError
from lshdb.questions import Questions
from lshdb.search.candidates import LeftOut
from lshdb.search.links import MEMORY
from lshdb.search.pairs import Pair, PairSearch, find_pairs
from lshdb.search.verification import choose_method
from lshdb.storage.edges import EdgeState
from lshdb.storage.snapshot import Snapshot
from lshdb.threads import choose_workers
from lshdb.values import check_whole

if TYPE_CHECKING:
    from lshdb.filtering import Survivors
    from lshdb.search.clusters import Cluster
    from lshdb.search.deduplication import Decision
    from lshdb.search.neighbors import Neighbor

__all__ = ["Groups", "check_limits"]


class Groups(Questions):
    """Questions about all documents at once."""

    def pairs(
        self,
        *,
        threshold: float | None = None,
        verify: str | None = None,
        since: int | str | None = None,
        max_bucket: int | None = None,
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
        max_bucket : int, optional
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
            Its ``left_out`` says what ``max_bucket`` left out.

        Raises
        ------
        ParameterError, TextNotStoredError, DamageError
        SignaturesElsewhereError
            Verification by signatures that lie on another host; when the first pair is asked for.
        """
        threshold = self._asked_level(threshold, verify)
        choose_method(verify, self.params)
        check_limits(max_bucket, memory)
        workers = choose_workers(workers)
        left_out = LeftOut(max_bucket)

        def found() -> Iterator[Pair]:
            with self._store.reading() as snapshot:
                method = choose_method(verify, self.params, has_signatures=snapshot.has_signatures)
                pairs = find_pairs(
                    snapshot,
                    self._family,
                    threshold=threshold,
                    method=method,
                    since=_batch(snapshot, since),
                    most=max_bucket,
                    left_out=left_out,
                    memory=memory,
                    workers=workers,
                )
                yield from self._store.while_open(pairs)

        return PairSearch(found(), left_out, self.params, threshold)

    def update_clusters(
        self,
        *,
        threshold: float | None = None,
        verify: str | None = None,
        max_bucket: int | None = None,
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
        max_bucket : int, optional
            Buckets with more signatures than this are linked through leaders, in linear time, and
            not paired; 1,000 unless it was another number before. Another than before finds
            everything anew.
        lock_timeout : float
            Seconds to wait for another writer.
        memory, workers
            As for :meth:`pairs`.

        Returns
        -------
        EdgeState
            What the edges cover, and what was not compared.

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

    def clusters(
        self,
        *,
        threshold: float | None = None,
        min_size: int = 2,
        linkage: str = "component",
        update: bool = True,
        lock_timeout: float = 60.0,
    ) -> Iterator[Cluster]:
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

        Raises
        ------
        ParameterError
            Also where ``update`` is false and edges were never found so far down.
        LockedError, DatabaseError
        """
        from lshdb.search.clusters import LINKAGES, find_clusters

        if linkage not in LINKAGES:
            raise ParameterError(f"linkage is {linkage!r}; expected one of {', '.join(LINKAGES)}")
        check_whole("min_size", min_size, 2)
        level = self._asked_level(threshold)

        def found() -> Iterator[Cluster]:
            with self._linked(level, update, lock_timeout) as (snapshot, _):
                clusters = find_clusters(
                    snapshot, threshold=level, linkage=linkage, min_size=min_size
                )
                yield from self._store.while_open(clusters)

        return found()

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
    ) -> Iterator[Decision]:
        """For each document, whether to keep it, and if not, which one repeats it.

        A dropped document is verified to be similar to the one that is kept in its place, and no
        two that are kept are a verified pair.

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
            In the order in which the documents came in.

        Raises
        ------
        ParameterError, LockedError, DatabaseError
        """
        from lshdb.search.deduplication import ONLY, decide, decisions

        if only not in ONLY:
            raise ParameterError(f"only is {only!r}; expected one of {', '.join(ONLY)}")
        level = self._asked_level(threshold)

        def found() -> Iterator[Decision]:
            with self._linked(level, update, lock_timeout) as (snapshot, method):
                batch = _new_from(snapshot, against, since)
                chosen = decide(snapshot, threshold=level, keep=keep, since=batch)
                yield from self._store.while_open(decisions(snapshot, chosen, method, only=only))

        return found()

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
        from lshdb.filtering import FilterCounts, Survivors, field_values, surviving_lines
        from lshdb.search.deduplication import decide

        limit = check_document_limit(max_document_bytes)
        counts = FilterCounts()
        level = self._asked_level(threshold)

        def lines() -> Iterator[bytes]:
            with self._linked(level, update, lock_timeout) as (snapshot, _):
                values = field_values(snapshot, path, keep, key_field=key_field, limit=limit)
                chosen = decide(
                    snapshot,
                    threshold=level,
                    keep=keep,
                    since=_new_from(snapshot, against, since),
                    values=values,
                )
                found = surviving_lines(
                    snapshot, chosen, path, key_field=key_field, limit=limit, counts=counts
                )
                yield from self._store.while_open(found)

        return Survivors(lines(), counts)

    def neighbors(
        self,
        *,
        top: int = 10,
        threshold: float | None = None,
        update: bool = True,
        lock_timeout: float = 60.0,
    ) -> Iterator[Neighbor]:
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
            Those of a document together, the most similar first.

        Raises
        ------
        ParameterError, LockedError, DatabaseError
        """
        from lshdb.search.neighbors import find_neighbors

        check_whole("top", top, 1)
        level, best = self._asked_level(threshold), self.params.curve.best

        def found() -> Iterator[Neighbor]:
            with self._linked(level, update, lock_timeout) as (snapshot, method):
                near = find_neighbors(snapshot, threshold=level, best=best, method=method, top=top)
                yield from self._store.while_open(near)

        return found()

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
        from lshdb.clustering import update_clusters

        lowest = min(level, self.params.level)
        return update_clusters(self._store, self._family, threshold=lowest, **options)

    @contextmanager
    def _linked(
        self, level: float, update: bool, lock_timeout: float
    ) -> Iterator[tuple[Snapshot, str]]:
        """A snapshot with edges down to a level, and their method."""
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
            yield snapshot, state.method


def check_limits(max_bucket: int | None, memory: int = MEMORY) -> None:
    """Refuse limits that make no sense."""
    if max_bucket is not None:
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
