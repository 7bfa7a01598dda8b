"""Contract a graph by clusters: each node of a cluster becomes the document that names the cluster.

    file of links    -> sums of (source, target), sorted, on disk
    a round          -> look up every node by its key, some thousand at a time, and replace it
                     -> sums again, of fewer links

If nodes are hosts and the document of a host is its links, a round makes other hosts alike: two
hosts that linked to two mirrors now link to one host. So with ``repeat``, each later round makes
documents of the links that are left, in an index of its own, until one merges nothing.

Decided: links and replaced nodes are on disk (``disksort/sorted_rows.py``); memory holds some
thousand keys and, if hosts are documents, the links of one host and what the round's index holds
of each host. A replaced node has no links any more, so no later round replaces it again.
"""

from __future__ import annotations

import itertools
import os
import weakref
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, closing, contextmanager
from operator import itemgetter

import numpy as np
from numpy.typing import NDArray

from lshdb.arguments import check_choice
from lshdb.arrays import distinct
from lshdb.disksort.sorted_rows import Scratch, Sums
from lshdb.documents.document import (
    Document,
    Rejected,
)
from lshdb.documents.formats.delimited import read_links
from lshdb.errors import DamageError, IndexChangedError, LshdbError, ParameterError
from lshdb.groups.listing import LINKAGES, cluster_labels
from lshdb.groups.update import NO_CAP, edges_down_to, make_edges, ready_edges
from lshdb.params.index_params import IndexParams
from lshdb.phases.phase import counting
from lshdb.search.verification import MEMORY, asked_level
from lshdb.signatures.family import Family
from lshdb.storage.rows.edges import EdgeState
from lshdb.storage.transactions.index_state import IndexState, OpenIndex
from lshdb.threads import choose_workers
from lshdb.transient.transient_add import add_to_transient
from lshdb.transient.transient_store import TransientStore

__all__ = ["Contraction", "contract_links"]

_LINKS = 5000

Labels = Callable[[NDArray[np.int64]], tuple[NDArray[np.int64], NDArray[np.int64]]]


class Contraction(Iterator[tuple[str, str, int]]):
    """A contracted graph: its links, sorted by source and target, by code points.

    An iterator of (source, target, count), and a context manager. Temporary files hold it; they are
    removed when it is closed or freed.

    Attributes
    ----------
    n_read : int
        Lines of the file that are a link.
    rejected : int
        Lines that are not a link.
    merged : tuple of int
        How many nodes each round replaced. With ``repeat``, the last number is 0.
    """

    def __init__(self, n_read: int, rejected: int) -> None:
        self.n_read = n_read
        self.rejected = rejected
        self.merged: tuple[int, ...] = ()
        self._links: Sums
        self._replaced = Scratch()
        self._rows: Iterator[tuple[str, str, int]] | None = None
        self._files = ExitStack()
        self._close = weakref.finalize(self, self._files.close)

    @property
    def rounds(self) -> int:
        """The number of rounds."""
        return len(self.merged)

    @property
    def mapping(self) -> Iterator[tuple[str, str]]:
        """Every replaced node with its final replacement, sorted by node."""
        return ((node, last) for node, last, _ in self._replaced)

    def __next__(self) -> tuple[str, str, int]:
        if self._rows is None:
            self._rows = iter(self._links)
        return next(self._rows)

    def close(self) -> None:
        """Remove the temporary files; no links are left to read."""
        self._close()

    def __enter__(self) -> Contraction:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def _hold(self, links: Sums, replaced: Scratch) -> None:
        """Replace the result of the round before by that of this one."""
        self._files.close()
        self._links = self._files.enter_context(links)
        self._replaced = self._files.enter_context(replaced)


def contract_links(
    store: OpenIndex,
    family: Family,
    path: str | os.PathLike[str],
    *,
    threshold: float | None,
    linkage: str,
    repeat: bool,
    drop_loops: bool,
    update: bool,
    lock_timeout: float,
    on_reject: Callable[[Rejected], None] | None,
) -> Contraction:
    """Contract a file of links; see :meth:`lshdb.Index.contract`."""
    params, level = store.params, asked_level(store, threshold)
    check_choice("linkage", linkage, LINKAGES)
    if repeat:
        _check_sets(params)
    ready_edges(store, family, level, update=update, lock_timeout=lock_timeout)
    result = _read(path, on_reject)
    try:
        with store.reading() as snapshot:
            state = edges_down_to(store, snapshot, level)
            labels = cluster_labels(snapshot, threshold=level, linkage=linkage)
            _fold(result, snapshot, labels, drop_loops)
        while repeat and result.merged[-1]:
            with _clustered(result._links, family, state, level) as snapshot:
                labels = cluster_labels(snapshot, threshold=level, linkage=linkage)
                _fold(result, snapshot, labels, drop_loops)
    except IndexChangedError as error:  # the file may be a pipe that cannot be read again
        result.close()
        raise LshdbError(error.message, hint="contract the file again") from error
    except BaseException:
        result.close()
        raise
    return result


def _check_sets(params: IndexParams) -> None:
    is_dense = params.kind.is_dense
    if is_dense or params.unit not in ("token", "word") or params.k != 1 or params.bag:
        kind = "bags" if params.bag else "sets"
        of_texts = f"{kind} of shingles of unit {params.unit}, k {params.k}"
        raise ParameterError(
            "repeat takes the links of a host as its document, a set of single tokens; this index "
            f"compares {f'bodies by {params.metric}' if is_dense else of_texts}",
            hint="make the index with --unit token --k 1, and give each host its links as tokens",
        )


def _read(
    path: str | os.PathLike[str], on_reject: Callable[[Rejected], None] | None
) -> Contraction:
    n_read = rejected = 0
    links = Sums()
    try:
        for item in counting(read_links(path), "links"):
            if isinstance(item, Rejected):
                rejected += 1
                if on_reject is not None:
                    on_reject(item)
            else:
                n_read += 1
                links.put(*item)
    except BaseException:
        links.close()
        raise
    result = Contraction(n_read, rejected)
    result._hold(links, Scratch())
    return result


def _fold(result: Contraction, snapshot: IndexState, labels: Labels, drop_loops: bool) -> None:
    """Do one round: replace every node of the links by its representative."""
    before = result._replaced.count()
    with ExitStack() as on_error:
        links, replaced = Sums(), Scratch()
        on_error.callback(links.close)
        on_error.callback(replaced.close)
        for chunk in _chunks(result._replaced):
            last = _representatives(snapshot, labels, {row[1] for row in chunk})
            for node, representative, number in chunk:
                replaced.put(node, last.get(representative, representative), number)
        for chunk in _chunks(result._links):
            nodes = {row[0] for row in chunk}
            nodes.update(row[1] for row in chunk)
            last = _representatives(snapshot, labels, nodes)
            for node, representative in last.items():
                replaced.put(node, representative, result.rounds + 1)
            for source, target, count in chunk:
                source, target = last.get(source, source), last.get(target, target)
                if not (drop_loops and source == target):
                    links.put(source, target, count)
        result.merged += (replaced.count() - before,)
        on_error.pop_all()
    result._hold(links, replaced)


def _representatives(snapshot: IndexState, labels: Labels, nodes: set[str]) -> dict[str, str]:
    """Return node to representative, for the nodes that have another representative."""
    signatures = snapshot.signatures_of_keys(nodes)
    members, doc_ids = labels(distinct(np.array(list(signatures.values()), dtype=np.int64)))
    keys = snapshot.keys_of(distinct(doc_ids))
    try:
        names = {
            signature_id: keys[doc_id]
            for signature_id, doc_id in zip(members.tolist(), doc_ids.tolist(), strict=True)
        }
    except KeyError as error:
        raise DamageError(
            f"a cluster is named after document {error}, which does not exist",
            hint="run lshdb check",
        ) from error
    return {
        node: names[signature_id]
        for node, signature_id in signatures.items()
        if names.get(signature_id, node) != node
    }


@contextmanager
def _clustered(
    links: Sums, family: Family, state: EdgeState, threshold: float
) -> Iterator[IndexState]:
    """Find the clusters of the links: a document for each source, of its targets."""
    with closing(TransientStore(family.params)) as store:
        add_to_transient(
            store, _hosts(links), family,
            max_errors=0, workers=None, on_reject=None, on_commit=None,
        )  # fmt: skip
        with store.reading() as round_state:
            make_edges(
                store, round_state.edges, round_state, family,
                threshold=threshold, verify=state.method,
                max_bucket=NO_CAP if state.max_bucket is None else state.max_bucket,
                memory=MEMORY, workers=choose_workers(None),
            )  # fmt: skip
            yield round_state


def _hosts(links: Sums) -> Iterator[Document]:
    """Yield a document for each source: its targets except itself, sorted; none without any."""
    for source, rows in itertools.groupby(links, key=itemgetter(0)):
        targets = [target for _, target, _ in rows if target != source]
        if targets:
            yield Document(source, targets)


def _chunks(rows: Iterable[tuple[str, str, int]]) -> Iterator[list[tuple[str, str, int]]]:
    iterator = iter(rows)
    while chunk := list(itertools.islice(iterator, _LINKS)):
        yield chunk
